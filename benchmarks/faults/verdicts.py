"""From what happened in a trial to the words in the tables. Nothing is judged by hand."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from benchmarks.faults.diary import Stage
from benchmarks.faults.faults import Fault, fault_named
from benchmarks.faults.judge import PATIENCE
from benchmarks.faults.records import Record

Grade = Literal["good", "fair", "bad"]

PROMPT_SECONDS = 10.0
"""What takes longer is said to."""
_LONGEST = 110


class Verdict(NamedTuple):
    """What became of one part of a trial."""

    grade: Grade
    short: str
    full: str


NOT_DONE = Verdict("good", "", "")


class Verdicts(NamedTuple):
    """What became of a trial."""

    rollout: Verdict
    answer: Verdict
    """Of what the caller did about an error; empty if there was none."""
    close: Verdict
    answered_by: str = ""

    @property
    def grade(self) -> Grade:
        grades = {self.rollout.grade, self.answer.grade, self.close.grade}
        return "bad" if "bad" in grades else "fair" if "fair" in grades else "good"

    @property
    def short(self) -> str:
        """All of it in a few words; a close that did what it should is not mentioned."""
        answer = f"{self.answered_by}: {self.answer.short}" if self.answer.short else ""
        return ", ".join(part for part in (self.rollout.short, answer, self.close.short) if part)


def judge(record: Record) -> Verdicts:
    fault = fault_named(record.fault)
    if record.problem is not None:
        return Verdicts(Verdict("bad", "no result", f"no result: {record.problem}"), NOT_DONE, NOT_DONE)
    if fault.origin == "parent":
        return Verdicts(_orphans(record), NOT_DONE, NOT_DONE)
    if not record.fired and fault.origin != "nobody" and fault.leak is None:
        return Verdicts(Verdict("bad", "no result", "no result: the fault did not happen"), NOT_DONE, NOT_DONE)
    rollout = _rollout(record, fault, record.stepping, Stage.STEPPING)
    answer = NOT_DONE
    if "error" in record.stepping and Stage.STEPPING.value not in record.hung:
        answer = _rollout(record, fault, record.answering, Stage.ANSWERING)
    return Verdicts(rollout, answer, _close(record), fault.answer)


def _rollout(record: Record, fault: Fault, found: dict[str, Any], stage: Stage) -> Verdict:
    if stage.value in record.hung:
        return Verdict("bad", "hangs", f"hangs (> {PATIENCE[stage]:.0f} s)")
    if "error" in found:
        late = f" after {found['seconds']:.0f} s" if found["seconds"] > PROMPT_SECONDS else ""
        before = "wrong data, then " if found["differences"] and stage is Stage.STEPPING else ""
        printed = record.cause_in_log and fault.cause not in found["error"] and stage is Stage.STEPPING
        note = " (the reason is printed, not raised)" if printed else ""
        full = f"{before}error{late}: `{_shortened(found['error'])}`{note}"
        return Verdict("bad" if before else "fair", f"{before}error", full)
    note = f", its process has {found['megabytes']} MB in the end" if fault.leak else ""
    if found["seconds"] > PROMPT_SECONDS:
        note += f", takes {found['seconds']:.0f} s"
    if not found["differences"]:
        return Verdict("good", f"identical{note}", f"goes on, identical{note}")
    verdict = _different(found["differences"])
    return Verdict(verdict.grade, verdict.short + note, verdict.full + note)


def _different(differences: dict[str, dict[str, Any]]) -> Verdict:
    if set(differences) == {"missing"}:
        left_out = differences["missing"]
        if left_out["times"] == 1:
            full = f"goes on; {_environments(left_out)} is left out of step {left_out['step']}"
            return Verdict("fair", "left out of a step", full)
        full = f"goes on without {_environments(left_out)} from step {left_out['step']}"
        return Verdict("fair", "goes on without it", full)
    first = min(found["step"] for found in differences.values())
    concerned = sorted({env_id for found in differences.values() for env_id in found["env_ids"]})
    ended = differences.get("truncated")
    if ended is not None and ended["step"] == first and ended["env_ids"] == concerned:
        where = _environments({"env_ids": concerned})
        return Verdict("fair", "episode truncated", f"goes on; the episode of {where} ends truncated in step {first}")
    details = []
    for name, found in differences.items():
        remark = f" ({found['remark']})" if found["remark"] else ""
        details.append(f"{name} of {_environments(found)} from step {found['step']}{remark}")
    return Verdict("bad", "wrong data", f"goes on, wrong data: {'; '.join(details)}")


def _environments(found: dict[str, Any]) -> str:
    numbers = [str(env_id) for env_id in found["env_ids"]]
    if len(numbers) == 1:
        return f"environment {numbers[0]}"
    return f"environments {', '.join(numbers[:-1])} and {numbers[-1]}"


def _close(record: Record) -> Verdict:
    if Stage.CLOSING.value in record.hung:
        return Verdict("bad", "close hangs", f"hangs (> {PATIENCE[Stage.CLOSING]:.0f} s)")
    found = record.closing
    if not found:
        return Verdict("bad", "no Ctrl-C", "not reached: Ctrl-C does not end the wait")
    grade: Grade = "good"
    short, full = [], []
    late = found["seconds"] > PROMPT_SECONDS
    if "error" in found:
        grade = "fair"
        short.append("close fails")
        full.append(f"error: `{_shortened(found['error'])}`")
    else:
        full.append(f"returns after {found['seconds']:.0f} s" if late else "returns")
    if late:
        grade = "fair"
        short.append(f"close takes {found['seconds']:.0f} s")
    if found["left"]:
        grade = "bad"
        short.append(f"leaves {_processes(found['left'])}")
        full.append(f"leaves {_processes(found['left'])}")
    if Stage.EXITING.value in record.hung:
        grade = "bad"
        short.append("no exit")
        full.append(f"the calling process does not end (> {PATIENCE[Stage.EXITING]:.0f} s)")
    elif record.left_after_exit:
        grade = "bad"
        short.append(f"{record.left_after_exit} outlive it")
        full.append(f"{_processes(record.left_after_exit)} left when the calling process has ended")
    return Verdict(grade, ", ".join(short), ", ".join(full))


def _orphans(record: Record) -> Verdict:
    if not record.left_at_first:
        return Verdict("good", "nothing left", "nothing left after 1 s")
    before = f"leaves {record.left_at_first} of {_processes(record.processes)} after 1 s"
    if not record.left_in_the_end:
        return Verdict("fair", "nothing left after 10 s", f"{before}, none after 10 s")
    short = f"leaves {_processes(record.left_in_the_end)}"
    return Verdict("bad", short, f"{before}, {record.left_in_the_end} after 10 s")


def _processes(number: int) -> str:
    return "1 process" if number == 1 else f"{number} processes"


def _shortened(text: str) -> str:
    # Inside a code span of a table, neither of these may stand.
    text = text.replace("`", "'").replace("|", "/")
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1].rstrip() + "…"

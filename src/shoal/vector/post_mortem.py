"""What is known of a worker that is gone, in words.

::

    worker 1 (pid 4711) was killed by SIGSEGV while in step(), at environment 2.
      Likely cause: a crash in native code, such as a library that the environment uses.
      Where: seed 7, episode 4, step 212, action 3.
      Memory: 310 MB at most.
      It ran environments 2 to 3 of 4.
      It was here:
        File "/home/me/game.py", line 31 in step
      It printed last:
        loading level 12
      What to do: run the same environment with backend="serial" and a debugger.

A line of which nothing is known is left out.
"""

from __future__ import annotations

import re
import signal
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

from shoal.vector.journal import Journal
from shoal.vector.layout import Arena
from shoal.vector.loose import singly
from shoal.vector.messages import Death, Op
from shoal.vector.observations import shortened

MAX_LINES = 10
MAX_WIDTH = 200


class Whereabouts(NamedTuple):
    """How far an environment had got."""

    seed: int | None = None
    episode: int | None = None
    step: int | None = None
    """Counted from 1."""
    action: Any = None

    def __str__(self) -> str:
        known = [f"{name} {value}" for name, value in self._asdict().items() if value is not None and name != "action"]
        if self.action is not None:
            known.append(f"action {shortened(self.action)}")
        return ", ".join(known)


class LastWords(NamedTuple):
    """What a worker has left behind."""

    stack: str = ""
    """In which it crashed: the environment's part of it."""
    printed: str = ""
    """The last that it printed to its error output."""


def describe_death(
    death: Death,
    doing: str,
    rows: range,
    num_envs: int,
    *,
    words: LastWords | tuple[str, str] = ("", ""),
    where: Whereabouts | None = None,
    late: str = "",
) -> str:
    """What happened, the likely cause, whom it concerns and what to do. ``late`` says why it was ended, if it was."""
    stack, printed = words
    if late:
        lines = [late, f"  Its worker {death.worker} (pid {death.pid}) was ended."]
    elif death.babble:
        lines = [
            f"worker {death.worker} (pid {death.pid}) has sent {death.babble}. It was ended while {doing}.",
            "  Likely cause: the environment, or a library it uses, writes into descriptors that are not its own.",
        ]
    elif death.has_hung_up:
        lines = [
            f"worker {death.worker} (pid {death.pid}) closed its connection to this process while {doing}, so it was ended.",
            "  Likely cause: the environment, or a library it uses, closed descriptors that are not its own (os.closerange()).",
        ]
    else:
        lines = [
            f"worker {death.worker} (pid {death.pid}) {_cause_of_death(death.exit_code)} while {doing}.",
            f"  Likely cause: {_likely_cause(death)}",
        ]
    if where is not None and str(where):
        lines.append(f"  Where: {where}.")
    if death.peak_memory is not None and not late and not death.babble:
        lines.append(f"  Memory: {in_words(death.peak_memory)} at most.")
    lines.append(f"  It ran environments {rows.start} to {rows.stop - 1} of {num_envs}.")
    if stack and not late:
        lines += ["  It was here:", _indented(stack)]
    if printed:
        lines += ["  It printed last:", _indented(_last_lines(printed))]
    if death.has_hung_up and not late:
        lines.append("  What to do: let the environment close only what it has opened.")
    else:
        lines.append(f"  What to do: {_advice(None if death.babble else death.exit_code, late)}")
    return "\n".join(lines)


def last_words_of(backend: Any, worker: int) -> LastWords:
    """What a worker of this backend has left behind, if there is such a thing."""
    read = getattr(backend, "last_words", None)
    return LastWords() if read is None else LastWords(*read(worker))


def whereabouts_of(journal: Journal, arena: Arena, worker: int, row: int | None) -> Whereabouts | None:
    """How far an environment had got, as far as the journal goes back."""
    if row is None or not arena.origins.size:
        return None
    began, episode, seed_word = arena.origins[row, :3].tolist()
    steps = [
        one
        for one in journal.rounds
        if one.op in (Op.STEP, Op.STEP_EACH) and one.sequence > began and _concerns(one.command_to(worker), row)
    ]
    base = journal.bases.get(worker)
    action: Any = None
    if steps and not steps[-1].has_answered(worker) and row not in steps[-1].done:
        leaves = [array[0] for array in journal.actions_of(steps[-1], worker, [row])]
        command = steps[-1].command_to(worker)
        if command is not None and command.payload is not None:
            leaves += [value for its_row, _, value in singly(command.payload.loose) if its_row == row]
        action = leaves[0] if len(leaves) == 1 else leaves or None
    return Whereabouts(
        seed=seed_word - 1 if seed_word else None,
        episode=episode,
        # The steps before a captured state are not in the journal any more.
        step=len(steps) if steps and (base is None or base[0] <= began) else None,
        action=action.tolist() if hasattr(action, "tolist") else action,
    )


def _concerns(command: Any, row: int) -> bool:
    return command is not None and (command.payload is None or row in command.payload.rows)


def _last_lines(text: str) -> str:
    return "\n".join(line[:MAX_WIDTH] for line in text.strip().splitlines()[-MAX_LINES:])


def _indented(text: str) -> str:
    return textwrap.indent(text, "    ")


def in_words(nbytes: int) -> str:
    """An amount of memory."""
    return f"{nbytes / 2**30:.1f} GB" if nbytes >= 2**30 else f"{nbytes // 2**20} MB"


def _cause_of_death(exit_code: int | None) -> str:
    if exit_code is None:
        return "ended, and nobody knows how,"
    if exit_code < 0:
        return f"was killed by {_name_of(-exit_code)}"
    return f"ended by itself with exit code {exit_code}"


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _likely_cause(death: Death) -> str:
    code = death.exit_code
    if code is None:
        return (
            "not known; the process that would have been told how it ended is gone too, or another part of this program "
            "has waited for all its children."
        )
    if code >= 0:
        return "the environment, or a library it uses, called exit() or os._exit()."
    if code == -signal.SIGKILL:
        return _why_killed()
    causes = {
        signal.SIGSEGV: "a crash in native code, such as a library that the environment uses, or a recursion without end.",
        signal.SIGABRT: "native code gave up; it often prints why.",
        signal.SIGBUS: "memory-mapped data that is no longer there, such as a full or truncated file.",
        signal.SIGILL: "native code that was built for another processor.",
        signal.SIGFPE: "native code divided by zero.",
        signal.SIGXCPU: "it has used all the processor time that it may (ulimit -t).",
        signal.SIGTERM: "somebody asked it to end; a job scheduler does that.",
        signal.SIGALRM: "an alarm that the environment has set, and that nobody handles.",
    }
    return causes.get(-code, "somebody, or the environment itself, sent that signal.")  # type: ignore[call-overload, no-any-return]


class OomKills:
    """How many processes the system has ended for want of memory, so that one more can be told."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._seen = self._count()

    def has_grown(self) -> bool | None:
        """Whether there have been more since this was last asked; ``None`` where that cannot be told, or not now."""
        before, now = self._seen, self._count()
        if before is None or now is None:
            return None
        self._seen = now
        return now > before

    def _count(self) -> int | None:
        """Of the control group of this process, or of the whole machine."""
        try:
            group = (self._root / "proc/self/cgroup").read_text().rpartition("0::/")[2].strip()
        except OSError:
            group = ""
        for path in (f"sys/fs/cgroup/{group}/memory.events", "sys/fs/cgroup/memory.events", "proc/vmstat"):
            try:
                found = re.search(r"^oom_kill (\d+)$", (self._root / path).read_text(), re.MULTILINE)
            except OSError:
                continue
            if found:
                return int(found[1])
        return None


_oom_kills = OomKills()


def _why_killed() -> str:
    has_grown = _oom_kills.has_grown()
    if has_grown is None:
        return "out of memory (the system log says so), or somebody killed it."
    if has_grown:
        return "out of memory: the system has ended a process for want of it."
    return "somebody killed it. The system has ended nothing for want of memory."


def _advice(exit_code: int | None, late: str) -> str:
    if late:
        return "raise the timeout, or find out what the environment waits for."
    if exit_code == -signal.SIGKILL:
        return "if it is memory: use fewer workers, or max_worker_memory= to replace them before they grow too large."
    if exit_code is not None and exit_code < 0:
        return 'run the same environment alone, with backend="serial" and a debugger.'
    return 'look at what it printed, or run the same environment with backend="serial".'

"""What a check found, in words: one sentence for each kind of bug, with what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

Severity = Literal["error", "note"]

SENTENCES: dict[str, str] = {
    "factory-unpicklable": (
        "The factory cannot be sent to a worker process ({what}): create what it refers to inside the factory."
    ),
    "cannot-be-made": (
        "Making the environment {what}: its factory has to work in a process in which nothing has been prepared."
    ),
    "raises": "{place} {what}: an environment has to take every seed and every action of its action space.",
    "died": "{place} ended the whole process ({what}): an environment has to raise an exception instead.",
    "too-slow": ("{place} has not returned after {what}: find out what it waits for, or pass a larger call_timeout."),
    "check-too-slow": (
        "The check was stopped after {what}: pass fewer steps, seeds or num_envs, or a larger total_timeout."
    ),
    "wrong-result": (
        "{place}: {what}; reset() returns observation and info, step() observation, reward, terminated, truncated and info."
    ),
    "observation-outside-space": (
        "{place} returned an observation that is not in the observation space ({what}): correct the one or the other."
    ),
    "reward-not-a-number": "{place} returned a reward that is not a number ({what}): return a float.",
    "flag-not-a-bool": "{place} returned a flag that is not a bool ({what}): wrap it in bool(...).",
    "info-not-a-dict": "{place} returned an info that is not a dictionary ({what}): return {{}} if there is nothing to say.",
    "info-unpicklable": (
        "{place} returned an info that cannot be pickled ({what}), so no worker process can send it: "
        "put plain values into it."
    ),
    "info-changed-by-pickling": (
        "{place} returned an info that pickling changes ({what}), so it differs between backends: "
        "put plain values into it, or correct its __reduce__ or __getstate__."
    ),
    "seed-ignored": (
        "{place} gives different results for equal seeds, because it does not seed np_random: "
        "begin reset() with super().reset(seed=seed), and draw from self.np_random."
    ),
    "not-deterministic": (
        "Equal seeds and actions give different results, first in {what} at {place}: draw all random numbers from "
        "self.np_random, and let nothing depend on a clock, on an object's address or on other programs."
    ),
    "info-not-deterministic": (
        "Equal seeds and actions give different infos, first in {what} at {place}, and the same in all else: "
        "if that is a clock it does no harm, but infos cannot be compared bit by bit."
    ),
    "global-rng": (
        "Results depend on the global random numbers of {what}, and so on who shares the worker: "
        "draw from self.np_random, or pass isolate_rng=True."
    ),
    "global-rng-touched": (
        "{place} changes the global random numbers of {what}, though its own results do not depend on them: "
        "others in the same process are disturbed, so draw from self.np_random, or pass isolate_rng=True."
    ),
    "hash-order": (
        "Results depend on the order of hashes (PYTHONHASHSEED), first in {what} at {place}: "
        "sort sets of texts before going through them, and do not use hash()."
    ),
    "shared-state": (
        "Environments of one process share state, so results depend on who shares the worker, first in {what} at {place}: "
        "keep what changes in self, not in class attributes, module globals or default arguments."
    ),
    "backends-differ": (
        "On {what} results differ from those of an environment that runs alone, for a reason that no other check found: "
        "look for threads, signals, process ids or environment variables, and if there are none, report it to Shoal."
    ),
    "backend-raises": "{what} raised an exception, though an environment that runs alone did not: see the details.",
    "reused-buffer": (
        "The {what} that {place} returned is changed by a later call: Shoal copies, but other code may not, "
        "so return a copy."
    ),
    "reset-depends-on-past": (
        "reset(seed=...) in mid-life starts otherwise than a new environment with that seed, first in {what} at {place}: "
        "set everything anew in reset(), or an episode cannot be replayed by itself."
    ),
}
"""What is said of each kind."""

NOTES = frozenset(["global-rng-touched", "info-not-deterministic", "reused-buffer", "reset-depends-on-past"])


class Check(NamedTuple):
    """One thing that is checked."""

    stage: str
    """When it has been checked: some are not, if others have failed."""
    title: str
    """What is so if nothing was found."""
    kinds: frozenset[str]
    """Which findings say that it is not so."""


def _check(stage: str, title: str, *kinds: str) -> Check:
    return Check(stage, title, frozenset(kinds))


CHECKS = (
    _check(
        "run", "can be sent to a worker, made, reset and stepped",
        "factory-unpicklable", "cannot-be-made", "raises", "died", "too-slow", "check-too-slow", "wrong-result",
    ),
    _check(
        "alone", "keeps Gymnasium's contract",
        "observation-outside-space", "reward-not-a-number", "flag-not-a-bool", "info-not-a-dict",
    ),
    _check("alone", "infos survive the way out of a worker", "info-unpicklable", "info-changed-by-pickling"),
    _check("alone", "what it returned stays as it was", "reused-buffer"),
    _check(
        "repeat", "equal seeds and actions give equal results",
        "seed-ignored", "not-deterministic", "info-not-deterministic",
    ),
    _check("causes", "leaves global random numbers alone", "global-rng", "global-rng-touched"),
    _check("causes", "does not depend on the order of hashes", "hash-order"),
    _check("sharing", "environments of one process are independent", "shared-state"),
    _check("past", "a reset with a seed starts afresh", "reset-depends-on-past"),
    _check("backends", "the same on every backend", "backends-differ", "backend-raises"),
)  # fmt: skip
"""What is checked, in this order."""


@dataclass(frozen=True)
class Finding:
    """One bug, or something to know."""

    kind: str
    """Which, as one of the keys of ``SENTENCES``."""
    severity: Severity
    """``"error"`` if results differ or the contract is broken, ``"note"`` if it does no harm here."""
    message: str
    """One sentence: what is wrong, and what to do."""
    detail: str = ""
    """The values, the traceback, or the stack."""

    @classmethod
    def of(cls, kind: str, *, place: str = "", what: str = "", detail: str = "") -> Finding:
        """A finding with its sentence."""
        sentence = SENTENCES[kind].format(place=place, what=what)
        if not sentence.startswith("reset("):
            sentence = sentence[:1].upper() + sentence[1:]
        return cls(kind, "note" if kind in NOTES else "error", sentence, detail.strip())

    def __str__(self) -> str:
        return f"{self.severity} ({self.kind}): {self.message}"


class CheckFailed(AssertionError):
    """An environment has bugs; :attr:`report` says which."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report

    def __reduce__(self) -> tuple[type[CheckFailed], tuple[Report]]:
        return type(self), (self.report,)


@dataclass(frozen=True)
class Report:
    """What :func:`shoal.testing.check_parallel` found."""

    env: str
    """The environment, as it was named."""
    findings: tuple[Finding, ...]
    """Errors first."""
    done: frozenset[str]
    """The stages of ``CHECKS`` that were carried out. Some are not if others have failed."""
    steps: int
    """How many steps each run had; fewer than asked for if the environment is slow or its observations large."""
    seeds: tuple[int, ...]
    compared: str
    """With what lone environments were compared: backends, numbers of environments and of workers. Empty if with none."""
    seconds: float
    """How long it took."""

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What has to be mended."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def notes(self) -> tuple[Finding, ...]:
        """What is worth knowing."""
        return tuple(finding for finding in self.findings if finding.severity == "note")

    @property
    def ok(self) -> bool:
        """Whether there are no errors."""
        return not self.errors

    def raise_if_bad(self) -> None:
        """Raise :class:`CheckFailed` if there are errors."""
        if not self.ok:
            raise CheckFailed(self)

    def __str__(self) -> str:
        count = f"{_counted(len(self.errors), 'error')}, {_counted(len(self.notes), 'note')}"
        lines = [f"{self.env}: {count} ({_counted(self.steps, 'step')}, seeds {', '.join(map(str, self.seeds))})"]
        for finding in self.findings:
            lines.append(f"  {finding}")
            lines.extend(f"      {line}" for line in finding.detail.splitlines())
        if self.compared:
            lines.append(f"  Lone environments were compared with {self.compared}.")
        else:
            lines.append("  The backends were not compared, because of the errors.")
        return "\n".join(lines)


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Errors first, otherwise as they were found."""
    return tuple(sorted(findings, key=lambda finding: finding.severity != "error"))


def _counted(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"

"""``Fault``: what goes wrong, in which environment, and when."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

import numpy as np

from shoal.vector.errors import ConfigurationError

Kind = Literal[
    "kill", "segfault", "abort", "exit", "stop", "hang", "hang with GIL", "slow", "raise", "wrong shape", "nan reward",
    "large info",
]  # fmt: skip
Phase = Literal["construct", "reset", "before step", "after step"]

KINDS: tuple[str, ...] = get_args(Kind)
PHASES: tuple[str, ...] = get_args(Phase)
ENDS_PROCESS = frozenset(("kill", "segfault", "abort", "exit", "stop", "hang", "hang with GIL"))
"""After these, the process that runs the environment is of no use any more."""
CHANGES_RESULT: dict[str, tuple[str, ...]] = {
    "wrong shape": ("after step", "reset"),
    "nan reward": ("after step",),
    "large info": ("after step", "reset"),
}
"""Needs something to change: in which phases there is."""
DETAILS: dict[str, tuple[str, Any]] = {
    "code": ("exit", 1),
    "seconds": ("slow", 1.0),
    "error": ("raise", None),
    "nbytes": ("large info", 2**20),
}
"""Arguments that only one kind has, and what they are if nobody says."""


@dataclass(frozen=True, repr=False)
class Fault:
    """One thing that goes wrong.

    ============== ============================================================================================
    kind           what happens
    ============== ============================================================================================
    kill           the process kills itself with SIGKILL, as the system does when memory runs out
    segfault       it reads memory that is not there
    abort          it aborts, as after a failed assertion in C
    exit           it ends at once, with the exit code ``code``
    stop           it stops itself with SIGSTOP
    hang           it sleeps for ever
    hang with GIL  it computes for ever, and lets no other thread of its process run
    slow           it sleeps for ``seconds``, and goes on
    raise          ``error`` is raised
    wrong shape    the observation has another shape than it should have
    nan reward     the reward is not a number
    large info     the info has an entry ``"large_info"`` of ``nbytes`` bytes
    ============== ============================================================================================
    """

    kind: Kind
    env: int = field(kw_only=True)
    """Which environment: its place among the factories that :meth:`FaultPlan.wrap` returns."""
    episode: int = field(default=0, kw_only=True)
    """Which of its episodes, counted from 0."""
    step: int | None = field(default=None, kw_only=True)
    """Which step of the episode, counted from 1. There is none for the phases ``"construct"`` and ``"reset"``."""
    phase: Phase | None = field(default=None, kw_only=True)
    """``"construct"`` and ``"reset"``: before the environment is made, or reset. ``"before step"``: before it takes the step.
    ``"after step"``: it has taken the step, but nobody has the result yet. By default before the step; after it where the
    result is what goes wrong."""
    times: int = field(default=1, kw_only=True)
    """How often."""
    every_time: bool = field(default=False, kw_only=True)
    """Whether it happens however often the environment gets there: a step that kills whoever takes it."""
    after: int = field(default=0, kw_only=True)
    """How often the environment gets there unharmed before. With ``after=1`` a replacement dies while it replays the
    step, or, with ``phase="construct"``, while it makes the environment."""
    code: int | None = field(default=None, kw_only=True)
    """Of ``"exit"``; 1 by default."""
    seconds: float | None = field(default=None, kw_only=True)
    """Of ``"slow"``; 1 by default."""
    error: BaseException | type[BaseException] | None = field(default=None, kw_only=True)
    """Of ``"raise"``; a ``RuntimeError`` by default."""
    nbytes: int | None = field(default=None, kw_only=True)
    """Of ``"large info"``; 1 MiB by default."""

    def __post_init__(self) -> None:
        _one_of("kind", self.kind, KINDS)
        _whole("env", self.env, least=0)
        _whole("episode", self.episode, least=0)
        _whole("times", self.times, least=1)
        _whole("after", self.after, least=0)
        self._settle_phase()
        self._settle_step()
        if self.every_time and self.times != 1:
            raise ConfigurationError(
                f"times={self.times} and every_time=True contradict each other: leave one of them out"
            )
        for name, (kind, default) in DETAILS.items():
            if getattr(self, name) is None:
                if kind == self.kind:
                    object.__setattr__(self, name, default)
            elif kind != self.kind:
                raise ConfigurationError(f"{name} is for faults of the kind {kind!r}, and this one is {self.kind!r}")
        self._check_details()

    def _settle_phase(self) -> None:
        possible = CHANGES_RESULT.get(self.kind)
        if self.phase is None:
            object.__setattr__(self, "phase", possible[0] if possible else "before step")
        _one_of("phase", self.phase, PHASES)
        if possible and self.phase not in possible:
            raise ConfigurationError(
                f"a fault of the kind {self.kind!r} changes a result, and there is none in the phase {self.phase!r}: "
                f"choose {' or '.join(map(repr, possible))}"
            )

    def _settle_step(self) -> None:
        if self.phase in ("construct", "reset"):
            if self.step not in (None, 0):
                raise ConfigurationError(f"there are no steps in the phase {self.phase!r}: leave step={self.step} out")
            if self.phase == "construct" and self.episode:
                raise ConfigurationError(
                    f"there are no episodes in the phase 'construct': leave episode={self.episode} out"
                )
            object.__setattr__(self, "step", 0)
            return
        if self.step is None:
            raise ConfigurationError(f"a fault in the phase {self.phase!r} needs a step, such as step=1 for the first")
        if self.step == 0:
            raise ConfigurationError('step=0: steps are counted from 1; for the reset, pass phase="reset"')
        _whole("step", self.step, least=1)

    def _check_details(self) -> None:
        if self.code is not None and (not _is_whole(self.code) or not 0 <= self.code <= 255):
            raise ConfigurationError(f"code must be a whole number from 0 to 255, got {self.code!r}")
        if self.seconds is not None and not (
            isinstance(self.seconds, int | float) and 0 <= self.seconds < float("inf")
        ):
            raise ConfigurationError(f"seconds must be a number of at least 0, got {self.seconds!r}")
        if self.nbytes is not None:
            _whole("nbytes", self.nbytes, least=0)
        is_class = isinstance(self.error, type) and issubclass(self.error, BaseException)
        if self.error is not None and not is_class and not isinstance(self.error, BaseException):
            raise ConfigurationError(f"error must be an exception, or a class of exceptions, got {self.error!r}")

    @property
    def ends_process(self) -> bool:
        """Whether the process is of no use afterwards."""
        return self.kind in ENDS_PROCESS

    @property
    def changes_result(self) -> bool:
        """Whether it is the result of a step or of a reset that goes wrong."""
        return self.kind in CHANGES_RESULT

    @property
    def belongs_to_history(self) -> bool:
        """Whether whoever repeats what happened has to repeat this too: it was part of what the caller was told."""
        return self.phase != "construct" and (self.kind == "raise" or self.changes_result)

    def __repr__(self) -> str:
        parts = [repr(self.kind)]
        for one in fields(self)[1:]:
            value = getattr(self, one.name)
            detail = DETAILS.get(one.name)
            default = detail[1] if detail else one.default
            is_said = value is not None and value != default
            if one.name == "step":
                is_said = bool(value)
            elif one.name == "phase":
                is_said = value != CHANGES_RESULT.get(self.kind, ("before step",))[0]
            if is_said:
                parts.append(f"{one.name}={value!r}")
        return f"Fault({', '.join(parts)})"


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _whole(name: str, value: Any, least: int) -> None:
    if not _is_whole(value) or value < least:
        raise ConfigurationError(f"{name} must be a whole number of at least {least}, got {value!r}")


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value in allowed:
        return
    near = difflib.get_close_matches(str(value).replace("_", " ").replace("-", " "), allowed, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ConfigurationError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}.{hint}")

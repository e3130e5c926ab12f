"""One environment, run alone, and everything it returned: what every other way to run it is compared with.

A run is what a vector environment would make of this one environment: it is reset with a seed, stepped, and reset whenever
an episode ends. It is written down as plain values, one :class:`Record` for each reset or step of the vector environment.
"""

from __future__ import annotations

import copy
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from shoal.testing.plain import plain
from shoal.vector.sameness import difference

Make = Callable[[], Any]
MAKING = "making the environment"


class Record(NamedTuple):
    """What one call of the vector environment gave for this environment, in plain values."""

    what: str
    """``"reset"``, ``"step"``, or how the run ended before its time."""
    observation: Any = None
    reward: Any = 0.0
    terminated: Any = False
    truncated: Any = False
    info: Any = None


Trace = list[Record]


class Attendant(Protocol):
    """Somebody who is present while an environment runs."""

    def before(self, call: str, place: str) -> None:
        """The environment is about to be called (``"make"``, ``"reset"`` or ``"step"``); ``place`` says where, in words."""

    def after(self, call: str, place: str, env: Any, result: Any) -> None:
        """It has returned ``result``."""


class RunEnded(Exception):
    """The environment raised, or returned what no run can go on with."""

    def __init__(self, place: str, what: str, traceback: str = "") -> None:
        super().__init__(what)
        self.place, self.what, self.traceback = place, what, traceback


class LoneRun:
    """An environment under way, one record at a time."""

    def __init__(
        self,
        make: Make,
        seed: int,
        actions: Sequence[Any],
        attendants: Sequence[Attendant] = (),
        mode: AutoresetMode = AutoresetMode.NEXT_STEP,
    ) -> None:
        self.seed, self.mode = seed, mode
        self.trace: Trace = []
        self.env: Any = None
        self.ending: RunEnded | None = None
        self._make, self._attendants = make, attendants
        self.take(actions)
        self._is_due = False
        """NEXT_STEP: whether the next step is a reset."""

    def advance(self) -> bool:
        """One record more; returns whether there may be another."""
        try:
            record = self._next()
        except StopIteration:
            return False
        except RunEnded as ending:
            self.trace.append(Record(ending.what))
            self.ending = ending
            return False
        self.trace.append(record)
        return True

    def finish(self) -> Trace:
        """All there is, and the environment is closed."""
        while self.advance():
            pass
        self.close()
        return self.trace

    def close(self) -> None:
        """Close the environment; what it raises then is not what we are looking for."""
        env, self.env = self.env, None
        try:
            if env is not None:
                env.close()
        except Exception:
            pass

    def take(self, actions: Sequence[Any]) -> None:
        """Go on with these actions."""
        self._actions = iter(actions)

    def restart(self, seed: int, actions: Sequence[Any]) -> None:
        """Begin a new trace with a reset of the same environment."""
        self.seed, self.trace, self._is_due = seed, [], False
        self.take(actions)

    def _place_of(self, call: str) -> str:
        if call == "make":
            return MAKING
        place = place_of(self.seed, len(self.trace))
        return f"the reset at {place}" if call == "reset" and self.trace else place

    def _next(self) -> Record:
        if self.env is None:
            self.env = self._call("make", self._make)
        if not self.trace:
            observation, info = self._reset(seed=self.seed, options=None)
            return Record("reset", observation, info=info)
        action = copy.deepcopy(next(self._actions))
        if self._is_due:
            self._is_due = False
            observation, info = self._reset()
            return Record("reset", observation, info=info)
        observation, reward, terminated, truncated, info = self._parts("step", 5, lambda: self.env.step(action))
        observation, info = plain(observation), plain(info)
        record = Record("step", observation, plain(reward), plain(terminated), plain(truncated), info)
        if not (_is_set(terminated) or _is_set(truncated)):
            return record
        if self.mode is AutoresetMode.NEXT_STEP:
            self._is_due = True
            return record
        start, start_info = self._reset()
        more = start_info if isinstance(start_info, Mapping) else {}
        return record._replace(
            observation=start, info={"final_obs": record.observation, "final_info": record.info, **more}
        )

    def _reset(self, **keywords: Any) -> tuple[Any, Any]:
        observation, info = self._parts("reset", 2, lambda: self.env.reset(**keywords))
        return plain(observation), plain(info)

    def _parts(self, call: str, count: int, function: Callable[[], Any]) -> Any:
        result = self._call(call, function)
        if not isinstance(result, tuple | list) or len(result) != count:
            many = f"{len(result)} values" if isinstance(result, tuple | list) else type(result).__name__
            raise RunEnded(self._place_of(call), f"{call}() returned {many} instead of {count}")
        return result

    def _call(self, call: str, function: Callable[[], Any]) -> Any:
        place = self._place_of(call)
        for attendant in self._attendants:
            attendant.before(call, place)
        try:
            result = function()
        except (Exception, SystemExit) as error:
            raise RunEnded(place, f"raised {type(error).__name__}: {error}", _its_traceback(error)) from error
        for attendant in self._attendants:
            attendant.after(call, place, self.env, result)
        return result


def place_of(seed: int, number: int) -> str:
    """Where the record of this number is, in words."""
    return f"reset(seed={seed})" if number == 0 else f"step {number} after reset(seed={seed})"


def _its_traceback(error: BaseException) -> str:
    """The traceback from the environment on."""
    inner = error.__traceback__
    while inner is not None and inner.tb_next is not None and inner.tb_frame.f_code.co_filename == __file__:
        inner = inner.tb_next
    return "".join(traceback.format_exception(type(error), error, inner))


def _is_set(flag: Any) -> bool:
    try:
        return bool(flag)
    except Exception:  # an array of flags, which whoever looks at the contract reports
        return False


def sample_actions(space: Any, seed: int, count: int) -> list[Any]:
    """Random actions, each as a vector environment would hand it to one environment."""
    space = copy.deepcopy(space)
    space.seed(seed)
    return normal_actions(space, [space.sample() for _ in range(count)])


def normal_actions(space: Any, actions: Sequence[Any]) -> list[Any]:
    """Actions in the types that a vector environment hands to one environment."""
    return [next(_unbatched(space, batched(space, [action]))) for action in actions]


def batched(space: Any, values: Sequence[Any]) -> Any:
    """Several environments' observations or actions as one batch, as Gymnasium arranges it."""
    room: Any = create_empty_array(space, len(values))
    return concatenate(space, values, room)


def _unbatched(space: Any, batch: Any) -> Iterator[Any]:
    return iter(iterate(batch_space(space, 1), batch))


class Difference(NamedTuple):
    """Where two runs differ first."""

    place: str
    what: str
    """Which part, and the two values."""

    @property
    def part(self) -> str:
        """Which part, such as ``observation['pixels']``."""
        return self.what.partition(": ")[0]

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


class Differences(NamedTuple):
    """Where two runs, or several pairs of them, differ first: in anything, and in anything but infos."""

    first: Difference | None = None
    outside_infos: Difference | None = None

    def __or__(self, other: Differences) -> Differences:
        return Differences(self.first or other.first, self.outside_infos or other.outside_infos)


def compare(seed: int, left: Trace, right: Trace) -> Differences:
    """Two runs of the same seed and actions, in every bit."""
    found = Differences()
    for number, (one, other) in enumerate(zip(left, right, strict=False)):
        place = place_of(seed, number)
        if one.what != other.what:
            return found | Differences(*[Difference(place, f"what happened: {one.what} and {other.what}")] * 2)
        for name in ("observation", "reward", "terminated", "truncated"):
            if what := difference(getattr(one, name), getattr(other, name), name):
                return found | Differences(*[Difference(place, what)] * 2)
        if what := difference(one.info, other.info, "info"):
            found |= Differences(Difference(place, what))
    if len(left) != len(right):
        place = place_of(seed, min(len(left), len(right)))
        return found | Differences(
            *[Difference(place, f"what happened: the runs have {len(left)} and {len(right)} records")] * 2
        )
    return found

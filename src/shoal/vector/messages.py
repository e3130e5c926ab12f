"""What travels between the pool and its runners.

A command asks a runner for something; an outcome is what it answers. In-process backends pass these objects as they are;
process backends send them as messages. Observations, rewards, flags and actions of fixed size are in neither: they are in
the arena.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import gymnasium
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from shoal.vector.failures import Failure
from shoal.vector.infos import EnvInfos, by_environment
from shoal.vector.layout import Array, Layout, Rows
from shoal.vector.loose import LooseValues, singly
from shoal.vector.starts import Start
from shoal.vector.tasks import TaskSource

EnvFn = Callable[[], gymnasium.Env[Any, Any]]


@dataclass(frozen=True)
class Recipe:
    """What one runner is responsible for."""

    rows: range
    env_fns: list[EnvFn]
    entropy: int | None = None
    """From which environments that nobody has seeded are seeded, so that it can be repeated; ``None``: by themselves."""
    num_threads: int = 1
    """How many environments are at work at the same time."""
    lets_others_go_first: bool = False
    """Whether nobody waits for it, so that its process takes only what others leave of the processors."""


class Op(IntEnum):
    """What a command asks for."""

    CONSTRUCT = 1
    ATTACH = 2
    RESET = 3
    STEP = 4
    CALL = 5
    SET_ATTR = 6
    CLOSE = 7
    STEP_EACH = 8
    """As ``STEP``, but every environment is reported when it is done."""
    RESET_EACH = 9
    """As ``RESET``, but every environment is reported when it is done."""
    RESTORE = 10
    """Do again what a worker that is gone has done, and compare."""
    CAPTURE = 11
    """Hand over the state of all environments."""
    PREPARE = 12
    """Import what the environments will need."""
    TAKE_PLACE = 13
    """Be another worker from now on."""

    @property
    def label(self) -> str:
        """Its name in messages and errors."""
        return self.name.lower().removesuffix("_each")


EACH = (Op.STEP_EACH, Op.RESET_EACH)
STEP, STEP_EACH = Op.STEP, Op.STEP_EACH
"""For who names them in every step: a name of a module is found more quickly than a member of an enumeration."""


class Reset(NamedTuple):
    """One environment's explicit reset."""

    env_index: int
    seed: int | None
    options: dict[str, Any] | None


@dataclass(frozen=True)
class Attachment:
    """Everything from which a runner computes where data lies."""

    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    num_envs: int
    autoreset_mode: AutoresetMode
    task_source: TaskSource | None = None
    """What says which task an environment gets when nobody else does."""
    is_journaled: bool = False
    """Whether environments may have to be brought back, so that runners note down where their episodes begin."""
    takes_digests: bool = False
    """Whether runners digest every result, because it is too large, or too loose, for the caller to keep."""
    num_slots: int = 1
    """For how many steps there is room for observations."""
    lends_observations: bool = False
    """Whether the caller gets views of the arena, which it may keep when everything is closed."""
    group_size: int = 1
    """So many neighbours are in the same part, where there are several."""
    has_sheet: bool = False
    """Whether infos that are alike in every step are written into the arena."""

    @property
    def layout(self) -> Layout:
        """Where everything lies."""
        return Layout.of(
            self.observation_space,
            self.action_space,
            self.num_envs,
            self.num_slots,
            is_journaled=self.is_journaled,
            has_sheet=self.has_sheet,
        )


def rows_of_part(rows: Iterable[int], part: int, num_parts: int, group_size: int) -> list[int]:
    """Those of these environments that belong to a part, of so many."""
    return [row for row in rows if row // group_size % num_parts == part]


class Call(NamedTuple):
    """A method to call, an attribute to read, or a function of the environment, for some environments."""

    rows: Rows
    name: str | Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    is_read: bool = False
    """Whether it is known to change nothing, so that it need not be done again."""


class Assignment(NamedTuple):
    """An attribute to set, with one value per environment."""

    rows: Rows
    name: str
    values: list[Any]


class Pace(IntEnum):
    """How environments that are reported each for itself are stepped."""

    ALONE = 0
    """One after the other, or at the same time where steps overlap; each is reported when it is done."""
    TOGETHER = 1
    """As in a step of all; they are reported when the last one is done."""


class Caution(NamedTuple):
    """How environments are called one after the other, so that it is seen which of them ends the process."""

    suspects: frozenset[int]
    """They come last, with a pause after each."""
    pause: float
    """Seconds in which a process ends that an environment ends a moment after its step."""
    is_of_one: bool
    """Whether there is one suspect. Then there is a pause before it as well."""

    @property
    def seconds(self) -> float:
        """How long all pauses together take at most."""
        return self.pause * (len(self.suspects) + 1)

    def in_order(self, rows: Rows) -> list[int]:
        """These environments, suspects last."""
        return sorted(rows, key=self.suspects.__contains__)

    def apart(self, rows: Rows) -> list[list[int]]:
        """The same, the others together and each suspect by itself."""
        others = [row for row in rows if row not in self.suspects]
        return [*([others] if others else []), *([row] for row in rows if row in self.suspects)]


class Steps(NamedTuple):
    """Environments to step, with what must be known about their actions beside the arena."""

    rows: Rows
    loose: LooseValues
    wide: tuple[int, ...]
    pace: Pace = Pace.ALONE
    """Of environments that are reported each for itself."""
    caution: Caution | None = None
    """Of those, too: how one of them is found that ends the process."""


class Command(NamedTuple):
    """One request to one runner. The type of ``payload`` follows from ``op``."""

    sequence: int
    op: Op
    payload: Any = None

    def rows(self, all_rows: range) -> Rows:
        """The environments that it concerns, of a runner that has these."""
        if self.payload is None:
            return all_rows
        if self.op in (Op.RESET, Op.RESET_EACH):
            return [reset.env_index for reset in self.payload]
        its: Rows = self.payload.rows
        return its


class Redo(NamedTuple):
    """A command that has been answered, to be done again."""

    op: Op
    rows: Rows
    payload: Any
    actions: list[Array]
    """Of ``rows``."""
    digests: list[int | None]
    """What ``rows`` should come to, where that can be compared."""
    begins: tuple[int, ...] = ()
    """Those whose history begins with this command."""


class Replay(NamedTuple):
    """Everything that brings a worker's environments to where they were."""

    redo: list[Redo]
    starts: dict[int, Start]
    """Of environments whose history does not begin where they were made."""
    base: bytes | None = None
    """The captured state of all of a worker's environments, in which everything begins."""
    first: int = 0
    """Where in it the first environment is that is to be brought back."""
    caution: Caution | None = None
    """How one of them is found that ends the process."""
    gives_way: bool = False
    """Whether nobody waits for it, so that others may have the processor in between: before every step of an environment,
    where these are called one after the other."""


def is_together(command: Command) -> bool:
    """Whether the environments that answer for themselves do so at the same time."""
    return command.op is Op.STEP_EACH and command.payload.pace is Pace.TOGETHER


def apart(outcome: Outcome, rows: Rows) -> dict[int, Outcome]:
    """What came of a step of several environments, environment by environment."""
    if not any(outcome):
        return dict.fromkeys(rows, outcome)
    outcomes = {row: Outcome.empty() for row in rows}
    for row, info in by_environment(outcome.infos).items():
        outcomes[row].infos.append((row, info))
    for entry in singly(outcome.loose):
        outcomes[entry[0]].loose.append(entry)
    for failure in outcome.failures:
        outcomes[failure.env_index].failures.append(failure)
    return outcomes


def one_by_one(command: Command) -> Iterator[tuple[int, Command]]:
    """A command for several environments, such as ``STEP_EACH``, as (environment, command for it alone)."""
    sequence, op, payload = command
    if op is Op.RESET_EACH:
        for reset in payload:
            yield reset.env_index, Command(sequence, Op.RESET, [reset])
    else:
        loose: dict[int, LooseValues] = {}
        for entry in singly(payload.loose):
            loose.setdefault(entry[0], []).append(entry)
        for row in payload.rows:
            yield row, Command(sequence, Op.STEP, Steps([row], loose.get(row, []), payload.wide))


class Outcome(NamedTuple):
    """What a command brought about, apart from what is in the arena. The lists are filled while it runs."""

    infos: EnvInfos
    loose: LooseValues
    failures: list[Failure]
    values: list[tuple[int, Any]]
    """Results of calls, or what a construction found: (environment, value)."""

    @classmethod
    def empty(cls) -> Outcome:
        """One with nothing in it yet."""
        return cls([], [], [], [])


NOTHING = Outcome.empty()
"""What came of a step that has nothing to tell. Nobody changes it."""


class Census(NamedTuple):
    """What a runner says of one environment after making it."""

    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    metadata: dict[str, Any]
    render_mode: str | None
    was_reset: bool
    """Whether its factory had already reset it, so that it may be stepped at once."""


class Reply(NamedTuple):
    """A runner has finished a command."""

    worker: int
    sequence: int
    outcome: Outcome


class Arrival(NamedTuple):
    """One environment of a command such as ``STEP_EACH`` is done."""

    env_index: int
    sequence: int
    outcome: Outcome


class Arrivals(NamedTuple):
    """Several environments of such a command are done, with nothing to tell beside what is in the arena."""

    rows: list[int]
    sequence: int


class Death(NamedTuple):
    """A worker process is gone."""

    worker: int
    pid: int
    exit_code: int | None
    """As :class:`subprocess.Popen` gives it: negative for a signal. ``None`` where nobody could tell."""
    peak_memory: int | None = None
    """How many bytes it has held at most, where that is known."""
    babble: str = ""
    """What it has sent that makes no sense, if that is why it was ended."""
    has_hung_up: bool = False
    """Whether its end of the socket was closed although it had not ended, which is why it was."""


Event = Reply | Arrival | Arrivals | Death

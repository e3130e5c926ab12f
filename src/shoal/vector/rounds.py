"""Rounds: one command to some workers, and what came of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from shoal.vector.backends.base import Addressed
from shoal.vector.halves import Half
from shoal.vector.layout import Array, Rows
from shoal.vector.loose import of_some
from shoal.vector.messages import Assignment, Call, Command, Op, Steps

TOUCHES = frozenset((Op.CALL, Op.SET_ATTR))
STEPS = frozenset((Op.STEP, Op.STEP_EACH))
RESETS = frozenset((Op.RESET, Op.RESET_EACH))

NOBODY: Mapping[int, Any] = MappingProxyType({})
NONE_FAILED: frozenset[int] = frozenset()
EVERYBODY = -1  # a bit for each


@dataclass(slots=True)
class Round:
    """One command to some workers, and what came of it."""

    sequence: int
    op: Op
    commands: Sequence[Addressed] | None
    """``None`` if all workers were asked the same, which says nothing more, or for a half."""
    before: float
    """For how long workers had been at work until then."""
    num_waiting: int
    """How many workers have not answered as a whole."""
    actions: bytes | memoryview | None = None
    """The memory with those of all environments, as the arena had them."""
    own_actions: Mapping[int, list[Array]] = field(default_factory=lambda: NOBODY)
    """Where only some environments were given actions: these, by worker and in the order of its command."""
    answered: int = 0
    """Workers that have: a bit for each."""
    done: Mapping[int, tuple[list[Array], int]] = field(default_factory=lambda: NOBODY)
    """Environments that have answered for themselves, in that order, and where their results, or digests, are."""
    num_alone: int = 0
    """How many environments were asked to answer for themselves."""
    results: bytes | memoryview | None = None
    """The memory with those of all environments, or their digests, once all workers have answered."""
    failed: frozenset[int] = NONE_FAILED
    """Environments that raised, which have no result to compare."""
    nbytes: int = 0
    """About how much memory the actions and results take."""
    half: Half | None = None
    """If a half was asked: which one. What it says about its last command is not about this round."""

    def command_to(self, worker: int) -> Command | None:
        """What this worker was asked."""
        if self.half is not None:
            steps = self.half.steps.get(worker)
            return None if steps is None else Command(self.sequence, self.op, steps)
        if self.commands is None:
            return Command(self.sequence, self.op)
        for addressee, command in self.commands:
            if addressee == worker:
                return command
        return None

    def rows_with_results(self, everybody: Collection[int]) -> Collection[int]:
        """The environments whose results are known; of the others, what is in ``results`` may be anything."""
        if self.results is None:
            return self.done
        return everybody if self.half is None else self.half.members

    def has_answered(self, worker: int) -> bool:
        """Whether this worker has, as a whole."""
        return bool(self.answered >> worker & 1)

    def note_answer(self, worker: int) -> None:
        """A worker has answered as a whole."""
        self.answered |= 1 << worker
        self.num_waiting -= 1


def rest_of(command: Command, done: Collection[int], its: range) -> Command | None:
    """What of a command has not been done."""
    if not done:
        return command
    rows = [row for row in command.rows(its) if row not in done]
    return part_of(command, rows) if rows else None


def in_parts(command: Command, its: range) -> Command:
    """The same command, as one that every environment answers for itself."""
    if command.op is Op.STEP:
        return Command(command.sequence, Op.STEP_EACH, command.payload or Steps(its, [], ()))
    return command


def part_of(command: Command, rows: Rows) -> Command:
    """The same command for fewer environments."""
    sequence, op, payload = command
    if payload is None:
        return Command(sequence, op, Steps(rows, [], ()))
    if op in RESETS:
        chosen = set(rows)
        payload = [reset for reset in payload if reset.env_index in chosen]
    elif isinstance(payload, Assignment):
        chosen = set(rows)
        values = [value for row, value in zip(payload.rows, payload.values, strict=True) if row in chosen]
        payload = Assignment(rows, payload.name, values)
    elif isinstance(payload, Call):
        payload = payload._replace(rows=rows)
    else:
        payload = Steps(rows, of_some(payload.loose, rows), payload.wide)
    return Command(sequence, op, payload)


def readdressed(one: Round, before: Sequence[range], worker_of: Sequence[int]) -> Round:
    """The same round, of other workers: those of now, where ``before`` says who had which environments then."""
    if one.commands is None:
        return replace(one, answered=EVERYBODY if one.answered else 0, num_waiting=0)
    commands: list[Addressed] = []
    own_actions: dict[int, list[list[Array]]] = {}
    for worker, command in one.commands:
        places: dict[int, dict[int, int]] = {}
        for place, row in enumerate(command.rows(before[worker])):
            places.setdefault(worker_of[row], {})[row] = place
        for now, its in places.items():
            commands.append((now, part_of(command, list(its))))
            if worker in one.own_actions:
                chosen = [array[[*its.values()]] for array in one.own_actions[worker]]
                own_actions.setdefault(now, []).append(chosen)
    joined = {now: [np.concatenate(leaf) for leaf in zip(*parts, strict=True)] for now, parts in own_actions.items()}
    return replace(
        one, commands=_joined(commands), own_actions=joined, answered=EVERYBODY if one.answered else 0, num_waiting=0
    )


def _joined(commands: Sequence[Addressed]) -> list[Addressed]:
    """One command for each worker, where several parts of it came from different ones."""
    by_worker: dict[int, Command] = {}
    for worker, command in commands:
        known = by_worker.get(worker)
        by_worker[worker] = command if known is None else _both(known, command)
    return list(by_worker.items())


def _both(first: Command, second: Command) -> Command:
    """Two parts of the same command as one."""
    sequence, op, payload = first
    more = second.payload
    if op in RESETS:
        payload = [*payload, *more]
    elif isinstance(payload, Assignment):
        payload = Assignment([*payload.rows, *more.rows], payload.name, [*payload.values, *more.values])
    elif isinstance(payload, Call):
        payload = payload._replace(rows=[*payload.rows, *more.rows])
    else:
        payload = payload._replace(rows=[*payload.rows, *more.rows], loose=[*payload.loose, *more.loose])
    return Command(sequence, op, payload)


def num_rows(commands: Sequence[Addressed]) -> int:
    """How many environments these commands name."""
    return sum(len(command.rows(range(0))) for _, command in commands)

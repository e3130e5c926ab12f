"""A slice: a few environments that are stepped together.

``LoopSlice`` is a loop over ordinary environments, or, where their steps wait, a crowd of them at work at the same time. The
runner above it knows about autoreset; a slice only steps and resets rows, writes what comes out into the arena, and catches
what goes wrong, environment by environment, so that one that raises does not touch its neighbours.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable, MutableSet
from contextlib import suppress
from typing import Any, NamedTuple

import gymnasium

from shoal.vector.contract import NUMBERS, as_flag, as_info, as_reward, census_of, why_not_a_step, wrapper_attribute
from shoal.vector.crowd import Crowd, Progress
from shoal.vector.failures import Failure
from shoal.vector.infos import Told, in_columns
from shoal.vector.layout import Arena, Rows, as_index
from shoal.vector.messages import Call, Census, EnvFn, Outcome
from shoal.vector.observations import ContractViolation, ObservationWriter, shortened
from shoal.vector.overlap import Result, Work, is_coroutine_env
from shoal.vector.replays import tell_next_episode
from shoal.vector.snapshot import snapshot
from shoal.vector.starts import Interrupted, Past, Start, give_random, note_origin, seed_quietly
from shoal.vector.step_clock import UNTIMED, Clock
from shoal.vector.tasks import Task, TaskSource

logger = logging.getLogger(__name__)

FEW = 12  # up to so many environments, taking results one by one is quicker
TAKEN_TOGETHER = frozenset((tuple, list))  # and not what can be taken apart only once
NOT_CALLABLE = frozenset(("reset", "step", "close"))


class Finished(NamedTuple):
    """An environment whose episode ended in this step. Its info is here and not in the outcome."""

    env_index: int
    observation: Any
    info: dict[str, Any]


class Begun(NamedTuple):
    """Takes an environment's place in the step in which it was reset instead."""

    result: Any
    """What the step comes to; ``None`` if the reset failed, which is reported."""

    def step(self, action: Any) -> Any:
        """The action is ignored."""
        return self.result


class Counters(NamedTuple):
    """How far a slice is: seeds, episodes and steps of its environments."""

    seeds: list[int | None]
    episodes: list[int]
    rounds: int
    steps: list[int]


class LoopSlice(Crowd):
    """Ordinary environments, one after the other."""

    def __init__(self, rows: range, progress: Progress, *, in_process: bool, num_threads: int = 1) -> None:
        super().__init__(rows, progress, in_process=in_process, num_threads=num_threads)
        self.envs: list[gymnasium.Env[Any, Any]] = []
        self._in_process = in_process
        self._seeds: list[int | None] = [None] * len(rows)
        self._episodes = [-1] * len(rows)
        self.rounds = 0
        """Steps that all have taken together. An environment's steps are these plus its own, which may be negative."""
        self.steps = [0] * len(rows)
        self.sequence = 0
        """Of the command that is being carried out."""
        self.clock: Clock | None = None
        """Runs while environments are at work, when somebody wants to know."""
        self.stands_for: dict[int, int] = {}
        """Environments that are doing again what others did, with the tasks that these were given."""
        self.due: MutableSet[int] = set()
        """NEXT_STEP: environments whose next step is a reset."""
        self.unwritten: list[Any] | None = None
        """The last observations of all environments, where the caller has them and the arena has not."""

    def write_unwritten(self) -> None:
        """Write observations into the arena that only the caller has, before environments are asked for something."""
        if self.unwritten is not None:
            observations, self.unwritten = self.unwritten, None
            for row, observation in zip(self.rows, observations, strict=True):
                with suppress(ContractViolation):  # it was right when it was returned; it is the environment's, still
                    self.writer.write(row, observation)

    def construct(self, env_fns: Iterable[EnvFn], entropy: int | None, outcome: Outcome) -> None:
        """Make the environments and report what they are like; stop at the first that fails.

        With ``entropy``, those that would seed themselves when they first draw are seeded from it.
        """
        factories = list(env_fns)
        self._start_threads()

        def make(number: int) -> tuple[Any, Census]:
            env = factories[number]()
            made.append(env)
            return env, census_of(env)

        made: list[Any] = []
        cores: dict[int, tuple[int, Any]] = {}
        results = self._call_all(self.rows, make, until_error=True)
        for row, (result, error) in zip(self.rows, results, strict=False):
            try:
                if error is not None:
                    raise error
                env, census = result
                self._check_is_new(env, row, cores)
                self.envs.append(env)
                if entropy is not None:
                    seed_quietly(env, entropy, row)
                outcome.values.append((row, census))
            except BaseException as problem:
                self._let_pass(problem)
                outcome.failures.append(Failure.of(problem, env_index=row, phase="construct"))
                self.envs = made  # all that are to be closed
                return
        if any(map(is_coroutine_env, self.envs)):
            self._await_coroutines()

    def _check_is_new(self, env: Any, row: int, cores: dict[int, tuple[int, Any]]) -> None:
        """``cores`` has those of the environments before, by their identity. It keeps them, so that no identity comes twice."""
        core = _core_of(env)
        other, _ = cores.setdefault(id(core), (row, core))
        if other != row:
            raise ContractViolation(
                f"its factory returned the same object as that of environment {other}"
                f"{'' if env is self.envs[other - self.rows.start] else ', in another wrapper'}: "
                "a factory must make a new environment each time it is called"
            )

    def twin(self) -> LoopSlice:
        """Another slice of the same environments, which works with some of them while others do with others."""
        twin = copy.copy(self)
        twin._overlap, twin.progress = None, [0]
        return twin

    def attach(self, arena: Arena, writer: ObservationWriter, task_source: TaskSource | None) -> None:
        """Say where results go and where tasks come from."""
        self.writer = writer
        self._task_source = task_source
        self._reward, self._terminated, self._truncated = arena.reward, arena.terminated, arena.truncated
        # Memory views take single numbers faster than arrays do.
        arrays = ((arena.reward, "d"), (arena.terminated, "B"), (arena.truncated, "B"))
        self._number_views: list[Any] = [array.data.cast("B").cast(code) for array, code in arrays]  # type: ignore[call-overload]
        self._origins = arena.origins.data.cast("B") if arena.origins.size else None

    def step_rows(self, rows: Rows, actions: Iterable[Any], outcome: Outcome) -> list[Finished]:
        """Step these environments. Whose episode ended is returned, and not reset."""
        if self.clock is None:
            results = self.call_steps(rows, actions, outcome.failures)
        else:
            with self.clock:
                results = self.call_steps(rows, actions, outcome.failures)
        return self.take_steps(rows, results, outcome)

    def take_steps(self, rows: Rows, results: list[Any], outcome: Outcome) -> list[Finished]:
        """Take in what :meth:`call_steps` gave. Whose episode ended is returned."""
        if len(rows) > FEW and isinstance(rows, range) and set(map(type, results)) <= TAKEN_TOGETHER:
            finished = self._take_together(rows, results, outcome)
            if finished is not None:
                return finished
        return self._take_each(rows, results, outcome)

    def call_steps(self, rows: Rows, actions: Iterable[Any], failures: list[Failure]) -> list[Any]:
        """What every environment's ``step`` returned; ``None`` for one that raised, which is put on ``failures``."""
        if rows is self.rows:
            envs = self.envs
            self.rounds += 1
        else:
            first = self.rows.start
            envs = [self.envs[row - first] for row in rows]
            for row in rows:
                self.steps[row - first] += 1
        if self._overlap is not None or self._events is not None:
            return self._step_overlapping(rows, envs, list(actions), failures)
        if self.clock is not None:
            actions = self.clock.watched(rows, actions)
        return self._call_in_turn(rows, envs, actions, failures)

    def begin_due(self, rows: Rows, envs: list[Any], failures: list[Failure]) -> list[Any]:
        """Reset those of these environments that are due; returns those to step, with a :class:`Begun` in place of each."""
        if rows is self.rows:
            numbers = sorted(row - self.rows.start for row in self.due)
        else:
            numbers = [number for number, row in enumerate(rows) if row in self.due]
        if not numbers:
            return envs
        self.write_unwritten()
        due, envs = [rows[number] for number in numbers], envs[:]
        self.due -= set(due)
        begin, tasks = self._beginnings(due, None)
        results = self._call_all(due, begin)
        loose = self.writer.loose
        kept = len(loose)
        infos = dict(self._take_beginnings(due, results, tasks, failures))
        del loose[kept:]  # they are written again, with those of the others
        for number, row, (result, _) in zip(numbers, due, results, strict=True):
            envs[number] = Begun((result[0], 0.0, False, False, infos[row]) if row in infos else None)
        return envs

    def go_on_after(
        self,
        error: BaseException,
        rows: Rows,
        envs: list[Any],
        results: list[Any],
        actions: list[Any],
        failures: list[Failure],
    ) -> None:
        """One of these raised in a step that somebody else began: report it, and step those after it."""
        failed = len(results)
        self.note_failure(error, rows[failed], actions[failed], failures)
        results.append(None)
        self.go_on_with(rows, envs, results, actions, failures)

    def go_on_with(
        self, rows: Rows, envs: list[Any], results: list[Any], actions: list[Any], failures: list[Failure]
    ) -> None:
        """Step those of these that have no result yet."""
        done = len(results)
        results += self._call_in_turn(rows[done:], envs[done:], actions[done:], failures)

    def _call_in_turn(self, rows: Rows, envs: list[Any], actions: Iterable[Any], failures: list[Failure]) -> list[Any]:
        progress = self.progress
        results: list[Any] = []
        append = results.append
        steps = iter(zip(rows, envs, actions, strict=True))
        row, action = 0, None
        while len(results) < len(rows):
            try:
                for row, env, action in steps:
                    progress[0] = row + 1
                    append(env.step(action))
            except BaseException as error:
                failures.append(self.failure_of(error, row, "step", action))
                append(None)
        progress[0] = 0
        return results

    def step_and_reset_rows(
        self, rows: Rows, actions: Iterable[Any], due: list[int], outcome: Outcome
    ) -> tuple[list[Finished], list[tuple[int, dict[str, Any]]]]:
        """Step some environments and reset others at the same time, where steps overlap."""
        begin, tasks = self._beginnings(due, None)
        envs, given = [self.envs[row - self.rows.start] for row in rows], list(actions)
        for row in rows:
            self.steps[row - self.rows.start] += 1

        def work(number: int) -> Any:
            place = number - len(due)
            return begin(number) if place < 0 else envs[place].step(given[place])

        with self.clock or UNTIMED:
            results = self._call_all([*due, *rows], work)
        infos = self._take_beginnings(due, results[: len(due)], tasks, outcome.failures)
        stepped = self._without_failures(rows, given, results[len(due) :], outcome.failures)
        return self._take_each(rows, stepped, outcome), infos

    def _step_overlapping(self, rows: Rows, envs: list[Any], actions: list[Any], failures: list[Failure]) -> list[Any]:
        work: Work = lambda number: envs[number].step(actions[number])  # noqa: E731 - it may be timed
        results = self._call_all(rows, work if self.clock is None else self.clock.timed(rows, work))
        return self._without_failures(rows, actions, results, failures)

    def _without_failures(
        self, rows: Rows, actions: list[Any], results: list[Result], failures: list[Failure]
    ) -> list[Any]:
        """What steps returned; ``None`` for those that raised, which are reported."""
        for row, action, (_, error) in zip(rows, actions, results, strict=True):
            if error is not None:
                self.note_failure(error, row, action, failures)
        return [value for value, _ in results]

    def note_failure(self, error: BaseException, row: int, action: Any, failures: list[Failure]) -> None:
        """Somebody who was stepped by others has raised."""
        failures.append(self.failure_of(error, row, "step", action))

    def _take_together(self, rows: range, results: list[Any], outcome: Outcome) -> list[Finished] | None:
        """Take in many results at once; ``None`` unless all of them are as they should be.

        Everything here is a single call over all rows, for speed; what none of these calls accepts is looked at one by one.
        """
        try:
            observations, rewards, terminateds, truncateds, infos = zip(*results, strict=True)
            terminated, truncated = bytes(terminateds), bytes(truncateds)
            self._reward[rows.start : rows.stop] = rewards
        except (TypeError, ValueError, OverflowError):
            return None
        if (terminated + truncated).translate(None, b"\0\1") or set(map(type, rewards)) - NUMBERS:
            return None
        if set(map(type, infos)) != {dict} or not self.writer.write_together(rows, observations):
            return None
        _, terminated_at, truncated_at = self._number_views
        terminated_at[rows.start : rows.stop] = terminated
        truncated_at[rows.start : rows.stop] = truncated
        ended: list[int] = []
        if 1 in terminated or 1 in truncated:
            ended = [place for place, flags in enumerate(zip(terminated, truncated, strict=True)) if any(flags)]
        if any(infos):
            told, has_ended = enumerate(zip(rows, infos, strict=True)), set(ended)
            self.take_infos(rows, [one for place, one in told if one[1] and place not in has_ended], outcome)
        return [Finished(rows[place], observations[place], infos[place]) for place in ended]

    def take_infos(self, rows: Rows, told: Told, outcome: Outcome, *, together: bool = False) -> None:
        """Take in what some of these environments, whose episode goes on, have told.

        ``together``: whether they are told of together, also if they are not all that there are here.
        """
        are_all = len(told) == len(rows) and (together or isinstance(rows, range))
        columns = in_columns(rows, [info for _, info in told]) if are_all else None
        if columns is not None:
            outcome.infos.append(columns)
        elif self._in_process:
            outcome.infos.extend((row, snapshot(info)) for row, info in told)
        else:
            outcome.infos.extend(told)

    def _take_each(self, rows: Rows, results: list[Any], outcome: Outcome) -> list[Finished]:
        """Take in results one by one, and find out which of them breaks the contract."""
        finished: list[Finished] = []
        told: Told = []
        write, rewards, terminateds, truncateds = self.writer.write, *self._number_views
        for row, result in zip(rows, results, strict=True):
            try:
                try:
                    observation, reward, terminated, truncated, info = result
                except (TypeError, ValueError):
                    if result is None and any(failure.env_index == row for failure in outcome.failures):
                        self.clear_rows([row])
                        continue
                    raise ContractViolation(why_not_a_step(result)) from None
                if type(reward) is not float:
                    reward = as_reward(reward)
                if type(terminated) is not bool:
                    terminated = as_flag("terminated", terminated)
                if type(truncated) is not bool:
                    truncated = as_flag("truncated", truncated)
                if type(info) is not dict:
                    info = as_info(info)
                write(row, observation)
            except BaseException as error:
                outcome.failures.append(self.failure_of(error, row, "step"))
                self.clear_rows([row])
                continue
            rewards[row] = reward
            terminateds[row] = terminated
            truncateds[row] = truncated
            if terminated or truncated:
                finished.append(Finished(row, observation, info))
            elif info:
                told.append((row, info))
        if told:
            self.take_infos(rows, told, outcome)
        return finished

    def reset_rows(
        self, rows: Rows, arguments: list[dict[str, Any]] | None, outcome: Outcome
    ) -> list[tuple[int, dict[str, Any]]]:
        """Reset these environments, each with its own keyword arguments, or with none.

        The infos are returned, not put anywhere.
        """
        begin, tasks = self._beginnings(rows, arguments)
        with self.clock or UNTIMED:
            results = self._call_all(rows, begin)
        return self._take_beginnings(rows, results, tasks, outcome.failures)

    def _beginnings(self, rows: Rows, arguments: list[dict[str, Any]] | None) -> tuple[Work, dict[int, Task]]:
        """What resets these environments, and the tasks that they get thereby."""
        first = self.rows.start
        tasks: dict[int, Task] = {}

        def begin(number: int) -> Any:
            row = rows[number]
            keywords = arguments[number] if arguments is not None else {}
            place = row - first
            self._episodes[place] += 1
            self.steps[place] = -self.rounds
            if self._task_source is not None and keywords.get("options") is None:
                task = tasks[row] = self._task_source.task_for(self.stands_for.get(row, row), self._episodes[place])
                seed = keywords.get("seed")
                keywords = {"seed": task.seed if seed is None else seed, "options": snapshot(task.options)}
            if keywords.get("seed") is not None:
                self._seeds[place] = keywords["seed"]
            if self._origins is not None:
                is_seeded = keywords.get("seed") is not None
                note_origin(
                    self._origins, row, self.sequence, self._episodes[place], self._seeds[place], is_seeded,
                    self.envs[place],
                )  # fmt: skip
            return self.envs[place].reset(**keywords)

        return begin, tasks

    def _take_beginnings(
        self, rows: Rows, results: list[Result], tasks: dict[int, Task], failures: list[Failure]
    ) -> list[tuple[int, dict[str, Any]]]:
        infos = []
        for row, (result, error) in zip(rows, results, strict=True):
            if error is None:
                try:
                    info = self._take_beginning(row, result, tasks.get(row))
                    infos.append((row, snapshot(info) if self._in_process else info))
                except BaseException as problem:
                    error = problem
            if error is not None:
                failures.append(self.failure_of(error, row, "reset"))
        return infos

    def _take_beginning(self, row: int, result: Any, task: Task | None) -> dict[str, Any]:
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise ContractViolation(f"reset() must return an observation and an info, got {shortened(result)}")
        observation, info = result[0], as_info(result[1])
        if task is not None and task.id is not None:
            info["task_id"] = task.id
        self.writer.write(row, observation)
        return info

    def clear_rows(self, rows: Rows) -> None:
        """Reward zero and no flags, as after a reset."""
        index = as_index(rows)
        self._reward[index], self._terminated[index], self._truncated[index] = 0.0, False, False

    def call_rows(self, call: Call, outcome: Outcome) -> None:
        """Call a method, read an attribute, or call a function of each environment, and collect one value for each."""

        def ask(number: int) -> Any:
            if call.name in NOT_CALLABLE:
                raise ValueError(
                    f"`{call.name}` cannot be called with `call`: use {call.name}() of the vector environment"
                )
            env = self.envs[call.rows[number] - self.rows.start]
            if callable(call.name):
                return call.name(env, *snapshot(call.args), **snapshot(call.kwargs))
            value = wrapper_attribute(env, call.name)
            return value(*snapshot(call.args), **snapshot(call.kwargs)) if callable(value) else value

        with self.clock or UNTIMED:
            results = self._call_all(call.rows, ask)
        for row, (value, error) in zip(call.rows, results, strict=True):
            if error is None:
                try:
                    outcome.values.append((row, snapshot(value) if self._in_process else value))
                except BaseException as problem:
                    error = problem
            if error is not None:
                outcome.failures.append(self.failure_of(error, row, "call"))

    def set_rows(self, rows: Rows, name: str, values: Iterable[Any], outcome: Outcome) -> None:
        """Set an attribute, one value per environment."""
        given = list(values)

        def set_one(number: int) -> None:
            env = self.envs[rows[number] - self.rows.start]
            setter = getattr(env, "set_wrapper_attr", None)
            if setter is not None:
                setter(name, snapshot(given[number]))
            else:
                setattr(env, name, snapshot(given[number]))

        for row, (_, error) in zip(rows, self._call_all(rows, set_one), strict=True):
            if error is not None:
                outcome.failures.append(self.failure_of(error, row, "set_attr"))

    def begin_at(self, row: int, start: Start) -> None:
        """Let the next reset of an environment be like the one with which its history begins."""
        place = row - self.rows.start
        self._seeds[place], self._episodes[place] = start.seed, start.episode - 1
        if start.random is not None:
            give_random(self.envs[place], start.random)
        tell_next_episode(self.envs[place], start.episode)

    def interrupt(self, row: int, start: Start) -> None:
        """Let the next step of an environment say that its episode was lost."""
        assert start.lost is not None
        place = row - self.rows.start
        self._seeds[place], self._episodes[place] = start.seed, start.episode
        tell_next_episode(self.envs[place], start.episode + 1)
        self.envs[place] = Interrupted(self.envs[place], start.lost)  # type: ignore[call-overload]

    def renew(self, row: int, env_fn: EnvFn, past: Past) -> None:
        """Put a new environment in the place of another."""
        place = row - self.rows.start
        new, error = self._call_all([row], lambda _: env_fn())[0]
        if error is not None:
            raise error
        if past.entropy is not None:
            seed_quietly(new, past.entropy, past.row)
        old, self.envs[place] = self.envs[place], new
        self._seeds[place], self._episodes[place], self.steps[place] = None, -1, -self.rounds
        self._close_all([row], [old])

    def set_counters_of(self, row: int, counters: Counters, source: int) -> None:
        """Let an environment be as far as the one in that place was when it was captured."""
        place = row - self.rows.start
        self._seeds[place], self._episodes[place] = counters.seeds[source], counters.episodes[source]
        self.steps[place] = counters.rounds + counters.steps[source] - self.rounds

    def counters(self) -> Counters:
        """How far all environments are."""
        return Counters(self._seeds[:], self._episodes[:], self.rounds, self.steps[:])

    def set_counters(self, counters: Counters, first: int) -> None:
        """Be as far as that: the first environment as the one in the place ``first`` was."""
        its = slice(first, first + len(self.rows))
        self._seeds, self._episodes, self.steps = counters.seeds[its], counters.episodes[its], counters.steps[its]
        self.rounds = counters.rounds

    def whereabouts(self, row: int) -> str:
        """Where an environment is, for messages."""
        place = row - self.rows.start
        return f"in episode {max(self._episodes[place], 0)} at step {self.rounds + self.steps[place]}"

    def close(self) -> None:
        """Close every environment, whatever the others do."""
        envs, self.envs = self.envs, []
        self._close_all(self.rows[: len(envs)], envs)
        self._disperse()

    def _close_all(self, rows: Rows, envs: list[Any]) -> None:
        if self._lanes is not None:
            self._lanes.wakes_all = True  # nobody is to wait for one that is stuck
        for _, error in self._call_all(rows, lambda number: _close(envs[number])):
            if error is not None:
                logger.warning("an environment raised in close()", exc_info=error)

    def failure_of(self, error: BaseException, row: int, phase: str, action: Any = None) -> Failure:
        """What an environment has raised, and where."""
        self._let_pass(error)
        place = row - self.rows.start
        return Failure.of(
            error,
            env_index=row,
            phase=phase,
            seed=self._seeds[place],
            episode=max(self._episodes[place], 0),
            step=self.rounds + self.steps[place],
            action=action,
        )


def _core_of(env: Any) -> Any:
    """The environment inside all wrappers."""
    core = getattr(env, "unwrapped", None)
    return env if core is None else core


def _close(env: Any) -> None:
    close = getattr(env, "close", None)  # what a factory returned may be no environment
    if close is not None:
        close()

"""The runner: what steps environments exists once, here, wherever it runs.

``serial`` calls it directly, ``threads`` from threads, ``pipes`` and ``shm`` from worker processes. It owns a slice of
environments and is given commands one at a time. Autoreset is decided here, for every kind of slice::

    NEXT_STEP    step ─ ended ─▶ returned as it is        next step ─▶ reset() instead, action ignored, reward 0
    SAME_STEP    step ─ ended ─▶ reset() at once; the ended episode is in info: final_obs, final_info
    DISABLED     step ─ ended ─▶ returned as it is; the caller resets
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from gymnasium.vector import AutoresetMode

from shoal.vector.actions import ActionReader, reader_of
from shoal.vector.batch_slice import BatchSlice
from shoal.vector.batched import MODES, rows_maker
from shoal.vector.captures import Captured, dump_states, load_states
from shoal.vector.crowd import GivingWay, Progress
from shoal.vector.digests import Digester, add_loose
from shoal.vector.failures import Failure
from shoal.vector.forked import end_if_forked
from shoal.vector.halves import ALL, steps_of_half
from shoal.vector.infos import Told
from shoal.vector.layout import Arena, FixedLeaf, Layout, Rows, as_index, as_slice, private_arena
from shoal.vector.loose import LooseColumn, LooseValue, singly
from shoal.vector.messages import (
    NOTHING,
    Assignment,
    Attachment,
    Call,
    Caution,
    Command,
    Op,
    Outcome,
    Recipe,
    Redo,
    Replay,
    Reset,
    Steps,
)
from shoal.vector.observations import ObservationWriter
from shoal.vector.plain_steps import PlainSteps, plain_steps_of
from shoal.vector.replay_parts import narrowed
from shoal.vector.replays import IS_REPLAYING
from shoal.vector.slices import Finished, LoopSlice
from shoal.vector.snapshot import snapshot, snapshots
from shoal.vector.starts import Fault, Past, Start


class Share(NamedTuple):
    """Those of a runner's environments that are stepped together again and again: all, or those of a half."""

    rows: Rows
    where: slice | Rows
    """What selects them from an array of all."""
    steps: Steps | None
    plain: PlainSteps | None
    """What steps them, where nothing happens."""
    actions: Callable[[], list[Any]]
    """Their actions, for that."""


class Runner:
    """Runs the commands for the environments of a recipe."""

    def __init__(self, recipe: Recipe, progress: Progress, *, in_process: bool) -> None:
        self.rows = rows = recipe.rows
        self._recipe = recipe
        self._takes_digests = False
        self._in_process = in_process
        make_rows = rows_maker(recipe.env_fns)
        self.slice = (
            LoopSlice(rows, progress, in_process=in_process, num_threads=recipe.num_threads)
            if make_rows is None
            else BatchSlice(rows, make_rows, progress, in_process=in_process)
        )
        self._is_batched = make_rows is not None
        self._has_slots = False
        self._attachment: Attachment
        self._twins: dict[int, Runner] = {}

    def execute(self, command: Command) -> Outcome:
        """Do what ``command`` asks. What environments raise is in the outcome, not raised."""
        outcome = Outcome.empty()
        payload = command.payload
        if self._twins:
            self._twins = {}  # what they know is out of date after this
        self.slice.write_unwritten()
        self.slice.sequence = command.sequence
        if self._has_slots and command.op in (Op.STEP, Op.RESET):
            self._turn_to(command.sequence % len(self._writers))
        match command.op:
            case Op.STEP:
                self._step(payload, outcome)
            case Op.RESET:
                self._reset(payload, outcome)
            case Op.RESTORE:
                self._restore(payload, outcome)
            case Op.CAPTURE:
                self._capture(outcome)
            case Op.CALL:
                call: Call = payload
                self.slice.call_rows(call, outcome)
            case Op.SET_ATTR:
                assignment: Assignment = payload
                self.slice.set_rows(assignment.rows, assignment.name, assignment.values, outcome)
            case Op.CONSTRUCT:
                self.slice.construct(self._recipe.env_fns, self._recipe.entropy, outcome)
            case Op.CLOSE:
                self.slice.close()
            case Op.ATTACH | Op.STEP_EACH | Op.RESET_EACH:
                raise AssertionError("a backend has the arena, and takes these commands apart")
        if self._takes_digests and command.op in (Op.STEP, Op.RESET):
            self._take_digests(command.rows(self.rows), outcome)
        return outcome

    def step_share(self, half: int, sequence: int) -> Outcome:
        """As :meth:`execute`, for a step of all environments or of a half, as they are asked for again and again."""
        share, its = self.share(half), self.slice
        if self._twins:
            self._twins = {}  # what they know is out of date after this
        if share.plain is None or (its.due and its.overlaps) or its.clock is not None:
            return self.execute(Command(sequence, Op.STEP, share.steps))
        its.sequence = sequence
        failures: list[Failure] = []
        told: Told = []
        results = share.plain(share.actions(), failures, None, told)
        outcome = self.taken_in(share.rows, results, failures, told)
        if self._takes_digests:
            self._take_digests(share.rows, outcome)
        return outcome

    def taken_in(self, rows: Rows, results: list[Any] | None, failures: list[Failure], told: Told) -> Outcome:
        """What came of a step of environments that were stepped by :mod:`~shoal.vector.plain_steps`."""
        if results is not None:
            outcome = Outcome([], [], failures, [])
            self.take_steps(rows, results, outcome)
            return outcome
        if not told and not self._writer.loose:
            return NOTHING
        outcome = Outcome.empty()
        if told:
            self.slice.take_infos(rows, told, outcome, together=True)
        self._collect_loose(outcome)
        return outcome

    def start_alone(self, row: int, command: Command, report: Callable[[Outcome], None]) -> None:
        """Begin a command for one environment, on its own thread, which will report what came of it."""
        twin = self._twins.get(row)
        if twin is None:
            twin = self._twins[row] = self._twin()

        def carry_out() -> None:
            try:
                outcome = twin.execute(command)
            except BaseException as error:  # or nobody would ever hear of it
                outcome = Outcome([], [], [Failure.of(error, env_index=row, phase=command.op.label)], [])
            end_if_forked(lanes.home)
            report(outcome)

        lanes = self.slice.lanes()
        lanes.start(row - self.rows.start, carry_out)

    def _twin(self) -> Runner:
        """Another runner for the same environments, which works with one of them while others do with others."""
        twin = copy.copy(self)
        twin._twins, twin.slice = {}, self.slice.twin()
        twin.attach(self._attachment, self._arena)
        return twin

    def _take_digests(self, rows: Rows, outcome: Outcome) -> None:
        digests = self._arena.digests
        digests[as_index(rows)] = self._digester.digest(rows)
        if outcome.loose:
            add_loose(digests, outcome.loose)

    def _restore(self, replay: Replay, outcome: Outcome) -> None:
        """Do everything again, out of sight; say of each environment where it first came to something else."""
        attachment, arena = self._attachment, self._arena
        unseen = replace(attachment, takes_digests=True, num_slots=1)
        self.attach(unseen, private_arena(unseen.layout))
        token, progress = IS_REPLAYING.set(True), self.slice.progress
        if replay.gives_way:
            self.slice.progress = GivingWay(progress)
        try:
            if replay.base is not None:
                counters, due = load_states(self.slice.envs, replay.base, replay.first)
                self.slice.due.clear()
                self.slice.due |= due & set(self.rows)  # a rehearsal has only some of them
                self.slice.set_counters(counters, replay.first)
            caution = replay.caution
            for rows in [self.rows] if caution is None else caution.apart(self.rows):
                part = replay if caution is None else narrowed(replay, rows)
                with self.watching(rows, caution):
                    outcome.values.extend(self._play(part, Captured()).items())
        finally:
            IS_REPLAYING.reset(token)
            self.slice.progress = progress
            self.attach(attachment, arena)

    @contextmanager
    def watching(self, rows: Rows, caution: Caution | None) -> Iterator[None]:
        """While these environments are at work: if the process ends now, and there is a suspect, it has ended it."""
        if caution is None or rows[0] not in caution.suspects:
            yield
            return
        if caution.is_of_one:
            time.sleep(caution.pause)
        yield
        self.slice.progress[0] = rows[0] + 1
        time.sleep(caution.pause)
        self.slice.progress[0] = 0

    def _play(self, replay: Replay, captured: Captured) -> dict[int, str]:
        """Do everything again; returns who came to something else, and where."""
        differing: dict[int, str] = {}
        for pasts in _told_together(replay.starts):
            for row, past in pasts.items():
                self._follow(row, past, captured)
            before, self.slice.stands_for = self.slice.stands_for, {row: past.row for row, past in pasts.items()}
            try:
                whole = next(iter(pasts.values())).replay
                differing.update(self._play(narrowed(whole, pasts), captured))
            finally:
                self.slice.stands_for = before
        for row, start in replay.starts.items():
            if start.lost is not None:
                self.slice.interrupt(row, start)
        for number, redo in enumerate(replay.redo):
            self._do_again(redo, replay.starts)
            for row in self._differing(redo):
                where = f"environment {row} {self.slice.whereabouts(row)} (command {number + 1} of the replay)"
                differing.setdefault(row, where)
        return differing

    def _follow(self, row: int, past: Past, captured: Captured) -> None:
        """Put a new environment in the place of another, and bring it to where its past begins."""
        place = row - self.rows.start
        self.slice.renew(row, self._recipe.env_fns[place], past)
        self.slice.due.discard(row)
        if past.replay.base is not None:
            counters, due = captured.load(self.slice.envs, place, past.replay.base, past.place)
            self.slice.set_counters_of(row, counters, past.place)
            if past.row in due:
                self.slice.due.add(row)

    def _do_again(self, redo: Redo, starts: dict[int, Start]) -> None:
        if redo.op is Op.STEP:
            for target, values in zip(self._arena.given_actions(redo.payload.wide), redo.actions, strict=True):
                target[as_index(redo.rows)] = values
        for row in redo.begins:
            if not starts[row].is_new:
                self.slice.begin_at(row, starts[row])
                if redo.op is Op.STEP:
                    self.slice.due.add(row)
        self.execute(Command(0, redo.op, redo.payload))

    def _differing(self, redo: Redo) -> list[int]:
        if redo.op not in (Op.STEP, Op.RESET):
            return []
        found = self._arena.digests[as_index(redo.rows)].tolist()
        return [
            row
            for row, expected, digest in zip(redo.rows, redo.digests, found, strict=True)
            if expected is not None and expected != digest
        ]

    def _capture(self, outcome: Outcome) -> None:
        """Hand over the state of all environments, or say why that is not possible."""
        try:
            state: Any = dump_states(self.slice.envs, (self.slice.counters(), set(self.slice.due)))
        except Exception as error:
            state = f"{type(error).__name__}: {error}"
        outcome.values.append((self.rows.start, state))

    def attach(self, attachment: Attachment, arena: Arena) -> None:
        """Say where observations go and actions come from, and which autoreset mode holds."""
        layout = attachment.layout
        self._attachment, self._arena = attachment, arena
        self._takes_digests = attachment.takes_digests
        self._writers = []
        for slot in range(arena.num_slots):
            arena.turn_to(slot)
            self._writers.append(ObservationWriter(layout, arena))
        self._digesters = [Digester(writer.results) for writer in self._writers] if self._takes_digests else []
        self._has_slots = arena.num_slots > 1
        arena.turn_to(0)
        self._actions = ActionReader(layout, arena, self.rows)
        self._mode = attachment.autoreset_mode
        self.slice.attach(arena, self._writers[0], attachment.task_source)
        self._turn_to(0)
        self._shares: dict[int, Share] = {}

    def _turn_to(self, slot: int) -> None:
        """Let observations be written into this slot."""
        self._writer = self.slice.writer = self._writers[slot]
        if self._takes_digests:
            self._digester = self._digesters[slot]

    def share(self, half: int) -> Share:
        """This runner's environments of a half, or all of them."""
        share = self._shares.get(half)
        if share is None:
            steps = None if half == ALL else steps_of_half(half, self.rows, self._attachment.group_size)
            rows = self.rows if steps is None else steps.rows
            share = self._shares[half] = self._make_share(rows, steps, self._attachment.layout)
        return share

    def _make_share(self, rows: Rows, steps: Steps | None, layout: Layout) -> Share:
        index = as_slice(rows)
        if index is None or not isinstance(layout.action, FixedLeaf):
            return Share(rows, rows if index is None else index, steps, None, list)
        plain = plain_steps_of(self.slice, rows, self._arena, layout, self._mode)
        actions = reader_of(self._attachment.action_space, layout.action, self._arena.actions[0][index])
        return Share(rows, index, steps, plain, actions)

    def _step(self, steps: Steps | None, outcome: Outcome) -> None:
        rows: Rows
        if self._is_batched and isinstance(self.slice, BatchSlice) and self.slice.is_quick:
            if steps is None:
                self.slice.step_all_together(MODES[self._mode], outcome)
            else:
                self.slice.step_some_together(steps.rows, bool(steps.wide), MODES[self._mode], outcome)
            return
        if steps is None:
            rows, actions = self.rows, self._actions.read_all()
        else:
            loose = [*map(_owned, steps.loose)] if self._in_process else steps.loose
            actions = self._actions.read(steps.rows, loose, steps.wide)
            rows = self.rows if steps.rows == self.rows else steps.rows  # for all there are quicker ways
        all_due = self.slice.due
        if all_due:
            due = [row for row in rows if row in all_due]
            if due:
                pairs = [(row, action) for row, action in zip(rows, actions, strict=True) if row not in self.slice.due]
                self.slice.due -= set(due)
                rows, actions = [row for row, _ in pairs], iter([action for _, action in pairs])
                if self.slice.overlaps:
                    self._step_and_reset(rows, actions, due, outcome)
                    return
                self._reset_without_arguments(due, outcome)
        self._settle(self.slice.step_rows(rows, actions, outcome), outcome)

    def take_steps(self, rows: Rows, results: list[Any], outcome: Outcome) -> None:
        """Take in what a step of each of these environments returned."""
        self._settle(self.slice.take_steps(rows, results, outcome), outcome)

    def _settle(self, finished: list[Finished], outcome: Outcome) -> None:
        if finished:
            self._finish(finished, outcome)
        self._collect_loose(outcome)

    def _step_and_reset(self, rows: Rows, actions: Iterator[Any], due: list[int], outcome: Outcome) -> None:
        self.slice.clear_rows(due)
        finished, infos = self.slice.step_and_reset_rows(rows, actions, due, outcome)
        outcome.infos.extend((row, info) for row, info in infos if info)
        self._settle(finished, outcome)

    def _finish(self, finished: list[Finished], outcome: Outcome) -> None:
        if self._mode is AutoresetMode.SAME_STEP:
            # Taken before the reset, which may reuse the environment's buffers.
            endings = {
                ended.env_index: {
                    "final_obs": snapshot(ended.observation),
                    "final_info": snapshot(ended.info),
                }
                for ended in finished
            }
            for ended in finished:
                if isinstance(ended.info.get("fault"), Fault):
                    endings[ended.env_index]["fault"] = ended.info["fault"]  # found where it is in the other modes
            # A loose observation of the ended episode must not arrive after that of the new one.
            self._writer.loose[:] = [entry for entry in singly(self._writer.loose) if entry[0] not in endings]
            rows = list(endings)
            for row, info in self.slice.reset_rows(rows, None, outcome):
                outcome.infos.append((row, {**endings[row], **info}))
            return
        if self._mode is AutoresetMode.NEXT_STEP:
            self.slice.due |= {ended.env_index for ended in finished}
        for ended in finished:
            if ended.info:
                outcome.infos.append((ended.env_index, self._owned(ended.info)))

    def _reset(self, resets: list[Reset], outcome: Outcome) -> None:
        rows = [reset.env_index for reset in resets]
        self.slice.due -= set(rows)
        arguments: list[dict[str, Any]] = [{"seed": reset.seed, "options": snapshot(reset.options)} for reset in resets]
        self.slice.clear_rows(rows)
        infos = self.slice.reset_rows(rows, arguments, outcome)
        outcome.infos.extend((row, info) for row, info in infos if info)
        self._collect_loose(outcome)

    def _reset_without_arguments(self, rows: Rows, outcome: Outcome) -> None:
        self.slice.clear_rows(rows)
        infos = self.slice.reset_rows(rows, None, outcome)
        outcome.infos.extend((row, info) for row, info in infos if info)

    def _collect_loose(self, outcome: Outcome) -> None:
        if self._writer.loose:
            loose = self._writer.take_loose()
            outcome.loose.extend(map(_owned, loose) if self._in_process else loose)

    def _owned(self, value: Any) -> Any:
        """``value`` untied from the environment; sending it to another process does that by itself."""
        return snapshot(value) if self._in_process else value


def _owned(entry: LooseValue) -> LooseValue:
    """Loose values untied from the environments."""
    if isinstance(entry, LooseColumn):
        return entry._replace(values=snapshots(entry.values))
    row, number, value = entry
    return row, number, snapshot(value)


def _told_together(starts: Mapping[int, Start]) -> list[dict[int, Past]]:
    """The pasts with which these histories begin: those that are told in one replay together."""
    together: dict[int, dict[int, Past]] = {}
    for row, start in starts.items():
        if start.past is not None:
            together.setdefault(id(start.past.replay), {})[row] = start.past
    return list(together.values())

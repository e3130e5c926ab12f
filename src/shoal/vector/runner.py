"""The runner: what steps environments exists once, here, wherever it runs.

``serial`` calls it directly, ``threads`` from threads, ``pipes`` and ``shm`` from worker processes. It owns a slice of
environments and is given commands one at a time. Autoreset is decided here, for every kind of slice::

    NEXT_STEP    step ─ ended ─▶ returned as it is        next step ─▶ reset() instead, action ignored, reward 0
    SAME_STEP    step ─ ended ─▶ reset() at once; the ended episode is in info: final_obs, final_info
    DISABLED     step ─ ended ─▶ returned as it is; the caller resets
"""

from __future__ import annotations

from typing import Any

from gymnasium.vector import AutoresetMode

from shoal.vector.actions import ActionReader
from shoal.vector.digests import Digester
from shoal.vector.layout import Arena, Rows, as_index
from shoal.vector.messages import Assignment, Attachment, Call, Command, EnvFn, Op, Outcome, Replay, Reset, Steps
from shoal.vector.observations import ObservationWriter
from shoal.vector.slices import Finished, LoopSlice, Progress
from shoal.vector.snapshot import snapshot


class Runner:
    """Runs the commands for the environments in ``rows``."""

    def __init__(self, rows: range, env_fns: list[EnvFn], progress: Progress, *, in_process: bool) -> None:
        self.rows = rows
        self._env_fns = env_fns
        self._in_process = in_process
        self.slice = LoopSlice(rows, progress, in_process=in_process)
        self._has_slots = False
        self._slot = 0
        self._digester: Digester | None = None
        self._due: set[int] = set()
        """NEXT_STEP: environments whose next step is a reset."""

    def execute(self, command: Command) -> Outcome:
        """Do what ``command`` asks. What environments raise is in the outcome, not raised."""
        outcome = Outcome.empty()
        payload = command.payload
        if self._has_slots and command.op in (Op.STEP, Op.RESET):
            self._slot = command.sequence % len(self._writers)
            self._writer = self.slice.writer = self._writers[self._slot]
        match command.op:
            case Op.STEP:
                self._step(payload, outcome)
            case Op.RESET:
                self._reset(payload, outcome)
            case Op.RESTORE:
                self._restore(payload, outcome)
            case Op.CALL:
                call: Call = payload
                self.slice.call_rows(call, outcome)
            case Op.SET_ATTR:
                assignment: Assignment = payload
                self.slice.set_rows(assignment.rows, assignment.name, assignment.values, outcome)
            case Op.CONSTRUCT:
                self.slice.construct(self._env_fns, outcome)
            case Op.CLOSE:
                self.slice.close()
            case Op.ATTACH | Op.STEP_EACH | Op.RESET_EACH:
                raise AssertionError("a backend has the arena, and takes these commands apart")
        if self._digester is not None and command.op in (Op.STEP, Op.RESET):
            self._take_digests(command, outcome)
        return outcome

    def _take_digests(self, command: Command, outcome: Outcome) -> None:
        assert self._digester is not None
        payload: Any = command.payload
        row = None
        if payload is not None and command.op is Op.STEP and len(payload.rows) == 1:
            row = payload.rows[0]
        elif command.op is Op.RESET and len(payload) == 1:
            row = payload[0].env_index
        if row is not None:
            # Alone: the digests of its neighbours may be read by the caller at this moment.
            self._digester.take_row(row, self._slot, outcome.loose)
        else:
            self._digester.take(self._slot, outcome.loose)

    def _restore(self, replay: Replay, outcome: Outcome) -> None:
        """Do everything again; at the first difference, stop and say where it is."""
        for number, redo in enumerate(replay.redo):
            if redo.op is Op.STEP:
                for target, values in zip(self._arena.given_actions(redo.payload.wide), redo.actions, strict=True):
                    target[as_index(redo.rows)] = values
            self.execute(Command(replay.sequence, redo.op, redo.payload))
            if redo.op not in (Op.STEP, Op.RESET):
                continue
            for row, expected, found in zip(
                redo.rows, redo.digests, self._arena.digests[as_index(redo.rows)].tolist(), strict=True
            ):
                if expected != found:
                    where = self.slice.whereabouts(row)
                    outcome.values.append((row, f"environment {row} {where} (command {number + 1} of the replay)"))
                    return

    def attach(self, attachment: Attachment, arena: Arena) -> None:
        """Say where observations go and actions come from, and which autoreset mode holds."""
        layout = attachment.layout
        self._arena = arena
        self._digester = Digester(arena, self.rows) if attachment.takes_digests else None
        self._writers = []
        for slot in range(arena.num_slots):
            arena.turn_to(slot)
            self._writers.append(ObservationWriter(layout, arena))
        self._has_slots = arena.num_slots > 1
        self._writer = self._writers[0]
        arena.turn_to(0)
        self._actions = ActionReader(layout, arena, self.rows)
        self._mode = attachment.autoreset_mode
        self.slice.attach(arena, self._writer, attachment.task_source)

    def _step(self, steps: Steps | None, outcome: Outcome) -> None:
        rows: Rows
        if steps is None:
            rows, actions = self.rows, self._actions.read_all()
        else:
            loose = snapshot(steps.loose) if self._in_process else steps.loose
            rows, actions = steps.rows, self._actions.read(steps.rows, loose, steps.wide)
        if self._due:
            due = [row for row in rows if row in self._due]
            if due:
                pairs = [(row, action) for row, action in zip(rows, actions, strict=True) if row not in self._due]
                self._due.difference_update(due)
                self._reset_without_arguments(due, outcome)
                rows, actions = [row for row, _ in pairs], iter([action for _, action in pairs])
        finished = self.slice.step_rows(rows, actions, outcome)
        if finished:
            self._finish(finished, outcome)
        self._collect_loose(outcome)

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
            # A loose observation of the ended episode must not arrive after that of the new one.
            self._writer.loose[:] = [entry for entry in self._writer.loose if entry[0] not in endings]
            rows = list(endings)
            for row, info in self.slice.reset_rows(rows, None, outcome):
                outcome.infos.append((row, {**endings[row], **info}))
            return
        if self._mode is AutoresetMode.NEXT_STEP:
            self._due.update(ended.env_index for ended in finished)
        for ended in finished:
            if ended.info:
                outcome.infos.append((ended.env_index, self._owned(ended.info)))

    def _reset(self, resets: list[Reset], outcome: Outcome) -> None:
        rows = [reset.env_index for reset in resets]
        self._due.difference_update(rows)
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
            outcome.loose.extend((row, number, self._owned(value)) for row, number, value in self._writer.take_loose())

    def _owned(self, value: Any) -> Any:
        """``value`` untied from the environment; sending it to another process does that by itself."""
        return snapshot(value) if self._in_process else value

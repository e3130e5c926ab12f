"""The history beside a plain list: whatever is packed, dropped and written over again, the same rounds are read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal.vector import history
from shoal.vector.halves import halves_of
from shoal.vector.history import History, Piece, Stretch
from shoal.vector.messages import Op
from shoal.vector.rounds import Round

NUM_ENVS = 4
HALVES = halves_of([range(NUM_ENVS)], 1)
DOINGS = st.sampled_from(["step", "reset", "half 0", "half 1", "arrive 0", "arrive 1", "drop", "drop all"])


class Model:
    """A history, and what should be in it."""

    def __init__(self) -> None:
        self.actions, self.results = np.zeros(8, np.uint8), np.zeros(24, np.uint8)
        self.history = History()
        self.history.attach(self.actions, [self.results])
        self.expected: dict[int, bytes] = {}
        self.under_way: dict[int, Round] = {}
        self.sequence = 0

    def _ask(self, op: Op, **keywords: Any) -> Round:
        self.sequence += 1
        self.actions[:] = self.results[:] = self.sequence % 251
        self.expected[self.sequence] = self.actions.tobytes()
        return Round(self.sequence, op, None, float(self.sequence), 1, self.actions.tobytes(), nbytes=32, **keywords)

    def do(self, doing: str) -> None:
        what, _, number = doing.partition(" ")
        half = int(number) if number.isdigit() else 0
        if what == "step" and not self.under_way:
            self.history.under_way = self._ask(Op.STEP)
            self.history.finish_step([self.results])
        elif what == "reset":
            self.history.append(self._ask(Op.RESET))
        elif what == "half" and half not in self.under_way:
            one = self.under_way[half] = self._ask(Op.STEP_EACH, half=HALVES[half])
            self.history.begin_half(one)
        elif what == "half":
            one = self.under_way.pop(half)
            self.results[:] = one.sequence % 251
            self.history.finish_half(one, [self.results])
        elif what == "arrive" and half in self.under_way:
            del self.under_way[half]  # environment by environment, of which the history is told nothing
        elif what == "drop":
            floor = self.sequence if number else self.sequence - 3
            is_open = {one.sequence for one in self.under_way.values()}
            self.history.drop_before(floor, is_open, lambda one: False)

    def check(self) -> None:
        found = [(one.sequence, bytes(one.actions or b""), one.before) for one in self.history]
        assert [sequence for sequence, *_ in found] == sorted(self.expected)[-len(found) or self.sequence :]
        for sequence, actions, before in found:
            assert actions == self.expected[sequence]
            assert before == sequence
        assert [one.sequence for one in reversed(self.history)] == [sequence for sequence, *_ in reversed(found)]
        for one in self.history:
            if one.results is not None:
                assert set(bytes(one.results)) == {one.sequence % 251}
        for sequence, *_ in found:
            assert [one.sequence for one in self.history.after(sequence)] == [
                each for each, *_ in found if each > sequence
            ]
        assert len(self.history) == len(found)


@given(doings=st.lists(DOINGS, max_size=60))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_holds_what_a_list_would_hold(doings: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "PIECE", 32 * 3)
    model = Model()
    for doing in doings:
        model.do(doing)
        model.check()


def test_resets_between_steps_take_no_memory_of_their_own() -> None:
    model = Model()
    for _ in range(1000):
        model.do("step")
        model.do("reset")
    parts = [part for part in model.history._parts if isinstance(part, Stretch)]
    assert len({id(part.piece) for part in parts}) == 1


def test_memory_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "PIECE", 32 * 3)
    pieces: list[Piece] = []

    def make(nbytes: int) -> Piece:
        pieces.append(Piece(nbytes))
        return pieces[-1]

    monkeypatch.setattr(history, "Piece", make)
    model = Model()
    for number in range(600):
        model.do("step")
        if number % 6 == 5:
            model.do("drop all")
    assert len(pieces) < 5

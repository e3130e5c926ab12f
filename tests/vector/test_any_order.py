"""Calls in any order, allowed or not, with kills in between: a pool of processes does and refuses what a plain loop does."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

import shoal
from shoal import ParallelEnv
from shoal.vector import history, shortening, supervisor
from tests.comparing import difference
from tests.envs import SilentEnv, WalkingEnv

NUM_ENVS = 3
ROWS = st.lists(st.integers(0, NUM_ENVS - 1), min_size=1, max_size=NUM_ENVS, unique=True).map(sorted)
ACTIONS = st.lists(st.integers(0, 2), min_size=NUM_ENVS, max_size=NUM_ENVS)


class AnyOrder(RuleBasedStateMachine):
    """The same calls to a pool and to a loop."""

    backend = ""
    env_fn: type[WalkingEnv] = WalkingEnv

    def __init__(self) -> None:
        super().__init__()
        self.pool = ParallelEnv([self.env_fn] * NUM_ENVS, backend=self.backend, num_workers=2, start_method="fork")
        self.loop = ParallelEnv([self.env_fn] * NUM_ENVS, backend="serial")
        self.halves = {envs: envs.split(2) for envs in (self.pool, self.loop)}
        self.away = 0

    def teardown(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # something may be pending
            self.pool.close(terminate=True)
            self.loop.close(terminate=True)

    def both(self, call: Callable[[ParallelEnv], Any]) -> Any:
        """Call both, and compare what they return, or what they raise."""
        found, expected = self._outcome(call, self.pool), self._outcome(call, self.loop)
        if isinstance(expected, Exception) or isinstance(found, Exception):
            assert type(found).__name__ == type(expected).__name__, f"{found!r}, {expected!r}"
        else:
            assert not difference(found, expected)
        return expected

    @staticmethod
    def _outcome(call: Callable[[ParallelEnv], Any], envs: ParallelEnv) -> Any:
        try:
            return call(envs)
        except (shoal.ShoalError, ValueError, TypeError) as error:
            return error

    @rule(seed=st.none() | st.integers(0, 9))
    def reset(self, seed: int | None) -> None:
        self.both(lambda envs: envs.reset(seed=5 if seed is None and not self.loop._readiness.all_ready else seed))

    @rule(seed=st.integers(0, 9), rows=ROWS)
    def reset_some(self, seed: int, rows: list[int]) -> None:
        self.both(lambda envs: envs.reset(seed=[seed + row for row in rows], env_ids=rows))

    @rule(actions=ACTIONS)
    def step(self, actions: list[int]) -> None:
        self.both(lambda envs: envs.step(actions))

    @rule(actions=st.sampled_from([[0], [0, 1, 2, 0], [0, 9, 0], [0, None, 1], "no", None]))
    def step_wrongly(self, actions: Any) -> None:
        self.both(lambda envs: envs.step(actions))

    @rule(actions=ACTIONS)
    def begin_a_step(self, actions: list[int]) -> None:
        self.both(lambda envs: envs.step_async(actions))

    @rule()
    def begin_a_reset(self) -> None:
        self.both(lambda envs: envs.reset_async(seed=4))

    @rule(name=st.sampled_from(["step_wait", "reset_wait", "call_wait"]))
    def wait(self, name: str) -> None:
        self.both(lambda envs: getattr(envs, name)())

    @rule(actions=ACTIONS, rows=ROWS)
    def send(self, actions: list[int], rows: list[int]) -> None:
        sent = self.both(lambda envs: envs.send(actions[: len(rows)], rows))
        self.away += 0 if isinstance(sent, Exception) else len(rows)

    @rule(actions=ACTIONS, number=st.integers(0, 1))
    def begin_a_half(self, actions: list[int], number: int) -> None:
        size = self.halves[self.loop][number].num_envs
        sent = self.both(lambda envs: self.halves[envs][number].step_async(np.array(actions[:size])))
        self.away += 0 if isinstance(sent, Exception) else size

    @rule(number=st.integers(0, 1))
    def finish_a_half(self, number: int) -> None:
        results = self.both(lambda envs: self.halves[envs][number].step_wait())
        self.away -= 0 if isinstance(results, Exception) else self.halves[self.loop][number].num_envs

    @rule(actions=ACTIONS, times=st.integers(1, 20))
    def step_halves_for_a_while(self, actions: list[int], times: int) -> None:
        for number in (*[0, 1] * times, 0, 1):
            self.begin_a_half(actions, number)
            self.finish_a_half(1 - number)

    @rule()
    def receive_all(self) -> None:
        def receive(envs: ParallelEnv) -> Any:
            batch = envs.recv(min_envs=max(1, self.away))
            order = batch.env_ids.argsort()
            return [batch.env_ids[order], *(part[order] for part in batch[1:5])]

        if not isinstance(self.both(receive), Exception):
            self.away = 0

    @rule(value=st.floats(0, 1))
    def set_an_attribute(self, value: float) -> None:
        self.both(lambda envs: envs.set_attr("position", value))

    @rule()
    def read_an_attribute(self) -> None:
        self.both(lambda envs: envs.get_attr("position"))

    @rule(worker=st.integers(0, 1))
    def kill(self, worker: int) -> None:
        os.kill(self.pool.worker_pids[worker], signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("env_fn", [WalkingEnv, SilentEnv])
def test_calls_in_any_order(process_backend: str, env_fn: type[WalkingEnv], monkeypatch: pytest.MonkeyPatch) -> None:
    # Little is kept for long, and memory is used again all the time.
    monkeypatch.setattr(history, "PIECE", 1024)
    monkeypatch.setattr(supervisor, "MAINTENANCE", 4)
    monkeypatch.setattr(shortening, "WORTHWHILE_SECONDS", 0.002)
    machine = type("AnyOrder", (AnyOrder,), {"backend": process_backend, "env_fn": env_fn})
    run_state_machine_as_test(machine, settings=settings(max_examples=20, stateful_step_count=30, deadline=None))

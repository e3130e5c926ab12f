"""Infos that are alike in every step need no message, and nobody sees a difference."""

from __future__ import annotations

import functools
import os
import signal
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal import ParallelEnv
from shoal.vector.backends import processes
from shoal.vector.backends.board import writes_keep_their_order
from shoal.vector.backends.channel import RING, Frame
from shoal.vector.backends.processes import ProcessBackend
from tests.comparing import difference, rollout
from tests.envs import CountingEnv

Script = list[list[dict[str, Any]]]
"""What is told in each step, by each environment."""
NUM_ENVS = 4


class TellingEnv(CountingEnv):
    """Tells what it is given to tell, step by step, and then from the beginning again."""

    def __init__(self, script: Script, index: int, length: int = 1000) -> None:
        super().__init__(length)
        self.told = [step[index] for step in script]

    def step(self, action: Any) -> Any:
        *result, _ = super().step(action)
        return *result, dict(self.told[self.count % len(self.told)])


def telling(script: Script, length: int = 1000) -> list[Any]:
    return [functools.partial(TellingEnv, script, index, length) for index in range(NUM_ENVS)]


def alike(step: int, env: int, **more: Any) -> dict[str, Any]:
    return {"score": step + env / 2, "lives": step, "won": step % 3 == 0, "at": np.arange(3) * env, **more}


def same_as_serial(script: Script, steps: int = 30, length: int = 1000, **choices: Any) -> None:
    with ParallelEnv(telling(script, length), backend="serial") as plain:
        expected = rollout(plain, steps)
    with ParallelEnv(
        telling(script, length), backend="shm", start_method="fork", **{"num_workers": 2, **choices}
    ) as envs:
        assert not difference(rollout(envs, steps), expected)


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[Frame]:
    """What workers send, except to wake the caller."""
    found: list[Frame] = []
    take = ProcessBackend._take

    def note(self: ProcessBackend, worker: int, member: Any, frame: Frame, events: Any) -> None:
        found.extend([frame] if frame.kind != RING else [])
        take(self, worker, member, frame, events)

    monkeypatch.setattr(ProcessBackend, "_take", note)
    return found


def take_steps(script: Script, steps: int, messages: list[Frame]) -> None:
    """So many steps, after which ``messages`` has those that workers have sent about them."""
    with ParallelEnv(telling(script), backend="shm", num_workers=2, start_method="fork") as envs:
        envs.reset(seed=0)
        messages.clear()
        for _ in range(steps):
            envs.step(np.zeros(NUM_ENVS, np.int64))
        count = len(messages)
    del messages[count:]  # what is said about closing


ALIKE: Script = [[alike(step, env) for env in range(NUM_ENVS)] for step in range(7)]


@pytest.mark.skipif(not writes_keep_their_order(), reason="steps travel as messages here")
def test_only_the_first_of_infos_that_are_alike_is_a_message(messages: list[Frame]) -> None:
    take_steps(ALIKE, 50, messages)
    assert len(messages) == 2 * 2  # of each worker: its form, and the first infos


@pytest.mark.skipif(not writes_keep_their_order(), reason="steps travel as messages here")
def test_words_that_are_known_need_no_message(messages: list[Frame]) -> None:
    script = [[alike(step, env, phase="ab"[(step + env) % 2]) for env in range(NUM_ENVS)] for step in range(4)]
    take_steps(script, 50, messages)
    assert len(messages) == 2 * 2


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "whole": st.integers(-5, 5),
    "large": st.integers(-(2**64), 2**64),
    "real": st.floats(allow_nan=False),
    "flag": st.booleans(),
    "text": st.sampled_from(["a", "b", "", "ä"]),
    "array": st.lists(st.integers(-9, 9), min_size=2, max_size=2).map(lambda values: np.array(values, np.int16)),
    "other": st.sampled_from([None, 7, 0.5, "x", np.float32(1.5), np.zeros(2), np.zeros(3), {"inner": 1}, [1]]),
}


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    """A few steps of one kind after a few of another."""
    script: Script = []
    for _ in range(draw(st.integers(1, 3))):
        names = draw(st.lists(st.sampled_from([*VALUES]), max_size=3, unique=True))
        told = st.fixed_dictionaries({name: VALUES[name] for name in names})
        script += draw(st.lists(st.lists(told, min_size=NUM_ENVS, max_size=NUM_ENVS), min_size=2, max_size=5))
    return script


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(script=scripts(), num_workers=st.integers(1, 3), length=st.sampled_from([3, 1000]))
def test_whatever_is_told_in_whatever_order_arrives(script: Script, num_workers: int, length: int) -> None:
    same_as_serial(script, num_workers=num_workers, length=length)


def in_halves(envs: ParallelEnv, rounds: int, kill: bool = False) -> list[Any]:
    """What comes of steps in two halves, and now and then of all."""
    random, found = np.random.default_rng(3), [*envs.reset(seed=1)]
    parts = envs.split(2)
    for number in range(rounds):
        for part in parts:
            part.step_async(random.integers(0, 5, part.num_envs))
        if kill and number % 7 == 3:
            os.kill(envs.worker_pids[number % 2], signal.SIGKILL)
        found += [part.step_wait() for part in parts]
        if number % 5 == 4:
            found.append(envs.step(random.integers(0, 5, NUM_ENVS)))
        if number % 9 == 8:
            envs.send(random.integers(0, 5, NUM_ENVS))
            found.append(envs.recv(env_ids=[3, 1, 0, 2]).info)
    return found


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(script=scripts(), num_workers=st.integers(1, 3), length=st.sampled_from([3, 1000]))
def test_so_it_does_from_halves(script: Script, num_workers: int, length: int) -> None:
    with ParallelEnv(telling(script, length), backend="serial") as plain:
        expected = in_halves(plain, 20)
    with ParallelEnv(telling(script, length), backend="shm", num_workers=num_workers, start_method="fork") as envs:
        assert not difference(in_halves(envs, 20), expected)


def test_halves_of_workers_that_are_replaced_are_understood() -> None:
    with ParallelEnv(telling(ALIKE), backend="serial") as plain:
        expected = in_halves(plain, 40)
    with ParallelEnv(telling(ALIKE), backend="shm", num_workers=2, start_method="fork") as envs:
        assert not difference(in_halves(envs, 40, kill=True), expected)
        assert envs.stats.restarts >= 5


@pytest.mark.skipif(not writes_keep_their_order(), reason="steps travel as messages here")
def test_halves_need_no_message_either(messages: list[Frame], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "SPIN_SECONDS", 60.0)  # where steps take long, environments are asked one by one
    with ParallelEnv(telling(ALIKE), backend="shm", num_workers=2, start_method="fork") as envs:
        envs.reset(seed=0)
        parts = envs.split(2)
        messages.clear()
        for _ in range(50):
            for part in parts:
                part.step(np.zeros(2, np.int64))
        assert len(messages) == 2 * 2  # of each worker and half: its form


def test_ever_new_words_and_large_infos_arrive() -> None:
    wordy: Script = [[alike(step, env, word=f"{step}-{env}") for env in range(NUM_ENVS)] for step in range(100)]
    same_as_serial(wordy, 120)
    large: Script = [[alike(step, env, many=np.full(100, step)) for env in range(NUM_ENVS)] for step in range(5)]
    same_as_serial(large)


def test_a_worker_that_is_replaced_is_understood() -> None:
    with ParallelEnv(telling(ALIKE), backend="serial") as plain:
        expected = rollout(plain, 40)
    with ParallelEnv(telling(ALIKE), backend="shm", num_workers=2, start_method="fork") as envs:
        envs.action_space.seed(7)
        found: list[Any] = [envs.reset(seed=7)]
        for step in range(40):
            if step % 10 == 5:
                os.kill(envs.worker_pids[step // 10 % 2], signal.SIGKILL)
            found.append(envs.step(envs.action_space.sample()))
        assert envs.stats.restarts == 4
    assert not difference(found, expected)


def test_infos_stay_as_they_were_when_the_next_step_is_taken() -> None:
    with ParallelEnv(telling(ALIKE), backend="shm", num_workers=2, start_method="fork") as envs:
        envs.reset(seed=0)
        for _ in range(3):
            *_, info = envs.step(np.zeros(NUM_ENVS, np.int64))
        before = {name: value.copy() for name, value in info.items()}
        envs.step(np.zeros(NUM_ENVS, np.int64))
    assert not difference(info, before)


class InterruptingEnv(TellingEnv):
    """Interrupts its caller in the middle of its tenth step."""

    def __init__(self, script: Script, index: int, caller: int) -> None:
        super().__init__(script, index)
        self.caller = caller

    def step(self, action: Any) -> Any:
        if self.count == 9:
            os.kill(self.caller, signal.SIGINT)
            time.sleep(0.01)
        return super().step(action)


def test_an_interrupted_step_has_its_infos_when_it_is_asked_for_again() -> None:
    env_fns = [functools.partial(InterruptingEnv, ALIKE, 0, os.getpid()), *telling(ALIKE)[1:]]
    actions = np.zeros(NUM_ENVS, np.int64)
    with ParallelEnv(env_fns, backend="shm", num_workers=2, start_method="fork") as envs:
        envs.reset(seed=0)
        for _ in range(9):
            envs.step(actions)
        with pytest.raises(KeyboardInterrupt):
            envs.step(actions)
        *_, info = envs.step_wait()
    assert info["lives"].tolist() == [ALIKE[10 % len(ALIKE)][env]["lives"] for env in range(NUM_ENVS)]


def test_arrays_in_another_byte_order_are_the_same_with_any_number_of_workers() -> None:
    foreign: Script = [
        [alike(step, env, far=np.arange(2, dtype=">f4")) for env in range(NUM_ENVS)] for step in range(3)
    ]
    same_as_serial(foreign, num_workers=NUM_ENVS)
    same_as_serial(foreign)

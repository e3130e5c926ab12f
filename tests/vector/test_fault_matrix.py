"""Faults that have no better place: torn messages, workers that fight, orders that differ between processes."""

from __future__ import annotations

import functools
import os
import random
import signal
import threading
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import shoal
from shoal import ParallelEnv
from shoal.testing import Fault, FaultPlan
from tests.comparing import difference, rollout
from tests.envs import Env, WalkingEnv


class VerboseEnv(WalkingEnv):
    """Its info is a megabyte, so that a reply takes some time."""

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated, {**info, "log": bytes([self.steps]) * 2**20}


class PanoramaEnv(Env):
    """Its observation is 4 megabytes, so that writing it takes some time."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 255, (4, 2**20), np.uint8)
        self.action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self._observe(), {}

    def _observe(self) -> Any:
        return np.full((4, 2**20), self.steps % 256, np.uint8)

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self._observe(), float(action), self.steps >= 50, False, {}


@pytest.mark.parametrize("env_fn", [VerboseEnv, PanoramaEnv])
def test_a_message_or_observation_that_is_torn_is_never_seen(process_backend: str, env_fn: Any) -> None:
    chance = random.Random(3)
    with (
        ParallelEnv([env_fn] * 2, backend=process_backend, num_workers=2, start_method="fork") as envs,
        ParallelEnv([env_fn] * 2, backend="serial") as plain,
    ):
        assert not difference(envs.reset(seed=1), plain.reset(seed=1))
        for number in range(6):
            pid = envs.worker_pids[number % 2]
            envs.step_async([number % 3, 1])
            # Somewhere in the step, the writing of its result, or the sending of its reply.
            killer = threading.Timer(chance.uniform(0.0, 0.01), _kill, [pid])
            killer.start()
            found = envs.step_wait()
            killer.join()
            assert not difference(found, plain.step([number % 3, 1]))
        assert envs.stats.restarts > 0


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class FightingEnv(WalkingEnv):
    """Kills the other workers, once."""

    def __init__(self, folder: str, row: int) -> None:
        super().__init__()
        self.folder, self.row = folder, row
        self.marker = os.path.join(folder, f"{row}.struck")
        with open(os.path.join(folder, f"{row}.pid"), "w") as file:
            file.write(str(os.getpid()))

    def step(self, action: Any) -> Any:
        if not os.path.exists(self.marker):
            with open(self.marker, "w"):
                pass
            for name in os.listdir(self.folder):
                if name.endswith(".pid"):
                    with open(os.path.join(self.folder, name)) as file:
                        pid = int(file.read() or 0)
                    if pid not in (os.getpid(), 0):
                        _kill(pid)
        return super().step(action)


@pytest.mark.parametrize("count", [1, 2, 5, pytest.param(13, marks=pytest.mark.soak)])
def test_workers_that_kill_each_other_are_brought_back(process_backend: str, count: int, tmp_path: Any) -> None:
    fns = [functools.partial(FightingEnv, str(tmp_path), row) for row in range(count)]
    with ParallelEnv(fns, backend=process_backend, num_workers=count, start_method="fork") as envs:
        found = rollout(envs, 15)
        assert envs.stats.restarts >= (count > 1)
    assert len(list(tmp_path.glob("*.struck"))) == count
    with ParallelEnv([WalkingEnv] * count, backend="serial") as plain:
        assert not difference(found, rollout(plain, 15))


class SetEnv(WalkingEnv):
    """What it does depends on the order of a set of texts."""

    def step(self, action: Any) -> Any:
        observation, reward, *rest = super().step(action)
        order = "".join({f"word {number}" for number in range(20)})
        return observation, reward + sum(place * ord(letter) for place, letter in enumerate(order)), *rest


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_the_order_of_sets_is_the_same_in_a_replacement(process_backend: str, method: str) -> None:
    with ParallelEnv([SetEnv] * 2, backend=process_backend, num_workers=1, start_method=method) as envs:
        envs.reset(seed=1)
        for _ in range(5):
            envs.step([1, 1])
        before = envs.step([1, 1])
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        after = envs.step([1, 1])
        assert envs.stats.restarts == 1
    with ParallelEnv([SetEnv] * 2, backend=process_backend, num_workers=1, start_method=method) as plain:
        plain.reset(seed=1)
        expected = [plain.step([1, 1]) for _ in range(7)]
        assert not difference([before, after], expected[5:])


class SharingEnv(WalkingEnv):
    """Draws from random numbers that it shares with its neighbours, of both kinds."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            random.seed(seed)
            np.random.seed(seed)
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        observation, reward, *rest = super().step(action)
        return observation, reward + random.random() + np.random.random(), *rest


@pytest.mark.parametrize("isolate", [False, True])
def test_random_numbers_that_neighbours_share_are_repeated_in_order(process_backend: str, isolate: bool) -> None:
    plan = FaultPlan([Fault("kill", env=2, episode=0, step=3), Fault("kill", env=6, episode=1, step=1)])
    keywords: Any = {"backend": process_backend, "num_workers": 2, "start_method": "fork", "isolate_rng": isolate}
    with ParallelEnv(plan.wrap(SharingEnv, 8), **keywords) as envs:
        found = rollout(envs, 40)
        assert envs.stats.restarts == 2
    plan.check_all_fired()
    with ParallelEnv([SharingEnv] * 8, **keywords) as plain:
        assert not difference(found, rollout(plain, 40))


def test_random_numbers_that_nobody_can_repeat_are_found_out(process_backend: str) -> None:
    class Fickle(WalkingEnv):
        def step(self, action: Any) -> Any:
            observation, reward, *rest = super().step(action)
            return observation, reward + os.urandom(1)[0], *rest

    with ParallelEnv([Fickle] * 2, backend=process_backend, num_workers=1, start_method="fork") as envs:
        envs.reset(seed=1)
        for _ in range(8):
            envs.step([1, 1])
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        with pytest.raises(shoal.ReplayDiverged, match=r"environment 0 in episode 0 at step \d"):
            envs.step([1, 1])


def test_tasks_and_groups_go_on_after_a_fault(process_backend: str) -> None:
    tasks = functools.partial(_task)
    keywords: dict[str, Any] = {"groups": 2, "tasks": tasks, "check_groups": True}
    plan = FaultPlan([Fault("kill", env=1, episode=1, step=2), Fault("kill", env=3, episode=0, step=1)])
    with ParallelEnv(
        plan.wrap(WalkingEnv, 4), backend=process_backend, num_workers=2, start_method="fork", **keywords
    ) as envs:
        found = rollout(envs, 40)
    plan.check_all_fired()
    with ParallelEnv([WalkingEnv] * 4, backend="serial", **keywords) as plain:
        assert not difference(found, rollout(plain, 40))


def _task(group: int, episode: int) -> Any:
    return {"from": group * 100 + episode}


def test_late_replies_are_dropped_and_counted(process_backend: str) -> None:
    with ParallelEnv([WalkingEnv] * 2, backend=process_backend, num_workers=1, start_method="fork") as envs:
        envs.reset(seed=1)
        member = envs._pool.unwatched.crew[0]
        member.generation += 1  # as if this worker had been replaced: what it says is for somebody else
        envs.call_async("is_over")
        with pytest.raises(shoal.WaitTimeout):
            envs.call_wait(timeout=0.5)
        assert envs.stats.dropped_replies == 1
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        assert envs.call_wait() == (False, False)
        assert envs.stats.restarts == 1

"""Many rows with a task each come to what single environments come to, wherever they run and whatever happens."""

from __future__ import annotations

import functools
import os
import signal
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import shoal
from shoal import ParallelEnv
from shoal.envs.meta.point_robot import PointRobotSparseEnv
from shoal.vector.batch_slice import BatchSlice
from tests.comparing import difference

N = 7
make_one = functools.partial(PointRobotSparseEnv, n_tasks=12, max_episode_steps=9)


def singles() -> list[Any]:
    """Factories that are not one and the same, so that each makes an environment of its own."""
    return [functools.partial(PointRobotSparseEnv, n_tasks=12, max_episode_steps=9) for _ in range(N)]


def play(envs: ParallelEnv, steps: int = 60, kill_at: tuple[int, ...] = ()) -> list[Any]:
    """Tasks for all, then new ones for some that are in the middle of theirs; others keep theirs over autoresets."""
    envs.action_space.seed(3)
    results: list[Any] = [envs.reset(seed=3, options=[{"task": row} for row in range(N)])]
    for number in range(steps):
        if number in kill_at:
            os.kill(envs.worker_pids[number % len(envs.worker_pids)], signal.SIGKILL)
        results.append(envs.step(envs.action_space.sample()))
        if number % 5 == 0:
            some = [number % N, (number + 3) % N]
            results.append(envs.reset(env_ids=some, options=[{"task": number % 12}, {"task": None}]))
        if number % 17 == 0:
            results.append(envs.reset(env_ids=[number % N]))
        results.append(envs.call("get_current_task"))
    return results


@pytest.fixture(scope="module")
def expected() -> list[Any]:
    with ParallelEnv(singles(), backend="serial") as envs:
        return play(envs)


@pytest.mark.parametrize("num_workers", [1, 2, 3])
def test_rows_together_are_as_many_single_ones(backend: str, num_workers: int, expected: list[Any]) -> None:
    workers: dict[str, Any] = {} if backend == "serial" else {"num_workers": num_workers, "start_method": "fork"}
    with ParallelEnv([make_one] * N, backend=backend, **workers) as envs:
        if backend == "serial":
            assert isinstance(envs._pool.unwatched.runners[0].slice, BatchSlice)
        assert not difference(play(envs), expected)


@pytest.mark.parametrize("are_rows", [True, False], ids=["rows", "singles"])
def test_tasks_survive_the_death_of_workers(process_backend: str, are_rows: bool, expected: list[Any]) -> None:
    fns = [make_one] * N if are_rows else singles()
    with ParallelEnv(fns, backend=process_backend, num_workers=2, start_method="fork") as envs:
        assert not difference(play(envs, kill_at=(2, 13, 14, 41)), expected)
        assert envs.stats.restarts == 4


def test_a_task_goes_into_copies_and_saved_states(backend: str) -> None:
    with ParallelEnv(
        [make_one] * 3, backend=backend, num_workers=None, start_method="fork", on_fault="restore"
    ) as envs:
        envs.reset(seed=0, options=[{"task": 1}, {"task": 2}, {"task": 3}])
        saved = envs.state_dict()
        envs.fork(2, [0])
        tasks = [task.tolist() for task in envs.call("get_current_task")]
        assert tasks[0] == tasks[2] == PointRobotSparseEnv(n_tasks=12).tasks[3].tolist()
        envs.reset()
        assert [task.tolist() for task in envs.call("get_current_task")] == tasks
        envs.load_state_dict(saved)
        assert envs.call("get_current_task")[0].tolist() == PointRobotSparseEnv(n_tasks=12).tasks[1].tolist()


def test_a_state_holds_the_task() -> None:
    env, other = PointRobotSparseEnv(n_tasks=9), PointRobotSparseEnv(n_tasks=9)
    env.reset(seed=1, options={"task": 7})
    other.reset(seed=2, options={"task": 1})
    other.set_state(env.get_state())
    assert other.get_current_task().tolist() == env.get_current_task().tolist()
    action = np.array([0.1, 0.0], np.float32)
    assert not difference(other.step(action), env.step(action))


@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
def test_after_an_autoreset_the_task_is_the_same(mode: AutoresetMode) -> None:
    with shoal.make("shoal/GridNavi-v0", 50, backend="serial", autoreset_mode=mode) as envs:
        envs.reset(seed=0)
        before = np.array(envs.call("get_current_task"))
        for _ in range(40):
            envs.step(envs.action_space.sample())
        assert (np.array(envs.call("get_current_task")) == before).all()

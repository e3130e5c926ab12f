"""A worker that dies in the middle changes nothing: tasks, episodes and what comes out are the same."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np
import pytest

from shoal.meta import ParallelEnvManager, VariBadWrapper, make_parallel_env
from shoal.meta.making import VariBadFactory
from shoal.testing import Fault, FaultPlan
from tests.comparing import difference

N = 4
NAME = "PointRobotSparse-v0"


def collect(manager: ParallelEnvManager, rounds: int = 150) -> list[Any]:
    """Rollouts one by one: who is done begins another task, some are interrupted in the middle of theirs."""
    random = np.random.default_rng(0)
    results: list[Any] = []
    for number, remote in enumerate(manager.remotes):
        remote.send(("reset", {"task": number, "seed": number}))
    results += [remote.recv() for remote in manager.remotes]
    for number in range(rounds):
        for remote in manager.remotes:
            remote.send(("step", random.uniform(-1, 1, 2).astype(np.float32)))
        answers = [remote.recv() for remote in manager.remotes]
        results.append(answers)
        for index, (remote, answer) in enumerate(zip(manager.remotes, answers, strict=True)):
            if answer[2] or (number + index) % 31 == 30:
                remote.send(("reset", {"task": (number + index) % 9}))
                results.append(remote.recv())
                remote.send(("get_task", None))
                results.append(remote.recv())
        if number % 40 == 20:
            manager.remotes[number % N].send(("reset_mdp", None))
            results.append(manager.remotes[number % N].recv())
    return results


@pytest.fixture(scope="module")
def expected() -> list[Any]:
    with make_parallel_env(NAME, 2, N, backend="serial", n_tasks=9, max_episode_steps=13) as manager:
        return collect(manager)


@pytest.mark.parametrize("num_processes", [1, 2, 3, 4])
def test_any_number_of_workers_comes_to_the_same(process_backend: str, num_processes: int, expected: list[Any]) -> None:
    with make_parallel_env(
        NAME, 2, N, backend=process_backend, num_processes=num_processes, start_method="fork", n_tasks=9,
        max_episode_steps=13,
    ) as manager:  # fmt: skip
        assert not difference(collect(manager), expected)


def test_threads_come_to_the_same(expected: list[Any]) -> None:
    with make_parallel_env(NAME, 2, N, backend="threads", num_processes=2, n_tasks=9, max_episode_steps=13) as manager:
        assert not difference(collect(manager), expected)


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_killed_workers_change_nothing(process_backend: str, method: str, expected: list[Any]) -> None:
    """In a step, after one, in a reset, and in the second of two episodes."""
    plan = FaultPlan(
        [
            Fault("kill", env=0, step=5),
            Fault("kill", env=3, step=20, phase="after step"),
            Fault("kill", env=1, episode=1, phase="reset"),
            Fault("segfault", env=2, episode=2, step=3),
        ]
    )
    make = VariBadFactory(_make, 2, {})
    with ParallelEnvManager(
        plan.wrap([make] * N), backend=process_backend, num_processes=2, start_method=method, on_fault="restore"
    ) as manager:
        assert not difference(collect(manager), expected)
        assert manager.stats.restarts >= 4
    plan.check_all_fired()


def test_a_worker_killed_while_commands_are_under_way_changes_nothing(process_backend: str) -> None:
    def run(manager: ParallelEnvManager, *, kills: bool) -> list[Any]:
        results = list(manager.reset(list(range(N)), seeds=5))
        for number in range(60):
            for remote in manager.remotes:
                remote.send(("step", np.full(2, 0.5, np.float32)))
            if kills and number in (3, 30, 31):
                os.kill(manager.envs.worker_pids[number % 2], signal.SIGKILL)
            results.append([remote.recv() for remote in manager.remotes])
            if number % 25 == 24:
                results.append(manager.reset([8, 7], env_ids=[1, 2]))
        return results

    with make_parallel_env(NAME, 3, N, backend="serial", n_tasks=9) as manager:
        undisturbed = run(manager, kills=False)
    with make_parallel_env(
        NAME, 3, N, backend=process_backend, num_processes=2, start_method="fork", n_tasks=9
    ) as manager:
        assert not difference(run(manager, kills=True), undisturbed)
        assert manager.stats.restarts == 3


def test_where_one_is_goes_with_a_saved_state_and_a_copy(backend: str) -> None:
    """How many episodes of a task are over, and which task it is."""
    action = np.full((2, 2), 0.5, np.float32)
    with ParallelEnvManager([_wrapped] * 2, backend=backend, start_method="fork", on_fault="restore") as manager:
        manager.reset([3, 8], seeds=1)
        for _ in range(20):
            manager.step(action)
        saved = manager.envs.state_dict()
        manager.envs.fork(1, [0])
        steps = [manager.step(action) for _ in range(10)]
        assert all(
            (step.observations[0] == step.observations[1]).all() and step.rewards[0] == step.rewards[1]
            for step in steps
        )
        manager.envs.load_state_dict(saved)
        again = [manager.step(action) for _ in range(10)]
        assert not difference([step.observations[1] for step in again], [step.observations[1] for step in steps])


def _make() -> Any:
    import gymnasium

    return gymnasium.make("shoal/PointRobotSparse-v0", n_tasks=9, max_episode_steps=13)


def _wrapped() -> VariBadWrapper:
    return VariBadWrapper(_make(), 4)

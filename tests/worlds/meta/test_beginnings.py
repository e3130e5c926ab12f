"""What is brought back from a reset that did not name its task has the right one all the same."""

from __future__ import annotations

import functools
import os
import signal
from typing import Any

import numpy as np
import pytest

from shoal import ParallelEnv
from shoal.envs.meta.grid_navi import GridNaviEnv
from shoal.meta import ParallelEnvManager, VariBadWrapper
from shoal.vector import shortening, supervisor, upkeep
from shoal.vector.backends import limits
from shoal.vector.shortening import Way
from tests.comparing import difference

N = 4


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever can begin at a reset does so soon."""
    monkeypatch.setattr(shortening, "WORTHWHILE_SECONDS", 0.0)
    monkeypatch.setattr(shortening, "LONG_SECONDS", 1e9)
    monkeypatch.setattr(supervisor, "MAINTENANCE", 4)
    monkeypatch.setattr(upkeep, "REST_PAUSE", 0.0)
    monkeypatch.setattr(limits, "NICENESS", 0)


def relies_on(envs: ParallelEnv, way: Way) -> bool:
    return all(way in each.relies_on for each in envs._pool.backend.upkeep.shortener._habits)  # type: ignore[attr-defined]


def kill_all(envs: ParallelEnv) -> None:
    for pid in envs.worker_pids:
        os.kill(pid, signal.SIGKILL)


make_grid = functools.partial(GridNaviEnv, n_tasks=21, is_sparse=True, max_episode_steps=15)


def make_grids(are_rows: bool) -> list[Any]:
    """Of one factory, so that they are rows that are stepped together, or each of its own."""
    return [make_grid] * N if are_rows else [functools.partial(make_grid) for _ in range(N)]


@pytest.mark.parametrize("task", [None, 20])
@pytest.mark.parametrize("are_rows", [True, False], ids=["rows", "singles"])
def test_a_task_that_is_kept_over_autoresets(process_backend: str, are_rows: bool, task: int | None) -> None:
    """Here nothing else would tell: there is no reward before the goal, and the replay begins after the task was given."""

    def step(envs: ParallelEnv, number: int) -> Any:
        return envs.step([(number + row) % 3 for row in range(N)])

    options = [{"task": task if task is None else task - row} for row in range(N)]
    with ParallelEnv(make_grids(are_rows), backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset(seed=3, options=options)
        taken = 0
        while not relies_on(envs, Way.RESETS):
            step(envs, taken)
            taken += 1
            assert taken < 50_000
        for _ in range(40):
            step(envs, taken)
            taken += 1
        kill_all(envs)
        found = [*(step(envs, taken + number) for number in range(60)), envs.call("get_current_task")]
        assert envs.stats.restarts == 2
        assert envs.stats.replayed_steps < N * 100
    with ParallelEnv(make_grids(are_rows), backend="serial") as envs:
        envs.reset(seed=3, options=options)
        for number in range(taken):
            step(envs, number)
        assert not difference(
            found, [*(step(envs, taken + number) for number in range(60)), envs.call("get_current_task")]
        )
        assert sum(each[1].sum() for each in found[:-1]) > 0, "some were at their goals"


def make_wrapped() -> VariBadWrapper:
    return VariBadWrapper(make_grid(), 2)


def test_a_task_that_was_given_by_its_number_or_drawn(process_backend: str) -> None:
    """As the manager does it: every task begins with a reset that says which."""
    rng = np.random.default_rng(0)
    tasks = [None if number % 3 == 0 else int(rng.integers(21)) for number in range(5000)]

    def play(manager: ParallelEnvManager, first: int, last: int) -> list[Any]:
        results: list[Any] = []
        for number in range(first, last):
            stepped = manager.step([(number + row) % 3 for row in range(N)])
            results.append(stepped)
            over = [row for row in range(N) if stepped.dones[row] or (number + row) % 41 == 0]
            if over:
                results.append(manager.reset([tasks[(number + row) % 5000] for row in over], env_ids=over))
        return results

    with ParallelEnvManager(
        [make_wrapped] * N, backend=process_backend, num_processes=2, start_method="fork"
    ) as manager:
        manager.reset([1, 2, 3, 4], seeds=3)
        taken = 0
        while not relies_on(manager.envs, Way.RESETS):
            play(manager, taken, taken + 1)
            taken += 1
            assert taken < 50_000
        play(manager, taken, taken + 50)
        kill_all(manager.envs)
        found = play(manager, taken + 50, taken + 150)
        assert manager.stats.restarts == 2
    with ParallelEnvManager([make_wrapped] * N, backend="serial") as manager:
        manager.reset([1, 2, 3, 4], seeds=3)
        play(manager, 0, taken + 50)
        assert not difference(found, play(manager, taken + 50, taken + 150))


def test_another_episode_that_was_asked_for(process_backend: str) -> None:
    """Which is no reset of the task, and has to be repeated as what it was."""

    def play(manager: ParallelEnvManager, first: int, last: int) -> list[Any]:
        results: list[Any] = []
        for number in range(first, last):
            stepped = manager.step([(number + row) % 3 for row in range(N)])
            results.append(stepped)
            if stepped.dones.any():
                over = np.flatnonzero(stepped.dones).tolist()
                results.append(manager.reset([number % 21] * len(over), env_ids=over))
            if number % 7 == 3:
                remote = manager.remotes[number % N]
                remote.send(("reset_mdp", None))
                results.append(remote.recv())
        return results

    with ParallelEnvManager(
        [make_wrapped] * N, backend=process_backend, num_processes=2, start_method="fork"
    ) as manager:
        manager.reset([1, 2, 3, 4], seeds=3)
        found = []
        for number in range(0, 600, 60):
            found += play(manager, number, number + 60)
            kill_all(manager.envs)
        found += play(manager, 600, 640)
        assert manager.stats.restarts == 20
    with ParallelEnvManager([make_wrapped] * N, backend="serial") as manager:
        manager.reset([1, 2, 3, 4], seeds=3)
        assert not difference(found, play(manager, 0, 640))

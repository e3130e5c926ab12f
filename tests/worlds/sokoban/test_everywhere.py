"""Sokoban comes to the same wherever it runs, and whoever is killed."""

from __future__ import annotations

import functools
import os
import signal
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import shoal
from shoal.envs.sokoban import SokobanEnv, SokobanGridEnv
from shoal.vector.batch_slice import BatchSlice
from tests.comparing import difference
from tests.conftest import BACKENDS

N, STEPS = 8, 30
SEEDS = (0, 1, 987654321)
CONFIG = {"num_boxes": 1, "search_depth": 20, "max_steps": 12}  # some episodes are solved, the others truncated
NAMES = ("Up", "down", 3, 4, "no action", None)
OPENERS: dict[str, Any] = {
    "list": lambda **ways: shoal.EnvList([("shoal/Sokoban-v0", CONFIG)] * N, autoreset_mode="NextStep", **ways),
    "text": lambda **ways: shoal.make("shoal/Sokoban-v0", N, config=CONFIG, **ways),
    "grid": lambda **ways: shoal.make("shoal/SokobanGrid-v0", N, config=CONFIG, **ways),
}


def play(kind: str, seed: int, kill: tuple[int, int] | None = None, **ways: Any) -> list[Any]:
    """Everything that random actions lead to. In the step ``kill[0]`` a worker is killed."""
    random = np.random.default_rng(seed)
    with OPENERS[kind](**ways) as envs:
        results: list[Any] = [envs.reset(seed=seed)]
        for step in range(STEPS):
            if kill is not None and step == kill[0]:
                os.kill(envs.worker_pids[kill[1] % len(envs.worker_pids)], signal.SIGKILL)
            numbers = random.integers(len(NAMES), size=N) if kind == "list" else random.integers(1, 5, size=N)
            results.append(envs.step([NAMES[number] for number in numbers] if kind == "list" else numbers))
        if kill is not None:
            assert envs.stats.restarts == 1
    return results


@functools.cache
def expected(kind: str, seed: int) -> list[Any]:
    results = play(kind, seed, backend="serial")
    assert sum(np.sum(step[2]) for step in results[1:]) > 0
    assert sum(np.sum(step[3]) for step in results[1:]) > 0
    return results


WAYS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(sorted(OPENERS)),
        "seed": st.sampled_from(SEEDS),
        "backend": st.sampled_from(BACKENDS),
        "num_workers": st.integers(1, 8),
        "kill": st.none() | st.tuples(st.integers(1, STEPS - 1), st.integers(0, 7)),
    }
)


@settings(max_examples=24)
@given(WAYS)
@example({"kind": "list", "seed": 0, "backend": "shm", "num_workers": 2, "kill": (15, 1)})
@example({"kind": "text", "seed": 1, "backend": "pipes", "num_workers": 3, "kill": (1, 0)})
@example({"kind": "grid", "seed": 1, "backend": "shm", "num_workers": 8, "kill": (29, 5)})
@example({"kind": "list", "seed": 987654321, "backend": "threads", "num_workers": 4, "kill": None})
def test_results_are_the_same_everywhere_and_whoever_is_killed(ways: dict[str, Any]) -> None:
    kind, seed, kill, backend = ways["kind"], ways["seed"], ways["kill"], ways["backend"]
    more: dict[str, Any] = {"backend": backend}
    if backend != "serial":
        more["num_workers"] = ways["num_workers"]
    if backend in ("pipes", "shm"):
        more["start_method"] = "fork"
    else:
        kill = None  # there is no worker process
    assert not difference(play(kind, seed, kill, **more), expected(kind, seed))


def test_members_of_a_group_share_their_level_in_whichever_process(backend: str) -> None:
    workers: dict[str, Any] = {} if backend == "serial" else {"num_workers": 6, "start_method": "fork"}
    for opened in (
        shoal.EnvList(["shoal/Sokoban-v0"] * 6, groups=2, group_size=3, backend=backend, **workers),
        shoal.make("shoal/Sokoban-v0", groups=2, group_size=3, backend=backend, **workers),
        shoal.make("shoal/SokobanGrid-v0", groups=2, group_size=3, backend=backend, **workers),
    ):
        with opened as envs:
            observations, _ = envs.reset(seed=5)
            seen = [str(observation) for observation in observations]
            assert len(set(seen[:3])) == len(set(seen[3:])) == 1
            assert seen[0] != seen[3]


@pytest.mark.parametrize("kind", sorted(OPENERS))
def test_those_that_nobody_has_seeded_are_brought_back(kind: str) -> None:
    with OPENERS[kind](backend="shm", num_workers=2, start_method="fork") as envs:
        first, _ = envs.reset()
        assert len({str(observation) for observation in first}) > 4
        for action in (1, 3, 2, 4, 1):
            before = envs.step([action] * N)
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        envs.step([2] * N)
        assert envs.stats.restarts == 1
        assert len(before[0]) == N


def test_a_run_is_branched(backend: str) -> None:
    with shoal.make(
        "shoal/Sokoban-v0", 3, num_boxes=2, backend=backend, start_method="fork", on_fault="restore"
    ) as envs:
        envs.reset(seed=0)
        for action in (1, 2, 3, 4, 4):
            envs.step([action] * 3)
        envs.fork(0, [1, 2])
        for action in (1, 3, 2, 4):
            observations, rewards, *_ = envs.step([action] * 3)
            assert len(set(observations)) == len(set(rewards.tolist())) == 1


def test_a_batch_is_as_many_single_ones() -> None:
    singles = [functools.partial(SokobanGridEnv, config=CONFIG) for _ in range(N)]

    def played(envs: shoal.ParallelEnv) -> list[Any]:
        results: list[Any] = [envs.reset(seed=3), *(envs.step(np.arange(N) % 4 + 1) for _ in range(25))]
        return [[part.tolist() for part in step[:-1]] for step in results]

    with shoal.ParallelEnv(singles, backend="serial") as envs:
        expected = played(envs)
    with shoal.make(SokobanGridEnv, N, config=CONFIG, backend="serial") as envs:
        runners: Any = envs._pool.unwatched
        assert isinstance(runners.runners[0].slice, BatchSlice)
        assert played(envs) == expected


def test_turns_stop_where_the_level_is_solved() -> None:
    env = SokobanEnv(num_boxes=1)
    env.reset(seed=2)
    solution = env.solve()
    assert solution is not None
    with shoal.EnvList([("shoal/Sokoban-v0", {"num_boxes": 1})], turn=shoal.run_actions, backend="serial") as envs:
        envs.reset(seed=2)
        results = envs.step([[*solution, 1, 2, 3]])
    assert results.terminated == [True]
    assert len(results.infos[0]["turn"]) == len(solution)
    assert results.rewards[0] == pytest.approx(11 - 0.1 * len(solution))

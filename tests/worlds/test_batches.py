"""Rows that are stepped together come to what single environments come to, wherever they run and whatever happens."""

from __future__ import annotations

import functools
import os
import signal
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

import shoal
from shoal import ParallelEnv
from shoal.envs.frozen_lake import FrozenLakeEnv
from shoal.envs.world import World
from shoal.envs.world_env import WorldEnv
from shoal.vector.batch_slice import BatchSlice
from tests.comparing import difference, rollout
from tests.scripts import run_script

MODES = list(AutoresetMode)[:2]
N = 7


def singles() -> list[Any]:
    """Factories that are not one and the same, so that each makes an environment of its own."""
    return [functools.partial(FrozenLakeEnv, map_name="4x4") for _ in range(N)]


def in_order(results: Any) -> Any:
    """The same with the keys of dictionaries in their order, which depends on which environment has a key first."""
    if isinstance(results, dict):
        return {key: in_order(results[key]) for key in sorted(results)}
    return type(results)(map(in_order, results)) if type(results) in (list, tuple) else results


def slices_of(envs: ParallelEnv) -> list[Any]:
    return [runner.slice for runner in envs._pool.unwatched.runners]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("num_workers", [1, 3])
def test_a_batch_is_as_many_single_ones(backend: str, mode: AutoresetMode, num_workers: int) -> None:
    with ParallelEnv(singles(), backend="serial", autoreset_mode=mode) as envs:
        assert not isinstance(slices_of(envs)[0], BatchSlice)
        expected = rollout(envs, 200)
    workers: dict[str, Any] = {} if backend == "serial" else {"num_workers": num_workers}
    if num_workers > 1:
        workers["start_method"] = "fork"  # one alone starts afresh
    with shoal.make(FrozenLakeEnv, N, backend=backend, autoreset_mode=mode, **workers) as envs:
        if backend == "serial":
            assert isinstance(slices_of(envs)[0], BatchSlice)
        found = rollout(envs, 200)
    assert sum(step[2].sum() for step in found[1:]) > 50, "episodes have ended"
    assert not difference(in_order(found), in_order(expected))


def test_disabled_autoreset_leaves_resetting_to_the_caller(backend: str) -> None:
    def play(envs: ParallelEnv) -> list[Any]:
        results: list[Any] = [envs.reset(seed=3)]
        random = np.random.default_rng(0)
        for _ in range(60):
            results.append(envs.step(random.integers(4, size=N)))
            if (ended := results[-1][2] | results[-1][3]).any():
                results.append(envs.reset(options={"reset_mask": ended}))
        return results

    with ParallelEnv(singles(), backend="serial", autoreset_mode=AutoresetMode.DISABLED) as envs:
        expected = play(envs)
    with shoal.make(
        FrozenLakeEnv, N, backend=backend, start_method="fork", autoreset_mode=AutoresetMode.DISABLED
    ) as envs:
        assert not difference(play(envs), expected)


@pytest.mark.parametrize("mode", MODES)
def test_as_they_come_with_tasks_and_partial_resets(backend: str, mode: AutoresetMode) -> None:
    def play(envs: ParallelEnv) -> list[Any]:
        results: list[Any] = [envs.reset(seed=3)]
        for number in range(30):
            some = [number % N, (number + 3) % N]
            envs.send([number % 4, 1], some)
            batch = envs.recv(min_envs=2)
            order = np.argsort(batch.env_ids)
            results.append([part[order] for part in batch[:-1]])
            results.append({key: value[order] for key, value in batch.info.items() if isinstance(value, np.ndarray)})
            results.append(envs.step([(number + row) % 4 for row in range(N)]))
            if number % 7 == 0:
                results.append(envs.reset(seed=[number, 5], env_ids=some))
        return results

    tasks = [shoal.Task(seed=seed, id=f"task {seed}") for seed in range(5)]
    both: list[dict[str, Any]] = [{}, {"tasks": tasks}]
    for keywords in both:
        with ParallelEnv(singles(), backend="serial", autoreset_mode=mode, **keywords) as envs:
            expected = play(envs)
        with shoal.make(
            FrozenLakeEnv, N, backend=backend, start_method="fork", autoreset_mode=mode, **keywords
        ) as envs:
            assert not difference(in_order(play(envs)), in_order(expected))


def test_rows_can_be_asked_and_set(backend: str) -> None:
    with shoal.make(
        "shoal/FrozenLake-v0", 3, backend=backend, start_method="fork", render_mode="ansi", is_slippery=False
    ) as envs:
        envs.reset()
        envs.step([2, 1, 0])
        assert [text.count("[F]") for text in envs.call("render")] == [1, 1, 0]
        assert {desc.shape for desc in envs.get_attr("desc")} == {(4, 4)}
        envs.set_attr("label", [1, 2, 3])
        assert envs.get_attr("label") == (1, 2, 3)


def test_leases_work(backend: str) -> None:
    with shoal.make(FrozenLakeEnv, N, backend=backend, start_method="fork") as envs:
        expected = rollout(envs, 50)
    with shoal.make(FrozenLakeEnv, N, backend=backend, start_method="fork", copy=False, lease=2) as envs:
        envs.action_space.seed(7)
        held = [envs.reset(seed=7)[0]]
        for number in range(1, 51):
            held.append(envs.step(envs.action_space.sample())[0])
            assert not difference(held[-2:], [step[0] for step in expected[number - 1 : number + 1]])


@pytest.mark.parametrize("mode", MODES)
def test_a_killed_worker_is_brought_back(process_backend: str, mode: AutoresetMode) -> None:
    with shoal.make(FrozenLakeEnv, N, backend="serial", autoreset_mode=mode) as envs:
        expected = rollout(envs, 120)
    with shoal.make(
        FrozenLakeEnv, N, backend=process_backend, num_workers=2, start_method="fork", autoreset_mode=mode
    ) as envs:
        envs.action_space.seed(7)
        found: list[Any] = [envs.reset(seed=7)]
        for number in range(120):
            if number in (1, 40, 41, 90):
                os.kill(envs.worker_pids[number % 2], signal.SIGKILL)
            found.append(envs.step(envs.action_space.sample()))
        assert envs.stats.restarts == 4
    assert not difference(found, expected)


def test_unseeded_rows_differ_and_are_brought_back(process_backend: str) -> None:
    with shoal.make(FrozenLakeEnv, 64, backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset()
        seen = [envs.step(np.full(64, 2))[0] for _ in range(5)]
        assert len(set(seen[-1].tolist())) > 2
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        envs.step(np.full(64, 2))
        assert envs.stats.restarts == 1


def test_a_lost_episode_is_truncated_and_the_others_go_on(process_backend: str) -> None:
    with shoal.make(
        "shoal/FrozenLake-v0", 3, backend=process_backend, start_method="fork", replayable=False, is_slippery=False
    ) as envs:
        envs.reset(seed=0)
        envs.step([2, 2, 2])
        os.kill(envs.worker_pids[1], signal.SIGKILL)
        observation, _, _, truncated, info = envs.step([2, 2, 2])
        assert (observation.tolist(), truncated.tolist()) == ([2, 1, 2], [False, True, False])
        assert info["fault"]["signal"][1] == "SIGKILL"
        observation, *_ = envs.step([2, 2, 2])
        assert observation.tolist() == [3, 0, 3]
        observation, *_ = envs.step([0, 2, 0])
        assert observation.tolist() == [2, 1, 2]


def test_a_run_is_saved_resumed_and_branched(backend: str) -> None:
    with shoal.make(FrozenLakeEnv, N, backend=backend, start_method="fork", on_fault="restore") as envs:
        rollout(envs, 30)
        saved = envs.state_dict()
        expected = [envs.step(np.arange(N) % 4) for _ in range(20)]
    with shoal.make(FrozenLakeEnv, N, backend=backend, start_method="fork", on_fault="restore") as envs:
        envs.load_state_dict(saved)
        assert not difference([envs.step(np.arange(N) % 4) for _ in range(20)], expected)
        envs.fork(2, [0, 5])
        for _ in range(10):
            observation, *_ = envs.step(np.full(N, 2))
            assert observation[0] == observation[2] == observation[5]


DIGEST = """
    import hashlib, sys
    import shoal
    from tests.comparing import rollout
    with shoal.make("shoal/FrozenLake-v0", 5, backend="serial", autoreset_mode="SameStep") as envs:
        results = rollout(envs, 100)
    print(hashlib.sha256(repr([[part.tolist() for part in step[:-1]] for step in results]).encode()).hexdigest())
    print("numba" in sys.modules)
"""


def test_compiled_rules_are_the_plain_ones() -> None:
    compiled = run_script(DIGEST)
    plain = run_script(DIGEST, env={**os.environ, "SHOAL_COMPILE": "0"})
    assert compiled.stdout.split()[1] == "True", compiled.stderr
    assert plain.stdout.split()[1] == "False", plain.stderr
    assert compiled.stdout.split()[0] == plain.stdout.split()[0]


@pytest.mark.slow
def test_it_is_compiled_once_and_that_is_said(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    impatient = (
        "import shoal.envs.compiling\nshoal.envs.compiling.PATIENCE_SECONDS = 0.05\n"  # compiling can be quick, too
    )
    first, second = (run_script(impatient + textwrap.dedent(DIGEST), env=environment) for _ in range(2))
    assert "compiling the rules of FrozenLake, once for this installation" in first.stderr
    assert second.stderr == ""
    assert first.stdout == second.stdout


def test_without_numba_it_is_said_what_to_install() -> None:
    done = run_script("""
        import sys
        sys.modules["numba"] = None
        import shoal
        shoal.make("shoal/FrozenLake-v0", 2, backend="serial")
    """)
    assert "pip install 'shoal[native]'" in done.stderr.splitlines()[-1]
    assert "SHOAL_COMPILE=0" in done.stderr.splitlines()[-1]


def test_importing_shoal_loads_no_world() -> None:
    done = run_script("""
        import sys, shoal
        print([name for name in sys.modules if name.startswith(("numba", "shoal.envs.f"))])
    """)
    assert done.stdout == "[]\n"


def nothing(*_: Any) -> None:
    pass


class Shapeless(World):
    begin_row, step_row, observe_row = staticmethod(nothing), staticmethod(nothing), staticmethod(nothing)  # type: ignore[assignment]

    def __init__(self, observation_space: spaces.Space[Any]) -> None:
        self.tables = 0
        self.observation_space, self.action_space = observation_space, spaces.Discrete(2)
        self.render_mode = "ansi"


class ShapelessEnv(WorldEnv):
    world_class = Shapeless


def test_a_world_needs_spaces_of_a_fixed_shape() -> None:
    with pytest.raises(
        shoal.ConfigurationError, match="a world needs spaces of a fixed shape, such as Box and Discrete, got Dict"
    ):
        ShapelessEnv(observation_space=spaces.Dict(a=spaces.Discrete(2)))


def test_a_world_that_cannot_be_drawn_says_so() -> None:
    with pytest.raises(NotImplementedError, match="Shapeless cannot be drawn"):
        ShapelessEnv(observation_space=spaces.Discrete(2)).render()


def drift(tables: Any, row: Any, action: Any, info: Any) -> tuple[float, bool]:
    row.position += action[0]
    return 1.0 / (row.steps % 5), False  # which is a mistake in the fifth step


def centre(tables: Any, row: Any, info: Any) -> None:
    row.position = 0.0


def tell(tables: Any, row: Any, observation: Any) -> None:
    observation[0] = row.position


class Drift(World):
    """Moves by real numbers, and fails in every fifth step."""

    fields = (("position", "f8"),)
    begin_row, step_row, observe_row = staticmethod(centre), staticmethod(drift), staticmethod(tell)

    def __init__(self) -> None:
        self.tables = 0
        self.observation_space, self.action_space = spaces.Box(-9, 9, (1,), np.float64), spaces.Box(-1, 1, (1,))


class DriftEnv(WorldEnv):
    world_class = Drift


@pytest.mark.parametrize("width", [np.float32, np.float64])
def test_actions_in_double_precision_are_those_of_the_space(backend: str, width: Any) -> None:
    actions = np.random.default_rng(0).uniform(-1, 1, (4, 3, 1)).astype(width)
    expected = actions.astype(np.float32).astype(np.float64).cumsum(axis=0)
    with shoal.make(DriftEnv, 3, backend=backend, start_method="fork") as envs:
        envs.reset(seed=0)
        envs.step(actions[0].astype(np.float32))
        envs.reset(seed=0)
        assert all((envs.step(each)[0] == seen).all() for each, seen in zip(actions, expected, strict=True))


def test_actions_out_of_bounds_are_the_rules_business_together_and_alone() -> None:
    both: list[dict[str, Any]] = [{}, {"tasks": [1, 2, 3]}]
    for keywords in both:  # with tasks, rows are stepped one by one
        with shoal.make(DriftEnv, 3, backend="serial", **keywords) as envs:
            envs.reset(seed=0)
            assert envs.step(np.full((3, 1), 5.0))[0].tolist() == [[5.0]] * 3


def test_what_a_rule_raises_arrives_as_from_any_environment(backend: str) -> None:
    with shoal.make(DriftEnv, 3, backend=backend, start_method="fork") as envs:
        envs.reset(seed=0)
        for _ in range(4):
            envs.step(np.zeros((3, 1), np.float32))
        with pytest.raises(shoal.EnvError, match="environment 0 .*division by zero") as caught:
            envs.step(np.zeros((3, 1), np.float32))
        assert isinstance(caught.value, ZeroDivisionError)
        with pytest.raises(shoal.ResetNeeded, match="failed, and must be reset"):
            envs.step(np.zeros((3, 1), np.float32))
        envs.reset(seed=0)
        envs.step(np.zeros((3, 1), np.float32))


class ShapedEnv(FrozenLakeEnv):
    """Adds something to each reward."""

    def step(self, action: Any) -> Any:
        observation, reward, *rest = super().step(action)
        return observation, reward - 0.01, *rest


def test_who_overrides_what_an_environment_does_is_heard(backend: str) -> None:
    with shoal.make(ShapedEnv, 3, backend=backend, start_method="fork") as envs:
        envs.reset(seed=0)
        assert envs.step([0, 0, 0])[1].tolist() == [-0.01] * 3


def test_different_worlds_in_one_pool(backend: str) -> None:
    with shoal.EnvList([FrozenLakeEnv] * 3, backend=backend, start_method="fork") as envs:
        observations, _ = envs.reset(seed=0)
        assert observations == [0, 0, 0]
        results = envs.step([1, 2, 3])
        assert [type(observation) for observation in results.observations] == [int] * 3
    with shoal.make(FrozenLakeEnv, 3, backend="serial") as plain:
        plain.reset(seed=0)
        assert plain.step([1, 2, 3])[0].tolist() == results.observations


def test_single_ones_that_nobody_has_seeded_are_brought_back(process_backend: str) -> None:
    env_fns = [functools.partial(FrozenLakeEnv, success_rate=0.5) for _ in range(4)]
    with ParallelEnv(env_fns, backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset()
        for _ in range(5):
            envs.step([2, 2, 2, 2])
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        envs.step([2, 2, 2, 2])
        assert envs.stats.restarts == 1

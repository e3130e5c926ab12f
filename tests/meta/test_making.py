"""Environments by their names: what they are called, and that seeds decide about them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

import shoal
from shoal.meta import make_env, make_parallel_env
from tests.comparing import difference
from tests.scripts import run_script

NAMES = ["PointRobot-v0", "PointRobotSparse-v0", "Wind-v0", "GridNavi-v0"]


def play(env: Any, steps: int = 40) -> list[Any]:
    results: list[Any] = [env.reset(task=None), env.get_current_task()]
    for _ in range(steps):
        results.append(env.step(env.action_space.sample()))
        if results[-1][2]:
            results.append(env.reset(task=None))
    return results


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_decides_about_everything_but_the_numbered_tasks(name: str) -> None:
    first, same, other = make_env(name, 2, seed=4), make_env(name, 2, seed=4), make_env(name, 2, seed=5)
    found = play(first)
    assert not difference(play(same), found)
    assert difference(play(other), found)
    first, other = make_env(name, 2, seed=4, n_tasks=30), make_env(name, 2, seed=5, n_tasks=30)
    for task in range(30):
        first.reset(task=task)
        other.reset(task=task)
        assert (first.get_current_task() == other.get_current_task()).all()


def test_the_words_of_the_seed_are_understood() -> None:
    train = make_env("Wind-v0", 2, seed=0, num_train_tasks=50, num_eval_tasks=20)
    assert (train.n_tasks, train.horizon_bamdp, train.observation_space.shape) == (70, 150, (3,))
    with make_parallel_env("Wind-v0", 2, num_workers=3, seed=0, num_train_tasks=50, num_eval_tasks=20) as envs:
        assert (envs.n_tasks, envs.horizon_bamdp, envs.num_workers, len(envs)) == (70, 150, 3, 3)
        assert envs.get_all_task_idx() == range(70)
        assert (envs.observation_space, envs.action_space) == (train.observation_space, train.action_space)


def test_the_bare_names_are_known_after_the_import_unless_somebody_else_has_them() -> None:
    done = run_script("""
        import gymnasium, shoal
        print("Wind-v0" in gymnasium.registry, "shoal/Wind-v0" in gymnasium.registry)
        gymnasium.register("AntDir-v0", entry_point="somebody:Else")
        import shoal.meta
        print("Wind-v0" in gymnasium.registry, gymnasium.spec("AntDir-v0").entry_point)
    """)
    assert done.stdout == "False True\nTrue somebody:Else\n", done.stderr


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_workers_know_the_bare_names_too(process_backend: str, method: str) -> None:
    with shoal.ParallelEnv([make_by_name] * 2, backend=process_backend, num_workers=2, start_method=method) as envs:
        assert [spec.id for spec in envs.get_attr("spec")] == ["Wind-v0"] * 2


def make_by_name() -> Any:
    return gymnasium.make("Wind-v0")


def test_an_oracle_is_warned_of_once() -> None:
    with pytest.warns(UserWarning, match="the agent is told the task") as caught:
        env = make_env("Wind-v0", 2, oracle=True, n_tasks=5)
    assert len(caught) == 1
    observation, _ = env.reset(task=1)
    assert observation[2:4] == pytest.approx(env.get_current_task())
    with (
        pytest.warns(UserWarning, match="the agent is told the task") as caught,
        make_parallel_env("Wind-v0", 2, 3, oracle=True, n_tasks=5) as envs,
    ):
        assert envs.reset([1] * 3)[0][0].tolist() == observation.tolist()
    assert len(caught) == 1


def test_importing_it_loads_neither_torch_nor_numba_nor_mujoco() -> None:
    done = run_script("""
        import sys, shoal.meta
        print([name for name in ("torch", "numba", "mujoco", "pydantic") if name in sys.modules])
    """)
    assert done.stdout == "[]\n", done.stderr


def test_a_callable_works_as_well_as_a_name() -> None:
    from tests.meta.envs import Counting

    assert make_env(Counting, 2).reset(task=3)[0].tolist() == [0, 0, 0]
    with make_parallel_env(Counting, 2, 2, backend="serial") as envs:
        assert envs.reset([3, 4])[0].tolist() == [[0, 0, 0]] * 2


def test_a_name_that_does_not_exist_is_refused() -> None:
    with pytest.raises(gymnasium.error.NameNotFound, match=r"Did you mean.*AntDir"):
        make_env("AntDr-v0", 2)


def test_a_keyword_that_is_nearly_one_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(
        shoal.ConfigurationError, match=r"make_env\(\) has no keyword 'horizont': did you mean 'horizon'\?"
    ):
        make_env("Wind-v0", 2, horizont="varibad")
    with pytest.raises(
        shoal.ConfigurationError, match=r"make_parallel_env\(\) has no keyword 'num_process'.*'num_processes'"
    ):
        make_parallel_env("Wind-v0", 2, 3, num_process=1)
    with pytest.raises(shoal.ConfigurationError, match="Wind has no option 'gravity'"):
        make_parallel_env("Wind-v0", 2, 3, gravity=1)


@pytest.mark.parametrize("num_workers", [0, -1, 2.5, True])
def test_a_number_of_workers_that_cannot_be_is_refused(num_workers: Any) -> None:
    with pytest.raises(shoal.ConfigurationError, match="num_workers must be a whole number of at least 1"):
        make_parallel_env("Wind-v0", 2, num_workers)


def test_rewards_and_flags_are_plain() -> None:
    env = make_env("Wind-v0", 2)
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step(np.zeros(2, np.float32))
    assert [type(value) for value in (reward, terminated, truncated, info["done_mdp"])] == [float, bool, bool, bool]

"""Bodies in MuJoCo with tasks: what they observe, what they are paid for, and that they can be brought back."""

from __future__ import annotations

import functools
import os
import signal
from typing import Any

import numpy as np
import pytest

import shoal
from shoal import ParallelEnv
from shoal.meta import make_env, make_parallel_env
from tests.comparing import difference
from tests.scripts import run_script

pytest.importorskip("mujoco")

from shoal.envs.meta.ant import AntDirEnv
from shoal.envs.meta.half_cheetah import CheetahDirEnv, HalfCheetahVelEnv

ALL: list[Any] = [HalfCheetahVelEnv, CheetahDirEnv, AntDirEnv]
CLASSES = pytest.mark.parametrize("env_class", ALL)


@pytest.mark.parametrize(
    ("env_class", "seen", "joints"), [(HalfCheetahVelEnv, 20, 6), (CheetahDirEnv, 20, 6), (AntDirEnv, 27, 8)]
)
def test_they_see_and_move_what_they_are_known_to(env_class: Any, seen: int, joints: int) -> None:
    env = env_class()
    observation, _ = env.reset(seed=0)
    assert observation.shape == env.observation_space.shape == (seen,)
    assert env.action_space.shape == (joints,)
    assert env.observation_space.contains(observation)
    if env_class is not AntDirEnv:
        place = env.unwrapped.data.body("torso").xpos
        np.testing.assert_allclose(observation[-3:], place, atol=1e-12)


@pytest.mark.parametrize("task", [0.5, 2.5])
def test_a_cheetah_is_paid_for_the_right_speed(task: float) -> None:
    env: Any = HalfCheetahVelEnv()
    env.set_goal(task)
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(20):
        before = env.data.qpos[0]
        action = env.action_space.sample()
        _, reward, terminated, truncated, _ = env.step(action)
        speed = (env.data.qpos[0] - before) / 0.05
        assert reward == pytest.approx(-abs(speed - task) - 0.05 * np.sum(action.astype(float) ** 2), abs=1e-6)
        assert not terminated
        assert not truncated


@pytest.mark.parametrize("task", [1.0, -1.0])
def test_a_cheetah_is_paid_for_the_right_direction(task: float) -> None:
    env: Any = CheetahDirEnv()
    env.set_goal([task])
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(20):
        before = env.data.qpos[0]
        action = env.action_space.sample()
        reward = env.step(action)[1]
        speed = (env.data.qpos[0] - before) / 0.05
        assert reward == pytest.approx(task * speed - 0.05 * np.sum(action.astype(float) ** 2), abs=1e-6)


@pytest.mark.parametrize("task", [1.0, -1.0, 2.5])
def test_an_ant_is_paid_for_the_right_direction_and_ends_when_it_falls(task: float) -> None:
    env = AntDirEnv()
    env.set_goal(task)
    env.reset(seed=0)
    env.action_space.seed(0)
    terminated = False
    while not terminated:
        before = env.data.qpos[:2].copy()
        action = env.action_space.sample()
        _, reward, terminated, _, _ = env.step(action)
        speed = (env.data.qpos[:2] - before) / 0.05
        forces = np.clip(env.data.cfrc_ext, -1, 1)
        is_up = 0.2 <= env.data.qpos[2] <= 1.0
        expected = speed @ (np.cos(task), np.sin(task)) - 0.5 * np.sum(action.astype(float) ** 2)
        assert reward == pytest.approx(expected - 0.5e-3 * np.sum(forces**2) + is_up, abs=1e-5)
        assert terminated == (not is_up)


@CLASSES
def test_numbered_tasks_are_the_same_everywhere_and_drawn_ones_follow_the_seed(env_class: Any) -> None:
    first, second = env_class(n_tasks=6), env_class(num_train_tasks=40, num_eval_tasks=10)
    np.random.seed(1)
    second.reset(seed=9)
    assert first.tasks == second.tasks[:6]
    assert second.get_all_task_idx() == range(50)
    for number in range(6):
        first.reset(options={"task": number})
        assert first.get_current_task().tolist() == [second.tasks[number]]
    free = env_class()
    drawn = []
    for seed in [*range(8), *range(8)]:
        free.reset(seed=seed, options={"task": None})
        drawn.append(free.get_current_task().item())
        free.reset()
        assert free.get_current_task().item() == drawn[-1], "kept by a reset that says nothing of it"
    assert drawn[:8] == drawn[8:]
    assert len(set(drawn)) == (2 if env_class is not HalfCheetahVelEnv else 8)


def test_tasks_are_where_they_are_known_to_be() -> None:
    speeds, angles = np.array(HalfCheetahVelEnv(n_tasks=100).tasks), np.array(AntDirEnv(n_tasks=100).tasks)
    assert (speeds.min() >= 0, speeds.max() <= 3, np.ptp(speeds) > 2.8) == (True, True, True)
    assert (angles.min() >= 0, angles.max() <= 2 * np.pi, np.ptp(angles) > 5.9) == (True, True, True)
    assert CheetahDirEnv(n_tasks=4).tasks == [1, -1, 1, -1]


@CLASSES
def test_a_state_is_where_it_goes_on_from_exactly(env_class: Any) -> None:
    env, other = env_class(), env_class()
    env.reset(seed=1)
    other.reset(seed=2)
    actions = [env.action_space.sample() for _ in range(30)]
    for action in actions[:10]:
        env.step(action)
    other.set_state(env.get_state())
    assert not difference([other.step(action) for action in actions], [env.step(action) for action in actions])


@CLASSES
def test_what_cannot_be_is_refused(env_class: Any) -> None:
    env = env_class(n_tasks=3)
    with pytest.raises(shoal.ResetNeeded, match="there is no task yet"):
        env.get_current_task()
    with pytest.raises(shoal.ConfigurationError, match="a task is a number from 0 to 2"):
        env.reset(options={"task": 3})
    with pytest.raises(shoal.ConfigurationError, match=f"the goal of a {env_class.__name__} is one number"):
        env.set_goal([1.0, 2.0])
    env.reset_task(1)
    env.reset(seed=0)
    assert env.get_current_task().item() == env.tasks[1]


def play(envs: ParallelEnv, kill_at: tuple[int, ...] = ()) -> list[Any]:
    random = np.random.default_rng(0)
    results: list[Any] = [envs.reset(seed=3, options=[{"task": row} for row in range(3)])]
    for number in range(60):
        if number in kill_at:
            os.kill(envs.worker_pids[number % 2], signal.SIGKILL)
        results.append(envs.step(random.uniform(-1, 1, (3, 8)).astype(np.float32)))
        if number % 20 == 10:
            results.append(envs.reset(env_ids=[number % 3], options=[{"task": None}]))
            results.append(envs.reset(env_ids=[(number + 1) % 3]))
    return [*results, envs.call("get_current_task")]


def test_a_killed_worker_changes_nothing(process_backend: str) -> None:
    fns = [functools.partial(AntDirEnv, n_tasks=5)] * 3
    with ParallelEnv(fns, backend="serial") as envs:
        expected = play(envs)
    with ParallelEnv(fns, backend=process_backend, num_workers=2, start_method="fork") as envs:
        assert not difference(play(envs, kill_at=(2, 25, 40)), expected)
        assert envs.stats.restarts == 3


def test_several_episodes_per_task_whoever_runs_them(process_backend: str) -> None:
    """With ants that fall at different times."""
    actions = np.random.default_rng(0).uniform(-1, 1, (80, 8)).astype(np.float32)
    with make_parallel_env(
        "AntDir-v0", 2, 3, seed=1, backend=process_backend, num_processes=2, start_method="fork", max_episode_steps=30,
        num_train_tasks=5, num_eval_tasks=2,
    ) as manager:  # fmt: skip
        for index, remote in enumerate(manager.remotes):
            single = make_env("AntDir-v0", 2, seed=1 + index, max_episode_steps=30, n_tasks=7)
            remote.send(("reset", {"task": index}))
            assert not difference(remote.recv(), single.reset(task=index)[0])
            for action in actions:
                remote.send(("step", action))
                found, expected = remote.recv(), single.step(action)
                assert not difference(list(found[:3]), list(expected[:3]))
                if expected[2]:
                    break
            assert expected[2]


def test_without_mujoco_it_is_said_what_to_install() -> None:
    done = run_script("""
        import sys
        sys.modules["mujoco"] = None
        import shoal.meta
        shoal.meta.make_env("AntDir-v0", 2)
    """)
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: this environment needs MuJoCo, which is not installed: pip install 'shoal[mujoco]'"
    )

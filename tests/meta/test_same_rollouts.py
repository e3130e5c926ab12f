"""However rollouts are collected, the buffer holds the same, to the last bit."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.meta import ParallelEnvManager
from tests.meta.learning import ARCHS, assert_same, contents, learner_of

PROCESSES = {"parallel_kwargs": {"backend": "shm", "num_processes": 2, "start_method": "fork"}}
HERE = {"parallel_kwargs": {"backend": "serial"}}


def collected(arch: str, workers: int, num_rollouts: int, *, random_actions: bool, **settings: Any) -> Any:
    with learner_of(arch, workers, **settings) as learner:
        learner.collect_rollouts_parallel(num_rollouts, random_actions, learner.train_env_parallel)
        return contents(learner), learner._n_rollouts_total, learner._n_env_steps_total


@pytest.mark.parametrize("name", ["numbers", "choices"])
@pytest.mark.parametrize("random_actions", [True, False], ids=["random", "policy"])
@pytest.mark.parametrize("arch", ARCHS)
@settings(max_examples=6)
@given(workers=st.integers(2, 7), num_rollouts=st.integers(1, 12), seed=st.integers(0, 2**31 - 1))
def test_any_number_of_environments_collects_what_one_does(
    arch: str, random_actions: bool, name: str, workers: int, num_rollouts: int, seed: int
) -> None:
    same: dict[str, Any] = {"random_actions": random_actions, "name": name, "seed": seed}
    alone = collected(arch, 1, num_rollouts, **same)
    together = collected(arch, workers, num_rollouts, env=HERE, **same)
    assert_same(alone[0], together[0])
    assert alone[1:] == together[1:]
    assert alone[1] == num_rollouts


@pytest.mark.parametrize("seq_model", ["gru", "lstm"])
@pytest.mark.parametrize("separate", [True, False])
def test_workers_collect_what_this_process_does(seq_model: str, separate: bool) -> None:
    policy = {"seq_model": seq_model, "separate": separate}
    alone = collected("memory", 1, 9, random_actions=False, policy=policy)
    together = collected("memory", 4, 9, random_actions=False, policy=policy, env=PROCESSES)
    assert_same(alone[0], together[0])


@pytest.mark.parametrize("random_actions", [True, False], ids=["random", "policy"])
@pytest.mark.parametrize("arch", ARCHS)
def test_a_worker_killed_in_the_middle_changes_nothing(
    arch: str, random_actions: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = collected(arch, 1, 8, random_actions=random_actions)
    with learner_of(arch, 4, env=PROCESSES) as learner:
        envs = learner.train_env_parallel
        assert envs is not None
        steps, step = 0, ParallelEnvManager.step

        def step_or_die(self: ParallelEnvManager, actions: Any, env_ids: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == 7:
                os.kill(envs.envs.worker_pids[0], signal.SIGKILL)
            return step(self, actions, env_ids)

        monkeypatch.setattr(ParallelEnvManager, "step", step_or_die)
        learner.collect_rollouts_parallel(8, random_actions, envs)
        assert envs.stats.restarts == 1
        assert_same(alone[0], contents(learner))


def test_rollouts_are_of_uneven_length_here() -> None:
    with learner_of() as learner:
        learner.collect_rollouts(8)
        is_step = learner.policy_storage.state()["is_step"][:, 0]
        ends = np.flatnonzero(is_step == 0)
        lengths = np.diff(ends, prepend=-1) - 1
        assert len(set(lengths.tolist())) > 3
        assert learner._n_env_steps_total == lengths.sum()


def test_two_calls_collect_what_one_does() -> None:
    with learner_of() as once, learner_of(workers=3, env=HERE) as twice:
        once.collect_rollouts(7)
        twice.collect_rollouts_parallel(4, parallel_env=twice.train_env_parallel)
        twice.collect_rollouts_parallel(3)
        assert_same(contents(once), contents(twice))


@pytest.mark.parametrize("arch", ARCHS)
def test_an_evaluation_is_the_same_however_many_play(arch: str) -> None:
    results = []
    for workers, env in ((1, {}), (3, HERE), (4, PROCESSES)):
        with learner_of(arch, workers, env=env) as learner:
            before = contents(learner)
            played = learner.evaluate([0, 1, 2, 3, 4])
            assert_same(before, contents(learner))
            results.append(played)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].returns_per_episode, other.returns_per_episode)
        np.testing.assert_array_equal(results[0].total_steps, other.total_steps)
    assert results[0].returns_per_episode.shape == (5, 2)


def test_evaluations_do_not_change_the_training() -> None:
    with learner_of() as one, learner_of() as other:
        one.collect_rollouts(2)
        one.evaluate()
        one.collect_rollouts(2)
        other.collect_rollouts(4)
        assert_same(contents(one), contents(other))

"""The learner: what it counts, what it keeps, what it says, and that it learns."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from shoal.meta import AGENT_ARCHS, Learner
from shoal.meta.report import advice_on
from shoal.vector.errors import ConfigurationError, StateError
from tests.meta.learning import ARCHS, contents, learner_of

HERE = {"parallel_kwargs": {"backend": "serial"}}


def test_environments_are_those_of_the_guide() -> None:
    with learner_of(workers=4, env=HERE) as learner:
        assert learner.train_env_parallel is not None
        assert learner.train_env_parallel.num_envs == 4
        assert learner.train_env is not learner.eval_env
        assert learner.max_trajectory_len == 18
        assert sorted([*learner.train_tasks, *learner.eval_tasks]) == [0, 1, 2, 3, 4]
        assert learner.agent_arch is AGENT_ARCHS.Memory
    with learner_of(workers=1) as learner:
        assert learner.train_env_parallel is None


def test_a_seed_decides_about_tasks_and_weights() -> None:
    kept = []
    for seed in (1, 1, 2):
        with learner_of(seed=seed) as learner:
            learner.collect_rollouts(3)
            kept.append(contents(learner)["observations"].tobytes())
    assert kept[0] == kept[1] != kept[2]


@pytest.mark.parametrize("arch", ARCHS)
def test_exactly_so_many_rollouts_are_collected(arch: str) -> None:
    with learner_of(arch, workers=4, env=HERE) as learner:
        total = 0
        for number, wanted in enumerate((1, 3, 4, 9), start=1):
            before = learner._n_rollouts_total
            total += learner.collect_rollouts_parallel(wanted, number % 2 == 0, learner.train_env_parallel)
            assert learner._n_rollouts_total - before == wanted
        assert learner._n_env_steps_total == total == learner.policy_storage.num_steps


def test_training_makes_all_iterations_and_says_what_happened() -> None:
    reports: list[Any] = []
    with learner_of() as learner:
        last = learner.train(reports.append)
        assert [report.updates for report in reports] == [1, 2, 3]
        assert last.episodes == 4 + 3 * 5 == learner._n_rollouts_total
        assert last.steps == learner._n_env_steps_total <= learner.n_env_steps_total == 18 * 19
        assert last.gradient_steps == 9
        assert len(last.episode_returns) == 2
        assert sum(last.shares.values()) == pytest.approx(1.0)
        assert {"return_train_episode_1", "return_train_total"} <= {
            name.removeprefix("metrics/") for name in last.metrics()
        }
        assert np.isfinite(list(last.metrics().values())).all()
        assert "by episode" in str(last)
        assert str(learner.evaluate()).count("2 tasks, by episode ")
        assert learner.is_done


def test_a_fraction_of_updates_is_for_every_step() -> None:
    with learner_of("markov", train={"num_updates_per_iter": 0.5, "num_iters": 1}) as learner:
        report = learner.train()
        pool = report.gradient_steps - int(np.ceil(0.5 * (report.steps - _steps_of_pool(4))))
        assert pool == int(0.5 * _steps_of_pool(4))


def _steps_of_pool(num_rollouts: int) -> int:
    with learner_of("markov") as learner:
        return learner.collect_rollouts(num_rollouts, random_actions=True)


def test_what_is_the_time_limits_fault_is_not_terminal() -> None:
    """Rollouts end because the drift is lost, which is an end, or because time is up."""
    with learner_of("markov", train={"buffer_size": 5000}) as learner:
        learner.collect_rollouts(60)
        state = contents(learner)
        lost = np.abs(state["following"][:, 0]) > 1.5
        ended_for_good = state["terminals"][:, 0] == 1
        assert 0 < ended_for_good.sum() < 60
        assert lost[ended_for_good].all()


def test_the_agent_may_see_the_start_of_the_next_episode() -> None:
    """By default it sees the end of the last one, and the flag of an end."""
    seen = {}
    for sees in ("end", "start"):
        with learner_of(train={"next_episode_sees": sees}) as learner:
            learner.collect_rollouts(1, random_actions=True)
            seen[sees] = contents(learner)["observations"]
    flags = {sees: observations[:, -1] for sees, observations in seen.items()}
    assert flags["end"].sum() == 2
    assert flags["start"].sum() == 1
    (boundary,) = np.flatnonzero(flags["end"] != flags["start"])
    same = np.arange(len(seen["end"])) != boundary
    np.testing.assert_array_equal(seen["end"][same], seen["start"][same])


@pytest.mark.parametrize("is_terminal", [True, False])
def test_goals_are_terminal_if_that_is_wanted(is_terminal: bool) -> None:
    with Learner(
        env={"env_name": "GoalDrift-v0", "num_parallel_workers": 1, "num_train_tasks": 3, "num_eval_tasks": 2},
        train={"goal_is_terminal": is_terminal},
        policy={"arch": "markov"},
    ) as learner:
        learner.collect_rollouts(20)
        state = contents(learner)
        at_goal = state["following"][:, 1] > 0
        terminal = state["terminals"][:, 0] == 1
        assert np.array_equal(terminal, at_goal) is is_terminal
        rate = learner.evaluate().success_rate
        assert rate is not None
        assert 0 < rate <= 1


def _door_returns(arch: str) -> list[float]:
    with Learner(
        seed=1,
        env={"env_name": "Remembered-v0", "num_parallel_workers": 1, "max_rollouts_per_task": 2, "num_eval_tasks": 2},
        train={
            "num_iters": 20, "num_init_rollouts_pool": 20, "num_rollouts_per_iter": 10, "num_updates_per_iter": 30,
            "batch_size": 32, "buffer_size": 10_000,
        },
        policy={
            "arch": arch, "lr": 3e-3, "alpha_lr": 3e-3, "gamma": 0.8, "rnn_hidden_size": 16, "policy_layers": [32],
            "dqn_layers": [32], "tau": 0.02,
        },
    ) as learner:  # fmt: skip
        learner.train()
        return learner.evaluate([0, 1]).episode_returns


def test_who_remembers_learns_which_door_is_right() -> None:
    """The second episode is worth four to whoever has found out in the first, and two to the others."""
    assert _door_returns("memory")[1] == 4.0
    assert _door_returns("markov")[1] == 2.0


@pytest.mark.parametrize(
    ("environments", "policy", "parallel", "said"),
    [
        (3.0, 1.0, 4, ""),
        (1.0, 3.0, 1, "takes 75 % of the time of collecting.*several environments at once"),
        (1.0, 3.0, 4, "more environments at once"),
    ],
)
def test_a_policy_that_limits_collecting_is_named(environments: float, policy: float, parallel: int, said: str) -> None:
    advice = advice_on(environments, policy, parallel)
    assert re.search(said, advice) if said else not advice


def test_calls_that_do_not_fit_are_explained() -> None:
    with learner_of(train={"num_iters": 0}) as learner:
        with pytest.raises(StateError, match="nothing to learn from yet: collect rollouts first"):
            learner.update(1)
        with pytest.raises(StateError, match="nothing left to train"):
            learner.train()
        with pytest.raises(ConfigurationError, match="num_rollouts must be at least 1, got 0"):
            learner.collect_rollouts(0)
        with pytest.raises(ConfigurationError, match="no tasks to evaluate on"):
            learner.evaluate([])
        with pytest.raises(ConfigurationError, match="env_type must be 'meta', got 'pomdp'"):
            learner.init_env("pomdp", "Drift-v0", 2, 3, 2)


def test_more_tasks_than_there_are_cannot_be_had() -> None:
    with pytest.raises(ConfigurationError, match="there are 5 tasks, and 0 to learn from and 6 to evaluate on"):
        learner_of(workers=2, env={"num_train_tasks": None, "num_eval_tasks": 6})


def test_a_rollout_that_does_not_end_is_an_error() -> None:
    with Learner(env={"env_name": "EndlessDrift-v0", "num_parallel_workers": 1, "num_eval_tasks": 2}) as learner:
        with pytest.raises(StateError, match="has not ended after 6 steps, which is horizon_bamdp"):
            learner.collect_rollouts(1)

"""PPO learns, does what it says, and does the same everywhere."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import shoal
from shoal.ppo import PPOConfig, PPOTrainer, Report
from shoal.ppo.advantages import advantages_of
from shoal.ppo.heads import head_of
from shoal.ppo.normalising import Moments
from shoal.ppo.saving import load, state_of, tensors_of
from tests.ppo.envs import Aim

ENVS = "tests.ppo.envs"


def trainer_of(**settings: Any) -> PPOTrainer:
    """On one processor, because tests share them."""
    return PPOTrainer(**{"torch_threads": 1, **settings})


def curve(**settings: Any) -> list[tuple[float, ...]]:
    """Every report of a run, as numbers that must not depend on where environments run."""
    reports: list[Report] = []
    with trainer_of(**settings) as trainer:
        trainer.train(reports.append)
        weights = [value.double().sum().item() for value in trainer.network.state_dict().values()]
    return [
        *((report.steps, report.episodes, report.mean_return or 0.0, *report.losses.values()) for report in reports),
        tuple(weights),
    ]


@pytest.mark.parametrize(
    ("env", "seed"),
    [
        ("shoal/CartPole-v0", 1),
        *(pytest.param("CartPole-v1", seed, marks=pytest.mark.soak) for seed in (1, 2, 3)),
    ],
)
def test_cartpole_is_solved(env: str, seed: int) -> None:
    with trainer_of(
        env=env, n_envs=32, total_steps=200_000, seed=seed, learning_rate=2e-3, rollout_steps=32, epochs=6,
        learning_rate_schedule="linear", gae_lambda=0.9, gamma=0.98, backend="serial",
    ) as trainer:  # fmt: skip
        trainer.train()
        assert trainer.evaluate(episodes=20).mean >= 475


@pytest.mark.parametrize(
    ("env", "steps", "least", "settings"),
    [
        ("Aim", 40_000, -3.0, {"learning_rate": 3e-3, "normalise_rewards": True}),
        (
            "Recall",
            40_000,
            0.95,
            {
                "recurrent_size": 16,
                "learning_rate": 5e-3,
                "entropy_coefficient": 0.01,
                "n_envs": 64,
                "rollout_steps": 16,
                "minibatches": 2,
            },
        ),
        ("Spot", 4_000, 9.5, {"learning_rate": 2e-3}),
        ("Masked", 20_000, 9.0, {"learning_rate": 3e-3}),
        ("Several", 30_000, 19.0, {"learning_rate": 3e-3}),
    ],
)
def test_small_tasks_are_learned(env: str, steps: int, least: float, settings: dict[str, Any]) -> None:
    basic = {"n_envs": 16, "rollout_steps": 32, "seed": 0, "backend": "serial"}
    with trainer_of(env=f"{ENVS}:{env}", total_steps=steps, **{**basic, **settings}) as trainer:
        trainer.train()
        assert trainer.evaluate(episodes=50).mean >= least


def test_exactly_as_many_episodes_are_completed_as_were_asked_for() -> None:
    reports: list[Report] = []
    with trainer_of(env="CartPole-v1", n_envs=7, num_episodes=50, seed=0, backend="serial") as trainer:
        last = trainer.train(reports.append)
    assert last.episodes == 50
    assert sum(report.n_completed_episodes for report in reports) == 50
    assert reports[0].n_envs == 7


def test_the_curve_is_the_same_on_every_backend(backend: str) -> None:
    settings: dict[str, Any] = {"env": "CartPole-v1", "n_envs": 6, "total_steps": 2000, "seed": 3, "rollout_steps": 32}
    expected = curve(backend="serial", **settings)
    workers: dict[str, Any] = {} if backend == "serial" else {"num_workers": 2}
    assert curve(backend=backend, **workers, **settings) == expected


def test_the_time_that_is_left_does_not_count_the_first_update_which_is_slower() -> None:
    reports: list[Report] = []
    settings: dict[str, Any] = {"env": f"{ENVS}:Aim", "n_envs": 2, "rollout_steps": 20, "backend": "serial"}
    with trainer_of(**settings, total_steps=160) as trainer:
        trainer.train(reports.append)
        saved = tensors_of(trainer), state_of(trainer)
    first, second, third, *_, last = reports
    assert first.seconds_left is None
    for one in (second, third):
        rate = (one.steps - first.steps) / (one.seconds - first.seconds)
        assert one.seconds_left == pytest.approx((160 - one.steps) / rate)
    assert last.seconds_left == 0.0
    with trainer_of(**settings, total_steps=320) as trainer:
        load(trainer, *saved)
        resumed = [trainer.train_episode_vectorized() for _ in range(2)]
        rate = (resumed[1].steps - resumed[0].steps) / (resumed[1].seconds - resumed[0].seconds)
        assert resumed[0].seconds_left is None
        assert resumed[1].seconds_left == pytest.approx((320 - resumed[1].steps) / rate)


def test_training_that_has_diverged_says_so() -> None:
    with (
        trainer_of(env=f"{ENVS}:Aim", n_envs=4, total_steps=10**6, learning_rate=1e30, backend="serial") as trainer,
        pytest.raises(
            shoal.StateError,
            match=r"training has diverged after step [\d,]+: .*Aim may .* \(normalise_rewards, .* learning_rate too high",
        ),
        np.errstate(all="ignore"),
    ):
        trainer.train()


def test_another_seed_is_another_curve() -> None:
    settings: dict[str, Any] = {"env": "CartPole-v1", "n_envs": 4, "total_steps": 600, "backend": "serial"}
    assert curve(seed=0, **settings) != curve(seed=1, **settings)


def test_one_whole_episode_at_a_time() -> None:
    with trainer_of(env="CartPole-v1", n_envs=1, num_episodes=10, rollout_steps=8, backend="serial") as trainer:
        first = trainer.train_episode()
        assert first.n_completed_episodes == first.episodes == 1
        assert first.last_length == first.steps
        second = trainer.train_episode()
        assert second.episodes == 2
        assert second.last_length == second.steps - first.steps
    with (
        trainer_of(env="CartPole-v1", n_envs=2, num_episodes=10, backend="serial") as trainer,
        pytest.raises(shoal.StateError, match="single environment, and there are 2: use train_episode_vectorized"),
    ):
        trainer.train_episode()


def test_a_trainer_that_is_done_says_so() -> None:
    with trainer_of(env="CartPole-v1", n_envs=2, total_steps=10, rollout_steps=5, backend="serial") as trainer:
        trainer.train()
        assert trainer.is_done
        assert trainer.train().updates == 1
        trainer.last_report = None  # as after loading one that was done
        with pytest.raises(shoal.StateError, match="there is nothing left to train"):
            trainer.train()


def test_what_the_environments_gave_is_named_if_it_cannot_be_learned_from() -> None:
    class Broken(Aim):
        def step(self, action: Any) -> Any:
            observation, _, *rest = super().step(action)
            return observation, np.nan, *rest

    envs = shoal.ParallelEnv([Aim, Broken], backend="serial")
    with (
        trainer_of(total_steps=100, rollout_steps=10, envs=envs) as trainer,
        pytest.raises(
            shoal.StateError, match=r"environment 1 \(.*\) gave a reward that is not a finite number, at step 2,"
        ),
    ):
        trainer.train()


def test_environments_of_ones_own_can_be_given() -> None:
    envs = shoal.make("CartPole-v1", 3, backend="serial")
    with trainer_of(env="CartPole-v1", total_steps=30, rollout_steps=10, envs=envs) as trainer:
        assert trainer.train().n_envs == 3
        assert trainer.config.n_envs == 3
    envs = shoal.make("CartPole-v1", 3, backend="serial", autoreset_mode="SameStep")
    with pytest.raises(shoal.ConfigurationError, match="autoreset_mode='NextStep'"):
        PPOTrainer(env="CartPole-v1", total_steps=30, envs=envs)


class Nothing(Aim):
    """Every return is zero."""

    def step(self, action: Any) -> Any:
        observation, _, *rest = super().step(action)
        return observation, 0.0, *rest


def test_environments_of_ones_own_are_evaluated_too() -> None:
    envs = shoal.ParallelEnv([Nothing] * 2, backend="serial")
    with trainer_of(total_steps=40, rollout_steps=10, envs=envs) as trainer:
        trainer.train()
        assert trainer.evaluate(episodes=3).returns == (0.0, 0.0, 0.0)
        assert trainer.goal.env == "your own environment"
        with pytest.raises(shoal.ConfigurationError, match="episodes must be at least 1, got 0"):
            trainer.evaluate(episodes=0)
    with trainer_of(total_steps=40, envs=shoal.make("CartPole-v1", 2, backend="serial")) as trainer:
        assert trainer.goal.env == "CartPole-v1"


def test_a_config_may_be_a_mapping_and_must_not_be_anything_else() -> None:
    with PPOTrainer({"env": "CartPole-v1", "total_steps": 10}, n_envs=2, backend="serial") as trainer:
        assert (trainer.config.env, trainer.config.n_envs) == ("CartPole-v1", 2)
    with pytest.raises(
        shoal.ConfigurationError, match=r"must be a PPOConfig or a mapping of settings, got 'CartPole-v1'"
    ):
        PPOTrainer("CartPole-v1", total_steps=10)  # type: ignore[arg-type]
    envs: Any = gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync")
    with pytest.raises(
        shoal.ConfigurationError, match=r"envs must be environments that Shoal runs .* got SyncVectorEnv"
    ):
        PPOTrainer(total_steps=10, envs=envs)
    envs.close()


def test_a_setting_that_has_no_effect_is_named() -> None:
    with (
        pytest.warns(RuntimeWarning, match="normalise_observations has no effect on pictures"),
        trainer_of(env=f"{ENVS}:Spot", total_steps=10, normalise_observations=True, backend="serial") as trainer,
    ):
        assert trainer.scale is None


def test_torch_has_its_threads_again_afterwards() -> None:
    before = torch.get_num_threads()
    with trainer_of(env="CartPole-v1", n_envs=2, total_steps=10, torch_threads=before + 1, backend="serial"):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
    envs = shoal.make("CartPole-v1", 2, backend="serial")
    with pytest.raises(RuntimeError), pytest.MonkeyPatch.context() as patch:
        patch.setattr("shoal.ppo.trainer.Network", _broken)
        PPOTrainer(total_steps=10, torch_threads=before + 1, envs=envs)
    assert torch.get_num_threads() == before


def _broken(*_: Any) -> None:
    raise RuntimeError("no network today")


def test_what_is_remembered_is_judged_as_it_was_when_it_acted() -> None:
    """Episodes are longer than a rollout, so that a rollout begins with something to remember."""
    with trainer_of(
        env=f"{ENVS}:Aim", n_envs=3, total_steps=100, rollout_steps=7, recurrent_size=8, backend="serial"
    ) as trainer:
        trainer._begin()
        for _ in range(2):
            rollout = trainer._collect(7, None)
        acted: list[Any] = []
        states, memory = rollout.first_states, trainer.network.memory
        assert states is not None
        assert memory is not None
        with torch.no_grad():
            for step in range(7):
                states = memory(
                    torch.from_numpy(rollout.observations[step]),
                    states * ~torch.from_numpy(rollout.begins[step])[:, None],
                )
                acted.append(trainer.network.policy(states).numpy())
        # What was drawn lies as far from the mean as the noise of that step says.
        noise = np.random.default_rng(trainer.config.seed)
        drawn = [trainer.head.noise(noise, 3) for _ in range(14)][-7:]
        expected = np.stack(acted) + np.stack(drawn)
        np.testing.assert_allclose(rollout.actions, expected, atol=1e-5)


def test_advantages_are_those_of_the_definition() -> None:
    """Compared with a loop over single environments that follows the formula, with ends of both kinds."""
    random = np.random.default_rng(0)
    steps, envs, gamma, lam = 30, 5, 0.97, 0.9
    rewards, values = random.normal(size=(steps, envs)), random.normal(size=(steps + 1, envs))
    terminated = random.random((steps, envs)) < 0.1
    truncated = (random.random((steps, envs)) < 0.1) & ~terminated
    found = advantages_of(rewards, values, terminated, truncated, gamma, lam)
    for env in range(envs):
        for step in range(steps):
            total, weight = 0.0, 1.0
            for later in range(step, steps):
                following = 0.0 if terminated[later, env] else values[later + 1, env]
                total += weight * (rewards[later, env] + gamma * following - values[later, env])
                if terminated[later, env] or truncated[later, env]:
                    break
                weight *= gamma * lam
            assert found[step, env] == pytest.approx(total)


def test_what_is_drawn_is_as_likely_as_the_head_says() -> None:
    space = shoal.make("CartPole-v1", 1, backend="serial").single_action_space
    head = head_of(space)
    outputs = np.tile(np.array([[0.3, -0.7]], np.float32), (20_000, 1))
    drawn = head.draw(outputs, None, head.noise(np.random.default_rng(0), 20_000), None)[:, 0]
    logs, _ = head.log_probability(torch.as_tensor(outputs[:2]), None, torch.tensor([[0], [1]]), None)
    share = logs.exp()[1].item()
    assert abs(drawn.mean() - share) < 5 * np.sqrt(share * (1 - share) / 20_000)


def test_masked_actions_are_never_drawn() -> None:
    from gymnasium import spaces

    head = head_of(spaces.Discrete(6))
    random = np.random.default_rng(0)
    masks = random.random((50_000, 6)) < 0.3
    masks[~masks.any(axis=1), 2] = True
    outputs = random.normal(scale=30, size=(50_000, 6)).astype(np.float32)
    drawn = head.draw(outputs, None, head.noise(random, 50_000), masks)[:, 0]
    assert masks[np.arange(50_000), drawn].all()
    assert masks[np.arange(50_000), head.best(outputs, masks)[:, 0]].all()


def test_moments_of_batches_are_those_of_everything() -> None:
    random = np.random.default_rng(0)
    moments, batches = Moments((3,)), [random.normal(5, 2, size=(size, 3)) for size in (1, 7, 40, 3)]
    for batch in batches:
        moments.take(batch)
    everything = np.concatenate(batches)
    np.testing.assert_allclose(moments.mean, everything.mean(axis=0))
    np.testing.assert_allclose(moments.variance, everything.var(axis=0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "say when training ends: num_episodes or total_steps"),
        (
            {"total_steps": 10, "learnig_rate": 1e-3},
            "there is no setting 'learnig_rate'. Did you mean 'learning_rate'?",
        ),
        ({"total_steps": 10, "zzz": 1}, "there is no setting 'zzz'. There are activation,"),
        ({"total_steps": 0}, "total_steps: input should be greater than or equal to 1 (got 0)"),
        ({"total_steps": 10, "n_envs": 0}, "n_envs must be at least 1, or 'auto', got 0"),
        ({"total_steps": 10, "hidden_sizes": (64, 0)}, "hidden_sizes must be at least 1 each, got (64, 0)"),
        (
            {"total_steps": 10, "backend": "shmm"},
            "backend: input should be 'auto', 'serial', 'threads', 'pipes' or 'shm'",
        ),
        ({"total_steps": 10, "device": "cuda"}, "device='cuda' was asked for, but torch finds none here"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(shoal.ConfigurationError) as error:
        PPOTrainer(**settings)
    assert message in str(error.value)


def test_auto_chooses_how_many_environments() -> None:
    with trainer_of(env="shoal/CartPole-v0", n_envs="auto", total_steps=10, rollout_steps=1) as trainer:
        assert trainer.config.n_envs == trainer.envs.num_envs == 1024
        assert trainer.config.torch_threads is not None
    with trainer_of(env="CartPole-v1", n_envs="auto", total_steps=10, rollout_steps=1, backend="serial") as trainer:
        assert int(trainer.config.n_envs) % 8 == 0


def test_spaces_without_a_policy_are_refused() -> None:
    from gymnasium import spaces

    from shoal.ppo.observing import Encoder

    with pytest.raises(shoal.ConfigurationError, match="the action space is Text"):
        head_of(spaces.Text(3))
    with pytest.raises(shoal.ConfigurationError, match=r"the observation space\['words'\] is Text"):
        Encoder(spaces.Dict({"words": spaces.Text(3)}))


def test_a_config_can_be_changed_only_by_making_another() -> None:
    config = PPOConfig(total_steps=10)
    assert config.replaced(seed=3).seed == 3
    with pytest.raises(shoal.ConfigurationError, match="Did you mean 'seed'"):
        config.replaced(sed=3)


def test_the_curve_does_not_depend_on_what_torch_did_before() -> None:
    """The first weights are computed, too: with other threads they would differ in the last bit."""
    settings: dict[str, Any] = {"env": "CartPole-v1", "n_envs": 4, "total_steps": 600, "backend": "serial"}
    found = []
    for threads in (2, 1):
        torch.set_num_threads(threads)
        found.append(curve(**settings))
    assert found[0] == found[1]

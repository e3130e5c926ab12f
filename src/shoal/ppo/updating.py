"""The update: change the network so that what went better than expected becomes more likely, but not by too much."""

from __future__ import annotations

import numpy as np
import torch

from shoal.ppo.advantages import advantages_of
from shoal.ppo.compiled_learner import CompiledLearner
from shoal.ppo.config import PPOConfig
from shoal.ppo.heads import Head
from shoal.ppo.learning import SAID, Learner, Samples
from shoal.ppo.network import Network
from shoal.ppo.normalising import ObservationScale, RewardScale
from shoal.ppo.rollout import Rollout
from shoal.ppo.torch_learner import TorchLearner
from shoal.runs.errors import Diverged
from shoal.vector.layout import Array


class Updater:
    """A network, and what changes it."""

    def __init__(self, network: Network, head: Head, config: PPOConfig, device: torch.device) -> None:
        self._config = config
        self.learner: Learner = (
            CompiledLearner(network, head, config)
            if network.is_plain and device.type == "cpu"
            else TorchLearner(network, head, config, device)
        )
        self.shuffling = torch.Generator().manual_seed(config.seed)

    def update(
        self,
        rollout: Rollout,
        scale: ObservationScale | None,
        reward_scale: RewardScale | None,
        learning_rate: float,
        steps_before: int = 0,
    ) -> dict[str, float]:
        """Learn from a rollout, which began after so many steps; returns what it says about itself."""
        samples = self._prepare(rollout, scale, reward_scale)
        candidates = self.learner.take(samples)
        said: list[Array] = []
        for _ in range(self._config.epochs):
            order = torch.randperm(len(candidates), generator=self.shuffling).numpy()
            pieces = np.array_split(candidates[order], min(self._config.minibatches, max(1, len(candidates))))
            said += [self.learner.improve(chosen, learning_rate) for chosen in pieces if len(chosen)]
            if said and self._config.target_kl is not None:
                divergence = said[-1][SAID.index("approx_kl")]
                if divergence > 1.5 * self._config.target_kl:
                    break
        means = np.mean(said, axis=0) if said else np.zeros(len(SAID))
        if not np.isfinite(means).all():
            raise Diverged(_why_diverged(rollout, self._config.env, steps_before))
        return {**dict(zip(SAID, means.tolist(), strict=True)), **_fit_of(samples)}

    def _prepare(self, rollout: Rollout, scale: ObservationScale | None, reward_scale: RewardScale | None) -> Samples:
        """What an update begins with."""
        config = self._config
        observations = rollout.observations if scale is None else scale(rollout.observations)
        values, log_probabilities = self.learner.judge(
            observations, rollout.begins, rollout.first_states, rollout.actions, rollout.masks
        )
        rewards = rollout.rewards
        if reward_scale is not None:
            rewards = reward_scale(rewards, rollout.terminated | rollout.truncated, rollout.is_valid)
        advantages = advantages_of(
            rewards, values, rollout.terminated, rollout.truncated, config.gamma, config.gae_lambda
        )
        return Samples(
            observations=observations[:-1],
            actions=rollout.actions,
            masks=rollout.masks,
            log_probabilities=log_probabilities,
            values=values[:-1],
            advantages=advantages.astype(np.float32),
            returns=(advantages + values[:-1]).astype(np.float32),
            is_valid=rollout.is_valid,
            begins=rollout.begins[:-1],
            first_states=rollout.first_states,
        )

    def close(self) -> None:
        """End what was begun."""
        self.learner.close()


def _why_diverged(rollout: Rollout, env: str, steps_before: int) -> str:
    """What the environments gave, or what was made of it."""
    for name, values in (("an observation", rollout.observations[:-1]), ("a reward", rollout.rewards)):
        is_wrong = ~np.isfinite(values).reshape(len(values), rollout.rewards.shape[1], -1).all(axis=2)
        if is_wrong.any():
            step, env_index = np.argwhere(is_wrong)[0].tolist()
            steps = steps_before + np.count_nonzero(rollout.is_valid[: step + 1])
            return (
                f"environment {env_index} ({env}) gave {name} that is not a finite number, at step {steps:,}, from which "
                "nothing can be learned. What to do: repair the environment (shoal check finds such faults)"
            )
    return (
        f"training has diverged after step {steps_before:,}: the losses are no numbers any more. Rewards or observations of "
        f"{env} may be too large (normalise_rewards, normalise_observations), or learning_rate too high"
    )


def _fit_of(samples: Samples) -> dict[str, float]:
    """How much of the returns the value explained, before the update: 1 is all, 0 no more than their mean."""
    returns, values = samples.returns[samples.is_valid], samples.values[samples.is_valid]
    variance = returns.var() if len(returns) else 0.0
    if variance <= 0:
        return {"explained_variance": float("nan")}
    return {"explained_variance": float(1 - (returns - values).var() / variance)}

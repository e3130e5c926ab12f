"""What can be chosen about training with PPO."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from shoal.runs.settings import SEEDS, Settings


class PPOConfig(Settings):
    """Settings of PPO and of the run around it."""

    env: str = "CartPole-v1"
    """The environment: an id registered with Gymnasium, or ``module:Class``."""
    env_kwargs: dict[str, Any] = Field(default_factory=dict)
    """What else the environment is made with."""
    seed: int = Field(default=0, ge=0, lt=SEEDS)
    """Decides everything: the network's first weights, the environments' episodes, the actions that are tried. Below 2**31."""

    n_envs: int | Literal["auto"] = 1
    """How many environments step at once. ``auto``: 8 for each processor, or 1024 of a compiled world."""
    backend: Literal["auto", "serial", "threads", "pipes", "shm"] = "auto"
    """Where environments run. Results do not depend on it."""
    num_workers: int | None = Field(default=None, ge=1)
    """How many worker processes; by default as many as there are processors. Results do not depend on it."""
    parallel_start_method: Literal["forkserver", "spawn", "fork"] | None = None
    """How worker processes are started."""
    device: Literal["cpu", "cuda", "mps"] = "cpu"
    """Where the network is."""
    torch_threads: int | None = Field(default=None, ge=1)
    """Processors that the update uses. By default all; decided at the start, because results of torch may depend on it."""

    overlap: bool | None = None
    """Whether the policy acts for one half of the environments while the other half steps. By default, decided once: for
    pictures and on other devices, it does; else both ways are tried in the first rollouts, of which the result is the same,
    unless the policy takes hardly any time."""

    num_episodes: int | None = Field(default=None, ge=1)
    """Stop when so many episodes are complete, over all environments."""
    total_steps: int | None = Field(default=None, ge=1)
    """Or after so many steps of single environments (a rollout is completed)."""

    rollout_steps: int = Field(default=128, ge=1)
    """Steps of every environment between two updates."""
    epochs: int = Field(default=4, ge=1)
    """How often an update goes through what was collected."""
    minibatches: int = Field(default=4, ge=1)
    """Into how many pieces it is cut each time."""
    learning_rate: float = Field(default=3e-4, gt=0)
    """Of Adam."""
    learning_rate_schedule: Literal["constant", "linear"] = "constant"
    """``linear``: it goes down to zero at the end of training."""
    gamma: float = Field(default=0.99, ge=0, le=1)
    """What a reward is worth a step later."""
    gae_lambda: float = Field(default=0.95, ge=0, le=1)
    """How far advantages look ahead: 0 a step, 1 to the end of the episode."""
    clip: float = Field(default=0.2, gt=0)
    """How far an update may change the probability of an action, as a ratio."""
    value_clip: float | None = Field(default=None, gt=0)
    """How far an update may change a value; by default, as far as it likes."""
    value_coefficient: float = Field(default=0.5, ge=0)
    """The weight of the value's loss."""
    entropy_coefficient: float = Field(default=0.0, ge=0)
    """The weight of the entropy, which keeps the policy from settling too early."""
    max_gradient_norm: float = Field(default=0.5, gt=0)
    """Gradients longer than this are shortened."""
    target_kl: float | None = Field(default=None, gt=0)
    """An update ends early when the policy has changed by more than 1.5 times this."""
    normalise_advantages: bool = True
    """Whether advantages of a minibatch have mean 0 and deviation 1."""
    normalise_observations: bool = False
    """Whether observations are shifted and scaled by what has been seen so far."""
    normalise_rewards: bool = False
    """Whether rewards are scaled so that returns have deviation 1."""

    hidden_sizes: tuple[int, ...] = (64, 64)
    """Units of every hidden layer, of the policy and of the value each."""
    activation: Literal["tanh", "relu"] = "tanh"
    recurrent_size: int = Field(default=0, ge=0)
    """Units of a recurrent layer, for tasks that need a memory; 0 for none."""

    eval_every: int | None = Field(default=None, ge=1)
    """Evaluate after so many updates, on a single environment."""
    eval_episodes: int = Field(default=10, ge=1)
    eval_max_steps: int = Field(default=100_000, ge=1)
    """An episode of an evaluation that takes longer is cut off: a policy that always does its best may never come to an end."""
    checkpoint_every: int = Field(default=50, ge=1)
    """Save after so many updates, and at the end."""
    keep_checkpoints: int = Field(default=3, ge=1)
    """How many of the last ones are kept, beside the best."""

    @model_validator(mode="after")
    def _fits_together(self) -> PPOConfig:
        if isinstance(self.n_envs, int) and self.n_envs < 1:
            raise ValueError(f"n_envs must be at least 1, or 'auto', got {self.n_envs}")
        if self.num_episodes is None and self.total_steps is None:
            raise ValueError("say when training ends: num_episodes or total_steps")
        if any(size < 1 for size in self.hidden_sizes):
            raise ValueError(f"hidden_sizes must be at least 1 each, got {self.hidden_sizes}")
        return self

"""What can be chosen about meta-learning: a YAML file with a seed and the sections ``env``, ``train``, ``eval`` and ``policy``.

::

    seed: 1
    env:
      env_name: AntDir-v0
      max_rollouts_per_task: 2
      num_train_tasks: 50
      num_eval_tasks: 20
      num_parallel_workers: 6
    train:
      num_rollouts_per_iter: 12
    policy:
      arch: memory
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from shoal.meta.architectures import AGENT_ARCHS
from shoal.runs.settings import SEEDS, Settings


class EnvSettings(Settings):
    """Tasks, and where they run."""

    env_type: Literal["meta"] = "meta"
    """The kind of environment. There is one."""
    env_name: str = "PointRobotSparse-v0"
    """The id of a task world, as :func:`shoal.meta.make_env` knows it."""
    max_rollouts_per_task: int = Field(default=2, ge=1)
    """Episodes of a task, before another begins."""
    num_train_tasks: int | None = Field(default=None, ge=1)
    """So many tasks are learned from. By default there is no end of them: each rollout has a new one."""
    num_eval_tasks: int = Field(default=20, ge=1)
    """So many others are evaluated on."""
    num_parallel_workers: int = Field(default=4, ge=1)
    """Environments that step at once; 1 for collecting one by one. Results do not depend on it."""
    oracle: bool = False
    """Whether observations tell the task, for a bound on what can be learned."""
    env_kwargs: dict[str, Any] = Field(default_factory=dict)
    """What else environments are made with."""
    parallel_kwargs: dict[str, Any] = Field(default_factory=dict)
    """What else is said of running them in parallel: ``backend``, ``num_processes``, ``start_method``, ``on_fault``,
    ``step_timeout``. Results do not depend on it."""


class TrainSettings(Settings):
    """How much is collected, and how much is learned from it."""

    num_iters: int = Field(default=500, ge=0)
    """Iterations of collecting and learning."""
    num_init_rollouts_pool: int = Field(default=100, ge=0)
    """Rollouts with random actions before the first iteration."""
    num_rollouts_per_iter: int = Field(default=20, ge=1)
    num_updates_per_iter: int | float = Field(default=100, ge=0)
    """A whole number: so many. A fraction, or a number with a decimal point: so many for each step that was collected."""
    batch_size: int = Field(default=32, ge=1)
    """Sequences of an update, or transitions where nothing remembers."""
    sampled_seq_len: int = Field(default=-1, ge=-1)
    """Steps of a sequence; -1 for whole rollouts."""
    buffer_size: int = Field(default=1_000_000, ge=2)
    """Steps that are kept."""
    next_episode_sees: Literal["end", "start"] = "end"
    """What the agent sees before its first action in the next episode of a task: the end of the last one, with the flag of
    an end, as in pomdp-baselines, or the start of the new one."""
    goal_is_terminal: bool = True
    """Whether nothing that comes after a goal counts for the value of reaching it, where a task says that it has one."""
    torch_threads: int = Field(default=1, ge=1)
    """Processors that an update uses. Results of torch may depend on it in the last bit."""

    @field_validator("sampled_seq_len")
    @classmethod
    def _has_a_length(cls, value: int) -> int:
        if value == 0:
            raise ValueError("a sequence has at least one step; -1 stands for whole rollouts")
        return value


class EvalSettings(Settings):
    """How often the agent is tried, and saved."""

    eval_every: int | None = Field(default=20, ge=1)
    """Evaluate after so many iterations."""
    checkpoint_every: int = Field(default=50, ge=1)
    """Save after so many iterations, and at the end."""
    keep_checkpoints: int = Field(default=3, ge=1)
    """How many of the last ones are kept, beside the best. The last alone holds what is kept of rollouts."""


class PolicySettings(Settings):
    """The agent, and how it learns: soft actor-critic."""

    arch: Literal["markov", "memory", "memory-markov"] = "memory"
    """Who remembers: nobody, actor and critics, or critics alone. See :class:`shoal.meta.AGENT_ARCHS`."""
    seq_model: Literal["gru", "lstm"] = "gru"
    """What remembers."""
    separate: bool = False
    """Whether actor and critics have a memory each. One for both learns from the critics alone, and takes half the time."""
    rnn_hidden_size: int = Field(default=64, ge=1)
    """Units of the memory."""
    observ_embedding_size: int = Field(default=32, ge=1)
    """Units that an observation becomes before it is remembered."""
    action_embedding_size: int = Field(default=8, ge=0)
    """Of the action before; 0 leaves it out."""
    reward_embedding_size: int = Field(default=8, ge=0)
    """Of its reward; 0 leaves it out."""
    policy_layers: tuple[int, ...] = (128, 128)
    """Units of the actor's layers."""
    dqn_layers: tuple[int, ...] = (128, 128)
    """Units of each critic's layers."""
    lr: float = Field(default=3e-4, gt=0)
    """The learning rate of Adam."""
    gamma: float = Field(default=0.9, ge=0, le=1)
    """What a reward is worth a step later."""
    tau: float = Field(default=0.005, gt=0, le=1)
    """How far the critics that give targets follow those that learn, in an update."""
    automatic_entropy_tuning: bool = True
    """Whether the weight of the entropy is learned."""
    entropy_alpha: float = Field(default=0.2, gt=0)
    """The weight of the entropy; the first one, if it is learned."""
    alpha_lr: float = Field(default=3e-4, gt=0)
    """The learning rate of that weight."""
    target_entropy: float | None = None
    """What the entropy should be. By default minus one for each number of a ``Box`` action, and a tenth of the most that is
    possible for a ``Discrete`` one."""
    max_gradient_norm: float = Field(default=10.0, gt=0)
    """Gradients longer than this are shortened."""

    @field_validator("arch", mode="before")
    @classmethod
    def _as_word(cls, value: Any) -> Any:
        return value.value if isinstance(value, AGENT_ARCHS) else value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if any(size < 1 for size in (*self.policy_layers, *self.dqn_layers)):
            raise ValueError("policy_layers and dqn_layers must be at least 1 each")
        return self

    @property
    def agent_arch(self) -> AGENT_ARCHS:
        """The same as ``arch``."""
        return AGENT_ARCHS(self.arch)


class MetaConfig(Settings):
    """All of it."""

    seed: int = Field(default=0, ge=0, lt=SEEDS)
    """Decides everything: tasks, first weights, what is tried, what is learned from. Below 2**31."""
    env: EnvSettings = EnvSettings()
    """Tasks, and where they run."""
    train: TrainSettings = TrainSettings()
    """How much is collected, and how much is learned from it."""
    eval: EvalSettings = EvalSettings()
    """How often the agent is tried, and saved."""
    policy: PolicySettings = PolicySettings()
    """The agent, and how it learns."""

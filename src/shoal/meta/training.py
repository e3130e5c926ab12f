"""Meta-RL as a way of training: a learner as runs and their command know one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, Self

from shoal.envs.naming import find
from shoal.meta.config import MetaConfig
from shoal.meta.report import Evaluation, MetaReport
from shoal.runs.report import Goal
from shoal.runs.training.trainee import Method, Often, Saved
from shoal.vector.errors import ConfigurationError
from shoal.vector.plan import needs_processes

if TYPE_CHECKING:
    import torch


class LearnerInTraining:
    """A learner that is trained in a run. Closed when its ``with`` block ends."""

    def __init__(self, config: MetaConfig) -> None:
        from shoal.meta.learner import Learner

        self.learner = Learner(config)

    @property
    def config(self) -> MetaConfig:
        """Its settings."""
        return self.learner.config

    @property
    def updates(self) -> int:
        """Iterations."""
        return self.learner._n_iterations

    @property
    def steps(self) -> int:
        """Of single environments."""
        return self.learner._n_env_steps_total

    @property
    def last_report(self) -> MetaReport | None:
        """That of the last iteration in this process."""
        return self.learner.last_report

    @property
    def is_done(self) -> bool:
        """Whether all iterations were made."""
        return self.learner.is_done

    @property
    def goal(self) -> Goal:
        """What is trained, and until when."""
        train, parallel = self.config.train, self.learner.train_env_parallel
        backend = "serial" if parallel is None else parallel.plan.backend
        return Goal(
            env=self.config.env.env_name,
            n_envs=1 if parallel is None else parallel.num_envs,
            backend=backend,
            start_method=parallel.plan.start_method if parallel is not None and needs_processes(backend) else None,
            device="cpu",
            total_episodes=train.num_init_rollouts_pool + train.num_iters * train.num_rollouts_per_iter,
            total_steps=None,
            folder=None,
        )

    @property
    def often(self) -> Often:
        """How often to evaluate and to save."""
        its = self.config.eval
        return Often(its.eval_every, its.checkpoint_every, its.keep_checkpoints, "--eval.keep-checkpoints")

    @property
    def flag_for_more(self) -> str:
        """How the command is told to train twice as long."""
        return f"--train.num-iters {2 * self.config.train.num_iters}"

    @property
    def is_sound(self) -> bool:
        """Whether all weights are numbers."""
        return all(bool(weight.isfinite().all()) for weight in self.learner.network.parameters())

    def train_once(self) -> MetaReport:
        """Collect rollouts, and learn from what was kept of all."""
        return self.learner.train_once()

    def evaluate(
        self,
        episodes: int | None = None,
        seed: int | None = None,
        is_asked_to_stop: Callable[[], bool] = lambda: False,
    ) -> Evaluation:
        """Play tasks that are not learned from: so many, again from the first if there are fewer, or all of them once."""
        tasks: Sequence[Any] = self.learner.eval_tasks
        if episodes is not None:
            tasks = list(islice(cycle(tasks), episodes))
        return self.learner.evaluate(tasks, seed=seed, is_asked_to_stop=is_asked_to_stop)

    def save(self, lost: str | None = None) -> Saved:
        """What to save. Nothing of it is lost when an environment raises: each rollout begins anew."""
        from shoal.meta.saving import memory_of, state_of, tensors_of

        return Saved(tensors_of(self.learner), state_of(self.learner), memory_of(self.learner))

    def load(self, tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> str | None:
        """Go on from there. Returns a sentence if something could not be brought back."""
        from shoal.meta.saving import load

        return load(self.learner, tensors, state)

    def load_policy(self, tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
        """Only what is needed for an evaluation."""
        from shoal.meta.saving import load_network

        load_network(self.learner, tensors)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.learner.close()


def _resolved(config: MetaConfig) -> MetaConfig:
    """As it is: nothing in it depends on the machine."""
    find(config.env.env_name)  # says so, if there is none of that name
    return config


def _to_look(config: MetaConfig, device: str) -> MetaConfig:
    if device != "cpu":
        raise ConfigurationError(f"agents of `shoal train-meta` act on the CPU, got --device {device}")
    return config


META = Method(
    name="meta",
    verb="shoal train-meta",
    settings=MetaConfig,
    changeable=(
        "train.num_iters", "env.num_parallel_workers", "env.parallel_kwargs", "eval.eval_every", "eval.checkpoint_every",
        "eval.keep_checkpoints",
    ),
    needed=("seed", "env.env_name", "train.num_iters", "policy.arch"),
    resolved=_resolved,
    make=LearnerInTraining,
    to_look=_to_look,
)  # fmt: skip

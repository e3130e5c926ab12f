"""``PPOTrainer``: proximal policy optimisation on parallel environments.

One turn of the loop, and where to read on::

    act in all environments for some steps      rollout.py     (acting.py, heads.py, observing.py)
    how much better than expected was each?     advantages.py
    make what was better more likely            updating.py    (network.py)
    say what happened                           report.py

::

    trainer = PPOTrainer(PPOConfig(env="CartPole-v1", n_envs=8, num_episodes=500))
    report = trainer.train()
    print(trainer.evaluate(episodes=20))
    trainer.close()
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import gymnasium
import numpy as np
import torch

from shoal.envs.naming import find
from shoal.ppo.acting import Policy, TorchPolicy, policy_of
from shoal.ppo.compiled_learner import CompiledLearner
from shoal.ppo.config import PPOConfig
from shoal.ppo.evaluating import Evaluation, evaluate
from shoal.ppo.halves import Trial
from shoal.ppo.heads import head_of
from shoal.ppo.network import Network
from shoal.ppo.normalising import ObservationScale, RewardScale
from shoal.ppo.observing import Encoder
from shoal.ppo.report import Goal, Report
from shoal.ppo.rollout import Collector, Episode, Rollout
from shoal.ppo.saving import load, load_network, state_of, tensors_of
from shoal.ppo.updating import Updater
from shoal.ppo.video import env_with_pictures, filming
from shoal.runs.report import Pace
from shoal.runs.training.trainee import Often, Saved
from shoal.vector.batched import rows_maker
from shoal.vector.caller import warn_caller
from shoal.vector.cpus import usable_cpus
from shoal.vector.errors import ConfigurationError, StateError
from shoal.vector.making import factories_of, make
from shoal.vector.parallel_env import ParallelEnv
from shoal.vector.plan import needs_processes

MANY_ROWS, FEW_PER_CPU = 1024, 8
OnReport = Callable[[Report], None]


class PPOTrainer:
    """Trains a policy.

    Args:
        config: what to train, and how: a :class:`PPOConfig`, or a mapping of settings.
        envs: environments of one's own instead of those that the config names, which are closed with the trainer. They must
            have Gymnasium's NEXT_STEP autoreset.
        settings: instead of a config, or to change one: ``PPOTrainer(env="CartPole-v1", n_envs=8, num_episodes=500)``.
    """

    def __init__(
        self, config: PPOConfig | Mapping[str, Any] | None = None, *, envs: ParallelEnv | None = None, **settings: Any
    ) -> None:
        config = _config_of(config, settings)
        if envs is not None:
            config = _config_for(envs, config)
        self.config = config = resolved(config)
        self._device = _device(config.device)
        self._has_own_envs = envs is not None
        self.envs = _make(config) if envs is None else envs
        self._torch_threads_before = torch.get_num_threads()
        try:
            self._build()
        except BaseException:
            torch.set_num_threads(self._torch_threads_before)
            self.envs.close()
            raise

    def _build(self) -> None:
        config, envs = self.config, self.envs
        if envs.metadata.get("autoreset_mode", envs.autoreset_mode) != envs.autoreset_mode.NEXT_STEP:
            raise ConfigurationError("PPO needs environments with autoreset_mode='NextStep', which is the default")
        self.encoder, self.head = Encoder(envs.single_observation_space), head_of(envs.single_action_space)
        # Before anything is computed: the first weights, too, depend on it in the last bit.
        torch.set_num_threads(config.torch_threads or 1)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            self.network = Network(self.encoder.shape, self.encoder.is_image, self.head, config).to(self._device)
        self.updater = Updater(self.network, self.head, config, self._device)
        scales = config.normalise_observations and not self.encoder.is_image
        if config.normalise_observations and not scales:
            warn_caller("normalise_observations has no effect on pictures, which are scaled by what their space says")
        self.scale = ObservationScale(self.encoder.shape) if scales else None
        self.reward_scale = RewardScale(envs.num_envs, config.gamma) if config.normalise_rewards else None
        self.collector = Collector(envs, self.encoder, self.head, np.random.default_rng(config.seed))
        self.updates = self.steps = self.episodes = 0
        self.best_return: float | None = None
        self.last_report: Report | None = None
        self._last_episode: Episode | None = None
        self._seconds = 0.0
        self._pace = Pace()
        self._policy: Policy | None = None
        self._has_begun = False
        if config.overlap is None and (envs.num_envs == 1 or not isinstance(self.updater.learner, CompiledLearner)):
            # Torch rounds otherwise for other numbers of rows, so that this must not depend on a measurement.
            is_slow = self.network.memory is None and (self.encoder.is_image or config.device != "cpu")
            self.config = config.replaced(overlap=is_slow and envs.num_envs > 1)
        self._trial = Trial() if self.config.overlap is None else None

    # -- training --------------------------------------------------------------------------------------------------------

    def train(self, on_report: OnReport | None = None) -> Report:
        """Train until the goal is reached; returns the last report."""
        while not self.is_done:
            report = self.train_episode_vectorized()
            if on_report is not None:
                on_report(report)
        if self.last_report is None:
            raise StateError("there is nothing left to train: the goal had been reached already")
        return self.last_report

    def train_episode(self) -> Report:
        """Play one whole episode in a single environment, and learn from it."""
        if self.envs.num_envs != 1:
            raise StateError(
                f"train_episode plays in a single environment, and there are {self.envs.num_envs}: "
                "use train_episode_vectorized, or n_envs=1"
            )
        pieces: list[Rollout] = []
        begin = time.perf_counter()
        self._begin()
        while not pieces or not pieces[-1].episodes:
            pieces.append(self._collect(self.config.rollout_steps, episodes_wanted=1))
        return self._learn(joined(pieces), begin)

    def train_episode_vectorized(self) -> Report:
        """Act for some steps in all environments, and learn from that."""
        begin = time.perf_counter()
        self._begin()
        wanted = None if self.config.num_episodes is None else self.config.num_episodes - self.episodes
        return self._learn(self._collect(self.config.rollout_steps, wanted), begin)

    train_once = train_episode_vectorized

    @property
    def is_done(self) -> bool:
        """Whether the goal has been reached."""
        config = self.config
        if config.num_episodes is not None and self.episodes >= config.num_episodes:
            return True
        return config.total_steps is not None and self.steps >= config.total_steps

    def _begin(self) -> None:
        if not self._has_begun:
            self.collector.begin(self.config.seed)
            self._has_begun = True

    def _collect(self, num_steps: int, episodes_wanted: int | None) -> Rollout:
        states = self._policy.states if isinstance(self._policy, TorchPolicy) else None
        self._policy = policy_of(self.network, self._device)
        if isinstance(self._policy, TorchPolicy):
            self._policy.states = self._states(states)
        is_overlapping = self.config.overlap if self._trial is None else self._trial.is_overlapping
        rollout = self.collector.collect(self._policy, num_steps, self.scale, episodes_wanted, bool(is_overlapping))
        if self._trial is not None:
            seconds = rollout.environment_seconds + rollout.policy_seconds
            decided = self._trial.take(self.envs, seconds / len(rollout.rewards), rollout.policy_seconds / seconds)
            if decided is not None:
                self.config, self._trial = self.config.replaced(overlap=decided), None
        return rollout

    def _states(self, states: torch.Tensor | None) -> torch.Tensor | None:
        if self.network.memory is None:
            return None
        if states is not None:
            return states
        return torch.zeros(self.envs.num_envs, self.network.memory.hidden_size, device=self._device)

    def _learn(self, rollout: Rollout, begin: float) -> Report:
        collected = time.perf_counter()
        learning_rate = self.learning_rate
        losses = self.updater.update(rollout, self.scale, self.reward_scale, learning_rate, self.steps)
        if self.scale is not None:
            self.scale.moments.take(rollout.observations[:-1][rollout.is_valid])
        end = time.perf_counter()
        self.updates += 1
        self.steps += rollout.num_steps
        self.episodes += len(rollout.episodes)
        self._seconds += end - begin
        shares = {
            "environments": rollout.environment_seconds / (end - begin),
            "policy": rollout.policy_seconds / (end - begin),
            "update": (end - collected) / (end - begin),
        }
        self.last_report = self._report(rollout, losses, shares, rollout.num_steps / (end - begin), learning_rate)
        return self.last_report

    @property
    def progress(self) -> float:
        """From 0 to 1, the nearer of the goals."""
        config = self.config
        parts = [0.0]
        if config.num_episodes is not None:
            parts.append(self.episodes / config.num_episodes)
        if config.total_steps is not None:
            parts.append(self.steps / config.total_steps)
        return min(1.0, max(parts))

    @property
    def learning_rate(self) -> float:
        """Of the next update."""
        rate = self.config.learning_rate
        return rate if self.config.learning_rate_schedule == "constant" else rate * (1.0 - self.progress)

    def _report(
        self, rollout: Rollout, losses: Mapping[str, float], shares: Mapping[str, float], speed: float, rate: float
    ) -> Report:
        latest = self.collector.latest
        if rollout.episodes:
            self._last_episode = rollout.episodes[-1]
        last = self._last_episode
        mean = float(np.mean([episode.total for episode in latest])) if latest else None
        if mean is not None and (self.best_return is None or mean > self.best_return):
            self.best_return = mean
        return Report(
            updates=self.updates,
            steps=self.steps,
            episodes=self.episodes,
            n_envs=self.envs.num_envs,
            n_completed_episodes=len(rollout.episodes),
            last_return=None if last is None else last.total,
            last_length=None if last is None else last.length,
            mean_return=mean,
            mean_length=float(np.mean([episode.length for episode in latest])) if latest else None,
            steps_per_second=speed,
            seconds=self._seconds,
            seconds_left=self._pace.seconds_left(self._seconds, self.progress),
            losses=losses,
            shares={**shares, "other": max(0.0, 1.0 - sum(shares.values()))},
            learning_rate=rate,
            restarts=self.envs.stats.restarts,
        )

    @property
    def goal(self) -> Goal:
        """What is trained, and until when."""
        plan = self.envs.plan
        return Goal(
            env=self.config.env,
            n_envs=self.envs.num_envs,
            backend=plan.backend,
            start_method=plan.start_method if needs_processes(plan.backend) else None,
            device=self.config.device,
            total_episodes=self.config.num_episodes,
            total_steps=self.config.total_steps,
            folder=None,
        )

    # -- a run of it (see shoal.runs.training.trainee) -------------------------------------------------------------------

    @property
    def often(self) -> Often:
        """How often to evaluate and to save."""
        return Often(self.config.eval_every, self.config.checkpoint_every, self.config.keep_checkpoints)

    @property
    def flag_for_more(self) -> str:
        """How the command is told to train twice as long."""
        config = self.config
        if config.num_episodes is not None and self.episodes >= config.num_episodes:
            return f"--num-episodes {2 * config.num_episodes}"
        return f"--total-steps {2 * (config.total_steps or 0)}"

    @property
    def is_sound(self) -> bool:
        """Whether all weights are numbers."""
        return all(bool(torch.isfinite(weight).all()) for weight in self.network.parameters())

    def save(self, lost: str | None = None) -> Saved:
        """What to save. ``lost`` says why environments are not where they should be, if they are not."""
        return Saved(tensors_of(self), state_of(self, lost), {})

    def load(self, tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> str | None:
        """Go on from there. Returns a sentence if environments could not be brought back."""
        return load(self, tensors, state)

    def load_policy(self, tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
        """Only what is needed for an evaluation."""
        load_network(self, tensors, state)

    # -- afterwards ------------------------------------------------------------------------------------------------------

    def evaluate(
        self,
        episodes: int | None = None,
        seed: int | None = None,
        is_asked_to_stop: Callable[[], bool] = lambda: False,
    ) -> Evaluation:
        """Play some episodes in a single environment, with the most likely actions."""
        if episodes is None:
            episodes = self.config.eval_episodes
        if episodes < 1:
            raise ConfigurationError(f"episodes must be at least 1, got {episodes}")
        return self._play(self._make_one(), episodes, seed, is_asked_to_stop=is_asked_to_stop)

    def record(self, path: Path, seed: int | None = None) -> Evaluation:
        """Film the first episode of an evaluation."""
        env = self._make_one() if self._has_own_envs else env_with_pictures(self.config)
        with filming(env, path) as look:
            return self._play(env, 1, seed, look)

    def _make_one(self) -> gymnasium.Env[Any, Any]:
        if self._has_own_envs:
            env: gymnasium.Env[Any, Any] = self.envs.env_fns[0]()
            return env
        (factory,), _ = factories_of(find(self.config.env), 1, dict(self.config.env_kwargs))
        return factory()

    def _play(
        self,
        env: gymnasium.Env[Any, Any],
        episodes: int,
        seed: int | None,
        look: Callable[[], None] | None = None,
        is_asked_to_stop: Callable[[], bool] = lambda: False,
    ) -> Evaluation:
        policy = policy_of(self.network, self._device)
        if isinstance(policy, TorchPolicy) and self.network.memory is not None:
            policy.states = torch.zeros(1, self.network.memory.hidden_size, device=self._device)
        its_seed = self.config.seed if seed is None else seed
        try:
            return evaluate(
                env, policy, self.encoder, self.head, self.scale, episodes, its_seed, self.config.eval_max_steps, look,
                is_asked_to_stop,
            )  # fmt: skip
        finally:
            env.close()

    def close(self) -> None:
        """Close the environments, end the update's threads, and give torch those that it had."""
        self._leave_torch()
        self.envs.close()

    def _leave_torch(self) -> None:
        self.updater.close()
        torch.set_num_threads(self._torch_threads_before)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._leave_torch()
        self.envs.__exit__(*error)


def _config_of(config: PPOConfig | Mapping[str, Any] | None, settings: Mapping[str, Any]) -> PPOConfig:
    if isinstance(config, PPOConfig):
        return config.replaced(**settings) if settings else config
    if config is not None and not isinstance(config, Mapping):
        raise ConfigurationError(
            f"config must be a PPOConfig or a mapping of settings, got {config!r}; "
            'single settings have names: PPOTrainer(env="CartPole-v1", num_episodes=500)'
        )
    return PPOConfig.of({**(config or {}), **settings})


def _config_for(envs: Any, config: PPOConfig) -> PPOConfig:
    """The same, for environments of one's own."""
    if not isinstance(envs, ParallelEnv):
        raise ConfigurationError(
            f"envs must be environments that Shoal runs (shoal.make, shoal.ParallelEnv), got {type(envs).__name__}"
        )
    name = config.env
    if "env" not in config.model_fields_set:
        name = "your own environment" if envs.spec is None else envs.spec.id
    return config.replaced(n_envs=envs.num_envs, env=name)


def resolved(config: PPOConfig) -> PPOConfig:
    """The same with everything decided that depends on the machine, so that the run can be repeated elsewhere."""
    n_envs: int
    if config.n_envs == "auto":
        factories, _ = factories_of(find(config.env), 2, dict(config.env_kwargs))
        n_envs = MANY_ROWS if rows_maker(factories) is not None else FEW_PER_CPU * usable_cpus()
    else:
        n_envs = config.n_envs
    return config.replaced(n_envs=n_envs, torch_threads=config.torch_threads or usable_cpus())


def joined(pieces: list[Rollout]) -> Rollout:
    """Rollouts that follow each other, as one."""
    if len(pieces) == 1:
        return pieces[0]
    first = pieces[0]
    whole = {
        name: np.concatenate([getattr(piece, name) for piece in pieces])
        for name in ("actions", "rewards", "terminated", "truncated", "is_valid")
    }
    observations = np.concatenate([*(piece.observations[:-1] for piece in pieces), pieces[-1].observations[-1:]])
    begins = np.concatenate([*(piece.begins[:-1] for piece in pieces), pieces[-1].begins[-1:]])
    masks = (
        None if first.masks is None else np.concatenate([piece.masks for piece in pieces if piece.masks is not None])
    )
    return Rollout(
        observations=observations,
        begins=begins,
        masks=masks,
        first_states=first.first_states,
        episodes=[episode for piece in pieces for episode in piece.episodes],
        environment_seconds=sum(piece.environment_seconds for piece in pieces),
        policy_seconds=sum(piece.policy_seconds for piece in pieces),
        **whole,
    )


def _make(config: PPOConfig) -> ParallelEnv:
    return make(
        find(config.env),
        int(config.n_envs),
        backend=config.backend,
        num_workers=config.num_workers,
        start_method=config.parallel_start_method,
        **config.env_kwargs,
    )


def _device(name: str) -> torch.device:
    """The device, if it is there."""
    is_there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not is_there[name]:
        raise ConfigurationError(f"device='{name}' was asked for, but torch finds none here: use device='cpu'")
    return torch.device(name)

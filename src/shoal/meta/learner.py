"""``Learner``: an agent that learns to learn, from rollouts of many tasks.

One turn of the loop, and where to read on::

    play a task in every environment, others when they end      collecting.py   (plans.py, agent.py)
    keep what was seen                                          buffers.py
    learn from some of it, many times                           sac.py          (network.py)
    say what happened                                           report.py

::

    learner = Learner(env={"env_name": "GridNavi-v0", "max_rollouts_per_task": 4}, train={"num_iters": 50})
    learner.train(print)
    print(learner.evaluate())
    learner.close()
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import cycle, islice
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from shoal.envs.naming import find
from shoal.meta.actions import actions_of
from shoal.meta.agent import Agent
from shoal.meta.buffers import SequenceBuffer, TransitionBuffer
from shoal.meta.collecting import Acting, Collector, Trajectory
from shoal.meta.config import MetaConfig
from shoal.meta.making import make_env, make_parallel_env
from shoal.meta.manager import ParallelEnvManager
from shoal.meta.network import AgentNetwork
from shoal.meta.places import OnePlace, Places
from shoal.meta.plans import Purpose, generator, plan_of
from shoal.meta.report import Evaluation, MetaReport, advice_on
from shoal.meta.sac import SAC, SAID, Batch
from shoal.meta.saving import load, load_network, memory_of, state_of, tensors_of
from shoal.runs.config_file import read_config
from shoal.runs.errors import Diverged
from shoal.runs.report import Goal, Pace
from shoal.runs.training.trainee import Often, Saved
from shoal.vector.errors import ConfigurationError, StateError
from shoal.vector.plan import needs_processes

OnReport = Callable[[MetaReport], None]


class Learner:
    """Trains an agent on tasks.

    Args:
        config: what to train, and how: a :class:`MetaConfig`, a mapping of settings, or the path of a YAML file.
        settings: instead of a config, or to change one: ``Learner("ant.yaml", seed=3, env={"num_parallel_workers": 6})``.
    """

    def __init__(
        self, config: MetaConfig | Mapping[str, Any] | str | PathLike[str] | None = None, **settings: Any
    ) -> None:
        self.config = config = _config_of(config, settings)
        self.seed = config.seed
        env = config.env
        self._at_the_end = ExitStack()
        self._at_the_end.callback(torch.set_num_threads, torch.get_num_threads())
        try:
            self.init_env(
                env.env_type, env.env_name, env.max_rollouts_per_task, env.num_train_tasks, env.num_eval_tasks,
                env.num_parallel_workers, env.parallel_kwargs, oracle=env.oracle, **env.env_kwargs,
            )  # fmt: skip
            torch.set_num_threads(config.train.torch_threads)
            self._init_agent()
        except BaseException:
            self.close()
            raise

    def init_env(
        self,
        env_type: str,
        env_name: str,
        max_rollouts_per_task: int,
        num_train_tasks: int | None,
        num_eval_tasks: int,
        num_parallel_workers: int = 4,
        parallel_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Make the environments: for training, for training in parallel, and, with another seed, for evaluation.

        Args:
            env_type: ``"meta"``.
            env_name: as for :func:`make_env`.
            max_rollouts_per_task: episodes of a task.
            num_train_tasks: ``None``: every rollout has a new task.
            num_eval_tasks: so many others.
            num_parallel_workers: 1: no environments for training in parallel.
            parallel_kwargs: for :func:`make_parallel_env` alone, such as ``backend``.
            kwargs: for :func:`make_env` and :func:`make_parallel_env`.
        """
        if env_type != "meta":
            raise ConfigurationError(f"env_type must be 'meta', got {env_type!r}")
        env_id = find(env_name) if isinstance(env_name, str) else env_name
        kwargs |= {"num_train_tasks": num_train_tasks, "num_eval_tasks": num_eval_tasks}
        self.train_env_parallel: ParallelEnvManager | None = None
        if num_parallel_workers > 1:
            self.train_env_parallel = make_parallel_env(
                env_id, max_rollouts_per_task, num_workers=num_parallel_workers, seed=self.seed,
                **kwargs, **(parallel_kwargs or {}),
            )  # fmt: skip
            self._at_the_end.callback(self.train_env_parallel.close)
        self.train_env = make_env(env_id, max_rollouts_per_task, seed=self.seed, **kwargs)
        self.eval_env = make_env(env_id, max_rollouts_per_task, seed=self.seed + 1, **kwargs)
        for env in (self.train_env, self.eval_env):
            self._at_the_end.callback(env.close)
        self.max_rollouts_per_task = max_rollouts_per_task
        self.max_trajectory_len = int(self.train_env.horizon_bamdp)
        """Most steps of a rollout."""
        self.train_tasks, self.eval_tasks = self._split_tasks(num_train_tasks, num_eval_tasks)

    def _split_tasks(self, num_train_tasks: int | None, num_eval_tasks: int) -> tuple[list[Any], list[Any]]:
        """Those to learn from, and, the last ones, those for evaluation; ``None`` for any that the environment makes up."""
        if self.train_env.n_tasks is None:
            return [], [None] * num_eval_tasks
        tasks = list(self.train_env.get_all_task_idx())
        if num_eval_tasks + (num_train_tasks or 0) > len(tasks):
            raise ConfigurationError(
                f"there are {len(tasks)} tasks, and {num_train_tasks or 0} to learn from and {num_eval_tasks} to evaluate on "
                "are wanted: lower env.num_train_tasks or env.num_eval_tasks"
            )
        return tasks[:num_train_tasks], tasks[-num_eval_tasks:]

    def _init_agent(self) -> None:
        config, env = self.config, self.train_env
        policy, train = config.policy, config.train
        observation_size = math.prod(env.observation_space.shape or ())
        actions = actions_of(env.action_space)
        self.agent_arch = policy.agent_arch
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            self.network = AgentNetwork(observation_size, actions, policy)
        self.algorithm = SAC(self.network, actions, policy, config.seed)
        self.agent = Agent(self.network, actions, config.seed)
        length = self.max_trajectory_len if train.sampled_seq_len == -1 else train.sampled_seq_len
        sizes = train.buffer_size, observation_size, actions.width
        self.policy_storage = (
            SequenceBuffer(*sizes, min(length, self.max_trajectory_len))
            if self.agent_arch.stores_sequences
            else TransitionBuffer(*sizes)
        )
        self._batches = generator(config.seed, Purpose.BATCHES)
        self._n_env_steps_total = self._n_rollouts_total = self._n_updates_total = self.updates = 0
        self._seconds, self._pace = 0.0, Pace()
        self._forget_the_last()
        self.last_report: MetaReport | None = None

    # -- collecting ------------------------------------------------------------------------------------------------------

    def collect_rollouts(self, num_rollouts: int, random_actions: bool = False) -> int:
        """Play so many rollouts, one after the other, and keep them. Returns how many steps they took."""
        return self._collect(OnePlace(self.train_env), num_rollouts, random_actions)

    def collect_rollouts_parallel(
        self, num_rollouts: int, random_actions: bool = False, parallel_env: Any | None = None
    ) -> int:
        """The same with several environments at once; the same rollouts, in the same order. ``None``: one after the other."""
        if parallel_env is None:
            return self.collect_rollouts(num_rollouts, random_actions)
        return self._collect(parallel_env, num_rollouts, random_actions)

    def _collect(self, places: Places, num_rollouts: int, random_actions: bool) -> int:
        if num_rollouts < 1:
            raise ConfigurationError(f"num_rollouts must be at least 1, got {num_rollouts}")
        self.agent.take(self.network)
        collector = self._collector(places)
        first, steps = self._n_rollouts_total, 0
        plans = (
            plan_of(
                Purpose.ROLLOUTS, self.seed, number, self.train_tasks, self.max_trajectory_len, self.agent.actions,
                random_actions=random_actions,
            )
            for number in range(first, first + num_rollouts)
        )  # fmt: skip
        for trajectory in collector.collect(plans, num_rollouts, "random" if random_actions else "policy"):
            self._keep(trajectory)
            steps += trajectory.num_steps
        self._spent["environments"] += collector.environment_seconds
        self._spent["policy"] += collector.policy_seconds
        return steps

    def _collector(self, places: Places) -> Collector:
        train = self.config.train
        return Collector(
            places, self.agent, self.max_trajectory_len,
            sees_start=train.next_episode_sees == "start", goal_is_terminal=train.goal_is_terminal,
        )  # fmt: skip

    def _keep(self, trajectory: Trajectory) -> None:
        observations = trajectory.observations
        self.policy_storage.add_episode(
            observations[:-1], trajectory.actions, trajectory.rewards, trajectory.terminals, observations[1:]
        )
        self._n_env_steps_total += trajectory.num_steps
        self._n_rollouts_total += 1
        self._latest.append(trajectory)

    # -- learning --------------------------------------------------------------------------------------------------------

    def train(self, on_report: OnReport | None = None) -> MetaReport:
        """Train until all iterations are made; returns the last report."""
        while not self.is_done:
            report = self.train_once()
            if on_report is not None:
                on_report(report)
        if self.last_report is None:
            raise StateError("there is nothing left to train: all iterations were made already")
        return self.last_report

    @property
    def n_env_steps_total(self) -> int:
        """So many steps are taken in all, if no rollout ends early."""
        train = self.config.train
        return self.max_trajectory_len * (train.num_init_rollouts_pool + train.num_iters * train.num_rollouts_per_iter)

    @property
    def is_done(self) -> bool:
        """Whether all iterations were made."""
        return self.updates >= self.config.train.num_iters

    def train_once(self) -> MetaReport:
        """An iteration: collect, and learn. Before the first one, the pool is filled with random actions."""
        begin, train = time.perf_counter(), self.config.train
        self._forget_the_last()
        steps = 0
        if missing := max(0, train.num_init_rollouts_pool - self._n_rollouts_total):
            steps += self.collect_rollouts_parallel(missing, True, self.train_env_parallel)
            if isinstance(train.num_updates_per_iter, float):
                self.update(int(steps * train.num_updates_per_iter))
        collected = self.collect_rollouts_parallel(train.num_rollouts_per_iter, parallel_env=self.train_env_parallel)
        much = train.num_updates_per_iter
        losses = self.update(math.ceil(much * collected) if isinstance(much, float) else much)
        self.updates += 1
        self._seconds += time.perf_counter() - begin
        return self.log_train_stats(losses, steps + collected, time.perf_counter() - begin)

    def update(self, num_updates: int) -> dict[str, float]:
        """Learn from so many batches. Returns the means of what that says of itself."""
        if not num_updates:
            return {}
        if not self._n_rollouts_total:
            raise StateError("there is nothing to learn from yet: collect rollouts first")
        begin = time.perf_counter()
        said = torch.zeros(len(SAID))
        for _ in range(num_updates):
            sample = self.policy_storage.random_batch(self.config.train.batch_size, self._batches)
            said += self.algorithm.update(Batch(*map(torch.from_numpy, sample)))
        if not torch.isfinite(said).all():
            raise Diverged(
                f"training has diverged after step {self._n_env_steps_total:,}: the losses are no numbers any more. Rewards or "
                f"observations of {self.config.env.env_name} may be too large, or policy.lr too high"
            )
        self._n_updates_total += num_updates
        self._spent["update"] += time.perf_counter() - begin
        return dict(zip(SAID, (said / num_updates).tolist(), strict=True))

    def _forget_the_last(self) -> None:
        """A new iteration begins."""
        self._latest: list[Trajectory] = []
        self._spent = {"environments": 0.0, "policy": 0.0, "update": 0.0}

    def log_train_stats(self, train_stats: Mapping[str, float], steps: int, seconds: float) -> MetaReport:
        """What the iteration says of itself; ``train_stats`` are what :meth:`update` returned."""
        shares = {name: spent / seconds for name, spent in self._spent.items()}
        latest = self._latest[-self.config.train.num_rollouts_per_iter :]
        returns = np.stack([one.returns(self.max_rollouts_per_task) for one in latest])
        means: list[float] = returns.mean(axis=0).tolist()
        self.last_report = MetaReport(
            updates=self.updates,
            gradient_steps=self._n_updates_total,
            steps=self._n_env_steps_total,
            episodes=self._n_rollouts_total,
            mean_return=sum(means),
            episode_returns=means,
            success_rate=_success_rate(latest),
            steps_per_second=steps / seconds,
            seconds=self._seconds,
            seconds_left=self._pace.seconds_left(self._seconds, self.updates / max(1, self.config.train.num_iters)),
            learning_rate=self.config.policy.lr,
            restarts=0 if self.train_env_parallel is None else self.train_env_parallel.stats.restarts,
            losses=train_stats,
            shares={**shares, "other": max(0.0, 1.0 - sum(shares.values()))},
            advice=advice_on(self._spent["environments"], self._spent["policy"], self.config.env.num_parallel_workers),
        )
        return self.last_report

    # -- a run of it (see shoal.runs.training.trainee) -------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """Of single environments, so far."""
        return self._n_env_steps_total

    @property
    def goal(self) -> Goal:
        """What is trained, and until when."""
        train, parallel = self.config.train, self.train_env_parallel
        plan = None if parallel is None else parallel.plan
        return Goal(
            env=self.config.env.env_name,
            n_envs=1 if parallel is None else parallel.num_envs,
            backend="serial" if plan is None else plan.backend,
            start_method=plan.start_method if plan is not None and needs_processes(plan.backend) else None,
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
        return all(bool(weight.isfinite().all()) for weight in self.network.parameters())

    def save(self, lost: str | None = None) -> Saved:
        """What to save. Nothing of it is lost when an environment raises: each rollout begins anew."""
        return Saved(tensors_of(self), state_of(self), memory_of(self))

    def load(self, tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> str | None:
        """Go on from there. Returns a sentence if what was kept of rollouts is not there any more."""
        return load(self, tensors, state)

    def load_policy(self, tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
        """Only what is needed for an evaluation."""
        load_network(self, tensors)

    # -- afterwards ------------------------------------------------------------------------------------------------------

    def evaluate(
        self,
        tasks: Sequence[Any] | None = None,
        deterministic: bool = True,
        *,
        episodes: int | None = None,
        seed: int | None = None,
        is_asked_to_stop: Callable[[], bool] = lambda: False,
    ) -> Evaluation:
        """Play each of these tasks once. The result is the same however many play at once.

        Args:
            tasks: by default, those for evaluation.
            deterministic: with the most likely actions.
            episodes: play so many tasks, again from the first if there are fewer.
            seed: another one than the run's gives tasks other starts, and other tasks where these are made up.
            is_asked_to_stop: asked after every task; those that are over count.
        """
        tasks = self.eval_tasks if tasks is None else tasks
        if not len(tasks):
            raise ConfigurationError("there are no tasks to evaluate on: give at least one, or None for any")
        if episodes is not None:
            tasks = list(islice(cycle(tasks), episodes))
        self.agent.take(self.network)
        its_seed = self.seed if seed is None else seed
        parallel = self.train_env_parallel
        places = OnePlace(self.eval_env) if parallel is None else parallel
        plans = (
            plan_of(Purpose.EVALUATION, its_seed, number, [task], self.max_trajectory_len, self.agent.actions)
            for number, task in enumerate(tasks)
        )
        played: list[Trajectory] = []
        how: Acting = "best" if deterministic else "policy"
        for trajectory in self._collector(places).collect(plans, len(tasks), how):
            if is_asked_to_stop():
                break
            played.append(trajectory)
        returns = [one.returns(self.max_rollouts_per_task) for one in played]
        return Evaluation(
            returns_per_episode=np.reshape(returns, (-1, self.max_rollouts_per_task)),
            success_rate=_success_rate(played),
            total_steps=np.array([one.num_steps for one in played]),
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything that decides how training goes on."""
        tensors, state, memory = self.save()
        return {"tensors": {**tensors, **{name: value.clone() for name, value in memory.items()}}, "state": state}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from there, bit by bit as if there had been no interruption."""
        self.load(state_dict["tensors"], state_dict["state"])

    def close(self) -> None:
        """End the workers. May be called twice."""
        self._at_the_end.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _success_rate(trajectories: Sequence[Trajectory]) -> float | None:
    if not trajectories or not trajectories[0].has_goal:
        return None
    return float(np.mean([one.has_reached_goal for one in trajectories]))


def _config_of(
    config: MetaConfig | Mapping[str, Any] | str | PathLike[str] | None, settings: Mapping[str, Any]
) -> MetaConfig:
    if isinstance(config, str | PathLike):
        config = read_config(Path(config))
    if not isinstance(config, MetaConfig):
        config = MetaConfig.of(config or {})
    return config.replaced(**settings) if settings else config

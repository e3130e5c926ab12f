"""``make_env`` and ``make_parallel_env``: environments for meta-RL by their id."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shoal.meta.manager import ParallelEnvManager
from shoal.meta.vari_bad import Actions, Horizon, VariBadWrapper, warn_of_oracle
from shoal.vector.arguments import check_count
from shoal.vector.making import factories_of
from shoal.vector.messages import EnvFn


@dataclass(frozen=True)
class VariBadFactory:
    """Makes an environment and wraps it."""

    env_fn: EnvFn
    episodes_per_task: int
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self) -> VariBadWrapper:
        """Make one."""
        return VariBadWrapper(self.env_fn(), self.episodes_per_task, **self.options)


def make_env(
    env_id: Any,
    episodes_per_task: int,
    seed: int | None = None,
    oracle: bool = False,
    *,
    add_done_info: bool | None = None,
    horizon: Horizon = "pomdp-baselines",
    actions: Actions = "rescaled",
    **kwargs: Any,
) -> VariBadWrapper:
    """One environment in which a task is good for several episodes.

    Args:
        env_id: an id registered with Gymnasium, such as ``"AntDir-v0"``, or a callable that makes an environment.
        episodes_per_task: how many episodes a task is good for.
        seed: for the environment, which is reset with it here, and for its action space.
        oracle: as for :class:`VariBadWrapper`, like the next three.
        add_done_info: see there.
        horizon: see there.
        actions: see there.
        kwargs: for the environment, such as ``num_train_tasks=50, num_eval_tasks=20``. The numbered tasks are those of its
            ``task_seed``, and not of ``seed``.
    """
    if oracle:
        warn_of_oracle()
    options = {
        "oracle": oracle,
        "add_done_info": add_done_info,
        "horizon": horizon,
        "actions": actions,
        "quiet": True,
    }
    (env_fn,), _ = factories_of(env_id, 1, kwargs)
    env = VariBadFactory(env_fn, episodes_per_task, options)()
    if seed is not None:
        env.reset(seed=seed)
        env.action_space.seed(seed)
    return env


def make_parallel_env(
    env_id: Any,
    episodes_per_task: int,
    num_workers: int,
    seed: int | None = None,
    oracle: bool = False,
    *,
    add_done_info: bool | None = None,
    horizon: Horizon = "pomdp-baselines",
    actions: Actions = "rescaled",
    backend: str = "auto",
    num_processes: int | None = None,
    start_method: str | None = None,
    on_fault: str | None = None,
    step_timeout: float | None = None,
    **kwargs: Any,
) -> ParallelEnvManager:
    """Many such environments, each with a task of its own, that run at the same time.

    Args:
        env_id: as for :func:`make_env`; also a list of callables, one for each environment.
        episodes_per_task: how many episodes a task is good for.
        num_workers: how many environments. They are spread over as many processes as pay, or over ``num_processes``.
        seed: environment i gets ``seed + i``, and is what ``make_env(..., seed=seed + i)`` makes.
        oracle: as for :class:`VariBadWrapper`, like the next three.
        add_done_info: see there.
        horizon: see there.
        actions: see there.
        backend: where they run, as for :class:`shoal.ParallelEnv`, like the next four.
        num_processes: what is called ``num_workers`` there.
        start_method: see there.
        on_fault: see there.
        step_timeout: see there.
        kwargs: for the environments.
    """
    check_count("num_workers", num_workers)
    if oracle:
        warn_of_oracle()
    options = {
        "oracle": oracle,
        "add_done_info": add_done_info,
        "horizon": horizon,
        "actions": actions,
        "quiet": True,
    }
    env_fns, _ = factories_of(env_id, num_workers, kwargs)
    factories = {id(env_fn): VariBadFactory(env_fn, episodes_per_task, options) for env_fn in env_fns}
    return ParallelEnvManager(
        [factories[id(env_fn)] for env_fn in env_fns],
        seed=seed,
        backend=backend,
        num_processes=num_processes,
        start_method=start_method,
        on_fault=on_fault,
        step_timeout=step_timeout,
    )

"""``make_env`` and ``make_parallel_env``: environments for meta-RL by their id."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shoal.meta.manager import ParallelEnvManager
from shoal.meta.vari_bad import VariBadWrapper, warn_of_oracle
from shoal.vector.arguments import check_count
from shoal.vector.making import check_for_typos, factories_of
from shoal.vector.messages import EnvFn

OF_THE_WRAPPER = ("add_done_info", "horizon", "actions")
OF_THE_ENGINE = ("backend", "num_processes", "start_method", "on_fault", "step_timeout")


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
    env_id: Any, episodes_per_task: int, seed: int | None = None, oracle: bool = False, **kwargs: Any
) -> VariBadWrapper:
    """One environment in which a task is good for several episodes.

    Args:
        env_id: an id registered with Gymnasium, such as ``"AntDir-v0"``, or a callable that makes an environment.
        episodes_per_task: how many episodes a task is good for.
        seed: for the environment, which is reset with it here, and for its action space.
        oracle: as for :class:`VariBadWrapper`.
        kwargs: ``add_done_info``, ``horizon`` and ``actions`` are for :class:`VariBadWrapper`, all others for the
            environment, such as ``num_train_tasks=50, num_eval_tasks=20``. The numbered tasks are those of its
            ``task_seed``, and not of ``seed``.
    """
    check_for_typos("make_env()", kwargs, OF_THE_WRAPPER)
    options = _taken_from(kwargs, OF_THE_WRAPPER)
    (env_fn,), _ = factories_of(env_id, 1, kwargs)
    env = VariBadWrapper(env_fn(), episodes_per_task, oracle, **options)
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
    **kwargs: Any,
) -> ParallelEnvManager:
    """Many such environments, each with a task of its own, that run at the same time.

    Args:
        env_id: as for :func:`make_env`; also a list of callables, one for each environment.
        episodes_per_task: how many episodes a task is good for.
        num_workers: how many environments. They are spread over as many processes as pay, or over ``num_processes``.
        seed: environment i gets ``seed + i``, and is what ``make_env(..., seed=seed + i)`` makes.
        oracle: as for :class:`VariBadWrapper`.
        kwargs: as for :func:`make_env`; but ``backend``, ``start_method``, ``on_fault`` and ``step_timeout`` are for
            :class:`shoal.ParallelEnv`, and so is ``num_processes``, which is called ``num_workers`` there.
    """
    check_count("num_workers", num_workers)
    check_for_typos("make_parallel_env()", kwargs, (*OF_THE_WRAPPER, *OF_THE_ENGINE))
    engine = _taken_from(kwargs, OF_THE_ENGINE)
    options = {**_taken_from(kwargs, OF_THE_WRAPPER), "oracle": oracle, "quiet": True}
    env_fns, _ = factories_of(env_id, num_workers, kwargs)
    if oracle:
        warn_of_oracle()  # here, and not in every worker
    factories = {id(env_fn): VariBadFactory(env_fn, episodes_per_task, options) for env_fn in env_fns}
    return ParallelEnvManager([factories[id(env_fn)] for env_fn in env_fns], seed=seed, **engine)


def _taken_from(keywords: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: keywords.pop(name) for name in names if name in keywords}

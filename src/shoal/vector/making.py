"""``shoal.make``: from a name, a factory or a list of factories to a :class:`ParallelEnv`."""

from __future__ import annotations

import copy
import difflib
import functools
import importlib
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.vector import AutoresetMode

from shoal.vector.arguments import check_count
from shoal.vector.batched import MakeRows
from shoal.vector.batching import ObservationMode
from shoal.vector.errors import ConfigurationError
from shoal.vector.messages import EnvFn
from shoal.vector.parallel_env import ParallelEnv
from shoal.vector.tasks import TaskFunction


@dataclass(frozen=True)
class RegisteredEnv:
    """A factory for an environment that is registered with Gymnasium.

    It carries the registration itself, so that it works in a process in which nobody has registered it.
    """

    spec: EnvSpec
    keywords: dict[str, Any] = field(default_factory=dict)

    def __call__(self) -> gymnasium.Env[Any, Any]:
        """Make one."""
        return gymnasium.make(self.spec, **self.keywords)

    @property
    def make_rows(self) -> MakeRows | None:
        """What makes many of them that are stepped together, if they can be and nothing is wrapped around them."""
        entry_point = self.spec.entry_point
        try:
            cls = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
        except Exception:
            return None  # calling this factory says what is wrong, to whom it concerns
        make_rows = getattr(cls, "make_rows", None)
        if make_rows is None or self.spec.additional_wrappers:
            return None
        keywords = {**self.spec.kwargs, **self.keywords}
        if keywords.get("render_mode") not in (None, *cls.metadata["render_modes"]):  # type: ignore[union-attr]
            return None  # Gymnasium wraps something around it that can do this
        keywords.pop("disable_env_checker", None)
        limit = keywords.pop("max_episode_steps", None) or self.spec.max_episode_steps
        return functools.partial(make_rows, max_episode_steps=None if limit == -1 else limit, **keywords)


def make(
    env: str | EnvSpec | Callable[..., gymnasium.Env[Any, Any]] | Sequence[EnvFn],
    num_envs: int | None = None,
    *,
    backend: str = "auto",
    num_workers: int | None = None,
    threads_per_worker: int | None = None,
    start_method: str | None = None,
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    observation_mode: ObservationMode = "same",
    copy: bool = True,
    lease: int = 1,
    debug_leases: bool = False,
    output: str = "numpy",
    step_timeout: float | None = None,
    pin_workers: bool = True,
    groups: int | None = None,
    group_size: int | None = None,
    check_groups: bool | str = True,
    tasks: TaskFunction | Sequence[Any] | None = None,
    isolate_rng: bool = False,
    on_fault: str | None = None,
    timeouts: Mapping[str, float | None] | None = None,
    max_worker_memory: int | str | None = None,
    max_worker_episodes: int | None = None,
    replayable: bool | None = None,
    in_process: Sequence[int] = (),
    **env_kwargs: Any,
) -> ParallelEnv:
    """Make ``num_envs`` environments that run in parallel.

    Args:
        env: the id of an environment registered with Gymnasium (``"CartPole-v1"``, or ``"module:Env-v0"`` to import a
            module first), its ``EnvSpec`` or that of a vector environment, a callable that makes an environment, or a list of
            such callables.
        num_envs: how many; a list has as many as it is long, groups as many as they have members, and the ``EnvSpec`` of a
            vector environment as many as that has.
        env_kwargs: further keywords go to the environment, as with ``gymnasium.make``.

    The other arguments are those of :class:`ParallelEnv`.
    """
    check_for_typos("make()", env_kwargs, inspect.signature(make).parameters.keys() - {"env_kwargs"})
    if num_envs is None and (groups is not None or group_size is not None) and not _is_list(env):
        for name, value in (("groups", groups), ("group_size", group_size)):
            check_count(name, 1 if value is None else value)
        num_envs = (groups or 1) * (group_size or 1)
    env_fns, spec = factories_of(env, num_envs, env_kwargs)
    if replayable is None and spec is not None and spec.nondeterministic:
        replayable = False
    envs = ParallelEnv(
        env_fns,
        backend=backend,
        num_workers=num_workers,
        threads_per_worker=threads_per_worker,
        start_method=start_method,
        autoreset_mode=autoreset_mode,
        observation_mode=observation_mode,
        copy=copy,
        lease=lease,
        debug_leases=debug_leases,
        output=output,
        step_timeout=step_timeout,
        pin_workers=pin_workers,
        groups=groups,
        group_size=group_size,
        check_groups=check_groups,
        tasks=tasks,
        isolate_rng=isolate_rng,
        on_fault=on_fault,
        timeouts=timeouts,
        max_worker_memory=max_worker_memory,
        max_worker_episodes=max_worker_episodes,
        replayable=replayable,
        in_process=in_process,
    )
    envs.spec = spec
    return envs


def _is_list(env: Any) -> bool:
    return isinstance(env, Sequence) and not isinstance(env, str)


def make_vec_entry_point(env_id: str | EnvSpec, num_envs: int = 1, **keywords: Any) -> ParallelEnv:
    """What ``gymnasium.make_vec("shoal/Parallel-v0", env_id=..., num_envs=...)`` calls."""
    return make(env_id, num_envs, **keywords)


def register_with_gymnasium() -> None:
    """Let ``gymnasium.make_vec`` make Shoal's vector environments."""
    if "shoal/Parallel-v0" not in gymnasium.registry:
        gymnasium.register("shoal/Parallel-v0", vector_entry_point="shoal.vector.making:make_vec_entry_point")


def factories_of(env: Any, num_envs: int | None, keywords: dict[str, Any]) -> tuple[list[EnvFn], EnvSpec | None]:
    """One factory per environment, and the registration they come from if they come from one."""
    if num_envs is not None:
        check_count("num_envs", num_envs)
    if isinstance(env, str | EnvSpec):
        spec = _find_spec(env) if isinstance(env, str) else env
        if spec.entry_point is None:
            raise ConfigurationError(
                f"{spec.id!r} is registered as a vector environment only, and Shoal runs single environments in parallel: give "
                "the id of one of these, or use gymnasium.make_vec()"
            )
        if "vectorization_mode" in spec.kwargs:
            return _factories_of_vector_spec(spec, num_envs, keywords)
        return [RegisteredEnv(spec, keywords)] * (num_envs or 1), spec
    if callable(env):
        return [functools.partial(env, **keywords) if keywords else env] * (num_envs or 1), None
    if isinstance(env, Sequence) and not isinstance(env, bytes):
        for index, one in enumerate(env):
            if isinstance(one, gymnasium.Env):
                raise ConfigurationError(
                    f"item {index} of the list is an environment, {one}: give a callable that makes one, "
                    "such as lambda: gymnasium.make(...)"
                )
        if num_envs is not None and num_envs != len(env):
            raise ConfigurationError(f"num_envs={num_envs}, but the list has {len(env)} factories; leave num_envs out")
        return [functools.partial(fn, **keywords) if keywords else fn for fn in env], None
    raise ConfigurationError(
        "env must be the id of a registered environment, a callable that makes one, or a list of such callables, "
        f"got {env!r}"
    )


def factories_of_list(envs: Sequence[Any]) -> list[EnvFn]:
    """A factory for each of these: factories, ids or specs of registered environments, and pairs of an id and keywords."""
    if isinstance(envs, str | EnvSpec):
        raise ConfigurationError(f"env_fns must be a list, with one for each environment, got {envs!r}")
    by_id: dict[str, EnvFn] = {}  # one factory for all of an id, so that a batched world is seen to be one
    factories: list[EnvFn] = []
    for env in envs:
        match env:
            case str():
                if env not in by_id:
                    by_id[env] = factories_of(env, 1, {})[0][0]
                factories.append(by_id[env])
            case EnvSpec():
                factories += factories_of(env, 1, {})[0]
            case (str() | EnvSpec() as its_id, Mapping() as keywords):
                factories += factories_of(its_id, 1, dict(keywords))[0]
            case _:
                factories.append(env)
    return factories


def _factories_of_vector_spec(
    vector_spec: EnvSpec, num_envs: int | None, keywords: dict[str, Any]
) -> tuple[list[EnvFn], EnvSpec]:
    """As :func:`factories_of`, for the spec of a vector environment, in which are the arguments of ``gymnasium.make_vec``."""
    spec = copy.deepcopy(vector_spec)
    added, spec.kwargs = spec.kwargs, {}
    del added["vectorization_mode"]
    if vector_keywords := added.pop("vector_kwargs", {}):
        raise ConfigurationError(
            f"the spec of {spec.id!r} has vector_kwargs, which are for Gymnasium's own vector environments: {vector_keywords}. "
            f"What to do: begin with gymnasium.spec({spec.id!r}), and give shoal.make() keywords of its own, such as "
            "autoreset_mode="
        )
    its_num_envs, wrappers = added.pop("num_envs", 1), tuple(added.pop("wrappers", ()))
    env_fn: EnvFn = RegisteredEnv(spec, {**added, **keywords})
    if wrappers:
        env_fn = functools.partial(_make_wrapped, env_fn, wrappers)
    return [env_fn] * (num_envs or its_num_envs), spec


def _make_wrapped(env_fn: EnvFn, wrappers: Sequence[Callable[[Any], Any]]) -> Any:
    env: Any = env_fn()
    for wrapper in wrappers:
        env = wrapper(env)
    return env


def _find_spec(env_id: str) -> EnvSpec:
    module, _, name = env_id.rpartition(":")
    if module:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"{env_id!r} asks for the module {module!r}, which cannot be imported: {error}"
            ) from error
    return gymnasium.spec(name)


def check_for_typos(function: str, keywords: Iterable[str], known: Collection[str]) -> None:
    """Refuse a keyword for the environment that is nearly one of these."""
    for name in keywords:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.85)
        if near and name not in known:
            raise ConfigurationError(
                f"{function} has no keyword {name!r}: did you mean {near[0]!r}? "
                "(If it is meant for the environment, pass a factory instead of an id.)"
            )

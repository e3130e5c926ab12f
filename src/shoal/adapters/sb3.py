"""Stable-Baselines3's ``VecEnv`` on Shoal's backends.

::

    PPO ──▶ VecNormalize, VecMonitor, ... ──▶ ShoalVecEnv ──▶ ParallelEnv ──▶ workers

What comes back is what SB3's ``DummyVecEnv`` gives for the same environments, seeds and actions, bit by bit. The two
interfaces say the same things differently:

==========================================  ======================================================================
ParallelEnv                                 VecEnv
==========================================  ======================================================================
batched spaces                              those of a single environment
rewards of double precision                 of single precision
``terminated`` and ``truncated``            ``dones``, and ``info["TimeLimit.truncated"]`` in every info
one dictionary of batched infos             a list with one dictionary each
``info["final_obs"]``, ``["final_info"]``   ``info["terminal_observation"]`` in the last step's own info
the info of an autoreset, in the step's     in ``reset_infos``, as that of a reset
``reset(seed=..., options=...)``            ``seed()`` and ``set_options()``, which the next ``reset()`` uses up
==========================================  ======================================================================
"""

from __future__ import annotations

import difflib
import inspect
import operator
import os
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode

from shoal.adapters.wrapping import is_wrapped_in, name_of
from shoal.vector.errors import ConfigurationError, EnvError
from shoal.vector.infos import by_environment
from shoal.vector.making import RegisteredEnv, factories_of
from shoal.vector.messages import EnvFn, Outcome
from shoal.vector.parallel_env import ParallelEnv
from shoal.vector.session import Given

try:
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import VecEnv
    from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn
except ModuleNotFoundError as error:
    missing = (error.name or "").partition(".")[0]
    if missing not in ("stable_baselines3", "torch"):
        raise
    raise ImportError(
        f"shoal.adapters.sb3 needs {missing}, which is not installed: pip install 'shoal[sb3]'", name=missing
    ) from error

Env = gymnasium.Env[Any, Any]
Info = dict[str, Any]


class ShoalVecEnv(VecEnv):
    """The environments of a :class:`shoal.ParallelEnv` as a ``VecEnv`` of Stable-Baselines3.

    Args:
        parallel_env: made with ``autoreset_mode="SameStep"``, because in SB3 the step that ends an episode returns the
            first observation of the next one. It is closed by :meth:`close`.
    """

    def __init__(self, parallel_env: ParallelEnv) -> None:
        _check_fits(parallel_env)
        self.parallel_env = parallel_env
        super().__init__(parallel_env.num_envs, parallel_env.single_observation_space, parallel_env.single_action_space)
        # VecVideoRecorder reads the frames per second here.
        self.metadata = {key: value for key, value in parallel_env.metadata.items() if key != "autoreset_mode"}

    # -- episodes ------------------------------------------------------------------------------------------------

    def reset(self) -> VecEnvObs:
        """Reset all environments, with the seeds and options that were set since the last time.

        A step that was begun and not waited for is dropped.
        """
        envs = self.parallel_env
        if envs._session.pending == "step":
            try:
                envs.step_wait()
            except EnvError:
                pass  # it raised in an episode that nobody wants any more
        seeds = self._seeds if any(seed is not None for seed in self._seeds) else None
        options = [one or None for one in self._options] if any(self._options) else None
        envs.reset_async(seeds, options)
        (observation, _), outcome = envs._session.finish("reset", _without_infos(envs._reset_results))
        self.reset_infos[:] = self._infos_of_all(outcome)
        self._reset_seeds()
        self._reset_options()
        return _arranged(observation)

    def step_async(self, actions: Any) -> None:
        """Begin a step with one action for each environment."""
        self.parallel_env.step_async(_batched(self.action_space, actions))

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for the step, and return observations, rewards, dones and infos."""
        envs = self.parallel_env
        (observation, reward, terminated, truncated, _), outcome = envs._finish_step(
            _without_infos(envs._step_results), lambda results: by_environment(results[1].infos).values()
        )
        done = terminated | truncated
        infos = self._infos_of_all(outcome)
        endings = {}
        for row in np.flatnonzero(done).tolist():
            self.reset_infos[row] = info = infos[row]
            endings[row], infos[row] = info.pop("final_obs"), info.pop("final_info")
        for info, is_cut_off in zip(infos, (truncated & ~terminated).tolist(), strict=True):
            info["TimeLimit.truncated"] = is_cut_off
        for row, last_observation in endings.items():
            infos[row]["terminal_observation"] = last_observation
        return _arranged(observation), reward.astype(np.float32), done, infos

    def _infos_of_all(self, outcome: Outcome) -> list[Info]:
        infos = by_environment(outcome.infos)
        return [infos.get(row, {}) for row in range(self.num_envs)]

    def close(self) -> None:
        """Close all environments and end their workers. May be called twice, and while a step is under way."""
        self.parallel_env.__exit__()  # which, unlike its close(), does not warn of a step that nobody waited for

    # -- asking environments -------------------------------------------------------------------------------------

    @property
    def envs(self) -> list[Env]:
        """The environments themselves, where they live in this process, as in ``DummyVecEnv``."""
        return self.parallel_env.envs

    def has_attr(self, attr_name: str) -> bool:
        """Whether all environments have an attribute. It is not sent, so it need not be one that can be pickled."""
        return all(self.env_method("has_wrapper_attr", attr_name))

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """An attribute of each environment, or of the wrapper around it that has it. What you get is a copy."""
        return self.env_method("get_wrapper_attr", attr_name, indices=indices)

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set an attribute to the same value everywhere: as in SB3, that of the outermost wrapper."""
        self.env_method("__setattr__", attr_name, value, indices=indices)

    def env_method(
        self,
        method_name: str | Callable[..., Any],
        *method_args: Any,
        indices: VecEnvIndices = None,
        **method_kwargs: Any,
    ) -> list[Any]:
        """Call a method of each environment and return what they return."""
        rows = self._rows_of(indices)
        # SB3 allows an environment to be named twice, which calls it twice; ParallelEnv takes each once in a call.
        calls = [rows] if len(set(rows)) == len(rows) else [[row] for row in rows]
        ask = self.parallel_env.call_on
        return [value for its in calls if its for value in ask(its, method_name, *method_args, **method_kwargs)]

    def env_is_wrapped(self, wrapper_class: type[gymnasium.Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        """Whether each environment is wrapped in this class."""
        return self.env_method(is_wrapped_in, name_of(wrapper_class), indices=indices)

    def get_images(self) -> Sequence[Any]:
        """A picture of each environment; :meth:`render` puts them together."""
        if self.render_mode != "rgb_array":
            warnings.warn(
                f"The render mode is {self.render_mode}, but this method assumes it is `rgb_array` to obtain images.",
                stacklevel=2,
            )
            return [None] * self.num_envs
        return list(self.parallel_env.render())

    def _rows_of(self, indices: VecEnvIndices) -> list[int]:
        """As SB3 understands indices: negative ones count from the end."""
        everyone = range(self.num_envs)
        if indices is None:
            return list(everyone)
        named = indices if isinstance(indices, Iterable) else [indices]
        try:
            return [everyone[operator.index(index)] for index in named]
        except IndexError:
            raise IndexError(
                f"indices={indices!r} names an environment that is not there: there are {self.num_envs}"
            ) from None


def _without_infos(results_of: Callable[[Outcome], Given]) -> Callable[[Outcome], tuple[Given, Outcome]]:
    """The results with empty infos, and the outcome that has them.

    Batching infos, as Gymnasium does, forgets the types of numbers and costs time; SB3 wants one dictionary each.
    """
    return lambda outcome: (results_of(outcome._replace(infos=[])), outcome)


def _check_fits(parallel_env: Any) -> None:
    if not isinstance(parallel_env, ParallelEnv):
        raise ConfigurationError(
            f"ShoalVecEnv needs a shoal.ParallelEnv, got {parallel_env!r}; "
            "make_vec_env() makes one from an id, a callable or a list of callables"
        )
    if parallel_env.autoreset_mode is not AutoresetMode.SAME_STEP:
        raise ConfigurationError(
            "Stable-Baselines3 expects an environment to be reset in the step that ends its episode, but these were made "
            f'with autoreset_mode={parallel_env.autoreset_mode}: pass autoreset_mode="SameStep" to shoal.make()'
        )
    if not parallel_env.copy:
        raise ConfigurationError(
            "Stable-Baselines3 keeps observations beyond the next step, but these environments were made with copy=False, "
            "so that observations are overwritten: pass copy=True to shoal.make()"
        )
    if parallel_env.output != "numpy":
        raise ConfigurationError(
            "Stable-Baselines3 expects NumPy arrays, but these environments were made with "
            f'output="{parallel_env.output}": pass output="numpy" to shoal.make()'
        )


def _arranged(observation: Any) -> VecEnvObs:
    """As ``DummyVecEnv`` arranges it."""
    arranged: VecEnvObs = OrderedDict(observation) if isinstance(observation, dict) else observation
    return arranged


def _batched(space: spaces.Space[Any], actions: Any) -> Any:
    """One action after the other, as SB3 has them, in the arrangement of a batched action space."""
    if isinstance(space, spaces.Dict):
        return {key: _batched(part, [action[key] for action in actions]) for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_batched(part, [action[place] for action in actions]) for place, part in enumerate(space))
    if isinstance(space, spaces.MultiBinary):
        # SB3's policies give 0.0 and 1.0 here.
        given = np.asarray(actions)
        with np.errstate(invalid="ignore"):
            converted = given.astype(space.dtype)
        return converted if np.array_equal(converted, given) else given
    return actions


# -- making ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MonitoredEnv:
    """A factory that wraps what another one makes, as SB3's own ``make_vec_env`` does."""

    env_fn: EnvFn
    rank: int
    seed: int | None
    monitor_dir: str | None
    monitor_kwargs: dict[str, Any] = field(default_factory=dict)
    wrapper_class: Callable[..., Env] | None = None
    wrapper_kwargs: dict[str, Any] = field(default_factory=dict)

    def __call__(self) -> Env:
        """Make one."""
        env = self.env_fn()
        if self.seed is not None:
            env.action_space.seed(self.seed + self.rank)
        filename = None if self.monitor_dir is None else os.path.join(self.monitor_dir, str(self.rank))
        monitored = LenientMonitor(env, filename=filename, **self.monitor_kwargs)
        return monitored if self.wrapper_class is None else self.wrapper_class(monitored, **self.wrapper_kwargs)


class LenientMonitor(Monitor):
    """Tells an environment of options only if there are any: as in SB3, it need not know that there is such a thing."""

    def reset(self, **keywords: Any) -> Any:
        """Begin an episode."""
        if keywords.get("options", keywords) is None:
            del keywords["options"]
        return super().reset(**keywords)


@dataclass(frozen=True)
class PicturedEnv:
    """A factory for a registered environment that renders pictures if it can, as in SB3's own ``make_vec_env``."""

    spec: EnvSpec
    keywords: dict[str, Any]

    def __call__(self) -> Env:
        """Make one."""
        try:
            return RegisteredEnv(self.spec, {"render_mode": "rgb_array", **self.keywords})()
        except TypeError:  # it has no such keyword
            return RegisteredEnv(self.spec, self.keywords)()


def make_vec_env(
    env: str | EnvSpec | Callable[..., Env] | Sequence[EnvFn],
    num_envs: int | None = None,
    *,
    seed: int | None = None,
    backend: str = "auto",
    num_workers: int | None = None,
    monitor_dir: str | None = None,
    wrapper_class: Callable[..., Env] | None = None,
    env_kwargs: dict[str, Any] | None = None,
    monitor_kwargs: dict[str, Any] | None = None,
    wrapper_kwargs: dict[str, Any] | None = None,
    **parallel_kwargs: Any,
) -> ShoalVecEnv:
    """Make environments that run in parallel, each in a ``Monitor``, as Stable-Baselines3's ``make_vec_env`` does.

    Args:
        env: the id of an environment registered with Gymnasium, its ``EnvSpec``, a callable that makes an environment, or
            a list of such callables.
        num_envs: how many; a list has as many as it is long. SB3 calls it ``n_envs``.
        seed: what the first reset is seeded with, each environment with its index added.
        backend: ``"serial"``, ``"threads"``, ``"pipes"``, ``"shm"`` or ``"auto"``.
        num_workers: how many threads or processes.
        monitor_dir: the folder for the monitors' files; none are written without it.
        wrapper_class: what to put around each monitored environment: a wrapper, or a function that wraps.
        env_kwargs: keywords for the environment.
        monitor_kwargs: keywords for ``Monitor``.
        wrapper_kwargs: keywords for ``wrapper_class``.
        parallel_kwargs: further keywords of :class:`shoal.ParallelEnv`, such as ``start_method`` or ``step_timeout``.
    """
    _check_keywords(parallel_kwargs)
    env_fns, spec = factories_of(env, num_envs, env_kwargs or {})
    if spec is not None:
        env_fns = [PicturedEnv(spec, env_kwargs or {})] * len(env_fns)
    if monitor_dir is not None:
        os.makedirs(monitor_dir, exist_ok=True)
    monitored = [
        MonitoredEnv(env_fn, rank, seed, monitor_dir, monitor_kwargs or {}, wrapper_class, wrapper_kwargs or {})
        for rank, env_fn in enumerate(env_fns)
    ]
    parallel_env = ParallelEnv(
        monitored,
        backend=backend,
        num_workers=num_workers,
        autoreset_mode=AutoresetMode.SAME_STEP,
        **parallel_kwargs,
    )
    parallel_env.spec = spec
    try:
        vec_env = ShoalVecEnv(parallel_env)
    except BaseException:
        parallel_env.close()
        raise
    vec_env.seed(seed)
    return vec_env


def _check_keywords(parallel_kwargs: dict[str, Any]) -> None:
    own = set(inspect.signature(make_vec_env).parameters) - {"parallel_kwargs"}
    known = own | set(inspect.signature(ParallelEnv).parameters) - {"env_fns", "autoreset_mode"}
    for name in parallel_kwargs:
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.8)
            raise ConfigurationError(
                f"make_vec_env() has no keyword {name!r}"
                + (f": did you mean {near[0]!r}? " if near else ". ")
                + "Keywords for the environment go into env_kwargs."
            )

"""Captured states: all environments of a worker as bytes, for histories that would take too long to repeat.

An environment that has ``get_state()`` and ``set_state(state)`` is asked for its state; any other is pickled. Wrappers
around it (a time limit, running means) are captured attribute by attribute. All environments of a worker are in one pickle,
so that what they share stays shared, together with the process's global random numbers.

Whether a captured state is complete cannot be seen from it: a class may pickle only what it was made with. So it is relied
on only after a rehearsal: loaded elsewhere, followed by the same commands, it must lead to the same results.
"""

from __future__ import annotations

import pickle
import random
from typing import Any, NamedTuple

import cloudpickle
import gymnasium
import numpy as np
from gymnasium.utils import EzPickle


class State(NamedTuple):
    """One environment."""

    wrappers: list[dict[str, Any]]
    """The attributes of its wrappers, from the outside in."""
    is_own: bool
    """Whether ``core`` is what ``get_state()`` returned; otherwise it is the environment itself."""
    core: Any
    generator: Any
    """Its random numbers, where it has Gymnasium's."""


def dump_states(envs: list[Any], more: Any) -> bytes:
    """These environments, and ``more``, as bytes. Raises whatever pickling raises."""
    global_states = random.getstate(), np.random.get_state()
    data: bytes = cloudpickle.dumps((global_states, [state_of(env) for env in envs], more), protocol=5)
    return data


def load_states(envs: list[Any], data: bytes, first: int) -> Any:
    """Bring newly made environments, in place, to a captured state, in which the first of them was in the place ``first``.

    Returns what else was captured.
    """
    (python_state, numpy_state), states, more = pickle.loads(data)
    for place, env in enumerate(envs):
        envs[place] = with_state(env, states[first + place])
    random.setstate(python_state)
    np.random.set_state(numpy_state)
    return more


class Captured:
    """Captured states, of which environments take theirs one by one.

    What was captured together is unpickled once: what they shared stays shared, and many environments do not take the square
    of the time of one.
    """

    def __init__(self) -> None:
        self._opened: dict[bytes, tuple[dict[int, State], Any]] = {}
        self._copies: dict[tuple[bytes, int], bytes] = {}

    def load(self, envs: list[Any], place: int, data: bytes, source: int) -> Any:
        """As :func:`load_states`, but only one environment, which was in the place ``source`` when it was captured."""
        if data not in self._opened:
            _, states, more = pickle.loads(data)
            self._opened[data] = dict(enumerate(states)), more
        left, more = self._opened[data]
        envs[place] = with_state(envs[place], left.pop(source) if source in left else self._copy(data, source))
        return more

    def _copy(self, data: bytes, source: int) -> State:
        """A state that another environment has taken already: the two must not be one."""
        if (data, source) not in self._copies:
            _, states, _ = pickle.loads(data)
            self._copies[data, source] = cloudpickle.dumps(states[source], protocol=5)
        state: State = pickle.loads(self._copies[data, source])
        return state


def _layers(env: Any) -> tuple[list[Any], Any]:
    """The wrappers around an environment, from the outside in, and the environment."""
    wrappers = []
    while isinstance(env, gymnasium.Wrapper):
        wrappers.append(env)
        env = env.env
    return wrappers, env


def state_of(env: Any) -> State:
    """Where an environment is, as it is put into a pickle. Raises ``TypeError`` where a pickle would not hold that."""
    wrappers, core = _layers(env)
    attributes = [
        {name: value for name, value in vars(wrapper).items() if name != "env" and not callable(value)}
        for wrapper in wrappers
    ]
    if callable(getattr(core, "get_state", None)) and callable(getattr(core, "set_state", None)):
        return State(attributes, True, core.get_state(), getattr(core, "_np_random", None))
    if isinstance(core, EzPickle):
        raise TypeError(f"{type(core).__name__} pickles only what it was made with, and has no get_state()")
    return State(attributes, False, core, None)


def with_state(env: Any, state: State) -> Any:
    """What stands for a newly made environment when it has been brought to a state: itself, or what was pickled."""
    wrappers, core = _layers(env)
    for wrapper, attributes in zip(wrappers, state.wrappers, strict=True):
        vars(wrapper).update(attributes)
    if state.is_own:
        core.set_state(state.core)
        if state.generator is not None:
            core._np_random = state.generator
        return env
    if not wrappers:
        return state.core
    wrappers[-1].env = state.core
    return env

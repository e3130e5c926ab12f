"""``MockParallelEnv``: the vector environment itself, with a script instead of environments.

It *is* a :class:`~shoal.ParallelEnv`, with the serial backend and environments that do what a script says. So it refuses
what the real one refuses, in the same words, and cannot drift away from it. There are no processes and no waiting.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from gymnasium import spaces

from shoal.testing.script import Log, Script, ScriptedEnv, script_of
from shoal.vector.arguments import check_count
from shoal.vector.errors import ConfigurationError
from shoal.vector.messages import Reset
from shoal.vector.parallel_env import ParallelEnv
from shoal.vector.snapshot import snapshot

WATCHED = (
    "arecv", "call", "call_async", "call_on", "call_wait", "close", "get_attr", "recv", "render", "reset", "reset_async",
    "reset_wait", "send", "send_reset", "set_attr", "step", "step_async", "step_wait",
)  # fmt: skip
"""The methods whose calls are written down, and which can be told to raise."""


class Called(NamedTuple):
    """One call of a method of the mock, with copies of what it was given."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class MockParallelEnv(ParallelEnv):
    """A vector environment that does what its script says, and remembers what it was given.

    Args:
        observation_space: of one environment.
        action_space: of one environment.
        num_envs: how many.
        script: what environments return from their steps: a list of :class:`Scripted` (or exceptions, to be raised), one for
            each step an environment takes, or a list in its place with one for each environment; or a function of a
            :class:`Request`. By default zeros for ever.
        starts: what they return from their resets, in the same way.
        arrivals: which environments each ``recv`` hands over, as ``replay_arrivals`` takes it. By default all, in the order
            in which they were sent.
        attributes: attributes of the environments, arranged as for ``set_attr``; functions among them can be called.
        keywords: further arguments of :class:`~shoal.ParallelEnv`, such as ``autoreset_mode`` or ``tasks``.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        num_envs: int = 1,
        *,
        script: Script | None = None,
        starts: Script | None = None,
        arrivals: Sequence[Sequence[int]] | None = None,
        attributes: Mapping[str, Any] | None = None,
        **keywords: Any,
    ) -> None:
        self.closed = True  # until there is something to close
        check_count("num_envs", num_envs)
        steps, resets = script_of(script, "script", num_envs), script_of(starts, "starts", num_envs)
        self._log = Log([[] for _ in range(num_envs)])
        self._orders: dict[str, deque[BaseException]] = {}
        self._depth = 1  # what happens in here is not the caller's doing
        self.calls: list[Called] = []
        """Every call of a method, in order."""
        env_fns = [
            functools.partial(ScriptedEnv, index, observation_space, action_space, steps, resets, self._log)
            for index in range(num_envs)
        ]
        super().__init__(env_fns, backend="serial", **keywords)
        for name, values in (attributes or {}).items():
            self.set_attr(name, values)
        if arrivals is not None:
            self.replay_arrivals(arrivals)
        self._depth = 0

    def __enter__(self) -> MockParallelEnv:
        return self

    @property
    def actions(self) -> list[list[Any]]:
        """What each environment was given, in order; ``mock.actions[2]`` are those of environment 2."""
        return self._log.actions

    @property
    def resets(self) -> list[Reset]:
        """Every reset of an environment, in order, autoresets too: environment, seed and options."""
        return self._log.resets

    def raise_next(self, name: str, error: BaseException) -> None:
        """Let the next call of this method raise ``error`` and do nothing else.

        What was begun stays begun: after a :class:`~shoal.WaitTimeout` of ``step_wait``, the next one gives the results.
        Told several times, it raises several times.
        """
        if name not in WATCHED:
            raise ConfigurationError(f"{name!r} cannot be told to raise; these can: {', '.join(WATCHED)}")
        self._orders.setdefault(name, deque()).append(error)

    def _watch(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.calls.append(Called(name, snapshot(args), snapshot(kwargs)))
        if self._orders.get(name):
            raise self._orders[name].popleft()


def _watched(name: str) -> Callable[..., Any]:
    method = getattr(ParallelEnv, name)

    @functools.wraps(method)
    def call(self: MockParallelEnv, *args: Any, **kwargs: Any) -> Any:
        if self._depth == 0:
            self._watch(name, args, kwargs)
        self._depth += 1  # some methods call others, which the caller did not
        try:
            return method(self, *args, **kwargs)
        finally:
            self._depth -= 1

    return call


for _name in WATCHED:
    setattr(MockParallelEnv, _name, _watched(_name))

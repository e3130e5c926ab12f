"""The real simulator, for who has it: CybORG of CAGE Challenge 2 as a Gymnasium environment. ``shoal/CybORG-v0``.

It needs CybORG and nothing else of Shoal's extras, because CybORG wants old versions of much.

CybORG draws its random numbers from Python's one generator, which all environments of a process share. Here everyone has its
own: its state is put in place before the simulator runs, and kept afterwards. ``reset(seed=5)`` gives the episode that
``random.seed(5)`` before a reset gives in CybORG alone.
"""

from __future__ import annotations

import importlib
import inspect
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from shoal.vector.errors import ConfigurationError

NUM_ACTIONS, NUM_BITS = 145, 52
RED = {"B_line": "B_lineAgent", "Meander": "RedMeanderAgent", "Sleep": "SleepAgent"}
GREEN = {"Sleep": "SleepAgent", "Scan": "GreenAgent"}

_one_generator = threading.Lock()
"""Held while the process's generator is an environment's."""


class CybORGEnv(gymnasium.Env[NDArray[np.float32], Any]):
    """One game of the real simulator.

    Args:
        red: ``"B_line"``, ``"Meander"``, ``"Sleep"``, or an agent's class, CybORG's or one of that name.
        green: ``"Sleep"`` or ``"Scan"``, or an agent's class.
        max_steps: after how many steps an episode is truncated, or ``None``.
        scenario_path: another scenario than that of the challenge.
        with_infos: also hand over what CybORG says beside its results, which is much.
    """

    metadata = {"render_modes": []}

    def __init__(
        self,
        red: Any = "B_line",
        green: Any = "Sleep",
        max_steps: int | None = 100,
        scenario_path: str | Path | None = None,
        with_infos: bool = False,
        render_mode: None = None,
    ) -> None:
        if max_steps is not None and (isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 1):
            raise ConfigurationError(f"max_steps must be a whole number of at least 1, or None, got {max_steps!r}")
        self.max_steps, self.with_infos = max_steps, with_infos
        self._steps = 0
        self._random = random.getstate()
        simulator, agents, wrappers = (_import(name) for name in ("CybORG", "CybORG.Agents", "CybORG.Agents.Wrappers"))
        taking_part = {"Red": _agent(agents, "red", red, RED)}
        if green not in ("Sleep", None):
            taking_part["Green"] = _agent(agents, "green", green, GREEN)
        scenario = scenario_path or Path(inspect.getfile(simulator.CybORG)).parent / "Shared/Scenarios/Scenario2.yaml"
        with self._own_random():
            self.cyborg = simulator.CybORG(str(scenario), "sim", agents=taking_part)
            self._env = wrappers.ChallengeWrapper(env=self.cyborg, agent_name="Blue")
        num_actions = int(self._env.action_space.n)
        num_bits = int(np.prod(self._env.observation_space.shape))
        if scenario_path is None and (num_actions, num_bits) != (NUM_ACTIONS, NUM_BITS):
            raise ConfigurationError(
                f"this CybORG has {num_actions} actions and observations of {num_bits} numbers, and CAGE 2 has {NUM_ACTIONS} "
                f"and {NUM_BITS}: it is of another version, in which actions have other numbers"
            )
        self.observation_space = spaces.Box(0, 1, (num_bits,), np.float32)
        self.action_space = spaces.Discrete(num_actions)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.integers(2**62))  # whose state is known, so that an episode can be brought back
        self._random = random.Random(seed).getstate()  # noqa: S311 - what the simulator itself draws from
        self._steps = 0
        with self._own_random():
            observation = self._env.reset()
        if isinstance(observation, tuple):  # a wrapper of a newer interface
            observation = observation[0]
        return np.array(observation, np.float32), {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Take a step."""
        if not self.action_space.contains(action):
            raise ValueError(f"the action {action!r} is not in {self.action_space}")
        with self._own_random():
            observation, reward, done, *_, info = self._env.step(int(action))
        self._steps += 1
        is_truncated = self.max_steps is not None and self._steps >= self.max_steps
        infos = dict(info) if self.with_infos else {}
        return np.array(observation, np.float32), float(reward), bool(done), is_truncated, infos

    @property
    def true_state(self) -> dict[str, Any]:
        """What is really the case, as CybORG says it."""
        state: dict[str, Any] = self.cyborg.get_agent_state("True")
        return state

    @contextmanager
    def _own_random(self) -> Iterator[None]:
        with _one_generator:
            everybodys = random.getstate()
            random.setstate(self._random)
            try:
                yield
            finally:
                self._random = random.getstate()
                random.setstate(everybodys)


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "CybORG":
            raise
        raise ModuleNotFoundError(
            "the real simulator is CybORG of CAGE Challenge 2, which is not installed here: install it from its repository "
            "(cage-challenge/cage-challenge-2), or use Shoal's own, which behaves the same: shoal/Cage2-v0",
            name="CybORG",
        ) from None


def _agent(agents: Any, role: str, given: Any, known: dict[str, str]) -> Any:
    """CybORG's class for an agent."""
    if inspect.isclass(given) and hasattr(given, "get_action"):
        return given  # CybORG's, or an agent of the user's own
    name = given if isinstance(given, str) else getattr(given, "__name__", repr(given))
    found = getattr(agents, known.get(name, name), None)
    if inspect.isclass(found):
        return found
    raise ConfigurationError(f"{role} must be one of {', '.join(map(repr, known))}, or an agent's class, got {given!r}")

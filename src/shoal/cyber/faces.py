"""Many games of CAGE 2 at once, with the interface of the research code that Shoal grew out of.

::

    envs = ParallelEnvSharedMemory(n_envs=200, red_agent_type=B_lineAgent)
    observations = envs.reset()                                    (n_envs, 52)
    observations, rewards, dones, infos = envs.step(actions)       arrays of n_envs, and a list of dictionaries
    states = envs.get_true_states()                                a list of dictionaries
    envs.close()

After an episode has ended the observation is the first one of the next, and ``infos[i]["final_obs"]`` the last one. By default
episodes never end, as there: say ``max_steps=100`` if they should. What Blue sees is what the wrapper of that code shows
(``observation="cardiff"``).
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Literal, Self

import numpy as np

from shoal.cyber.agents import RedMeanderAgent
from shoal.cyber.true_states import true_state_dictionaries, true_states
from shoal.vector.errors import ConfigurationError
from shoal.vector.layout import Array
from shoal.vector.making import make
from shoal.vector.parallel_env import ParallelEnv

Infos = list[dict[str, Any]]
SCENARIO = "Scenario2.yaml"
"""That of the challenge, which Shoal's simulator has built in."""
IDS = {"shoal": "shoal/Cage2-v0", "cyborg": "shoal/CybORG-v0"}


class Cage2Envs:
    """Many games, on the backend of the subclass.

    Args:
        n_envs: how many.
        scenario_path: another scenario than that of the challenge, for the real simulator.
        red_agent_type: who attacks: an agent's class, or its name.
        simulator: ``"shoal"``, or ``"cyborg"`` for the real one, where that is installed.
        max_steps: after how many steps an episode ends.
        keywords: whatever else the simulator or :func:`shoal.make` understands.
    """

    backend: ClassVar[str]
    envs: ParallelEnv
    """The same games, with Gymnasium's interface."""

    def __init__(
        self,
        n_envs: int = 200,
        scenario_path: str | Path | None = None,
        red_agent_type: Any = RedMeanderAgent,
        *,
        simulator: Literal["shoal", "cyborg"] = "shoal",
        max_steps: int | None = None,
        **keywords: Any,
    ) -> None:
        if simulator not in IDS:
            raise ConfigurationError(f"simulator must be 'shoal' or 'cyborg', got {simulator!r}")
        if "red" in keywords:
            raise ConfigurationError("here the attacker is called red_agent_type, not red")
        if simulator == "shoal":
            keywords = {"observation": "cardiff", **keywords}  # the wrapper that the original used
        if scenario_path is not None and not (simulator == "shoal" and Path(scenario_path).name == SCENARIO):
            if simulator != "cyborg":
                raise ConfigurationError(
                    "Shoal's own simulator has the scenario of the challenge built in: scenario_path is for the real one, "
                    "simulator='cyborg'"
                )
            keywords["scenario_path"] = str(scenario_path)
        self.n_envs, self._simulator = n_envs, simulator
        self.envs = make(
            IDS[simulator],
            n_envs,
            **{"backend": self.backend, "autoreset_mode": "SameStep", **keywords},
            red=red_agent_type,
            max_steps=max_steps,
        )
        self.observation_shape = self.envs.single_observation_space.shape
        self.envs.reset()  # as in the original, who steps at once may

    def reset(self, env_ids: Any = None, *, seed: int | None = None) -> Array:
        """Begin an episode in all games, or in some; returns the observations of all."""
        observations: Array
        observations, _ = self.envs.reset(seed=seed, env_ids=env_ids)
        return observations

    def step(self, actions: Any) -> tuple[Array, Array, Array, Infos]:
        """Step all games; returns observations, rewards, dones and infos."""
        observations, rewards, terminated, truncated, info = self.envs.step(np.asarray(actions))
        return observations, rewards, terminated | truncated, _one_by_one(info, self.n_envs)

    def get_true_states(self) -> list[dict[str, Any]]:
        """What is really the case in every game, in words. :attr:`true_states` is much quicker."""
        if self._simulator == "cyborg":
            return list(self.envs.get_attr("true_state"))
        return true_state_dictionaries(self.envs)

    @property
    def true_states(self) -> Array:
        """What is really the case in every game, as a structured array. Of Shoal's own simulator only."""
        return true_states(self.envs)

    def close(self) -> None:
        """Close all games."""
        self.envs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.envs.__exit__(kind, error, traceback)


class ParallelEnvSharedMemory(Cage2Envs):
    """In worker processes, with results in shared memory."""

    backend = "shm"


class ParallelEnvPipes(Cage2Envs):
    """In worker processes, with results sent through pipes."""

    backend = "pipes"


class VectorizedCAGE2Envs(Cage2Envs):
    """In this process."""

    backend = "serial"


def _one_by_one(info: dict[str, Any], n_envs: int) -> Infos:
    infos: Infos = [{} for _ in range(n_envs)]
    for name, values in info.items():
        mask = info.get(f"_{name}")
        if mask is not None:
            each = _one_by_one(values, n_envs) if isinstance(values, dict) else values
            for number in np.flatnonzero(mask).tolist():
                infos[number][name] = each[number]
    return infos

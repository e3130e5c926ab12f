"""Parts: some of the environments, driven as if they were all. With two of them, the policy works while environments step.

::

    first, second = envs.split(2)

    first    step ░░░░░░░░░ policy ▓▓▓ step ░░░░░░░░░ policy ▓▓▓        ░ environments   ▓ policy
    second   policy ▓▓▓ step ░░░░░░░░░ policy ▓▓▓ step ░░░░░░░░░

Each part is in lockstep by itself, so results are the same on every backend and every machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector.utils import batch_space

from shoal.vector.arguments import check_count
from shoal.vector.errors import (
    CannotStart,
    Closed,
    ConfigurationError,
    NothingPending,
    ShoalError,
    WaitTimeout,
    WorkerError,
)
from shoal.vector.messages import rows_of_part
from shoal.vector.tasks import Options, Seeds

if TYPE_CHECKING:
    from shoal.vector.first_ready import Batch
    from shoal.vector.parallel_env import ParallelEnv, Step


class Part:
    """Some of the environments of a :class:`ParallelEnv`. They are closed with it."""

    def __init__(self, envs: ParallelEnv, rows: list[int], half: int | None) -> None:
        self._envs, self._rows, self._half = envs, rows, half
        self._is_stepping = False
        self.num_envs = len(rows)
        self.env_ids = np.array(rows, dtype=np.int64)
        """Which environments: row k of everything here is that of environment ``env_ids[k]``."""
        self.single_observation_space, self.single_action_space = (
            envs.single_observation_space,
            envs.single_action_space,
        )
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(self, *, seed: Seeds = None, options: Options = None) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes. A number as seed gives each environment the same one as in a reset of all."""
        self._envs.send_reset(self._rows, seed=seed, options=options)
        batch = self._receive(None)
        return batch.observation, batch.info

    def step_async(self, actions: Any) -> None:
        """Let the environments take a step each; returns at once."""
        was_stepping, self._is_stepping = self._is_stepping, True  # before it is: an interrupt may come right after
        try:
            if self._half is None or not self._envs._order_half(self._half, actions):
                self._envs._send_together(actions, self._rows)
        except Exception:
            self._is_stepping = was_stepping
            raise

    def step_wait(self, timeout: float | None = None) -> Step:
        """Wait for what :meth:`step_async` began. After ``timeout`` seconds it raises, and may be called again."""
        if not self._is_stepping:
            raise NothingPending("Calling `step_wait` without any prior call to `step_async`.", "step")
        if timeout is None and self._half is not None:
            results = self._envs._finish_half(self._half)
            if results is not None:
                self._is_stepping = False
                return results
        batch = self._receive(timeout)
        return batch.observation, batch.reward, batch.terminated, batch.truncated, batch.info

    def _receive(self, timeout: float | None) -> Batch:
        try:
            batch = self._envs._recv_exactly(self._rows, timeout)
        except (WaitTimeout, CannotStart):
            raise  # all of them go on, as after an exception that is not ours, from the handler of a signal: wait again
        except (WorkerError, Closed):
            self._is_stepping = False  # none of them will be back
            raise
        except ShoalError:
            self._envs._session.flights.drop(
                self._rows
            )  # one has raised; what the others did is lost with it, as in any step
            self._is_stepping = False
            raise
        self._is_stepping = False
        return batch

    def step(self, actions: Any) -> Step:
        """Take a step and wait for it."""
        self.step_async(actions)
        return self.step_wait()

    def __repr__(self) -> str:
        return f"Part(env_ids={self._rows})"


def split(envs: ParallelEnv, num_parts: int) -> tuple[Part, ...]:
    """Parts as even as can be, each with environments of every worker, however many of these there are.

    Members of a group, which begin with the same task, stay together.
    """
    check_count("num_parts", num_parts)
    size = envs.group_size
    if num_parts > envs.num_envs // size:
        what = f"{envs.num_envs} environments" if size == 1 else f"{envs.num_envs // size} groups"
        raise ConfigurationError(f"{what} cannot be split into {num_parts} parts")
    rows = [rows_of_part(range(envs.num_envs), part, num_parts, size) for part in range(num_parts)]
    return tuple(Part(envs, its, part if num_parts == 2 else None) for part, its in enumerate(rows))

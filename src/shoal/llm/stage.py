"""The worlds of an environment manager, one by one: each begins and takes its turn when it is its time.

::

    begin({row: order, …}) ─┐
    act({row: actions, …}) ─┴─▶ EnvList ──▶ arrived() ──▶ {row: what it shows, …}      whoever is back
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from shoal.llm.answers import NoAnswer, read_answer
from shoal.llm.environment_manager import EnvironmentManagerBase
from shoal.llm.environment_managers import MixedEnvironmentManager
from shoal.llm.hosted import Begin
from shoal.llm.members import Tag
from shoal.llm.projection import Projection
from shoal.llm.status import Status
from shoal.llm.worlds import Shown, failed, shown_of
from shoal.vector.env_list import EnvList
from shoal.vector.errors import EnvError, ShoalError, WaitTimeout


class Stage:
    """Where trajectories take place."""

    def __init__(self, manager: EnvironmentManagerBase) -> None:
        self.manager, self.container = manager, manager.envs
        self.tags: Sequence[Tag] = self.container.crew.tags
        self.num_groups, self.group_size = self.container.env_num, self.container.group_n
        self._beginning: dict[int, Begin] = {}
        """Orders of worlds that are being reset, and will then be given them."""

    @property
    def _envs(self) -> EnvList:
        return self.container.worlds.open()

    @property
    def is_under_way(self) -> bool:
        """Whether anybody is to come back."""
        return self._envs.num_under_way > 0

    @contextmanager
    def played_on(self) -> Iterator[None]:
        """For the time of a rollout. Afterwards the manager must be reset before it is stepped, and nobody is under way."""
        self._drain()
        self.container.hand_over()
        try:
            yield
        finally:
            self._drain()

    def _drain(self) -> None:
        while self._envs.num_under_way:
            try:
                self._envs.recv(self._envs.num_under_way)
            except EnvError:
                continue
            except ShoalError:
                break
        self._beginning.clear()

    def order_of(self, row: int, seed: int) -> Begin:
        """With what a member begins the task of this seed."""
        crew = self.container.crew
        return Begin(seed, crew.mode, crew.options_of(row, seed))

    def next_seeds(self) -> list[int]:
        """The seed of each group for this rollout; the next one has others."""
        return self.container.next_seeds()

    def begin(self, orders: Mapping[int, Begin]) -> None:
        """Let these begin an episode each."""
        if orders:
            self._beginning.update(orders)
            self._envs.send_reset(list(orders))

    def act(self, actions: Mapping[int, Sequence[Any]]) -> None:
        """Let these carry out a turn each."""
        if actions:
            self._envs.send(list(actions.values()), list(actions))

    def arrived(self, timeout: float | None = None, *, everybody: bool = False) -> dict[int, Shown]:
        """Who is back: at least one, or all, unless the time is over before."""
        envs, results = self._envs, dict[int, Shown]()
        while envs.num_under_way and (everybody or not results):
            try:
                batch = envs.recv(envs.num_under_way if everybody else 1, timeout)
            except WaitTimeout:
                if not everybody:
                    break
                everybody, timeout = False, 0.0  # those that are back
                continue
            except EnvError as error:  # what a world gave cannot be sent, for example
                for one in (error, *error.others):
                    self._beginning.pop(one.env_index, None)
                    results[one.env_index] = failed(Status.ENV_ERROR, str(one))
                continue
            rows = batch.env_ids.tolist()
            begun = {row: self._beginning.pop(row) for row in rows if row in self._beginning}
            results |= {row: shown_of(*one) for row, *one in zip(rows, *batch[1:], strict=True) if row not in begun}
            self.act(begun)  # to begin is a step, too: see HostedWorld
        return results

    # -- what is said to players, and what they say ----------------------------------------------------------------------

    def prompt(self, row: int, shown: Any, actions: Mapping[Any, str] | None, *, with_history: bool) -> str:
        """The whole prompt of a turn, as the manager words it."""
        manager = self.manager
        return manager.prompt(row, shown, actions, manager.history_length if with_history else 0)

    def read(
        self, row: int, text: str, actions: Mapping[Any, str] | None, separator: str | None
    ) -> tuple[list[Any], bool, str]:
        """The actions that a text asks for, whether all of it were actions, and if not, why."""
        projection = self._projection(row)
        texts = [text]
        if separator is not None:
            try:
                parts = [part.strip() for part in read_answer(text).split(separator)]
                texts = [f"<answer>{part}</answer>" for part in parts if part]
            except NoAnswer:
                pass  # the projection says why
        readings = projection.read(texts, [actions] * len(texts))
        found = [one.action for one in readings if one.action is not None]
        return found, all(one.is_valid for one in readings), next((one.reason for one in readings if one.reason), "")

    def _projection(self, row: int) -> Projection:
        manager = self.manager
        return (manager.managers[row] if isinstance(manager, MixedEnvironmentManager) else manager).projection_f


def as_state(shown: Any) -> str:
    """What a world shows, as text; for an image, what tells it from others."""
    if isinstance(shown, str):
        return shown
    data = np.ascontiguousarray(shown)
    return f"<image {hashlib.blake2b(data.tobytes(), digest_size=8).hexdigest()} {list(data.shape)}>"

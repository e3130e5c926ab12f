"""Managers of worlds, worlds with faults, and a policy that takes its time."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shoal.envs.texts.text_env import TextEnv
from shoal.llm import (
    REGISTERED_ENVS,
    ConcurrentPolicy,
    EnvironmentManagerBase,
    Generation,
    MultiProcessEnvironmentContainer,
    Request,
)
from shoal.llm.environment_managers import manager_of

EASY = {"num_boxes": 1, "search_depth": 20}
MOVES = ("up", "down", "left", "right")


@dataclass(frozen=True)
class CounterConfig:
    length: int = 4
    raises_at: int = -1
    dies_at: int = -1
    share: float = 1.0
    """How many of all tasks and members meet with the fault."""
    folder: str = ""
    """Where it is noted that this has happened, so that it happens once."""
    seconds: float = 0.0
    drifts: bool = False


class CounterEnv(TextEnv):
    """Counts its steps. The reward is 1 for "more", 0 for "less"; after so many steps it has succeeded."""

    config_class = CounterConfig
    action_lookup = {1: "more", 2: "less"}
    success = False
    total = 0

    def begin(self, task_seed: int) -> None:
        self.task_seed, self.count, self.total, self.success = task_seed, 0, 0, False

    def act(self, action: Any) -> tuple[float, bool, bool]:
        config = self.config
        self.count += 1
        if config.seconds and self._is_hit():
            time.sleep(config.seconds)
        if self.count == config.raises_at and self._is_hit():
            raise RuntimeError("the counter is broken")
        if self.count == config.dies_at and self._is_hit() and self._is_first_time():
            os.kill(os.getpid(), signal.SIGKILL)
        self.total += action == 1
        self.success = self.count >= config.length
        return float(action == 1), self.success, True

    def _is_hit(self) -> bool:
        return bool(self.noise.uniform() < self.config.share)

    def _is_first_time(self) -> bool:
        try:
            (Path(self.config.folder) / f"{self.task_seed}-{self.noise.uniform()}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def text(self) -> str:
        extra = time.time_ns() if self.config.drifts else ""
        return f"task {self.task_seed}: {self.total} of {self.count}{extra}"

    def solve(self) -> list[Any]:
        return [1] * (self.config.length - self.count)


@contextlib.contextmanager
def managed(
    env_type: str = "sokoban",
    groups: int = 3,
    size: int = 2,
    config: dict[str, Any] | None = None,
    *,
    parallel: bool = False,
    seed: int = 5,
    noise: str = "common",
    **keywords: Any,
) -> Iterator[EnvironmentManagerBase]:
    """The manager of these worlds."""
    REGISTERED_ENVS["counter"] = CounterEnv
    config = (EASY if env_type == "sokoban" else {}) if config is None else config
    try:
        container = MultiProcessEnvironmentContainer(
            env_type,
            groups,
            size,
            seed,
            config,
            num_workers=2,
            start_method="fork",
            use_multiprocessing=parallel,
            **keywords,
        )
        container._crew = type(container._crew)(**{**vars(container._crew), "noise": noise})
        with manager_of(env_type, container) as manager:
            yield manager
    finally:
        del REGISTERED_ENVS["counter"]


class RandomPolicy(ConcurrentPolicy):
    """Says what its seed says, now and then nothing sensible, after a time of heavy tails."""

    name = "random"

    def __init__(
        self, moves: Sequence[str] = MOVES, seconds: float = 0.0, concurrency: int = 4, nonsense: float = 0.1
    ) -> None:
        super().__init__(concurrency)
        self._moves, self._seconds, self._nonsense = moves, seconds, nonsense
        self.asked: list[tuple[Any, int]] = []

    def answer_one(self, request: Request) -> Generation:
        words = hashlib.sha256(json.dumps([*request.messages, request.seed]).encode()).digest()
        random = np.random.default_rng(list(words))
        self.asked.append((request.key, request.turn))
        if self._seconds:
            time.sleep(self._seconds * min(20.0, random.pareto(1.2)))
        if random.random() < self._nonsense:
            return Generation("<think>I do not know</think>")
        return Generation(f"<think>{random.integers(100)}</think><action>{random.choice(self._moves)}</action>")

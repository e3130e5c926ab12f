"""Environments of which everything can be foretold."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Counting(gymnasium.Env[Any, Any]):
    """Observes its episode and its step. Episodes of task t end after 3 + t % 4 steps."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Box(np.array([0.0, -2.0], np.float32), np.array([1.0, 2.0], np.float32))
    takes_task_option = True
    n_tasks = 8
    _max_episode_steps = 6

    def __init__(self) -> None:
        self.task, self.episode, self.steps, self.actions = 0, -1, 0, []  # type: ignore[var-annotated]

    def get_all_task_idx(self) -> range:
        return range(self.n_tasks)

    def get_current_task(self) -> Any:
        return np.array([self.task, -self.task])

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if options and "task" in options:
            self.task = int(self.np_random.integers(8)) if options["task"] is None else options["task"]
        self.episode, self.steps = self.episode + 1, 0
        return np.array([self.episode, 0], np.float32), {"options": options}

    def step(self, action: Any) -> Any:
        self.steps += 1
        self.actions.append(np.asarray(action).tolist())
        observation = np.array([self.episode, self.steps], np.float32)
        return observation, 0.5, self.steps >= 3 + self.task % 4, False, {"steps": self.steps}


class Meeting(Counting):
    """A step waits until as many are in one as the action says, which takes as many at the same time."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def step(self, action: Any) -> Any:
        (self.folder / uuid.uuid4().hex).touch()
        deadline = time.monotonic() + 30
        while len(list(self.folder.iterdir())) < action[1]:
            if time.monotonic() > deadline:
                raise TimeoutError("the others did not come")
            time.sleep(0.005)
        return super().step(action)


class Taskless(gymnasium.Env[Any, Any]):
    """Has no tasks, and notes what it was asked."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.asked.append(("reset", seed))
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(1, np.float32), 0.0, False, False, {}


class OldTasks(Taskless):
    """Is given tasks by a method only."""

    def reset_task(self, task: Any) -> None:
        self.asked.append(("task", task))

"""Small environments with tasks, whose episodes are as long as their task and their luck have it."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from shoal.vector.layout import Array


class Drift(gymnasium.Env[Any, Any]):
    """Numbers that drift; an episode ends early when the first has drifted too far. The task says how fast."""

    takes_task_option = True
    _max_episode_steps = 9

    def __init__(self, is_discrete: bool = False, num_train_tasks: int | None = None, num_eval_tasks: int = 0) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Discrete(3) if is_discrete else spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.n_tasks = 3 + 2 if num_train_tasks is None else num_train_tasks + num_eval_tasks
        self._state = np.zeros(3)
        self._steps = 0
        self._task = 0

    def get_all_task_idx(self) -> range:
        return range(self.n_tasks)

    def get_current_task(self) -> Array:
        return np.array([self._task], np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if options and options.get("task") is not None:
            self._task = options["task"]
        self._state, self._steps = self.np_random.normal(size=3), 0
        return self._state.astype(np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        push = float(np.sum(action))
        self._state = self._state + 0.2 * (self._task + 1) * self.np_random.normal(size=3) + 0.1 * push
        self._steps += 1
        is_lost = bool(abs(self._state[0]) > 1.5)
        seen = self._state.astype(np.float32)
        return seen, float(self._state.sum() - push), is_lost, self._steps == self._max_episode_steps, {}


class Remembered(gymnasium.Env[Any, Any]):
    """Two doors, one of them right, as the task has it. Who tries one knows, but sees nothing: it must be remembered."""

    takes_task_option = True
    _max_episode_steps = 4

    def __init__(self, num_train_tasks: int | None = None, num_eval_tasks: int | None = None) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.n_tasks = 2
        self._steps = self._task = 0

    def get_all_task_idx(self) -> range:
        return range(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if options and options.get("task") is not None:
            self._task = options["task"]
        self._steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        return np.zeros(1, np.float32), float(action == self._task), False, self._steps == self._max_episode_steps, {}


class GoalDrift(Drift):
    """Where the second number is above zero, there is the goal."""

    def is_goal_state(self) -> bool:
        return bool(self._state[1] > 0)


class EndlessDrift(Drift):
    """Episodes that are longer than was said."""

    _max_episode_steps = 3

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._max_episode_steps = 99
        return super().step(action)


NAMES = []
for kind in (Drift, GoalDrift, EndlessDrift, Remembered):
    NAMES.append(f"{kind.__name__}-v0")
    gymnasium.register(
        NAMES[-1], entry_point=f"{__name__}:{kind.__name__}", disable_env_checker=True, order_enforce=False
    )

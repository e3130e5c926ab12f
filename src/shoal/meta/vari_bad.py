"""Several episodes with the same task as one long episode, as VariBAD and pomdp-baselines have it (a BAMDP).

::

    reset(task=7)      step ... step      step ... step      step ... step
    observation        ├ episode 1 ┤      ├ episode 2 ┤      ├ episode 3 ┤
    done_mdp                     True               True               True
    start_state                  in info            in info
    terminated                                                         True

Only the last step of the last episode is the end. The step that ends an earlier one returns that episode's last observation;
the environment has begun the next episode meanwhile, and ``info["start_state"]`` is its first observation.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import gymnasium
import numpy as np
from gymnasium import spaces

from shoal.vector.arguments import check_choice, check_count
from shoal.vector.caller import warn_caller
from shoal.vector.errors import ConfigurationError
from shoal.vector.layout import Array

Horizon = Literal["pomdp-baselines", "varibad"]
Actions = Literal["rescaled", "pomdp-baselines", "varibad"]

OF_THE_TASKS = frozenset(
    ("n_tasks", "get_all_task_idx", "get_current_task", "reset_task", "set_goal", "is_goal_state", "_max_episode_steps")
)
"""What is asked of the environment inside."""


class VariBadWrapper(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Lets an agent spend several episodes on the same task.

    Args:
        env: an environment; with tasks, if ``reset`` is to be given any.
        episodes_per_task: how many episodes a task is good for.
        oracle: whether the task is part of the observation. Then there is nothing to find out, which is warned of.
        add_done_info: whether the observation ends with 1.0 where an episode ends, and otherwise with 0.0. By default where
            there are several episodes.
        horizon: what ``horizon_bamdp`` is: ``"pomdp-baselines"`` counts the steps, ``"varibad"`` one more between episodes.
        actions: of a bounded Box. ``"rescaled"``: the action space is from -1 to 1, and is rescaled to that of the
            environment. ``"pomdp-baselines"``: rescaled just so, but the action space is said to be the environment's, so
            that random actions are too small or too large. ``"varibad"``: actions are handed on as they are.
        quiet: whether nothing is said about ``oracle``.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        episodes_per_task: int,
        oracle: bool = False,
        *,
        add_done_info: bool | None = None,
        horizon: Horizon = "pomdp-baselines",
        actions: Actions = "rescaled",
        quiet: bool = False,
    ) -> None:
        super().__init__(env)
        check_count("episodes_per_task", episodes_per_task)
        check_choice("horizon", horizon, get_args(Horizon))
        check_choice("actions", actions, get_args(Actions))
        if oracle and not quiet:
            warn_of_oracle()
        self.episodes_per_task, self.oracle = episodes_per_task, oracle
        self.add_done_info = episodes_per_task > 1 if add_done_info is None else add_done_info
        self.episode_count = self.step_count_bamdp = 0
        self.done_mdp = False
        self._horizon = horizon
        self._knows_goals = self._has("is_goal_state")
        self._num_task_values = self._size_of_task() if oracle else 0
        if oracle or self.add_done_info:
            self.observation_space = self._wider_space(env.observation_space)
        self._bounds: tuple[Array, Array] | None = None
        if actions != "varibad" and isinstance(env.action_space, spaces.Box):
            self._bounds = _bounds_of(env.action_space)
            if actions == "rescaled":
                self.action_space = spaces.Box(-1.0, 1.0, env.action_space.shape, np.float32)

    def __getattr__(self, name: str) -> Any:
        if name in OF_THE_TASKS and "env" in self.__dict__:
            return self.env.get_wrapper_attr(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def horizon_bamdp(self) -> int:
        """How many steps a task takes at most, to size a buffer. No step counts this down."""
        if not self._has("_max_episode_steps"):
            raise ConfigurationError(
                f"{self.env} has no time limit, so nobody knows how long {self.episodes_per_task} episodes are. "
                "What to do: make it with max_episode_steps="
            )
        steps = int(self.env.get_wrapper_attr("_max_episode_steps")) * self.episodes_per_task
        return steps + (self.episodes_per_task - 1 if self._horizon == "varibad" else 0)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None, task: Any = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin with a task: a number, or ``None`` for one that is drawn. It may also be in ``options["task"]``.

        The environment is reset once. Only one that is given tasks by ``reset_task`` alone, and not by options, is reset a
        second time where there is a seed: before it draws a task, so that the seed decides about that too.
        """
        options = dict(options or {})
        in_options = options.pop("task", None)
        self.episode_count = self.step_count_bamdp = 0
        self.done_mdp = False
        observation, info = self._reset_with(in_options if task is None else task, seed, options)
        return self._seen(observation), info

    def _reset_with(self, task: Any, seed: int | None, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        core: Any = self.env.unwrapped
        if getattr(core, "takes_task_option", False):
            return self.env.reset(seed=seed, options={**options, "task": task})
        if hasattr(core, "reset_task"):
            if seed is not None:
                self.env.reset(seed=seed)
            core.reset_task(task)
            return self.env.reset(options=options or None)
        if task is not None:
            raise ConfigurationError(
                f"{self.env} has no tasks, and was to be reset with task {task!r}. What to do: give its class a method "
                "reset_task(task), or leave the task out"
            )
        return self.env.reset(seed=seed, options=options or None)

    def reset_mdp(self) -> Any:
        """Begin another episode with the same task. Returns the first observation."""
        observation, _ = self.env.reset()
        self.done_mdp = False
        return self._seen(observation)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step. It ends the task if it ends the last episode."""
        if self._bounds is not None:
            low, high = self._bounds
            action = low + (np.clip(action, -1.0, 1.0) + 1.0) / 2.0 * (high - low)
            action = np.clip(action, low, high).astype(low.dtype)
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.step_count_bamdp += 1
        self.done_mdp = bool(terminated or truncated)
        info = {**info, "done_mdp": self.done_mdp}
        if self._knows_goals:
            # Here, because the next episode may begin in a moment.
            info["is_goal_state"] = bool(self.env.get_wrapper_attr("is_goal_state")())
        if truncated and not terminated:
            info["TimeLimit.truncated"] = True
        seen, is_over = self._seen(observation), False
        if self.done_mdp:
            self.episode_count += 1
            is_over = self.episode_count >= self.episodes_per_task
            if not is_over:
                info["start_state"] = self.reset_mdp()
        return seen, float(reward), is_over, False, info

    # -- what is seen ------------------------------------------------------------------------------------------------

    def _seen(self, observation: Any) -> Any:
        """The observation, then the task, then whether the episode has ended."""
        if not self.oracle and not self.add_done_info:
            return observation
        parts = [observation]
        if self.oracle:
            parts.append(self.env.get_wrapper_attr("get_current_task")())
        if self.add_done_info:
            parts.append((float(self.done_mdp),))
        return np.concatenate(parts).astype(self.observation_space.dtype)

    def _wider_space(self, space: spaces.Space[Any]) -> spaces.Box:
        if not isinstance(space, spaces.Box) or len(space.shape) != 1:
            raise ConfigurationError(
                f"only an observation that is one row of numbers can be made longer, and that of {self.env} is {space}. "
                "What to do: flatten it, or pass add_done_info=False and no oracle"
            )
        low, high = [space.low], [space.high]
        if self.oracle:
            unbounded = np.full(self._num_task_values, np.inf)
            low.append(-unbounded)
            high.append(unbounded)
        if self.add_done_info:
            low.append(np.zeros(1))
            high.append(np.ones(1))
        return spaces.Box(
            np.concatenate(low).astype(space.dtype), np.concatenate(high).astype(space.dtype), dtype=space.dtype.type
        )

    def _size_of_task(self) -> int:
        if self._has("task_dim"):
            return int(self.env.get_wrapper_attr("task_dim"))
        if not self._has("get_current_task"):
            raise ConfigurationError(f"oracle=True needs tasks, and {self.env} has none that it would tell")
        return len(self.env.get_wrapper_attr("get_current_task")())

    def _has(self, name: str) -> bool:
        try:
            self.env.get_wrapper_attr(name)
        except AttributeError:
            return False
        return True


def _bounds_of(space: spaces.Box) -> tuple[Array, Array]:
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise ConfigurationError(
            f"actions from -1 to 1 cannot be rescaled to {space}, which has no bounds. What to do: pass actions='varibad', "
            "which hands them on as they are"
        )
    return space.low, space.high


def warn_of_oracle() -> None:
    """Say what an oracle is."""
    warn_caller(
        "oracle=True: the agent is told the task, so that there is nothing to find out (an MDP, not a POMDP)",
        UserWarning,
    )

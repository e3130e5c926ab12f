"""Rollouts: an agent plays tasks in some environments at once, each with its own memory, at its own pace.

::

    plans (0, 1, 2, ...) ──▶ free environments: reset(task, seed)
                                   │
                   observations of the busy ones ──▶ agent ──▶ actions ──▶ step
                                   │
                   rollouts that have ended, put in the order of their numbers ──▶ buffer

A rollout is a function of its plan and of the agent's weights. Who plays it, and which others are under way, changes nothing.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

import numpy as np

from shoal.meta.agent import Agent
from shoal.meta.manager import Stepped
from shoal.meta.places import Places
from shoal.meta.plans import Plan
from shoal.vector.errors import StateError
from shoal.vector.layout import Array

Acting = Literal["policy", "best", "random"]
"""What is done: what the policy draws, what it finds best, or what the plans have drawn."""


class Trajectory(NamedTuple):
    """A rollout: all episodes of one task."""

    number: int
    observations: Array
    """One more than steps."""
    actions: Array
    rewards: Array
    terminals: Array
    """1 where nothing that follows counts."""
    ends: Array
    """Whether an episode of the task ended with this step."""
    has_goal: bool
    """Whether the task says when it is solved."""
    has_reached_goal: bool

    @property
    def num_steps(self) -> int:
        """Of all episodes together."""
        return len(self.rewards)

    def returns(self, num_episodes: int) -> Array:
        """Of every episode."""
        episodes = np.cumsum(self.ends) - self.ends
        return np.bincount(episodes, weights=self.rewards[:, 0], minlength=num_episodes)[:num_episodes]


class Collector:
    """Plays rollouts in some environments.

    Args:
        places: the environments.
        agent: who acts.
        most_steps: a rollout has no more.
        sees_start: whether the agent sees the start of a task's next episode instead of the end of the last one.
        goal_is_terminal: whether nothing counts for the value of a goal but reaching it.
    """

    def __init__(
        self, places: Places, agent: Agent, most_steps: int, *, sees_start: bool, goal_is_terminal: bool
    ) -> None:
        self._places, self._agent, self._most_steps = places, agent, most_steps
        self._sees_start, self._goal_is_terminal = sees_start, goal_is_terminal
        self.environment_seconds = self.policy_seconds = 0.0

    def collect(self, plans: Iterable[Plan], num_plans: int, acting: Acting = "policy") -> Iterator[Trajectory]:
        """Play so many, and hand them over in their order."""
        num_places = min(self._places.num_envs, num_plans)
        desk = _Desk(num_places, self._most_steps, self._agent)
        finished: dict[int, Trajectory] = {}
        to_begin, order = iter(plans), deque[int]()
        while order or num_plans:
            begin = time.perf_counter()
            free = [row for row in range(num_places) if desk.plans[row] is None][:num_plans]
            if free:
                new = [next(to_begin) for _ in free]
                order.extend(plan.number for plan in new)
                num_plans -= len(new)
                tasks, seeds = [plan.task for plan in new], [plan.seed for plan in new]
                observations, _ = self._places.reset(tasks=tasks, seeds=seeds, env_ids=free)
                desk.begin(free, new, observations)
            rows = [row for row in range(num_places) if desk.plans[row] is not None]
            is_acting = time.perf_counter()
            actions = desk.act(rows, self._agent, acting)
            for_envs = self._agent.actions.for_envs(actions)
            is_stepping = time.perf_counter()
            stepped = self._places.step(for_envs, env_ids=rows)
            end = time.perf_counter()
            self.policy_seconds += is_stepping - is_acting
            self.environment_seconds += end - is_stepping + is_acting - begin
            terminals = self._terminals(stepped, desk.are_last(rows))
            for trajectory in desk.take(rows, actions, self._observed(stepped), stepped, terminals):
                finished[trajectory.number] = trajectory
            while order and order[0] in finished:
                yield finished.pop(order.popleft())

    def _observed(self, stepped: Stepped) -> Array:
        """What the agent sees next."""
        if not self._sees_start:
            return stepped.observations
        observed = stepped.observations.copy()
        for row, info in enumerate(stepped.infos):
            if info.get("start_state") is not None:
                observed[row] = info["start_state"]
        return observed

    def _terminals(self, stepped: Stepped, are_last: list[bool]) -> list[bool]:
        """A goal, or an end that is not for lack of time."""
        terminals = []
        for done, is_last, info in zip(stepped.dones.tolist(), are_last, stepped.infos, strict=True):
            if self._goal_is_terminal and "is_goal_state" in info:
                terminals.append(bool(info["is_goal_state"]))
            else:
                terminals.append(done and not is_last and not info.get("TimeLimit.truncated", False))
        return terminals


class _Desk:
    """Rollouts that are under way: a row for each environment."""

    def __init__(self, num_rows: int, most_steps: int, agent: Agent) -> None:
        self.plans: list[Plan | None] = [None] * num_rows
        self._most_steps = most_steps
        self._info = agent.get_initial_info(num_rows)
        self._steps = np.zeros(num_rows, np.int64)
        self._rewards = np.zeros((num_rows, most_steps, 1), np.float32)
        self._terminals = np.zeros((num_rows, most_steps, 1), np.float32)
        self._ends = np.zeros((num_rows, most_steps), np.bool_)
        self._actions = np.zeros((num_rows, most_steps, agent.actions.width), np.float32)
        self._has_goal = False
        self._has_reached_goal = np.zeros(num_rows, np.bool_)
        self._observations = np.empty((num_rows, most_steps + 1, 0), np.float32)

    def begin(self, rows: list[int], plans: list[Plan], observations: Array) -> None:
        """New rollouts in these rows. The others go on with what they remember."""
        if not self._observations.shape[2]:
            self._observations = np.zeros((*self._observations.shape[:2], observations.shape[1]), np.float32)
        self._observations[rows, 0] = observations
        self._steps[rows], self._has_reached_goal[rows] = 0, False
        for part in self._info:
            part[rows] = 0
        for row, plan in zip(rows, plans, strict=True):
            self.plans[row] = plan

    def act(self, rows: list[int], agent: Agent, acting: Acting) -> Array:
        """Actions for these rows, and what is remembered afterwards."""
        steps = self._steps[rows]
        plans = (self.plans[row] for row in rows)
        draws = np.stack([plan.draws[step] for plan, step in zip(plans, steps, strict=True) if plan is not None])
        if acting == "random":
            return draws
        acted = agent.act(
            self._observations[rows, steps],
            self._info.internal_state[rows],
            self._info.action[rows],
            self._info.reward[rows],
            deterministic=acting == "best",
            noise=draws,
        )
        self._info.internal_state[rows] = acted.internal_state
        return acted.action

    def are_last(self, rows: list[int]) -> list[bool]:
        """Whether the step that is being taken is the last one that there can be."""
        are_last: list[bool] = (self._steps[rows] + 1 >= self._most_steps).tolist()
        return are_last

    def take(
        self, rows: list[int], actions: Array, observations: Array, stepped: Stepped, terminals: list[bool]
    ) -> Iterator[Trajectory]:
        """What came of the actions. Yields the rollouts that have ended."""
        steps = self._steps[rows]
        self._actions[rows, steps] = self._info.action[rows] = actions
        self._rewards[rows, steps, 0] = self._info.reward[rows, 0] = stepped.rewards
        self._terminals[rows, steps, 0] = terminals
        self._ends[rows, steps] = [bool(info.get("done_mdp")) for info in stepped.infos]
        self._has_goal = "is_goal_state" in stepped.infos[0]
        self._has_reached_goal[rows] |= [bool(info.get("is_goal_state")) for info in stepped.infos]
        self._observations[rows, steps + 1] = observations
        self._steps[rows] += 1
        for row, done in zip(rows, stepped.dones.tolist(), strict=True):
            if done:
                yield self._ended(row)
            elif self._steps[row] == self._most_steps:
                raise StateError(
                    f"a rollout has not ended after {self._most_steps:,} steps, which is horizon_bamdp: "
                    "the environment must say done when its last episode ends"
                )

    def _ended(self, row: int) -> Trajectory:
        plan, steps = self.plans[row], self._steps[row]
        assert plan is not None
        self.plans[row] = None
        return Trajectory(
            number=plan.number,
            observations=self._observations[row, : steps + 1].copy(),
            actions=self._actions[row, :steps].copy(),
            rewards=self._rewards[row, :steps].copy(),
            terminals=self._terminals[row, :steps].copy(),
            ends=self._ends[row, :steps].copy(),
            has_goal=self._has_goal,
            has_reached_goal=bool(self._has_reached_goal[row]),
        )

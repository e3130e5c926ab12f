"""``MultiProcessEnvironmentContainer``: groups of text worlds, stepped with one action each; results are lists.

World i belongs to group ``i // group_n``. Worlds live in a few worker processes, not in one each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from shoal.llm.members import Crew, Tag, maker_of
from shoal.llm.status import Status
from shoal.llm.worlds import STEP_SECONDS, Placing, Shown, Worlds
from shoal.vector.arguments import check_count, check_seed, time_limit
from shoal.vector.errors import ConfigurationError, InvalidAction, ResetNeeded
from shoal.vector.wards import Stats

Actions = dict[Any, str] | None


class MultiProcessEnvironmentContainer:
    """Runs ``env_num`` groups of ``group_n`` worlds of one type.

    Args:
        env_type: the type, as in ``REGISTERED_ENVS``.
        env_num: how many groups there are.
        group_n: how many worlds a group has.
        seed: group g begins with ``seed + g``, and with ``seed + env_num + g`` the next time.
        env_kwargs: fields of the world's config.
        num_workers: how many worker processes; by default one for each processor, and at most eight.
        start_method: how they are started.
        step_timeout: seconds that a world has to begin, or to take a step; ``None`` for no limit.
        use_multiprocessing: whether there are workers at all.
    """

    def __init__(
        self,
        env_type: str,
        env_num: int,
        group_n: int = 1,
        seed: int = 0,
        env_kwargs: dict[str, Any] | None = None,
        *,
        num_workers: int | None = None,
        start_method: str | None = None,
        step_timeout: float | None = STEP_SECONDS,
        use_multiprocessing: bool = True,
        mode: str = "train",
    ) -> None:
        check_count("env_num", env_num)
        check_count("group_n", group_n)
        self.env_type, self.env_num, self.group_n = env_type, env_num, group_n
        tag = Tag(env_type, env_type, maker_of(env_type, dict(env_kwargs or {}), "env_kwargs"))
        crew = Crew(mode, (tag,) * (env_num * group_n), env_num, group_n)
        placing = Placing(num_workers, time_limit("step_timeout", step_timeout), others={"start_method": start_method})
        self._run(crew, placing, seed, is_parallel=use_multiprocessing)

    @classmethod
    def of_crew(cls, crew: Crew, placing: Placing, seed: int, *, is_parallel: bool) -> MultiProcessEnvironmentContainer:
        """The worlds that a config asks for, which may be of several types."""
        made = cls.__new__(cls)
        made.env_type = "+".join(dict.fromkeys(tag.env_type for tag in crew.tags))
        made.env_num, made.group_n = crew.num_groups, crew.group_size
        made._run(crew, placing, seed, is_parallel=is_parallel)
        return made

    def _run(self, crew: Crew, placing: Placing, seed: int, *, is_parallel: bool) -> None:
        check_seed("seed", seed)
        self.seed, self._crew, self._num_resets = seed, crew, 0
        self.configs = [tag.config for tag in crew.tags]
        """Of each world."""
        self.num_processes = len(crew)
        """How many worlds there are."""
        self._actions: list[Actions] = [None] * len(crew)
        self._last: list[tuple[Any, dict[str, Any]]] = []
        self.dones = [True] * len(crew)
        """Whose episode has ended."""
        self.statuses = [Status.OK] * len(crew)
        self._worlds = Worlds([tag.maker for tag in crew.tags], placing, is_parallel=is_parallel)
        self._worlds.open()

    def reset(self, seeds: Sequence[int] | int | None = None) -> tuple[list[Any], list[dict[str, Any]]]:
        """Begin an episode in every world; returns what they show, and their infos.

        Args:
            seeds: one for each world, one for each group, or the first group's; by default, new ones each time.
        """
        orders = self._crew.beginnings(self._seeds(seeds))
        self._last = [("", {})] * self.num_processes
        shown = self._worlds.begin(orders)
        self._num_resets += 1
        for row, one in shown.items():
            self._take(row, one)
        return [one[0] for one in self._last], [dict(one[1]) for one in self._last]

    def _seeds(self, seeds: Sequence[int] | int | None) -> list[int]:
        if seeds is None:
            seeds = self.seed + self._num_resets * self.env_num
        if isinstance(seeds, int):
            seeds = [seeds + group for group in range(self.env_num)]
        chosen = [int(seed) for seed in seeds]
        if len(chosen) == self.env_num:
            chosen = [seed for seed in chosen for _ in range(self.group_n)]
        if len(chosen) != self.num_processes:
            raise ConfigurationError(
                f"seeds must be {self.num_processes}, one for each world, or {self.env_num}, one for each group, "
                f"got {len(chosen)}"
            )
        return chosen

    def step(self, actions: Sequence[Any]) -> tuple[list[Any], list[float], list[bool], list[dict[str, Any]]]:
        """Step all worlds; returns what they show, rewards, whether their episodes have ended, and infos.

        A world whose action is ``None`` stays as it is, and so does one whose episode has ended: that shows and tells the same
        as before, with a reward of 0. Every info has the world's ``status``.
        """
        if not self._last:
            raise ResetNeeded("call reset() before step()")
        given = list(actions)
        if len(given) != self.num_processes:
            raise InvalidAction(f"{len(given)} actions were given for {self.num_processes} worlds")
        asked = {row: [one] for row, one in enumerate(given) if one is not None and not self.dones[row]}
        shown = self._worlds.act(asked)
        rewards = [0.0] * self.num_processes
        for row, action in enumerate(given):
            if row in shown:
                rewards[row] = shown[row].reward
                self._take(row, shown[row])
            elif action is None and not self.dones[row]:
                state, info = self._last[row]
                self._last[row] = state, {**info, "action_is_valid": False, "action_is_effective": False}
        states, infos = [one[0] for one in self._last], [dict(one[1]) for one in self._last]
        return states, rewards, list(self.dones), infos

    def _take(self, row: int, shown: Shown) -> None:
        if not isinstance(shown.lookup, str):
            self._actions[row] = shown.lookup
        self.dones[row], self.statuses[row] = shown.has_ended, shown.status
        info = {**shown.info, "status": shown.status}
        if shown.status.is_failure:
            self._last[row] = self._last[row][0], {**info, "error": shown.error}
        else:
            self._last[row] = shown.state, info

    @property
    def crew(self) -> Crew:
        """Who the members are."""
        return self._crew

    @property
    def worlds(self) -> Worlds:
        """The worlds themselves, for who plays with each of them by itself, as a rollout does."""
        return self._worlds

    def hand_over(self) -> None:
        """Somebody else plays from now on: here, worlds must be reset before they are stepped."""
        self._last = []

    def next_seeds(self) -> list[int]:
        """The seed of each group for the next episodes, which are taken for begun."""
        seeds = self._seeds(None)[:: self.group_n]
        self._num_resets += 1
        return seeds

    def get_available_actions(self) -> list[Actions]:
        """For each world its actions, with their names; ``None`` where actions are texts. Worlds need not be asked for it."""
        return [None if one is None else dict(one) for one in self._actions]

    def render(self, mode: str = "text") -> list[Any]:
        """What every world renders. For ``"text"``, what it showed last is that."""
        if not self._last:
            raise ResetNeeded("call reset() before render()")
        if mode == "text":
            return [one[0] for one in self._last]
        return self._worlds.render(mode)

    def call(self, function: Callable[[Any], Any]) -> list[Any]:
        """What a function makes of each world, where that is; ``None`` for one that could not be made."""
        return self._worlds.ask(function)

    @property
    def stats(self) -> Stats:
        """How many workers were replaced, and what that cost."""
        return self._worlds.open().stats

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """The worker processes."""
        return self._worlds.worker_pids

    def close(self) -> None:
        """Close all worlds."""
        if hasattr(self, "_worlds"):
            self._worlds.close()

    def __len__(self) -> int:
        return self.num_processes

    def __enter__(self) -> MultiProcessEnvironmentContainer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()

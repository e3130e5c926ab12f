"""``EnvStateManager``: a batch of worlds in groups, with the trajectories of all of them.

::

    manager = EnvStateManager("config.yaml")
    caches = manager.reset(seed=42)                        # one trajectory for each member
    while caches:
        caches = manager.step([answer(cache) for cache in caches])     # of those that go on
    results = manager.get_rollout_states()                 # all of them, with metrics
"""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping, Sequence
from typing import Any

from shoal.llm.es_settings import flag_of, format_penalty_of, placing_of, seed_of
from shoal.llm.members import Crew, crew_of
from shoal.llm.metrics import Metrics
from shoal.llm.settings import Settings
from shoal.llm.trajectories import Trajectory
from shoal.llm.worlds import Shown, Worlds
from shoal.vector.arguments import check_choice, check_flag, check_seed
from shoal.vector.errors import InvalidAction, ResetNeeded
from shoal.vector.plan import Plan
from shoal.vector.wards import Stats

logger = logging.getLogger(__name__)

MODES = ("train", "val")
VAL_SEED = 123
LARGEST_DRAWN_SEED = 1_000_000


class EnvStateManager:
    """Runs the worlds that a config asks for, and writes their trajectories down.

    Args:
        config: a dictionary, the path of a YAML file, or an OmegaConf config.
        mode: ``"train"`` or ``"val"``: which section of ``es_manager`` and which seed are meant.
    """

    def __init__(self, config: Any, mode: str = "train") -> None:
        check_choice("mode", mode, MODES)
        settings = Settings.of(config)
        section = settings.section("es_manager")
        self.config, self.mode = config, mode
        self._crew: Crew = crew_of(settings, mode)
        self.env_groups, self.group_size = self._crew.num_groups, self._crew.group_size
        self.base_seed = seed_of(settings.optional("seed"), mode)
        self.seed_counter = 0
        self.format_penalty = format_penalty_of(section)
        placing, self.sequential_env_types = placing_of(section, self._crew.tags)
        self._worlds = Worlds(
            [tag.maker for tag in self._crew.tags], placing, is_parallel=flag_of(section, "use_multiprocessing", True)
        )
        self._metrics = Metrics()
        self._logged: set[tuple[str, str]] = set()
        self.envs = [
            Trajectory(env_id, env_id // self.group_size, tag, self.format_penalty)
            for env_id, tag in enumerate(self._crew.tags)
        ]
        """All members: what they are, and how far each is."""
        self._has_begun = False

    # -- the rollout -----------------------------------------------------------------------------------------------------

    def reset(self, seed: int | None = None) -> list[dict[str, Any]]:
        """Begin a trajectory with every member, and return the cache of each.

        Args:
            seed: group i begins with ``seed + i``. Without one, training goes on from ``seed.train`` of the config, with
                new seeds each time, and validation begins with ``seed.val``, or 123.
        """
        seeds = self._crew.seeds_from(self._chosen_seed(seed))
        shown = self._worlds.begin(self._crew.beginnings(seeds))
        for one, own_seed in zip(self.envs, seeds, strict=True):
            one.begin(own_seed, shown[one.env_id])
            self._log_failure(one, shown[one.env_id])
        self._has_begun = True
        return self._caches()

    def _chosen_seed(self, seed: int | None) -> int:
        if seed is not None:
            check_seed("seed", seed)
            if self.mode == "train" and self.base_seed is not None:
                self.seed_counter = seed - self.base_seed + 1
            return seed
        if self.mode != "train":
            return VAL_SEED if self.base_seed is None else self.base_seed
        if self.base_seed is None:
            return random.randint(0, LARGEST_DRAWN_SEED)  # noqa: S311  # a caller who seeds `random` repeats the run
        chosen = self.base_seed + self.seed_counter
        self.seed_counter += self.env_groups
        return chosen

    def step(self, all_env_inputs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Let members take a turn each, and return the caches of those that go on, in this order.

        Args:
            all_env_inputs: for each of them a dictionary with ``env_id``, ``actions`` (names), ``llm_response`` and
                ``llm_raw_response``. Members that have failed may be among them, and are left out.
        """
        self._check_begun("step")
        turns = [one.turn_of(given) for one, given in self._asked(all_env_inputs)]
        shown = self._worlds.act({turn.env_id: turn.actions for turn in turns if turn.actions})
        for turn in turns:
            one, its = self.envs[turn.env_id], shown.get(turn.env_id)
            one.note(turn, its)
            if its is not None and its.status.is_failure:
                self._log_failure(one, its)
        return [self.envs[turn.env_id].cache for turn in turns if not self.envs[turn.env_id].has_ended]

    def _step_parallel(self, all_env_inputs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Step in worker processes. Worlds that are elsewhere move there."""
        self.use_multiprocessing = True
        return self.step(all_env_inputs)

    def _step_sequential(self, all_env_inputs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Step in this process, one world after the other. Worlds that are elsewhere move here."""
        self.use_multiprocessing = False
        return self.step(all_env_inputs)

    def _asked(self, inputs: Sequence[Mapping[str, Any]]) -> list[tuple[Trajectory, Mapping[str, Any]]]:
        """Whom these inputs are for. Nothing has been done when one of them is refused."""
        asked: dict[int, tuple[Trajectory, Mapping[str, Any]]] = {}
        for given in inputs:
            if not isinstance(given, Mapping) or "env_id" not in given or "actions" not in given:
                raise InvalidAction(f"an input is a dictionary with at least env_id and actions, got {given!r:.200}")
            env_id = given["env_id"]
            if isinstance(env_id, bool) or not isinstance(env_id, int) or not 0 <= env_id < len(self.envs):
                raise InvalidAction(f"env_id must be a number from 0 to {len(self.envs) - 1}, got {env_id!r}")
            one = self.envs[env_id]
            if env_id in asked:
                raise InvalidAction(f"there are two inputs for environment {env_id}")
            if one.status.status.is_failure:
                continue
            if one.has_ended:
                raise ResetNeeded(
                    f"the trajectory of environment {env_id} has ended: answer only what step() returned, or call reset()"
                )
            asked[env_id] = one, given
        return list(asked.values())

    def get_rollout_states(self) -> list[dict[str, Any]]:
        """The caches of all members, with ``metrics``."""
        self._check_begun("get_rollout_states")
        self._metrics.add(self.envs, self.group_size)
        return self._caches()

    def _caches(self) -> list[dict[str, Any]]:
        return [one.cache for one in self.envs]

    def render(self) -> list[Any]:
        """What every world renders now; ``None`` for one that could not be made."""
        self._check_begun("render")
        return self._worlds.render()

    def close(self) -> None:
        """Close all worlds."""
        self._worlds.close()

    def __enter__(self) -> EnvStateManager:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- where worlds are ------------------------------------------------------------------------------------------------

    @property
    def use_multiprocessing(self) -> bool:
        """Whether worlds run in worker processes. When it is changed, they move, and go on where they are."""
        return self._worlds.is_parallel

    @use_multiprocessing.setter
    def use_multiprocessing(self, value: bool) -> None:
        check_flag("use_multiprocessing", value)
        self._worlds.is_parallel = value

    @property
    def stats(self) -> Stats:
        """How many workers were replaced, and what that cost."""
        return self._worlds.open().stats

    @property
    def plan(self) -> Plan:
        """Where worlds run, and why."""
        return self._worlds.open().plan

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """The worker processes."""
        return self._worlds.worker_pids

    def _check_begun(self, name: str) -> None:
        if not self._has_begun:
            raise ResetNeeded(f"call reset() before {name}()")

    def _log_failure(self, one: Trajectory, shown: Shown) -> None:
        if not shown.status.is_failure:
            return
        key = one.tag.name, shown.error.strip().rpartition("\n")[2]
        if key not in self._logged:
            self._logged.add(key)
            logger.error(
                "environment %d (%s, group %d): %s\n%s",
                *(one.env_id, one.tag.name, one.group_id, shown.status.value, shown.error.rstrip()),
            )

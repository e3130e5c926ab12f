"""The loop of a rollout: worlds act, a policy answers, and a trajectory goes on when it can.

::

    worlds ── arrived ──▶ Player.see ── ask ──▶ policy.submit
      ▲                                              │
      └── act ◀── Player.hear ◀────────── policy.ready

First-ready and lockstep are the same loop. In lockstep everybody waits for everybody: all worlds are back before a policy is
asked, and all answers are there before a world acts. What a trajectory is depends on its key alone, so both give the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from shoal.llm.ledger import Tokens
from shoal.llm.player import Player
from shoal.llm.policies.policy import Policy, PolicyError
from shoal.llm.policies.requests import Generation, Key, Request
from shoal.llm.records import TrajectoryRecord
from shoal.llm.rollout_settings import RolloutSettings
from shoal.llm.stage import Stage

NAP_SECONDS = 0.005
"""How long worlds are waited for while a server may answer at any time."""
GATHER_SECONDS = 0.05
"""How long others are waited for so that they come into the same batch of a local model."""


@dataclass
class Waste:
    """What was played and is not part of the result."""

    groups: int = 0
    """That were of no use: all members had the same return."""
    trajectories: int = 0
    """In these groups, and those that failed and were begun again."""
    turns: int = 0
    tokens: int = 0
    """That were said in them."""

    def add(self, record: TrajectoryRecord) -> None:
        """Count one."""
        self.trajectories += 1
        self.turns += len(record.turns)
        self.tokens += sum(len(turn.completion_ids or ()) for turn in record.turns)


@dataclass
class Watcher:
    """Who wants to know what happens meanwhile."""

    on_turn: Callable[[TrajectoryRecord], None] | None = None
    on_end: Callable[[TrajectoryRecord], None] | None = None
    """Also for those that will not be part of the result."""


@dataclass
class Asked:
    """A request under way."""

    request: Request
    player: Player
    end: float = field(default=float("inf"))
    """When it is given up."""


class Rollout:
    """Plays groups to their end."""

    def __init__(
        self,
        stage: Stage,
        policy: Policy,
        settings: RolloutSettings,
        tokens: Tokens | None,
        watcher: Watcher | None = None,
    ) -> None:
        self._stage, self._policy, self._settings, self._tokens = stage, policy, settings, tokens
        self._watcher = watcher or Watcher()
        self._is_lockstep = settings.mode == "lockstep"
        self._players: dict[int, Player] = {}
        """Who is in the middle of a trajectory, by row."""
        self._to_ask: list[Player] = []
        self._asked: dict[tuple[Key, int], Asked] = {}
        self._done: dict[int, dict[int, TrajectoryRecord]] = {}
        """By group and member: those of the present round that are over."""
        self._rounds: dict[int, int] = {}
        self._seeds: dict[int, int] = {}
        self._results: dict[int, list[TrajectoryRecord]] = {}
        self.waste = Waste()
        self.rounds = 0
        """The most rounds that a group took."""

    def run(self, seeds: Mapping[int, int], *, filters: bool, stride: int) -> list[TrajectoryRecord]:
        """Play these groups, with these seeds; returns their trajectories in order.

        Args:
            seeds: of each group.
            filters: whether a group of which nothing can be learned is played again with another task.
            stride: how far that task's seed is from the last one's.
        """
        with self._stage.played_on():
            try:
                for group, seed in seeds.items():
                    self._begin_group(group, seed, 0)
                while self._players:
                    self._take_worlds()
                    self._ask()
                    self._take_answers()
                    self._close_groups(filters=filters, stride=stride)
            finally:
                self._policy.forget([one.request for one in self._asked.values()])
                for player in self._players.values():
                    self._policy.end(player.key)
        return [record for group in sorted(self._results) for record in self._results[group]]

    def _begin_group(self, group: int, seed: int, round_: int) -> None:
        self._rounds[group], self._seeds[group], self._done[group] = round_, seed, {}
        self.rounds = max(self.rounds, round_ + 1)
        first = group * self._stage.group_size
        self._begin(dict.fromkeys(range(first, first + self._stage.group_size), 0), seed, round_)

    def _begin(self, attempts: Mapping[int, int], seed: int, round_: int) -> None:
        for row, attempt in attempts.items():
            self._players[row] = Player(self._stage, self._settings, self._tokens, row, seed, round_, attempt)
        self._stage.begin({row: self._players[row].order for row in attempts})

    # -- one turn of the loop --------------------------------------------------------------------------------------------

    def _take_worlds(self) -> None:
        stage = self._stage
        while stage.is_under_way:
            waits_too = bool(self._asked or self._to_ask)
            timeout = None if self._is_lockstep or not waits_too else NAP_SECONDS
            back = stage.arrived(timeout, everybody=self._is_lockstep)
            if self._policy.answers_together and not self._is_lockstep:
                back |= stage.arrived(GATHER_SECONDS, everybody=True)
            for row, shown in back.items():
                player = self._players[row]
                player.see(shown)
                self._go_on(player)
            if not self._is_lockstep:
                break

    def _ask(self) -> None:
        players, self._to_ask = self._to_ask, []
        requests = []
        limit = self._settings.turn_timeout
        end = float("inf") if limit is None else time.monotonic() + limit
        for player in players:
            request = player.ask()
            if request is None:
                self._finish(player)
                continue
            requests.append(request)
            self._asked[request.key, request.turn] = Asked(request, player, end)
        if requests:
            self._policy.submit(requests)

    def _take_answers(self) -> None:
        acts: dict[int, list[object]] = {}
        while self._asked:
            is_idle = self._is_lockstep or not (self._stage.is_under_way or self._to_ask)
            timeout = self._time_left() if is_idle else 0.0
            answered = self._policy.ready(timeout)
            if not answered and timeout is None:
                raise PolicyError(f"the policy has not answered {[one.request for one in self._asked.values()]!s:.500}")
            for request, generation in answered:
                if (asked := self._asked.pop((request.key, request.turn), None)) is not None:
                    acts |= self._hear(asked.player, generation)
            for asked in self._overdue():
                self._policy.forget([asked.request])
                said = f"no answer in {self._settings.turn_timeout:g} seconds"
                self._hear(asked.player, Generation("", finish="timeout", error=said))
            if not self._is_lockstep:
                break
        self._stage.act(acts)

    def _hear(self, player: Player, generation: Generation) -> dict[int, list[object]]:
        actions = player.hear(generation)
        if self._watcher.on_turn is not None and player.record.turns:
            self._watcher.on_turn(player.record)
        if actions:
            return {player.row: actions}
        self._go_on(player)
        return {}

    def _time_left(self) -> float | None:
        end = min(asked.end for asked in self._asked.values()) if self._settings.turn_timeout is not None else None
        return None if end is None else max(0.0, end - time.monotonic())

    def _overdue(self) -> list[Asked]:
        if self._settings.turn_timeout is None:
            return []
        now = time.monotonic()
        late = [key for key, asked in self._asked.items() if asked.end <= now]
        return [self._asked.pop(key) for key in late]

    def _go_on(self, player: Player) -> None:
        if player.has_ended:
            self._finish(player)
        else:
            self._to_ask.append(player)

    # -- ends ------------------------------------------------------------------------------------------------------------

    def _finish(self, player: Player) -> None:
        record = player.record
        del self._players[player.row]
        self._policy.end(player.key)
        if self._watcher.on_end is not None:
            self._watcher.on_end(record)
        settings = self._settings
        if record.has_failed and settings.on_failure == "replace" and record.attempt + 1 < settings.max_attempts:
            self.waste.add(record)
            self._begin({player.row: record.attempt + 1}, self._seeds[record.group], record.round)
            return
        self._done[record.group][record.member] = record

    def _close_groups(self, *, filters: bool, stride: int) -> None:
        size = self._stage.group_size
        for group in [group for group, done in self._done.items() if len(done) == size]:
            records = [self._done[group][member] for member in range(size)]
            del self._done[group]
            again = self._rounds[group] + 1
            if filters and not is_informative(records) and again < self._settings.max_num_gen_batches:
                self.waste.groups += 1
                for record in records:
                    self.waste.add(record)
                self._begin_group(group, self._seeds[group] + stride, again)
            else:
                self._results[group] = records


def is_informative(records: list[TrajectoryRecord]) -> bool:
    """Whether members that have not failed had different returns, so that something can be learned from comparing them."""
    returns = [record.episode_return for record in records if not record.has_failed]
    return len(returns) > 1 and not np.allclose(returns, returns[0])

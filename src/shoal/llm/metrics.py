"""What a batch of trajectories comes to, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shoal.llm.trajectories import Trajectory
from shoal.vector.caller import warn_caller

SUMMED = {"webshop": frozenset({"success_purchase", "success_find"})}
"""What infos of a type of world tell that is added up over a trajectory, and not divided by its turns."""
LISTS = frozenset({"available_actions"})
"""What infos tell that is never a number."""


class Metrics:
    """Adds metrics to trajectories. What worlds tell that is no number is left out, with one warning for each name."""

    def __init__(self) -> None:
        self._left_out: set[str] = set()

    def add(self, trajectories: Sequence[Trajectory], group_size: int) -> None:
        """Put ``metrics`` into each cache, and into its last entry their values turn by turn.

        A trajectory that failed has none: it says nothing about the player.
        """
        judged = [one for one in trajectories if not one.status.status.is_failure]
        for one in trajectories:
            one.cache["metrics"] = {}
        for one in judged:
            self._add(one)
        succeeded = {(one.tag.name, one.group_id) for one in judged if _is_success(one)}
        for one in judged:
            passed = (one.tag.name, one.group_id) in succeeded
            one.cache["metrics"][f"{one.tag.name}/pass@{group_size}"] = float(passed)

    def _add(self, one: Trajectory) -> None:
        tag, history = one.tag.name, one.cache["history"]
        turns = self._by_turn(tag, history)
        metrics = {"success": float(_is_success(one)), "num_actions": one.status.num_actions}
        summed = SUMMED.get(one.tag.env_type, frozenset())
        metrics |= {
            name: sum(values) / (1 if name in summed else len(history) - 1)
            for name, values in turns.items()
            if name != "success"
        }
        one.cache["metrics"] = {f"{tag}/{name}": value for name, value in metrics.items()}
        history[-1]["metrics"] = turns

    def _by_turn(self, tag: str, history: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
        turns: dict[str, list[float]] = {}
        for entry in history:
            for name, value in entry.get("info", {}).items():
                if isinstance(value, bool | int | float | np.number | np.bool_):
                    turns.setdefault(name, []).append(float(value))
                elif name in LISTS:
                    continue
                elif (full := f"{tag}/{name}") not in self._left_out:
                    self._left_out.add(full)
                    warn_caller(f"{full} is no number ({value!r:.60}), so there is no metric of it")
        return turns


def _is_success(one: Trajectory) -> bool:
    return one.status.terminated and not one.status.truncated

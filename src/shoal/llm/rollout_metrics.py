"""What a rollout comes to, for each kind of world."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from shoal.llm.records import TrajectoryRecord


def rollout_metrics(records: Sequence[TrajectoryRecord], group_size: int) -> dict[str, dict[str, Any]]:
    """By tag: what was reached, how well actions were written, how long it took, and how trajectories ended.

    Trajectories that failed count in ``status`` and ``trajectories`` only.
    """
    tags = dict.fromkeys(record.tag for record in records)
    return {tag: _of([record for record in records if record.tag == tag], group_size) for tag in tags}


def _of(records: list[TrajectoryRecord], group_size: int) -> dict[str, Any]:
    judged = [record for record in records if not record.has_failed]
    turns = [turn for record in judged for turn in record.turns]
    infos = [turn.info for turn in turns if turn.actions]
    said = [len(turn.completion_ids) for turn in turns if turn.completion_ids is not None]
    return {
        "trajectories": len(records),
        "success": _mean([record.success for record in judged]),
        f"pass@{group_size}": _passed(judged),
        "return": _mean([record.episode_return for record in judged]),
        "valid_actions": _mean([turn.is_valid for turn in turns]),
        "effective_actions": _mean(
            [bool(info["action_is_effective"]) for info in infos if "action_is_effective" in info]
        ),
        "turns": _mean([len(record.turns) for record in judged]),
        "response_tokens": _mean(said),
        "response_characters": _mean([len(turn.completion) for turn in turns]),
        "status": dict(Counter(record.status.value for record in records)),
    }


def _passed(records: Sequence[TrajectoryRecord]) -> float | None:
    """In how many groups at least one member succeeded."""
    groups: dict[tuple[int, int], bool] = {}
    for record in records:
        key = record.round, record.group
        groups[key] = groups.get(key, False) or record.success
    return _mean(list(groups.values()))


def _mean(values: Sequence[Any]) -> float | None:
    return float(np.mean(values)) if len(values) else None

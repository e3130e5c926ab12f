"""Trajectories as arrays: one row for each sequence of tokens that a model has read and said."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shoal.llm.ledger import Segment
from shoal.llm.records import TrajectoryRecord

Array = np.ndarray[Any, Any]


@dataclass
class RolloutBatch:
    """The result of a rollout, in the shape that trainers know: ``batch``, ``non_tensor_batch`` and ``meta_info``.

    A trajectory that failed has rows, too, so that groups stay complete, but a mask of zeros, and its return is not a number.
    """

    batch: dict[str, Array]
    """Arrays of tokens, (row, place), where there is a tokenizer: ``input_ids``, ``attention_mask``, ``position_ids``,
    ``response_mask`` (1 for what is to be trained on), ``logprobs`` (not a number where unknown), and ``token_rewards``, in
    which the reward of a turn is on its last token."""
    non_tensor_batch: dict[str, Array]
    """One entry for each row."""
    meta_info: dict[str, Any]
    records: list[TrajectoryRecord] = field(default_factory=list)

    def __len__(self) -> int:
        return len(next(iter(self.non_tensor_batch.values()), ()))


def batch_of(records: Sequence[TrajectoryRecord], meta_info: dict[str, Any], pad_id: int = 0) -> RolloutBatch:
    """All rows of these trajectories, padded on the right."""
    rows = [(record, segment) for record in records for segment in _segments(record)]
    baselines = group_baselines(records)
    return RolloutBatch(
        _arrays([(segment, record.has_failed) for record, segment in rows if segment is not None], pad_id),
        {
            "uid": _objects(_uid(record) for record, _ in rows),
            "traj_uid": _objects(f"{_uid(record)}/{record.member}" for record, _ in rows),
            "env_type": _objects(record.env_type for record, _ in rows),
            "seed": np.array([record.seed for record, _ in rows]),
            "status": _objects(record.status.value for record, _ in rows),
            "is_valid": np.array([not record.has_failed for record, _ in rows], bool),
            "success": np.array([np.nan if record.has_failed else record.success for record, _ in rows], float),
            "episode_rewards": np.array([_return(record) for record, _ in rows], float),
            "episode_lengths": np.array([len(record.turns) for record, _ in rows], np.int64),
            "group_baselines": np.array([baselines.get(_uid(record), np.nan) for record, _ in rows], float),
            "turn_rewards": _objects([turn.reward - turn.penalty for turn in record.turns] for record, _ in rows),
        },
        meta_info,
        list(records),
    )


def group_baselines(records: Sequence[TrajectoryRecord]) -> dict[str, float]:
    """The mean return of each group's members that have not failed."""
    returns: dict[str, list[float]] = {}
    for record in records:
        if not record.has_failed:
            returns.setdefault(_uid(record), []).append(record.episode_return)
    return {uid: float(np.mean(values)) for uid, values in returns.items()}


def _uid(record: TrajectoryRecord) -> str:
    return f"{record.task}/{record.round}/{record.group}"


def _return(record: TrajectoryRecord) -> float:
    return np.nan if record.has_failed else record.episode_return


def _segments(record: TrajectoryRecord) -> list[Segment] | list[None]:
    """One row at least, so that nobody is lost."""
    return record.segments() or [None]


def _objects(values: Any) -> Array:
    listed = list(values)
    array = np.empty(len(listed), object)
    array[:] = listed
    return array


def _arrays(segments: list[tuple[Segment, bool]], pad_id: int) -> dict[str, Array]:
    if not segments:
        return {}
    shape = len(segments), max(len(segment.ids) for segment, _ in segments)
    ids, mask, said = (np.full(shape, value, np.int64) for value in (pad_id, 0, 0))
    logprobs, rewards = np.full(shape, np.nan, np.float32), np.zeros(shape, np.float32)
    for row, (segment, has_failed) in enumerate(segments):
        length = len(segment.ids)
        ids[row, :length], mask[row, :length] = segment.ids, 1
        logprobs[row, :length] = [np.nan if one is None else one for one in segment.logprobs]
        if not has_failed:
            said[row, :length] = segment.mask
            for span in segment.spans:
                if span.end > span.begin:
                    rewards[row, span.end - 1] = span.reward
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "position_ids": np.maximum(mask.cumsum(axis=1) - 1, 0),
        "response_mask": said,
        "logprobs": logprobs,
        "token_rewards": rewards,
    }


def drift_of(records: Sequence[TrajectoryRecord]) -> dict[str, int]:
    """How often tokens of conversations stayed what they were, in all of these."""
    total: dict[str, int] = {}
    for record in records:
        for name, count in record.drift.items():
            total[name] = total.get(name, 0) + count
    return total


def as_dict(value: Any) -> dict[str, Any]:
    """A dataclass of numbers, by name."""
    return dataclasses.asdict(value)

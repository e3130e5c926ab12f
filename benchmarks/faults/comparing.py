"""Is a rollout the one that would have been without the fault? Held against it step by step, so that nothing need be kept.

Each environment is held against its own steps: one that was left out of a step, and not given its action, is a step
behind and not wrong.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.faults.rigs.base import Given


@dataclass(frozen=True)
class Reference:
    """What a library gave when nothing went wrong: the reset, then every step."""

    results: list[Given]

    def save(self, path: Path) -> None:
        path.write_bytes(pickle.dumps(self.results))

    @classmethod
    def load(cls, path: Path) -> Reference:
        return cls(pickle.loads(path.read_bytes()))


class Comparison:
    """Collects what is different, as plain data."""

    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        self.differences: dict[str, dict[str, Any]] = {}
        """By field: in which step it first differed, in which environments it ever did, and how often."""
        self.counts = np.zeros(len(reference.results[0].env_ids), dtype=np.int64)
        """How many results of each environment have been seen."""

    def see(self, given: Given) -> None:
        """Compare the next result, which is first a reset and then steps."""
        first = self._reference.results[0]
        step = int(self.counts.max())
        missing = [env_id for env_id in first.env_ids if env_id not in given.env_ids]
        if missing:
            self._note("missing", step, missing)
        for name, values in given.fields.items():
            shape = self._reference.results[step].fields[name].shape
            if values.shape != (len(given.env_ids), *shape[1:]) or values.dtype == object:
                self._note(name, step, given.env_ids, f"shape {values.shape} instead of {shape}")
                continue
            for env_id, value in zip(given.env_ids, values, strict=True):
                if not _is_same(value, self._reference.results[self.counts[env_id]].fields[name][env_id]):
                    self._note(name, step, [env_id])
        self.counts[given.env_ids] += 1

    def _note(self, name: str, step: int, env_ids: list[int], remark: str = "") -> None:
        found = self.differences.setdefault(name, {"step": step, "env_ids": [], "remark": remark, "times": 0})
        found["times"] += 1
        found["env_ids"] = sorted({*found["env_ids"], *env_ids})


def _is_same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return bool(np.array_equal(np.asarray(one), np.asarray(other)))

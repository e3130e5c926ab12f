"""The contestants are those of the throughput benchmark; of their environments all but the first count.

The first one may be the straggler. An even environment more or less does not matter, because all rigs leave out the same.
"""

from __future__ import annotations

from benchmarks.throughput.rigs.base import HalvesRig, Rig
from benchmarks.throughput.rigs.catalogue import build
from benchmarks.throughput.workload import Workload


class OthersRig(Rig):
    """Measures another rig, and leaves out the first environment."""

    def __init__(self, factory: str, *arguments: str) -> None:
        self._rig = build(factory, arguments)
        if isinstance(self._rig, HalvesRig):
            self._rig.counted = slice(1, None)

    def start(self, workload: Workload) -> None:
        # In lockstep all take equally many steps; where they do not, they have been counted.
        counted = workload.num_envs - 1
        self._share = 1.0 if isinstance(self._rig, HalvesRig) else counted / workload.num_envs
        self._rig.start(workload)

    def measure(self, rounds: int) -> float:
        return self._share * self._rig.measure(rounds)

    def close(self) -> None:
        self._rig.close()

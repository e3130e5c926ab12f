"""Who is started: rigs of the throughput benchmark, and some that differ from these only in how processes are started."""

from __future__ import annotations

import dataclasses

from benchmarks.throughput.rigs.catalogue import CONTESTANTS, RigSpec

_BY_NAME = {rig.name: rig for rig in CONTESTANTS}


def _variant(name: str, start_method: str) -> RigSpec:
    rig = _BY_NAME[name]
    return dataclasses.replace(rig, name=f"{name}-{start_method}", arguments=(*rig.arguments, start_method))


# Forking copies a process that has imported everything; a server starts workers from a clean one, which is safer.
STARTERS: tuple[RigSpec, ...] = (
    *(_BY_NAME[name] for name in ("shoal-auto", "shoal-serial", "shoal-pipes", "shoal-shm")),
    _variant("shoal-shm", "fork"),
    _BY_NAME["gymnasium-async"],
    _variant("gymnasium-async", "forkserver"),
    *(_BY_NAME[name] for name in ("sb3-subproc", "tianshou-shmem", "torchrl-parallel", "pufferlib-multiprocessing")),
)


def starters(names: tuple[str, ...]) -> tuple[RigSpec, ...]:
    """These, in the order of the names."""
    by_name = {rig.name: rig for rig in STARTERS}
    return tuple(by_name[name] for name in names if name in by_name)

"""Who takes part: every rig is data, readable before anything is installed."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack, cast

if TYPE_CHECKING:
    from benchmarks.throughput.rigs.base import Rig

Role = Literal["reference", "shoal", "peer"]
Family = Literal["loop", "threads", "processes", "process-each", "compiled", "auto"]
"""One environment after the other in the caller's process; in its threads; in as many processes as there are cores; in a
process for each; written for many at once, so that only some environments can be had; or whichever is found to be fastest."""
Activity = Literal["computing", "waiting"]
Way = Literal["lockstep", "halves"]
"""Whether every environment is stepped once per round, or half of them at a time while the others work."""

_PACKAGE = "benchmarks.throughput.rigs"


@dataclass(frozen=True)
class RigSpec:
    """A contestant: which library, how it is set up, and how it must be treated."""

    name: str
    library: str
    """As the tables and the picture call it."""
    distribution: str
    """As pip calls it."""
    factory: str
    """``module:Class``, the module by its full name or inside this package."""
    arguments: tuple[str, ...]
    family: Family
    role: Role = "peer"
    way: Way = "lockstep"
    quick: bool = False
    """Whether ``--quick`` measures it."""
    on_request: bool = False
    """Whether it takes part only when named: its library recommends another of its ways instead."""
    made_for: Activity | None = None
    """If given, it takes part only where steps do this."""

    def build(self) -> Rig:
        return build(self.factory, self.arguments)


def build(factory: str, arguments: Sequence[str]) -> Rig:
    """Import the library and make the rig; raises whatever the import raises."""
    module, _, name = factory.partition(":")
    full_name = module if "." in module else f"{_PACKAGE}.{module}"
    return cast("Rig", getattr(importlib.import_module(full_name), name)(*arguments))


class _Traits(TypedDict, total=False):
    """What of a rig differs from the ordinary."""

    way: Way
    quick: bool
    on_request: bool
    made_for: Activity


@dataclass(frozen=True)
class _Library:
    """What its rigs have in common, so that each of them is one line."""

    prefix: str
    name: str
    distribution: str
    module: str
    role: Role = "peer"

    def rig(self, kind: str, factory: str, family: Family, *arguments: str, **traits: Unpack[_Traits]) -> RigSpec:
        name = "-".join(part for part in (self.prefix, kind) if part)
        full_factory = f"{self.module}:{factory}"
        return RigSpec(name, self.name, self.distribution, full_factory, arguments, family, self.role, **traits)


_NONE = _Library("", "no library", "gymnasium", "reference_rigs", "reference")
_BARE = _Library("bare", "no library", "gymnasium", "bare_rigs", "reference")
_SHOAL = _Library("shoal", "Shoal", "shoal", "shoal_rigs", "shoal")
_GYMNASIUM = _Library("gymnasium", "Gymnasium", "gymnasium", "gymnasium_rigs")
_SB3 = _Library("sb3", "Stable-Baselines3", "stable-baselines3", "stable_baselines3_rigs")
_TIANSHOU = _Library("tianshou", "Tianshou", "tianshou", "tianshou_rigs")
_TORCHRL = _Library("torchrl", "TorchRL", "torchrl", "torchrl_rigs")
_PUFFERLIB = _Library("pufferlib", "PufferLib", "pufferlib", "pufferlib_rigs")
_ENVPOOL = _Library("envpool", "EnvPool", "envpool", "envpool_rigs")

IDEAL = _NONE.rig("ideal", "IdealRig", "processes")
DEFAULT = _SHOAL.rig("auto", "ShoalAutoRig", "auto", quick=True)
"""What Shoal is judged by: what a user gets who chooses nothing."""

CONTESTANTS: tuple[RigSpec, ...] = (
    _NONE.rig("plain-loop", "PlainLoopRig", "loop", quick=True),
    _BARE.rig("lockstep", "BareLockstepRig", "processes", on_request=True, made_for="computing"),
    _BARE.rig("halves", "BareHalvesRig", "processes", on_request=True, made_for="computing", way="halves"),
    _BARE.rig("threads", "BareLockstepRig", "processes", "threads", on_request=True, made_for="waiting"),
    DEFAULT,
    _SHOAL.rig("serial", "ShoalRig", "loop", "serial"),
    _SHOAL.rig("threads", "ShoalRig", "threads", "threads", made_for="waiting"),
    _SHOAL.rig("pipes", "ShoalRig", "processes", "pipes", on_request=True),
    _SHOAL.rig("shm", "ShoalRig", "processes", "shm"),
    _SHOAL.rig("first-ready", "ShoalFirstReadyRig", "processes", way="halves"),
    _SHOAL.rig("double-buffered", "ShoalSplitRig", "processes", way="halves"),
    _GYMNASIUM.rig("sync", "GymnasiumRig", "loop", "sync", quick=True),
    _GYMNASIUM.rig("async", "GymnasiumRig", "process-each", "async", quick=True),
    _GYMNASIUM.rig("async-capped", "GymnasiumRig", "process-each", "async-capped", made_for="computing"),
    _GYMNASIUM.rig("vectorized", "GymnasiumRig", "compiled", "vectorized"),
    _SB3.rig("dummy", "StableBaselines3Rig", "loop", "dummy"),
    _SB3.rig("subproc", "StableBaselines3Rig", "process-each", "subproc", quick=True),
    _TIANSHOU.rig("dummy", "TianshouRig", "loop", "dummy"),
    _TIANSHOU.rig("subproc", "TianshouRig", "process-each", "subproc", on_request=True),
    _TIANSHOU.rig("shmem", "TianshouRig", "process-each", "shmem", quick=True),
    _TIANSHOU.rig("wait-num", "TianshouWaitNumRig", "process-each", way="halves"),
    _TORCHRL.rig("serial", "TorchRLRig", "loop", "serial"),
    _TORCHRL.rig("parallel", "TorchRLRig", "process-each", "parallel", quick=True),
    _TORCHRL.rig("pool", "TorchRLRig", "process-each", "pool", made_for="waiting"),
    _TORCHRL.rig("pool-threads", "TorchRLRig", "threads", "pool-threads", made_for="waiting"),
    _TORCHRL.rig("pool-halves", "TorchRLPoolHalvesRig", "process-each", "multiprocessing", way="halves"),
    _PUFFERLIB.rig("serial", "PufferLibRig", "loop", "serial", quick=True),
    _PUFFERLIB.rig("multiprocessing", "PufferLibRig", "processes", "multiprocessing", quick=True),
    _PUFFERLIB.rig("halves", "PufferLibHalvesRig", "processes", way="halves"),
    _ENVPOOL.rig("", "EnvPoolRig", "compiled", quick=True),
)

BUSY_RIGS = ("shoal-auto", "shoal-shm", "gymnasium-sync", "gymnasium-async", "sb3-dummy", "sb3-subproc")
"""Who is measured beside busy processes unless rigs are named."""

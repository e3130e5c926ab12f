"""Who takes part: every rig is data, readable before anything is installed."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from benchmarks.throughput.cells import Cell, Family

if TYPE_CHECKING:
    from benchmarks.throughput.rigs.base import Rig

Role = Literal["reference", "shoal", "peer"]

_PACKAGE = "benchmarks.throughput.rigs"
_MANY_PROCESSES = 64


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
    process_per_env: bool = False

    def build(self) -> Rig:
        """Import the library and make the rig; raises whatever the import raises."""
        module, _, name = self.factory.partition(":")
        full_name = module if "." in module else f"{_PACKAGE}.{module}"
        factory = getattr(importlib.import_module(full_name), name)
        return cast("Rig", factory(*self.arguments))

    def stays_started(self, cell: Cell) -> bool:
        """Whether it may live through the whole cell; a crowd of processes lives only for its turn."""
        return not (self.process_per_env and cell.num_envs > _MANY_PROCESSES)

    def reason_to_sit_out(self, cell: Cell) -> str | None:
        if self.process_per_env and cell.num_envs > cell.max_processes:
            return "one process per environment"
        return None


def _reference(name: str, factory: str, family: Family) -> RigSpec:
    return RigSpec(name, "no library", "gymnasium", factory, (), family, role="reference")


def _library(
    prefix: str,
    library: str,
    distribution: str,
    factory: str,
    *,
    in_process: tuple[str, ...],
    parallel: tuple[str, ...],
    role: Role = "peer",
    process_per_env: bool = True,
) -> tuple[RigSpec, ...]:
    """The rigs of one library; what is said of processes holds for its parallel ones."""
    shared = (library, distribution, factory)
    return (
        *(RigSpec(f"{prefix}-{kind}", *shared, (kind,), "in-process", role) for kind in in_process),
        *(
            RigSpec(
                f"{prefix}-{kind}",
                *shared,
                (kind,),
                "parallel",
                role,
                process_per_env=process_per_env,
            )
            for kind in parallel
        ),
    )


IDEAL = _reference("ideal", "reference_rigs:IdealRig", "parallel")

CONTESTANTS: tuple[RigSpec, ...] = (
    _reference("plain-loop", "reference_rigs:PlainLoopRig", "in-process"),
    *_library(
        "shoal",
        "Shoal",
        "shoal",
        "shoal_rigs:ShoalRig",
        in_process=("serial", "threads"),
        parallel=("pipes", "shm"),
        role="shoal",
        process_per_env=False,
    ),
    *_library(
        "gymnasium",
        "Gymnasium",
        "gymnasium",
        "gymnasium_rigs:GymnasiumRig",
        in_process=("sync",),
        parallel=("async", "async-capped"),
    ),
    *_library(
        "sb3",
        "Stable-Baselines3",
        "stable-baselines3",
        "stable_baselines3_rigs:StableBaselines3Rig",
        in_process=("dummy",),
        parallel=("subproc",),
    ),
    *_library(
        "tianshou",
        "Tianshou",
        "tianshou",
        "tianshou_rigs:TianshouRig",
        in_process=("dummy",),
        parallel=("subproc", "shmem"),
    ),
    *_library(
        "torchrl",
        "TorchRL",
        "torchrl",
        "torchrl_rigs:TorchRLRig",
        in_process=("serial",),
        parallel=("parallel",),
    ),
    *_library(
        "pufferlib",
        "PufferLib",
        "pufferlib",
        "pufferlib_rigs:PufferLibRig",
        in_process=("serial",),
        parallel=("multiprocessing",),
        process_per_env=False,
    ),
)

"""Who takes part, and how each is set up; readable before anything is installed."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from benchmarks.faults.rigs.base import FaultRig

_PACKAGE = "benchmarks.faults.rigs"


@dataclass(frozen=True)
class Library:
    """A contestant."""

    name: str
    title: str
    """As the tables call it."""
    distribution: str
    """As pip calls it."""
    factory: str
    """``module:Class`` inside the package of rigs."""
    arguments: tuple[str, ...]
    setup: str
    """For the reader of the tables."""
    limit: str
    """How a limit for a step is set, where one is needed."""
    is_variant: bool = False
    """Whether it is another setting of a library that is there already; shown in a table of its own."""

    def build(self) -> FaultRig:
        """Import the library and make the rig; raises whatever the import raises."""
        module, _, name = self.factory.partition(":")
        factory = getattr(importlib.import_module(f"{_PACKAGE}.{module}"), name)
        return cast("FaultRig", factory(*self.arguments))


_NO_LIMIT = "has none"


def _shoal(name: str, title: str, policy: str, setup: str, is_variant: bool) -> Library:
    limit = "`step_timeout=2`"
    if policy != "raise":
        limit += ", and `max_worker_memory` of 200 MB for the leaks"
    return Library(name, title, "shoal", "shoal_rig:ShoalRig", (policy,), setup, limit, is_variant)


LIBRARIES: tuple[Library, ...] = (
    _shoal("shoal", "Shoal", "", '`shoal.make(env_fns, backend="shm", num_workers=2)`', is_variant=False),
    Library(
        "gymnasium",
        "Gymnasium",
        "gymnasium",
        "gymnasium_rig:GymnasiumRig",
        (),
        "`AsyncVectorEnv(env_fns)`",
        "`step_async`, `step_wait(timeout=2)`",
    ),
    Library(
        "sb3",
        "Stable-Baselines3",
        "stable-baselines3",
        "stable_baselines3_rig:StableBaselines3Rig",
        (),
        "`SubprocVecEnv(env_fns)`",
        _NO_LIMIT,
    ),
    Library(
        "tianshou",
        "Tianshou, subproc",
        "tianshou",
        "tianshou_rig:TianshouRig",
        ("SubprocVectorEnv",),
        "`SubprocVectorEnv(env_fns)`; the caller resets finished episodes, as its collector does",
        "`timeout=2`, which makes it hand over whoever is ready",
    ),
    Library(
        "tianshou-shmem",
        "Tianshou, shmem",
        "tianshou",
        "tianshou_rig:TianshouRig",
        ("ShmemVectorEnv",),
        "`ShmemVectorEnv(env_fns)`, otherwise the same",
        "the same",
    ),
    Library(
        "torchrl",
        "TorchRL",
        "torchrl",
        "torchrl_rig:TorchRLRig",
        (),
        "`ParallelEnv(4, make_env)` over `GymWrapper`, `step_and_maybe_reset`",
        "`BATCHED_PIPE_TIMEOUT = 2`, after the start, which it would limit too",
    ),
    Library(
        "pufferlib",
        "PufferLib",
        "pufferlib",
        "pufferlib_rig:PufferLibRig",
        (),
        "`vector.make(..., backend=Multiprocessing, num_workers=2, batch_size=4)` over its emulation of Gymnasium",
        _NO_LIMIT,
    ),
    _shoal("shoal-truncate", 'Shoal, `on_fault="truncate"`', "truncate", "as above", is_variant=True),
    _shoal("shoal-raise", 'Shoal, `on_fault="raise"`', "raise", "as above", is_variant=True),
)


def library_named(name: str) -> Library:
    return next(library for library in LIBRARIES if library.name == name)

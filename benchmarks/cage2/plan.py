"""How often, and how long each time."""

from __future__ import annotations

from dataclasses import dataclass

ALL_SIZES = (1, 20, 200, 1_000, 10_000)
FEW = 256
"""A compiled step of one of many is compared with a step of one of so few."""


@dataclass(frozen=True)
class Plan:
    repeats: int
    """Turns of everybody, in each table."""
    stand_in_seconds: float
    """Of a turn of the stand-in, at least."""
    world_seconds: float
    """Of a turn of the compiled world, about; always whole episodes."""
    patience_seconds: float
    """How long to try for a turn on a steady machine."""
    stand_in_sizes: tuple[int, ...]
    """Beyond the last of them it would only repeat itself."""
    single_sizes: tuple[int, ...]
    """Of the world whose games are stepped one by one."""
    world_sizes: tuple[int, ...]
    many: int
    """What :data:`FEW` is compared with."""
    original_steps: int
    """Of each environment, in the setting of the original."""
    profile_seconds: float
    """So long every run in worker processes is profiled, about."""


FULL = Plan(
    repeats=5,
    stand_in_seconds=0.8,
    world_seconds=0.2,
    patience_seconds=1.0,
    stand_in_sizes=(1, 20, 200),
    single_sizes=(1, 20, 200, 1_000),
    world_sizes=ALL_SIZES,
    many=65_536,
    original_steps=50,
    profile_seconds=1.0,
)
QUICK = Plan(
    repeats=2,
    stand_in_seconds=0.2,
    world_seconds=0.1,
    patience_seconds=0.0,
    stand_in_sizes=(20,),
    single_sizes=(20, 200),
    world_sizes=(20, 200, 1_000),
    many=1_024,
    original_steps=20,
    profile_seconds=0.4,
)

"""What is measured: every cell is one line of data.

A cell is a cost of one environment step, a number of environments and an observation. All cells are
lockstep: every environment is stepped once per round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Family = Literal["in-process", "parallel"]

BOTH_FAMILIES: tuple[Family, ...] = ("in-process", "parallel")
ONLY_IN_PROCESS: tuple[Family, ...] = ("in-process",)


@dataclass(frozen=True)
class Observation:
    """Shape and type of what one environment returns from one step."""

    name: str
    shape: tuple[int, ...]
    dtype: str


VECTOR = Observation("vector", (52,), "float32")
PIXELS = Observation("pixels", (84, 84, 4), "uint8")


@dataclass(frozen=True)
class Cell:
    """One question: this much work per step, this many environments."""

    step_microseconds: int
    """CPU work of one environment step, in microseconds of an idle core."""
    num_envs: int
    observation: Observation = VECTOR
    families: tuple[Family, ...] = BOTH_FAMILIES
    """Which rigs take part: those that stay in one process, those that do not, or both."""
    max_processes: int = 64
    """A rig with one process per environment sits out when it would need more than this."""
    quick: bool = False
    """Whether ``--quick`` measures it."""
    pictured: bool = False
    """Whether the picture shows it."""

    @property
    def name(self) -> str:
        suffix = "" if self.observation is VECTOR else f"-{self.observation.name}"
        return f"{self.step_microseconds}us-x{self.num_envs}{suffix}"

    @property
    def title(self) -> str:
        suffix = "" if self.observation is VECTOR else f", {self.observation.name}"
        return f"{self.step_microseconds} µs x {self.num_envs}{suffix}"


CELLS: tuple[Cell, ...] = (
    Cell(300, 20, quick=True, pictured=True),
    Cell(300, 200, quick=True, pictured=True),
    Cell(50, 20, quick=True, pictured=True),
    Cell(300, 32, PIXELS, quick=True, pictured=True),
    # The one cell that asks what two hundred processes cost.
    Cell(0, 200, max_processes=200, quick=True, pictured=True),
    Cell(0, 2, families=ONLY_IN_PROCESS),
    Cell(0, 8, families=ONLY_IN_PROCESS),
    Cell(0, 32, families=ONLY_IN_PROCESS, pictured=True),
    Cell(0, 100, families=ONLY_IN_PROCESS),
    Cell(0, 1000, families=ONLY_IN_PROCESS),
)

"""What is measured: every cell is one line of data, with what it should not exceed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from benchmarks.throughput.cells import Cell

Way = Literal["lockstep", "first-ready"]

KILL_SECONDS = 0.3
"""What one kill should cost at most."""


@dataclass(frozen=True)
class PricedCell:
    """A cell of the throughput benchmark, stepped together or as environments come back."""

    cell: Cell
    way: Way = "lockstep"
    target: float | None = None
    """The time of a step with a journal should be at most so many times that without."""

    @property
    def name(self) -> str:
        return self.cell.name if self.way == "lockstep" else f"{self.cell.name}-{self.way}"

    @property
    def title(self) -> str:
        return self.cell.title if self.way == "lockstep" else f"{self.cell.title}, {self.way}"


CELLS: tuple[PricedCell, ...] = (
    PricedCell(Cell(50, 20), target=1.03),
    PricedCell(Cell(0, 200), target=1.10),
    PricedCell(Cell(300, 20)),
    PricedCell(Cell(300, 32, "pixels")),
    PricedCell(Cell(50, 20), "first-ready", target=1.03),
)

"""What is measured: every cell is one line of data.

A cell is what a step costs, how many environments there are, and what they return. All of them are lockstep: every
environment is stepped once per round. Where ``halves`` is set, whoever can serve half of the environments while the
other half works is measured as well, and held against its like.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Observation = Literal["vector", "pixels", "dict"]
"""52 floats; 84 x 84 x 4 bytes; a Dict of a small image, a position and a goal."""
Spread = Literal["even", "exponential", "straggler"]
"""How the cost of a step varies: not at all, by exponential draws, or by one environment that is slower than the others."""

SLOWNESS = 10
"""How many times slower the straggler is."""


@dataclass(frozen=True)
class World:
    """A known environment instead of one that only spends time, under the name that each library has for it."""

    name: str
    title: str
    gymnasium_id: str
    envpool_id: str
    num_actions: int
    shoal_id: str | None = None
    """Shoal's own, where it has one; else it runs Gymnasium's."""
    shoal_keywords: tuple[tuple[str, str], ...] = ()


FROZEN_LAKE = World(
    "frozenlake", "FrozenLake", "FrozenLake8x8-v1", "FrozenLake8x8-v1", 4, "shoal/FrozenLake-v0", (("map_name", "8x8"),)
)
CART_POLE = World("cartpole", "CartPole", "CartPole-v1", "CartPole-v1", 2, "shoal/CartPole-v0")


@dataclass(frozen=True)
class Cell:
    """One question: this much to do in a step, this many environments."""

    step_microseconds: int
    """Of computing on an idle core, or of waiting."""
    num_envs: int
    observation: Observation = "vector"
    spread: Spread = "even"
    waits: bool = False
    """Whether a step sleeps, as one that asks a server does, instead of computing."""
    rich_infos: bool = False
    """Whether every step returns an info with a few keys; else infos are empty."""
    world: World | None = None
    """If given, a step costs what it costs there."""
    halves: bool = False
    """Whether those take part, too, who serve half of the environments at a time."""
    max_processes: int = 64
    """A rig with one process per environment sits out when it would need more than this."""
    quick: bool = False
    """Whether ``--quick`` measures it."""
    pictured: bool = False
    """Whether the picture of libraries shows it."""

    @property
    def name(self) -> str:
        if self.world is not None:
            cost = self.world.name
        elif self.waits:
            cost = f"wait-{self.step_microseconds / 1000:g}ms"
        else:
            cost = f"{self.step_microseconds}us"
        return "-".join([cost, f"x{self.num_envs}", *self._peculiarities])

    @property
    def title(self) -> str:
        if self.world is not None:
            cost = self.world.title
        elif self.waits:
            cost = f"waiting {self.step_microseconds / 1000:g} ms"
        else:
            cost = f"{self.step_microseconds} µs"
        return ", ".join([f"{cost} x {self.num_envs}", *self._peculiarities])

    @property
    def kind(self) -> str:
        """Cells that belong together stand together in pictures."""
        if self.world is not None:
            return "worlds"
        if self.waits:
            return "waiting"
        if self.spread != "even":
            return "uneven"
        return "computing" if not self._peculiarities else "data"

    @property
    def _peculiarities(self) -> list[str]:
        infos = ["infos"] if self.rich_infos else []
        return [word for word in (self.observation, self.spread) if word not in ("vector", "even")] + infos


CELLS: tuple[Cell, ...] = (
    # Steps that cost nothing: what does the library itself cost?
    Cell(0, 2),
    Cell(0, 8),
    Cell(0, 32, quick=True, pictured=True),
    Cell(0, 100),
    # The one cell that asks what two hundred processes cost.
    Cell(0, 200, max_processes=200, pictured=True),
    Cell(0, 1000),
    # Steps that compute, from where processes hardly pay to where little else matters.
    Cell(5, 8),
    Cell(5, 64),
    Cell(5, 256),
    Cell(50, 2),
    Cell(50, 20, halves=True, quick=True, pictured=True),
    Cell(50, 64),
    Cell(50, 1000),
    Cell(300, 2),
    Cell(300, 8),
    Cell(300, 20, halves=True, quick=True, pictured=True),
    Cell(300, 64),
    Cell(300, 200, pictured=True),
    Cell(2000, 2),
    Cell(2000, 8, halves=True),
    Cell(2000, 16),
    Cell(2000, 64),
    # More to carry: large observations, nested ones, infos in every step.
    Cell(5, 32, "pixels"),
    Cell(50, 64, "pixels"),
    Cell(300, 32, "pixels", halves=True, pictured=True),
    Cell(5, 32, "dict"),
    Cell(50, 64, "dict", quick=True),
    Cell(300, 20, "dict"),
    Cell(5, 32, rich_infos=True),
    Cell(50, 64, rich_infos=True),
    Cell(300, 20, rich_infos=True),
    # Steps that take unequal time.
    Cell(50, 64, spread="exponential", halves=True),
    Cell(300, 32, spread="exponential", halves=True, quick=True),
    Cell(300, 8, spread="straggler", halves=True),
    Cell(300, 32, spread="straggler", halves=True),
    # Steps that wait for something else.
    Cell(1000, 8, waits=True),
    Cell(5000, 32, waits=True, quick=True),
    Cell(20000, 64, waits=True),
    Cell(5000, 256, waits=True),
    Cell(5000, 32, spread="exponential", waits=True, halves=True),
    # Known environments.
    Cell(0, 256, world=FROZEN_LAKE, quick=True),
    Cell(0, 1000, world=FROZEN_LAKE),
    Cell(0, 64, world=CART_POLE),
)

BUSY_CELLS = ("5us-x64", "50us-x20", "300us-x8", "300us-x20")
"""What is measured beside busy processes unless cells are named."""

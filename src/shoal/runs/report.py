"""What a training run says of itself, after every update: for the display, the metrics file and whoever calls ``train``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol

FULL_MEAN = 100
"""Episodes that a mean return is taken over, once there are so many."""
UNKNOWN = "-"
"""What is shown for a number that is not known."""


@dataclass(frozen=True)
class Goal:
    """What is trained, and until when."""

    env: str
    """The environment's name."""
    n_envs: int
    backend: str
    start_method: str | None
    """How worker processes were started, if there are any."""
    device: str
    total_episodes: int | None
    """Training ends when so many episodes are complete, over all environments."""
    total_steps: int | None
    """Or after so many steps of single environments."""
    folder: str | None
    """Where the run leaves everything, if anywhere."""


class Row(NamedTuple):
    """A line of the panel: what is shown, numbers, and words behind them."""

    label: str
    numbers: Sequence[float | int | None]
    """``None`` for one that is not known."""
    words: str = ""


class Pace:
    """How long it still takes, from the rate since the first update of this process, before which workers start."""

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None

    def seconds_left(self, seconds: float, progress: float) -> float | None:
        """After so many seconds, with a progress from 0 to 1. To be asked after every update."""
        self._first = self._first or (seconds, progress)
        since, made = seconds - self._first[0], progress - self._first[1]
        if progress >= 1.0:
            return 0.0
        return None if made <= 0 else since * (1.0 - progress) / made


@dataclass(frozen=True, kw_only=True)
class Report:
    """How far training is, after an update. Each way of training adds what it knows."""

    curve: ClassVar[str] = "Mean(100)"
    """What the mean return is called where its course is drawn."""
    counted: ClassVar[str] = "Episode"
    """What one of ``episodes`` is called."""
    turn: ClassVar[str] = "Update"
    """What one of ``updates`` is called."""

    updates: int
    steps: int
    """Of single environments, since training began (also before it was resumed)."""
    episodes: int
    """Complete ones, over all environments."""
    mean_return: float | None
    """Of the last 100 episodes, or of as many as there are."""
    steps_per_second: float
    """Of this rollout and update."""
    seconds: float
    """Since training began or was resumed."""
    seconds_left: float | None
    """An estimate, once there is something to estimate from."""
    losses: Mapping[str, float] = field(default_factory=dict)
    """By name, such as ``policy_loss``."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Of the time: ``environments``, ``policy``, ``update``; the rest is ``other``."""
    learning_rate: float = 0.0
    restarts: int = 0
    """Workers that were replaced so far."""
    advice: str = ""
    """What could be done about the time that it takes, in a sentence."""

    def rows(self) -> Sequence[Row]:
        """What else the panel shows."""
        return ()

    def lines(self) -> Sequence[str]:
        """What else is said in a log."""
        return ()

    def metrics(self) -> dict[str, float]:
        """The same under the names that the field knows; what is not known yet is left out."""
        values: dict[str, float | None] = {
            "global_step": self.steps,
            "charts/episodic_return": self.mean_return,
            "charts/episodes": self.episodes,
            "charts/SPS": self.steps_per_second,
            "charts/learning_rate": self.learning_rate,
            "charts/updates": self.updates,
            "charts/restarts": self.restarts,
            **{f"losses/{name}": value for name, value in self.losses.items()},
            **{f"time/{name}": value for name, value in self.shares.items()},
        }
        return {name: float(value) for name, value in values.items() if value is not None}


class Evaluation(Protocol):
    """What a policy is worth. As text, it is a line for whoever looks on."""

    @property
    def mean(self) -> float:
        """The return, by which policies are compared."""

    def metrics(self) -> dict[str, float]:
        """For the metrics file."""

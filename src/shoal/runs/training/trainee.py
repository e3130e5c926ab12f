"""What a way of training must offer, so that a run can be made of it: with a display, checkpoints, resuming and a command."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from shoal.runs.report import Evaluation, Goal, Report
from shoal.runs.settings import Settings
from shoal.vector.errors import ConfigurationError

if TYPE_CHECKING:
    import torch


class Often(NamedTuple):
    """How often something is done around the training, in updates."""

    evaluate: int | None
    save: int
    keep: int
    """How many checkpoints are kept, beside the best."""
    keep_is_called: str = "--keep-checkpoints"


class Saved(NamedTuple):
    """Everything that decides how training goes on."""

    tensors: dict[str, torch.Tensor]
    state: dict[str, Any]
    memory: dict[str, torch.Tensor]
    """What is too large to be saved more than once, on the CPU: the last checkpoint alone keeps it."""


class Trainee(Protocol):
    """Something that learns, an update at a time. Closed when its ``with`` block ends."""

    @property
    def config(self) -> Any:
        """Its :class:`Settings`, with a seed. What is decided only while it trains may change them."""

    @property
    def updates(self) -> int:
        """How often it has learned."""

    @property
    def steps(self) -> int:
        """Of single environments."""

    @property
    def last_report(self) -> Report | None:
        """That of the last update in this process."""

    @property
    def is_done(self) -> bool:
        """Whether the goal has been reached."""

    @property
    def goal(self) -> Goal:
        """What is trained, and until when."""

    @property
    def often(self) -> Often:
        """How often to evaluate and to save."""

    @property
    def flag_for_more(self) -> str:
        """How the command is told to train twice as long."""

    @property
    def is_sound(self) -> bool:
        """Whether all weights are numbers."""

    def train_once(self) -> Report:
        """Collect, learn, and say how far it is."""

    def evaluate(
        self, *, episodes: int | None = None, seed: int | None = None, is_asked_to_stop: Callable[[], bool] = ...
    ) -> Evaluation:
        """What the policy is worth. Training does not depend on it."""

    def save(self, lost: str | None = None) -> Saved:
        """What to save. ``lost`` says why environments are not where they should be, if they are not."""

    def load(self, tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> str | None:
        """Go on from there. Returns a sentence if something could not be brought back."""

    def load_policy(self, tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
        """Only what is needed for an evaluation."""


class Film(NamedTuple):
    """How films are made, where that can be."""

    check: Callable[[Any], None]
    """Says before the training, not after it, what is missing for one."""
    record: Callable[[Any, Path, int | None], Evaluation]
    """Films the first episode of an evaluation of a trainee, which has a seed."""


@dataclass(frozen=True)
class Method:
    """A way of training: in what its command differs from those of others. Nothing of it is loaded before it is needed."""

    name: str
    """In the name of the folder."""
    verb: str
    """The command."""
    settings: type[Settings]
    changeable: tuple[str, ...]
    """What may be another when a run is resumed, because results do not depend on it, or only where they end."""
    needed: tuple[str, ...]
    """Settings without which it is not the same training, whichever version has saved it."""
    resolved: Callable[[Any], Settings]
    """The same settings with everything decided that depends on the machine. Says so if there is no such environment."""
    make: Callable[[Any], AbstractContextManager[Trainee]]
    to_look: Callable[[Any, str], Settings]
    """The same settings, for an evaluation on a device."""
    film: Film | None = None
    left_to_shoal: tuple[tuple[str, Any], ...] = ()
    """Settings and what is said for them by whoever wants what was decided when the run began."""

    def film_of(self, config: Settings, is_asked: bool) -> Film | None:
        """How to film, if that is asked for; says what is missing for it."""
        if not is_asked:
            return None
        if self.film is None:
            raise ConfigurationError(f"--record-video: there are no films of what {self.verb} has trained")
        self.film.check(config)
        return self.film


@dataclass(frozen=True)
class Shown:
    """What is to be seen of a run, and where."""

    display: str = "auto"
    wandb: bool = False
    record_video: bool = False

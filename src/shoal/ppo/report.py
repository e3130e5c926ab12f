"""What a training run says of itself, after every update: for the display, the metrics file and whoever calls ``train``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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


@dataclass(frozen=True)
class Report:
    """How far training is, after an update."""

    updates: int
    steps: int
    """Of single environments, since training began (also before it was resumed)."""
    episodes: int
    """Complete ones, over all environments."""
    n_envs: int
    n_completed_episodes: int
    """Those that were completed in this rollout."""
    last_return: float | None
    """Of the episode that was completed last; ``None`` if there is none."""
    last_length: int | None
    mean_return: float | None
    """Of the last 100 episodes, or of as many as there are."""
    mean_length: float | None
    steps_per_second: float
    """Of this rollout and update."""
    seconds: float
    """Since training began or was resumed."""
    seconds_left: float | None
    """An estimate, once there is something to estimate from."""
    losses: Mapping[str, float] = field(default_factory=dict)
    """``policy_loss``, ``value_loss``, ``entropy``, ``approx_kl``, ``clipfrac``, ``explained_variance``."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Of the time: ``environments``, ``policy``, ``update``; the rest is ``other``."""
    learning_rate: float = 0.0
    restarts: int = 0
    """Workers that were replaced so far."""

    def metrics(self) -> dict[str, float]:
        """The same under the names that the field knows; what is not known yet is left out."""
        values: dict[str, float | None] = {
            "global_step": self.steps,
            "charts/episodic_return": self.mean_return,
            "charts/episodic_length": self.mean_length,
            "charts/episodes": self.episodes,
            "charts/SPS": self.steps_per_second,
            "charts/learning_rate": self.learning_rate,
            "charts/updates": self.updates,
            "charts/restarts": self.restarts,
            **{f"losses/{name}": value for name, value in self.losses.items()},
            **{f"time/{name}": value for name, value in self.shares.items()},
        }
        return {name: float(value) for name, value in values.items() if value is not None}

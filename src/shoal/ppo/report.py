"""What PPO says of itself, after every update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.runs.report import UNKNOWN, Goal, Row
from shoal.runs.report import Report as AnyReport


@dataclass(frozen=True, kw_only=True)
class Report(AnyReport):
    """How far training is, after an update."""

    n_envs: int
    n_completed_episodes: int
    """Those that were completed in this rollout."""
    last_return: float | None
    """Of the episode that was completed last; ``None`` if there is none."""
    last_length: int | None
    mean_length: float | None

    def rows(self) -> Sequence[Row]:
        """What else the panel shows."""
        length = UNKNOWN if self.last_length is None else f"{self.last_length:,}"
        return (
            Row("Last return", (self.last_return,), f"length {length}"),
            Row("Episodes", (self.episodes,), f"{self._completed}   n_envs: {self.n_envs}"),
        )

    def lines(self) -> Sequence[str]:
        """What else is said in a log."""
        length = UNKNOWN if self.last_length is None else str(self.last_length)
        last, mean = (f"{UNKNOWN if one is None else f'{one:.2f}':>8}" for one in (self.last_return, self.mean_return))
        return (
            f"Reward: {last}  |  Length: {length:>4}  |  Mean(100): {mean}",
            f"{self._completed}  |  n_envs: {self.n_envs}",
        )

    def metrics(self) -> dict[str, float]:
        """The same under the names that the field knows; what is not known yet is left out."""
        length = {} if self.mean_length is None else {"charts/episodic_length": float(self.mean_length)}
        return {**super().metrics(), **length}

    @property
    def _completed(self) -> str:
        return f"n_completed_episodes: {self.n_completed_episodes}"


__all__ = ["Goal", "Report"]

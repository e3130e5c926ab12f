"""Ratios of rates that were taken in turns, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_RESAMPLES = 2000
_INTERVAL = (0.025, 0.975)
_FEWEST_FOR_AN_INTERVAL = 3


@dataclass(frozen=True)
class Ratio:
    """A ratio with its 95 % interval, when there are enough repeats for one."""

    value: float
    low: float | None
    high: float | None


def ratio_of_medians(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """How the medians compare; the same repeats are drawn for both, as they shared the machine's mood."""
    our_rates, their_rates = np.array(ours), np.array(theirs)
    value = float(np.median(our_rates) / np.median(their_rates))
    if len(our_rates) < _FEWEST_FOR_AN_INTERVAL or len(our_rates) != len(their_rates):
        return Ratio(value, None, None)
    draws = _draws(len(our_rates))
    resampled = np.median(our_rates[draws], axis=1) / np.median(their_rates[draws], axis=1)
    low, high = np.quantile(resampled, _INTERVAL)
    return Ratio(value, float(low), float(high))


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """The median of the ratios of pairs that were taken back to back: the closest look at a small difference."""
    ratios = np.array(ours) / np.array(theirs)
    value = float(np.median(ratios))
    if len(ratios) < _FEWEST_FOR_AN_INTERVAL:
        return Ratio(value, None, None)
    low, high = np.quantile(np.median(ratios[_draws(len(ratios))], axis=1), _INTERVAL)
    return Ratio(value, float(low), float(high))


def _draws(number: int) -> NDArray[np.int64]:
    """Which repeats each resample of a bootstrap consists of."""
    return np.random.default_rng(0).integers(number, size=(_RESAMPLES, number))

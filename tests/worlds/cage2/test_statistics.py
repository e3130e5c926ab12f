"""With random numbers of our own, games go as they go in the real simulator.

Every comparison is a test of the hypothesis that both have the same mean, with a threshold of standard deviations that says how
often it would fail by chance. Seeds are fixed, so it either always passes or never.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.worlds.cage2.policies import (
    Policy,
    any_action,
    play,
    remove_user,
    restore_compromised,
    restore_server_first,
    sleep,
)
from tests.worlds.cage2.recordings import recordings

FIVE_SIGMA = 5.0
"""A false alarm in 1.7 million comparisons."""

# Returns of the real simulator: mean and standard error of many episodes.
RETURNS: list[tuple[str, str, Policy, int, float, float]] = [
    ("B_line", "sleep", sleep, 30, -218.2, 1.7),
    ("Meander", "sleep", sleep, 30, -37.8, 1.9),
    ("Meander", "sleep", sleep, 50, -262.8, 8.0),
    ("Meander", "sleep", sleep, 100, -960.0, 10.0),
    ("B_line", "random", any_action(1), 30, -155.6, 2.5),
    ("B_line", "random", any_action(2), 100, -719.0, 24.0),
    ("Meander", "random", any_action(3), 30, -33.1, 0.45),
    ("Meander", "random", any_action(4), 100, -554.0, 19.0),
    ("B_line", "remove", remove_user, 30, -91.5, 8.0),
    ("Meander", "remove", remove_user, 30, -19.9, 0.7),
    ("B_line", "restore", restore_compromised, 100, -65.6, 3.5),
    ("Meander", "restore", restore_compromised, 100, -58.5, 1.4),
    ("B_line", "server-first", restore_server_first, 100, -280.0, 1.2),
    ("Meander", "server-first", restore_server_first, 100, -320.6, 4.9),
]


@pytest.mark.parametrize(
    ("red", "name", "policy", "steps", "mean", "error"),
    RETURNS,
    ids=[f"{red}-{name}-{steps}" for red, name, _, steps, _, _ in RETURNS],
)
def test_mean_returns_are_those_of_the_real_simulator(
    red: str, name: str, policy: Policy, steps: int, mean: float, error: float
) -> None:
    returns = play(red, policy, steps, 10_000, seed=123)[0].sum(axis=1)
    own_error = returns.std() / np.sqrt(len(returns))
    assert abs(returns.mean() - mean) < FIVE_SIGMA * np.hypot(error, own_error)


def test_nobody_attacks_when_red_sleeps() -> None:
    """Then only restoring costs: one in 145 actions for each of 13 hosts."""
    returns = play("Sleep", any_action(0), 30, 10_000, seed=0)[0].sum(axis=1)
    restores, likely = 30 * 10_000, 13 / 145
    assert abs(returns.sum() + restores * likely) < FIVE_SIGMA * np.sqrt(restores * likely * (1 - likely))


# Of policies that do not look at what they see. (The one with many decoys does, in a way that was not recorded.)
OPEN_LOOP = [name for name in recordings() if name.split("_")[1] in ("random", "sleep")]
REPEATS = 60


@pytest.mark.parametrize("name", sorted(OPEN_LOOP))
def test_the_same_actions_with_other_random_numbers_come_to_the_same_in_the_mean(name: str) -> None:
    """Each recorded episode is one sample of what its actions lead to. Compared are the rewards of every
    step and of whole episodes, and all 52 bits.

    Where both have the same mean, none of some 1500 sums is six standard deviations away, but once in 300,000 runs.
    """
    recording = recordings()[name]
    actions = recording.arrays["act"].astype(np.int64)
    episodes, steps = actions.shape
    repeated = np.repeat(actions, REPEATS, axis=0)
    rewards, observations = play(
        recording.red, lambda _, step: repeated[:, step], steps, len(repeated), seed=5, green=recording.green
    )
    _compare(recording.arrays["rew"], rewards, episodes)
    _compare(recording.arrays["rew"].sum(axis=1, keepdims=True), rewards.sum(axis=1, keepdims=True), episodes)
    _compare(recording.arrays["obs"][:, 1:].sum(axis=1), observations.sum(axis=1), episodes)


def _compare(recorded: np.ndarray, ours: np.ndarray, episodes: int) -> None:
    """Sums over episodes: each recorded one against the mean of those with the same actions."""
    by_episode = ours.reshape(episodes, REPEATS, -1).astype(np.float64)
    deviation = (recorded - by_episode.mean(axis=1)).sum(axis=0)
    variance = by_episode.var(axis=1, ddof=1).sum(axis=0) * (1 + 1 / REPEATS)
    # Where nothing is left to chance, nothing may differ. Rare events are not normal: a handful is let pass.
    assert (np.abs(deviation) <= 6.0 * np.sqrt(variance) + 1e-3 + 3.0 * (variance > 0)).all()


POLICIES = {"remove": remove_user, "restore": restore_compromised}
CLOSED_LOOP = sorted(name for name in recordings() if name.split("_")[1] in POLICIES)


@pytest.mark.parametrize("name", CLOSED_LOOP)
def test_a_policy_that_looks_sees_and_costs_the_same(name: str) -> None:
    """Mean rewards of every step and mean bits of whole episodes, as above."""
    recording = recordings()[name]
    episodes, steps = recording.arrays["act"].shape
    rewards, observations = play(recording.red, POLICIES[name.split("_")[1]], steps, 5_000, seed=9)
    for theirs, ours in (
        (recording.arrays["rew"], rewards),
        (recording.arrays["obs"][:, 1:].sum(axis=1), observations.sum(axis=1)),
    ):
        error = ours.std(axis=0) * np.sqrt(1 / episodes + 1 / len(ours))
        rare = 3.0 / episodes * (ours.std(axis=0) > 0)
        assert (np.abs(theirs.mean(axis=0) - ours.mean(axis=0)) <= 6.0 * error + rare + 1e-6).all()

"""Text worlds in tests, and how they are played."""

from __future__ import annotations

from typing import Any

import numpy as np

IDS = ("shoal/FrozenLakeText-v0", "shoal/Bandit-v0", "shoal/Countdown-v0", "shoal/MetaMathQA-v0")

ANSWERS: dict[str, list[Any]] = {
    "shoal/FrozenLakeText-v0": ["Left", "down", 3, "UP", None, "north by northwest"],
    "shoal/Bandit-v0": ["phoenix", "Dragon", 1, 2, None, "unicorn"],
    "shoal/MetaMathQA-v0": ["42", "$1,234", "three", None, "9**9**9**9", "<answer>7</answer>"],
    "shoal/Countdown-v0": ["1 + 2", "(3", None, "4 / 0", "99 - 1 * (2 + 3)"],
}
"""What is done in them here: actions by name and number, no actions, and what only looks like one."""


class Player:
    """Plays at random, the same in every run: solutions now and then, anything otherwise."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def action(self, env_id: str, solution: list[Any] | None) -> Any:
        """What to do in this world, which could be solved like this."""
        if solution and self._random.random() < 0.5:
            return solution[0]
        answers = ANSWERS[env_id]
        return answers[int(self._random.integers(len(answers)))]


def play(envs: Any, ids: list[str], num_steps: int, seed: int, reset: dict[str, Any], between: Any = None) -> list[Any]:
    """Everything that is seen in this many steps of an ``EnvList``; episodes that end are followed by others."""
    player = Player(seed)
    seen: list[Any] = [envs.reset(**reset)]
    for number in range(num_steps):
        if between is not None:
            between(number)
        actions = [player.action(*pair) for pair in zip(ids, envs.call("solve"), strict=True)]
        results = envs.step(actions)
        seen.append(tuple(results))
        ended = [row for row, is_over in enumerate(results.terminated) if is_over]
        if ended:
            seen.append(envs.reset(env_ids=ended, seed=[seed + 100 * number + row for row in ended]))
    return seen

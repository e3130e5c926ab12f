"""Who takes part."""

from __future__ import annotations

import random


class B_lineAgent:  # noqa: N801 - its name
    def get_action(self, hosts: list[int]) -> int | None:
        return random.choice(range(4))


class RedMeanderAgent:
    def get_action(self, hosts: list[int]) -> int | None:
        return random.randrange(13)


class SleepAgent:
    def get_action(self, hosts: list[int]) -> int | None:
        return None


class GreenAgent:
    def get_action(self, hosts: list[int]) -> int | None:
        return 12 if random.random() < 0.5 else None

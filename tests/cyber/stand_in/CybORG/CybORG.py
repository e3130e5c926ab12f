"""The simulator."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any


class CybORG:
    """A network that an agent walks through, drawing from the process's one generator as the real one does."""

    def __init__(self, scenario_file: str, environment: str = "sim", agents: dict[str, Any] | None = None) -> None:
        if not Path(scenario_file).is_file():
            raise FileNotFoundError(scenario_file)
        assert environment == "sim"
        self.scenario = Path(scenario_file).read_text()
        self.agents = {name: agent() for name, agent in (agents or {}).items()}
        self.draws: list[float] = []
        self.reset()

    def reset(self) -> None:
        self.hosts = [0] * 13
        self.draws = [random.random()]

    def advance(self, action: int) -> float:
        self.draws.append(random.random())
        for name in sorted(self.agents):
            host = self.agents[name].get_action(self.hosts)
            if host is not None:
                self.hosts[host] = (self.hosts[host] + 1) % 4
        if action >= 132:
            self.hosts[action - 132] = 0
        return round(-0.1 * sum(state > 1 for state in self.hosts), 1)

    def get_agent_state(self, agent_name: str) -> dict[str, Any]:
        assert agent_name == "True"
        return {"success": True, **{f"Host{number}": {"Sessions": [state]} for number, state in enumerate(self.hosts)}}

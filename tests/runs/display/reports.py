"""Goals and reports to show, consoles to show them on, and what is seen there."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from rich.console import Console

from shoal.ppo.report import Goal, Report
from shoal.runs.display import open_display
from tests.runs.display.terminal import Screen

LOSSES = {
    "policy_loss": -0.0123,
    "value_loss": 0.4567,
    "entropy": 0.6931,
    "approx_kl": 0.00812,
    "clipfrac": 0.12,
    "explained_variance": 0.871,
}


def goal(**changes: Any) -> Goal:
    fields: dict[str, Any] = {
        "env": "CartPole-v1",
        "n_envs": 8,
        "backend": "shm",
        "start_method": None,
        "device": "cpu",
        "total_episodes": 1000,
        "total_steps": None,
        "folder": "runs/first",
    }
    return Goal(**fields | changes)


GOAL = goal()


def report(**changes: Any) -> Report:
    fields: dict[str, Any] = {
        "updates": 5,
        "steps": 20480,
        "episodes": 10,
        "n_envs": 8,
        "n_completed_episodes": 3,
        "last_return": 123.45,
        "last_length": 234,
        "mean_return": 120.12,
        "mean_length": 230.0,
        "steps_per_second": 12345.0,
        "seconds": 45.0,
        "seconds_left": 100.0,
        "losses": LOSSES,
        "shares": {"environments": 0.61, "policy": 0.12, "update": 0.25},
        "learning_rate": 3e-4,
        "restarts": 0,
    }
    return Report(**fields | changes)


def before_the_first_episode(**changes: Any) -> Report:
    nothing = dict.fromkeys(("last_return", "last_length", "mean_return", "mean_length", "seconds_left"))
    return report(episodes=0, n_completed_episodes=0, **nothing, **changes)


def course_of_reports(count: int, seconds: float) -> Iterator[Report]:
    for number in range(1, count + 1):
        yield report(
            updates=number, steps=2048 * number, episodes=number, mean_return=float(number), seconds=seconds * number
        )


def terminal(width: int = 80, **options: Any) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, **options)


def log(width: int = 80) -> Console:
    return Console(file=io.StringIO(), force_terminal=False, width=width)


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def shown(*reports: Report, goal: Goal = GOAL, console: Console | None = None) -> str:
    """The panel as it is left behind."""
    console = console or terminal()
    with open_display(goal, "rich", console) as display:
        for one in reports:
            display.update(one)
    return Screen(written(console)).text


def logged(*reports: Report, goal: Goal = GOAL, console: Console | None = None) -> str:
    console = console or log()
    with open_display(goal, "plain", console) as display:
        for one in reports:
            display.update(one)
    return written(console)

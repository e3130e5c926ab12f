"""``shoal bench``: how fast an environment runs here, on Shoal's backends and on Gymnasium's vector environments."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Annotated, Any

import gymnasium
import tyro
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from rich.console import Console
from rich.progress import track
from rich.table import Table

from shoal.cli.durations import check_seconds
from shoal.cli.rollouts import Rollout, roll_out
from shoal.envs.naming import find
from shoal.vector import ParallelEnv
from shoal.vector.arguments import check_count
from shoal.vector.backends import BACKENDS
from shoal.vector.making import factories_of

MOST_PROCESSES = 64  # AsyncVectorEnv starts a process per environment


def bench(
    env: Annotated[str, tyro.conf.Positional] = "CartPole-v1",
    num_envs: int = 32,
    seconds: float = 1.0,
    repeats: int = 5,
    quick: bool = False,
) -> None:
    """Measure steps per second with random actions: Shoal's backends beside Gymnasium's SyncVectorEnv and AsyncVectorEnv.

    Repeats are interleaved and the median is reported. (The comparison with other libraries is in the repository:
    `make bench`.)

    Args:
        env: an environment registered with Gymnasium, or module:callable for one of your own.
        num_envs: how many at once.
        seconds: about how long each measurement takes.
        repeats: how many measurements of each.
        quick: shorter and fewer measurements, under a minute in all.
    """
    check_count("repeats", repeats)
    check_seconds("seconds", seconds)
    if quick:
        seconds, repeats = min(seconds, 0.3), min(repeats, 3)
    contestants = _contestants(env, num_envs)
    _try_one(env)
    pilot = roll_out(contestants["SyncVectorEnv"], rounds=20)
    rounds = max(20, int(seconds * pilot.steps_per_second / num_envs))
    rollouts: dict[str, list[Rollout]] = {name: [] for name in contestants}
    turns = [name for _ in range(repeats) for name in contestants]
    console = Console()
    for name in track(turns, description="measuring", console=console, transient=True):
        rollouts[name].append(roll_out(contestants[name], rounds))
    console.print(_table(env, num_envs, rounds, rollouts))
    console.print(f"auto: {rollouts['shoal auto'][-1].reason}", highlight=False)
    if num_envs > MOST_PROCESSES:
        console.print(f"AsyncVectorEnv was left out: it would start {num_envs} processes.")


def _try_one(env: str) -> None:
    """Some steps of one environment, so that one that does not work is reported in a sentence before anything is measured."""
    roll_out(lambda: ParallelEnv(factories_of(find(env), 1, {})[0], backend="serial"), rounds=100)


def _contestants(env: str, num_envs: int) -> dict[str, Callable[[], Any]]:
    env_fns, _ = factories_of(find(env), num_envs, {})
    contestants: dict[str, Callable[[], Any]] = {"SyncVectorEnv": lambda: SyncVectorEnv(env_fns)}
    if num_envs <= MOST_PROCESSES:
        contestants["AsyncVectorEnv"] = lambda: AsyncVectorEnv(env_fns)
    for backend in ("auto", *BACKENDS):
        contestants[f"shoal {backend}"] = lambda backend=backend: ParallelEnv(env_fns, backend=backend)  # type: ignore[misc]
    return contestants


def _table(env: str, num_envs: int, rounds: int, rollouts: dict[str, list[Rollout]]) -> Table:
    title = f"{num_envs} x {env}, {rounds} rounds a measurement, Gymnasium {gymnasium.__version__}"
    table = Table("", "steps per second", "of SyncVectorEnv", "start", title=title, title_justify="left")
    for column in table.columns[1:]:
        column.justify = "right"
    medians = {name: statistics.median(one.steps_per_second for one in runs) for name, runs in rollouts.items()}
    best = max(medians, key=lambda name: medians[name])
    for name, runs in rollouts.items():
        start = statistics.median(one.start_seconds for one in runs)
        row = (
            name,
            f"{medians[name]:,.0f}",
            f"{medians[name] / medians['SyncVectorEnv']:.2f} x",
            f"{start * 1000:,.0f} ms",
        )
        table.add_row(*row, style="bold green" if name == best else None)
    return table

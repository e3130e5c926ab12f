"""``shoal demo``: the same rollout on every backend, and a policy that learns to defend a network in about a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.live import Live
from rich.table import Table

from shoal.cli.defence import defend
from shoal.cli.folders import make_folder
from shoal.cli.rollouts import Rollout, roll_out
from shoal.envs.naming import find
from shoal.vector import ParallelEnv
from shoal.vector.arguments import check_count
from shoal.vector.backends import BACKENDS
from shoal.vector.cpus import usable_cpus
from shoal.vector.making import factories_of


def demo(
    env: Annotated[str, tyro.conf.Positional] = "CartPole-v1",
    num_envs: int = 64,
    rounds: int = 300,
    seed: int = 0,
    train: bool = True,
    train_steps: int = 4_000_000,
    root: Path = Path("runs"),
) -> None:
    """Roll out the same environments on every backend, and compare every bit of what they return.

    Then train a policy that defends a network (CAGE 2), in about a minute on two cores, and compare it with simple ones.

    Args:
        env: an environment registered with Gymnasium, or module:callable, for the first part.
        num_envs: how many at once.
        rounds: how many steps each of them takes.
        seed: of the environments and of the random actions.
        train: whether to do the second part.
        train_steps: for how many steps to train.
        root: where the run of the second part leaves everything.
    """
    console = Console()
    check_count("rounds", rounds)
    if train:
        check_count("train_steps", train_steps)
        make_folder(root, "--root")
    try:
        _show_sameness(console, env, num_envs, rounds, seed)
    except BaseException:
        console.print()  # what is said about it begins below the table
        raise
    if train:
        defend(console, train_steps, seed, root)


def _show_sameness(console: Console, env: str, num_envs: int, rounds: int, seed: int) -> None:
    workers = min(usable_cpus(), num_envs)
    env_fns, _ = factories_of(find(env), num_envs, {})
    console.print(f"\n[bold]{num_envs} x {env}[/bold], {rounds:,} random steps each, {workers} workers\n")
    done: dict[str, Rollout] = {}
    with Live(_table(done), console=console, refresh_per_second=8) as live:
        for backend in BACKENDS:
            done[backend] = roll_out(lambda backend=backend: ParallelEnv(env_fns, backend=backend), rounds, seed)  # type: ignore[misc]
            live.update(_table(done))
    digests = {rollout.digest for rollout in done.values()}
    reason = roll_out(lambda: ParallelEnv(env_fns), rounds, seed).reason
    console.print()
    console.print(f'\n[bold]backend="auto"[/bold], the default: {reason}\n', highlight=False)
    if len(digests) == 1:
        console.print(
            f"[green]Identical:[/green] every observation, reward, flag and info of {num_envs * rounds:,} steps has the same "
            f"digest, {digests.pop()}, on every backend.\n"
        )
    else:
        console.print(
            "[red]The results differ.[/red] The environment is not deterministic: it uses a clock, global random numbers, "
            "or something else that its seed does not fix.\n"
        )


def _table(done: dict[str, Rollout]) -> Table:
    notes = {
        "serial": "a loop in this process",
        "threads": "threads of this process",
        "pipes": "processes and messages",
        "shm": "processes and shared memory",
    }
    table = Table("backend", "", "start", "steps per second", "digest", box=None, pad_edge=False)
    table.columns[2].justify = table.columns[3].justify = "right"
    for backend in BACKENDS:
        rollout = done.get(backend)
        if rollout is None:
            table.add_row(backend, f"[dim]{notes[backend]}", "", "[dim]...", "")
        else:
            start = f"{rollout.start_seconds * 1000:,.0f} ms"
            table.add_row(backend, f"[dim]{notes[backend]}", start, f"{rollout.steps_per_second:,.0f}", rollout.digest)
    return table

"""The first part of the demo: the same rollout on every backend, where workers pay and where they do not."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from shoal.cli.computing import computing_cart_pole
from shoal.cli.rollouts import Rollout, roll_out
from shoal.envs.naming import find
from shoal.vector import ParallelEnv
from shoal.vector.backends import BACKENDS
from shoal.vector.cpus import usable_cpus
from shoal.vector.making import factories_of

SHOWN = (*BACKENDS, "auto")
NOTES = {
    "serial": "a loop in this process",
    "threads": "threads of this process",
    "pipes": "processes and messages",
    "shm": "processes, shared memory",
}
MICROSECONDS = 300
BUSY = 0.5
"""A load per processor from which on other programs take much of the machine."""
ALIKE = 0.9
"""From this ratio of speeds on, and down to its reciprocal, a rollout as short as these shows no difference."""


@dataclass(frozen=True)
class Case:
    """Environments to compare the backends on."""

    title: str
    env: Any
    """As ``shoal.make`` takes it."""


def cases_of(env: str | None) -> list[Case]:
    """The environment that was asked for; otherwise one for which workers pay and one for which they do not."""
    if env is not None:
        return [Case(env, find(env))]
    return [
        Case(f"CartPole-v1, with {MICROSECONDS} µs of computing in every step", computing_cart_pole(MICROSECONDS)),
        Case("CartPole-v1 as it is", "CartPole-v1"),
    ]


def show_sameness(console: Console, env: str | None, num_envs: int, rounds: int, seed: int) -> None:
    """Roll every case out on every backend, and say which is fast, what ``auto`` picks and whether results are the same."""
    workers = min(usable_cpus(), num_envs)
    console.print(
        f"\nThe same {rounds:,} random steps of {num_envs} environments on every backend. pipes and shm use worker processes, "
        f"{workers} of them.",
        highlight=False,
    )
    warn_if_busy(console)
    same, steps = True, 0
    for case in cases_of(env):
        done = _roll_out_everywhere(console, case, num_envs, rounds, seed)
        console.print(f"\n{verdict(done)}", highlight=False)
        same = same and len({rollout.digest for rollout in done.values()}) == 1
        steps += num_envs * rounds
    if same:
        console.print(
            f"\n[green]Identical:[/green] every observation, reward, flag and info of {steps:,} steps has the same digest on "
            "every backend.\n",
            highlight=False,
        )
    else:
        console.print(
            "\n[red]The results differ.[/red] The environment is not deterministic: it uses a clock, global random numbers, "
            "or something else that its seed does not fix.\n"
        )


def warn_if_busy(console: Console) -> None:
    """Say so, where comparisons would otherwise surprise."""
    load, processors = os.getloadavg()[0], os.cpu_count() or 1
    if load > processors * BUSY:
        console.print(
            f"[yellow]Other programs keep this machine busy[/yellow] (load {load:.1f} on {processors} processors), so worker "
            "processes gain less than they could.",
            highlight=False,
        )


def _roll_out_everywhere(console: Console, case: Case, num_envs: int, rounds: int, seed: int) -> dict[str, Rollout]:
    env_fns, _ = factories_of(case.env, num_envs, {})
    console.print(f"\n[bold]{num_envs} x {case.title}[/bold]\n", highlight=False)
    done: dict[str, Rollout] = {}
    with Live(_table(done), console=console, refresh_per_second=8) as live:
        for backend in SHOWN:
            done[backend] = roll_out(lambda backend=backend: ParallelEnv(env_fns, backend=backend), rounds, seed)  # type: ignore[misc]
            live.update(_table(done))
    console.print()  # below the table, which ends without a new line
    return done


def verdict(done: dict[str, Rollout]) -> str:
    """Whether workers pay, and what ``auto`` has picked."""
    ratio = done["shm"].steps_per_second / done["serial"].steps_per_second
    if ratio * ALIKE > 1:
        paying = f"[bold]Workers pay here:[/bold] shm is {ratio:.1f} times as fast as serial."
    elif ratio < ALIKE:
        paying = f"[bold]Workers do not pay here:[/bold] serial is {1 / ratio:.1f} times as fast as shm."
    else:
        paying = "[bold]Workers make no difference here:[/bold] shm is about as fast as serial."
    auto = done["auto"]
    return f'{paying}\nbackend="auto", the default, has picked {auto.backend}: {auto.reason}'


def _table(done: dict[str, Rollout]) -> Table:
    table = Table("backend", "", "start", "steps per second", "digest", box=None, pad_edge=False)
    table.columns[2].justify = table.columns[3].justify = "right"
    for backend in SHOWN:
        rollout = done.get(backend)
        if rollout is None:
            table.add_row(backend, f"[dim]{NOTES.get(backend, '')}", "", "[dim]...", "")
        else:
            note = NOTES.get(backend, f"has picked {rollout.backend}")
            start = f"{rollout.start_seconds * 1000:,.0f} ms"
            table.add_row(backend, f"[dim]{note}", start, f"{rollout.steps_per_second:,.0f}", rollout.digest)
    return table

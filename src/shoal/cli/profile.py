"""``shoal profile``: where the time of an environment's steps goes, and what would be quicker."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from shoal.cli.durations import check_seconds
from shoal.cli.folders import make_folder
from shoal.envs.naming import find
from shoal.vector.errors import ConfigurationError
from shoal.vector.making import make
from shoal.vector.plan import UNDECIDED
from shoal.vector.profile import Profile


def profile(
    env: Annotated[str, tyro.conf.Positional],
    num_envs: int = 64,
    backend: str = "auto",
    num_workers: int | None = None,
    threads_per_worker: int | None = None,
    seconds: float = 3.0,
    policy_milliseconds: float = 0.0,
    output: Path | None = None,
) -> None:
    """Step environments with random actions, and say where the time goes.

    Args:
        env: an environment registered with Gymnasium, or module:callable for one of your own.
        num_envs: how many at once.
        backend: how to run them; "auto" decides by itself.
        num_workers: how many workers.
        threads_per_worker: how many environments of a worker are at work at the same time.
        seconds: how long to step them.
        policy_milliseconds: how long a policy would take for each step of all environments.
        output: a folder for profile.png (a picture of the timeline) and profile.json (a trace for chrome://tracing).
    """
    console = Console(highlight=False)
    check_seconds("seconds", seconds)
    check_seconds("policy_milliseconds", policy_milliseconds, or_none=True)
    if output is not None:
        make_folder(output, "--output")
    envs = make(find(env), num_envs, backend=backend, num_workers=num_workers, threads_per_worker=threads_per_worker)
    with envs, console.status(f"stepping {num_envs} x {env}"):
        envs.action_space.seed(0)
        envs.reset(seed=0)
        actions = [envs.action_space.sample() for _ in range(64)]
        while envs.plan.reason == UNDECIDED:  # which a profile would wait for, too
            envs.step(actions[0])
        with envs.profile() as found:
            begin, step = time.perf_counter(), 0
            while (taken := time.perf_counter() - begin) < seconds:
                envs.step(actions[step % len(actions)])
                step += 1
                if policy_milliseconds:
                    time.sleep(policy_milliseconds / 1000)
    console.print(f"[bold]{env}[/bold], {step:,} round{'s' if step != 1 else ''} in {taken:.1f} s\n")
    console.print(str(found), soft_wrap=True)
    if output is not None:
        _save(console, found.result, output)


def _save(console: Console, found: Profile, output: Path) -> None:
    found.save_trace(output / "profile.json")
    console.print(f"\nSaved {output / 'profile.json'}: open it in chrome://tracing or ui.perfetto.dev.")
    try:
        found.save_picture(output / "profile.png")
    except ConfigurationError as error:
        console.print(str(error), style="yellow")
    else:
        console.print(f"Saved {output / 'profile.png'}.")

"""``shoal demo``: the same rollout on every backend, and a policy that learns to defend a network in about a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from shoal.cli.defence import defend
from shoal.cli.folders import make_folder
from shoal.cli.sameness import show_sameness
from shoal.vector.arguments import check_count


def demo(
    env: Annotated[str | None, tyro.conf.Positional] = None,
    num_envs: int = 4,
    rounds: int = 300,
    seed: int = 0,
    train: bool = True,
    train_steps: int = 4_000_000,
    root: Path = Path("runs"),
) -> None:
    """Roll out the same environments on every backend, and compare their speed and every bit of what they return.

    There are two kinds: worker processes pay for one of them, and do not pay for the other. backend="auto" finds out which is
    which. Then train a policy that defends a network (CAGE 2), in about a minute on two cores, and compare it with simple ones.

    Args:
        env: for the first part, one environment instead of these two: registered with Gymnasium, or module:callable.
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
        show_sameness(console, env, num_envs, rounds, seed)
    except BaseException:
        console.print()  # what is said about it begins below the table
        raise
    if train:
        defend(console, train_steps, seed, root)

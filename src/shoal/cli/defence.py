"""The second part of the demo: a policy learns to defend a network, and is compared with simple ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from shoal.cyber import removing, restoring, sleeping
from shoal.runs.training.needs import missing_for_training
from shoal.vector.making import make

ENV, RED, LENGTH = "shoal/Cage2-v0", "B_line", 30
NUM_GAMES, NUM_EVALUATED = 1000, 200
SIMPLE = {
    "do nothing": sleeping,
    "remove what is seen": removing,
    "restore what is seen": restoring,
}


def defend(console: Console, steps: int, seed: int, root: Path) -> None:
    """Train, evaluate, compare, and say where to go next."""
    if missing := missing_for_training():
        console.print(
            f"The second part trains a policy, for which {', '.join(missing)} is missing: pip install 'shoal[train]'\n",
            markup=False,
        )
        return
    from shoal.ppo.config import PPOConfig
    from shoal.ppo.presets import preset_of
    from shoal.ppo.run import train
    from shoal.ppo.trainer import PPOTrainer
    from shoal.runs import Checkpoints

    console.print(
        f"[bold]A network of 13 hosts is attacked[/bold] ({ENV}, {RED}). A policy learns to defend it: {steps:,} steps, "
        "about a minute.\n"
    )
    preset = preset_of(ENV)
    keywords = {**preset.pop("env_kwargs"), "red": RED, "max_steps": LENGTH}
    config = PPOConfig.of({**preset, "env": ENV, "env_kwargs": keywords, "total_steps": steps, "seed": seed})
    before = set(root.glob("*"))
    report = train(config, root=root)
    folder = max(set(root.glob("*")) - before)  # another one may have begun meanwhile
    tensors, state, _ = Checkpoints(folder).load("last")
    with PPOTrainer(config.replaced(n_envs=1, backend="serial")) as trainer:
        trainer.load_policy(tensors, state)
        result = trainer.evaluate(NUM_EVALUATED)
    table = Table("defence", f"return over {LENGTH} steps", "", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    for name in SIMPLE:
        mean, error = _simple(name)
        table.add_row(name, f"{mean:.1f} ± {error:.1f}", f"[dim]{NUM_GAMES} games")
    table.add_row("[bold]the policy", f"[bold]{result.mean:.1f} ± {result.error:.1f}", f"[dim]{NUM_EVALUATED} games")
    console.print()
    console.print(table)
    console.print(
        f"\nIt took {report.seconds:.0f} s, {report.steps / report.seconds:,.0f} steps a second. Everything is in {folder}: "
        f"curve.png, metrics.jsonl, checkpoints.\n\n"
        f"  shoal eval {folder}\n"
        "  shoal train --env CartPole-v1 --n-envs 8 --num-episodes 500\n"
        "  shoal profile YOUR_ENV        where the time of your environment goes\n"
        "  docs/guide.md                 how to use it in your own code\n",
        highlight=False,
    )


def _simple(name: str) -> tuple[float, float]:
    """The mean return of a simple defence, and half of its 95 % interval."""
    policy, returns = SIMPLE[name], np.zeros(NUM_GAMES)
    with make(ENV, NUM_GAMES, backend="serial", red=RED, max_steps=None) as envs:
        observations, _ = envs.reset(seed=12345)
        for _ in range(LENGTH):
            observations, rewards, *_ = envs.step(policy(observations))
            returns += rewards
    return float(returns.mean()), float(1.96 * returns.std() / np.sqrt(NUM_GAMES))

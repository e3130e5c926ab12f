"""``python -m benchmarks.training.cage2``: how well, and how fast, is CAGE 2 learned?

For each attacker and each length of a game, a policy is trained with the preset that ``shoal train`` uses, and then plays 1000
games alone, with its most likely actions, on seeds of their own. The challenge's organisers gave the mean returns of a PPO
policy of theirs, which stand beside it.
"""

from __future__ import annotations

import argparse
import json
import shlex
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.throughput.machine import describe_machine, installed_versions

ENV = "shoal/Cage2-v0"
REPORTED = {
    "B_line": {30: -8.75, 50: -14.92, 100: -30.19},
    "Meander": {30: -7.31, 50: -12.04, 100: -22.21},
}
GAMES = 200_000
"""Of training, whatever their length."""
EVALUATED = 1000
TARGET = 100_000
"""Steps a second, end to end."""


@dataclass
class Result:
    red: str
    length: int
    steps: int
    seconds: float
    """Of training, from the first step to the last update."""
    mean: float
    error: float
    """Half of the 95 % interval."""
    reported: float

    @property
    def rate(self) -> float:
        return self.steps / self.seconds


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training.cage2", description=__doc__)
    parser.add_argument("--games", type=int, default=GAMES, help="games of training")
    parser.add_argument("--seed", type=int, default=0)
    default = Path("benchmarks") / "results" / "training" / "cage2.json"
    parser.add_argument("--output", type=Path, default=default, metavar="FILE")
    options = parser.parse_args(arguments)
    console, machine = Console(), describe_machine()
    console.width = max(console.width, 125)  # also where it is written to a file
    results = []
    for red, lengths in REPORTED.items():
        for length, reported in lengths.items():
            with console.status(f"{red}, {length} steps"):
                results.append(learn(red, length, options.games * length, options.seed, reported))
            console.print(row(results[-1]), highlight=False)
    console.print(table(results))
    found = {
        "command": shlex.join(["python", "-m", "benchmarks.training.cage2", *arguments]),
        "machine": asdict(machine),
        "versions": installed_versions(["shoal", "torch", "numpy", "numba"]),
        "results": [asdict(result) for result in results],
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(found, indent=2) + "\n")
    console.print(f"Saved {options.output}", highlight=False)


def learn(red: str, length: int, steps: int, seed: int, reported: float) -> Result:
    from shoal.ppo import PPOTrainer
    from shoal.ppo.presets import preset_of

    preset = preset_of(ENV)
    keywords = {**preset.pop("env_kwargs"), "red": red, "max_steps": length}
    with PPOTrainer(env=ENV, env_kwargs=keywords, **{**preset, "total_steps": steps, "seed": seed}) as trainer:
        begin = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - begin
        evaluation = trainer.evaluate(EVALUATED)
        return Result(red, length, trainer.steps, seconds, evaluation.mean, evaluation.error, reported)


def row(result: Result) -> str:
    return (
        f"{result.red}, {result.length} steps: {result.mean:.2f} ± {result.error:.2f} (reported {result.reported}), "
        f"{result.rate:,.0f} steps a second"
    )


def table(results: Sequence[Result]) -> Table:
    made = Table(
        title=f"CAGE 2 after {EVALUATED} games alone", title_justify="left", title_style="bold", box=SIMPLE_HEAD
    )
    for name in ("attacker", "length", "return", "reported PPO", "steps", "seconds", f"steps a second (>= {TARGET:,})"):
        made.add_column(name, justify="left" if name == "attacker" else "right")
    for result in results:
        is_met = result.mean - result.error > result.reported and result.rate >= TARGET
        made.add_row(
            result.red, str(result.length), f"{result.mean:.2f} ± {result.error:.2f}", f"{result.reported}",
            f"{result.steps:,}", f"{result.seconds:.0f}", f"{result.rate:,.0f}", style="" if is_met else "yellow",
        )  # fmt: skip
    return made


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])

"""``python -m benchmarks.meta_learning GridNavi-v0``: agents with a memory and without, in one picture."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.meta_learning.drawing import draw
from shoal.meta import Learner
from shoal.meta.presets import PRESETS, preset_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("env", choices=sorted(PRESETS))
    parser.add_argument("--archs", nargs="+", default=["memory", "markov"])
    parser.add_argument("--minutes", type=float, default=60.0, help="each agent learns for so long at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--eval-every", type=int, default=10)
    parser.add_argument("--output", type=Path, default=Path("."), help="the folder for curves and picture")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    curves = {}
    for arch in arguments.archs:
        path = arguments.output / f"{arguments.env}-{arch}-{arguments.seed}.jsonl"
        with path.open("w") as file:
            curves[arch] = []
            for line in curve(arguments.env, arch, arguments.seed, arguments.minutes, arguments.eval_every):
                curves[arch].append(line)
                print(arch, line, flush=True)
                file.write(json.dumps(line) + "\n")
                file.flush()
    print(draw(curves, arguments.output / f"{arguments.env}-{arguments.seed}.png", arguments.env))


def curve(env: str, arch: str, seed: int, minutes: float, eval_every: int) -> Iterator[dict[str, Any]]:
    """Train, and evaluate now and then. Seconds are those of training alone."""
    spent = [0.0, 0.0]
    with Learner(preset_of(env, arch), seed=seed) as learner:
        while not learner.is_done and spent[0] < 60 * minutes:
            begin = time.perf_counter(), time.process_time()
            report = learner.train_once()
            spent[0] += time.perf_counter() - begin[0]
            spent[1] += time.process_time() - begin[1]
            if report.updates % eval_every == 0 or learner.is_done:
                # An agent that cannot remember is better off not to do the same in every episode.
                both = [learner.evaluate(deterministic=one) for one in (True, False)]
                played = max(both, key=lambda each: each.mean)
                yield {
                    "steps": report.steps,
                    "updates": report.gradient_steps,
                    "seconds": round(spent[0], 1),
                    "processor_seconds": round(spent[1], 1),
                    "returns": [round(one, 3) for one in played.episode_returns],
                    "success_rate": played.success_rate,
                    "shares": {name: round(share, 3) for name, share in report.shares.items()},
                }


if __name__ == "__main__":
    main()

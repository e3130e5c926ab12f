"""``python -m benchmarks.meta_collection``: rollouts of a task world, one by one and in parallel, in one run.

    repeat:  one by one, random · parallel, random · one by one, policy · parallel, policy

Both collect the same rollouts: task, noise and actions depend on the number of the rollout alone. What differs is the time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

from shoal.meta import AGENT_ARCHS, Learner

WAYS = [(acting, how) for acting in ("random", "policy") for how in ("one by one", "parallel")]
TARGETS = {"random": 1.7, "policy": 2.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("env", nargs="?", default="AntDir-v0")
    parser.add_argument("--workers", type=int, default=6, help="environments that step at once")
    parser.add_argument("--rollouts", type=int, default=12, help="for each measurement")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--arch", choices=[arch.value for arch in AGENT_ARCHS], default=AGENT_ARCHS.Memory.value)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/meta_collection.json"))
    arguments = parser.parse_args()
    settings: dict[str, Any] = {
        "env": {
            "env_name": arguments.env,
            "num_parallel_workers": arguments.workers,
            "parallel_kwargs": {"backend": arguments.backend},
        },
        "policy": {"arch": arguments.arch},
    }
    rates: dict[tuple[str, str], list[float]] = {way: [] for way in WAYS}
    shares: dict[tuple[str, str], list[dict[str, float]]] = {way: [] for way in WAYS}
    with Learner(settings) as learner:
        for repeat in range(-1, arguments.repeats):  # the first one warms up
            for way in WAYS:
                rate, share = _measured(learner, way, arguments.rollouts)
                if repeat >= 0:
                    rates[way].append(rate)
                    shares[way].append(share)
        assert learner.train_env_parallel is not None
        plan = learner.train_env_parallel.plan
    found = []
    for way in WAYS:
        share = {name: round(statistics.median(one[name] for one in shares[way]), 3) for name in shares[way][0]}
        found.append(
            {"acting": way[0], "how": way[1], "steps_per_second": round(statistics.median(rates[way])), "shares": share}
        )
        print(f"{way[0]:7} {way[1]:11} {found[-1]['steps_per_second']:8,} steps/s   {share}")
    for acting, target in TARGETS.items():
        ratios = [
            there / here for here, there in zip(rates[acting, "one by one"], rates[acting, "parallel"], strict=True)
        ]
        print(
            f"{acting:7} parallel is {statistics.median(ratios):.2f} x one by one "
            f"[{min(ratios):.2f}-{max(ratios):.2f}], target {target}"
        )
        found.append({"acting": acting, "ratio": statistics.median(ratios), "ratios": ratios})
    print(f"{arguments.env}, {arguments.workers} environments, {arguments.arch}; {plan.backend}: {plan.reason}")
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(found, indent=2) + "\n")


def _measured(learner: Learner, way: tuple[str, str], rollouts: int) -> tuple[float, dict[str, float]]:
    """Steps per second, and where the time went."""
    acting, how = way
    learner._forget_the_last()
    begin = time.perf_counter()
    steps = learner.collect_rollouts_parallel(
        rollouts,
        random_actions=acting == "random",
        parallel_env=learner.train_env_parallel if how == "parallel" else None,
    )
    seconds = time.perf_counter() - begin
    return steps / seconds, {name: spent / seconds for name, spent in learner._spent.items()}


if __name__ == "__main__":
    main()

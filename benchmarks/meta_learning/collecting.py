"""``python -m benchmarks.meta_learning.collecting``: rollouts one by one and in parallel, taking turns in one process."""

from __future__ import annotations

import argparse
import statistics
import time

from shoal.meta import Learner

SIX = {"max_rollouts_per_task": 2, "num_train_tasks": 50, "num_eval_tasks": 20, "num_parallel_workers": 6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="AntDir-v0")
    parser.add_argument("--rollouts", type=int, default=12, help="of one turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--arch", default="memory")
    arguments = parser.parse_args()
    with Learner(env={**SIX, "env_name": arguments.env}, policy={"arch": arguments.arch}, seed=1) as learner:
        for random_actions in (True, False):
            speeds: dict[str, list[float]] = {"one by one": [], "in parallel": []}
            shares: dict[str, list[float]] = {"one by one": [], "in parallel": []}
            for turn in range(arguments.turns + 1):
                for way, env in (("one by one", None), ("in parallel", learner.train_env_parallel)):
                    learner._forget_the_last()
                    begin = time.perf_counter()
                    steps = learner.collect_rollouts_parallel(arguments.rollouts, random_actions, env)
                    seconds = time.perf_counter() - begin
                    if turn:  # in the first one, workers start and loops are compiled
                        speeds[way].append(steps / seconds)
                        shares[way].append(learner._spent["policy"] / seconds)
            what = "random actions" if random_actions else f"a policy ({arguments.arch})"
            ratios = [two / one for one, two in zip(speeds["one by one"], speeds["in parallel"], strict=True)]
            for way, its in speeds.items():
                print(
                    f"{what}, {way}: {statistics.median(its):,.0f} steps a second, "
                    f"{100 * statistics.median(shares[way]):.0f} % of it for the policy"
                )
            print(f"{what}: {statistics.median(ratios):.2f} times as fast [{min(ratios):.2f}-{max(ratios):.2f}]")
        plan = learner.train_env_parallel.plan if learner.train_env_parallel else None
        print(plan)


if __name__ == "__main__":
    main()

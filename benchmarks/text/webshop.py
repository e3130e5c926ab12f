"""``python -m benchmarks.text.webshop [NUM_PRODUCTS]``: how many searches one core does in a shop, and how many episodes.

Processor time is measured, so that other processes do not count.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable

from shoal.envs.webshop import WebShopEnv

NUM_SEARCHES = 2000


def per_second(do: Callable[[int], object], count: int) -> float:
    started = time.process_time()
    for number in range(count):
        do(number)
    return count / (time.process_time() - started)


def main(num_products: int) -> None:
    started = time.process_time()
    env = WebShopEnv(num_products=num_products)
    catalogue = env.catalogue
    print(f"{catalogue}, opened in {time.process_time() - started:.2f} s")
    goals = [catalogue.goal(catalogue.goal_of(seed, "train")) for seed in range(NUM_SEARCHES)]
    instructions = [goal.instruction for goal in goals]
    titles = [catalogue.product(goal.product).title for goal in goals]
    for name, queries in (("instructions", instructions), ("titles", titles)):
        speed = per_second(lambda number, queries=queries: catalogue.search(queries[number]), NUM_SEARCHES)
        print(f"searches for {name:12} {speed:8.0f} per second")

    def episode(seed: int) -> None:
        env.reset(seed=seed)
        for action in env.solve() or []:
            env.step(action)
            next(steps)

    steps = itertools.count()
    speed = per_second(episode, 500)
    print(f"episodes{'':17} {speed:8.0f} per second, with {next(steps) / 500:.1f} actions each and the way to the goal")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)

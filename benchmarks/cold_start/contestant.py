"""One contestant: makes environments, steps them for so many seconds, and prints how long every step took, as JSON.

    python -m benchmarks.cold_start.contestant shoal 200 6 [NUMBER]

With a NUMBER, so many busy processes begin to compute after a third of the time, and end after two thirds.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from typing import Any

import gymnasium
import numpy as np

from benchmarks.busy_processes import busy_processes

ENV = "CartPole-v1"


def make(library: str, num_envs: int) -> Any:
    if library == "shoal":
        import shoal

        return shoal.make(ENV, num_envs)
    return gymnasium.make_vec(ENV, num_envs, vectorization_mode="sync")


def play(library: str, num_envs: int, seconds: float, visitors: int) -> dict[str, Any]:
    random = np.random.default_rng(0)
    actions = [random.integers(2, size=num_envs) for _ in range(64)]
    envs = make(library, num_envs)
    envs.reset(seed=0)
    ends: list[float] = []
    moves: list[tuple[float, str]] = []
    where = ""
    with contextlib.ExitStack() as company:
        begin, number, has_company = time.perf_counter(), 0, False
        while (now := time.perf_counter() - begin) < seconds:
            if visitors and not has_company and seconds / 3 < now < 2 * seconds / 3:
                company.enter_context(busy_processes(visitors))
                has_company = True
            elif has_company and now > 2 * seconds / 3:
                company.close()
                visitors, has_company = 0, False
            began = time.perf_counter()
            envs.step(actions[number % 64])
            ends.append(time.perf_counter() - began)
            number += 1
            plan = getattr(envs, "plan", None)
            if plan is not None and plan.backend != where:
                where = plan.backend
                moves.append((round(time.perf_counter() - begin, 2), where))
    envs.close()
    return {"steps": ends, "moves": moves}


if __name__ == "__main__":
    library, num_envs, seconds, *visitors = sys.argv[1:]
    print(json.dumps(play(library, int(num_envs), float(seconds), int(visitors[0]) if visitors else 0)))

"""Measures, prints tables, and writes what it has measured to a file."""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import statistics
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.rollouts.players import SleepingPolicy, http_server
from shoal import __version__
from shoal.llm import (
    EnvironmentManagerBase,
    MultiProcessEnvironmentContainer,
    OpenAIPolicy,
    TrajectoryCollector,
    as_policy,
)
from shoal.llm.environment_managers import manager_of
from shoal.llm.stage import Stage

WORLD = {"num_boxes": 1, "search_depth": 30, "dim_room": [6, 6]}


def manager(groups: int, size: int, *, parallel: bool = True) -> EnvironmentManagerBase:
    return manager_of(
        "sokoban", MultiProcessEnvironmentContainer("sokoban", groups, size, 7, WORLD, use_multiprocessing=parallel)
    )


def settings(mode: str, turns: int) -> dict[str, Any]:
    return {"rollout": {"mode": mode}, "env": {"max_steps": turns}}


def first_ready(slots: int, groups: int, size: int, turns: int, mean_seconds: float, repeats: int) -> dict[str, Any]:
    """The same trajectories in both modes; seconds, best and median of some repetitions, which take turns."""
    seconds: dict[str, list[float]] = {"lockstep": [], "first_ready": []}
    results: dict[str, Any] = {}
    slept = 0.0
    with manager(groups, size) as envs:
        envs.reset()
        for _ in range(repeats):
            for mode in seconds:
                with SleepingPolicy(slots, mean_seconds) as policy:
                    collector = TrajectoryCollector(settings(mode, turns))
                    began = time.perf_counter()
                    data = collector.multi_turn_loop({"seeds": list(range(groups))}, policy, envs)
                    seconds[mode].append(time.perf_counter() - began)
                    slept = policy.slept
                records = [record.to_json() for record in data.records]
                assert results.setdefault("records", records) == records, "the trajectories are not the same"
    medians = {mode: statistics.median(values) for mode, values in seconds.items()}
    return {
        "slots": slots,
        "trajectories": groups * size,
        "turns": sum(len(record["turns"]) for record in results["records"]),
        "mean_generation_ms": 1000 * mean_seconds,
        **{f"{mode}_s": value for mode, value in medians.items()},
        "least_possible_s": slept / slots,
        "sooner": medians["lockstep"] / medians["first_ready"],
    }


class WorldTime:
    """Processor time that the collecting thread spends on worlds: sending actions, and taking in what they show."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0
        for name in ("begin", "act", "arrived"):
            setattr(Stage, name, self._timed(getattr(Stage, name)))

    def _timed(self, function: Any) -> Any:
        @functools.wraps(function)
        def timed(*arguments: Any, **keywords: Any) -> Any:
            began, self._depth = time.thread_time(), self._depth + 1
            try:
                return function(*arguments, **keywords)
            finally:
                self._depth -= 1
                if self._depth == 0:  # the outermost call has the time of those within
                    self.seconds += time.thread_time() - began

        return timed


def overhead(turns: int, seconds: float) -> dict[str, Any]:
    """256 trajectories at once against a server: processor time of the thread that collects, for each turn."""
    with (
        manager(32, 8) as envs,
        http_server(seconds) as url,
        OpenAIPolicy(url, "m", api_key="k", concurrency=256) as policy,
    ):
        collector = TrajectoryCollector(settings("first_ready", turns))
        collector.multi_turn_loop(None, policy, envs)
        worlds = WorldTime()
        began, used = time.perf_counter(), time.thread_time()
        data = collector.multi_turn_loop(None, policy, envs)
        used, elapsed = time.thread_time() - used, time.perf_counter() - began
    number = sum(len(record.turns) for record in data.records)
    return {
        "trajectories": len(data.records),
        "turns": number,
        "turns_per_second": number / elapsed,
        "collector_microseconds_per_turn": 1e6 * (used - worlds.seconds) / number,
        "worlds_microseconds_per_turn": 1e6 * worlds.seconds / number,
        "percent_of_a_core_at_100_turns_per_second": 100 * 100 * (used - worlds.seconds) / number,
    }


def memory(trajectories: int) -> dict[str, Any]:
    """Memory of this process while many trajectories go by, of which nothing is kept."""
    sizes = []
    with manager(32, 8, parallel=False) as envs:
        collector, done = TrajectoryCollector(settings("first_ready", 2)), 0
        policy = as_policy(lambda requests: ["<action>up</action>"] * len(requests))
        while done < trajectories:
            done += len(collector.multi_turn_loop(None, policy, envs).records)
            sizes.append((done, psutil.Process().memory_info().rss / 2**20))
    early = next(size for number, size in sizes if number >= trajectories // 5)
    return {"trajectories": done, "mib_after_a_fifth": early, "mib_at_the_end": sizes[-1][1]}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rollouts")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="smaller, to see that it works")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args(arguments)
    small = given.quick
    results: dict[str, Any] = {
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "shoal": __version__},
        "load": os.getloadavg()[0],
        "first_ready": [
            first_ready(slots, 4 if small else 16, 4, 4 if small else 8, 0.05, 1 if small else given.repeats)
            for slots in ((8,) if small else (8, 16, 32, 64))
        ],
        "overhead": overhead(2 if small else 8, 0.1),
        "memory": memory(1000 if small else 10_000),
    }
    print("slots  turns  lockstep  first-ready  least possible  sooner")
    for row in results["first_ready"]:
        print(
            f"{row['slots']:5} {row['turns']:6} {row['lockstep_s']:7.2f} s {row['first_ready_s']:10.2f} s "
            f"{row['least_possible_s']:13.2f} s {row['sooner']:6.2f} x"
        )
    cost, room = results["overhead"], results["memory"]
    print(
        f"\n{cost['trajectories']} trajectories at once: {cost['turns_per_second']:.0f} turns a second, "
        f"{cost['collector_microseconds_per_turn']:.0f} µs of the collecting thread for each, and "
        f"{cost['worlds_microseconds_per_turn']:.0f} µs for messages with worlds: the collector takes "
        f"{cost['percent_of_a_core_at_100_turns_per_second']:.1f} % of a core at 100 turns a second"
    )
    print(
        f"{room['trajectories']} trajectories: {room['mib_after_a_fifth']:.0f} MiB after a fifth of them, "
        f"{room['mib_at_the_end']:.0f} MiB at the end"
    )
    if given.output is not None:
        given.output.write_text(f"{json.dumps(results, indent=2)}\n")

"""``python -m benchmarks.text.managers``: EnvStateManager and the container: turns a second, starting, memory."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

NUM_MEMBERS, TURNS = 128, 10
TURN_SECONDS = 0.5
COMPUTING_LOOPS = 20_000
"""Of a world that computes: some hundred microseconds for an action."""
WORLDS: dict[str, tuple[dict[str, Any], tuple[str, ...], str]] = {
    "Sokoban": (
        {"env_type": "sokoban", "env_config": {"num_boxes": 1, "search_depth": 30}},
        ("Up", "Left", "Down", "Right"),
        "2 to 4",
    ),
    "FrozenLake": ({"env_type": "frozen_lake"}, ("Up", "Left", "Down", "Right"), "2 to 4"),
    "Bandit": ({"env_type": "bandit"}, ("phoenix",), "minimal"),
    "Countdown": ({"env_type": "countdown"}, ("1 + 1",), "2 to 4"),
    "one that computes": ({"env_type": "computing", "max_actions_per_traj": 10}, ("go",), "2 to 4"),
}
"""A world, what is done in it, and how many times faster it is said to be with workers in the document that describes them."""


class Computing:
    """Computes, in Python, for every action."""

    def reset(self, seed: int | None = None, mode: str = "train") -> str:
        self.seed = seed or 0
        return self.render()

    def step(self, action: str) -> tuple[str, float, bool, dict[str, Any]]:
        number = self.seed
        for _ in range(COMPUTING_LOOPS):
            number = (1103515245 * number + 12345) % 2**31
        self.seed = number
        return self.render(), 0.0, False, {"success": False}

    def render(self) -> str:
        return f"the number is {self.seed}"


def manager_of(name: str, num_members: int, *, is_parallel: bool) -> Any:
    from shoal.llm import REGISTERED_ENVS, EnvStateManager

    REGISTERED_ENVS["computing"] = Computing
    groups = num_members // 4
    section = {"env_groups": groups, "group_size": 4, "env_configs": {"tags": ["World"], "n_groups": [groups]}}
    config = {
        "es_manager": {"use_multiprocessing": is_parallel, "train": section},
        "custom_envs": {"World": WORLDS[name][0]},
    }
    return EnvStateManager(config)


def play(manager: Any, actions: Sequence[str], seed: int) -> int:
    """An episode of at most ten turns, with its reset and its metrics; returns how many turns were taken in all."""
    caches, taken = manager.reset(seed), 0
    for turn in range(TURNS):
        said = [actions[turn % len(actions)]]
        inputs = [
            {"env_id": cache["env_id"], "actions": said, "llm_response": "", "llm_raw_response": ""} for cache in caches
        ]
        caches = manager.step(inputs)
        taken += len(inputs)
        if not caches:
            break
    manager.get_rollout_states()
    return taken


def main(arguments: Sequence[str]) -> None:
    from rich.console import Console

    from benchmarks.throughput.machine import describe_machine, installed_versions

    parser = argparse.ArgumentParser(prog="python -m benchmarks.text.managers", description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--output", type=Path, default=Path("benchmarks") / "results" / "managers", metavar="DIR")
    parser.add_argument("--alone", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.alone:
        print(json.dumps(alone(options.alone)))
        return
    console = Console()
    found = {
        "machine": asdict(describe_machine()),
        "versions": installed_versions(["shoal", "gymnasium", "numpy"]),
        "turns": _show_turns(console, options.repeats),
        "starts": _show_starts(console, options.repeats),
    }
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "managers.json").write_text(json.dumps(found, indent=2) + "\n")


# -- how many turns a second -------------------------------------------------------------------------------------------


def _show_turns(console: Any, repeats: int) -> list[dict[str, Any]]:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from benchmarks.throughput.ratios import paired_ratio

    table = Table(
        title=f"turns a second of {NUM_MEMBERS} members, resets and metrics included",
        title_justify="left", title_style="bold", box=SIMPLE_HEAD,
    )  # fmt: skip
    for name in ("world", "in process", "in workers", "times", "the document's times"):
        table.add_column(name, justify="left" if name == "world" else "right")
    records = []
    for world in WORLDS:
        rates: dict[bool, list[float]] = {False: [], True: []}
        with (
            manager_of(world, NUM_MEMBERS, is_parallel=False) as here,
            manager_of(world, NUM_MEMBERS, is_parallel=True) as there,
        ):
            managers = {False: here, True: there}
            for repeat in range(repeats + 1):
                for is_parallel, manager in managers.items():
                    rate = _rate(manager, WORLDS[world][1], 1000 * repeat)
                    if repeat:  # the first one warms up
                        rates[is_parallel].append(rate)
        times = paired_ratio(rates[True], rates[False])
        record = {
            "world": world,
            "in_process": statistics.median(rates[False]),
            "in_workers": statistics.median(rates[True]),
            "times": asdict(times),
            "documented": WORLDS[world][2],
        }
        records.append(record)
        table.add_row(
            world,
            f"{record['in_process']:,.0f}",
            f"{record['in_workers']:,.0f}",
            f"{times.value:.2f}",
            WORLDS[world][2],
        )
    console.print(table)
    return records


def _rate(manager: Any, actions: Sequence[str], seed: int) -> float:
    began, turns = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < TURN_SECONDS:
        turns += play(manager, actions, seed + turns)
    return turns / passed


# -- starting, and memory ----------------------------------------------------------------------------------------------


def alone(what: str) -> dict[str, float]:
    """One of these, in a process of its own."""
    kind, _, count = what.partition(":")
    began = time.perf_counter()
    if kind == "container":
        from shoal.llm import MultiProcessEnvironmentContainer

        kwargs = WORLDS["Sokoban"][0]["env_config"]
        with MultiProcessEnvironmentContainer("sokoban", int(count) // 4, 4, 0, kwargs):
            return {"seconds": time.perf_counter() - began, "megabytes": megabytes()}
    with manager_of("Sokoban", int(count), is_parallel=kind == "workers") as manager:
        caches = manager.reset(0)
        manager.step(
            [
                {"env_id": cache["env_id"], "actions": ["Up"], "llm_response": "", "llm_raw_response": ""}
                for cache in caches
            ]
        )
        seconds = time.perf_counter() - began
        play(manager, WORLDS["Sokoban"][1], 0)
        return {"seconds": seconds, "megabytes": megabytes()}


def megabytes() -> float:
    """What this process and all that it has started take, each shared page counted once."""
    import psutil

    own = psutil.Process()
    return sum(one.memory_full_info().pss for one in (own, *own.children(recursive=True))) / 2**20


def _show_starts(console: Any, repeats: int) -> list[dict[str, Any]]:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(
        title="from the constructor to the end of the first step of Sokobans, imports included; memory of all processes",
        title_justify="left", title_style="bold", box=SIMPLE_HEAD,
    )  # fmt: skip
    for name in ("what", "members", "seconds (median)", "MB (PSS, median)"):
        table.add_column(name, justify="left" if name == "what" else "right")
    records = []
    for what in ("process:128", "workers:128", "process:1024", "workers:1024", "container:512"):
        found = [_in_a_process(what) for _ in range(repeats)]
        records.append(_row(table, what, found))
    with tempfile.TemporaryDirectory() as cache:
        records.append(_row(table, "workers:128", [_in_a_process("workers:128", cache)], " (nothing compiled before)"))
    console.print(table)
    return records


def _row(table: Any, what: str, found: list[dict[str, float]], remark: str = "") -> dict[str, Any]:
    kind, _, count = what.partition(":")
    names = {
        "process": "EnvStateManager in process",
        "workers": "EnvStateManager in workers",
        "container": "container, constructor",
    }
    middle = {key: statistics.median(one[key] for one in found) for key in ("seconds", "megabytes")}
    table.add_row(names[kind] + remark, count, f"{middle['seconds']:.2f}", f"{middle['megabytes']:,.0f}")
    return {"what": what + remark, **middle}


def _in_a_process(what: str, cache: str = "") -> dict[str, float]:
    environment = {**os.environ, **({"SHOAL_CACHE_DIR": cache, "NUMBA_CACHE_DIR": cache} if cache else {})}
    command = [sys.executable, "-m", "benchmarks.text.managers", "--alone", what]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    runner: Callable[[Sequence[str]], None] = main
    runner(sys.argv[1:])

"""``python -m benchmarks.text.levels``: Sokoban levels, beside gym-sokoban's generator, and whether resets wait for them."""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

CELLS = ((6, 1), (6, 3), (8, 2), (10, 3))
"""Side and boxes."""
TURN_SECONDS = 0.5
PAUSE_SECONDS = 0.02
NUM_WORLDS, EPISODE_LENGTH, NUM_EPISODES = 32, 20, 10


def main(arguments: Sequence[str]) -> None:
    from rich.console import Console

    from benchmarks.throughput.machine import describe_machine, installed_versions

    parser = argparse.ArgumentParser(prog="python -m benchmarks.text.levels", description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--output", type=Path, default=Path("benchmarks") / "results" / "levels", metavar="DIR")
    options = parser.parse_args(arguments)
    console = Console()
    found = {
        "machine": asdict(describe_machine()),
        "versions": installed_versions(["shoal", "gym-sokoban", "numpy", "numba"]),
        "levels": _show_levels(console, options.repeats),
        "resets": _show_resets(console),
    }
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "levels.json").write_text(json.dumps(found, indent=2) + "\n")


# -- how many levels a second ------------------------------------------------------------------------------------------


def _show_levels(console: Any, repeats: int) -> list[dict[str, Any]]:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from benchmarks.throughput.ratios import paired_ratio

    table = Table(title="levels a second, on one core", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for name in ("room", "by", "levels a second", "of gym-sokoban's", "fewest moves to solve one (median)"):
        table.add_column(name, justify="left" if name in ("room", "by") else "right")
    records = []
    for side, num_boxes in CELLS:
        makers = {name: make(side, num_boxes) for name, make in MAKERS.items()}
        rates: dict[str, list[float]] = {name: [] for name in makers}
        for _ in range(repeats):
            for name, make_levels in makers.items():
                rates[name].append(_rate(make_levels))
        for name, make_levels in makers.items():
            ratio = paired_ratio(rates[name], rates["gym-sokoban"])
            record = {
                "side": side, "num_boxes": num_boxes, "by": name, "rates": rates[name],
                "ratio": asdict(ratio), "moves": _difficulty(make_levels),
            }  # fmt: skip
            records.append(record)
            interval = "" if ratio.low is None or ratio.high is None else f" [{ratio.low:.3g}-{ratio.high:.3g}]"
            table.add_row(
                f"{side} x {side}, {num_boxes} box{'es' * (num_boxes > 1)}", name,
                f"{statistics.median(rates[name]):,.0f}", f"{ratio.value:.3g}x{interval}", f"{record['moves']:g}",
            )  # fmt: skip
    console.print(table)
    return records


def _rate(make_levels: Callable[[], list[Any]]) -> float:
    start, count = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - start) < TURN_SECONDS or count == 0:
        count += len(make_levels())
    return count / elapsed


def _difficulty(make_levels: Callable[[], list[Any]]) -> float:
    from shoal.envs.sokoban import solve

    levels: list[Any] = []
    while len(levels) < 100:
        levels += make_levels()
    return statistics.median(len(solve(level) or ()) for level in levels[:100])


def _gym_sokoban(side: int, num_boxes: int) -> Callable[[], list[Any]]:
    """Its generator alone: the package wants a ``gym`` of long ago. Failed attempts are followed by others, as there."""
    package = importlib.util.find_spec("gym_sokoban")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("gym-sokoban is not installed in benchmarks/.venv")
    path = Path(package.submodule_search_locations[0]) / "envs" / "room_utils.py"
    spec = importlib.util.spec_from_file_location("room_utils", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    random.seed(0)

    def make() -> list[Any]:
        while True:
            try:
                ground, level, *_ = module.generate_room(
                    (side, side), num_steps=int(1.7 * 2 * side), num_boxes=num_boxes
                )
            except (RuntimeError, RuntimeWarning):
                continue
            level[(level == 5) & (ground == 2)] = 6  # the player on a target, which has no code of its own there
            return [level]

    return make


def _text_world(side: int, num_boxes: int) -> Callable[[], list[Any]]:
    from shoal.envs.sokoban import SokobanEnv

    env, seeds = SokobanEnv(dim_room=(side, side), num_boxes=num_boxes), itertools.count()
    env.reset(seed=next(seeds))  # which compiles
    return lambda: [env.reset(seed=next(seeds))[0]]


def _grid_world(side: int, num_boxes: int) -> Callable[[], list[Any]]:
    import shoal

    envs = shoal.make("shoal/SokobanGrid-v0", 64, backend="serial", dim_room=(side, side), num_boxes=num_boxes)
    seeds = itertools.count(step=64)
    envs.reset(seed=next(seeds))
    return lambda: list(envs.reset(seed=next(seeds))[0])


MAKERS = {
    "gym-sokoban": _gym_sokoban,
    "shoal/Sokoban-v0, one by one": _text_world,
    "shoal/SokobanGrid-v0, 64 at once": _grid_world,
}


# -- whether resets wait -----------------------------------------------------------------------------------------------


def _show_resets(console: Any) -> list[dict[str, Any]]:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from shoal.envs.sokoban import levels

    title = (
        f"{NUM_WORLDS} worlds that all end together, and a model that takes {1000 * PAUSE_SECONDS:g} ms: milliseconds"
    )
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for name in ("room", "levels", "a step (median)", "with 32 resets (median)", "the worst"):
        table.add_column(name, justify="left" if name in ("room", "levels") else "right")
    records, slow = [], levels.SLOW_SECONDS
    for side, num_boxes in CELLS:
        for name, limit in (("made ahead where that pays", slow), ("made when they are needed", 1e9)):
            levels.SLOW_SECONDS = limit
            levels.levels_of.cache_clear()
            steps, resets = _rollout(side, num_boxes)
            records.append({"side": side, "num_boxes": num_boxes, "levels": name, "steps": steps, "resets": resets})
            numbers = [statistics.median(steps), statistics.median(resets), max(resets)]
            table.add_row(f"{side} x {side}, {num_boxes}", name, *(f"{1000 * number:.2f}" for number in numbers))
    levels.SLOW_SECONDS = slow
    console.print(table)
    return records


def _rollout(side: int, num_boxes: int) -> tuple[list[float], list[float]]:
    """Seconds of steps in which nobody is reset, and of those in which all are."""
    import shoal

    config = {"dim_room": (side, side), "num_boxes": num_boxes, "max_steps": EPISODE_LENGTH}
    steps, resets = [], []
    worlds = [("shoal/Sokoban-v0", config)] * NUM_WORLDS
    with shoal.EnvList(worlds, backend="serial", autoreset_mode="NextStep") as envs:
        envs.reset(seed=0)
        for number in range(1, NUM_EPISODES * (EPISODE_LENGTH + 1)):
            time.sleep(PAUSE_SECONDS)
            start = time.perf_counter()
            envs.step(["Up" if number % 2 else "Down"] * NUM_WORLDS)
            (steps if number % (EPISODE_LENGTH + 1) else resets).append(time.perf_counter() - start)
    return steps, resets


if __name__ == "__main__":
    from benchmarks import peers_venv

    peers_venv.run_inside("benchmarks.text.levels", sys.argv[1:])
    main(sys.argv[1:])

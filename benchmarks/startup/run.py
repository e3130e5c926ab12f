"""The run: every rig starts a few and many light environments, by turns."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from benchmarks.startup.starters import STARTERS, starters
from benchmarks.startup.starts import measure_starts, starts_table


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rigs", default=",".join(rig.name for rig in STARTERS), help="comma-separated names of rigs")
    parser.add_argument("--output", type=Path, default=Path("benchmarks") / "results" / "startup", metavar="DIR")
    options = parser.parse_args(arguments)
    os.environ["OMP_NUM_THREADS"] = "1"
    options.output.mkdir(parents=True, exist_ok=True)
    console = Console()
    chosen = starters(tuple(options.rigs.split(",")))
    with tempfile.TemporaryDirectory() as logs, console.status("starting") as status:
        records = measure_starts(chosen, options.repeats, Path(logs), status.update)
    text = json.dumps([asdict(record) for record in records], indent=2)
    (options.output / "startup.json").write_text(text + "\n")
    console.print(starts_table(records))

"""The command line: which faults on which libraries, and where the results go.

Read before the peers' environment is made; therefore only the standard library and plain data are imported here.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults.faults import FAULTS, Fault
from benchmarks.faults.libraries import LIBRARIES, Library

_OUTPUT = Path("benchmarks") / "results" / "faults"


@dataclass(frozen=True)
class Options:
    libraries: tuple[Library, ...]
    faults: tuple[Fault, ...]
    keep: bool
    output: Path


def parse(arguments: Sequence[str]) -> Options:
    """Understand the command line, or leave with a message."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.faults",
        description="The same faults on Shoal and its peers: what does the user see?",
    )
    known_libraries = [library.name for library in LIBRARIES]
    known_faults = [fault.name for fault in FAULTS]
    parser.add_argument(
        "--libraries",
        type=lambda text: _known(parser, "library", text, known_libraries),
        default=known_libraries,
        help=f"comma-separated, of {', '.join(known_libraries)}",
    )
    parser.add_argument(
        "--faults",
        type=lambda text: _known(parser, "fault", text, known_faults),
        default=known_faults,
        help=f"comma-separated, of {', '.join(known_faults)}",
    )
    parser.add_argument(
        "--keep", action="store_true", help="show the results of earlier runs too, where this one has none"
    )
    parser.add_argument("--output", type=Path, default=_OUTPUT, metavar="DIR")
    given = parser.parse_args(arguments)
    return Options(
        libraries=tuple(library for library in LIBRARIES if library.name in given.libraries),
        faults=tuple(fault for fault in FAULTS if fault.name in given.faults),
        keep=given.keep,
        output=given.output,
    )


def _known(parser: argparse.ArgumentParser, kind: str, text: str, names: Sequence[str]) -> list[str]:
    chosen = [name.strip() for name in text.split(",") if name.strip()]
    for name in chosen:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            parser.error(
                f"no {kind} is called {name!r}; "
                + (f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}")
            )
    return chosen

"""On the command line, what Shoal warns of is a sentence: which line of it has warned is nothing to whoever typed a command."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import tyro
from rich.console import Console
from rich.text import Text

BETWEEN = tuple(str(Path(package)) for package in (Path(__file__).parents[2], Path(tyro.__file__).parent))
"""From the command to what warns there is nobody but Shoal, and what has read the command line."""


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Show Shoal's own warnings without file and line. Those of an environment keep them, for its author."""
    with warnings.catch_warnings():
        before = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> Any:
            if category is not RuntimeWarning or not filename.startswith(BETWEEN):
                return before(message, category, filename, lineno, file, line)
            text = Text.assemble(("warning:", "yellow"), f" {message}")
            Console(stderr=True, highlight=False).print(text, soft_wrap=True)
            return None

        warnings.showwarning = show
        yield

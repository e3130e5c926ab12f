"""What is printed while a panel is on the terminal appears above it, line by line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.file_proxy import FileProxy
from rich.text import Text

from shoal.runs.display.course import showable


@contextmanager
def printing_above(console: Console) -> Iterator[None]:
    """Pass what goes to ``sys.stdout`` and ``sys.stderr`` through the console, where these are the terminal.

    A stream that goes to a file is left alone: ``2> errors.txt`` still gets the errors.
    """
    before = {name: getattr(sys, name) for name in ("stdout", "stderr")}
    above = {
        name: Above(console, stream)
        for name, stream in before.items()
        if console.is_interactive and _is_terminal(stream)
    }
    try:
        for name, stream in above.items():
            setattr(sys, name, stream)
        yield
    finally:
        for name, stream in above.items():
            if getattr(sys, name) is stream:  # or somebody else has put something there since
                setattr(sys, name, before[name])
            stream.finish_line()


class Above(FileProxy):
    """A stream whose lines a console prints.

    rich's own reads a half line that is flushed as markup, where ``[/]`` is an error, and makes a line of every piece.
    """

    def __init__(self, console: Console, stream: IO[str]) -> None:
        super().__init__(console, stream)
        self._console = console
        self._decoder = AnsiDecoder()
        self._begun = ""

    def write(self, text: str) -> int:
        """Print the lines that are complete."""
        *lines, self._begun = map(_overwritten, (self._begun + text).split("\n"))
        if lines:
            self._print(lines)
        return len(text)

    def flush(self) -> None:
        """A line waits until it is complete: a half one would be drawn over by the panel."""

    def finish_line(self) -> None:
        """Print what has no end of line yet."""
        if self._begun:
            begun, self._begun = self._begun, ""
            self._print([begun])

    def _print(self, lines: list[str]) -> None:
        encoding = self._console.encoding
        texts = (self._decoder.decode_line(showable(line.rstrip("\r"), encoding)) for line in lines)
        self._console.print(Text("\n").join(texts))


def _overwritten(line: str) -> str:
    """What is left of a line whose writer went back to its start, as progress bars do; the last return may be of the end."""
    return line[line.rstrip("\r").rfind("\r") + 1 :]


def _is_terminal(stream: IO[str] | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # it is closed
        return False

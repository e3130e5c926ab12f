"""As much of a terminal as a panel uses: what is on the screen after all that was written."""

from __future__ import annotations

import re

TOKEN = re.compile(r"\x1b\[(?P<argument>[?\d;]*)(?P<command>[A-Za-z])|(?P<control>[\r\n])|(?P<text>[^\x1b\r\n]+)")


class Screen:
    """The lines, also those that have scrolled off the top, and whether the cursor is visible."""

    def __init__(self, written: str, width: int = 1000) -> None:
        self._width = width
        self.lines = [""]
        self.cursor_visible = True
        self._row = self._column = 0
        end = 0
        for token in TOKEN.finditer(written):
            assert token.start() == end, f"what is this: {written[end : token.start()]!r}"
            end = token.end()
            if token["command"]:
                self._obey(token["command"], token["argument"])
            elif token["control"]:
                self._move(token["control"])
            else:
                self._write(token["text"])
        assert end == len(written)

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines)

    def _obey(self, command: str, argument: str) -> None:
        match command:
            case "A":
                self._row -= int(argument or 1)
                assert self._row >= 0
            case "K":
                assert argument == "2"
                self.lines[self._row] = ""
            case "h" | "l":
                assert argument == "?25"
                self.cursor_visible = command == "h"
            case _:
                assert command == "m", command

    def _move(self, control: str) -> None:
        self._column = 0
        if control == "\n":
            self._row += 1
            if self._row == len(self.lines):
                self.lines.append("")

    def _write(self, text: str) -> None:
        for character in text:
            if self._column == self._width:
                self._move("\n")
            line = self.lines[self._row].ljust(self._column)
            self.lines[self._row] = line[: self._column] + character + line[self._column + 1 :]
            self._column += 1

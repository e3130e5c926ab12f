"""What is printed during training, and how the terminal is left."""

from __future__ import annotations

import errno
import io
import os
import pty
import subprocess
import sys
from collections.abc import Callable

import pytest

from shoal.runs.display import open_display
from tests.runs.display.reports import Terminal, goal, report
from tests.runs.display.terminal import Screen


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Called by tests, not a fixture: pytest puts its own stream there after fixtures."""
    monkeypatch.setattr(sys, "stdout", stream := Terminal())
    return stream


class TestPrinting:
    def test_appears_above_the_panel(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stdout = on_a_terminal(monkeypatch)
        with open_display(goal()) as display:
            display.update(report())
            print("one [/] line, and", end=" ", flush=True)
            print("its end\n")
            display.update(report(seconds=46.0))
            sys.stdout.write("\r 1%\r 2%")
            sys.stdout.write("\r100%\r\nlast")
        assert sys.stdout is stdout
        lines = Screen(stdout.getvalue()).lines
        assert lines[:4] == ["one [/] line, and its end", "", "100%", "last"]
        assert lines[4].startswith("╭─ CartPole-v1")
        assert sum("CartPole-v1" in line for line in lines) == 1

    def test_to_a_file_goes_to_the_file(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stdout = on_a_terminal(monkeypatch)
        monkeypatch.setattr(sys, "stderr", file := io.StringIO())
        with open_display(goal()):
            print("an error", file=sys.stderr)
        assert file.getvalue() == "an error\n"
        assert "an error" not in stdout.getvalue()

    def test_a_stream_that_was_replaced_meanwhile_is_left(self, monkeypatch: pytest.MonkeyPatch) -> None:
        on_a_terminal(monkeypatch)
        other = io.StringIO()
        with open_display(goal()):
            sys.stdout = other
        assert sys.stdout is other


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
def test_the_terminal_is_left_clean_after_an_exception(
    kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    stdout = on_a_terminal(monkeypatch)
    with pytest.raises(kind), open_display(goal()) as display:
        display.update(report())
        assert not Screen(stdout.getvalue()).cursor_visible
        raise kind
    screen = Screen(stdout.getvalue())
    assert screen.cursor_visible
    assert screen.lines[-1] == "", "the traceback begins on a line of its own"
    assert "Episode 10 of 1,000" in screen.text
    assert sys.stdout is stdout


PROGRAM = """
import fcntl, termios, time, warnings
from shoal.runs.display import open_display
from tests.runs.display.reports import goal, report
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C is for this process
with open_display(goal()) as display:
    display.update(report())
    warnings.warn("mind the gap")
    print("printed")
    display.update(report(seconds=46.0))
    display.note("ready")
    while True:
        time.sleep(0.05)  # one that comes before a single long sleep would be noticed only after it
"""


def test_a_real_terminal_after_control_c() -> None:
    ours, theirs = pty.openpty()
    environ = os.environ | {"COLUMNS": "60", "LINES": "30", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PROGRAM]
    child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ, start_new_session=True)
    os.close(theirs)
    try:
        text = read_until(ours, lambda text: "ready" in text and text.endswith("╯\x1b[0m"))
        os.write(ours, b"\x03")
        text += read_until(ours, lambda text: False)
    finally:
        os.close(ours)
        child.kill()
        child.wait()
    screen = Screen(text, width=60)
    assert screen.cursor_visible
    panel = next(number for number, line in enumerate(screen.lines) if line.startswith("╭"))
    above, below = "\n".join(screen.lines[:panel]), "\n".join(screen.lines[panel + 1 :])
    assert "UserWarning: mind the gap" in above
    assert "printed" in above
    assert "╭" not in below, "the panel is there once"
    assert below.rstrip().endswith("KeyboardInterrupt")


def read_until(descriptor: int, enough: Callable[[str], bool]) -> str:
    """What a process writes to its terminal, until it is enough or nobody is left to write."""
    read = bytearray()
    while not enough(read.decode(errors="ignore")):
        try:
            read += os.read(descriptor, 65536)
        except OSError as error:
            if error.errno != errno.EIO:  # how Linux says that nobody has the other end any more
                raise
            break
    return read.decode()


def test_what_is_printed_above_a_panel_in_another_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    class Narrow(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdout", Narrow(raw := io.BytesIO(), encoding="ascii"))
    with open_display(goal(), "rich"):
        print("🐟")
    assert b"\\U0001f41f" in raw.getvalue()

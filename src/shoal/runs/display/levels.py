"""The ways to show a training run."""

from __future__ import annotations

import math
import os
import sys
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from shoal.runs.display.above import printing_above
from shoal.runs.display.course import Course, clock, loss_label, loss_value, showable, time_shares
from shoal.runs.display.panel import ALARM, RunPanel, summary
from shoal.runs.report import Goal, Report
from shoal.vector.errors import ConfigurationError
from shoal.vector.nearest import did_you_mean

LEVELS = ("auto", "rich", "plain", "none")

SECONDS_BETWEEN_DRAWINGS = 0.25
SECONDS_BETWEEN_LINES = 10.0
FIRST_REPORTS = 10
"""So many reports are all written to a log, however quickly they follow each other."""
PLAIN_LOSSES = ("policy_loss", "value_loss", "entropy", "approx_kl", "critic_loss", "actor_loss")
"""Those that fit into a line of a log."""


def open_display(goal: Goal, level: str = "auto", console: Console | None = None) -> Display:
    """Show a training run.

    ```
    with open_display(goal) as display:
        for report in training:
            display.update(report)
        display.finish(None, "Training is complete.")
    ```

    Args:
        goal: what is trained, and until when.
        level: ``"rich"`` for a panel that stays in its place, which needs a terminal: elsewhere only notes and the summary
            are seen. ``"plain"`` for lines as in a log, ``"none"`` for nothing. ``"auto"`` is ``"rich"`` on an interactive
            terminal and ``"plain"`` elsewhere.
        console: where to show it; standard output unless given.
    """
    if level not in LEVELS:
        allowed, hint = ", ".join(map(repr, LEVELS)), did_you_mean(str(level), LEVELS)
        raise ConfigurationError(f"display must be one of {allowed}, got {level!r}.{hint}")
    console = console or _standard_output()
    if level == "auto":
        level = "rich" if console.is_terminal and console.is_interactive else "plain"
    return {"rich": PanelDisplay, "plain": PlainDisplay, "none": Display}[level](goal, console)


class Display:
    """Shows nothing, and is the base of those that do. It is used in a ``with`` block."""

    def __init__(self, goal: Goal, console: Console) -> None:
        self._goal = goal
        self._console = console
        self._course = Course()
        self._finished = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave the terminal as it was, also after an exception."""

    def update(self, report: Report) -> None:
        """Show how far training is."""
        self._course.add(report)

    def note(self, sentence: str) -> None:
        """Show a line that stays: a checkpoint that was saved, a warning, the result of an evaluation."""

    def finish(self, report: Report | None, sentence: str) -> None:
        """Show the last report, if there is one that was not shown yet, and sum up. A second time, nothing happens."""
        if self._finished:
            return
        if report is not None and report != self._course.last:
            self._course.add(report)
        self._finished = True
        self._sum_up(sentence)

    def _sum_up(self, sentence: str) -> None:
        pass

    def _print(self, text: str | Text, wrap: bool) -> None:
        if isinstance(text, str):
            text = Text(showable(text, self._console.encoding))
        self._console.print(text, soft_wrap=not wrap)


class PlainDisplay(Display):
    """Lines for a log: every report at first, then one in ten seconds."""

    def __init__(self, goal: Goal, console: Console) -> None:
        super().__init__(goal, console)
        self._written: Report | None = None
        self._reports = 0

    def __enter__(self) -> Self:
        goal = self._goal
        many = goal.n_envs != 1
        using = f"{goal.n_envs} parallel environments" if many else "1 environment"
        self._write(f"{_if_showable('🚀 ', self._console.encoding)}Using {using} for training")
        if many or goal.start_method is not None:
            self._write(f"   Start method: {goal.start_method or 'default'}")
        self._write(f"   Environment: {goal.env}  |  Backend: {goal.backend}  |  Device: {goal.device}")
        if goal.folder is not None:
            self._write(f"   Folder: {goal.folder}")
        self._write(f"Parallel mode: {goal.n_envs} environments" if many else "Sequential mode: 1 environment")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._write_last()

    def update(self, report: Report) -> None:
        """Write it down, unless the last one is quite new."""
        super().update(report)
        self._reports += 1
        waited = math.inf if self._written is None else report.seconds - self._written.seconds
        if self._reports <= FIRST_REPORTS or waited >= SECONDS_BETWEEN_LINES:
            self._write_last()

    def note(self, sentence: str) -> None:
        """Write it down."""
        self._write(sentence)

    def _sum_up(self, sentence: str) -> None:
        self._write_last()
        self._write(sentence)
        for name, value in self._course.summary(self._goal):
            self._write(f"  {name + ':':<19}{value}")

    def _write_last(self) -> None:
        report = self._course.last
        if report is None or report is self._written:
            return
        self._written = report
        of = "" if self._goal.total_episodes is None else f"/{self._goal.total_episodes}"
        self._write(f"{report.counted} {report.episodes}{of}")
        for line in report.lines():
            self._write(f"  {line}")
        of = "" if self._goal.total_steps is None else f"/{self._goal.total_steps}"
        left = "" if report.seconds_left is None else f"  |  Left: {clock(report.seconds_left)}"
        self._write(f"  Steps: {report.steps}{of}  |  Steps/s: {report.steps_per_second:.0f}{left}")
        shares = ", ".join(f"{name} {share:.0%}" for name, share in time_shares(report))
        self._write(f"  Time: {clock(report.seconds)}" + (f" ({shares})" if shares else ""))
        self._write_losses(report)
        if report.restarts:
            self._write(Text(f"  Restarts: {report.restarts}", "bold yellow"))

    def _write_losses(self, report: Report) -> None:
        parts = []
        for name, value in report.losses.items():
            text = f"{loss_label(name)} {loss_value(value)}"
            if not math.isfinite(value):
                parts.append(Text(f"{text} (!)", ALARM))  # a log has no colours, so there is a mark to search for
            elif name in PLAIN_LOSSES:
                parts.append(Text(text))
        if parts:
            self._write(Text("  Losses: ") + Text(", ").join(parts))

    def _write(self, text: str | Text) -> None:
        # Lines of a log are not broken: that is for whoever reads them.
        self._print(text, wrap=False)


class PanelDisplay(Display):
    """A panel at the bottom of the terminal, with notes and everything that is printed above it."""

    def __init__(self, goal: Goal, console: Console) -> None:
        super().__init__(goal, console)
        # Drawn by whoever calls, not by a thread of rich's: worker processes may be forked while training goes on.
        self._live = Live(
            RunPanel(goal, self._course),
            console=console,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._open = ExitStack()
        self._drawn = -math.inf

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            opened.enter_context(self._live)
            opened.enter_context(printing_above(self._console))
            self._open = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open.close()

    def update(self, report: Report) -> None:
        """Draw the panel anew, unless it was drawn just now."""
        super().update(report)
        if self._live.is_started and not 0 <= report.seconds - self._drawn < SECONDS_BETWEEN_DRAWINGS:
            self._drawn = report.seconds
            self._live.refresh()

    def note(self, sentence: str) -> None:
        """Print it above the panel."""
        self._print(sentence, wrap=True)

    def _sum_up(self, sentence: str) -> None:
        rows = self._course.summary(self._goal)
        self._live.update(summary(rows, sentence, self._goal.env, self._console.encoding))
        self._open.close()


def _standard_output() -> Console:
    """As rich sees it, but never interactive in a file or a CI's log, even if ``FORCE_COLOR`` is set for its colours."""
    interactive = sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("CI")
    return Console(highlight=False, force_interactive=None if interactive else False)


def _if_showable(text: str, encoding: str) -> str:
    return text if showable(text, encoding) == text else ""

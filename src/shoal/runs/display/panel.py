"""The panel that shows a training run while it goes on, and the one that sums it up."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator

from rich.columns import Columns
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from shoal.runs.display.course import (
    TREND_LENGTH,
    Course,
    amount,
    clock,
    loss_label,
    loss_value,
    progress,
    showable,
    time_shares,
)
from shoal.runs.report import UNKNOWN, Goal, Report, Row

BARS = "▁▂▃▄▅▆▇█"
BARS_ASCII = "_.-=*#"
SHARE_STYLES = ("cyan", "magenta", "green", "bright_black")
SHADES = "█▓▒░"
"""For a bar without colours."""
SHADES_ASCII = "#=+."
ALARM = "bold red"
LABEL_WIDTH = 12
LOSS_WIDTH = 19
MARGIN = 2
"""Columns to the right of the panel, where the terminal writes its ``^C``: in the next line it would move the panel."""
ENOUGH_LINES = 18
"""A terminal with fewer lines gets a panel without its details."""


class RunPanel:
    """The run as it is when the panel is drawn."""

    def __init__(self, goal: Goal, course: Course) -> None:
        self._goal = goal
        self._course = course

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it, for rich."""
        report, goal = self._course.last, self._goal
        width = max(options.max_width - MARGIN, 1)
        dot = "-" if options.ascii_only else "·"
        environments = "1 environment" if goal.n_envs == 1 else f"{goal.n_envs} environments"
        title = Text.assemble(
            (showable(goal.env, console.encoding), "bold"),
            f" {dot} {environments} {dot} {goal.backend} {dot} {goal.device}",
        )
        if report is None:
            body: RenderableType = Text("Collecting the first rollout", "dim")
        else:
            rows = Table.grid(padding=(0, 1), expand=True)
            rows.add_column(style="dim", width=LABEL_WIDTH, no_wrap=True)
            rows.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
            for label, content in self._rows(report, width - LABEL_WIDTH - 5, console, options):  # less the frame
                rows.add_row(label, content)
            body = Group(_progress_line(goal, report), "", rows)
        panel = Panel(body, title=title, title_align="left", width=width, border_style="cyan")
        if goal.folder is not None:
            panel.subtitle = Text(showable(goal.folder, console.encoding), "dim", overflow="ellipsis")
            panel.subtitle_align = "left"
        yield _Encodable(panel)

    def _rows(
        self, report: Report, width: int, console: Console, options: ConsoleOptions
    ) -> Iterator[tuple[str, RenderableType]]:
        number, best = amount(report.mean_return), f"best {amount(self._course.best_mean_return)}"
        trend = list(self._course.trend)[-max(1, width - len(number) - 2) :]
        bars = sparkline(trend, BARS_ASCII if options.ascii_only else BARS)
        mean = Text.assemble((number, _alarm(report.mean_return) or "bold"), "  ", (bars, "cyan"))
        if trend and len(number) + TREND_LENGTH + len(best) + 4 <= width:
            mean.append(f"  {best}", "dim")
        yield report.curve, mean
        for row in report.rows():
            yield row.label, _row(row, "->" if options.ascii_only else "→")
        yield "Steps", f"{report.steps:,}   {report.steps_per_second:,.0f}/s   {clock(report.seconds)} so far"
        if report.restarts:
            replaced = "1 worker was replaced" if report.restarts == 1 else f"{report.restarts:,} workers were replaced"
            yield "Restarts", Text(replaced, "bold yellow")
        if console.height >= ENOUGH_LINES:
            yield f"{report.turn}s", f"{report.updates:,}   learning rate {report.learning_rate:.2e}"
            yield "Losses", _losses(report, width)
            yield "Time", _time(report, width, console, options)


def summary(rows: Iterable[tuple[str, str]], sentence: str, title: str, encoding: str) -> RenderableType:
    """The panel that stays when training has ended."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        restarted = name == "Restarts" and value != "0"
        table.add_row(name, Text(showable(value, encoding), "bold yellow" if restarted else ""))
    heading = Text(showable(sentence, encoding), "bold")
    body = Group(heading, "", table) if table.row_count else heading
    env = Text(showable(title, encoding), "bold")
    return _Encodable(Panel(body, title=env, title_align="left", border_style="cyan", expand=False))


class _Encodable:
    """Something whose ellipses can be written in any encoding: rich spares no thought for these."""

    def __init__(self, content: RenderableType) -> None:
        self._content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for text, style, control in console.render(self._content, options):
            yield Segment(text.replace("…", ".") if options.ascii_only else text, style, control)


def sparkline(values: list[float], ramp: str) -> str:
    """The values as a line of bars from the lowest to the highest; what is no number is an exclamation mark."""
    finite = [value for value in values if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    scale = (len(ramp) - 1) / (high - low) if 0 < high - low < math.inf else 0.0

    def bar(value: float) -> str:
        if not math.isfinite(value):
            return "!"
        return ramp[round((value - low) * scale)] if scale else ramp[0]

    return "".join(map(bar, values))


def stacked_bar(shares: list[tuple[str, float]], width: int) -> list[int]:
    """How many of ``width`` characters each share gets: rounded so that they add up."""
    ends, total = [0], 0.0
    for _, share in shares:
        total += share
        ends.append(round(total * width))
    return [end - start for start, end in itertools.pairwise(ends)]


def _progress_line(goal: Goal, report: Report) -> RenderableType:
    done, words = progress(goal, report)
    if done is None:
        return Text(words, "bold")
    line = Table.grid(padding=(0, 1), expand=True)
    line.add_column(no_wrap=True, style="bold")
    line.add_column(ratio=1)
    line.add_column(no_wrap=True, justify="right")
    bar = ProgressBar(1.0, done, complete_style="cyan", finished_style="green")
    left = clock(report.seconds_left).replace(UNKNOWN, "-:--:--")
    # Rounded down: 100% means that it is done.
    line.add_row(words, bar, f"{math.floor(done * 100):3}%  {left} left")
    return line


def _row(row: Row, arrow: str) -> Text:
    text = Text(f" {arrow} ").join(Text(_number(number), _alarm(number)) for number in row.numbers)
    return text.append(f"   {row.words}") if row.words else text


def _number(value: float | None) -> str:
    return f"{value:,}" if isinstance(value, int) else amount(value)


def _losses(report: Report, width: int) -> RenderableType:
    cells = [
        Text.assemble(f"{loss_label(name)[:9]:<10}", (f"{loss_value(value):>9}", _alarm(value)))
        for name, value in report.losses.items()
    ]
    # All columns are as wide as the widest number, so that nothing moves when one of them gets a sign.
    columns = max(1, (width + 2) // (LOSS_WIDTH + 2))
    grid = Table.grid(padding=(0, 2))
    for _ in range(columns):
        grid.add_column(width=LOSS_WIDTH, no_wrap=True)
    for start in range(0, len(cells), columns):
        grid.add_row(*cells[start : start + columns])
    return grid if cells else Text(UNKNOWN)


def _time(report: Report, width: int, console: Console, options: ConsoleOptions) -> RenderableType:
    shares = time_shares(report)
    if not shares:
        return Text(UNKNOWN)
    coloured = console.color_system is not None and not console.no_color and not options.ascii_only
    shades = "▇" * len(SHADES) if coloured else SHADES_ASCII if options.ascii_only else SHADES
    bar, legend = Text(no_wrap=True), []
    for index, ((name, share), length) in enumerate(zip(shares, stacked_bar(shares, width), strict=True)):
        shade, style = shades[index % len(shades)], SHARE_STYLES[index % len(SHARE_STYLES)]
        bar.append(shade * length, style)
        legend.append(Text.assemble(("■" if coloured else shade, style), f" {name} {share:.0%}", no_wrap=True))
    return Group(bar, Columns(legend, padding=(0, 2)))


def _alarm(value: float | None) -> str:
    return "" if value is None or math.isfinite(value) else ALARM

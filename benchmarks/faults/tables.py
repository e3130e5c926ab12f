"""The results as tables: on the terminal, and as Markdown that a page of the documentation can include."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.faults.faults import FAULTS, LIMIT_SECONDS, Fault
from benchmarks.faults.libraries import LIBRARIES, Library
from benchmarks.faults.records import Record
from benchmarks.faults.verdicts import Verdicts, judge

_STYLES = {"good": "green", "fair": "yellow", "bad": "red"}

Found = dict[tuple[str, str], Verdicts]

_EXPLANATION = f"""\
# The same faults on every library

Four environments, a rollout of 40 steps with episodes that end and are reset in it. The fault strikes environment 2 in step
20, once unless it is said otherwise: when the step is taken again, it goes well. Every result is held against a rollout of
the same library in which nothing goes wrong. After an error the caller resets everything with the first seed and takes 15
more steps; where "the caller goes on", the same step is taken again instead. In the end everything is closed. Where a
library can limit the time of a step, and the fault takes for ever, the limit is {LIMIT_SECONDS:.0f} s. A wait of 20 s
(30 s for `close()`) is said to hang, and is ended by Ctrl-C.

"Identical" means: as if nothing had happened. **Bold** is wrong data, a wait without end, or processes left behind."""


def show(console: Console, records: Sequence[Record]) -> None:
    found = _found(records)
    for libraries, faults in _parts(found):
        table = Table(title="What the user sees", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
        table.add_column("fault")
        for library in libraries:
            table.add_column(library.title.replace("`", ""))
        for fault in faults:
            cells = []
            for library in libraries:
                verdicts = found.get((library.name, fault.name))
                cells.append(f"[{_STYLES[verdicts.grade]}]{verdicts.short}[/]" if verdicts else "")
            table.add_row(fault.title.replace("`", ""), *cells)
        console.print(table)


def markdown(records: Sequence[Record], versions: dict[str, str], python: str) -> str:
    """An overview, and how everything was set up."""
    found = _found(records)
    lines = [_EXPLANATION, ""]
    for libraries, faults in _parts(found):
        lines += _row(["fault", *(library.title for library in libraries)], is_head=True)
        for fault in faults:
            verdicts = [found.get((library.name, fault.name)) for library in libraries]
            lines += _row([fault.title, *(_marked(one) if one else "" for one in verdicts)])
        lines.append("")
    lines += ["## How each was set up", ""]
    lines += _row(["library", "version", "set up as", "limits"], is_head=True)
    for library in LIBRARIES:
        if any(name == library.name for name, _ in found):
            version = versions.get(library.distribution, "")
            lines += _row([library.title, version, library.setup, library.limit])
    lines += [
        "",
        f"Python {python}, Linux. Everything else is as each library has it by default, the start method included.",
    ]
    lines += ["Repeat it with `python -m benchmarks.faults`.", ""]
    return "\n".join(lines)


def details(records: Sequence[Record]) -> str:
    """Fault by fault, what each library did, in its own words."""
    found = _found(records)
    lines = ["# Fault by fault", ""]
    for fault in FAULTS:
        lines += _details(fault, found)
    return "\n".join(lines)


def _details(fault: Fault, found: Found) -> list[str]:
    rows = [(library, found[library.name, fault.name]) for library in LIBRARIES if (library.name, fault.name) in found]
    if not rows:
        return []
    lines = [f"## {fault.title[0].upper()}{fault.title[1:]}", ""]
    if fault.origin == "parent":
        lines += _row(["library", "processes"], is_head=True)
        for library, verdicts in rows:
            lines += _row([library.title, verdicts.rollout.full])
        return [*lines, ""]
    answer = "the same step again" if fault.answer == "again" else "reset"
    lines += _row(["library", "rollout", f"after an error: {answer}", "`close()`"], is_head=True)
    for library, verdicts in rows:
        lines += _row([library.title, verdicts.rollout.full, verdicts.answer.full, verdicts.close.full])
    return [*lines, ""]


def _marked(verdicts: Verdicts) -> str:
    return f"**{verdicts.short}**" if verdicts.grade == "bad" else verdicts.short


def _row(cells: Sequence[str], is_head: bool = False) -> list[str]:
    line = f"| {' | '.join(cells)} |"
    return [line, f"|{'---|' * len(cells)}"] if is_head else [line]


def _found(records: Sequence[Record]) -> Found:
    return {(record.library, record.fault): judge(record) for record in records}


def _parts(found: Found) -> list[tuple[list[Library], list[Fault]]]:
    """The libraries beside each other, then the settings of one."""
    faults = [fault for fault in FAULTS if any(name == fault.name for _, name in found)]
    present = [library for library in LIBRARIES if any(name == library.name for name, _ in found)]
    ways = ([one for one in present if not one.is_variant], [one for one in present if one.is_variant])
    return [(libraries, faults) for libraries in ways if libraries]

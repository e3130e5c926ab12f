"""``shoal check``: does an environment give the same results however it is run, and if not, why not?"""

from __future__ import annotations

from typing import Annotated, Any

import gymnasium
import tyro
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from shoal.envs.naming import find
from shoal.testing import Finding, Report, check_parallel, check_restorable
from shoal.testing.findings import CHECKS
from shoal.testing.restorable import FEWEST_STEPS
from shoal.vector.errors import ConfigurationError, ShoalError

MISUSE = 2
MOST_LINES = 12


def check(
    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")],
    num_envs: tuple[int, ...] = (1, 3, 14),
    num_workers: tuple[int, ...] = (1, 2),
    steps: int = 250,
    seeds: tuple[int, ...] = (0, 1, 2),
    backends: tuple[str, ...] = ("serial", "threads", "pipes", "shm"),
    isolate_rng: bool = False,
    call_timeout: float = 20.0,
    total_timeout: float = 120.0,
) -> int:
    """Look for the usual bugs of an environment: run it alone, repeatedly, in company, on every backend, and compare.

    If it is sound, its worker is killed too, to see whether and how it can be brought back.

    The exit code is 0 if it is sound, 1 if it is not, 2 if there is no such environment.

    Args:
        env: an environment registered with Gymnasium, or module:callable.
        num_envs: how many at a time, one number after the other.
        num_workers: on how many workers, one number after the other.
        steps: how many steps each run has; slow environments take fewer.
        seeds: one run for each.
        backends: which backends to compare.
        isolate_rng: whether environments have their own global random numbers, as with shoal.make(isolate_rng=True).
        call_timeout: seconds that making it, a reset or a step may take.
        total_timeout: seconds that the whole check may take.
    """
    console = Console(highlight=False)
    try:
        subject = find(env)
        with console.status(f"checking {env} ..."):
            report = check_parallel(
                subject,
                steps=steps,
                seeds=seeds,
                backends=backends,
                num_envs=num_envs,
                num_workers=num_workers,
                isolate_rng=isolate_rng,
                call_timeout=call_timeout,
                total_timeout=total_timeout,
                raise_on_error=False,
            )
    except (ConfigurationError, gymnasium.error.Error) as error:
        Console(stderr=True, highlight=False).print(Text.assemble(("error:", "red"), f" {error}"), soft_wrap=True)
        return MISUSE
    console.print(Padding(_shown(report), (1, 1), expand=False))
    if report.ok:
        console.print(Padding(Text(_restorability(subject, steps, call_timeout)), (0, 1, 1, 1), expand=False))
    return 0 if report.ok else 1


def _restorability(subject: Any, steps: int, call_timeout: float) -> str:
    try:
        return str(check_restorable(subject, steps=max(steps, FEWEST_STEPS), call_timeout=call_timeout))
    except ShoalError as error:
        return f"whether it can be restored could not be found out: {error}"


def _shown(report: Report) -> Group:
    seeds = ", ".join(map(str, report.seeds))
    title = Text.assemble((report.env, "bold"), f"  {report.steps} steps, seeds {seeds}, {report.seconds:.1f} s")
    parts: list[Any] = [title, Text(), _checks(report), Text()]
    for finding in report.findings:
        parts.extend([*_finding(finding), Text()])
    if report.ok:
        verdict = Text.assemble(("sound", "bold green"), f": the same alone and on {report.compared}")
    else:
        count = len(report.errors)
        verdict = Text.assemble((f"{count} error{'s' if count > 1 else ''}", "bold red"))
        if any(check.stage not in report.done for check in CHECKS):
            verdict.append("; what is marked ? was not checked because of that")
    return Group(*parts, verdict)


def _checks(report: Report) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for stage, title, kinds in CHECKS:
        found = {finding.severity for finding in report.findings if finding.kind in kinds}
        if "error" in found:
            table.add_row(Text("✗", "red"), Text(title, "red"))
        elif stage not in report.done:
            table.add_row(Text("?", "dim"), Text(title, "dim"))
        elif found:
            table.add_row(Text("•", "yellow"), Text(title, "yellow"))
        else:
            table.add_row(Text("✓", "green"), title)
    return table


def _finding(finding: Finding) -> list[Any]:
    colour = "red" if finding.severity == "error" else "yellow"
    lines = finding.detail.splitlines()
    if len(lines) > MOST_LINES:
        lines = [*lines[:2], f"... {len(lines) - MOST_LINES} lines ...", *lines[2 - MOST_LINES :]]
    heading = Text.assemble((finding.severity, f"bold {colour}"), f"  {finding.kind}")
    message = Padding(Text(finding.message), (0, 0, 0, 2), expand=False)
    return [heading, message, *([Padding(Text("\n".join(lines), "dim"), (0, 0, 0, 4), expand=False)] if lines else [])]

"""The run: every library on every fault, one after the other, then the tables."""

from __future__ import annotations

import dataclasses
import json
import platform
import shlex
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from benchmarks import peers_venv
from benchmarks.faults.faults import FAULTS
from benchmarks.faults.judge import Judge
from benchmarks.faults.libraries import LIBRARIES, Library
from benchmarks.faults.options import Options
from benchmarks.faults.records import Record
from benchmarks.faults.tables import details, markdown, show
from benchmarks.faults.verdicts import judge
from benchmarks.throughput.machine import installed_versions


@dataclass
class Run:
    """What goes to JSON."""

    command: str
    started: str
    """UTC, ISO 8601."""
    python: str
    system: str
    versions: dict[str, str]
    records: list[Record]


def main(options: Options) -> None:
    # So that being ended from outside leaves no trial behind either.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options.output.mkdir(parents=True, exist_ok=True)
    logs = options.output / "logs"
    logs.mkdir(exist_ok=True)
    console = Console()
    versions = installed_versions(["numpy", "torch", *(library.distribution for library in LIBRARIES)])
    run = Run(
        command=shlex.join(["python", "-m", "benchmarks.faults", *sys.argv[1:]]),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        versions=versions,
        records=_earlier(options.output / "faults.json", versions) if options.keep else [],
    )
    with tempfile.TemporaryDirectory() as folder:
        for library in options.libraries:
            _try_out(library, options, Judge(logs), Path(folder), run, console)
    show(console, run.records)
    (options.output / "faults.md").write_text(markdown(run.records, run.versions, run.python))
    (options.output / "details.md").write_text(details(run.records))
    console.print(f"Saved faults.json, faults.md and details.md in {options.output}")


def _try_out(library: Library, options: Options, court: Judge, folder: Path, run: Run, console: Console) -> None:
    reference = folder / f"{library.name}.pickle"
    with console.status(f"{library.name}: a rollout without faults") as status:
        nothing = court.record_reference(library, FAULTS[0], reference)
        reason = peers_venv.installation_problems().get(library.distribution)
        for fault in options.faults:
            status.update(f"{library.name}: {fault.title}")
            if reference.exists():
                record = court.try_out(library, fault, reference)
            else:
                record = Record(library.name, fault.name, problem=reason or nothing.problem or "it has no rollout")
            _put(run.records, record)
            text = json.dumps(dataclasses.asdict(run), indent=2)
            (options.output / "faults.json").write_text(text + "\n")
            console.print(f"{library.name}, {fault.name}: {judge(record).short}", highlight=False)


def _put(records: list[Record], record: Record) -> None:
    """In the order of the tables, in place of an earlier one of the same."""
    records[:] = [one for one in records if (one.library, one.fault) != (record.library, record.fault)]
    records.append(record)
    libraries, faults = _names(LIBRARIES), _names(FAULTS)
    records.sort(key=lambda one: (libraries.index(one.library), faults.index(one.fault)))


def _names(known: Sequence[object]) -> list[str]:
    return [one.name for one in known]  # type: ignore[attr-defined]


def _earlier(path: Path, versions: dict[str, str]) -> list[Record]:
    """What an earlier run with the same versions has found."""
    if not path.exists():
        return []
    found = json.loads(path.read_text())
    if found["versions"] != versions:
        return []
    return [Record(**record) for record in found["records"]]

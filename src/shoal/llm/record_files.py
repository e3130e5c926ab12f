"""Files of trajectories: JSON lines, to which one adds while a rollout runs, and Parquet, which others read."""

from __future__ import annotations

import importlib
import io
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from shoal.llm.records import TrajectoryRecord
from shoal.runs.durable import sync_folder, write_new
from shoal.runs.json_lines import append_lines, read_lines
from shoal.vector.errors import ConfigurationError, StateError


def append_records(path: str | os.PathLike[str], records: Iterable[TrajectoryRecord]) -> None:
    """Add trajectories to a file of JSON lines. A kill or a full disk leaves whole lines behind."""
    lines = "".join(f"{json.dumps(one.to_json(), ensure_ascii=False)}\n" for one in records)
    if lines:
        append_lines(Path(path), lines.encode(errors="replace"))


def read_records(path: str | os.PathLike[str]) -> Iterator[TrajectoryRecord]:
    """The trajectories of a file of JSON lines (``.jsonl``) or of Parquet (``.parquet``)."""
    path = Path(path)
    if path.suffix == ".parquet":
        for row in _pyarrow("pyarrow.parquet").read_table(path).to_pylist():
            yield TrajectoryRecord.from_json({**row, **{name: json.loads(row[name]) for name in _AS_JSON}})
        return
    for number, line in read_lines(path):
        if line is None:
            raise StateError(f"line {number} of {path} is no trajectory")
        yield TrajectoryRecord.from_json(line)


def write_parquet(path: str | os.PathLike[str], records: Iterable[TrajectoryRecord]) -> None:
    """Write trajectories to a file of Parquet, one row each. It is there as a whole, or as it was before."""
    pyarrow, parquet = _pyarrow("pyarrow"), _pyarrow("pyarrow.parquet")
    rows = [_row(one) for one in records]
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema=_schema(pyarrow)), buffer, compression="zstd")
    path = Path(path)
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    write_new(new, buffer.getvalue())
    new.replace(path)
    sync_folder(path.parent)


_AS_JSON = ("config", "options", "turns", "drift")
"""Columns whose shape depends on the world: texts, in JSON."""
_DERIVED = ("task", "id", "episode_return", "num_turns")
"""Columns for those who look at the file with other tools."""


def _row(record: TrajectoryRecord) -> dict[str, Any]:
    value = record.to_json()
    row = {**value, **{name: json.dumps(value[name], ensure_ascii=False) for name in _AS_JSON}}
    derived = (record.task, record.id, record.episode_return, len(record.turns))
    return {**row, **dict(zip(_DERIVED, derived, strict=True))}


def _schema(pyarrow: Any) -> Any:
    texts = ("env_type", "tag", "mode", "final_state", "status", "error", "task", "id", *_AS_JSON)
    numbers = ("seed", "group", "member", "round", "attempt", "version", "num_turns")
    flags = ("success", "terminated", "truncated")
    fields = [(name, pyarrow.string()) for name in texts] + [(name, pyarrow.int64()) for name in numbers]
    fields += [(name, pyarrow.bool_()) for name in flags]
    return pyarrow.schema([*fields, ("episode_return", pyarrow.float64())])


def _pyarrow(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigurationError("Parquet files need pyarrow: pip install 'shoal[llm]', or use JSON lines") from error

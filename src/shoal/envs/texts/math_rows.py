"""Questions with answers, in the form of MetaMathQA's rows: from a file, or from the Hugging Face hub."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from shoal.envs.texts.word_problems import ANSWER_MARK
from shoal.vector.errors import ConfigurationError

COLUMNS = ("query", "response")
FILES = (".parquet", ".jsonl", ".json")


class Row(NamedTuple):
    """What is asked, and the answer."""

    query: str
    answer: str


def answer_in(response: Any) -> str:
    """What follows the last "The answer is: "; empty where nothing does."""
    return response.rpartition(ANSWER_MARK)[2].strip() if isinstance(response, str) and ANSWER_MARK in response else ""


def rows_from(path: str, split: str, cache_dir: str, most: int) -> tuple[Row, ...]:
    """The rows of a file (Parquet or JSON lines), or of a dataset of the hub, that have an answer."""
    if not path.endswith(FILES) and not os.path.exists(path):
        return _from_hub(path, split, os.path.abspath(os.path.expanduser(cache_dir)), most)
    path = os.path.abspath(os.path.expanduser(path))
    if not os.path.isfile(path):
        raise ConfigurationError(
            f"dataset_path: there is no file {path}. Leave dataset_path out for problems that are made, not read"
        )
    return _from_file(path, most, os.stat(path).st_mtime_ns)


@functools.lru_cache(4)
def _from_file(path: str, most: int, _modified: int) -> tuple[Row, ...]:
    """Read once for all environments of a process."""
    return _answered(_parquet_rows(path) if path.endswith(".parquet") else _json_rows(path), most, path)


@functools.lru_cache(4)
def _from_hub(path: str, split: str, cache_dir: str, most: int) -> tuple[Row, ...]:
    try:
        import datasets
    except ImportError:
        raise ConfigurationError(
            f"dataset_path={path!r} is no file, and the Hugging Face hub is read by `datasets`, which is not installed: "
            "pip install 'shoal[hf]'. Or give a file, or leave dataset_path out for problems that are made"
        ) from None
    try:
        rows = datasets.load_dataset(path, split=split, cache_dir=cache_dir)
        _check_columns(rows.column_names, path)
        return _answered(({name: row[name] for name in COLUMNS} for row in rows), most, path)
    except ConfigurationError:
        raise
    except Exception as error:  # of the network, of the hub, of the files there
        raise ConfigurationError(
            f"dataset_path={path!r}, split={split!r} cannot be had from the Hugging Face hub: {type(error).__name__}: {error}. "
            "What to do: give the path of a Parquet or JSON lines file with the columns query and response, or leave "
            "dataset_path out for problems that are made"
        ) from error


def _answered(rows: Iterable[dict[str, Any]], most: int, path: str) -> tuple[Row, ...]:
    kept: list[Row] = []
    number = 0
    for row in rows:
        number += 1
        answer, query = answer_in(row["response"]), row["query"]
        if answer and isinstance(query, str) and query:
            kept.append(Row(query, answer))
        if number == most:
            break
    if not kept:
        raise ConfigurationError(
            f'dataset_path: none of the first {number} rows of {path} has a query and a response with "{ANSWER_MARK}"'
        )
    return tuple(kept)


def _check_columns(names: Iterable[str], path: str) -> None:
    names = list(names)
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise ConfigurationError(
            f"dataset_path: {path} has no column {' and no column '.join(map(repr, missing))}; it has {', '.join(names)}"
        )


def _parquet_rows(path: str) -> Iterator[dict[str, Any]]:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise ConfigurationError(
            f"dataset_path={path!r}: Parquet files are read by pyarrow, which is not installed: pip install 'shoal[llm]'"
        ) from None
    try:
        file = parquet.ParquetFile(path)
        _check_columns(file.schema_arrow.names, path)
        for batch in file.iter_batches(batch_size=4096, columns=list(COLUMNS), use_threads=False):
            yield from batch.to_pylist()
    except (arrow.ArrowException, OSError) as error:
        raise ConfigurationError(f"dataset_path: {path} cannot be read as a Parquet file: {error}") from error


def _json_rows(path: str) -> Iterator[dict[str, Any]]:
    """A row in each line, or one list of rows."""
    try:
        with open(path, encoding="utf-8") as file:
            begins_list = file.read(1) == "["
            file.seek(0)
            for row in json.load(file) if begins_list else (json.loads(line) for line in file if line.strip()):
                _check_columns(row if isinstance(row, dict) else (), path)
                yield row
    except (ValueError, OSError, RecursionError) as error:
        if isinstance(error, ConfigurationError):
            raise
        raise ConfigurationError(f"dataset_path: {path} cannot be read as JSON lines: {error}") from error

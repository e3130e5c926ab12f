"""Many environments' infos as one dictionary, arranged as Gymnasium arranges it.

A key becomes an array over all environments, and ``_key`` a mask of those that had it. Numbers become a numeric array,
arrays of one shape a stacked array, dictionaries are batched in turn, ``final_obs`` and everything else an array of objects.

Where Gymnasium would damage values, this does not: numbers of different types meet in a type that holds them all (not in
the first one's), and arrays of different shapes, or of numbers and something else, become objects (not an exception).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from shoal.vector.layout import Array, Rows, as_index

Column = Array | list[str]
"""One value for each environment: plain numbers, arrays of one shape stacked, or texts."""


class Columns(NamedTuple):
    """The infos of many environments that were stepped together: for each name one value for each of them."""

    rows: Rows
    values: dict[str, Any]
    """Of each name a :data:`Column`."""


Told = list[tuple[int, dict[str, Any]]]
"""Environments, and what each of them has told."""
EnvInfo = tuple[int, dict[str, Any]] | Columns
"""An environment and its info, or many at once."""
EnvInfos = list[EnvInfo]
"""The infos of those environments that had any."""


def by_environment(env_infos: Iterable[EnvInfo]) -> dict[int, dict[str, Any]]:
    """Every environment's own info."""
    infos: dict[int, dict[str, Any]] = {}
    for entry in env_infos:
        own = zip(entry.rows, _one_by_one(entry), strict=True) if isinstance(entry, Columns) else [entry]
        for row, info in own:
            infos[row] = infos[row] | info if row in infos else info
    return infos


def _one_by_one(columns: Columns) -> Iterator[dict[str, Any]]:
    values = [
        column if isinstance(column, list) else column.tolist() if column.ndim == 1 else list(column)
        for column in columns.values.values()
    ]
    for own in zip(*values, strict=True) if values else [()] * len(columns.rows):
        yield dict(zip(columns.values, own, strict=True))


def in_columns(rows: Rows, infos: Sequence[dict[str, Any]]) -> Columns | None:
    """The infos of these environments as columns that share nothing with them; ``None`` unless they are alike and simple.

    Where this is done beside the environments, the caller has less to read and to sort, and :func:`batch_infos` gives the
    same in the end.
    """
    names = tuple(infos[0])
    if not _are_plain(names) or sum(map(len, infos)) != len(names) * len(infos):
        return None
    columns: dict[str, Column] = {}
    for name in names:
        try:
            column = _column([info[name] for info in infos])
        except KeyError:
            return None
        if column is None:
            return None
        columns[name] = column
    return Columns(rows, columns)


@functools.lru_cache(maxsize=64)
def _are_plain(names: tuple[Any, ...]) -> bool:
    """Whether there are any, and none is treated specially, or looks like that of a mask."""
    are_plain = [type(name) is str and name != "final_obs" and not name.startswith("_") for name in names]
    return bool(names) and all(are_plain)


def _column(values: list[Any]) -> Column | None:
    kinds = set(map(type, values))
    if len(kinds) > 1:
        return None
    (kind,) = kinds
    if kind is float or kind is bool:
        return np.array(values, kind)
    if kind is str:
        return values
    if kind is int:
        try:
            return np.array(values, np.int64)
        except OverflowError:
            return None
    if kind is np.ndarray:
        shape, dtype = values[0].shape, values[0].dtype
        is_plain = shape and dtype.kind in "biufc" and dtype.isnative
        if is_plain and all(each.shape == shape and each.dtype == dtype for each in values):
            return np.array(values)
    return None


def batch_infos(env_infos: Sequence[EnvInfo], num_envs: int) -> dict[str, Any]:
    """The infos of one step or reset as one dictionary."""
    if not env_infos:
        return {}
    if len(env_infos) == 1 and isinstance(env_infos[0], Columns):
        return _batch_columns([env_infos[0]], num_envs)
    columns = sorted((entry for entry in env_infos if isinstance(entry, Columns)), key=_first_row)
    others = [entry for entry in env_infos if not isinstance(entry, Columns)]
    if not columns:
        return _batch_each(others, num_envs)
    names = {name for entry in columns for name in entry.values}
    if any(not names.isdisjoint(info) for _, info in others) or not _fit(columns):
        return _batch_each(list(by_environment(env_infos).items()), num_envs)
    batched = _batch_columns(columns, num_envs)
    if not others and len(batched) == 2 * len(columns[0].values):
        return batched  # the first ones have named everything, so that the order is right
    # In the order in which the environments, the first one first, have named them.
    batched.update(_batch_each(others, num_envs))
    named = (entry[1] for entry in sorted(env_infos, key=_first_row))
    ordered = dict.fromkeys(name for names in named for name in names)
    return {key: batched[key] for name in ordered for key in (name, f"_{name}")}


def _first_row(entry: EnvInfo) -> int:
    return entry.rows[0] if isinstance(entry, Columns) else entry[0]


def _fit(columns: list[Columns]) -> bool:
    """Whether what has the same name is of the same kind."""
    if len(columns) == 1:
        return True
    kinds: dict[str, set[Any]] = {}
    for _, values in columns:
        for name, column in values.items():
            kind = list if isinstance(column, list) else (column.dtype, column.shape[1:])
            kinds.setdefault(name, set()).add(kind)
    return all(len(found) == 1 for found in kinds.values())


def num_informed(infos: dict[str, Any]) -> int:
    """How many environments have said something, by a dictionary that :func:`batch_infos` has made."""
    arrays = [array for key, array in infos.items() if key.startswith("_") and isinstance(array, np.ndarray)]
    return int(max((np.count_nonzero(mask) for mask in arrays if mask.dtype == np.bool_), default=0))


def _batch_columns(columns: list[Columns], num_envs: int) -> dict[str, Any]:
    batched: dict[str, Any] = {}
    for rows, values in columns:
        for name, column in values.items():
            if isinstance(column, list):
                shape: tuple[int, ...] = ()
                dtype, empty = np.dtype(object), None
            else:
                shape, dtype, empty = column.shape[1:], column.dtype, 0
                if len(rows) == num_envs and isinstance(rows, range):
                    batched[name], batched[f"_{name}"] = column, np.ones(num_envs, np.bool_)
                    continue
            if name not in batched:
                batched[name] = np.full((num_envs, *shape), empty, dtype)
                batched[f"_{name}"] = np.zeros(num_envs, np.bool_)
            batched[name][as_index(rows)], batched[f"_{name}"][as_index(rows)] = column, True
    return batched


def _batch_each(env_infos: list[tuple[int, dict[str, Any]]], num_envs: int) -> dict[str, Any]:
    # By environment, so that nothing depends on how they are spread over workers.
    env_infos = sorted(env_infos, key=operator.itemgetter(0))
    by_key: dict[str, tuple[list[int], list[Any]]] = {}
    for row, info in env_infos:
        for key, value in info.items():
            if key in by_key:
                rows, values = by_key[key]
                rows.append(row)
                values.append(value)
            else:
                by_key[key] = ([row], [value])
    batched: dict[str, Any] = {}
    for key, (rows, values) in by_key.items():
        mask = np.zeros(num_envs, dtype=np.bool_)
        mask[rows] = True
        batched[key] = _batch(key, rows, values, num_envs)
        batched[f"_{key}"] = mask
    return batched


def _batch(key: str, rows: list[int], values: list[Any], num_envs: int) -> Any:
    if key == "final_obs":
        return _objects(rows, values, num_envs)
    kinds = set(map(type, values))
    if all(issubclass(kind, dict) for kind in kinds):
        return _batch_each(list(zip(rows, values, strict=True)), num_envs)
    if all(kind in (int, float, bool) or issubclass(kind, np.number) for kind in kinds):
        return _numbers(rows, values, kinds, num_envs)
    if all(issubclass(kind, np.ndarray) for kind in kinds):
        shapes, dtypes = {value.shape for value in values}, {value.dtype for value in values}
        if len(shapes) == 1 and (len(dtypes) == 1 or all(dtype.kind in "biufc" for dtype in dtypes)):
            array = np.zeros((num_envs, *shapes.pop()), dtype=np.result_type(*dtypes))
            array[rows] = values
            return array
    return _objects(rows, values, num_envs)


def _numbers(rows: list[int], values: list[Any], kinds: Iterable[type], num_envs: int) -> Any:
    try:
        array = np.zeros(num_envs, dtype=np.result_type(*(np.dtype(kind) for kind in kinds)))
        array[rows] = values
    except OverflowError:  # an int beyond 64 bits
        return _objects(rows, values, num_envs)
    return array


def _objects(rows: list[int], values: list[Any], num_envs: int) -> Any:
    array = np.full(num_envs, fill_value=None, dtype=object)
    for row, value in zip(rows, values, strict=True):
        array[row] = value
    return array

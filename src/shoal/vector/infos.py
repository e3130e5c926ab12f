"""Many environments' infos as one dictionary, arranged as Gymnasium arranges it.

A key becomes an array over all environments, and ``_key`` a mask of those that had it. Numbers become a numeric array,
arrays of one shape a stacked array, dictionaries are batched in turn, ``final_obs`` and everything else an array of objects.

Where Gymnasium would damage values, this does not: numbers of different types meet in a type that holds them all (not in
the first one's), and arrays of different shapes become objects (not an exception).
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

EnvInfos = list[tuple[int, dict[str, Any]]]
"""The infos of those environments that had any: (environment, info)."""


def batch_infos(env_infos: EnvInfos, num_envs: int) -> dict[str, Any]:
    """The infos of one step or reset as one dictionary."""
    if not env_infos:
        return {}
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
        return batch_infos(list(zip(rows, values, strict=True)), num_envs)
    if all(kind in (int, float, bool) or issubclass(kind, np.number) for kind in kinds):
        return _numbers(rows, values, kinds, num_envs)
    if all(issubclass(kind, np.ndarray) for kind in kinds):
        shapes = {value.shape for value in values}
        if len(shapes) == 1:
            dtype = np.result_type(*{value.dtype for value in values})
            array = np.zeros((num_envs, *shapes.pop()), dtype=dtype)
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

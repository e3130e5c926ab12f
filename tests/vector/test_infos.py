"""Infos as one dictionary: Gymnasium's arrangement, without its damage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import VectorEnv

from shoal.vector.infos import batch_infos


def gymnasiums(env_infos: list[tuple[int, dict[str, Any]]], num_envs: int) -> dict[str, Any]:
    envs: VectorEnv[Any, Any, Any] = VectorEnv()
    envs.num_envs = num_envs
    batched: dict[str, Any] = {}
    for row, info in env_infos:
        batched = envs._add_info(batched, info, row)
    return batched


@pytest.mark.parametrize(
    "infos",
    [
        [],
        [(0, {"a": 1}), (2, {"a": 3})],
        [(0, {"a": 1.5, "b": True}), (1, {"b": False})],
        [(1, {"a": np.float32(2), "b": np.int16(3)})],
        [(0, {"a": np.arange(3)}), (1, {"a": np.arange(3) + 1})],
        [(0, {"a": "text", "b": None}), (2, {"a": "more", "b": [1, 2]})],
        [(0, {"a": {"b": {"c": 1}}, "d": 2}), (1, {"a": {"b": {"c": 2}}})],
        [(2, {"final_obs": np.zeros(2), "final_info": {"x": 1}})],
        [(0, {"final_info": {}})],
    ],
)
def test_the_arrangement_is_gymnasiums(infos: list[tuple[int, dict[str, Any]]]) -> None:
    ours, theirs = batch_infos(infos, 3), gymnasiums(infos, 3)
    assert data_equivalence(ours, theirs)
    assert list(ours) == list(theirs)


def test_numbers_of_different_types_keep_their_values() -> None:
    batched = batch_infos([(0, {"a": 1}), (1, {"a": 2.5}), (2, {"a": True})], 3)
    assert batched["a"].tolist() == [1.0, 2.5, 1.0]


def test_numbers_beyond_64_bits_stay_themselves() -> None:
    assert batch_infos([(1, {"a": 2**100})], 2)["a"].tolist() == [None, 2**100]


def test_arrays_of_different_shapes_become_objects() -> None:
    batched = batch_infos([(0, {"a": np.zeros(2)}), (1, {"a": np.zeros(3)})], 2)
    assert [array.shape for array in batched["a"]] == [(2,), (3,)]


def test_a_dictionary_beside_something_else_becomes_an_object() -> None:
    assert batch_infos([(0, {"a": {"b": 1}}), (1, {"a": 2})], 2)["a"].tolist() == [{"b": 1}, 2]


def test_the_order_of_keys_is_that_of_the_environments() -> None:
    assert list(batch_infos([(2, {"late": 1}), (0, {"early": 1})], 3)) == ["early", "_early", "late", "_late"]

"""Infos as one dictionary: Gymnasium's arrangement, without its damage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import VectorEnv
from hypothesis import given
from hypothesis import strategies as st

from shoal.vector.infos import Columns, EnvInfos, batch_infos, by_environment, in_columns


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


SIMPLE: dict[str, st.SearchStrategy[Any]] = {
    "whole": st.integers(-(2**63), 2**63 - 1),
    "real": st.floats(allow_nan=False),
    "flag": st.booleans(),
    "text": st.text(max_size=3),
    "array": st.lists(st.integers(-9, 9), min_size=2, max_size=2).map(lambda values: np.array(values, np.int16)),
}
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, 2**70, np.float32(1.5), 7, 0.5, True, "x", np.zeros(2), np.zeros(3), np.array(3), {"inner": 1}, [1], (1, 2)]
)


@given(
    infos=st.one_of(
        st.lists(st.fixed_dictionaries(SIMPLE), min_size=1, max_size=9),
        st.lists(st.dictionaries(st.sampled_from(["a", "b", "_a"]), ODD, max_size=3), min_size=1, max_size=9),
    ),
    cut=st.integers(0, 9),
)
def test_columns_say_the_same_as_the_infos_they_are_made_of(infos: list[dict[str, Any]], cut: int) -> None:
    each: EnvInfos = [(row, info) for row, info in enumerate(infos) if info]
    together: EnvInfos = []
    for first, part in ((0, infos[:cut]), (cut, infos[cut:])):
        rows = range(first, first + len(part))
        columns = in_columns(rows, part) if part else None
        together.extend([columns] if columns is not None else [(row, infos[row]) for row in rows if infos[row]])
    expected, found = batch_infos(each, len(infos)), batch_infos(together, len(infos))
    assert list(found) == list(expected)
    assert all(np.asarray(found[name]).dtype == np.asarray(value).dtype for name, value in expected.items())
    assert data_equivalence(found, expected)
    apart = by_environment(together)
    assert data_equivalence(apart, by_environment(each))
    assert {row: {name: type(value) for name, value in info.items()} for row, info in apart.items()} == {
        row: {name: type(value) for name, value in info.items()} for row, info in each
    }


def test_columns_without_a_name_are_empty_infos() -> None:
    assert by_environment([Columns([3, 5], {})]) == {3: {}, 5: {}}


def test_simple_infos_become_columns_that_share_nothing_with_them() -> None:
    array = np.zeros(2)
    columns = in_columns(range(2), [{"a": 1, "b": array, "c": "x"}, {"a": 2, "b": array, "c": "y"}])
    assert columns is not None
    array[:] = 9
    assert columns.values["b"].tolist() == [[0, 0], [0, 0]]
    assert in_columns(range(2), [{"a": 1}, {"a": 1.5}]) is None
    assert in_columns(range(2), [{"a": 1}, {"b": 1}]) is None

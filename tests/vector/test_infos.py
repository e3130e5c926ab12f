"""Infos as one dictionary: Gymnasium's arrangement, without its damage."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import VectorEnv
from hypothesis import given
from hypothesis import strategies as st

from shoal import ParallelEnv
from shoal.vector.infos import Columns, EnvInfos, batch_infos, by_environment, in_columns
from tests.envs import CountingEnv


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


class MixedInfoEnv(CountingEnv):
    """Tells numbers in some environments, and something else in others."""

    def __init__(self, index: int) -> None:
        super().__init__(length=100)
        self.index = index

    def step(self, action: Any) -> Any:
        *result, _ = super().step(action)
        row: Any = np.full(2, self.count + 0.1, np.float32)
        scalar: Any = np.float32(self.count)
        if self.index == 2:
            row, scalar = np.array(["left", None], object), None
        texts = np.array(["a", "b"]) if self.index == 1 else np.arange(2, dtype=np.int16)
        return *result, {"row": row, "scalar": scalar, "texts": texts, "inner": {"row": row}}


def test_numbers_beside_something_else_keep_their_types(make: Callable[..., ParallelEnv]) -> None:
    envs = make([functools.partial(MixedInfoEnv, index) for index in range(4)])
    envs.reset(seed=1)
    for count in range(1, 4):
        infos = envs.step([0] * 4)[-1]
        for rows in (infos["row"], infos["inner"]["row"]):
            assert [row.dtype for row in rows] == [np.float32, np.float32, object, np.float32]
            assert rows[3].tolist() == np.full(2, count + 0.1, np.float32).tolist()
            assert rows[2].tolist() == ["left", None]
        assert [type(value) for value in infos["scalar"]] == [np.float32, np.float32, type(None), np.float32]
        assert [row.dtype.kind for row in infos["texts"]] == ["i", "U", "i", "i"]
        assert infos["_row"].tolist() == [True] * 4


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

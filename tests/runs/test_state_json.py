"""A state comes back as it was: every bit, every type."""

from __future__ import annotations

import json
import math
import random
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.runs.state_json import NotEncoded, decode, encode


def round_trip(value: Any) -> Any:
    return decode(json.loads(json.dumps(encode(value), allow_nan=False)))


PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
KEYS = st.text() | st.integers() | st.tuples(st.integers(), st.text()) | st.just("$")
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@given(VALUES)
def test_plain_values_come_back_equal_and_of_the_same_types(value: Any) -> None:
    back = round_trip(value)
    assert back == value
    assert repr(back) == repr(value), "of the same types, in the same order, with the sign of zero"


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "u8", "<i4", ">i4", "f2", "f4", "f8", ">f8", "c8", "c16", "S3", "U3", "M8[ns]", "m8[s]"]
)
def test_arrays_and_scalars_of_every_plain_kind_come_back_bit_identical(dtype: str) -> None:
    bits = np.random.default_rng(0).integers(1, 100, 24 * 16, dtype=np.uint8)
    if np.dtype(dtype).kind in "?bU":
        array = np.array([0, 1, 1, 0] * 6).astype(dtype)
    else:
        array = bits[: 24 * np.dtype(dtype).itemsize].view(dtype)
    for shape in [(24,), (2, 3, 4), (24, 1)]:
        back = round_trip(array.reshape(shape))
        assert back.dtype == array.dtype
        assert back.shape == shape
        assert back.tobytes() == array.tobytes()
        assert back.flags.writeable
    scalar = array[3]
    back = round_trip(scalar)
    assert type(back) is type(scalar)
    assert back.tobytes() == scalar.tobytes()


def test_odd_arrays_come_back() -> None:
    payload = np.array([0x7FF8000000000123], dtype=np.uint64).view(np.float64)
    assert round_trip(payload).tobytes() == payload.tobytes(), "even what a NaN carries"
    for array in (np.zeros((0, 3)), np.array(5), np.zeros(()), np.arange(6).reshape(2, 3).T, np.arange(10)[::3]):
        back = round_trip(array)
        assert back.shape == array.shape
        np.testing.assert_array_equal(back, array)
        assert isinstance(back, np.ndarray)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, -0.0, 5e-324, 2**200])
def test_odd_numbers_come_back(value: float) -> None:
    assert repr(round_trip(value)) == repr(value)


def test_random_generators_go_on_from_where_they_were() -> None:
    ours, theirs = random.Random(1), np.random.default_rng(1)
    old = np.random.RandomState(1)
    state = round_trip({"ours": ours.getstate(), "theirs": theirs.bit_generator.state, "old": old.get_state()})
    expected = ours.random(), theirs.random(), old.random()
    ours.setstate(state["ours"])
    theirs.bit_generator.state = state["theirs"]
    old.set_state(state["old"])
    assert (ours.random(), theirs.random(), old.random()) == expected


def test_an_ordered_dictionary_is_a_dictionary() -> None:
    assert round_trip(OrderedDict(b=1, a=2)) == {"b": 1, "a": 2}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"a": [0, Path("x")]},
            r"state\['a'\]\[1\] is of <class 'pathlib.PosixPath'>, which a checkpoint does not hold. What to do",
        ),
        ({"a": {1, 2}}, r"state\['a'\] is of <class 'set'>"),
        ({"a": np.array([None])}, r"state\['a'\] is a NumPy value of dtype object"),
        ({"a": np.zeros(2, [("x", "f4")])}, r"state\['a'\] is a NumPy value of dtype \[\('x', '<f4'\)\]"),
        ({frozenset(): 1}, r"a key of state is of <class 'frozenset'>"),
    ],
    ids=["path", "set", "objects", "records", "key"],
)
def test_what_a_state_does_not_hold_is_named(value: Any, message: str) -> None:
    with pytest.raises(shoal.ConfigurationError, match=message):
        encode(value)


def test_a_tensor_in_the_state_is_refused_with_its_place() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(
        shoal.ConfigurationError, match=r"state\['w'\] is of <class 'torch.Tensor'>.*give tensors as `tensors`"
    ):
        encode({"w": torch.zeros(1)})


@pytest.mark.parametrize(
    "value",
    [
        {"$": "pickle", "data": "gASVAAA="},
        {"$": ["bytes"]},
        {"$": "bytes"},
        {"$": "bytes", "data": "not base64!"},
        {"$": "array", "dtype": "O", "shape": [1], "data": "AAAAAAAAAAA="},
        {"$": "array", "dtype": "<f4", "shape": [2], "data": "AAAA"},
        {"$": "array", "dtype": "<f4", "shape": [-1, -1], "data": "AAAAAA=="},
        {"$": "array", "dtype": "nonsense", "shape": [], "data": ""},
        {"$": "dict", "items": [[1]]},
        {"$": "dict", "items": [[[1], 2]]},
        {"$": "float", "value": "much"},
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_was_never_encoded_is_refused(value: Any) -> None:
    with pytest.raises(NotEncoded, match="stands for nothing"):
        decode({"a": [value]})

"""Environments say in many ways which actions are possible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import shoal
from shoal.ppo.heads import head_of
from shoal.ppo.masking import mask_of, masks_of
from shoal.vector.infos import batch_infos


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.array([1, 0, 1, 1, 0], np.int8), [1, 0, 1, 1, 0]),
        ([True, False, True, True, False], [1, 0, 1, 1, 0]),
        ((np.array([1, 0, 1], np.int8), np.array([0, 1], np.int8)), [1, 0, 1, 0, 1]),
        ((np.zeros(3, np.int8), [0, 1]), [1, 1, 1, 0, 1]),
    ],
)
def test_masks_may_be_arrays_lists_or_one_for_each_choice(given: Any, expected: list[int]) -> None:
    head = head_of(spaces.MultiDiscrete([3, 2]))
    batched = batch_infos([(1, {"action_mask": given})], 2)
    masks = masks_of(batched, 2, head)
    assert masks is not None
    assert masks.astype(int).tolist() == [[1] * 5, expected]
    alone = mask_of({"action_mask": given}, head)
    assert alone is not None
    assert alone.astype(int).tolist() == [expected]


@pytest.mark.parametrize("given", [np.ones(3), "yes", [[1], [1, 2]], 1.5])
def test_masks_that_do_not_fit_are_refused(given: Any) -> None:
    head = head_of(spaces.Discrete(5))
    with pytest.raises(shoal.ConfigurationError, match=r"info\['action_mask'\] must say of each action"):
        mask_of({"action_mask": given}, head)
    with pytest.raises(shoal.ConfigurationError, match=r"info\['action_mask'\] must say of each action"):
        masks_of(batch_infos([(0, {"action_mask": given})], 2), 2, head)

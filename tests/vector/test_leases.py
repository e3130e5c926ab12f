"""Observations without a copy: how long they hold, and how one sees that they no longer do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import shoal
from shoal import ParallelEnv
from tests.comparing import difference
from tests.envs import SpaceEnv, WalkingEnv, counting

Make = Callable[..., ParallelEnv]

MIXED = spaces.Dict(
    {"numbers": spaces.Box(-1, 1, (2,), np.float32), "count": spaces.Discrete(9), "word": spaces.Text(5),
     "bits": spaces.Tuple([spaces.MultiBinary(3), spaces.Box(0, 9, (), np.uint8)])}
)  # fmt: skip


def frozen(observation: Any) -> Any:
    """A copy of a batch of observations."""
    if isinstance(observation, dict):
        return {key: frozen(value) for key, value in observation.items()}
    if isinstance(observation, tuple):
        return tuple(map(frozen, observation))
    return observation.copy() if isinstance(observation, np.ndarray) else observation


@pytest.mark.parametrize("lease", [0, 1, 3])
def test_a_view_holds_for_as_many_further_steps_as_its_lease_says(make_any_way: Make, lease: int) -> None:
    envs = make_any_way([WalkingEnv] * 3, copy=False, lease=lease)
    views = [envs.reset(seed=1)[0]]
    copies = [views[0].copy()]
    for number in range(12):
        if number % 4 == 2:
            envs.get_attr("steps")  # what is no step does not count
        if number % 5 == 4:
            envs.reset(seed=number, env_ids=[1])
            views, copies = [], []
        views.append(envs.step([0, 1, 2])[0])
        copies.append(views[-1].copy())
        for view, copy in zip(views[-lease - 1 :], copies[-lease - 1 :], strict=True):
            assert not difference(view, copy)
        if len(views) > lease + 1:
            assert np.shares_memory(views[-1], views[-lease - 2]), "and then it is used again: nothing was copied"


def test_without_a_copy_the_results_are_the_same(make: Make) -> None:
    kept = make([lambda: SpaceEnv(MIXED, spaces.Discrete(2))] * 3)
    leased = make([lambda: SpaceEnv(MIXED, spaces.Discrete(2))] * 3, copy=False, lease=2)
    for envs in (kept, leased):
        envs.reset(seed=3)
    mask = np.array([False, True, False])
    for number in range(12):
        if number == 5:
            assert not difference(kept.reset(options={"reset_mask": mask}), leased.reset(options={"reset_mask": mask}))
        assert not difference(kept.step([0, 1, 0]), leased.step([0, 1, 0]))


def test_sending_and_receiving_work_without_a_copy(make: Make) -> None:
    envs = make([counting(99)] * 3, copy=False)
    envs.reset(seed=0)
    first, *_ = envs.step([0] * 3)
    envs.send([0, 0], [2, 0])
    batch = envs.recv(min_envs=2)
    assert batch.observation[:, 0].tolist() == [2.0, 2.0]
    second, *_ = envs.step([0] * 3)
    assert second[:, 0].tolist() == [3.0, 2.0, 3.0]
    assert first[1, 0] == 1.0


def test_a_batch_that_is_refused_ends_no_lease(make: Make) -> None:
    envs = make([counting(99)] * 2, copy=False, lease=1)
    first, _ = envs.reset(seed=0)
    for _ in range(3):
        with pytest.raises(shoal.InvalidAction):
            envs.step([0, 77])
    second, *_ = envs.step([0, 0])
    assert first[:, 0].tolist() == [0.0, 0.0]
    assert second[:, 0].tolist() == [1.0, 1.0]


def test_debugging_spoils_what_is_too_old(make: Make) -> None:
    envs = make([lambda: SpaceEnv(MIXED, spaces.Discrete(2))] * 2, copy=False, lease=1, debug_leases=True)
    first, _ = envs.reset(seed=0)
    before = frozen(first)
    envs.step([0, 0])
    assert not difference(first, before)
    envs.step([0, 0])
    assert np.isnan(first["numbers"]).all()
    assert (first["count"] == np.iinfo(np.int64).min).all()
    assert (first["bits"][1] == 255).all()
    assert first["word"] == before["word"]


@pytest.mark.parametrize("lease", [-1, 1.5, True])
def test_a_lease_that_is_no_number_of_steps_is_refused(lease: Any) -> None:
    with pytest.raises(shoal.ConfigurationError, match="lease must be a whole number of steps, 0 or more, got"):
        ParallelEnv([counting()], lease=lease)

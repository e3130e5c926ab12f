"""What holds in every game, whatever Blue does."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.cyber import true_states
from shoal.envs.cage2.actions import index_of
from shoal.envs.cage2.network import HOSTS, USER0, Subnet

N = 32
TENTHS = np.array([host.tenths for host in HOSTS])
ENTERPRISE = [number for number, host in enumerate(HOSTS) if host.name.startswith("Enterprise")]
OPERATIONAL = [number for number, host in enumerate(HOSTS) if host.subnet is Subnet.OPERATIONAL]
RESTORES = index_of("Restore", "Defender")

PLANS = st.lists(st.integers(0, 144), min_size=1, max_size=40)
"""What Blue does in all games; chance makes them differ."""


def games(plan: list[int], seed: int, red: str, **keywords: Any) -> Any:
    """Of every step: the true states before and after it, and what it returned."""
    with shoal.make("shoal/Cage2-v0", N, red=red, backend="serial", max_steps=None, **keywords) as envs:
        observation, _ = envs.reset(seed=seed)
        assert not observation.any()
        before = true_states(envs)
        for action in plan:
            results = envs.step(np.full(N, action))
            after = true_states(envs)
            yield action, before, after, results
            before = after


@settings(max_examples=60, deadline=None)
@given(PLANS, st.integers(0, 10**6), st.sampled_from(["B_line", "Meander"]), st.sampled_from(["Sleep", "Scan"]))
def test_rules_that_always_hold(plan: list[int], seed: int, red: str, green: str) -> None:
    for action, before, after, (observation, reward, terminated, truncated, _) in games(plan, seed, red, green=green):
        # The reward follows from what is the case, and from restoring.
        is_restore = action >= RESTORES
        tenths = (after["access"] == 2) @ TENTHS + 100 * ~after["ot_service"] + 10 * is_restore
        np.testing.assert_array_equal(reward, -tenths / 10)
        assert not terminated.any()
        assert not truncated.any()

        # What Blue sees is bits, and "exploit" is never without "activity".
        bits = observation.reshape(N, 13, 4)
        assert set(np.unique(bits)) <= {0.0, 1.0}
        assert not (bits[..., 1] > bits[..., 0]).any()

        # Red can never be thrown out of User0, and its sessions are counted, not owed.
        assert (after["sessions"][:, USER0, 0] >= 1).all()
        assert (after["sessions"] >= 0).all()
        access = np.where(after["sessions"][..., 0] > 0, 2, after["sessions"].any(axis=-1))
        assert (access == after["access"]).all()

        # New sessions come one at a time, from an exploit that was a success.
        gained = after["sessions"].sum(axis=(1, 2)) - before["sessions"].sum(axis=(1, 2))
        has_broken_in = (after["red_action"] == 3) & (after["red_success"] == 1)
        assert (gained <= has_broken_in).all()

        # The operational network is entered through the enterprise alone.
        newly = (after["access"][:, OPERATIONAL] > 0) & (before["access"][:, OPERATIONAL] == 0)
        entered = newly.any(axis=1)
        # Blue moved first, so Red still had a session there when it broke in.
        assert (after["access"][entered][:, ENTERPRISE] > 0).any(axis=1).all()

        # The service stops by Impact and runs again by restoring, and by nothing else.
        stopped = before["ot_service"] & ~after["ot_service"]
        assert ((after["red_action"] == 5) & (after["red_success"] == 1))[stopped].all()
        repaired = ~before["ot_service"] & after["ot_service"]
        assert not repaired.any() or action == index_of("Restore", "Op_Server0")

        # Decoys come and go by Blue's actions alone.
        changed = (before["decoys"] != after["decoys"]).any(axis=(1, 2))
        assert not changed.any() or 28 <= action < 132 or is_restore
        if is_restore:
            host = action - RESTORES
            assert not after["decoys"][:, host].any()
        # A failed decoy changes nothing.
        assert not changed[(after["blue_success"] == 0)].any()


@settings(max_examples=20, deadline=None)
@given(PLANS, st.integers(0, 10**6))
def test_nothing_happens_when_nobody_attacks(plan: list[int], seed: int) -> None:
    for action, _, after, (observation, reward, *_) in games(plan, seed, "Sleep"):
        assert not observation.any()
        assert (reward == (-1.0 if action >= RESTORES else 0.0)).all()
        assert after["access"].sum() == 2 * N


@settings(max_examples=20, deadline=None)
@given(PLANS, st.integers(0, 10**6), st.sampled_from(["B_line", "Meander"]))
def test_restore_throws_red_out_before_it_moves(plan: list[int], seed: int, red: str) -> None:
    restores = [RESTORES + action % 13 for action in plan]
    for action, _, after, _ in games([0, 0, 0, 0, *restores], seed, red):
        if action >= RESTORES and action - RESTORES != USER0:
            host = action - RESTORES
            back = (after["red_action"] == 3) & (after["red_target"] == host) & (after["red_success"] == 1)
            assert (after["access"][~back, host] == 0).all()
            assert not after["files"][~back, host].any()

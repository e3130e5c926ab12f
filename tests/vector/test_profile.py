"""The profiler says where the time went. Times are made large, so that a busy machine changes nothing."""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shoal
from shoal import ParallelEnv
from shoal.vector.auto.forecast import Measured
from shoal.vector.backends import worker as workers
from shoal.vector.plan import Plan
from shoal.vector.profile import recorder
from shoal.vector.profile.advice import Situation, advice_for
from shoal.vector.profile.tracks import Share
from tests.comparing import difference, rollout
from tests.envs import CountingEnv, WalkingEnv

ENVIRONMENTS, BARRIER, INFOS, POLICY = (
    share.value for share in (Share.ENVIRONMENT, Share.BARRIER, Share.INFOS, Share.POLICY)
)


class HardToRead:
    """Takes so many seconds to be unpickled."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __reduce__(self) -> Any:
        return read_slowly, (self.seconds,)


def read_slowly(seconds: float) -> HardToRead:
    time.sleep(seconds)
    return HardToRead(seconds)


class CostlyEnv(CountingEnv):
    """Computes, waits, or tells what is hard to read, as it is told."""

    def __init__(self, computing: float = 0.0, waiting: float = 0.0, reading: float = 0.0) -> None:
        super().__init__(length=10_000, rich=False)
        self._computing, self._waiting, self._reading = computing, waiting, reading

    def step(self, action: Any) -> Any:
        end = time.thread_time() + self._computing
        while time.thread_time() < end:
            pass
        time.sleep(self._waiting)
        observation, reward, terminated, truncated, _ = super().step(action)
        return observation, reward, terminated, truncated, {"much": self.states()} if self._reading else {}

    def states(self) -> HardToRead:
        return HardToRead(self._reading)


def costly(*, waiting: float = 0.0, computing: float = 0.0, reading: float = 0.0) -> Callable[[], Any]:
    return functools.partial(CostlyEnv, computing, waiting, reading)


def profiled(envs: ParallelEnv, steps: int, policy: float = 0.0) -> Any:
    envs.reset(seed=0)
    with envs.profile() as profile:
        for _ in range(steps):
            envs.step([0] * envs.num_envs)
            time.sleep(policy)
    return profile.result


def test_it_changes_no_result_and_leaves_nothing_behind(make: Callable[..., ParallelEnv]) -> None:
    envs = make([WalkingEnv] * 6)
    before = set(vars(envs))
    with envs.profile() as profile:
        found = rollout(envs, 200)
    assert set(vars(envs)) - before <= {"_profiler", "_resetting"}
    assert "recorded" not in str(envs._pool.backend.post)
    with ParallelEnv([WalkingEnv] * 6, backend="serial") as plain:
        assert not difference(found, rollout(plain, 200))
    assert sum(profile.shares.values()) == pytest.approx(1)
    assert profile.steps_per_second > 0
    assert 0 < profile.efficiency <= 1
    assert not difference(rollout(envs, 20), found[:21])


def test_time_of_environments_is_theirs(make: Callable[..., ParallelEnv]) -> None:
    profile = profiled(make([costly(waiting=0.02)] * 2, num_workers=2), 10)
    assert profile.shares[ENVIRONMENTS] > 0.5
    assert profile.step_percentiles[50] > 0.02
    assert [each.env_index for each in profile.envs] == [0, 1]


def test_who_is_waited_for_is_named(process_backend: str) -> None:
    makers = [costly(waiting=0.05), *[costly(waiting=0.001)] * 3]
    with ParallelEnv(makers, backend=process_backend, num_workers=2, start_method="fork") as envs:
        profile = profiled(envs, 10)
    assert profile.shares[BARRIER] > 0.25
    assert profile.stragglers == (0,)
    assert "Much slower than the others: environment 0." in str(profile)
    assert any("mostly for environment 0" in each.text and "envs.recv()" in each.text for each in profile.advice)


def test_the_policy_has_its_share(make: Callable[..., ParallelEnv]) -> None:
    envs = make([costly(waiting=0.02)] * 2, num_workers=2)
    profile = profiled(envs, 10, policy=0.03)
    assert profile.shares[POLICY] > 0.3
    assert any("envs.split(2)" in each.text for each in profile.advice) == (envs.plan.backend != "serial")


def test_infos_have_their_share(process_backend: str) -> None:
    with ParallelEnv([costly(reading=0.02)] * 2, backend=process_backend, start_method="fork") as envs:
        profile = profiled(envs, 10)
    # Messages of pipes hold results too, so reading them counts as copying.
    assert profile.shares[Share.COPYING.value if process_backend == "pipes" else INFOS] > 0.5


def test_what_calls_return_has_its_share() -> None:
    with ParallelEnv([costly(reading=0.02)] * 2, backend="shm", start_method="fork") as envs:
        envs.reset(seed=0)
        with envs.profile() as profile:
            for _ in range(5):
                envs.call("states")
    assert profile.shares[INFOS] > 0.5


def test_steps_that_wait_are_worth_threads() -> None:
    with ParallelEnv([costly(waiting=0.02)] * 8, backend="shm", num_workers=2, start_method="fork") as envs:
        profile = profiled(envs, 6)
    assert profile.efficiency < 0.5
    assert "threads_per_worker=4" in profile.advice[0].text
    assert profile.advice[0].gain > 2
    with ParallelEnv(
        [costly(waiting=0.02)] * 8, backend="shm", num_workers=2, threads_per_worker=4, start_method="fork"
    ) as envs:
        faster = profiled(envs, 6)
    assert faster.efficiency > 2 * profile.efficiency
    assert faster.step_percentiles[50] > 0.02


def situation(**keywords: Any) -> Situation:
    shares = dict.fromkeys(Share, 0.0) | keywords.pop("shares")
    given: dict[str, Any] = {
        "plan": Plan("shm", 2, "fork", ""), "num_envs": 20, "cpus": 2, "num_workers": 2, "seconds": 1.0, "steps": 20_000,
        "env_seconds": 50e-6, "waiting": 0.0,
    }  # fmt: skip
    return Situation(**given | {"shares": shares} | keywords)


@pytest.mark.parametrize(
    ("found", "text", "gain"),
    [
        (
            situation(shares={Share.ENVIRONMENT: 0.1, Share.SIGNALLING: 0.9}, env_seconds=1e-6),
            'A step takes 1 µs, too little for workers: backend="serial"',
            50,
        ),
        (
            situation(shares={Share.ENVIRONMENT: 1.0}, plan=Plan("serial", 1, "fork", ""), num_workers=1),
            'enough for 2 worker processes: backend="shm"',
            1.8,
        ),
        (  # beside a busy process: workers should be quicker, and are not
            situation(
                shares={Share.ENVIRONMENT: 0.05, Share.SIGNALLING: 0.95}, num_envs=64, env_seconds=5e-6, steps=16_000
            ),
            'A step takes 5 µs, a loop over all 323 µs, and workers took 4 ms: backend="serial"',
            12.4,
        ),
        (situation(shares={Share.COPYING: 0.5, Share.ENVIRONMENT: 0.5}), "copy=False", 1.33),
        (situation(shares={Share.SIGNALLING: 0.4, Share.ENVIRONMENT: 0.6}), "with twice as many", 1.25),
        (situation(shares={Share.ENVIRONMENT: 1.0}, steps=39_000), "Nothing stands out", 1),
        (  # however much quicker the environments become, the policy stays
            situation(shares={Share.SIGNALLING: 0.2, Share.POLICY: 0.8}, env_seconds=1e-6, num_envs=1),
            'backend="serial"',
            1.25,
        ),
        (situation(shares={Share.ENVIRONMENT: 0.03, Share.POLICY: 0.97}), "only a quicker one would help", 1),
    ],
)
def test_the_advice(found: Situation, text: str, gain: float) -> None:
    first = advice_for(found, ())[0]
    assert text in first.text
    assert first.gain == pytest.approx(gain, rel=0.2)
    assert f"{first.gain:.2g} x" in str(first) or gain == 1


def test_the_ideal() -> None:
    assert situation(shares={Share.ENVIRONMENT: 0.5}, steps=20_000).efficiency == pytest.approx(0.5)
    waiting = situation(shares={Share.ENVIRONMENT: 1.0}, env_seconds=5e-3, waiting=1.0, steps=400)
    assert waiting.efficiency == pytest.approx(0.1)
    assert Measured(1, 1.0, 0.0, 1.0, 0, 0.0).waits


def test_it_begins_when_auto_has_decided() -> None:
    with shoal.make(costly(waiting=0.02), num_envs=4) as envs:
        envs.reset(seed=1)
        with envs.profile() as profile:
            while envs._is_undecided:
                envs.step([1] * 4)
            for _ in range(20):
                envs.step([1] * 4)
        assert (envs.plan.backend, len(profile.tracks)) == ("shm", 3)
    assert profile.shares[ENVIRONMENTS] > 0.3


def test_few_steps_before_auto_has_decided_are_explained() -> None:
    with shoal.make(costly(waiting=0.02), num_envs=4) as envs:
        assert 'backend="auto" was still finding out where to run' in str(profiled(envs, 2))


def test_environments_may_be_under_way_when_it_begins_and_ends(make: Callable[..., ParallelEnv]) -> None:
    envs = make([WalkingEnv] * 6)
    envs.reset(seed=1)
    envs.send([1] * 6)
    with envs.profile() as profile:
        for _ in range(30):
            batch = envs.recv(min_envs=2)
            envs.send([1] * len(batch.env_ids), batch.env_ids)
    assert profile.steps_per_second > 0
    assert sorted(envs.recv(min_envs=6).env_ids) == [0, 1, 2, 3, 4, 5]
    first, second = envs.split(2)
    first.step_async([1] * 3)
    with envs.profile() as profile:
        for _ in range(30):
            second.step_async([1] * 3)
            first.step_wait()
            first.step_async([1] * 3)
            second.step_wait()
    assert profile.shares[ENVIRONMENTS] > 0


def test_a_worker_that_dies_meanwhile_is_no_trouble(process_backend: str) -> None:
    with ParallelEnv([WalkingEnv] * 4, backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset(seed=2)
        with envs.profile() as profile:
            for step in range(20):
                if step == 10:
                    os.kill(envs.worker_pids[0], signal.SIGKILL)
                envs.step([1] * 4)
        assert envs.stats.restarts == 1
    assert profile.shares[Share.MANAGEMENT.value] > 0


def test_batched_worlds_and_coroutines_have_a_share_too() -> None:
    with shoal.make("shoal/FrozenLake-v0", num_envs=64) as envs:
        envs.reset(seed=0)
        with envs.profile() as profile:
            for _ in range(50):
                envs.step(np.zeros(64, np.int64))
    assert profile.shares[ENVIRONMENTS] > 0
    assert profile.envs == ()
    assert "Steps of single environments" not in str(profile)


def test_what_was_found_can_be_seen(tmp_path: Path) -> None:
    with ParallelEnv([WalkingEnv] * 4, backend="shm", num_workers=2, start_method="fork") as envs:
        profile = profiled(envs, 20)
    profile.save_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert names == {"caller", "worker 0", "worker 1"}
    assert {event["name"] for event in events if event["tid"] == 1} >= {"environments", "command"}
    assert json.dumps(profile.to_dict())


def test_different_worlds_can_be_profiled_too(backend: str) -> None:
    with shoal.EnvList([WalkingEnv] * 3, backend=backend, start_method="fork") as envs:
        envs.reset(seed=1)
        with envs.profile() as profile:
            envs.step([1, 1, 1])
        assert profile.shares[ENVIRONMENTS] > 0


def test_a_step_may_be_under_way_when_it_begins(make: Callable[..., ParallelEnv]) -> None:
    envs = make([WalkingEnv] * 2)
    envs.reset(seed=1)
    envs.step_async([1, 1])
    with envs.profile() as profile:
        envs.step_wait()
        envs.step([1, 1])
    assert profile.steps_per_second > 0


def test_a_long_profile_is_not_forgotten_when_nothing_more_fits(
    make: Callable[..., ParallelEnv], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "MOST_SPANS", 150)
    envs = make([WalkingEnv] * 4)
    profile = profiled(envs, 300)
    assert profile.shares[ENVIRONMENTS] > 0
    assert 0 < profile.steps_per_second < 1e6
    assert sum(len(track.kinds) for track in profile.tracks) < 3000


def test_a_picture_needs_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ParallelEnv([WalkingEnv] * 2, backend="serial") as envs:
        profile = profiled(envs, 3)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(shoal.ConfigurationError, match=r"pip install 'shoal\[profile\]'"):
        profile.save_picture(tmp_path / "picture.png")


def is_recording(_env: Any) -> bool:
    assert workers.HERE is not None
    return workers.HERE.runner.slice.clock is not None


def test_mistakes_are_explained(backend: str) -> None:
    with ParallelEnv([WalkingEnv] * 2, backend=backend, start_method="fork") as envs:
        envs.reset(seed=0)
        with envs.profile() as profile:
            with pytest.raises(shoal.StateError, match="are being profiled already"), envs.profile():
                pass
            with pytest.raises(shoal.StateError, match="is known when its block has ended"):
                print(profile)
        assert "Nothing was recorded" in str(profile)
        with pytest.raises(shoal.StateError, match="nothing was recorded, so there is nothing to draw"):
            profile.save_picture("nowhere.png")
        with pytest.raises(shoal.InvalidAction), envs.profile():
            envs.step([1, 1])
            envs.step([9, 9])
        envs.step([1, 1])
        assert "step" not in vars(envs)
        if envs.worker_pids:
            assert envs.call(is_recording) == (False, False)
        with pytest.raises(shoal.AlreadyPending, match="waiting for a pending call to `step`"), envs.profile():
            envs.step([1, 1])
            envs.step_async([1, 1])
        envs.step_wait()
        with envs.profile() as profile:
            envs.step([1, 1])
        assert profile.steps_per_second > 0
        with envs.profile():
            envs.step([1, 1])
            envs.close()
    with pytest.raises(shoal.Closed):
        envs.profile()

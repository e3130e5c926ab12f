"""Steps that wait overlap: threads in workers, and coroutines on an event loop."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import shoal
from shoal import ParallelEnv
from shoal.testing import Fault, FaultPlan
from shoal.vector import journal
from tests.comparing import difference, rollout
from tests.envs import CountingEnv, GrumpyEnv, WalkingEnv

CROWD = 4
LONG_SECONDS = 20.0
MEETING = threading.Barrier(CROWD, timeout=LONG_SECONDS)
"""A place that nobody leaves before all are there: who meets is at work at the same time."""
NEWS = threading.Event()

FORKED: dict[str, Any] = {"start_method": "fork", "num_workers": 1}


class MeetingEnv(CountingEnv):
    """Steps, and begins, only together with its neighbours."""

    def reset(self, **keywords: Any) -> Any:
        MEETING.wait()
        return super().reset(**keywords)

    def step(self, action: Any) -> Any:
        MEETING.wait()
        return super().step(action)


class LoyalEnv(CountingEnv):
    """Works on the thread that made it, and on no other, as a connection to a database does."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def _check(self) -> None:
        if threading.get_ident() != self._thread:
            raise RuntimeError("used by another thread than the one that made it")

    def reset(self, **keywords: Any) -> Any:
        self._check()
        return super().reset(**keywords)

    def step(self, action: Any) -> Any:
        self._check()
        return super().step(action)

    def describe(self, prefix: str = "") -> str:
        self._check()
        return super().describe(prefix)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "label" and hasattr(self, "_thread"):
            self._check()
        super().__setattr__(name, value)

    def close(self) -> None:
        self._check()


class AwaitingEnv(WalkingEnv):
    """The same walk, by coroutines that wait a little."""

    async def reset(self, **keywords: Any) -> Any:  # type: ignore[override]
        await asyncio.sleep(0)
        return WalkingEnv.reset(self, **keywords)

    async def step(self, action: Any) -> Any:  # type: ignore[override]
        await asyncio.sleep(0.001 * (self.steps % 3))
        return WalkingEnv.step(self, action)

    async def where(self) -> float:
        await asyncio.sleep(0)
        return float(self.position)


class GatheringEnv(CountingEnv):
    """Steps only together with its neighbours, on the same event loop."""

    def __init__(self) -> None:
        super().__init__(length=100)

    _waiting: ClassVar[list[asyncio.Future[None]]] = []

    async def step(self, action: Any) -> Any:  # type: ignore[override]
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        if len(self._waiting) == CROWD:
            for each in self._waiting:
                each.set_result(None)
            self._waiting.clear()
        await asyncio.wait_for(mine, LONG_SECONDS)
        return CountingEnv.step(self, action)


class AwaitingGrumpyEnv(GrumpyEnv):
    """Raises from a coroutine."""

    async def step(self, action: Any) -> Any:  # type: ignore[override]
        await asyncio.sleep(0)
        return GrumpyEnv.step(self, action)


class PatientEnv(CountingEnv):
    """With action 1, waits until a neighbour has taken a step with action 2."""

    def step(self, action: Any) -> Any:
        if action == 2:
            NEWS.set()
        if action == 1 and not NEWS.wait(LONG_SECONDS):
            raise TimeoutError("nobody came")
        return super().step(action)


class DeadlyEnv(WalkingEnv):
    """Ends its process in the step with action 2, always; or never comes back from it."""

    def __init__(self, *, hangs: bool = False) -> None:
        super().__init__()
        self._hangs = hangs

    def step(self, action: Any) -> Any:
        if action == 2:
            time.sleep(0.02)  # so that its neighbours are at work too
            while self._hangs:
                time.sleep(1)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


@pytest.fixture(autouse=True)
def nobody_is_there_yet() -> None:
    MEETING.reset()
    NEWS.clear()


# -- threads -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
@pytest.mark.parametrize("threads", [2, 3, 64])
def test_results_are_those_of_a_loop(process_backend: str, threads: int, mode: AutoresetMode) -> None:
    keywords: Any = {"autoreset_mode": mode}
    with ParallelEnv(
        [WalkingEnv] * 7, backend=process_backend, start_method="fork", threads_per_worker=threads, **keywords
    ) as envs:
        found = rollout(envs, 40)
        assert envs.plan.threads_per_worker == threads
    with ParallelEnv([WalkingEnv] * 7, backend="serial", **keywords) as plain:
        assert not difference(found, rollout(plain, 40))


def test_environments_of_one_worker_are_at_work_at_the_same_time(process_backend: str) -> None:
    with ParallelEnv([MeetingEnv] * CROWD, backend=process_backend, threads_per_worker=CROWD, **FORKED) as envs:
        found = rollout(envs, 10)
    with ParallelEnv([CountingEnv] * CROWD, backend="serial") as plain:
        assert not difference(found, rollout(plain, 10))


class EveryOtherEnv(CountingEnv):
    """Begins while its neighbours step, because it ends at other times, and waits for them in both."""

    def reset(self, **keywords: Any) -> Any:
        if self.resets:
            MEETING.wait()
        return super().reset(**keywords)

    def step(self, action: Any) -> Any:
        MEETING.wait()
        return super().step(action)


def test_some_begin_while_others_step(process_backend: str) -> None:
    makers: list[Callable[[], Any]] = [functools.partial(EveryOtherEnv, length) for length in (2, 3, 4, 50)]
    plain_makers: list[Callable[[], Any]] = [functools.partial(CountingEnv, length) for length in (2, 3, 4, 50)]
    with ParallelEnv(makers, backend=process_backend, threads_per_worker=CROWD, **FORKED) as envs:
        found = rollout(envs, 20)
    with ParallelEnv(plain_makers, backend="serial") as plain:
        assert not difference(found, rollout(plain, 20))


def test_every_environment_keeps_its_thread(process_backend: str) -> None:
    with ParallelEnv([LoyalEnv] * 5, backend=process_backend, threads_per_worker=3, **FORKED) as envs:
        rollout(envs, 8)
        assert envs.call("describe", "is ") == ("is plain:0",) * 5
        envs.set_attr("label", list("abcde"))
        assert envs.get_attr("label") == tuple("abcde")
        envs.send([0] * 5)
        assert sorted(envs.recv(min_envs=5).env_ids) == [0, 1, 2, 3, 4]


def test_one_that_raises_is_named_and_touches_no_other(process_backend: str) -> None:
    makers = [functools.partial(GrumpyEnv, at=2 if row == 1 else 50) for row in range(4)]
    with ParallelEnv(makers, backend=process_backend, threads_per_worker=4, **FORKED) as envs:
        envs.reset(seed=0)
        envs.step([0] * 4)
        with pytest.raises(ValueError, match=r"environment 1 \(worker 0\) in step\(\)"):
            envs.step([0] * 4)
        envs.reset(options={"reset_mask": np.array([False, True, False, False])})
        assert envs.get_attr("count") == (2, 0, 2, 2)


class OddReward:
    def __float__(self) -> float:
        raise RuntimeError("no number today")


class OddRewardEnv(CountingEnv):
    """Gives a reward that is none."""

    def step(self, action: Any) -> Any:
        observation, _, *rest = super().step(action)
        return observation, OddReward() if action == 1 else 0.5, *rest


@pytest.mark.parametrize("threads", [1, 2])
def test_results_that_raise_when_they_are_looked_at_are_reported(process_backend: str, threads: int) -> None:
    with ParallelEnv([OddRewardEnv] * 2, backend=process_backend, threads_per_worker=threads, **FORKED) as envs:
        envs.reset(seed=0)
        with pytest.raises(RuntimeError, match=r"environment 1 .*no number today"):
            envs.step([0, 1])
        envs.reset(seed=0)
        envs.send([0, 1])
        with pytest.raises(RuntimeError, match=r"environment 1 .*no number today"):
            envs.recv(min_envs=2)
        assert envs.recv().env_ids.tolist() == [0]
        assert envs.stats.restarts == 0


def test_one_that_cannot_be_made_is_named(process_backend: str) -> None:
    makers: list[Callable[[], Any]] = [CountingEnv, functools.partial(GrumpyEnv, where="construct"), CountingEnv]
    with pytest.raises(ValueError, match="environment 1"):
        ParallelEnv(makers, backend=process_backend, threads_per_worker=3, **FORKED)


def test_a_killed_worker_is_brought_back(process_backend: str) -> None:
    plan = FaultPlan([Fault("kill", env=2, episode=0, step=3), Fault("kill", env=5, episode=1, step=1)])
    keywords: Any = {"backend": process_backend, "num_workers": 2, "start_method": "fork", "threads_per_worker": 4}
    with ParallelEnv(plan.wrap(WalkingEnv, 8), **keywords) as envs:
        found = rollout(envs, 30)
        assert envs.stats.restarts == 2
    plan.check_all_fired()
    with ParallelEnv([WalkingEnv] * 8, backend="serial") as plain:
        assert not difference(found, rollout(plain, 30))


@pytest.mark.parametrize("hangs", [False, True])
def test_who_ends_its_worker_again_and_again_is_found_among_its_neighbours(process_backend: str, hangs: bool) -> None:
    makers: list[Callable[[], Any]] = [WalkingEnv, functools.partial(DeadlyEnv, hangs=hangs), WalkingEnv]
    keywords: Any = {**FORKED, "backend": process_backend, "threads_per_worker": 3}
    keywords["step_timeout"] = 0.5 if hangs else None
    with ParallelEnv(makers, on_fault="truncate", **keywords) as envs:
        envs.reset(seed=3)
        *_, truncated, infos = envs.step([1, 2, 1])
        assert truncated.tolist() == [False, True, False]
        assert infos["fault"]["kind"][1] == ("hung" if hangs else "died")
        assert envs.stats.lost_episodes == 1
        assert envs.call_on([0, 2], "steps") == (1, 1)
    error = shoal.WorkerTimeout if hangs else shoal.PoisonStep
    with ParallelEnv(makers, **keywords) as envs:
        envs.reset(seed=3)
        often = (
            "again and again taken too long in the same step"
            if hangs
            else r"ended its worker \d times in the same step"
        )
        with pytest.raises(error, match=f"environment 1 has {often}"):
            envs.step([1, 2, 1])


class WilfulEnv(gymnasium.Env[Any, Any]):
    """Does what it is told: 0 a step, 1 raise, 2 raise what cannot be told, 3 die after a while, 4 a step like no other."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(5)

    def __init__(self, alive: Path | None = None) -> None:
        self.alive = alive

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        match int(action):
            case 1:
                raise RuntimeError("as told")
            case 2:
                raise Untellable
            case 3 if self.alive is None or self.alive.exists():
                if self.alive is not None:
                    self.alive.unlink()
                    time.sleep(0.2)
                os.kill(os.getpid(), signal.SIGKILL)
        noise = float.fromhex(os.urandom(4).hex()) if action == 4 else 0.0
        return np.array([self.steps, noise]), 1.0, False, False, {}


class Untellable(Exception):
    def __str__(self) -> str:
        raise SystemExit("nothing is said")


def wilful(alive: Path | None = None, **keywords: Any) -> ParallelEnv:
    env_fns = [functools.partial(WilfulEnv, alive)] * 2
    given = {"num_workers": 1, "threads_per_worker": 2, "start_method": "fork", "backend": "shm", **keywords}
    return ParallelEnv(env_fns, **given)


@pytest.mark.parametrize("begins_anew", [False, True])
def test_steps_are_counted_whoever_asks_for_them(process_backend: str, begins_anew: bool) -> None:
    with wilful(backend=process_backend) as envs:
        envs.reset(seed=0)
        for _ in range(2):
            envs.send(np.zeros(2, np.int64))
            envs.recv(2)
            envs.step(np.zeros(2, np.int64))
        if begins_anew:
            envs.send_reset()
            envs.recv(2)
            envs.step(np.zeros(2, np.int64))
        envs.send(np.array([1, 0]))
        with pytest.raises(RuntimeError, match="as told") as caught:
            envs.recv(2)
        assert caught.value.step == (2 if begins_anew else 5)  # type: ignore[attr-defined]


def test_an_exception_that_cannot_be_told_does_not_hang(process_backend: str) -> None:
    with wilful(backend=process_backend, on_fault="raise") as envs:
        envs.reset(seed=0)
        with pytest.raises(shoal.WorkerDied, match="ended by itself with exit code 1"):
            envs.step(np.array([0, 2]))


def test_nor_does_it_in_a_thread_of_the_caller() -> None:
    with ParallelEnv([WilfulEnv] * 2, backend="threads", num_workers=2) as envs:
        envs.reset(seed=0)
        with pytest.raises(shoal.EnvError, match=r"environment 1 in step\(\) raised SystemExit: nothing is said"):
            envs.step(np.array([0, 2]))


@pytest.mark.parametrize("keeps_digests", [False, True])
def test_a_lost_episode_ends_with_what_was_last_seen(
    process_backend: str, keeps_digests: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if keeps_digests:
        monkeypatch.setattr(journal, "SMALL", 0)
    alive = tmp_path / "alive"
    alive.touch()
    with wilful(alive, backend=process_backend, on_fault="truncate") as envs:
        envs.reset(seed=0)
        for actions in ([4, 0], [0, 0]):
            envs.step(np.array(actions))
        observation, _, _, truncated, _ = envs.step(np.array([0, 3]))
        assert observation[:, 0].tolist() == [2, 3]
        assert truncated.tolist() == [True, False]


def test_who_is_alone_in_its_half_is_known_to_have_ended_its_worker(process_backend: str) -> None:
    with wilful(backend=process_backend) as envs:
        envs.reset(seed=0)
        first, _ = envs.split(2)
        first.step(np.zeros(1, np.int64))
        with pytest.raises(shoal.PoisonStep, match="environment 0 has ended its worker 3 times"):
            first.step(np.array([3]))
        assert envs.stats.restarts == 2


def test_first_ready_hands_over_who_does_not_wait(process_backend: str) -> None:
    with ParallelEnv([PatientEnv] * 3, backend=process_backend, threads_per_worker=3, **FORKED) as envs:
        envs.reset(seed=0)
        envs.send([1, 0, 0])
        first = envs.recv(min_envs=2)
        assert sorted(first.env_ids) == [1, 2]
        envs.send([2], env_ids=[1])
        assert sorted(envs.recv(min_envs=2).env_ids) == [0, 1]
        envs.send_reset()
        assert envs.recv(min_envs=3).observation[:, 0].tolist() == [0, 0, 0]
        envs.step([0, 0, 0])
        assert envs.get_attr("count") == (1, 1, 1)


def test_first_ready_gives_what_lockstep_gives(process_backend: str) -> None:
    keywords: Any = {"backend": process_backend, "num_workers": 2, "start_method": "fork", "threads_per_worker": 3}
    with ParallelEnv([WalkingEnv] * 6, **keywords) as envs, ParallelEnv([WalkingEnv] * 6, backend="serial") as plain:
        envs.reset(seed=5)
        plain.reset(seed=5)
        for _ in range(20):
            expected = plain.step([1] * 6)
            envs.send([1] * 6)
            batch = envs.recv(min_envs=6)
            order = batch.env_ids.argsort()
            assert not difference([values[order] for values in batch[1:5]], list(expected[:4]))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"backend": "serial"}, r'threads_per_worker=2 is for worker processes.*use backend="shm"'),
        ({"backend": "threads"}, "num_workers for the number of threads"),
        ({"backend": "shm", "threads_per_worker": 0}, "threads_per_worker must be a whole number of at least 1, got 0"),
    ],
)
def test_threads_where_there_can_be_none_are_refused(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(shoal.ConfigurationError, match=message):
        ParallelEnv([CountingEnv] * 2, **{"threads_per_worker": 2, **keywords})


# -- coroutines --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
def test_coroutines_give_what_functions_give(make: Callable[..., ParallelEnv], mode: AutoresetMode) -> None:
    envs = make([AwaitingEnv] * 6, autoreset_mode=mode)
    with ParallelEnv([WalkingEnv] * 6, backend="serial", autoreset_mode=mode) as plain:
        assert not difference(rollout(envs, 30), rollout(plain, 30))


def test_coroutines_of_one_runner_are_awaited_together(make: Callable[..., ParallelEnv]) -> None:
    envs = make([GatheringEnv] * CROWD, num_workers=1)
    envs.reset(seed=1)
    for _ in range(5):
        envs.step([1] * CROWD)
    assert envs.get_attr("count") == (5,) * CROWD


def test_coroutines_can_be_called_and_received(make: Callable[..., ParallelEnv]) -> None:
    envs = make([AwaitingEnv] * 3)
    envs.reset(seed=2)
    envs.send([1, 1, 1])
    assert sorted(envs.recv(min_envs=3).env_ids) == [0, 1, 2]
    assert envs.call("where") == envs.get_attr("position")


def test_coroutines_in_threads_of_a_worker_share_one_event_loop(process_backend: str) -> None:
    with ParallelEnv([GatheringEnv] * CROWD, backend=process_backend, threads_per_worker=CROWD, **FORKED) as envs:
        envs.reset(seed=1)
        envs.step([1] * CROWD)
        envs.send([1] * CROWD)
        assert len(envs.recv(min_envs=CROWD).env_ids) == CROWD


def test_a_coroutine_that_raises_is_named(make: Callable[..., ParallelEnv]) -> None:
    envs = make([functools.partial(AwaitingGrumpyEnv, at=1), functools.partial(AwaitingGrumpyEnv, at=9)])
    envs.reset(seed=0)
    with pytest.raises(ValueError, match="environment 0"):
        envs.step([0, 0])


def test_killed_coroutines_are_brought_back(process_backend: str) -> None:
    with ParallelEnv([AwaitingEnv] * 4, backend=process_backend, num_workers=2, start_method="fork") as envs:
        with ParallelEnv([WalkingEnv] * 4, backend="serial") as plain:
            for one in (envs, plain):
                one.reset(seed=4)
            for step in range(12):
                if step == 5:
                    os.kill(envs.worker_pids[1], signal.SIGKILL)
                assert not difference(envs.step([1] * 4), plain.step([1] * 4))
        assert envs.stats.restarts == 1


def test_a_coroutine_without_a_coroutine_function_is_explained(backend: str) -> None:
    class Unawaited(CountingEnv):
        def step(self, action: Any) -> Any:
            async def later() -> Any:
                return None

            return later()

    with ParallelEnv([Unawaited] * 2, backend=backend) as envs:
        envs.reset(seed=0)
        with pytest.raises(shoal.EnvError, match=r"is no coroutine function: write `async def step`"):
            envs.step([0, 0])


def test_isolated_random_numbers_are_not_for_coroutines(backend: str) -> None:
    with pytest.raises(TypeError, match="isolate_rng cannot be used with coroutines"):
        ParallelEnv([AwaitingEnv] * 2, backend=backend, isolate_rng=True)


# -- auto --------------------------------------------------------------------------------------------------------------


class NappingEnv(WalkingEnv):
    """Every step waits."""

    def step(self, action: Any) -> Any:
        time.sleep(0.01)
        return super().step(action)


def test_auto_gives_steps_that_wait_a_thread_each() -> None:
    with shoal.make(NappingEnv, num_envs=8) as envs, shoal.make(WalkingEnv, num_envs=8, backend="serial") as plain:
        assert not difference(rollout(envs, 12), rollout(plain, 12))
        assert envs.plan.threads_per_worker > 1
        assert "of it waiting" in envs.plan.reason
        assert "threads each" in envs.plan.reason


def test_registered_coroutines_work_behind_wrappers_that_only_pass_on() -> None:
    gymnasium.register("tests/Awaiting-v0", "tests.vector.test_waiting:AwaitingEnv", disable_env_checker=True)
    try:
        with shoal.make("tests/Awaiting-v0", num_envs=3, backend="serial") as envs:
            rollout(envs, 5)
    finally:
        del gymnasium.registry["tests/Awaiting-v0"]

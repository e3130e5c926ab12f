"""Workers that have become too large or too old are replaced before anything happens to them, at no loss."""

from __future__ import annotations

import collections
import functools
import logging
import threading
from typing import Any

import pytest

import shoal
from shoal import ParallelEnv
from shoal.vector import retiring, shortening
from tests.comparing import difference, rollout
from tests.envs import CountingEnv, WalkingEnv


class LeakyEnv(WalkingEnv):
    """Keeps two megabytes of every step."""

    hoard: list[bytearray] = []  # one for all, as a leak in a library would be

    def step(self, action: Any) -> Any:
        self.hoard.append(bytearray(2 * 2**20))
        return super().step(action)


def test_a_worker_that_grows_is_replaced(process_backend: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with (
        ParallelEnv(
            [LeakyEnv] * 4, backend=process_backend, num_workers=2, start_method="fork", max_worker_memory="400 MB"
        ) as envs,
        ParallelEnv([WalkingEnv] * 4, backend="serial") as plain,
    ):
        before = envs.worker_pids
        found = []
        expected = []
        for seed in range(5):
            found += rollout(envs, 100, seed=seed)
            expected += rollout(plain, 100, seed=seed)
        assert not difference(found, expected)
        assert set(before).isdisjoint(envs.worker_pids)
        assert envs.stats.planned_restarts >= 2
        assert envs.stats.restarts == 0
        assert "MB of memory" in caplog.text


class EndlessLeakyEnv(LeakyEnv):
    """Its episodes never end. With a lock, it cannot be captured."""

    def __init__(self, *, locked: bool) -> None:
        super().__init__()
        self.lock = threading.Lock() if locked else None

    def step(self, action: Any) -> Any:
        observation, reward, _, _, info = super().step(action)
        return observation, reward, False, False, info


def test_a_leak_that_a_replay_repeats_is_not_taken_for_size(
    process_backend: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shortening, "LONG_SECONDS", 0.1)
    monkeypatch.setattr(shortening, "CAPTURE_SHARE", 1.0)
    monkeypatch.setattr(retiring, "WEIGHING_SECONDS", 0.0)
    keywords: Any = {"num_workers": 1, "max_worker_memory": "300 MB"}
    make = functools.partial(EndlessLeakyEnv, locked=False)
    with (
        ParallelEnv([make] * 2, backend=process_backend, **keywords) as envs,
        ParallelEnv([make] * 2, backend="serial") as plain,
    ):
        found, taken = [envs.reset(seed=1)[0]], 0
        while envs.stats.planned_restarts < 3:
            taken += 1
            assert taken < 5_000, "it is replaced again once its history has become shorter"
            found.append(envs.step([taken % 3] * 2)[0])
        monkeypatch.setattr(LeakyEnv, "hoard", collections.deque(maxlen=1))
        expected = [plain.reset(seed=1)[0], *(plain.step([number % 3] * 2)[0] for number in range(1, taken + 1))]
        assert not difference(found, expected)
    assert "even when it is new" not in caplog.text


def test_one_that_would_only_grow_again_is_kept_with_a_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retiring, "WEIGHING_SECONDS", 0.0)
    make = functools.partial(EndlessLeakyEnv, locked=True)
    with ParallelEnv([make] * 2, backend="shm", num_workers=1, max_worker_memory="300 MB") as envs:
        envs.reset(seed=1)
        for number in range(300):
            envs.step([number % 3] * 2)
            if "times max_worker_memory and is not replaced: all that its environments have done" in caplog.text:
                break
        else:
            raise AssertionError(caplog.text)
        assert envs.stats.planned_restarts == 1


def test_a_worker_that_has_run_its_episodes_is_replaced(process_backend: str) -> None:
    with (
        ParallelEnv(
            [WalkingEnv] * 4, backend=process_backend, num_workers=2, start_method="fork", max_worker_episodes=10
        ) as envs,
        ParallelEnv([WalkingEnv] * 4, backend="serial") as plain,
    ):
        assert not difference(rollout(envs, 100), rollout(plain, 100))
        assert envs.stats.planned_restarts >= 4
        assert envs.stats.restarts == 0
        for _ in range(3):
            envs.send([1] * 4)
            envs.recv(min_envs=4)


def test_it_is_replaced_even_if_it_is_never_idle(process_backend: str) -> None:
    with (
        ParallelEnv(
            [WalkingEnv] * 4, backend=process_backend, num_workers=2, start_method="fork", max_worker_episodes=5
        ) as envs,
        ParallelEnv([WalkingEnv] * 4, backend="serial") as plain,
    ):
        envs.reset(seed=1)
        plain.reset(seed=1)
        parts = envs.split(2)
        for part in parts:
            part.step_async([1, 1])
        for _ in range(400):
            expected = plain.step([1] * 4)
            for part in parts:
                found = part.step_wait()
                assert not difference(found[:4], tuple(values[part.env_ids] for values in expected[:4]))
                part.step_async([1, 1])
        assert envs.stats.planned_restarts >= 2
        assert envs.stats.restarts == 0


class SlowToCloseEnv(CountingEnv):
    """Never finishes closing."""

    def close(self) -> None:
        import time

        time.sleep(60)


def test_one_that_does_not_want_to_end_is_ended(process_backend: str) -> None:
    fns = [functools.partial(SlowToCloseEnv, 2)] * 2
    envs = ParallelEnv(fns, backend=process_backend, num_workers=1, start_method="fork", max_worker_episodes=1)
    envs.reset(seed=0)
    for _ in range(3):
        envs.step([0, 0])
    assert envs.stats.planned_restarts == 1
    envs.close(terminate=True)


def test_a_limit_that_is_too_low_for_anybody_is_given_up(
    process_backend: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retiring, "WEIGHING_SECONDS", 0.0)
    with ParallelEnv(
        [WalkingEnv] * 2, backend=process_backend, num_workers=1, start_method="fork", max_worker_memory=1000
    ) as envs:
        rollout(envs, 20)
        assert envs.stats.planned_restarts == 1
        assert "worker 0 takes more than max_worker_memory even when it is new" in caplog.text


@pytest.mark.parametrize("wrong", ["much", "5 parsecs", -1, 0, True, "-3 GB"])
def test_a_memory_that_is_no_memory_is_refused(wrong: Any) -> None:
    with pytest.raises(
        shoal.ConfigurationError, match='max_worker_memory must be a number of bytes or a text such as "2 GB"'
    ):
        ParallelEnv([CountingEnv], backend="shm", max_worker_memory=wrong)


def test_without_restoring_nobody_can_be_replaced() -> None:
    with pytest.raises(shoal.ConfigurationError, match='for which on_fault must be "restore" or "truncate"'):
        ParallelEnv([CountingEnv], backend="shm", max_worker_episodes=5, on_fault="raise")
    with pytest.raises(shoal.ConfigurationError, match="max_worker_episodes must be a whole number of at least 1"):
        ParallelEnv([CountingEnv], backend="shm", max_worker_episodes=0)


def test_in_this_process_nobody_can_be_replaced() -> None:
    with pytest.warns(UserWarning, match="max_worker_memory='1 GB' has no effect with backend=\"serial\""):
        ParallelEnv([CountingEnv], backend="serial", max_worker_memory="1 GB").close()


@pytest.mark.parametrize(
    ("timeouts", "message"),
    [
        ({"stop": 3}, r"timeouts may have 'construct', 'reset', 'step', 'call', got 'stop'\. Did you mean 'step'\?"),
        ({"reset": -1}, r"timeouts\['reset'\] must be a positive number of seconds or None, got -1"),
        ({"call": "soon"}, r"timeouts\['call'\] must be a positive number of seconds or None, got 'soon'"),
    ],
)
def test_timeouts_that_make_no_sense_are_refused(timeouts: Any, message: str) -> None:
    with pytest.raises(shoal.ConfigurationError, match=message):
        ParallelEnv([CountingEnv], backend="shm", timeouts=timeouts)


class TarryingEnv(CountingEnv):
    """Takes its time in one place."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where
        self._tarry("construct")

    def _tarry(self, where: str) -> None:
        import time

        if self.where == where:
            time.sleep(60)

    def reset(self, **keywords: Any) -> Any:
        self._tarry("reset")
        return super().reset(**keywords)

    def ask(self) -> None:
        self._tarry("call")


@pytest.mark.parametrize("where", ["construct", "reset", "call"])
def test_every_kind_of_call_has_a_deadline(process_backend: str, where: str) -> None:
    def go() -> None:
        with ParallelEnv(
            [CountingEnv, functools.partial(TarryingEnv, where)],
            backend=process_backend,
            num_workers=2,
            start_method="fork",
            timeouts={where: 0.3},
            on_fault="raise",
        ) as envs:
            envs.reset(seed=0)
            envs.call("ask" if where == "call" else "describe")

    doing = "making its environments" if where == "construct" else rf"in {where}\(\)"
    with pytest.raises(shoal.WorkerTimeout, match=rf"environment 1 took longer than 0.3 s \({doing}\); it was here:"):
        go()


def test_environments_in_this_process_are_never_replaced() -> None:
    with (
        ParallelEnv(
            [WalkingEnv] * 3, backend="shm", num_workers=2, start_method="fork", in_process=[0], max_worker_episodes=3
        ) as envs,
        ParallelEnv([WalkingEnv] * 3, backend="serial") as plain,
    ):
        assert not difference(rollout(envs, 60), rollout(plain, 60))
        assert envs.stats.planned_restarts >= 1

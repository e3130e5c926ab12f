"""Steps that are ordered on the shared board: nobody who sleeps is forgotten, and nothing is done twice."""

from __future__ import annotations

import functools
import logging
import random
import time
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.vector.backends import processes
from tests.comparing import difference
from tests.envs import CountingEnv

PAUSES = (0.0, 0.0, 0.0, 0.0004, 0.003, 0.015, 0.03)  # looking around, just fallen asleep, asleep for long


class DawdlingEnv(CountingEnv):
    """Takes its time, but not always, and says something in its info only now and then."""

    def __init__(self) -> None:
        super().__init__(length=50)

    def step(self, action: Any) -> Any:
        time.sleep(random.Random(self.count).choice(PAUSES))
        self.rich = self.count % 4 == 0
        return super().step(action)


def dawdle(backend: str, pauses: list[float]) -> list[Any]:
    with shoal.ParallelEnv([DawdlingEnv] * 3, backend=backend, num_workers=3, start_method="fork") as envs:
        results: list[Any] = [envs.reset(seed=1)]
        for pause in pauses:
            time.sleep(pause)
            results.append(envs.step([1, 0, 1]))
        return results


def test_a_caller_and_workers_that_sleep_at_odd_times_miss_nothing() -> None:
    pauses = random.Random(3).choices(PAUSES, k=120)
    assert difference(dawdle("shm", pauses), dawdle("serial", [0.0] * 120)) == ""


def test_orders_and_messages_alternate_without_confusion() -> None:
    with shoal.ParallelEnv(
        [functools.partial(CountingEnv, 1000, False)] * 4, backend="shm", num_workers=2, start_method="fork"
    ) as envs:
        envs.reset(seed=0)
        for count in range(1, 200):
            envs.step([0, 0, 0, 0])
            assert envs.get_attr("count") == (count,) * 4


class TalkativeEnv(CountingEnv):
    def __init__(self) -> None:
        super().__init__(length=100, rich=False)

    def step(self, action: Any) -> Any:
        logging.getLogger("talkative").warning("step %d", self.count)
        return super().step(action)


def test_a_log_record_arrives_before_the_step_that_made_it_returns(caplog: pytest.LogCaptureFixture) -> None:
    with shoal.ParallelEnv([TalkativeEnv], backend="shm", num_workers=1, start_method="fork") as envs:
        envs.reset(seed=0)
        for count in range(1, 20):
            envs.step([0])
            assert len([record for record in caplog.records if record.name == "talkative"]) == count


class LongWindedEnv(CountingEnv):
    """Tells more than a socket holds, but not always."""

    def __init__(self) -> None:
        super().__init__(length=100, rich=False)

    def much(self) -> bytes:
        generator = np.random.default_rng(self.count)
        return generator.bytes(generator.choice([10, 70_000, 300_000, 3_000_000]))

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, _ = super().step(action)
        return observation, reward, terminated, truncated, {"much": self.much()} if self.count % 4 else {}


def wind_on(backend: str) -> list[Any]:
    with shoal.ParallelEnv([LongWindedEnv] * 3, backend=backend, num_workers=2, start_method="fork") as envs:
        results: list[Any] = [envs.reset(seed=1)]
        results += [envs.step([1, 0, 1]) for _ in range(20)]
        first, second = envs.split(2)
        for _ in range(8):
            first.step_async([1, 0])
            second.step_async([1])
            results += [first.step_wait(), second.step_wait()]
        return [*results, envs.call("much")]


def test_a_caller_that_only_looks_at_the_board_makes_room_for_long_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "SPIN_SECONDS", 1e9)  # it would look until the end of days
    assert difference(wind_on("shm"), wind_on("serial")) == ""

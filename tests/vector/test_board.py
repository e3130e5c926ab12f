"""Steps that are ordered on the shared board: nobody who sleeps is forgotten, and nothing is done twice."""

from __future__ import annotations

import functools
import logging
import random
import time
from typing import Any

import pytest

import shoal
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

"""A worker that dies, hangs or babbles is reported."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from typing import Any

import pytest

from shoal import (
    ParallelEnv,
    WorkerDied,
    WorkerTimeout,
)
from tests.envs import DyingEnv, HangingEnv, counting

Make = Callable[..., ParallelEnv]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("kill", "was killed by SIGKILL while stepping environment 2"),
        ("exit", "ended by itself with exit code 7 while stepping"),
    ],
)
@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_a_dead_worker_is_named_with_its_environment_and_signal(
    process_backend: str, method: str, how: str, said: str
) -> None:
    fns: list[Any] = [counting(100), counting(100), functools.partial(DyingEnv, how), counting(100)]
    envs = ParallelEnv(fns, backend=process_backend, num_workers=2, start_method=method, on_fault="raise")
    envs.reset()
    with pytest.raises(WorkerDied, match=said) as caught:
        envs.step([0, 0, 4, 0])
    assert re.search(r"worker 1 \(pid \d+\)", str(caught.value))
    assert "It ran environments 2 to 3 of 4." in str(caught.value)
    assert "Likely cause:" in str(caught.value)
    with pytest.raises(WorkerDied, match="The environments can only be closed now"):
        envs.reset()
    envs.close()


def test_a_worker_that_dies_while_making_environments_is_reported(process_backend: str) -> None:
    with pytest.raises(WorkerDied, match="was killed by SIGKILL while making environment 1"):
        ParallelEnv(
            [counting(), functools.partial(DyingEnv, "kill", "construct")], backend=process_backend, start_method="fork"
        )


def test_a_worker_killed_while_idle_is_reported_at_the_next_step(process_backend: str) -> None:
    envs = ParallelEnv([counting(100)] * 2, backend=process_backend, start_method="fork", on_fault="raise")
    envs.reset()
    os.kill(envs.worker_pids[0], 9)
    with pytest.raises(WorkerDied, match="worker 0 .* was killed by SIGKILL"):
        envs.step([0, 0])
    envs.close()


def test_a_step_beyond_its_deadline_ends_the_worker_and_names_the_environment(process_backend: str) -> None:
    envs = ParallelEnv([HangingEnv] * 4, backend=process_backend, num_workers=2, step_timeout=1.5, on_fault="raise")
    envs.reset()
    envs.step([1, 0, 0, 0])
    with pytest.raises(
        WorkerTimeout, match=r"environment 3 took longer than 1.5 s \(in step\(\)\); it was here:"
    ) as it:
        envs.step([0, 0, 0, 4])
    assert isinstance(it.value, TimeoutError)
    assert re.search(r"envs.py.*, line \d+ in step", str(it.value)), "its stack is shown"
    assert "Its worker was ended." in str(it.value)
    envs.close()

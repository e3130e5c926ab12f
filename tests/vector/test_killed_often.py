"""A worker is killed every 200 ms, for seconds here and for a minute in ``make soak``, and nothing is lost."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
import zlib
from typing import Any

import numpy as np
import pytest

import shoal
from shoal import ParallelEnv

NUM_ENVS = 12


class Killer(threading.Thread):
    """Kills a worker from time to time."""

    def __init__(self, envs: ParallelEnv, every: float) -> None:
        super().__init__()
        self._envs, self._every, self._stop_now = envs, every, threading.Event()
        self.killed = 0

    def run(self) -> None:
        chance = random.Random(1)
        while not self._stop_now.wait(self._every):
            try:
                os.kill(chance.choice(self._envs.worker_pids), signal.SIGKILL)
                self.killed += 1
            except (ProcessLookupError, AttributeError):
                pass  # it has just been replaced

    def __enter__(self) -> Killer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_now.set()
        self.join()


def one_round(envs: ParallelEnv, number: int) -> int:
    """A step of everybody, in lockstep or each alone; returns a checksum of everything it gave."""
    actions = np.array([(number * 7 + row) % 2 for row in range(NUM_ENVS)])
    if number % 3:
        observation, reward, terminated, truncated, info = envs.step(actions)
    else:
        envs.send(actions)
        batch = envs.recv(min_envs=NUM_ENVS)
        order = np.argsort(batch.env_ids)
        observation, reward, terminated, truncated = (part[order] for part in batch[1:5])
        info = {}
    checksum = 0
    for part in (observation, reward, terminated, truncated, *(info[key] for key in sorted(info))):
        checksum = zlib.crc32(np.ascontiguousarray(part).tobytes(), checksum)
    return checksum


def make(backend: str, **keywords: Any) -> ParallelEnv:
    return shoal.make("CartPole-v1", NUM_ENVS, backend=backend, **keywords)


def check(backend: str, seconds: float) -> None:
    checksums: list[int] = []
    with make(backend, num_workers=3) as envs:
        envs.reset(seed=1)
        with Killer(envs, 0.2) as killer:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                checksums.append(one_round(envs, len(checksums)))
        stats = envs.stats
    assert killer.killed > 2 * seconds
    assert stats.restarts >= killer.killed // 2, "two kills may hit the same worker before it is noticed"
    with make("serial") as plain:
        plain.reset(seed=1)
        for number, checksum in enumerate(checksums):
            assert one_round(plain, number) == checksum, f"round {number} of {len(checksums)}"
    print(f"{backend}: {len(checksums)} rounds, {killer.killed} kills, {stats}")


def test_a_few_seconds(process_backend: str) -> None:
    check(process_backend, 4.0)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_minute(process_backend: str) -> None:
    check(process_backend, 60.0)

"""What the contestants are held against: bare loops, without any library.

    ideal:  host ──go──▶ loop 1 (its own process, its share of the environments)
                 ──go──▶ loop 2      …one per usable core, all at once, never talking to each other

Their summed rate is what the machine could do if running environments together cost nothing.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import NamedTuple

from benchmarks.throughput.machine import usable_cores
from benchmarks.throughput.rigs.base import LockstepRig, Rig
from benchmarks.throughput.work_env import WorkEnv, Workload


class Lap(NamedTuple):
    """One loop's share of a measurement, by its own clock."""

    steps: int
    seconds: float


def bare_loop(envs: Sequence[WorkEnv], actions: Sequence[int], rounds: int) -> None:
    pairs = list(zip(envs, actions, strict=True))
    for _ in range(rounds):
        for env, action in pairs:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()


class PlainLoopRig(LockstepRig):
    """One loop over all environments in one process: what parallelism must beat."""

    def open(self, workload: Workload) -> None:
        self._envs = _fresh_envs(workload, workload.num_envs)
        self._actions = workload.actions().tolist()

    def run(self, rounds: int) -> None:
        bare_loop(self._envs, self._actions, rounds)

    def close(self) -> None:
        del self._envs


class IdealRig(Rig):
    """A bare loop on every usable core at once."""

    def start(self, workload: Workload) -> None:
        context = multiprocessing.get_context("fork")
        self._loops: list[tuple[Connection, BaseProcess]] = []
        for share in _shares(workload.num_envs, usable_cores()):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve_loop, args=(theirs, workload, share))
            process.start()
            theirs.close()
            self._loops.append((ours, process))

    def measure(self, rounds: int) -> float:
        for connection, _ in self._loops:
            connection.send(rounds)
        laps: list[Lap] = [connection.recv() for connection, _ in self._loops]
        return sum(lap.steps / lap.seconds for lap in laps)

    def close(self) -> None:
        for connection, process in self._loops:
            connection.send(None)
            process.join()
            connection.close()
        self._loops = []


def _serve_loop(connection: Connection, workload: Workload, num_envs: int) -> None:
    envs = _fresh_envs(workload, num_envs)
    actions = workload.actions()[:num_envs].tolist()
    while (rounds := connection.recv()) is not None:
        start = time.perf_counter()
        bare_loop(envs, actions, rounds)
        connection.send(Lap(rounds * num_envs, time.perf_counter() - start))


def _fresh_envs(workload: Workload, num_envs: int) -> list[WorkEnv]:
    envs = [workload.env_fn()() for _ in range(num_envs)]
    for env in envs:
        env.reset()
    return envs


def _shares(num_envs: int, num_loops: int) -> list[int]:
    """Environments per loop, as even as can be, no loop without any."""
    shares = [num_envs // num_loops + (loop < num_envs % num_loops) for loop in range(num_loops)]
    return [share for share in shares if share]

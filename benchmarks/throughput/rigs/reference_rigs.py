"""What the contestants are held against: bare loops, without any library.

    ideal:  host ──go──▶ loop 1 (its own process, its share of the environments)
                 ──go──▶ loop 2      …one per usable core, all at once, never talking to each other

From their times follows what the machine could do if running environments together cost nothing: all the work of a
round, shared out evenly over all cores; but no round can be shorter than the steps of its slowest environment.
"""

from __future__ import annotations

import itertools
import multiprocessing
import time
from collections.abc import Iterable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import gymnasium

from benchmarks.throughput.machine import usable_cores
from benchmarks.throughput.rigs.base import LockstepRig, Rig
from benchmarks.throughput.workload import EnvFn, Workload

Pair = tuple[gymnasium.Env[Any, Any], int]
"""An environment and its action."""


def bare_loop(rounds: Iterable[Sequence[Pair]]) -> None:
    for pairs in rounds:
        for env, action in pairs:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()


class PlainLoopRig(LockstepRig):
    """One loop over all environments in one process: what parallelism must beat."""

    def open(self, workload: Workload) -> None:
        envs = _fresh_envs(workload.env_fns())
        pairs = [list(zip(envs, actions.tolist(), strict=True)) for actions in workload.action_batches()]
        self._pairs = itertools.cycle(pairs)

    def run(self, rounds: int) -> None:
        bare_loop(itertools.islice(self._pairs, rounds))

    def close(self) -> None:
        del self._pairs


class IdealRig(Rig):
    """A bare loop on every usable core at once."""

    def start(self, workload: Workload) -> None:
        context = multiprocessing.get_context("fork")
        env_fns, cores = workload.env_fns(), usable_cores()
        self._num_envs = workload.num_envs
        self._longest_share = max(1 / cores, workload.cost.longest_share(workload.num_envs))
        self._loops: list[tuple[Connection, BaseProcess]] = []
        for loop in range(min(cores, len(env_fns))):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve_loop, args=(theirs, env_fns[loop::cores]))
            process.start()
            theirs.close()
            self._loops.append((ours, process))

    def measure(self, rounds: int) -> float:
        for connection, _ in self._loops:
            connection.send(rounds)
        seconds: float = sum(connection.recv() for connection, _ in self._loops)
        return rounds * self._num_envs / (seconds * self._longest_share)

    def close(self) -> None:
        for connection, process in self._loops:
            connection.send(None)
            process.join()
            connection.close()
        self._loops = []


def _serve_loop(connection: Connection, env_fns: Sequence[EnvFn]) -> None:
    """Answer every number of rounds with the seconds they took."""
    pairs = [(env, 0) for env in _fresh_envs(env_fns)]
    while (rounds := connection.recv()) is not None:
        start = time.perf_counter()
        bare_loop(itertools.repeat(pairs, rounds))
        connection.send(time.perf_counter() - start)


def _fresh_envs(env_fns: Sequence[EnvFn]) -> list[gymnasium.Env[Any, Any]]:
    envs = [env_fn() for env_fn in env_fns]
    for env in envs:
        env.reset()
    return envs

"""What is expected of workers and of a loop, and how shares are divided. Nothing runs here."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from shoal.vector import wording
from shoal.vector.auto import comparison
from shoal.vector.auto.comparison import Comparison
from shoal.vector.auto.forecast import Measured, forecasts, slowness
from shoal.vector.auto.trial import Verdict
from shoal.vector.partition import by_cost, longest_share, partition


@pytest.mark.parametrize(
    ("there", "now", "is_slower"), [(0.9, 1, False), (1.1, 1, True), (1.9, 2, False), (0.9, 0.5, True)]
)
def test_a_machine_that_has_become_slower_is_no_reason_to_come_back(
    there: float, now: float, is_slower: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "slowness", lambda: 1.3 * now)
    compared, num_windows = Comparison(0.01, 1.3), 0
    for step in range(500):
        num_windows += compared.note(0.01 * there if step % 10 else 0.1)  # those that were disturbed do not count
    assert num_windows > 5
    assert compared.is_slower == is_slower


def test_a_single_window_counts_only_if_it_is_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "slowness", lambda: 1.0)
    for ratio, windows_needed in ((1.2, comparison.NUM_WINDOWS), (4.0, 1)):
        compared, num_windows = Comparison(0.01, 1.0), 0
        while not compared.is_slower:
            num_windows += compared.note(0.01 * ratio)
        assert num_windows == windows_needed


@pytest.mark.parametrize(("queueing", "is_slower"), [(0.0, False), (0.005, True)])
def test_a_few_steps_that_wait_long_for_a_processor_count(
    queueing: float, is_slower: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "slowness", lambda: 1.0)
    queued = {os.getpid(): 0.0, 77: 0.0}
    monkeypatch.setattr(comparison, "queueing_seconds", lambda pid: queued[pid])
    compared = Comparison(0.01, 1.0, pids=(77,))
    for step in range(500):
        is_long = step % 10 == 0
        queued[77] += 10 * queueing * is_long
        compared.note(0.009 if not is_long else 0.05 + 0.009)
    assert compared.is_slower == is_slower


@pytest.mark.parametrize(
    ("others", "num_envs", "microseconds", "backend"),
    [
        (0, 64, 5, "shm"),
        (1, 64, 5, "serial"),
        (1, 8, 300, "serial"),
        (4, 8, 300, "shm"),
        (4, 20, 50, "serial"),
        (4, 4, 1, "serial"),
    ],
)
def test_other_busy_processes_are_part_of_the_forecast(
    others: int, num_envs: int, microseconds: float, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    data = measured(num_envs, microseconds, others=float(others))
    verdict = Verdict(data, 2)
    assert verdict.choice.backend == backend
    assert ("computing." in verdict.reason) == bool(others)
    assert ("Beside them the loop should take about" in verdict.reason) == (others > 1)


def test_neighbours_on_a_large_machine_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    data = measured(64, 5, others=40.0)
    assert Verdict(data, 2).choice.backend == "shm"


def measured(num_envs: int, microseconds: float, **keywords: Any) -> Measured:
    seconds = num_envs * microseconds * 1e-6
    return Measured(
        **{"num_envs": num_envs, "seconds": seconds, "computing_seconds": seconds, "waiting_seconds": 0.0}
        | {"result_nbytes": 100 * num_envs, "infos": 0.0}
        | keywords
    )


@pytest.mark.parametrize(
    ("num_envs", "microseconds", "cpus", "backend", "workers"),
    [
        (2, 1, 2, "serial", 1),
        (100, 0.5, 2, "serial", 1),
        (1000, 0.4, 2, "shm", 2),
        (20, 50, 2, "shm", 2),
        (300, 5, 2, "shm", 2),
        (3, 2000, 64, "shm", 3),
        (64, 300, 16, "shm", 16),
    ],
)
def test_the_forecast(num_envs: int, microseconds: float, cpus: int, backend: str, workers: int) -> None:
    data = measured(num_envs, microseconds)
    choice = Verdict(data, cpus).choice
    assert (choice.backend, choice.num_workers) == (backend, workers)


@pytest.mark.parametrize(
    ("num_envs", "overlaps", "cpus", "workers", "threads"),
    [(32, False, 2, 2, 16), (2, False, 2, 2, 1), (1000, False, 2, 2, 256), (64, False, 16, 16, 4), (64, True, 2, 1, 1)],
)
def test_the_forecast_for_steps_that_wait(num_envs: int, overlaps: bool, cpus: int, workers: int, threads: int) -> None:
    waiting = 4.9e-3 * (1 if overlaps else num_envs)
    data = measured(num_envs, 5000, seconds=waiting * 50 / 49, waiting_seconds=waiting, overlaps=overlaps)
    choice = Verdict(data, cpus).choice
    assert (choice.num_workers, choice.threads_per_worker) == (workers, threads)


def test_coroutines_that_compute_much_move_to_workers() -> None:
    data = measured(64, 0, seconds=20e-3, waiting_seconds=5e-3, overlaps=True)
    choice = Verdict(data, 2).choice
    assert (choice.backend, choice.threads_per_worker) == ("shm", 1)


def test_what_varies_by_chance_is_shared_out_evenly() -> None:
    random = np.random.default_rng(0)
    for _ in range(200):
        steps = [tuple(random.exponential(3e-4, size=32).tolist()) for _ in range(5)]
        data = measured(32, 300, single_steps=steps)
        choice = next(way for way in forecasts(data, 2) if way.backend == "shm")
        assert not choice.step_costs


def test_too_few_steps_say_nothing_about_single_environments() -> None:
    steps = [(3e-3, *[3e-4] * 7)] * 4
    assert not forecasts(measured(8, 600, single_steps=steps), 2)[0].step_costs
    assert forecasts(measured(8, 600, single_steps=[*steps, *steps]), 2)[0].step_costs


@given(
    costs=st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=60),
    num_workers=st.integers(1, 20),
    stays=st.sets(st.integers(0, 59), max_size=3),
)
def test_everybody_has_neighbours_and_nobody_is_left_out(costs: list[float], num_workers: int, stays: set[int]) -> None:
    local = {row for row in stays if row < len(costs)}
    assume(len(local) < len(costs))
    num_workers = min(num_workers, len(costs) - len(local))
    shares = partition(len(costs), num_workers, local, costs)
    assert [row for share in shares for row in share.rows] == list(range(len(costs)))
    assert {row for share in shares if share.is_local for row in share.rows} == local
    if not local:
        bounds = by_cost(costs, num_workers)
        assert len(shares) == num_workers
        assert longest_share(costs, bounds) <= 1 / num_workers + max(costs) * num_workers / sum(costs)


def test_what_is_done_about_infos_and_bytes_is_shared_out_too() -> None:
    """Where it costs as much in one process, it is no reason to stay there."""
    data = measured(32, 6, infos=32.0, result_nbytes=32 * 226)
    assert Verdict(data, 2).choice.backend == "serial"  # workers have to tell them first
    data = measured(64, 6, infos=64.0, result_nbytes=64 * 226)
    assert Verdict(data, 2).choice.backend == "shm"
    data = measured(32, 5, result_nbytes=32 * 28_000)
    assert Verdict(data, 2).choice.backend == "serial"  # copying is what takes the time


def test_a_slow_machine_makes_signals_slow_too_but_not_copying() -> None:
    of_bytes = [forecasts(measured(2, 1, result_nbytes=10**9), 2, slowness)[-1].overhead for slowness in (0.1, 10.0)]
    assert of_bytes[1] < 1.1 * of_bytes[0]
    data = measured(16, 8)
    assert Verdict(data, 2).choice.backend == "shm"
    assert Verdict(data, 2, slowness=2.0).choice.backend == "serial"
    assert 0.2 < slowness() < 50


def test_threads_of_blas_are_seen() -> None:
    data = measured(20, 300, computing_seconds=0.012)
    assert "keep 2.0 processors busy" in Verdict(data, 2).reason
    assert "workers get one thread each" in Verdict(data, 2).reason
    data = measured(2, 1, computing_seconds=4e-6)
    assert "set OMP_NUM_THREADS=1 and compare" in Verdict(data, 2).reason


def test_durations_are_readable() -> None:
    assert [wording.duration(seconds) for seconds in (2.5, 0.0123, 45e-6, 5e-7)] == [
        "2.5 s",
        "12.3 ms",
        "45 µs",
        "0.5 µs",
    ]

"""What reports add up to, and numbers as people write them."""

from __future__ import annotations

import math

import pytest

from shoal.runs.display.course import Course, clock, loss_value, time_shares
from shoal.runs.display.panel import stacked_bar
from tests.runs.display.reports import report


def test_rate_of_a_resumed_run_leaves_out_what_came_before() -> None:
    course = Course()
    course.add(report(steps=1_000_000 + 1000, seconds=1.0, steps_per_second=1000.0))
    course.add(report(steps=1_000_000 + 3000, seconds=2.0, steps_per_second=2000.0))
    assert course.steps_per_second == 1500.0


def test_a_lucky_start_is_no_record() -> None:
    course = Course()
    for episodes, mean in ((1, 500.0), (100, 90.0), (200, 110.0), (300, math.nan), (400, 100.0)):
        course.add(report(episodes=episodes, mean_return=mean))
        assert course.best_mean_return == {1: 500.0, 100: 90.0}.get(episodes, 110.0)


def test_shares_add_up() -> None:
    assert time_shares(report(shares={})) == []
    assert dict(time_shares(report(shares={"environments": 0.75, "update": 0.75}))) == {
        "environments": 0.5,
        "update": 0.5,
        "other": 0.0,
    }
    shares = time_shares(report(shares={"environments": 1 / 3, "policy": 1 / 3, "update": math.nan}))
    assert [name for name, _ in shares] == ["environments", "policy", "other"]
    assert sum(stacked_bar(shares, 61)) == 61


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(None, "-"), (math.nan, "-"), (0.0, "0:00:00"), (59.6, "0:01:00"), (3661.0, "1:01:01"), (90_061.0, "1d 01:01:01")],
)
def test_clock(seconds: float | None, expected: str) -> None:
    assert clock(seconds) == expected


@pytest.mark.parametrize("value", [0.0, -999.99999, 1e-4, -1e300, -1e-300, math.nan, -math.inf, 12345.678])
def test_a_loss_takes_nine_characters(value: float) -> None:
    assert len(loss_value(value)) <= 9

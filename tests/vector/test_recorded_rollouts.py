"""Rollouts give what they gave when they were recorded, on every backend, with workers killed and without.

Other tests compare backends with each other, so they do not see what changes on all of them alike. Here the digests of
everything that was returned are kept in ``recorded/digests.json``, one line for each call. If a difference is meant, write
the file anew, look at what ``git diff`` shows, and say in the changelog what changed::

    python -m tests.vector.test_recorded_rollouts
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from shoal.vector.auto import trial
from shoal.vector.auto.trial import Trial
from tests.moving import move_at_once
from tests.vector.recorded.rollouts import LOSING, SCENARIOS, Rollout, kills

RECORDED = Path(__file__).parent / "recorded" / "digests.json"
PROCESSES: dict[str, Any] = {"num_workers": 2, "start_method": "fork"}
WAYS: dict[str, dict[str, Any]] = {
    "serial": {"backend": "serial"},
    "threads": {"backend": "threads", "num_workers": 2},
    "pipes": {"backend": "pipes", **PROCESSES},
    "shm": {"backend": "shm", **PROCESSES},
    "auto": {"backend": "auto"},
}
QUICK = ("serial", "shm", "auto")


def recorded(name: str) -> list[str]:
    events: list[str] = json.loads(RECORDED.read_text())[name]
    return events


def played(name: str, rollout: Rollout) -> list[str]:
    (SCENARIOS | LOSING)[name](rollout)
    return rollout.events


def test_every_scenario_is_recorded() -> None:
    assert list(json.loads(RECORDED.read_text())) == sorted(SCENARIOS | LOSING)


@pytest.mark.parametrize("name", sorted(SCENARIOS))
@pytest.mark.parametrize("way", [pytest.param(way, marks=() if way in QUICK else pytest.mark.slow) for way in WAYS])
def test_rollouts_give_what_was_recorded(way: str, name: str) -> None:
    assert played(name, Rollout(WAYS[way])) == recorded(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SCENARIOS))
@pytest.mark.parametrize("way", ["pipes", "shm"])
def test_killed_workers_change_nothing(way: str, name: str) -> None:
    plan = kills()
    assert played(name, Rollout(WAYS[way], plan)) == recorded(name)
    assert plan.fired


@pytest.mark.parametrize("name", sorted(LOSING))
@pytest.mark.parametrize("way", ["pipes", "shm"])
def test_losing_episodes_gives_what_was_recorded(way: str, name: str) -> None:
    assert played(name, Rollout(WAYS[way])) == recorded(name)


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor leaves no choice")
@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_moving_to_workers_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    move_at_once(monkeypatch)
    monkeypatch.setattr(trial, "FEW_STEPS", 3)
    monkeypatch.setattr(trial, "LITTLE_TIME", 0.0)
    monkeypatch.setattr(Trial, "verdict", lambda *_: None)  # as when nothing was timed: workers it is
    assert played(name, Rollout(WAYS["auto"])) == recorded(name)


if __name__ == "__main__":
    found = {name: played(name, Rollout(WAYS["shm" if name in LOSING else "serial"])) for name in SCENARIOS | LOSING}
    RECORDED.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")

"""The experiments by themselves, in this process: quick, and without the front door."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import cloudpickle
import numpy as np
import pytest

from shoal.testing.experiments import Baseline, Subject, baseline, repeat, sharing
from shoal.testing.fresh import Progress
from tests.testing import bugs
from tests.testing.test_check import SEEN_ALONE, name_of


@pytest.fixture
def progress() -> Iterator[Progress]:
    """Tells nobody. What experiments do to the global random numbers is undone."""
    states = random.getstate(), np.random.get_state()
    descriptor = os.open(os.devnull, os.O_WRONLY)
    yield Progress(descriptor)
    os.close(descriptor)
    random.setstate(states[0])
    np.random.set_state(states[1])


def subject_of(env_fn: Any, *, steps: int = 12, isolate_rng: bool = False) -> Subject:
    return Subject(cloudpickle.dumps(env_fn), (0, 1), steps, None, isolate_rng)


def run_alone(progress: Progress, subject: Subject) -> Baseline:
    found = baseline(progress, subject)
    assert found.material
    return found


@pytest.mark.parametrize(
    ("env_fn", "kind", "words"),
    [
        *SEEN_ALONE,
        (bugs.ReusesObservation, "reused-buffer", "observation"),
        (bugs.ReusesInfo, "reused-buffer", "info"),
        (bugs.TouchesRandom, "global-rng", "random"),
        (bugs.NumpyRandom, "global-rng", "numpy.random"),
    ],
    ids=name_of,
)
def test_the_baseline_sees_one_symptom(progress: Progress, env_fn: Any, kind: str, words: str) -> None:
    (symptom,) = run_alone(progress, subject_of(env_fn)).symptoms
    assert symptom.kind == kind
    assert symptom.what in words or any(part in symptom.what for part in words.split("("))


@pytest.mark.parametrize("env_fn", [bugs.Walk, bugs.OddInfo, bugs.Talks, bugs.Clocked, bugs.SharedWind], ids=name_of)
def test_the_baseline_sees_nothing_where_there_is_nothing_to_see_alone(progress: Progress, env_fn: Any) -> None:
    assert run_alone(progress, subject_of(env_fn)).symptoms == []


def test_a_run_stops_at_what_is_raised(progress: Progress) -> None:
    found = baseline(progress, subject_of(bugs.Raises))
    assert [symptom.kind for symptom in found.symptoms] == ["raises"]
    assert (found.steps, found.material) == (3, b"")


def test_large_observations_mean_fewer_steps(progress: Progress) -> None:
    assert run_alone(progress, subject_of(bugs.Huge, steps=100)).steps == 5


@pytest.mark.parametrize(
    ("env_fn", "perturbs", "place", "part"),
    [
        (bugs.Walk, True, None, None),
        (bugs.OddInfo, True, None, None),
        (bugs.TouchesRandom, True, None, None),
        (bugs.PythonRandom, False, None, None),
        (bugs.PythonRandom, True, "step 1 after reset(seed=0)", "observation"),
        (bugs.NumpyRandom, True, "step 1 after reset(seed=0)", "observation"),
        (bugs.Clocked, False, "step 1 after reset(seed=0)", "observation"),
        (bugs.SeedIgnored, False, "reset(seed=0)", "observation"),
        (bugs.TimedInfo, False, "reset(seed=0)", "info['seconds']"),
    ],
    ids=lambda value: name_of(value) if callable(value) else str(value),
)
def test_a_repetition_finds_the_first_difference(
    progress: Progress, env_fn: Any, perturbs: bool, place: str | None, part: str | None
) -> None:
    subject = subject_of(env_fn)
    found = repeat(progress, subject, run_alone(progress, subject).material, perturbs)
    first, outside_infos = found.differences
    assert (first.place if first else None, first.part if first else None) == (place, part)
    assert (outside_infos is None) == (part is None or part.startswith("info"))
    assert found.is_unseeded == (env_fn is bugs.SeedIgnored)


def test_isolated_random_numbers_are_not_perturbed(progress: Progress) -> None:
    subject = subject_of(bugs.NumpyRandom, isolate_rng=True)
    alone = run_alone(progress, subject)
    assert alone.symptoms == []
    assert repeat(progress, subject, alone.material, True).differences.first is None


@pytest.mark.parametrize(
    ("env_fn", "shared", "past"),
    [
        (bugs.Walk, None, None),
        (bugs.NumpyRandom, None, None),
        (bugs.SharedWind, "observation", None),
        (bugs.Remembers, None, "observation"),
    ],
    ids=lambda value: name_of(value) if callable(value) else str(value),
)
def test_environments_in_one_process_are_compared_with_lone_ones(
    progress: Progress, env_fn: Any, shared: str | None, past: str | None
) -> None:
    subject = subject_of(env_fn)
    found = sharing(progress, subject, run_alone(progress, subject).material)
    parts = [differences.first.part for _, differences in found.shared if differences.first]
    assert parts == ([shared] if shared else [])
    assert (found.past.first.part if found.past.first else None) == past

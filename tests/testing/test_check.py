"""``check_parallel``, through the front door: every bug is found, alone, and sound environments are left alone."""

from __future__ import annotations

import functools
import pickle
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium
import psutil
import pytest

import shoal
from shoal.testing import CheckFailed, Finding, Report, check_parallel
from tests.testing import bugs

slow = pytest.mark.slow
AS_ANOTHER = (
    bugs.WrongShape,
    bugs.WrongType,
    bugs.WrongPart,
    bugs.reward_of_nan,
    bugs.PythonRandom,
    bugs.ReusesInfo,
)
"""Bugs that are reported as another one in the same list is. The experiments by themselves see them in every run."""


def marked(case: tuple[Any, str, str]) -> Any:
    return pytest.param(*case, marks=pytest.mark.soak if case[0] in AS_ANOTHER else slow)


def check(env_fn: Any, **keywords: Any) -> Report:
    """A small check: one backend, few environments, few steps."""
    small = {"steps": 12, "seeds": (0, 1), "backends": ("serial",), "num_envs": (2,), "raise_on_error": False}
    return check_parallel(env_fn, **{**small, **keywords})


def only_finding(report: Report) -> Finding:
    (finding,) = report.findings
    return finding


SEEN_ALONE = [
    (bugs.OutOfBounds, "observation-outside-space", "observation[1] is 120.0, outside -100.0 to 100.0"),
    (bugs.WrongShape, "observation-outside-space", "has shape (3,), but its space has shape (2,)"),
    (bugs.WrongType, "observation-outside-space", "has dtype float64, but its space has dtype float32"),
    (bugs.WrongPart, "observation-outside-space", "observation['mood'][0] is 3, which is not in Discrete(3)"),
    (bugs.reward_of_text, "reward-not-a-number", "a reward that is not a number (reward is 'much'): return a float"),
    (bugs.reward_of_nan, "reward-not-a-number", "reward is nan"),
    (bugs.flag_of_number, "flag-not-a-bool", "a flag that is not a bool (truncated is 0): wrap it in bool(...)"),
    (bugs.info_of_list, "info-not-a-dict", "not a dictionary (info is ['nothing']): return {} if"),
    (bugs.LockedInfo, "info-unpicklable", "info['nested']['lock']: TypeError: cannot pickle '_thread.lock' object"),
    (
        bugs.ForgetfulInfo,
        "info-changed-by-pickling",
        "Score({'points': 1}) and tests.testing.bugs.Score({'points': 0})",
    ),
]
SEEN_IN_COMPARISON = [
    (bugs.Clocked, "not-deterministic", "first in observation at step 1 after reset(seed=0): draw all random numbers"),
    (bugs.Entropic, "not-deterministic", "let nothing depend on a clock, on an object's address"),
    (
        bugs.SeedIgnored,
        "seed-ignored",
        "reset(seed=0) gives different results for equal seeds, because it does not seed",
    ),
    (bugs.PythonRandom, "global-rng", "depend on the global random numbers of random, and so on who shares the worker"),
    (bugs.HashOrdered, "hash-order", "the order of hashes (PYTHONHASHSEED), first in info['first'] at reset(seed=0)"),
    (bugs.Numbered, "shared-state", "first in info['number'] at reset(seed=0): keep what changes in self"),
]
NOTES = [
    (bugs.TimedInfo, "info-not-deterministic", "different infos, first in info['seconds'] at reset(seed=0)"),
    (
        bugs.TouchesRandom,
        "global-rng-touched",
        "Step 1 after reset(seed=0) changes the global random numbers of random",
    ),
    (bugs.ReusesObservation, "reused-buffer", "The observation that reset(seed=0) returned is changed by a later call"),
    (bugs.ReusesInfo, "reused-buffer", "The info that reset(seed=0) returned is changed by a later call"),
    (bugs.Remembers, "reset-depends-on-past", "in mid-life starts otherwise than a new environment with that seed"),
]
NOT_EVEN_RUN = [
    (bugs.Raises, "raises", "Step 3 after reset(seed=0) raised KeyError: 'no such door': an environment has to take"),
    (
        bugs.RaisesAtOnce,
        "cannot-be-made",
        "Making the environment raised FileNotFoundError: no such world: its factory",
    ),
    (bugs.Dies, "died", "Step 3 after reset(seed=0) ended the whole process (exit code 7)"),
    (
        bugs.OldStep,
        "wrong-result",
        "Step 1 after reset(seed=0): step() returned 4 values instead of 5; reset() returns",
    ),
    (bugs.unpicklable(), "factory-unpicklable", "(TypeError: cannot pickle '_thread.lock' object): create what it"),
    (bugs.UnreadableFactory(), "factory-unpicklable", "to a worker process (ImportError: no module named 'world')"),
]


def name_of(value: Any) -> str:
    return getattr(value, "__name__", type(value).__name__) if callable(value) else ""


@pytest.mark.parametrize(("env_fn", "kind", "words"), NOT_EVEN_RUN, ids=name_of)
def test_an_environment_that_does_not_run_is_said_not_to(env_fn: Any, kind: str, words: str) -> None:
    report = check(env_fn)
    finding = only_finding(report)
    assert (finding.kind, finding.severity) == (kind, "error")
    assert words in finding.message
    assert report.done == {"run"}
    assert not report.compared


@pytest.mark.parametrize(
    ("env_fn", "kind", "words"),
    [
        (bugs.NumpyRandom, "global-rng", "depend on the global random numbers of numpy.random"),
        (
            bugs.SharedWind,
            "shared-state",
            "first in observation at step 2 after reset(seed=0): keep what changes in self",
        ),
        *map(marked, [*SEEN_ALONE, *SEEN_IN_COMPARISON]),
    ],
    ids=name_of,
)
def test_a_bug_is_found_and_nothing_else(env_fn: Any, kind: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind != "hash-order":
        monkeypatch.setattr("shoal.testing.check.HASH_SEEDS", (1,))
    report = check(env_fn)
    finding = only_finding(report)
    assert (finding.kind, finding.severity) == (kind, "error")
    assert words in finding.message
    assert "\n" not in finding.message
    assert finding.message.endswith(".")
    assert not report.ok


@pytest.mark.parametrize(("env_fn", "kind", "words"), [*map(marked, NOTES)], ids=name_of)
def test_what_does_no_harm_is_a_note(env_fn: Any, kind: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.testing.check.HASH_SEEDS", (1,))
    report = check(env_fn, raise_on_error=True)
    finding = only_finding(report)
    assert (finding.kind, finding.severity) == (kind, "note")
    assert words in finding.message
    assert report.ok
    assert report.compared


def test_a_step_that_hangs_is_ended_and_named_with_its_stack() -> None:
    began = time.monotonic()
    finding = only_finding(check(bugs.Hangs, call_timeout=2.0))
    assert time.monotonic() - began < 30
    assert finding.kind == "too-slow"
    assert "Step 3 after reset(seed=0) has not returned after 2 s: find out what it waits for" in finding.message
    assert "bugs.py" in finding.detail
    assert "in step" in finding.detail


def test_a_check_that_takes_too_long_is_stopped() -> None:
    finding = only_finding(check(bugs.Slow, total_timeout=1.5))
    assert finding.kind == "check-too-slow"
    assert "The check was stopped after 1.5 s: pass fewer steps, seeds or num_envs" in finding.message
    assert finding.detail.startswith("It was at: ")


@slow
def test_a_hang_on_one_backend_is_named() -> None:
    report = check(bugs.HangsOutsideTheMainThread, backends=("serial", "threads"), call_timeout=3.0)
    finding = only_finding(report)
    assert finding.kind == "too-slow"
    assert 'The backend "threads" (2 environments on 1 worker, autoreset_mode=NEXT_STEP)' in finding.message


@slow
@pytest.mark.parametrize(
    ("where", "limits"),
    [
        pytest.param("make", {"call_timeout": 2.0}, marks=pytest.mark.soak),
        ("reset", {"call_timeout": 2.0}),
        ("step", {"total_timeout": 8.0}),
    ],
    ids=["make", "reset", "step"],
)
def test_a_worker_that_hangs_is_ended(where: str, limits: dict[str, float], tmp_path: Path) -> None:
    file = tmp_path / "pids"
    report = check(functools.partial(bugs.HangsInWorkers, str(file), where), backends=("pipes", "shm"), **limits)
    assert {finding.kind for finding in report.findings} <= {"too-slow", "check-too-slow"}
    assert not report.ok
    pids = [int(line) for line in file.read_text().splitlines()]
    assert pids
    assert not any(_runs(pid) for pid in pids)


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@slow
def test_a_difference_that_nothing_explains_is_said_to_be_one() -> None:
    finding = only_finding(check(bugs.KnowsItsThread, backends=("serial", "threads")))
    assert finding.kind == "backends-differ"
    assert 'On the backend "threads" (2 environments on 1 worker, autoreset_mode=NEXT_STEP)' in finding.message
    assert "info['main']: [ True  True] and [False False] (alone, and on the backend)" in finding.detail


@slow
def test_an_exception_on_one_backend_is_named() -> None:
    finding = only_finding(check(bugs.RaisesOutsideTheMainThread, backends=("threads",)))
    assert finding.kind == "backend-raises"
    assert 'The backend "threads" (2 environments' in finding.message
    assert "RuntimeError" in finding.detail


def test_a_sound_environment_is_sound_on_every_backend() -> None:
    report = check(bugs.Walk, backends=("serial", "threads", "pipes", "shm"), num_envs=(1, 3), steps=25)
    assert report.findings == ()
    assert report.ok
    assert report.steps == 25
    assert report.compared == "serial, threads, pipes, shm with 1, 3 environments on 1, 2 workers"
    assert str(report).splitlines()[0] == "Walk: no errors, no notes (25 steps, seeds 0, 1)"
    report.raise_if_bad()


@slow
@pytest.mark.parametrize(
    "env_id",
    ["CartPole-v1"]
    + [
        pytest.param(name, marks=pytest.mark.soak)
        for name in ("Blackjack-v1", "Pendulum-v1", "FrozenLake-v1", "Taxi-v4")
    ],
)
def test_gymnasiums_environments_are_sound(env_id: str) -> None:
    report = check_parallel(env_id)
    assert report.findings == ()
    assert report.env == env_id


@slow
@pytest.mark.parametrize(
    "env_fn",
    [
        bugs.OddInfo,
        bugs.Talks,
        functools.partial(gymnasium.make, "CartPole-v1", max_episode_steps=7),
        lambda: gymnasium.wrappers.FrameStackObservation(gymnasium.make("CartPole-v1"), 3),
        "Blackjack-v1",
    ],
    ids=["odd-info", "text", "partial", "wrapped", "tuple"],
)
def test_unusual_but_sound_environments_are_sound(env_fn: Any) -> None:
    report = check(env_fn, backends=("serial", "shm"), num_envs=(1, 14), steps=30)
    assert report.findings == ()


@slow
def test_the_clock_in_episode_statistics_is_a_note() -> None:
    report = check(_with_statistics, backends=("serial", "pipes"), steps=60)
    assert only_finding(report).kind == "info-not-deterministic"
    assert "info['episode']['t']" in only_finding(report).message


def _with_statistics() -> Any:
    return gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("CartPole-v1"))


@slow
def test_isolated_random_numbers_cure_what_they_are_said_to() -> None:
    assert check(bugs.NumpyRandom, isolate_rng=True, backends=("serial", "shm")).findings == ()


@slow
def test_actions_can_be_given() -> None:
    assert only_finding(check(bugs.HatesActionTwo)).kind == "raises"
    assert check(bugs.HatesActionTwo, actions=[0, 1, 1]).findings == ()


@slow
def test_a_slow_environment_is_stepped_less() -> None:
    report = check(bugs.Slow, num_envs=(1, 200), seeds=(0,))
    assert report.findings == ()
    assert report.steps == 5
    assert report.compared == "serial with 1 environment on 1 worker"


@slow
def test_an_environment_registered_here_is_known_in_the_fresh_processes() -> None:
    gymnasium.register("tests/Walk-v0", entry_point="tests.testing.bugs:Walk")
    try:
        assert check(lambda: gymnasium.make("tests/Walk-v0")).findings == ()
        assert check(gymnasium.spec("tests/Walk-v0")).env == "tests/Walk-v0"
    finally:
        del gymnasium.registry["tests/Walk-v0"]


def test_errors_raise_unless_told_otherwise() -> None:
    with pytest.raises(CheckFailed) as caught:
        check(bugs.Raises, raise_on_error=True)
    assert isinstance(caught.value, AssertionError)
    report = caught.value.report
    assert str(caught.value) == str(report)
    lines = str(report).splitlines()
    assert lines[0] == "Raises: 1 error, no notes (3 steps, seeds 0, 1)"
    assert lines[1].startswith("  error (raises): Step 3 after reset(seed=0) raised KeyError: 'no such door'")
    assert lines[-1] == "  The backends were not compared, because of the errors."
    assert "lone.py" not in str(report)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(report)


def test_a_fault_of_the_check_itself_is_not_blamed_on_the_environment() -> None:
    with pytest.raises(shoal.ShoalError, match="the check itself failed, at: (?s:.*)cannot be looked at"):
        check(bugs.InvisibleInfo)


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"steps": 0}, "steps must be a whole number of at least 1, got 0"),
        ({"num_envs": ()}, "num_envs is empty"),
        ({"num_workers": (0,)}, "each of num_workers must be a whole number of at least 1, got 0"),
        ({"seeds": ()}, r"seeds must be different whole numbers, at least one, got \[\]"),
        ({"seeds": (1, 1)}, r"seeds must be different whole numbers, at least one, got \[1, 1\]"),
        ({"backends": ("smh",)}, "got 'smh'. Did you mean 'shm'?"),
        ({"backends": ("auto",)}, r"backends must be some of serial, threads, pipes, shm, got \['auto'\]"),
        ({"seeds": (1, "2")}, r"seeds must be different whole numbers, at least one, got \[1, '2'\]"),
        ({"actions": []}, "actions is empty"),
        ({"actions": [threading.Lock()]}, "actions cannot be sent to another process: TypeError: cannot pickle"),
        ({"call_timeout": 0}, "call_timeout must be a positive number of seconds, got 0"),
        ({"total_timeout": True}, "total_timeout must be a positive number of seconds, got True"),
    ],
    ids=lambda value: "" if isinstance(value, str) else "-".join(value),
)
def test_arguments_that_cannot_work_are_refused(keywords: dict[str, Any], words: str) -> None:
    with pytest.raises(shoal.ConfigurationError, match=words):
        check(bugs.Walk, **keywords)


def test_a_system_without_processes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.testing.check.processes_unavailable", lambda: "there are none here")
    with pytest.raises(shoal.BackendUnavailable, match="processes of their own, and there are none here"):
        check(bugs.Walk)


def test_ctrl_c_leaves_no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shoal.testing.fresh.time.sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        check(bugs.Hangs)

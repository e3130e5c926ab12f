"""The ``shoal`` command, as a person uses it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import shoal
from shoal.vector.profile.tracks import Share


def run(*arguments: str, expect: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "shoal.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=110,
        env=wide_terminal(),
    )
    assert done.returncode == expect, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def wide_terminal() -> dict[str, str]:
    import os

    return {**os.environ, "COLUMNS": "160", "NO_COLOR": "1"}


def test_version() -> None:
    assert run("--version") == f"shoal {shoal.__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help_names_the_verbs(arguments: list[str]) -> None:
    text = run(*arguments)
    assert all(verb in text for verb in ("envs", "bench", "demo"))


def test_envs_lists_what_is_registered() -> None:
    text = run("envs", "cartpole-v")
    assert "CartPole-v1" in text
    assert "Pendulum" not in text
    assert "No registered environment has 'nonsense' in its id" in run("envs", "nonsense")


def test_demo_proves_that_the_results_are_identical() -> None:
    text = run("demo", "--num-envs", "5", "--rounds", "30", "--no-train")
    assert "Identical: every observation, reward, flag and info of 150 steps" in text
    assert all(backend in text for backend in ("serial", "threads", "pipes", "shm"))
    assert 'backend="auto", the default: A step of one environment takes' in text
    assert "attacked" not in text


def test_demo_trains_a_policy_and_compares_it(tmp_path: Path) -> None:
    text = run("demo", "--num-envs", "2", "--rounds", "5", "--train-steps", "100000", "--root", str(tmp_path))
    assert "A network of 13 hosts is attacked" in text
    assert all(name in text for name in ("do nothing", "remove what is seen", "restore what is seen", "the policy"))
    (folder,) = tmp_path.iterdir()
    assert (folder / "curve.png").exists()
    assert f"shoal eval {folder}" in " ".join(text.split())


@pytest.mark.parametrize("env", ["CartPole-v1", "tests.envs:CountingEnv"])
def test_bench_measures_shoal_beside_gymnasium(env: str) -> None:
    text = run("bench", env, "--quick", "--num-envs", "3", "--seconds", "0.01", "--repeats", "1")
    assert f"3 x {env}" in text
    backends = ("auto", "serial", "threads", "pipes", "shm")
    for name in ("SyncVectorEnv", "AsyncVectorEnv", *(f"shoal {backend}" for backend in backends)):
        assert name in text
    assert "auto: A step of one environment takes" in text


def test_profile_says_where_the_time_goes(tmp_path: Path) -> None:
    text = run("profile", "CartPole-v1", "--num-envs", "4", "--seconds", "0.3", "--output", str(tmp_path / "found"))
    assert "CartPole-v1" in text
    assert "4 environments, backend 'serial'" in text
    assert all(share.value in text for share in Share)
    assert (tmp_path / "found" / "profile.png").read_bytes().startswith(b"\x89PNG")
    assert '"traceEvents"' in (tmp_path / "found" / "profile.json").read_text()


def test_profile_takes_any_environment_and_policy() -> None:
    arguments = ("--backend", "shm", "--num-envs", "4", "--seconds", "0.3", "--policy-milliseconds")
    text = run("profile", "tests.envs:DozingEnv", *arguments, "15")
    assert "with 2 workers" in text
    assert "envs.split(2)" in text
    text = run("profile", "tests.envs:CountingEnv", *arguments, "1000")
    assert "CountingEnv, 1 round in 1." in text
    assert "of the time: only a quicker one would help." in text
    assert "Did you mean 'CountingEnv'?" in run("profile", "tests.envs:CountinEnv", expect=1)
    for option, wrong in (
        ("--seconds", "0"),
        ("--seconds", "-1"),
        ("--seconds", "inf"),
        ("--policy-milliseconds", "-1"),
    ):
        name = option[2:].replace("-", "_")
        assert f"error: {name} must be" in run("profile", "tests.envs:CountingEnv", option, wrong, expect=1)
    assert "error: seconds must be a number above 0, got 0" in run("bench", "--seconds", "0", expect=1)
    assert "error: repeats must be a whole number of at least 1, got 0" in run("bench", "--repeats", "0", expect=1)


def test_a_verb_or_an_environment_that_does_not_exist_is_explained() -> None:
    assert "error: there is no verb 'bnech'. Did you mean 'bench'?" in run("bnech", expect=2)
    assert "error: no environment is registered as 'NoSuch-v0'." in run("demo", "NoSuch-v0", expect=1)
    assert "error: num_envs must be a whole number of at least 1, got 0" in run("demo", "--num-envs", "0", expect=1)

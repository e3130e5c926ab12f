"""The ``shoal`` command, as a person uses it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import shoal
from shoal.cli.rollouts import Rollout
from shoal.cli.sameness import verdict, warn_if_busy
from shoal.vector.profile.tracks import Share
from tests.envs import CountingEnv


def run(*arguments: str, expect: int = 0, columns: int = 160) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "shoal.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=110,
        env=terminal(columns),
    )
    assert done.returncode == expect, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def terminal(columns: int) -> dict[str, str]:
    return {**os.environ, "COLUMNS": str(columns), "NO_COLOR": "1"}


class Timekeeping(CountingEnv):
    """Tells the time, which differs on every backend."""

    def _observe(self) -> tuple[Any, dict[str, Any]]:
        return np.full(2, time.perf_counter() % 1, np.float32), {}


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


def test_demo_compares_backends_where_workers_pay_and_where_they_do_not() -> None:
    text = run("demo", "--num-envs", "5", "--rounds", "30", "--no-train")
    assert "The same 30 random steps of 5 environments on every backend." in text
    titles = "5 x CartPole-v1, with 300 µs of computing in every step", "5 x CartPole-v1 as it is"
    for title, section in zip(titles, text.split("5 x CartPole-v1")[1:], strict=True):
        assert title in text
        rows = {line.split()[0]: line.split()[-1] for line in section.splitlines() if line.strip()}
        assert len({rows[backend] for backend in ("serial", "threads", "pipes", "shm", "auto")}) == 1
        assert re.search("Workers (pay|do not pay|make no difference) here: ", section)
        assert re.search(
            'backend="auto", the default, has picked (serial|shm): A step of one environment takes', section
        )
    assert (
        "Identical: every observation, reward, flag and info of 300 steps has the same digest on every backend." in text
    )
    assert "attacked" not in text


def test_demo_fits_a_narrow_terminal() -> None:
    text = run("demo", "--num-envs", "2", "--rounds", "5", "--no-train", columns=80)
    assert max(map(len, text.splitlines())) <= 80
    assert len(re.findall("(?m)^(serial|threads|pipes|shm|auto) .* ms .* [0-9a-f]{12}", text)) == 10


def test_demo_compares_an_environment_of_ones_own() -> None:
    text = run("demo", "tests.envs:CountingEnv", "--num-envs", "2", "--rounds", "5", "--no-train")
    assert "2 x tests.envs:CountingEnv" in text
    assert "Identical: every observation, reward, flag and info of 10 steps has the same digest" in text
    assert "CartPole" not in text


def test_demo_says_what_makes_results_differ() -> None:
    text = run("demo", "tests.cli.test_cli:Timekeeping", "--num-envs", "2", "--rounds", "5", "--no-train")
    assert "The results differ. The environment is not deterministic: it uses a clock, global random numbers" in text
    assert "Identical" not in text


@pytest.mark.parametrize(
    ("shm", "sentence"),
    [
        (1900, "Workers pay here: shm is 1.9 times as fast as serial."),
        (500, "Workers do not pay here: serial is 2.0 times as fast as shm."),
        (1050, "Workers make no difference here: shm is about as fast as serial."),
    ],
)
def test_demo_judges_workers_by_what_was_measured(shm: float, sentence: str) -> None:
    rollout = Rollout(1000, 0.0, "", "serial", "It is quicker.")
    done = {"serial": rollout, "shm": replace(rollout, steps_per_second=shm), "auto": rollout}
    said = verdict(done).replace("[bold]", "").replace("[/bold]", "")
    assert said == f'{sentence}\nbackend="auto", the default, has picked serial: It is quicker.'


@pytest.mark.parametrize(("load", "is_said"), [(9.0, True), (0.1, False)])
def test_demo_says_when_other_programs_keep_the_machine_busy(
    load: float, is_said: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    warn_if_busy(Console(width=200))
    warning = "Other programs keep this machine busy (load 9.0 on 2 processors), so worker processes gain less"
    assert capsys.readouterr().out == (f"{warning} than they could.\n" if is_said else "")


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

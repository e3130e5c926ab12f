"""What the ``shoal`` command says to people who make mistakes: a sentence, never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BROKEN = """
import gymnasium
import numpy as np


class Env(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(2, np.float32), 0.0, False, False, {}


class Raises(Env):
    def step(self, action):
        if self.steps == 5:
            raise ValueError("no way out")
        return super().step(action)


class WrongShape(Env):
    def step(self, action):
        return np.zeros(3, np.float32), 0.0, False, False, {}


number = 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "broken.py").write_text(BROKEN)
    (tmp_path / "misspelt.py").write_text("import gymnasium\nclass Env(\n")
    (tmp_path / "raising.py").write_text("import gymnasium\nraise RuntimeError('no licence file')\n")
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit(4)\n")
    return tmp_path


def run(folder: Path, *arguments: str, expect: int, module: str = "shoal.cli.main", **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True, timeout=110, cwd=folder, env={**os.environ, "COLUMNS": "300", "NO_COLOR": "1", **variables},
    )  # fmt: skip
    output = (done.stdout + done.stderr).decode()
    assert done.returncode == expect, output
    assert "Traceback" not in output
    return output


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("misspelt:Env", "the module 'misspelt' cannot be imported ({folder}/misspelt.py, line 2): SyntaxError: "),
        (
            "raising:Env",
            "the module 'raising' cannot be imported ({folder}/raising.py, line 2): RuntimeError: no licence file",
        ),
        ("leaving:Env", "the module 'leaving' cannot be imported ({folder}/leaving.py, line 2): SystemExit: 4"),
        ("missing:Env", "'missing:Env' asks for the module 'missing': No module named 'missing'"),
        ("./broken.py:Env", "'./broken.py:Env' is the name of a file: name the module, broken:Env, in its folder"),
        ("broken:Enf", "'Enf' does not exist in the module 'broken'. Did you mean 'Env'?"),
        ("broken:number", "'number' of the module 'broken' is of type int: name what makes an environment"),
    ],
)
def test_an_environment_that_cannot_be_had_is_explained(folder: Path, env: str, message: str) -> None:
    output = run(folder, "profile", env, expect=1)
    assert output.startswith(f"error: {message.format(folder=folder)}")


@pytest.mark.parametrize(
    "verb", [["profile", "--backend", "shm"], ["bench", "--quick"], ["demo", "--no-train"]], ids=" ".join
)
def test_who_made_an_environment_that_raises_is_told_where(folder: Path, verb: list[str]) -> None:
    output = run(folder, *verb, "broken:Raises", "--num-envs", "3", expect=1)
    said = output[output.index("error: ") :]
    assert " in step() raised ValueError: no way out\n" in said
    assert f"\n  At: {folder}/broken.py, line 23, in step.\n" in said
    assert said.endswith("`shoal check` looks for the usual bugs of environments.\n")
    assert "reset_mask" not in said
    assert ".others" not in said


def test_a_broken_contract_is_reported_without_an_action_that_nobody_knows(folder: Path) -> None:
    output = run(folder, "bench", "broken:WrongShape", "--quick", expect=1)
    assert "observation has shape (3,), but its space has shape (2,)" in output
    assert "action" not in output


def test_what_makes_no_environment_is_refused_without_more_ado(folder: Path) -> None:
    output = run(folder, "profile", "os:getcwd", expect=1)
    assert output.startswith(
        "error: environment 0 while it was being made broke Gymnasium's contract: its factory returned"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["profile", "CartPole-v1", "--output", "taken"],
            "the folder taken cannot be made: File exists. Choose another one (--output).",
        ),
        (["demo", "--root", "taken"], "the folder taken cannot be made: File exists. Choose another one (--root)."),
        (["demo", "--rounds", "0"], "rounds must be a whole number of at least 1, got 0"),
        (["demo", "--train-steps", "0"], "train_steps must be a whole number of at least 1, got 0"),
    ],
)
def test_what_would_fail_in_the_end_is_refused_at_the_beginning(
    folder: Path, arguments: list[str], message: str
) -> None:
    (folder / "taken").write_text("")
    assert run(folder, *arguments, expect=1) == f"error: {message}\n"


@pytest.mark.parametrize(
    "verb", [["envs", "cart"], ["profile", "CartPole-v1", "--num-envs", "2", "--seconds", "0.1"]], ids=" ".join
)
def test_a_terminal_that_knows_few_signs_gets_what_it_knows(folder: Path, verb: list[str]) -> None:
    output = run(folder, *verb, expect=0, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", PYTHONIOENCODING="ascii")
    assert "CartPole-v1" in output


def test_ids_are_never_cut(folder: Path) -> None:
    output = run(folder, "envs", "MountainCarContinuous", expect=0, COLUMNS="40")
    assert "MountainCarContinuous-v0" in output


def test_ctrl_c_while_the_command_is_being_loaded_is_understood(folder: Path) -> None:
    (folder / "sitecustomize.py").write_text(
        "import importlib.abc, os, signal, sys\n"
        "class Finder(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'shoal.cli.main':\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    code = "import sys; from shoal.cli.start import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "envs"],
        capture_output=True, text=True, timeout=110, cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGINT, "", "stopped\n")
    assert "CartPole-v1" in run(folder, "envs", "cartpole", expect=0)

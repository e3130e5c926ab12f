"""``shoal check``, as a person uses it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_cli import run, terminal

SMALL = ("--steps", "12", "--seeds", "0", "--backends", "serial", "--num-envs", "2")


def test_a_sound_environment_is_ticked_off() -> None:
    text = run("check", "CartPole-v1", *SMALL)
    assert "CartPole-v1  12 steps, seeds 0," in text
    assert text.count("✓") == 10
    assert "sound: the same alone and on serial with 2 environments on 1 worker" in text
    assert "can be restored: " in text
    assert "from its last reset: yes" in text


def test_an_error_is_shown_with_its_sentence_and_details() -> None:
    text = run("check", "tests.testing.bugs:Raises", *SMALL, expect=1)
    assert "✗  can be sent to a worker, made, reset and stepped" in text
    assert "?  the same on every backend" in text
    assert "error  raises" in text
    assert "   Step 3 after reset(seed=0) raised KeyError: 'no such door': an environment has to" in text
    assert 'raise KeyError("no such door")' in text
    assert "1 error; what is marked ? was not checked because of that" in text


@pytest.mark.slow
def test_a_note_is_no_error() -> None:
    text = run("check", "tests.testing.bugs:ReusesObservation", *SMALL)
    assert "•  what it returned stays as it was" in text
    assert "note  reused-buffer" in text
    assert "sound" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["CartPol-v1"], "error: no environment is registered as 'CartPol-v1'. Did you mean 'CartPole-v1'?"),
        (
            ["Zzz"],
            "error: no environment is registered as 'Zzz'. `shoal envs` lists those there are; your own is named",
        ),
        (["tests.testing.bugs:walk"], "'walk' does not exist in the module 'tests.testing.bugs'. Did you mean 'Walk'?"),
        (
            ["tests.testing.bugs:__name__"],
            "'__name__' of the module 'tests.testing.bugs' is of type str: name what makes",
        ),
        (["no_such_module:Env"], "'no_such_module:Env' asks for the module 'no_such_module': No module named"),
        (["CartPole-v1", "--num-envs", "0"], "each of num_envs must be a whole number of at least 1, got 0"),
        (["CartPole-v1", "--backends", "smh"], "got 'smh'. Did you mean 'shm'?"),
        ([], "ENV"),
    ],
    ids=lambda value: "" if isinstance(value, str) else "-".join(value) or "nothing",
)
def test_misuse_is_explained(arguments: list[str], words: str) -> None:
    assert words in run("check", *arguments, expect=2)


def test_a_module_is_found_where_the_command_is_run(tmp_path: Path) -> None:
    (tmp_path / "my_world.py").write_text("import gymnasium\ndef make():\n    raise ValueError('not yet')\n")
    command = Path(sys.executable).with_name("shoal")
    done = subprocess.run(
        [command, "check", "my_world:make", *SMALL], cwd=tmp_path, capture_output=True, text=True, env=terminal(160)
    )
    assert done.returncode == 1, done.stderr
    assert "Making the environment raised ValueError: not yet" in done.stdout


def test_an_id_may_name_the_module_that_registers_it(tmp_path: Path) -> None:
    (tmp_path / "my_worlds.py").write_text(
        "import gymnasium\ngymnasium.register('Mine-v0', 'gymnasium.envs.classic_control.cartpole:NoSuchEnv')\n"
    )
    command = [sys.executable, "-m", "shoal.cli.main", "check", "my_worlds:Mine-v0", *SMALL]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=terminal(160))
    assert done.returncode == 1, done.stderr
    assert "Mine-v0" in done.stdout
    assert "cannot-be-made" in done.stdout

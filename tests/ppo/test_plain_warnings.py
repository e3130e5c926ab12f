"""What is warned of on the command line, and in a program of one's own."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from shoal.cli.main import main
from shoal.ppo.run import resume
from tests.ppo.envs import Aim

HERE = "tests.ppo.test_plain_warnings"
TRAIN = [
    "train", "--n-envs", "2", "--backend", "serial", "--rollout-steps", "20", "--torch-threads", "1", "--hidden-sizes", "8",
    "--display", "plain", "--checkpoint-dir", "run", "--total-steps", "80", "--checkpoint-every", "1",
]  # fmt: skip
Capture = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("here", "no_picture")


class Dividing(Aim):
    """Divides by zero, and does not know it."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        warnings.warn("invalid value encountered in its arithmetic", RuntimeWarning, stacklevel=1)
        return super().reset(seed=seed)


def warned(capsys: Capture, *arguments: str) -> str:
    """What is said beside the progress, where warnings are no errors."""
    capsys.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main([*arguments]) == 0
    return capsys.readouterr().err


def spoil_the_last() -> str:
    path = max(Path("run", "checkpoints").glob("step_*"), key=lambda one: one.stat().st_mtime_ns)
    (path / "tensors.safetensors").write_bytes(b"")
    return path.name


def test_a_curve_that_cannot_be_drawn_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no room for it")

    monkeypatch.setattr("shoal.runs.training.loop.draw_learning_curve", refuse)
    said = warned(capsys, *TRAIN, "--env", "CartPole-v1")
    assert said == "warning: there is no picture of the learning curve: no room for it\n"
    with pytest.warns(RuntimeWarning, match="there is no picture of the learning curve: no room for it"):
        resume(Path("run"), display="none", total_steps=160)


def test_a_damaged_checkpoint_that_is_passed_over_is_one_sentence(capsys: Capture) -> None:
    assert warned(capsys, *TRAIN, "--env", "CartPole-v1") == ""
    name = spoil_the_last()
    message = f"the checkpoint run/checkpoints/{name} is damaged: tensors.safetensors (0 bytes) is not the file that was saved"
    for command in (["eval", "run", "--checkpoint", "last", "--episodes", "1"], ["train", "--resume", "run"]):
        said = warned(capsys, *command)
        assert said.startswith(f"warning: {message}. Going on with step_"), said
        assert said.endswith(", which is whole.\n")
        assert said.count("\n") == 1
    spoil_the_last()
    with pytest.warns(RuntimeWarning, match="is damaged: .*Going on with step_"):
        resume(Path("run"), display="none", total_steps=160)


def test_what_has_no_effect_is_one_sentence(capsys: Capture) -> None:
    said = warned(capsys, *TRAIN, "--env", "tests.ppo.envs:Spot", "--normalise-observations")
    assert said == (
        "warning: normalise_observations has no effect on pictures, which are scaled by what their space says\n"
    )


def test_warnings_of_an_environment_name_its_line(capsys: Capture) -> None:
    with pytest.warns(RuntimeWarning, match="invalid value encountered in its arithmetic") as told:
        assert main([*TRAIN, "--env", f"{HERE}:Dividing"]) == 0
    assert {one.filename for one in told} == {__file__}
    assert capsys.readouterr().err == ""

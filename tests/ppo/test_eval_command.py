"""``shoal eval``: what it can be given, and what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import yaml

from shoal.cli.main import main
from shoal.runs import Checkpoints, RunFolder

TRAIN = [
    "train", "--n-envs", "2", "--rollout-steps", "20", "--torch-threads", "1", "--hidden-sizes", "8", "--display", "none",
    "--checkpoint-dir", "run",
]  # fmt: skip
Capture = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("here", "no_picture")


def train(*arguments: str) -> Path:
    assert main([*TRAIN, "--backend", "serial", *arguments]) == 0
    return Path("run")


def with_a_best(run: Path) -> int:
    """Give it two more checkpoints, of which the first is the best; returns its step."""
    checkpoints = Checkpoints(run)
    tensors, state, step = checkpoints.load("last")
    checkpoints.save(step + 1, tensors, state, score=2.0)
    checkpoints.save(step + 2, tensors, state, score=1.0)
    return step + 1


def evaluate(capsys: Capture, *arguments: str) -> str:
    assert main(["eval", "--episodes", "2", *arguments]) == 0
    return capsys.readouterr().out


def test_the_best_checkpoint_is_evaluated_unless_another_is_asked_for(capsys: Capture) -> None:
    best = with_a_best(train("--total-steps", "40"))
    assert f"after {best:,} steps" in evaluate(capsys, "run")
    assert f"after {best + 1:,} steps" in evaluate(capsys, "run", "--checkpoint", "last")


def test_any_checkpoint_of_a_run_can_be_evaluated(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    run = train("--total-steps", "160", "--checkpoint-every", "1", "--keep-checkpoints", "4")
    steps = Checkpoints(run).steps
    assert len(steps) >= 4
    for step in steps:
        checkpoint = run / "checkpoints" / f"step_{step:09d}"
        assert f"after {step:,} steps" in evaluate(capsys, str(checkpoint))
    # However its folder is named: from within, and with the slash that a shell completes.
    monkeypatch.chdir(run / "checkpoints" / f"step_{steps[0]:09d}")
    assert f"after {steps[0]:,} steps" in evaluate(capsys, ".")
    assert f"after {steps[1]:,} steps" in evaluate(capsys, f"../step_{steps[1]:09d}/")


def test_the_folder_of_all_checkpoints_stands_for_the_run(capsys: Capture) -> None:
    best = with_a_best(train("--total-steps", "40"))
    assert f"after {best:,} steps" in evaluate(capsys, "run/checkpoints")
    assert f"after {best + 1:,} steps" in evaluate(capsys, "run/checkpoints", "--checkpoint", "last")


def test_a_run_may_itself_be_called_checkpoints(capsys: Capture) -> None:
    best = with_a_best(train("--total-steps", "40").rename("checkpoints"))
    assert f"after {best:,} steps" in evaluate(capsys, "checkpoints")
    assert f"after {best + 1:,} steps" in evaluate(capsys, f"checkpoints/checkpoints/step_{best + 1:09d}")


def test_without_a_best_checkpoint_the_last_one_is_evaluated_and_that_is_said(capsys: Capture) -> None:
    train("--rollout-steps", "2", "--total-steps", "8")  # too short for an episode, so that nothing has a score
    assert main(["eval", "run", "--episodes", "2"]) == 0
    said = capsys.readouterr()
    assert "CartPole-v1 after 8 steps" in said.out
    assert said.err.splitlines() == [
        "there is no best checkpoint in run/checkpoints: no checkpoint has a score. This is the last one."
    ]
    # Whoever asks for the best does not get another one.
    assert main(["eval", "run", "--checkpoint", "best"]) == 1
    assert "there is no best checkpoint" in capsys.readouterr().err


def test_a_damaged_best_checkpoint_is_not_passed_over(capsys: Capture) -> None:
    best = with_a_best(train("--total-steps", "40"))
    for file in Path(f"run/checkpoints/step_{best:09d}").glob("*.safetensors"):
        file.write_bytes(b"nonsense")
    assert main(["eval", "run"]) == 1
    assert f"Others that are there: step_{best - 1:09d}, step_{best + 1:09d}." in capsys.readouterr().err


def test_where_a_run_was_trained_does_not_matter(capsys: Capture) -> None:
    run = train("--total-steps", "40")
    with_a_best(run)
    here = evaluate(capsys, "run")
    config = yaml.safe_load((run / "config.yaml").read_text())
    elsewhere = {"device": "cuda", "backend": "shm", "num_workers": 8, "parallel_start_method": "spawn"}
    (run / "config.yaml").write_text(yaml.safe_dump({**config, **elsewhere}))
    assert evaluate(capsys, "run") == here


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one here")
def test_a_device_can_be_asked_for(capsys: Capture) -> None:
    train("--total-steps", "40")
    assert main(["eval", "run", "--device", "cuda"]) == 1
    assert "device='cuda' was asked for, but torch finds none here" in capsys.readouterr().err


def test_a_result_is_one_line_however_long(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    with_a_best(train("--total-steps", "40"))
    monkeypatch.setenv("COLUMNS", "20")
    assert len(evaluate(capsys, "run").splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere is not the folder of a run: there is nothing at this path."),
        (["nowhere/checkpoints"], "nowhere is not the folder of a run: there is nothing at this path."),
        (["run/checkpoints/step_000000007"], "step_000000007. There is no other."),
        (["run/checkpoints/step_7"], "step_7 is not the folder of a run"),
        (["run/checkpoints/step_000000007", "--checkpoint", "last"], "is a checkpoint itself: leave out --checkpoint last"),
        (["run", "--checkpoint", "lsat"], "--checkpoint must be one of 'last', 'best', got 'lsat'. Did you mean 'last'?"),
        (["run"], "there is no checkpoint in run/checkpoints: nothing was saved yet"),
        (["run", "--seed", "-1"], "seed must be at least 0 and below 2147483648, got -1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_what_cannot_be_evaluated_is_explained(arguments: list[str], message: str, capsys: Capture) -> None:
    RunFolder.create_at("run", {"env": "CartPole-v1", "num_episodes": 1})
    assert main(["eval", *arguments]) == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert message in said

"""``shoal train`` and ``shoal eval``, from the command line to what they leave behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from shoal.cli.main import main
from shoal.ppo.train import main as train_module
from shoal.runs import Checkpoints, RunFolder, read_metrics

QUICK = ["--env", "CartPole-v1", "--n-envs", "4", "--rollout-steps", "16", "--torch-threads", "1", "--display", "plain"]
pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture(scope="module", autouse=True)
def fonts() -> None:
    """Matplotlib opens its fonts once, and keeps them."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure()
    figure.suptitle("warm")
    axes = figure.subplots()
    axes.set_title("warm", weight="bold")
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()


def train(*arguments: str) -> Path:
    """Train, and return the folder of the run."""
    before = set(Path("runs").glob("*"))
    assert main(["train", *QUICK, *arguments]) == 0
    (folder,) = set(Path("runs").glob("*")) - before
    return folder


def test_a_run_leaves_everything_behind(capsys: pytest.CaptureFixture[str]) -> None:
    folder = train("--num-episodes", "12")
    assert folder.name.startswith("CartPole-v1__ppo__0__")
    assert {path.name for path in folder.iterdir()} >= {
        "config.yaml", "versions.json", "metrics.jsonl", "checkpoints", "curve.png",
    }  # fmt: skip
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert (config["n_envs"], config["num_episodes"], config["torch_threads"]) == (4, 12, 1)
    metrics = read_metrics(folder / "metrics.jsonl")
    assert metrics[-1]["charts/episodes"] == 12
    assert {"losses/value_loss", "charts/SPS", "time/environments"} <= set(metrics[-1])
    assert json.loads((folder / "versions.json").read_text())["shoal"]
    said = capsys.readouterr().out
    assert "Using 4 parallel environments for training" in said
    assert "Episode 12/12" in said
    assert main(["eval", str(folder), "--episodes", "3"]) == 0
    assert "CartPole-v1 after" in capsys.readouterr().out


def test_a_resumed_run_is_bit_by_bit_one_that_was_never_interrupted() -> None:
    whole = train("--total-steps", "600", "--backend", "shm", "--num-workers", "2")
    piece = train("--total-steps", "250", "--backend", "shm", "--num-workers", "2")
    assert main(["train", "--resume", str(piece), "--total-steps", "600", "--display", "none"]) == 0
    expected, found = Checkpoints(whole).load("last"), Checkpoints(piece).load("last")
    assert found.step == expected.step >= 600
    assert set(found.tensors) == set(expected.tensors)
    for name, tensor in expected.tensors.items():
        assert torch.equal(tensor, found.tensors[name]), name
    lines = [[{k: v for k, v in line.items() if not k.startswith(("time/", "charts/SPS"))} for line in read_metrics(one)]
             for one in (whole, piece)]  # fmt: skip
    assert lines[0] == lines[1]


def test_settings_come_from_flags_then_a_file_then_a_preset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.yaml").write_text("env: shoal/CartPole-v0\nlearning_rate: 0.5\ngamma: 0.5\n")
    assert main(["train", "--config", "mine.yaml", "--gamma", "0.7", "--dry-run"]) == 0
    config = yaml.safe_load(capsys.readouterr().out)
    assert (config["env"], config["learning_rate"], config["gamma"]) == ("shoal/CartPole-v0", 0.5, 0.7)
    assert config["n_envs"] == 64, "from the preset"
    assert not Path("runs").exists()


def test_the_module_takes_the_same_flags(capsys: pytest.CaptureFixture[str]) -> None:
    flags = "--n-envs 2 --num-episodes 3 --display none --torch-threads 1 --checkpoint-dir mine --learning-rate 3e-4"
    assert train_module([*flags.split(), "--parallel-start-method", "spawn"]) == 0
    assert RunFolder.open("mine").read_config()["parallel_start_method"] == "spawn"
    assert train_module(["--env", "CartPol-v1"]) == 1
    assert "Did you mean 'CartPole-v1'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--env", "CartPol-v1"], "no environment is registered as 'CartPol-v1'. Did you mean 'CartPole-v1'?"),
        (["--config", "none.yaml"], "there is no file none.yaml"),
        (["--config", "typo.yaml"], "there is no setting 'learnig_rate'. Did you mean 'learning_rate'?"),
        (["--config", "list.yaml"], "list.yaml must hold settings, one 'name: value' in each line"),
        (["--config", "broken.yaml"], "broken.yaml is no YAML"),
        (["--resume", "nowhere"], "nowhere is not the folder of a run"),
        (["--epochs", "0"], "epochs: input should be greater than or equal to 1 (got 0)"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_explained(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("typo.yaml").write_text("learnig_rate: 1\n")
    Path("list.yaml").write_text("- 1\n")
    Path("broken.yaml").write_text("a: [1\n")
    assert main(["train", *arguments]) == 1
    assert message in " ".join(capsys.readouterr().err.split())


def test_what_results_depend_on_cannot_be_changed_later(capsys: pytest.CaptureFixture[str]) -> None:
    folder = train("--total-steps", "64")
    assert main(["train", "--resume", str(folder), "--learning-rate", "1"]) == 1
    assert "learning_rate cannot be changed when a run is resumed" in capsys.readouterr().err
    assert main(["train", "--resume", str(folder)]) == 1
    assert "has reached its goal already" in capsys.readouterr().err
    assert main(["train", "--resume", str(folder), "--dry-run"]) == 0
    assert main(["eval", str(folder), "--episodes", "0"]) == 1
    assert "episodes must be at least 1" in capsys.readouterr().err


def test_evaluations_are_noted(capsys: pytest.CaptureFixture[str]) -> None:
    folder = train("--total-steps", "128", "--eval-every", "1", "--eval-episodes", "2")
    assert "evaluation after" in capsys.readouterr().out
    assert any("charts/eval_return" in line for line in read_metrics(folder))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_control_c_and_job_schedulers_save_and_stop(number: signal.Signals, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "shoal.ppo.train", *QUICK, "--total-steps", "100000000", "--checkpoint-dir", "run"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path,
    )  # fmt: skip
    metrics = tmp_path / "run" / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (metrics.exists() and metrics.read_text().count("\n") >= 3) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "stopping after this update" in said
    assert "Stopped and saved." in said
    assert Checkpoints(tmp_path / "run").load("last").step > 0


def test_whether_to_overlap_is_decided_once_and_kept_with_the_run() -> None:
    folder = train("--backend", "shm", "--num-workers", "2", "--total-steps", "400")
    assert isinstance(yaml.safe_load((folder / "config.yaml").read_text())["overlap"], bool)

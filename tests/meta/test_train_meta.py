"""``shoal train-meta`` and ``shoal eval``, from the command line to what they leave behind."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.cli.main import main
from shoal.meta import Learner
from shoal.meta.config import MetaConfig
from shoal.runs import Checkpoints, RunFolder, read_metrics, state_json
from shoal.runs.tensor_bytes import as_bytes

SETTINGS: dict[str, Any] = {
    "seed": 1,
    "env": {"env_name": "GridNavi-v0", "max_rollouts_per_task": 2, "num_parallel_workers": 3, "num_train_tasks": 6,
            "num_eval_tasks": 2},
    "train": {"num_iters": 4, "num_init_rollouts_pool": 3, "num_rollouts_per_iter": 4, "num_updates_per_iter": 2,
              "batch_size": 4, "buffer_size": 300},
    "eval": {"eval_every": None, "checkpoint_every": 2},
    "policy": {"rnn_hidden_size": 8, "observ_embedding_size": 4, "policy_layers": [8], "dqn_layers": [8]},
}  # fmt: skip
"""So small a buffer is full before the end, and begins anew."""
ALL_ROLLOUTS = 3 + 4 * 4
Capture = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("here", "no_picture")


@pytest.fixture(autouse=True)
def tiny(here: None) -> None:
    Path("tiny.yaml").write_text(yaml.safe_dump(SETTINGS))


def train(run: str, *arguments: str) -> Path:
    flags = ["--checkpoint-dir", run, "--display", "plain"]
    assert main(["train-meta", "tiny.yaml", *flags, *arguments]) == 0
    return Path(run)


def complaint(capsys: Capture, *arguments: str) -> str:
    """What is said instead, in one line."""
    capsys.readouterr()
    assert main([*arguments]) == 1
    (said,) = capsys.readouterr().err.splitlines()
    return said.removeprefix("error: ")


def digest(run: Path) -> str:
    """Of everything that decides how training goes on: weights, moments, random numbers, and what was kept of rollouts."""
    tensors, state, step = Checkpoints(run).load("last")
    assert any(name.startswith("buffer.") for name in tensors)
    return hashlib.sha256(as_bytes(tensors) + json.dumps([step, state_json.encode(state)]).encode()).hexdigest()


def lines_of(run: Path) -> list[dict[str, Any]]:
    """The metrics, but for those of time."""
    timed = ("time/", "charts/SPS")
    return [{name: value for name, value in line.items() if not name.startswith(timed)} for line in read_metrics(run)]


def started(run: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "shoal.cli.main", "train-meta", "tiny.yaml", "--checkpoint-dir", run, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip


def wait_for_a_checkpoint(process: subprocess.Popen[str], run: str) -> None:
    deadline = time.monotonic() + 120
    while not list(Path(run, "checkpoints").glob("step_*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_run_leaves_everything_behind(capsys: Capture) -> None:
    run = train("run", "--eval.eval-every", "2")
    assert {path.name for path in run.iterdir()} >= {"config.yaml", "versions.json", "metrics.jsonl", "checkpoints"}
    assert yaml.safe_load((run / "config.yaml").read_text())["policy"]["rnn_hidden_size"] == 8
    lines = read_metrics(run)
    reports = [line for line in lines if "charts/SPS" in line]
    assert reports[-1]["charts/episodes"] == ALL_ROLLOUTS
    assert {"metrics/return_train_episode_1", "metrics/return_train_episode_2", "metrics/success_rate_train",
            "charts/episodic_return", "losses/critic_loss", "time/policy"} <= set(reports[-1])  # fmt: skip
    assert sum("charts/eval_return" in line for line in lines) == 2
    said = capsys.readouterr().out
    assert "Using 3 parallel environments for training" in said
    assert f"Rollout {ALL_ROLLOUTS}/{ALL_ROLLOUTS}" in said
    assert "Return of a task: " in said
    assert "evaluation after " in said
    assert "  shoal eval run\n  shoal train-meta --resume run --train.num-iters 8\n" in said
    assert main(["eval", "run", "--episodes", "3"]) == 0
    assert "(3 tasks, by episode " in capsys.readouterr().out
    assert main(["train-meta", "--resume", "run", "--train.num-iters", "5", "--display", "none"]) == 0
    assert yaml.safe_load((run / "config.yaml").read_text())["train"]["num_iters"] == 5


def test_the_folder_is_named_after_the_world() -> None:
    assert main(["train-meta", "tiny.yaml", "--train.num-iters", "1", "--display", "none"]) == 0
    (run,) = Path("runs").iterdir()
    assert run.name.startswith("GridNavi-v0__meta__1__")


def test_a_run_that_was_killed_goes_on_bit_by_bit(capsys: Capture) -> None:
    process = started("killed", "--train.num-iters", "100000", "--display", "none")
    try:
        wait_for_a_checkpoint(process, "killed")
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    killed = Path("killed")
    until = ["--train.num-iters", str(Checkpoints(killed).load("last").state["iterations"] + 3)]
    assert main(["train-meta", "--resume", "killed", *until, "--display", "plain"]) == 0
    before = capsys.readouterr().out.partition("Rollout")[0].splitlines()
    assert before[-1].startswith("resumed at step "), "and nothing else was to be said"
    whole = train("whole", *until)
    assert digest(killed) == digest(whole)
    assert lines_of(killed) == lines_of(whole)


def test_who_collects_makes_no_difference() -> None:
    """So it may be another number when a run is resumed."""
    run = train("run", "--train.num-iters", "2")
    workers = ["--env.num-parallel-workers", "1"]
    assert main(["train-meta", "--resume", "run", "--train.num-iters", "4", *workers, "--display", "none"]) == 0
    assert digest(run) == digest(train("whole"))


def test_only_the_last_checkpoint_holds_what_was_kept_of_rollouts(capsys: Capture) -> None:
    run = train("run", "--eval.checkpoint-every", "1")
    checkpoints = Checkpoints(run)
    assert len(checkpoints.steps) == 3
    assert [path.parent.name for path in run.glob("checkpoints/*/memory.npz")] == [f"step_{checkpoints.steps[-1]:09d}"]
    for path in run.glob(f"checkpoints/step_{checkpoints.steps[-1]:09d}/*"):
        path.unlink()
    capsys.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["train-meta", "--resume", "run", "--display", "plain"]) == 0
    said = capsys.readouterr()
    assert "is damaged: it has no state.json. Going on with step_" in said.err
    assert "what was kept of rollouts is saved with the last checkpoint alone" in said.out


def test_control_c_saves_and_stops() -> None:
    process = started("run", "--train.num-iters", "100000", "--eval.checkpoint-every", "1", "--display", "plain")
    wait_for_a_checkpoint(process, "run")
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert "stopping after this update" in said
    assert (
        "Stopped and saved. To evaluate it, and to go on:\n  shoal eval run\n  shoal train-meta --resume run\n" in said
    )
    assert Checkpoints("run").load("last").step == read_metrics("run")[-1]["step"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train: {num_itres: 3}", "there is no setting 'num_itres' in train. Did you mean 'num_iters'?"),
        ("num_iters: 3", "there is no setting 'num_iters'. There is one in the section train."),
        ("env: {env_name: GridNav-v0}", "no environment is registered as 'GridNav-v0'. Did you mean 'GridNavi-v0'?"),
        ("policy: {arch: memry}", ("policy.arch: input should be 'markov', 'memory' or 'memory-markov' (got 'memry'). "
         "Did you mean 'memory'?")),
        ("train: 3", "train must hold settings of its own, 'name: value', got 3"),
        ("resume: x", "mine.yaml has resume, which is no setting of a file: it is given on the command line only, as --resume"),
        ("seed: 1\nseed: 2", "mine.yaml is no YAML: line 2: 'seed' stands there twice: remove one of them"),
    ],
    ids=["name", "section", "env", "word", "mapping", "flag", "twice"],
)  # fmt: skip
def test_mistakes_in_a_file_are_met_with_one_sentence(text: str, message: str, capsys: Capture) -> None:
    Path("mine.yaml").write_text(text)
    assert complaint(capsys, "train-meta", "mine.yaml") == message
    assert not Path("runs").exists()


def test_what_cannot_be_is_refused(capsys: Capture) -> None:
    run = RunFolder.create_at("meta", SETTINGS, "meta").path
    RunFolder.create_at("ppo", {"env": "CartPole-v1"}, "ppo")
    assert complaint(capsys, "train-meta", "none.yaml") == "there is no file none.yaml"
    assert complaint(capsys, "train-meta", "tiny.yaml", "--display", "ritch").endswith("Did you mean 'rich'?")
    assert complaint(capsys, "train-meta", "tiny.yaml", "--resume", str(run)).startswith(
        "CONFIG cannot be given together"
    )
    said = complaint(capsys, "train-meta", "--resume", "ppo")
    assert said == "ppo holds a run of 'ppo', and shoal train-meta goes on with those of 'meta'"
    assert complaint(capsys, "train-meta", "--resume", "meta").startswith("the settings of the run meta are damaged: ")
    look = ["eval", "run", "--checkpoint", "last"]
    trained = str(train("run", "--train.num-iters", "1"))
    assert complaint(capsys, "train", "--resume", trained).startswith(
        "run holds a run of 'meta', and shoal train goes on"
    )
    said = complaint(capsys, "train-meta", "--resume", trained, "--policy.lr", "1")
    assert said.startswith(
        "policy.lr cannot be changed when a run is resumed, because its results depend on it; what can"
    )
    assert complaint(capsys, *look, "--device", "cuda").endswith("act on the CPU, got --device cuda")
    said = complaint(capsys, *look, "--record-video")
    assert said == "--record-video: there are no films of what shoal train-meta has trained"


def test_a_dry_run_prints_a_file_that_says_the_same(capsys: Capture) -> None:
    flags = [
        "--policy.arch",
        "markov",
        "--train.num-updates-per-iter",
        "0.5",
        "--train.buffer-size",
        "1e4",
        "--dry-run",
    ]
    assert main(["train-meta", "tiny.yaml", *flags]) == 0
    Path("printed.yaml").write_text(printed := capsys.readouterr().out)
    said = yaml.safe_load(printed)
    assert (said["policy"]["arch"], said["train"]["num_updates_per_iter"], said["train"]["buffer_size"]) == (
        "markov", 0.5, 10_000,
    )  # fmt: skip
    assert (said["seed"], said["env"]["env_name"]) == (1, "GridNavi-v0")
    assert main(["train-meta", "printed.yaml", "--dry-run"]) == 0
    assert capsys.readouterr().out == printed


def test_flags_win_over_a_file_and_that_over_what_shoal_has_for_a_world(capsys: Capture) -> None:
    Path("mine.yaml").write_text("env: {env_name: GridNavi-v0}\npolicy: {gamma: 0.8, lr: 0.5}\n")
    assert main(["train-meta", "mine.yaml", "--policy.lr", "0.25", "--dry-run"]) == 0
    said = yaml.safe_load(capsys.readouterr().out)
    assert (said["policy"]["lr"], said["policy"]["gamma"]) == (0.25, 0.8)
    assert said["env"]["max_rollouts_per_task"] == 4, "from the preset"
    assert said["policy"]["policy_layers"] == [64]
    assert main(["train-meta", "--env.env-name", "Wind-v0", "--dry-run"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == MetaConfig.of({"env": {"env_name": "Wind-v0"}}).model_dump(
        mode="json"
    )


def test_losses_that_are_no_numbers_end_the_training(capsys: Capture) -> None:
    assert main(["train-meta", "tiny.yaml", "--checkpoint-dir", "run", "--policy.lr", "1e38", "--display", "none"]) == 1
    said = capsys.readouterr().err
    assert "training has diverged after step " in said
    assert "policy.lr too high. Nothing was saved yet: that would have been after 2 updates\n" in said


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "torch" else found(name, *rest)
    )
    assert complaint(capsys, "train-meta", "tiny.yaml") == (
        "training needs torch, which is not installed: pip install 'shoal[train]'"
    )


def test_an_evaluation_that_is_stopped_says_what_it_has() -> None:
    with Learner(SETTINGS) as learner:
        stopped = learner.evaluate(is_asked_to_stop=lambda: True)
        assert str(stopped) == "no task was completed"
        assert math.isnan(stopped.mean)
        assert len(learner.evaluate(episodes=5, seed=7).total_steps) == 5
        assert learner.evaluate(episodes=3, seed=7).mean == learner.evaluate(episodes=3, seed=7).mean


def test_a_policy_that_limits_collecting_is_named_once(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("shoal.meta.report.MUCH", 0.0)  # so that any policy takes too much
    train("run")
    assert capsys.readouterr().out.count("of the time of collecting") == 1

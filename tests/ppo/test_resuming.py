"""Who may go on with a run, and with what."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shoal.cli.main import main
from shoal.ppo.run import resume
from shoal.runs import Checkpoints

TRAIN = [
    "train", "--env", "CartPole-v1", "--n-envs", "2", "--rollout-steps", "20", "--torch-threads", "1", "--hidden-sizes", "8",
    "--checkpoint-dir", "run",
]  # fmt: skip
SERIAL = ["--backend", "serial", "--display", "none"]
WORKERS = ["--backend", "shm", "--num-workers", "2", "--parallel-start-method", "fork", "--display", "plain"]
Capture = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("here", "no_picture")


def complaint(capsys: Capture, *arguments: str) -> str:
    """What is said instead of training, in one line."""
    capsys.readouterr()
    assert main([*arguments]) == 1
    (said,) = capsys.readouterr().err.splitlines()
    return said.removeprefix("error: ")


# -- a run that is being trained ---------------------------------------------------------------------------------------


def wait_for_a_checkpoint(process: subprocess.Popen[str], other_than: set[str]) -> None:
    deadline = time.monotonic() + 60
    while not {path.name for path in Path("run", "checkpoints").glob("step_*")} - other_than:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def started(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "shoal.cli.main", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def test_a_run_that_is_being_trained_cannot_be_resumed_until_that_ends(capsys: Capture) -> None:
    endless = ["--total-steps", "100000000"]
    process = started(*TRAIN, *WORKERS, *endless, "--checkpoint-every", "1")
    try:
        wait_for_a_checkpoint(process, other_than=set())
        said = complaint(capsys, "train", "--resume", "run")
        assert said.startswith(f"run is being trained by process {process.pid} on "), said
        assert "What to do: wait until that one has ended, or stop it" in said
        assert main(["eval", "run", "--episodes", "1", "--checkpoint", "last"]) == 0, "looking is allowed"
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    saved = {path.name for path in Path("run", "checkpoints").glob("step_*")}
    resumed = started("train", "--resume", "run")
    try:
        wait_for_a_checkpoint(resumed, other_than=saved)
        assert f"by process {resumed.pid} on " in complaint(capsys, "train", "--resume", "run")
        resumed.send_signal(signal.SIGINT)
        assert "Stopped and saved." in resumed.communicate(timeout=60)[0]
    finally:
        resumed.kill()
        resumed.communicate()
    assert Checkpoints("run").load("last").step > 0


def test_the_process_that_trained_can_resume() -> None:
    assert main([*TRAIN, *SERIAL, "--total-steps", "40"]) == 0
    assert main(["train", "--resume", "run", "--total-steps", "80", "--display", "none"]) == 0
    assert Checkpoints("run").load("last").step >= 80


def test_a_folder_that_cannot_be_locked_is_trained_in_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("shoal.runs.claim.fcntl", None)
    assert main([*TRAIN, *SERIAL[:2], "--display", "plain", "--total-steps", "40"]) == 0
    assert main(["train", "--resume", "run", "--total-steps", "80", "--display", "plain"]) == 0
    assert capsys.readouterr().out.count("training goes on, but nobody is kept from resuming run meanwhile") == 2
    assert not Path("run", ".lock").exists()
    assert os.listdir("run/checkpoints")


# -- settings that are not what was saved ------------------------------------------------------------------------------


def kept_lines(*left_out: str) -> str:
    lines = Path("run", "config.yaml").read_text().splitlines(keepends=True)
    return "".join(line for line in lines if line.partition(":")[0] not in left_out)


@pytest.fixture
def trained() -> Path:
    assert main([*TRAIN, *SERIAL, "--total-steps", "40"]) == 0
    return Path("run", "config.yaml")


MORE = ["train", "--resume", "run", "--total-steps", "80", "--display", "none"]
WHAT_TO_DO = (
    ". Nothing was changed. What to do: put back the whole file; the command in versions.json, given once more with "
    "--dry-run, prints what the run began with."
)


@pytest.mark.parametrize(
    "command", [MORE, [*MORE, "--dry-run"], ["eval", "run", "--checkpoint", "last"]], ids=["resume", "dry", "eval"]
)
def test_settings_that_are_empty_or_cut_off_are_refused(trained: Path, command: list[str], capsys: Capture) -> None:
    whole = trained.read_text()
    for text, message in (
        ("", "run/config.yaml is empty"),
        (whole[: whole.index("eval_episodes")], "lacks eval_episodes, eval_max_steps, checkpoint_every, keep_checkpoints"),
        (whole[: whole.index("epochs")], "lacks epochs, minibatches, learning_rate, learning_rate_schedule, gamma and 18 more"),
        (whole[: whole.index("epochs") + 3], "config.yaml is no YAML: line 14: could not find expected ':'"),
        ("- 1", "run/config.yaml must hold settings, one 'name: value' in each line, got [1]"),
    ):  # fmt: skip
        trained.write_text(text)
        said = complaint(capsys, *command)
        assert said.startswith("the settings of the run run are damaged: "), said
        assert said.endswith(f"{message}{WHAT_TO_DO}"), said
        assert trained.read_text() == text
    trained.write_text(whole)
    assert main(MORE) == 0


def saved_by(version: object) -> None:
    path = Path("run", "versions.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "shoal": version}))


def test_settings_of_an_older_version_lack_what_was_not_known_then(trained: Path, capsys: Capture) -> None:
    trained.write_text(kept_lines("target_kl", "eval_max_steps"))
    said = "run/config.yaml was saved by Shoal 0.0.9 and lacks target_kl, eval_max_steps: defaults are taken for these"
    saved_by("0.0.9")
    with pytest.warns(RuntimeWarning, match=said):
        resume(Path("run"), display="none", total_steps=80)
    trained.write_text(kept_lines("seed"))
    assert "run/config.yaml lacks seed, target_kl, eval_max_steps. Nothing was changed." in complaint(capsys, *MORE)


@pytest.mark.parametrize("text", ["", "[]", '{"shoal": 3}'])
def test_settings_of_an_unknown_version_are_to_be_whole(trained: Path, text: str, capsys: Capture) -> None:
    Path("run", "versions.json").write_text(text)
    whole = trained.read_text()
    trained.write_text(kept_lines("target_kl"))
    assert "run/config.yaml lacks target_kl. Nothing was changed." in complaint(capsys, *MORE)
    trained.write_text(whole)
    assert main(MORE) == 0

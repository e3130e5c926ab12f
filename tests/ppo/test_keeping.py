"""What is kept of a run, whatever goes wrong around it."""

from __future__ import annotations

import errno
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import yaml
from gymnasium import spaces

from shoal.cli.main import main
from shoal.runs import CheckpointNotSaved, Checkpoints, read_metrics
from shoal.runs.checkpoint_files import Contents, write_contents
from tests.ppo.envs import Aim

TRAIN = [
    "train", "--n-envs", "2", "--backend", "serial", "--rollout-steps", "20", "--torch-threads", "1", "--hidden-sizes", "8",
    "--display", "plain", "--checkpoint-dir", "run",
]  # fmt: skip
HERE = "tests.ppo.test_keeping"
pytestmark = pytest.mark.usefixtures("here", "no_picture")


class Fragile(Aim):
    """Raises after so many steps of the first environment that was made."""

    def __init__(self, breaks_after: int = 100, render_mode: str | None = None) -> None:
        self._left, self.render_mode = breaks_after, render_mode

    def step(self, action: Any) -> Any:
        self._left -= 1
        if not self._left:
            raise RuntimeError("it broke")
        return super().step(action)


class Unseen(Aim):
    """Can be rendered once, and no more."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, render_mode: str | None = None, sizes: tuple[int, ...] = ()) -> None:
        self.render_mode, self._sizes = render_mode, [*sizes]

    def render(self) -> Any:
        if self._sizes:
            return np.zeros((self._sizes.pop(0), 8, 3), np.uint8)
        raise OverflowError("no more pictures")


class Endless(gymnasium.Env[Any, Any]):
    """Ends when both actions have been taken, which a policy that always does the same never does."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._done: set[int] = set()
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._done.add(int(action))
        return np.zeros(1, np.float32), 0.0, len(self._done) == 2, False, {}


def saving_that_fails_in(folder: str) -> Callable[..., Path]:
    save = Checkpoints.save

    def fail(self: Checkpoints, *arguments: Any, **keywords: Any) -> Path:
        if self.path.parent.name == folder:
            raise CheckpointNotSaved("the disk is full")
        return save(self, *arguments, **keywords)

    return fail


def test_a_result_that_has_no_place_in_its_folder_is_saved_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(Checkpoints, "save", saving_that_fails_in("run"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main([*TRAIN, "--env", "CartPole-v1", "--total-steps", "100", "--checkpoint-every", "1"]) == 0
    said = capsys.readouterr().out
    assert "training goes on, but: the disk is full" in said
    assert "the last state could not be saved where it belongs: the disk is full" in said
    found = re.search(r"^  shoal eval (\S+)$", said, re.MULTILINE)
    assert found is not None
    assert not list(Path("run", "checkpoints").glob("*"))
    assert main(["eval", found[1], "--episodes", "2", "--checkpoint", "last"]) == 0
    assert "return" in capsys.readouterr().out


def test_a_disk_that_stays_full_is_explained_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    attempts: list[Path] = []

    def is_full_but_for_the_third(path: Path, contents: Contents) -> None:
        attempts.append(path)
        if len(attempts) in (1, 2, 4):
            raise OSError(errno.ENOSPC, "No space left on device")
        write_contents(path, contents)

    monkeypatch.setattr("shoal.runs.checkpoints.write_contents", is_full_but_for_the_third)
    assert main([*TRAIN, "--env", f"{HERE}:Aim", "--total-steps", "190", "--checkpoint-every", "1"]) == 0
    assert len(attempts) == 5
    lines = capsys.readouterr().out.splitlines()
    begins = [number for number, line in enumerate(lines) if line.startswith("training goes on, but: ")]
    assert [lines[number].endswith("to run/checkpoints: No space left on device.") for number in begins] == [True] * 3
    explained = [lines[number + 1].startswith("  Former checkpoints are intact: ") for number in begins]
    assert explained == [True, False, True], "anew, once there was room in between"
    assert sum(line.endswith("MB), or lower --keep-checkpoints; the next save will try again.") for line in lines) == 2


def test_a_result_that_cannot_be_saved_anywhere_is_not_called_done(tmp_path: Path) -> None:
    """With a real limit, which is as a full disk is for all files but small ones."""
    outcome = subprocess.run(
        [sys.executable, "-m", "shoal.ppo.train", *TRAIN[1:], "--env", "CartPole-v1", "--total-steps", "100"],
        capture_output=True, text=True, cwd=tmp_path, check=False, env={**os.environ, "TMPDIR": str(tmp_path)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2500, 2500)),
    )  # fmt: skip
    said = " ".join(outcome.stdout.split() + outcome.stderr.split())
    assert outcome.returncode == 1, said
    assert "training is over, but its result could not be saved" in said
    assert "Nor could it in the folder for temporary files" in said
    assert "File too large" in said
    assert "Done." not in said
    assert read_metrics(tmp_path / "run")[-1]["step"] >= 100
    assert not list(tmp_path.glob("shoal-saved-*"))


def test_an_environment_that_cannot_be_made_leaves_no_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRAIN, "--env", "CartPol-v1", "--total-steps", "40"]) == 1
    assert "CartPole" in capsys.readouterr().err
    assert not Path("run").exists()
    assert main([*TRAIN, "--env", "CartPole-v1", "--total-steps", "40"]) == 0


class Unusable(Aim):
    """Can be made, and no more."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        raise RuntimeError("it cannot be used")


@pytest.mark.parametrize("where", ["new", "empty", "notes", "runs"])
def test_a_run_that_ends_before_its_first_update_leaves_nothing(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = TRAIN[: TRAIN.index("--checkpoint-dir")] if where == "runs" else TRAIN
    if where in ("empty", "notes"):
        Path("run").mkdir()
    if where == "notes":
        Path("run", "notes.txt").touch()
    for _ in range(2 if where in ("new", "empty", "runs") else 1):
        assert main([*arguments, "--env", f"{HERE}:Unusable", "--total-steps", "40"]) == 1
        assert "it cannot be used" in capsys.readouterr().err
    left = {str(path) for path in [*Path().glob("run*"), *Path().glob("run*/*")]}
    notes = {"run", "run/notes.txt", "run/config.yaml", "run/versions.json", "run/.lock"}
    assert left == {"new": set(), "empty": {"run"}, "notes": notes, "runs": {"runs"}}[where]


def test_a_run_that_ends_after_its_first_update_stays() -> None:
    arguments = ["--env", f"{HERE}:Fragile", "--env-kwargs", "breaks_after", "30", "--total-steps", "1000"]
    assert main([*TRAIN, *arguments]) == 1
    assert Checkpoints("run").steps == (40,)


def test_a_run_that_was_given_more_to_do_remembers_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRAIN, "--env", "CartPole-v1", "--total-steps", "40"]) == 0
    assert "Done. To evaluate it, and to go on:\n  shoal eval run\n  shoal train --resume run --total-steps 80\n" in (
        capsys.readouterr().out
    )
    assert main(["train", "--resume", "run", "--total-steps", "120", "--display", "plain"]) == 0
    assert yaml.safe_load(Path("run", "config.yaml").read_text())["total_steps"] == 120
    capsys.readouterr()
    assert main(["train", "--resume", "run"]) == 1
    said = capsys.readouterr().err
    assert "has reached its goal already; to go on: shoal train --resume run --total-steps 240" in " ".join(
        said.split()
    )


def test_a_goal_in_episodes_is_given_more_episodes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRAIN, "--env", "CartPole-v1", "--num-episodes", "3"]) == 0
    assert "--resume run --num-episodes 6\n" in capsys.readouterr().out


def test_the_best_one_is_not_a_lucky_beginning() -> None:
    assert main([*TRAIN, "--env", f"{HERE}:Aim", "--num-episodes", "150", "--checkpoint-every", "1"]) == 0
    best = Checkpoints("run").load("best")
    assert best.step >= 100 * 20  # of a hundred episodes


def test_the_best_one_did_best_in_an_evaluation() -> None:
    arguments = ["--env", f"{HERE}:Aim", "--total-steps", "800", "--eval-every", "2", "--eval-episodes", "3"]
    assert main([*TRAIN, *arguments]) == 0
    evaluations = {
        int(line["step"]): line["charts/eval_return"] for line in read_metrics("run") if "charts/eval_return" in line
    }
    best = Checkpoints("run").load("best")
    assert evaluations[best.step] == max(evaluations.values())


def test_a_run_that_is_resumed_knows_its_best_evaluation() -> None:
    arguments = ["--env", f"{HERE}:Aim", "--eval-every", "2", "--eval-episodes", "3", "--learning-rate", "1e-30"]
    assert main([*TRAIN, *arguments, "--total-steps", "160"]) == 0
    best = Checkpoints("run").load("best").step
    assert main(["train", "--resume", "run", "--display", "plain", "--total-steps", "320"]) == 0
    evaluations = [line["charts/eval_return"] for line in read_metrics("run") if "charts/eval_return" in line]
    assert len(evaluations) == 4
    assert len(set(evaluations)) == 1, "nothing was learned"
    assert Checkpoints("run").load("best").step == best, "what did as well later is not better"


def test_what_was_learned_before_an_environment_raised_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*TRAIN, "--env", f"{HERE}:Fragile", "--total-steps", "1000"]
    assert main(arguments) == 1
    assert "RuntimeError: it broke" in capsys.readouterr().err
    kept = Checkpoints("run").load("last")
    assert 0 < kept.step < 200
    assert main(["train", "--resume", "run", "--display", "plain"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(r"environments begin new episodes: \w+ ended the training in the middle of a rollout", said), said
    assert Checkpoints("run").load("last").step > kept.step


def test_weights_that_are_no_numbers_are_not_kept(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--env", f"{HERE}:Aim", "--total-steps", "100000", "--learning-rate", "1e30"]
    with np.errstate(all="ignore"):
        assert main([*TRAIN, *arguments]) == 1
    assert not list(Path("run").glob("checkpoints/*"))
    said = capsys.readouterr().err
    assert "training has diverged after step " in said
    assert "learning_rate too high. Nothing was saved yet: that would have been after 50 updates\n" in said


class Spoiled(Aim):
    """The second one that is made gives a reward that is no number, in step 50."""

    _made = 0

    def __init__(self) -> None:
        Spoiled._made += 1
        self._left = 50 if Spoiled._made == 2 else -1

    def step(self, action: Any) -> Any:
        self._left -= 1
        observation, reward, *rest = super().step(action)
        return observation, np.nan if self._left == 0 else reward, *rest


def test_what_was_saved_before_a_reward_that_is_no_number_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Spoiled, "_made", 0)
    arguments = ["--env", f"{HERE}:Spoiled", "--total-steps", "1000", "--checkpoint-every", "1"]
    assert main([*TRAIN, *arguments]) == 1
    said = capsys.readouterr().err
    saved = Checkpoints("run").steps[-1]
    assert f"environment 1 ({HERE}:Spoiled) gave a reward that is not a finite number, at step 100, from which" in said
    assert f"The last checkpoint, in run/checkpoints, is of step {saved}\n" in said
    assert 0 < saved < 100


def test_what_was_saved_may_be_unreadable(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Checkpoints, "steps", property(refuse))
    arguments = ["--env", f"{HERE}:Aim", "--total-steps", "100000", "--learning-rate", "1e30"]
    with np.errstate(all="ignore"):
        assert main([*TRAIN, *arguments]) == 1
    assert "What was saved in run/checkpoints cannot be read: Input/output error\n" in capsys.readouterr().err


def test_an_evaluation_that_fails_does_not_end_training(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--env", f"{HERE}:Fragile", "--env-kwargs", "breaks_after", "95", "--total-steps", "150"]
    assert main([*TRAIN, *arguments, "--eval-every", "2"]) == 0
    assert "there is no evaluation: RuntimeError: it broke" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ("[8]", r"render\(\) of <.*Unseen.*> raised OverflowError: no more pictures"),
        ("[8, 6]", r"pictures of one size, and .* returned one of 6 x 8 after one of 8 x 8"),
    ],
)
def test_a_film_that_fails_does_not_end_training(sizes: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--env", f"{HERE}:Unseen", "--env-kwargs", "sizes", sizes, "--total-steps", "40", "--record-video"]
    assert main([*TRAIN, *arguments]) == 0
    assert re.search(f"there is no film: .*{message}", " ".join(capsys.readouterr().out.split()))
    assert Checkpoints("run").load("last").step == 40


def test_an_evaluation_without_end_is_cut_off(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--env", f"{HERE}:Endless", "--total-steps", "40", "--eval-every", "1", "--eval-episodes", "2"]
    assert main([*TRAIN, *arguments, "--eval-max-steps", "50"]) == 0
    assert "(95 %, 2 episodes, mean length 50)" in capsys.readouterr().out


def test_control_c_ends_an_evaluation_too(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "shoal.ppo.train", *TRAIN[1:], "--env", f"{HERE}:Endless", "--total-steps", "100000000",
         "--eval-every", "1", "--eval-max-steps", "1000000000"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    metrics = tmp_path / "run" / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (metrics.exists() and metrics.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "no episode was completed" in said
    assert "Stopped and saved." in said
    assert Checkpoints(tmp_path / "run").load("last").step > 0


def test_the_second_control_c_stops_at_once(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "shoal.ppo.train", *TRAIN[1:], "--env", f"{HERE}:Sleepy", "--total-steps", "100000000",
         "--rollout-steps", "100000"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert process.stdout is not None
    while "Using 2 parallel environments" not in process.stdout.readline():
        pass
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    while "Ctrl-C again stops at once" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode not in (0, None)


class Sleepy(Aim):
    """Takes its time."""

    def step(self, action: Any) -> Any:
        time.sleep(0.05)
        return super().step(action)

"""``--record-video``: a film of what the policy does."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import gymnasium
import imageio_ffmpeg
import numpy as np
import pytest
from gymnasium import spaces

import shoal
from shoal.cli.main import main
from shoal.ppo import PPOTrainer
from shoal.runs import read_metrics
from tests.ppo.test_needs import without
from tests.ppo.test_run import fonts

__all__ = ["fonts"]
pytestmark = pytest.mark.usefixtures("here")

TRAIN = [
    "train", "--env", "shoal/CartPole-v0", "--n-envs", "4", "--rollout-steps", "16", "--torch-threads", "1",
    "--backend", "serial", "--display", "plain", "--total-steps", "128", "--checkpoint-dir", "run",
]  # fmt: skip


def length_of(film: Path) -> int:
    frames, _ = imageio_ffmpeg.count_frames_and_secs(str(film))
    return int(frames)


def test_a_run_is_filmed_at_its_end_and_after_every_evaluation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRAIN, "--eval-every", "1", "--eval-episodes", "1", "--record-video"]) == 0
    steps = [int(line["global_step"]) for line in read_metrics(Path("run")) if "charts/SPS" in line]
    films = [Path("run/videos") / f"step-{step}.mp4" for step in steps]
    assert set(Path("run/videos").iterdir()) == set(films)
    assert "filmed an episode with return" in capsys.readouterr().out
    assert main(["eval", "run", "--episodes", "1", "--record-video", "--checkpoint", "last"]) == 0
    said = capsys.readouterr().out
    assert f"filmed the first of them: {films[-1]}" in " ".join(said.split())
    length = int(float(said.partition("return ")[2].split()[0]))  # a reward of one for every step
    assert length_of(films[-1]) == length + 1, "and what it began with"


class Silent(gymnasium.Env[Any, Any]):
    """Says that it renders, and renders something else than a picture."""

    observation_space, action_space = spaces.Box(-1, 1, (2,)), spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None, picture: Any = "a word") -> None:
        self.render_mode, self._picture = render_mode, picture

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros(2, np.float32), 0.0, True, False, {}

    def render(self) -> Any:
        return self._picture


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("tests.ppo.test_video:Silent", r"pictures of shape \(height, width, 3\), and render\(\) of .* returned str"),
        ("tests.ppo.envs:Aim", r"needs pictures, and tests.ppo.envs:Aim cannot be made with render_mode='rgb_array'"),
    ],
)
def test_what_cannot_be_filmed_is_said_before_training(
    env: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*TRAIN, "--env", env, "--record-video"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert re.search(message, said), said
    assert not Path("run").exists()


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", without("imageio_ffmpeg"))
    assert main([*TRAIN, "--record-video"]) == 1
    assert "--record-video needs imageio-ffmpeg: pip install 'shoal[video]'" in capsys.readouterr().err


def test_a_film_that_is_broken_off_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with PPOTrainer(env="shoal/CartPole-v0", total_steps=10, backend="serial") as trainer:
        monkeypatch.setattr("shoal.ppo.trainer.evaluate", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            trainer.record(tmp_path / "films" / "one.mp4")
    assert list((tmp_path / "films").iterdir()) == []


def _interrupted(env: Any, *arguments: Any) -> None:
    env.reset(seed=0)
    arguments[-1]()
    raise KeyboardInterrupt


def test_pictures_of_another_shape_are_refused() -> None:
    from shoal.ppo.video import picture_of

    with pytest.raises(shoal.ConfigurationError, match=r"returned an array of shape \(4, 4\)"):
        picture_of(Silent("rgb_array", np.zeros((4, 4))))

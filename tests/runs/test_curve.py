"""The learning curve as a picture."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.runs import MetricsLog, draw_learning_curve, read_metrics
from shoal.runs.curve import _series, _thousands
from tests.runs.disk import FailingDisk

KINDS = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}


def metrics_of_a_run(**more: float) -> list[dict[str, Any]]:
    random = np.random.default_rng(1)
    lines = []
    for update in range(1, 61):
        line: dict[str, Any] = {"step": 2048 * update, "charts/SPS": 20_000 + 500 * random.normal(), **more}
        if update > 2:
            line["charts/episodic_return"] = 500 / (1 + np.exp(6 - update / 5)) + random.normal()
        lines.append(line)
    return lines


@pytest.fixture(scope="module", autouse=True)
def fonts(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Matplotlib opens its fonts once, and keeps them."""
    for suffix in KINDS:
        draw_learning_curve(metrics_of_a_run(), tmp_path_factory.mktemp("fonts") / f"curve{suffix}", "CartPole")


@pytest.mark.parametrize("suffix", KINDS)
def test_a_curve_is_drawn_as_every_kind_of_picture(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"curve{suffix}"
    assert draw_learning_curve(metrics_of_a_run(), path, "CartPole") == path
    assert path.read_bytes().startswith(KINDS[suffix])
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def texts_of(path: Path) -> str:
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none"}):
        draw_learning_curve(read_metrics(path), path / "curve.svg", "PPO on CartPole")
    return (path / "curve.svg").read_text()


def write(path: Path, lines: list[dict[str, Any]]) -> None:
    with MetricsLog(path, tensorboard=False) as log:
        for line in lines:
            log.write(line.pop("step"), line)


def test_it_says_what_one_wants_to_know(tmp_path: Path) -> None:
    lines = metrics_of_a_run(**{"charts/restarts": 0})
    lines[30]["charts/restarts"] = 1
    lines[40]["charts/episodic_return"] = 700.0
    write(tmp_path, lines)
    text = texts_of(tmp_path)
    for words in ("PPO on CartPole", "mean return", "steps / s", "environment steps", "a worker was replaced"):
        assert words in text
    assert "best 700 at step 84 k" in text
    assert "median 20" in text


def test_losses_are_drawn_where_no_speed_is_known(tmp_path: Path) -> None:
    lines = metrics_of_a_run(**{"losses/policy_loss": 0.1, "losses/value_loss": float("nan"), "losses/entropy": 0.5})
    for line in lines:
        del line["charts/SPS"]
    write(tmp_path, lines)
    text = texts_of(tmp_path)
    assert "policy loss" in text
    assert "entropy" in text
    assert "value loss" not in text, "there is no number for it"
    assert "steps / s" not in text


@pytest.mark.parametrize("lines", [1, 2], ids=["one-point", "two-points"])
def test_short_runs_are_drawn_too(tmp_path: Path, lines: int) -> None:
    points = [{"step": 10 * number, "charts/episodic_return": 0.0, "charts/SPS": 0.0} for number in range(lines)]
    assert draw_learning_curve(points, tmp_path / "curve.png", "").stat().st_size > 1000
    assert draw_learning_curve([{"step": 1, "charts/episodic_return": -5}], tmp_path / "curve.png", "x").exists()


@pytest.mark.parametrize(
    "lines", [[], [{"step": 1}], [{"step": 1, "charts/episodic_return": None}], [{"charts/episodic_return": 1.0}]]
)
def test_nothing_to_draw_is_said(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    message = f"nothing to draw: none of {len(lines)} lines of metrics has a number for 'charts/episodic_return'"
    with pytest.raises(shoal.StateError, match=message):
        draw_learning_curve(lines, tmp_path / "curve.png", "x")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_kind_of_picture_is_refused(tmp_path: Path) -> None:
    for name in ("curve.docx", "curve"):
        with pytest.raises(
            shoal.ConfigurationError, match=f"a picture's name ends in .png, .svg or .pdf, got '.*{name}'"
        ):
            draw_learning_curve(metrics_of_a_run(), tmp_path / name, "x")


def test_a_picture_that_cannot_be_written_is_a_clear_error_and_leaves_the_old_one(tmp_path: Path) -> None:
    with pytest.raises(
        shoal.StateError, match="the learning curve cannot be written to .*curve.png: No such file or directory"
    ):
        draw_learning_curve(metrics_of_a_run(), tmp_path / "none" / "curve.png", "x")
    (tmp_path / "curve.png").write_text("old")
    with FailingDisk(1).installed() as disk, pytest.raises(shoal.StateError, match="No space left on device"):
        draw_learning_curve(metrics_of_a_run(), tmp_path / "curve.png", "x")
    assert disk.operations[0] == "replace"
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"curve.png": "old"}


def test_a_missing_matplotlib_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(
        shoal.ConfigurationError, match=r"the learning curve needs matplotlib: pip install 'shoal\[train\]'"
    ):
        draw_learning_curve(metrics_of_a_run(), tmp_path / "curve.png", "x")


def test_only_numbers_are_drawn() -> None:
    lines: list[dict[str, Any]] = [
        {"step": 1, "a": 1.0},
        {"step": 2, "a": None},
        {"step": 3},
        {"a": 4.0},
        {"step": 5, "a": float("inf")},
        {"step": 6, "a": 6},
    ]
    steps, values = _series(lines, "a")
    assert (steps.tolist(), values.tolist()) == ([1, 6], [1, 6])


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (950, "950"), (12_000, "12 k"), (1_500_000, "1.5 M"), (2e9, "2 G"), (-3000, "-3 k")]
)
def test_large_numbers_are_short(value: float, text: str) -> None:
    assert _thousands(value) == text


def test_each_episode_of_a_task_has_its_curve(tmp_path: Path) -> None:
    by_episode = {f"metrics/return_train_episode_{number}": float(number) for number in (1, 2, 3)}
    write(tmp_path, metrics_of_a_run(**by_episode))
    text = texts_of(tmp_path)
    for words in (">episode 1<", ">2<", ">3<", "episode 3: best 3 at step 2.05 k"):
        assert words in text, words

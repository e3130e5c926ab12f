"""``shoal rollout``: what it prints, and what it leaves behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.cli.main import main
from shoal.llm import TrajectoryRecord, read_records, verify
from tests.llm.policies.server import running_server

EASY = ["--env-config", "num_boxes=1", "search_depth=15"]
SMALL = ["--groups", "2", "--group-size", "2", "--no-parallel"]


def run(tmp_path: Path, *arguments: str) -> Path:
    """The folder that the command leaves."""
    assert main(["rollout", *arguments, "--root", str(tmp_path / "runs")]) == 0
    [folder] = (tmp_path / "runs").iterdir()
    return folder


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["rollout", *arguments]) == 1
    return " ".join(capsys.readouterr().err.split())


def by_key(records: Any) -> list[TrajectoryRecord]:
    return sorted(records, key=lambda one: one.key)


def test_the_solver_plays_and_all_of_it_is_written_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run(tmp_path, *SMALL, *EASY, "--seed", "3")
    printed = capsys.readouterr().out
    assert "success" in printed
    assert f"Everything is in {folder}" in printed
    lines, table = (
        list(read_records(folder / "trajectories.jsonl")),
        list(read_records(folder / "trajectories.parquet")),
    )
    assert by_key(lines) == table
    assert [one.seed for one in table] == [3, 3, 4, 4]
    assert all(verify(one) for one in table)
    metrics = json.loads((folder / "metrics.json").read_text())["metrics"]["sokoban"]
    assert (metrics["success"], metrics["pass@2"], metrics["status"]) == (1.0, 1.0, {"ok": 4})


def test_a_server_plays_and_its_config_plays_again(tmp_path: Path) -> None:
    with running_server() as server:
        common = ["--policy", f"openai:{server.url}", "--max-turns", "3", "--temperature", "0.5"]
        first = run(tmp_path / "1", *SMALL, *EASY, *common, "--mode", "lockstep", "--window", "full")
        assert {one["temperature"] for one in server.asked} == {0.5}
        assert {one["model"] for one in server.asked} == {"hash"}
        again = run(
            tmp_path / "2", "--config", str(first / "config.yaml"), *common, "--mode", "first_ready", "--parallel"
        )
    records = [list(read_records(folder / "trajectories.parquet")) for folder in (first, again)]
    assert records[0] == records[1]
    assert any(len(one.turns) == 3 for one in records[0])
    assert records[0][0].turns[1].continues


def test_why_trajectories_failed_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running_server() as server:
        server.trouble = lambda _, asked: (
            (400, {"error": {"message": "filtered"}}) if len(asked["messages"]) > 1 else None
        )
        run(tmp_path, *SMALL, "--policy", f"openai:{server.url}", "--window", "full", "--max-turns", "2")
    printed = " ".join(capsys.readouterr().out.split())
    assert "status policy_error: 4" in printed
    assert f"4 failed, policy_error: {server.url}/ answered 400: " in printed
    assert "filtered" in printed


def test_validation_of_a_config(tmp_path: Path) -> None:
    crew = {"group_size": 1, "env_configs": {"tags": ["easy", "lake"], "n_groups": [1, 1]}, "env_groups": 2}
    worlds = {"easy": {"env_type": "sokoban", "env_config": {"num_boxes": 1}}, "lake": {"env_type": "frozen_lake"}}
    config = {"es_manager": {"train": crew, "val": crew}, "custom_envs": worlds, "seed": {"train": 5, "val": 9}}
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    folder = run(tmp_path, "--config", str(path), "--val", "--no-parallel", "--max-turns", "30")
    records = list(read_records(folder / "trajectories.parquet"))
    assert [(one.tag, one.mode, one.seed) for one in records] == [("easy", "val", 9), ("lake", "val", 10)]


def test_a_rollout_that_cannot_begin_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = ["--root", str(tmp_path)]
    said = refused(capsys, "--policy", "openai:http://127.0.0.1:9/v1", *SMALL, *EASY, *root)
    assert "error: http://127.0.0.1:9/v1/ does not say which models it has" in said
    assert not list(tmp_path.iterdir())


def test_what_is_wrong_is_said_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in (
        (["--policy", "solvr"], "there is no policy 'solvr'. Did you mean 'solver'?"),
        (["--policy", "transformers"], "--policy transformers needs a model: transformers:…"),
        (["--policy", "recorded"], "--policy recorded needs a file: recorded:…"),
        (["--model", "m"], "--model is for openai:URL, and --policy is solver"),
        (["--env", "sokobn"], "Did you mean 'sokoban'?"),
        (["--env-config", "num_boxes"], "--env-config takes NAME=VALUE, got 'num_boxes'"),
        (["--env-config", "num_boxes=["], "the value of num_boxes cannot be read"),
        (["--env-config", "num_box=1"], "num_boxes"),
        (["--config", "nothing.yaml", "--env", "bandit"], "--config says what is played: leave out --env"),
        (["--config", "nothing.yaml"], "nothing.yaml"),
        (["--groups", "-1"], "must be a whole number of at least 1"),
    ):
        assert said in refused(capsys, *arguments, "--root", str(tmp_path / "runs"))

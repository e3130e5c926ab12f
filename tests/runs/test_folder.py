"""The folder of a run."""

from __future__ import annotations

import enum
import errno
import json
import os
import sys
import threading
import time
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import yaml

import shoal
from shoal.runs import RunFolder
from tests.runs.disk import FailingDisk, Killed
from tests.scripts import run_script


@pytest.fixture
def clock_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "strftime", lambda _: "20260314-150926")


def create(root: Path, **changes: Any) -> RunFolder:
    arguments: dict[str, Any] = {"env": "CartPole-v1", "algorithm": "ppo", "seed": 1, "config": {"gamma": 0.99}}
    return RunFolder.create(root, **{**arguments, **changes})


@pytest.mark.usefixtures("clock_stands_still")
@pytest.mark.parametrize(
    ("env", "seed", "name"),
    [
        ("CartPole-v1", 1, "CartPole-v1__ppo__1__20260314-150926"),
        ("shoal/CartPole-v0", 0, "shoal-CartPole-v0__ppo__0__20260314-150926"),
        ("../../etc: *?", None, "etc__ppo__no-seed__20260314-150926"),
        (".hidden", -3, "hidden__ppo__-3__20260314-150926"),
        ("\0/\n", 1, "unnamed__ppo__1__20260314-150926"),
        ("long" * 100, 1, f"{'long' * 15}__ppo__1__20260314-150926"),
    ],
    ids=["id", "slash", "traversal", "hidden", "nothing-left", "long"],
)
def test_the_name_says_what_was_run_and_stays_inside_the_root(
    tmp_path: Path, env: str, seed: int | None, name: str
) -> None:
    folder = create(tmp_path, env=env, seed=seed)
    assert folder.path == tmp_path / name
    assert folder.path.is_dir()


@pytest.mark.usefixtures("clock_stands_still")
def test_runs_that_start_in_the_same_second_get_a_folder_each(tmp_path: Path) -> None:
    assert [create(tmp_path).path.name[-6:] for _ in range(3)] == ["150926", "0926-2", "0926-3"]


@pytest.mark.usefixtures("clock_stands_still")
def test_runs_that_start_at_the_same_moment_get_a_folder_each(tmp_path: Path) -> None:
    barrier = threading.Barrier(8)
    paths: list[Path] = []

    def start() -> None:
        barrier.wait()
        paths.append(create(tmp_path).path)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(paths)) == len(list(tmp_path.iterdir())) == 8


class Colour(enum.StrEnum):
    RED = "red"


def test_settings_are_written_in_their_order_and_read_back(tmp_path: Path) -> None:
    config = {
        "zeta": 3e-4,
        "alpha": np.float32(0.5),
        "layers": (64, np.int64(32)),
        "colour": Colour.RED,
        "where": Path("a/b"),
        "nothing": None,
        "answer": "no",
        "ö": "ü",
        "flag": np.bool_(True),
        "names": {"b", "a"},
        "array": np.arange(2),
        "nested": MappingProxyType({"deep": {1: [True]}}),
    }
    folder = create(tmp_path, config=config)
    read = folder.read_config()
    assert list(read) == list(config)
    assert read == {
        "zeta": 3e-4, "alpha": 0.5, "layers": [64, 32], "colour": "red", "where": "a/b", "nothing": None, "answer": "no",
        "ö": "ü", "flag": True, "names": ["a", "b"], "array": [0, 1], "nested": {"deep": {1: [True]}},
    }  # fmt: skip
    assert (
        (folder.path / "config.yaml")
        .read_text()
        .startswith("zeta: 0.0003\nalpha: 0.5\nlayers:\n- 64\n- 32\ncolour: red\n")
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"policy": {"kind": [Path]}},
            r"config\['policy'\]\['kind'\]\[0\] is of <class 'type'>, which cannot be written to",
        ),
        ({"data": b"1"}, r"config\['data'\] is of <class 'bytes'>"),
        (
            {"table": {(1, 2): 3}},
            r"config\['table'\] has the key \(1, 2\) of <class 'tuple'>, and config.yaml holds strings",
        ),
    ],
    ids=["class", "bytes", "key"],
)
def test_settings_that_cannot_be_written_are_named_and_nothing_is_made(
    tmp_path: Path, config: dict[str, Any], message: str
) -> None:
    with pytest.raises(shoal.ConfigurationError, match=message):
        create(tmp_path / "runs", config=config)
    with pytest.raises(shoal.ConfigurationError, match=message):
        RunFolder.create_at(tmp_path / "runs", config)
    assert list(tmp_path.iterdir()) == []


def test_versions_and_command_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "shoal.ppo.train", "--env", "a b"])
    versions = create(tmp_path).read_versions()
    assert versions["shoal"] == shoal.__version__
    assert versions["numpy"] == np.__version__
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert versions["command"] == "python -m shoal.ppo.train --env 'a b'"
    assert {"platform", "gymnasium", "torch"} <= set(versions)


def test_versions_of_what_is_not_installed_are_null(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.runs.versions.PACKAGES", ("no-such-package",))
    folder = create(tmp_path)
    assert json.loads((folder.path / "versions.json").read_text())["no-such-package"] is None


def test_importing_loads_neither_torch_nor_matplotlib_nor_writers() -> None:
    heavy = "{'torch', 'safetensors', 'matplotlib', 'tensorboard', 'wandb'}"
    done = run_script(f"import sys, shoal.runs; print(sorted({heavy} & set(sys.modules)))")
    assert done.stdout == "[]\n", done.stderr


def test_a_folder_is_opened_again(tmp_path: Path) -> None:
    folder = create(tmp_path)
    again = RunFolder.open(str(folder))
    assert again == folder
    assert os.fspath(again) == str(folder.path)
    assert again.metrics_path == folder.path / "metrics.jsonl"
    assert again.checkpoints_path == folder.path / "checkpoints"


def test_what_is_no_run_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(shoal.StateError, match="none is not the folder of a run: there is nothing at this path"):
        RunFolder.open(tmp_path / "none")
    (tmp_path / "file").touch()
    with pytest.raises(shoal.StateError, match="file is not the folder of a run: it is a file"):
        RunFolder.open(tmp_path / "file")
    with pytest.raises(shoal.StateError, match=r"it has no config.yaml and no versions.json\.$"):
        RunFolder.open(tmp_path)
    folder = create(tmp_path)
    with pytest.raises(shoal.StateError, match=f"The runs inside it are {folder.path.name}: open one of these"):
        RunFolder.open(tmp_path)
    (folder.path / "versions.json").unlink()
    with pytest.raises(shoal.StateError, match=r"it has no versions.json\.$"):
        RunFolder.open(folder.path)


def test_damaged_files_of_a_run_are_named(tmp_path: Path) -> None:
    folder = create(tmp_path)
    (folder.path / "config.yaml").write_text("a: [")
    with pytest.raises(shoal.StateError, match="config.yaml cannot be read: while parsing"):
        folder.read_config()
    (folder.path / "config.yaml").write_text("- 1")
    with pytest.raises(shoal.StateError, match="config.yaml holds no settings: it should be a mapping"):
        folder.read_config()
    (folder.path / "versions.json").write_text("{")
    with pytest.raises(shoal.StateError, match="versions.json cannot be read"):
        folder.read_versions()


def test_settings_are_read_without_running_anything(tmp_path: Path) -> None:
    folder = create(tmp_path)
    (folder.path / "config.yaml").write_text("a: !!python/object/apply:os.getpid []")
    with pytest.raises(shoal.StateError, match="could not determine a constructor"):
        folder.read_config()


def test_a_root_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        shoal.ConfigurationError, match=r"cannot be made at .*file/CartPole.*: File exists\. Nothing was started"
    ):
        create(tmp_path / "file")
    with pytest.raises(shoal.ConfigurationError, match=r"cannot be made at .*file/runs/.*: Not a directory\."):
        create(tmp_path / "file" / "runs")
    with pytest.raises(shoal.ConfigurationError, match=r"cannot be made at .*/file: File exists\."):
        RunFolder.create_at(tmp_path / "file", {})
    with pytest.raises(
        shoal.ConfigurationError, match=r"cannot be made at .*/file/run: Not a directory\. .* another place"
    ):
        RunFolder.create_at(tmp_path / "file" / "run", {})


def test_a_chosen_folder_is_used_and_what_is_in_it_stays(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    folder = RunFolder.create_at(tmp_path, {"a": 1})
    assert folder.read_config() == {"a": 1}
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert RunFolder.create_at(tmp_path / "new" / "one", {}).path.is_dir()


def test_a_chosen_folder_that_holds_a_run_is_left_alone(tmp_path: Path) -> None:
    RunFolder.create_at(tmp_path, {"a": 1})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(
        shoal.StateError, match="holds a run already: there is a config.yaml in it.*resume that run, choose"
    ):
        RunFolder.create_at(tmp_path, {"a": 2})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("chosen", [False, True], ids=["create", "create_at"])
def test_a_disk_that_fails_at_any_operation_leaves_no_folder_that_looks_like_a_run(
    tmp_path: Path, chosen: bool
) -> None:
    for fail_at in range(1, 100):
        root = tmp_path / str(fail_at)
        with FailingDisk(fail_at).installed() as disk:
            message = message_of_making(root, chosen)
        if not disk.has_failed:
            break
        assert "No space left on device. Nothing was started" in message
        assert [path for path in root.rglob("*") if path.is_file()] == [], disk.operations
        RunFolder.create_at(root, {})  # and another try succeeds
    assert fail_at > 8


def message_of_making(root: Path, chosen: bool) -> str:
    try:
        RunFolder.create_at(root, {}) if chosen else create(root)
    except shoal.ConfigurationError as error:
        return str(error)
    return ""


def test_a_run_killed_while_its_folder_is_made_is_recognised_as_none(tmp_path: Path) -> None:
    for fail_at in range(1, 100):
        root = tmp_path / str(fail_at)
        with FailingDisk(fail_at, killed=True).installed() as disk:
            try:
                create(root)
                break
            except Killed:
                pass
        for path in root.glob("*"):
            if (path / "versions.json").exists():
                assert RunFolder.open(path).read_config() == {"gamma": 0.99}, disk.operations
            else:
                with pytest.raises(shoal.StateError, match="it has no"):
                    RunFolder.open(path)
    assert fail_at > 8


def test_yaml_of_a_run_is_safe_yaml(tmp_path: Path) -> None:
    text = (create(tmp_path, config={"colour": Colour.RED, "lr": np.float64(1e-5)}).path / "config.yaml").read_text()
    assert "!!" not in text
    assert yaml.safe_load(text) == {"colour": "red", "lr": 1e-5}


def test_a_setting_that_is_decided_later_takes_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder.create_at(tmp_path / "run", {"a": 1, "b": None, "c": 3})
    folder.note_setting("b", True)
    assert list(folder.read_config().items()) == [("a", 1), ("b", True), ("c", 3)]
    assert {path.name for path in folder.path.iterdir()} == {"config.yaml", "versions.json"}

    def is_full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shoal.runs.durable.os.fsync", is_full)
    with pytest.raises(
        shoal.StateError, match=r"b: False cannot be written into .*config.yaml: No space left on device"
    ):
        folder.note_setting("b", False)
    assert folder.read_config()["b"] is True


def test_a_run_that_is_withdrawn_takes_along_only_what_it_made(tmp_path: Path) -> None:
    create(tmp_path / "runs").withdraw()
    assert list((tmp_path / "runs").iterdir()) == []
    RunFolder.create_at(tmp_path / "runs", {}).withdraw()
    assert list((tmp_path / "runs").iterdir()) == []
    used = RunFolder.create_at(tmp_path / "used", {})
    used.metrics_path.touch()
    used.withdraw()
    assert {path.name for path in used.path.iterdir()} == {"config.yaml", "versions.json", "metrics.jsonl"}
    refused = RunFolder.create_at(tmp_path / "refused", {})
    with FailingDisk(1).installed():
        refused.withdraw()
    assert refused.path.is_dir()

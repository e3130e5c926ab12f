"""Checkpoints on a disk that fails, in a process that is killed: the old one or the new one, and never a half."""

from __future__ import annotations

import errno
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import shoal
from shoal.runs import CheckpointNotSaved, Checkpoints
from tests.marked import MarkedProgram
from tests.runs.disk import FailingDisk, Killed, files_limited_to
from tests.runs.test_checkpoints import assert_is, names_in, save

EVERY = range(1, 200)
"""More operations than a save has; the loops end when nothing has failed."""


@pytest.mark.parametrize("killed", [False, True], ids=["refused", "killed"])
def test_whichever_operation_fails_the_old_or_the_new_one_is_whole(tmp_path: Path, killed: bool) -> None:
    outcomes = set()
    for fail_at in EVERY:
        run = tmp_path / str(fail_at)
        save(Checkpoints(run, keep_last=1), 1)
        checkpoints = Checkpoints(run, keep_last=1)
        with FailingDisk(fail_at, killed).installed() as disk, warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            outcome = outcome_of_saving(checkpoints, 2)
        if not disk.has_failed:
            break
        fresh = Checkpoints(run, keep_last=1)  # without a warning, which would be an error here: nothing looks damaged
        last = fresh.load("last").step
        assert_is(fresh.load("last"), last)
        assert last in (1, 2), disk.operations
        if outcome == "saved":
            assert last == 2, disk.operations
            harmless = disk.operations[fail_at - 1] == "mkdir"  # of the folder that is there
            assert harmless or "could not be removed" in str(told[0].message), disk.operations
        outcomes.add((outcome, last))
        save(fresh, 3)
        assert names_in(fresh) == ["step_000000003"], "leftovers are gone"
        assert_is(fresh.load("last"), 3)
    assert fail_at > 12, "every operation had its turn"
    assert outcomes >= ({("killed", 1), ("killed", 2)} if killed else {("refused", 1), ("saved", 2)})


def outcome_of_saving(checkpoints: Checkpoints, step: int) -> str:
    try:
        save(checkpoints, step)
    except CheckpointNotSaved:
        return "refused"
    except Killed:
        return "killed"
    return "saved"


@pytest.mark.parametrize("killed", [False, True], ids=["refused", "killed"])
def test_whichever_operation_fails_a_step_saved_again_is_the_old_or_the_new_one(tmp_path: Path, killed: bool) -> None:
    for fail_at in EVERY:
        run = tmp_path / str(fail_at)
        Checkpoints(run).save(5, {"weights": torch.zeros(1)}, {"version": "old"})
        with FailingDisk(fail_at, killed).installed() as disk, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                Checkpoints(run).save(5, {"weights": torch.ones(1)}, {"version": "new"})
            except (CheckpointNotSaved, Killed):
                pass
        if not disk.has_failed:
            break
        tensors, state, _ = Checkpoints(run).load(5)
        assert (state["version"], tensors["weights"].item()) in (("old", 0.0), ("new", 1.0)), disk.operations
    assert fail_at > 12


def test_a_failed_save_tidies_up_and_the_next_one_succeeds(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 1)
    with files_limited_to(100), pytest.raises(CheckpointNotSaved, match="File too large"):
        save(checkpoints, 2)
    assert names_in(checkpoints) == ["step_000000001"]
    assert_is(checkpoints.load("last"), 1)
    save(checkpoints, 3)
    assert checkpoints.steps == (1, 3)


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({"keep_last": 2, "keep_last_is_called": "--keep"}, "needs 0.0 MB), or lower --keep; the next save"),
        ({"keep_last": 1}, "needs 0.0 MB); the next save"),
    ],
)
def test_a_full_disk_is_helped_by_keeping_fewer(tmp_path: Path, settings: dict[str, Any], advice: str) -> None:
    with FailingDisk(4).installed(), pytest.raises(CheckpointNotSaved) as told:
        save(Checkpoints(tmp_path, **settings), 1)
    assert advice in str(told.value)


def test_a_full_disk_says_what_is_needed_and_what_is_left(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    with FailingDisk(4).installed(), pytest.raises(CheckpointNotSaved) as first:
        save(checkpoints, 1000)
    assert isinstance(first.value, shoal.ShoalError)
    assert isinstance(first.value.__cause__, OSError)
    assert "the checkpoint of step 1,000 could not be saved to" in str(first.value)
    assert "No space left on device" in str(first.value)
    assert "there is none yet. Training can go on." in str(first.value)
    assert "make room on the disk (the checkpoint needs 0.0 MB), or lower keep_last; the next save will" in str(
        first.value
    )
    save(checkpoints, 1)
    with (
        FailingDisk(4).installed(),
        pytest.raises(CheckpointNotSaved, match="are intact: the last one is step_000000001"),
    ):
        checkpoints.save(2, {"large": torch.zeros(10**6)}, {})


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.EIO])
def test_other_refusals_say_where_to_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(code, os.strerror(code))

    checkpoints = Checkpoints(tmp_path)
    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(
        CheckpointNotSaved, match=f"{os.strerror(code)}[^$]*What to do: see that .*checkpoints can be written to"
    ):
        save(checkpoints, 1)


def test_a_file_in_the_place_of_the_folder_is_a_refusal(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").touch()
    with pytest.raises(CheckpointNotSaved, match="File exists"):
        save(Checkpoints(tmp_path), 1)


def test_an_interrupted_save_tidies_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 1)

    def press_ctrl_c(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", press_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        save(checkpoints, 2)
    assert names_in(checkpoints) == ["step_000000001"]


def test_old_ones_that_cannot_be_removed_are_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = Checkpoints(tmp_path, keep_last=1)
    save(checkpoints, 1)

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        with pytest.warns(
            RuntimeWarning, match="old checkpoints in .* could not be removed: Operation not.*up room"
        ) as told:
            save(checkpoints, 2)
    assert told[0].filename.endswith("test_checkpoints.py")
    assert_is(checkpoints.load("last"), 2)
    save(checkpoints, 3)
    assert names_in(checkpoints) == ["step_000000003"]


def test_everything_is_on_the_disk_before_it_has_its_name(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep_last=1)
    save(checkpoints, 1)
    with FailingDisk(0).installed() as disk:
        save(checkpoints, 2)
    first, second = (index for index, name in enumerate(disk.operations) if name == "rename")
    before, between = disk.operations[:first], disk.operations[first:second]
    assert before.count("fsync") == 3, "two files and the folder that holds them"
    assert before[-1] == "fsync"
    assert "fsync" in between, "the new name is on the disk before an old checkpoint is touched"
    assert not {"unlink", "rmdir"} & set(disk.operations[:second])


def test_looking_at_a_run_does_not_disturb_a_save(tmp_path: Path) -> None:
    save(Checkpoints(tmp_path), 1)
    under_way = tmp_path / "checkpoints" / ".saving-step_000000002"
    under_way.mkdir()
    reader = Checkpoints(tmp_path)
    assert_is(reader.load("last"), 1)
    assert reader.steps == (1,)
    assert under_way.is_dir()


KILLED_OFTEN = """
    import os, random, signal, sys, time
    import torch
    from shoal.runs import Checkpoints

    torch.set_num_threads(1)
    folder, kills = sys.argv[1], int(sys.argv[2])
    step = 0
    for kill in range(kills):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            checkpoints = Checkpoints(folder, keep_last=2)
            while True:
                step += 1
                checkpoints.save(step, {"weights": torch.full((20_000,), float(step))}, {"step": step}, score=float(step % 7))
                os.write(writer, step.to_bytes(8, "little"))
        os.close(writer)
        os.read(reader, 8)  # it is saving
        time.sleep(random.Random(kill).uniform(0.0, 0.03))
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        reported = step + 1
        while data := os.read(reader, 8):
            reported = int.from_bytes(data, "little")
        os.close(reader)
        checkpoints = Checkpoints(folder)
        tensors, state, last = checkpoints.load("last")
        assert last in (reported, reported + 1), (kill, last, reported)
        assert state == {"step": last} and (tensors["weights"] == last).all() and len(tensors["weights"]) == 20_000
        assert checkpoints.load("best").step % 7 == max(saved % 7 for saved in range(1, last + 1))
        for one in checkpoints.steps:
            checkpoints.load(one)
        step = last
    print("survived", kills, step)
"""


def test_a_process_killed_while_saving_leaves_the_last_or_the_new_checkpoint(tmp_path: Path) -> None:
    with MarkedProgram(KILLED_OFTEN, [str(tmp_path), "20"], PYTHONWARNINGS="error::RuntimeWarning") as program:
        code, output, errors = program.end()
    assert code == 0, errors
    assert output.startswith("survived 20"), errors
    checkpoints = Checkpoints(tmp_path, keep_last=1, keep_best=False)
    save(checkpoints, 10**6)
    assert names_in(checkpoints) == ["step_001000000"]

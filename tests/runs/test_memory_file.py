"""What is too large for every checkpoint: it comes back with the last one, and lies on the disk once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from shoal.runs import CheckpointDamaged, CheckpointNotSaved, Checkpoints
from tests.runs.disk import files_limited_to

WEIGHTS = {"weights": torch.ones(3)}


def memory(value: int, rows: int = 1000) -> dict[str, torch.Tensor]:
    """As a ring of rows, of which some are written."""
    ring = torch.full((rows + 10, 4), float(value))
    return {"kept.observations": ring[:rows], "kept.is_step": torch.arange(rows) % 2 == 0, "file": torch.tensor(value)}


def kept_in(checkpoints: Checkpoints) -> list[str]:
    return sorted(path.parent.name for path in checkpoints.path.glob("*/memory.npz"))


def test_it_comes_back_among_the_tensors(tmp_path: Path) -> None:
    Checkpoints(tmp_path).save(1, WEIGHTS, {}, memory=memory(7))
    tensors = Checkpoints(tmp_path).load("last").tensors
    assert tensors.keys() == WEIGHTS.keys() | memory(7).keys()
    for name, saved in (WEIGHTS | memory(7)).items():
        assert torch.equal(tensors[name], saved)
        assert tensors[name].dtype == saved.dtype


def test_the_last_checkpoint_alone_has_it(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep_last=2)
    for step, score in ((1, 5.0), (2, 1.0), (3, 2.0)):
        checkpoints.save(step, WEIGHTS, {}, score, memory(step))
        assert kept_in(checkpoints) == [f"step_{step:09d}"]
    assert checkpoints.steps == (1, 2, 3)
    assert checkpoints.load("best").tensors.keys() == WEIGHTS.keys()
    assert checkpoints.load("last").tensors["file"] == 3


def test_where_there_is_no_room_the_former_stays(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, WEIGHTS, {}, memory=memory(1))
    with files_limited_to(10_000), pytest.raises(CheckpointNotSaved, match=r"needs 0\.2 MB"):
        checkpoints.save(2, WEIGHTS, {}, memory=memory(2, rows=10_000))
    assert kept_in(checkpoints) == ["step_000000001"]
    assert Checkpoints(tmp_path).load("last").tensors["file"] == 1


@pytest.mark.parametrize("damage", ["cut off", "changed", "empty"])
def test_a_damaged_one_is_noticed(tmp_path: Path, damage: str) -> None:
    checkpoints = Checkpoints(tmp_path)
    file = checkpoints.save(1, WEIGHTS, {}, memory=memory(1)) / "memory.npz"
    whole = file.read_bytes()
    middle = len(whole) // 2
    changed = whole[:middle] + b"?!" + whole[middle + 2 :]
    file.write_bytes({"cut off": whole[:middle], "changed": changed, "empty": b""}[damage])
    with pytest.raises(CheckpointDamaged, match=r"memory\.npz is not the file that was saved"):
        checkpoints.load("last")

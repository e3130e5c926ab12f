"""Checkpoints: what was saved comes back, and the right ones are kept."""

from __future__ import annotations

import json
import math
import shutil
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import shoal
from shoal.runs import Checkpoint, CheckpointDamaged, Checkpoints, RunFolder

DTYPES = (
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool,
)  # fmt: skip


def tensors_of(value: float) -> dict[str, torch.Tensor]:
    return {"weights": torch.full((3, 2), float(value))}


def save(checkpoints: Checkpoints, step: int, score: float | None = None) -> Path:
    return checkpoints.save(step, tensors_of(step), {"value": step}, score)


def assert_is(checkpoint: Checkpoint, step: int) -> None:
    assert checkpoint.step == step
    assert checkpoint.state == {"value": step}
    assert torch.equal(checkpoint.tensors["weights"], tensors_of(step)["weights"])


def names_in(checkpoints: Checkpoints) -> list[str]:
    return sorted(path.name for path in checkpoints.path.iterdir())


# -- what comes back -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_come_back_bit_identical(tmp_path: Path, dtype: torch.dtype) -> None:
    bits = torch.randint(0, 2, (64,), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    tensor = bits.to(torch.bool) if dtype == torch.bool else bits.mul(100).view(dtype)
    tensors = {"a": tensor, "matrix": tensor.reshape(2, -1), "empty": tensor[:0], "one": tensor[0]}
    Checkpoints(tmp_path).save(1, tensors, {})
    back = Checkpoints(tmp_path).load("last").tensors
    assert back.keys() == tensors.keys()
    for name, saved in tensors.items():
        assert back[name].dtype == dtype
        assert back[name].shape == saved.shape
        assert back[name].reshape(-1).view(torch.uint8).tolist() == saved.reshape(-1).view(torch.uint8).tolist()


def test_tensors_that_share_memory_or_have_gaps_or_gradients_are_saved(tmp_path: Path) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    tensors = {"base": base, "same": base, "part": base[1:], "turned": base.T, "column": base[:, 1]}
    tensors["parameter"] = torch.nn.Parameter(base)
    Checkpoints(tmp_path).save(1, tensors, {})
    back = Checkpoints(tmp_path).load(1).tensors
    assert all(torch.equal(back[name], tensor.detach()) for name, tensor in tensors.items())


def test_a_model_and_its_optimizer_go_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    def trained(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> list[float]:
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(4)).sum().backward()
            optimizer.step()
        return [float(parameter.detach().sum()) for parameter in model.parameters()]

    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters())
    trained(model, optimizer)
    moments = {f"{i}.{k}": v for i, its in optimizer.state_dict()["state"].items() for k, v in its.items()}
    Checkpoints(tmp_path).save(3, {**model.state_dict(), **moments}, {"groups": optimizer.state_dict()["param_groups"]})
    expected = trained(model, optimizer)

    again = torch.nn.Linear(4, 2)
    other = torch.optim.Adam(again.parameters())
    tensors, state, _ = Checkpoints(tmp_path).load()
    again.load_state_dict({name: tensors[name] for name in ("weight", "bias")})
    kept = {i: {k: tensors[f"{i}.{k}"] for k in ("step", "exp_avg", "exp_avg_sq")} for i in range(2)}
    other.load_state_dict({"state": kept, "param_groups": state["groups"]})
    assert trained(again, other) == expected


def test_a_state_comes_back_with_its_types(tmp_path: Path) -> None:
    state: dict[str, Any] = {
        "updates": 7, "mean": np.float64(0.1), "counts": np.arange(6, dtype=np.int32).reshape(2, 3), "blob": bytes(range(256)),
        "best": -math.inf, "nothing": None, "list": [1, "two", (3,)], "rng": np.random.default_rng(1).bit_generator.state,
    }  # fmt: skip
    Checkpoints(tmp_path).save(1, {}, state)
    tensors, back, step = Checkpoints(tmp_path).load("last")
    assert (tensors, step) == ({}, 1)
    assert list(back) == list(state)
    np.testing.assert_array_equal(back.pop("counts"), state.pop("counts"))
    assert back == state
    assert type(back["mean"]) is np.float64


def test_environments_go_on_from_a_checkpoint(tmp_path: Path) -> None:
    def make() -> shoal.ParallelEnv:
        return shoal.ParallelEnv(
            [lambda: gymnasium.make("CartPole-v1")] * 2, backend="pipes", num_workers=1, start_method="fork"
        )

    with make() as envs:
        envs.reset(seed=3)
        envs.step([0, 1])
        Checkpoints(tmp_path).save(2, {}, {"envs": envs.state_dict()})
        expected = envs.step([1, 1])[0]
    with make() as envs:
        envs.load_state_dict(Checkpoints(tmp_path).load().state["envs"])
        np.testing.assert_array_equal(envs.step([1, 1])[0], expected)


def test_nothing_is_pickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pickle

    checkpoints = Checkpoints(tmp_path)
    for name in ("loads", "load", "Unpickler"):
        monkeypatch.setattr(pickle, name, pytest.fail)
    monkeypatch.setattr(torch, "load", pytest.fail)
    assert names_in_files(save(checkpoints, 1)) == ["state.json", "tensors.safetensors"]
    assert_is(checkpoints.load(1), 1)
    assert json.loads((checkpoints.path / "step_000000001" / "state.json").read_text())["state"] == {"value": 1}


def names_in_files(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir())


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"a": np.zeros(2)}, r"tensors\['a'\] must be a tensor under a string, got <class 'numpy.ndarray'>"),
        ({1: torch.zeros(2)}, r"tensors\[1\] must be a tensor under a string"),
        ({"a": torch.eye(2).to_sparse()}, "tensors cannot be saved as safetensors"),
        ({"__metadata__": torch.eye(2)}, "the format of safetensors keeps the name '__metadata__' for itself"),
    ],
    ids=["array", "key", "sparse", "reserved"],
)
def test_tensors_that_cannot_be_saved_are_refused(tmp_path: Path, tensors: Any, message: str) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 1)
    with pytest.raises(shoal.ConfigurationError, match=message):
        checkpoints.save(2, tensors, {})
    assert names_in(checkpoints) == ["step_000000001"]


@pytest.mark.parametrize("step", [-1, 1.5, "3", None])
def test_a_step_is_a_whole_number(tmp_path: Path, step: Any) -> None:
    with pytest.raises(shoal.ConfigurationError, match="a step is a whole number from 0 on, got"):
        Checkpoints(tmp_path).save(step, {}, {})


@pytest.mark.parametrize("keep_last", [0, -1, 1.5, None])
def test_at_least_one_is_kept(tmp_path: Path, keep_last: Any) -> None:
    with pytest.raises(shoal.ConfigurationError, match="keep_last must be a whole number from 1 on, got"):
        Checkpoints(tmp_path, keep_last=keep_last)


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (["safetensors"], "need safetensors, which is not installed"),
        (["torch", "safetensors"], "need torch and safetensors, which are not installed"),
    ],
    ids=["one", "both"],
)
def test_a_missing_package_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: list[str], message: str
) -> None:
    for package in missing:
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(shoal.ConfigurationError, match=rf"{message}: pip install 'shoal\[train\]'"):
        Checkpoints(tmp_path)


# -- which are kept ------------------------------------------------------------------------------------------------


def test_the_last_few_and_the_best_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(RunFolder.create_at(tmp_path, {}), keep_last=2)
    for step, score in enumerate([1.0, 9.0, 3.0, math.nan, 2.0], start=1):
        save(checkpoints, step, score)
    assert checkpoints.steps == (2, 4, 5)
    assert names_in(checkpoints) == ["step_000000002", "step_000000004", "step_000000005"]
    assert_is(checkpoints.load("best"), 2)
    assert_is(checkpoints.load("last"), 5)
    save(checkpoints, 6, 9.0)
    assert Checkpoints(tmp_path).steps == (5, 6), "of equals, the one that was trained for longer"
    save(Checkpoints(tmp_path, keep_last=1), 7, math.inf)
    assert Checkpoints(tmp_path).steps == (7,), "an infinite score is a score, and is read again"


def test_the_best_is_not_kept_if_that_is_not_wanted(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep_last=2, keep_best=False)
    for step, score in enumerate([9.0, 2.0, 1.0], start=1):
        save(checkpoints, step, score)
    assert checkpoints.steps == (2, 3)
    assert_is(checkpoints.load("best"), 2)


def test_without_scores_there_is_no_best(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    with pytest.raises(shoal.StateError, match="there is no best checkpoint in .*: nothing was saved yet"):
        checkpoints.load("best")
    save(checkpoints, 1)
    with pytest.raises(shoal.StateError, match="there is no best checkpoint in .*: no checkpoint has a score"):
        checkpoints.load("best")


def test_a_step_that_is_saved_again_replaces_the_first(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 1)
    save(checkpoints, 2)
    path = checkpoints.save(2, tensors_of(0), {"value": 0})
    assert checkpoints.steps == (1, 2)
    assert checkpoints.load(2).state == checkpoints.load(path).state == checkpoints.load("last").state == {"value": 0}


def test_a_run_that_goes_on_from_an_earlier_step_has_that_branch_as_its_last(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep_last=2)
    for step in (10, 20, 30):
        save(checkpoints, step, score=float(step == 30))
    assert_is(checkpoints.load(20), 20)
    save(checkpoints, 25, score=0.0)
    assert_is(Checkpoints(tmp_path).load("last"), 25)
    save(checkpoints, 26, score=0.0)
    assert checkpoints.steps == (30, 25, 26), "the best is kept, and is not the last"


def test_steps_may_be_large(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (999_999_999, 9_999_999_990):
        save(checkpoints, np.int64(step))  # type: ignore[arg-type]
    assert_is(checkpoints.load("last"), 9_999_999_990)
    assert_is(checkpoints.load(999_999_999), 999_999_999)


def test_other_things_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep_last=1)
    save(checkpoints, 1)
    (checkpoints.path / "step_mine").mkdir()
    (checkpoints.path / "notes.txt").touch()
    save(checkpoints, 2)
    assert names_in(checkpoints) == ["notes.txt", "step_000000002", "step_mine"]


# -- which is loaded -----------------------------------------------------------------------------------------------


def test_a_checkpoint_is_found_by_step_path_and_name(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    path = save(checkpoints, 1)
    save(checkpoints, 2)
    for which in (1, np.int64(1), path, str(path), path.name):
        assert_is(checkpoints.load(which), 1)  # type: ignore[arg-type]
    moved = shutil.move(path, tmp_path / "elsewhere")
    assert_is(checkpoints.load(moved), 1)


def test_what_is_not_there_is_an_error_that_lists_what_is(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    with pytest.raises(shoal.StateError, match="there is no checkpoint in .*checkpoints: nothing was saved yet"):
        checkpoints.load("last")
    with pytest.raises(shoal.StateError, match="there is no checkpoint of step 3 in .* There is no other"):
        checkpoints.load(3)
    save(checkpoints, 1)
    save(checkpoints, 2)
    with pytest.raises(shoal.StateError, match="no checkpoint of step 1,000 in .*: step_000000001, step_000000002"):
        checkpoints.load(1000)
    with pytest.raises(
        shoal.StateError, match="there is no checkpoint .*lost. Others that are there: step_000000001, step"
    ):
        checkpoints.load("lost")


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


DAMAGE = [
    (name, harm) for name in ("state.json", "tensors.safetensors") for harm in (truncate, flip, empty, Path.unlink)
]


@pytest.mark.parametrize(("name", "harm"), DAMAGE, ids=lambda part: getattr(part, "__name__", part))
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_the_last(tmp_path: Path, name: str, harm: Any) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 1)
    path = save(checkpoints, 2, score=1.0)
    harm(path / name)
    fresh = Checkpoints(tmp_path)
    for which in (2, path):
        with pytest.raises(
            CheckpointDamaged, match=f"the checkpoint .*{path.name} is damaged: .*{name}.* there: step_000000001"
        ):
            fresh.load(which)
    with pytest.warns(RuntimeWarning, match=f"{path.name} is damaged: .*{name}.*Going on with step_000000001") as told:
        assert_is(fresh.load("last"), 1)
    assert told[0].filename == __file__
    save(fresh, 3)
    if name == "tensors.safetensors":
        with pytest.raises(CheckpointDamaged, match=f"{path.name} is damaged"):
            fresh.load("best")
        assert_is(fresh.load("last"), 3)


def test_if_all_are_damaged_all_are_named(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    truncate(save(checkpoints, 1) / "tensors.safetensors")
    empty(save(checkpoints, 2) / "state.json")
    with pytest.raises(
        CheckpointDamaged, match="step_000000002 is damaged.*step_000000001 is damaged.*There is no other"
    ):
        checkpoints.load("last")


def test_a_state_that_is_not_ours_is_damaged(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    path = save(checkpoints, 1)
    for text in ("[]", "{}", "3", '{"sha256": 1}'):
        (path / "state.json").write_text(text)
        with pytest.raises(CheckpointDamaged, match="step_000000001 is damaged: state.json"):
            checkpoints.load(1)


def test_a_checkpoint_of_another_format_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("shoal.runs.checkpoint_files.FORMAT", 2)
        save(Checkpoints(tmp_path), 1)
    with pytest.raises(CheckpointDamaged, match="was saved in version 2 of the format, and this Shoal reads version 1"):
        Checkpoints(tmp_path).load(1)


def test_contents_that_fit_their_checksums_and_are_nonsense_are_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = Checkpoints(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("shoal.runs.tensor_bytes.as_bytes", lambda _: b"nonsense")
        save(checkpoints, 1)
    with pytest.raises(CheckpointDamaged, match="step_000000001 is damaged: "):
        checkpoints.load(1)
    with monkeypatch.context() as patch:
        patch.setattr(
            "shoal.runs.state_json.encode", lambda value: {"$": "nonsense"} if isinstance(value, dict) else value
        )
        save(checkpoints, 2)
    with pytest.raises(CheckpointDamaged, match="step_000000002 is damaged: .* stands for nothing"):
        checkpoints.load(2)


def test_a_folder_that_cannot_be_read_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = Checkpoints(tmp_path)
    path = save(checkpoints, 1)

    def refuse(_: Path) -> Any:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "iterdir", refuse)
        with pytest.raises(shoal.StateError, match="the checkpoints in .* cannot be read: Permission denied"):
            checkpoints.load("last")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", refuse)
        with pytest.raises(CheckpointDamaged, match=f"{path.name} cannot be read: state.json: Permission denied"):
            checkpoints.load(1)

"""Metrics: every line whole, no step twice, and nothing that goes wrong ends a training."""

from __future__ import annotations

import importlib.machinery
import json
import math
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.runs import MetricsLog, json_lines, metrics, read_metrics
from tests.marked import MarkedProgram
from tests.runs.disk import FailingDisk, Killed, files_limited_to


def lines_of(folder: Path) -> list[dict[str, Any]]:
    """Read as strictly as any other program would."""
    text = (folder / "metrics.jsonl").read_text()
    assert text.endswith("\n") or not text
    return [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]


def steps_of(folder: Path) -> list[int]:
    return [line["step"] for line in lines_of(folder)]


# -- lines ---------------------------------------------------------------------------------------------------------


def test_a_line_is_there_as_soon_as_it_is_written(tmp_path: Path) -> None:
    with MetricsLog(tmp_path, tensorboard=False) as log:
        log.write(1, {"a/b": 0.5, "n": 3})
        assert (tmp_path / "metrics.jsonl").read_text() == '{"step": 1, "a/b": 0.5, "n": 3}\n'
        log.write(2, {})
        assert read_metrics(tmp_path) == [{"step": 1, "a/b": 0.5, "n": 3}, {"step": 2}]
        assert read_metrics(tmp_path / "metrics.jsonl") == read_metrics(tmp_path)


def test_what_is_no_finite_number_is_null_and_its_key_is_kept(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    step: Any = np.int64(1)
    values = {"a": math.nan, "b": math.inf, "c": -np.inf, "d": np.float32(0.5), "e": torch.tensor(2.0)}
    with MetricsLog(tmp_path, tensorboard=False) as log:
        log.write(step, values)
    assert lines_of(tmp_path) == [{"step": 1, "a": None, "b": None, "c": None, "d": 0.5, "e": 2.0}]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"step": 1.0}, "named by a string other than \"step\", got 'step'"),
        ({3: 1.0}, 'named by a string other than "step", got 3'),
        ({"a": "high"}, "the metric 'a' must be a number, got 'high'"),
        ({"a": np.zeros(2)}, "the metric 'a' must be a number, got array"),
        ({"a": None}, "the metric 'a' must be a number, got None"),
    ],
    ids=["step", "key", "text", "array", "none"],
)
def test_wrong_values_are_refused_and_nothing_is_written(tmp_path: Path, values: Any, message: str) -> None:
    with MetricsLog(tmp_path, tensorboard=False) as log, pytest.raises(shoal.ConfigurationError, match=message):
        log.write(1, values)
    assert not (tmp_path / "metrics.jsonl").exists()


def test_a_wrong_option_is_refused(tmp_path: Path) -> None:
    with pytest.raises(shoal.ConfigurationError, match="tensorboard must be True, False or \"auto\", got 'yes'"):
        MetricsLog(tmp_path, tensorboard="yes")  # type: ignore[arg-type]


# -- reading -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "torn", [b'{"step": 3, "a"', b"{", b'{"step": 3}', b'{"a": "\xc3'], ids=["half", "one", "whole", "character"]
)
def test_a_torn_last_line_is_left_out_and_replaced_by_the_next(tmp_path: Path, torn: bytes) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(b'{"step": 1}\n{"step": 2}\n' + torn)
    assert [line["step"] for line in read_metrics(tmp_path)] == [1, 2]
    with MetricsLog(tmp_path, tensorboard=False) as log:
        log.write(3, {"a": 1.0})
    assert lines_of(tmp_path) == [{"step": 1}, {"step": 2}, {"step": 3, "a": 1.0}]


def test_a_torn_line_longer_than_a_block_is_removed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "BLOCK", 7)
    for start in (b"", b'{"step": 1}\n'):
        (tmp_path / "metrics.jsonl").write_bytes(start + b'{"step": 2, "a": "' + b"x" * 100)
        MetricsLog(tmp_path, tensorboard=False).write(2, {})
        assert steps_of(tmp_path) == ([1, 2] if start else [2])


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"st\n{"step": 3}\n')
    with pytest.raises(shoal.StateError, match="line 2 of .*metrics.jsonl is no JSON object"):
        read_metrics(tmp_path)
    (tmp_path / "metrics.jsonl").write_text("[1]\n")
    with pytest.raises(shoal.StateError, match="line 1 of"):
        read_metrics(tmp_path)


def test_metrics_that_are_not_there_are_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(shoal.StateError, match="there are no metrics at .*metrics.jsonl: nothing was written there"):
        read_metrics(tmp_path)
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(shoal.StateError, match="metrics.jsonl cannot be read: Is a directory"):
        read_metrics(tmp_path)


# -- resuming ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "left"), [(0, []), (20, [10, 20]), (25, [10, 20]), (40, [10, 20, 30, 40]), (99, [10, 20, 30, 40])]
)
def test_after_a_resume_no_step_is_there_twice(tmp_path: Path, step: int, left: list[int]) -> None:
    with MetricsLog(tmp_path, tensorboard=False) as log:
        for number in (10, 20, 30, 40):
            log.write(number, {"a": 1.0})
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"step": 50')
    with MetricsLog(tmp_path, tensorboard=False) as log:
        log.resume_at(step)
        assert [line["step"] for line in read_metrics(tmp_path)] == left
        log.write(step + 1, {"a": 2.0})
    assert steps_of(tmp_path) == [*left, step + 1]


def test_a_resume_before_anything_was_written_is_fine(tmp_path: Path) -> None:
    MetricsLog(tmp_path, tensorboard=False).resume_at(5)
    assert list(tmp_path.iterdir()) == []


def test_a_resume_is_killed_before_or_after_but_not_in_between(tmp_path: Path) -> None:
    outcomes = set()
    for fail_at in range(1, 10):
        (tmp_path / "metrics.jsonl").write_text("".join(f'{{"step": {step}}}\n' for step in range(10)))
        with FailingDisk(fail_at, killed=True).installed() as disk:
            try:
                MetricsLog(tmp_path, tensorboard=False).resume_at(4)
            except Killed:
                pass
        outcomes.add(tuple(steps_of(tmp_path)))
        if not disk.has_failed:
            break
    assert outcomes == {tuple(range(10)), tuple(range(5))}


def test_a_resume_that_the_disk_refuses_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2}\n')
    log = MetricsLog(tmp_path, tensorboard=False)
    with (
        FailingDisk(1).installed(),
        pytest.warns(RuntimeWarning, match="shortened to step 1: No space left.*in it twice"),
    ):
        log.resume_at(1)


def test_lines_that_wait_are_forgotten_by_a_resume_before_them(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, tensorboard=False)
    with FailingDisk(1).installed(), pytest.warns(RuntimeWarning):
        log.write(5, {})
    with files_limited_to(0):
        log.write(9, {})
    log.resume_at(5)
    log.write(6, {})
    assert steps_of(tmp_path) == [5, 6]


# -- a disk that is full -------------------------------------------------------------------------------------------


def test_a_full_disk_is_reported_once_and_its_lines_are_written_when_there_is_room(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, tensorboard=False)
    log.write(1, {"a": 1.0})
    size = (tmp_path / "metrics.jsonl").stat().st_size
    with files_limited_to(size + 10):
        with pytest.warns(RuntimeWarning) as told:
            log.write(2, {"a": 1.0})
        log.write(3, {"a": 1.0})  # quietly: a second warning would be an error here
        assert steps_of(tmp_path) == [1], "no half line"
    assert len(told) == 1
    message = str(told[0].message)
    assert "cannot be written to" in message
    assert "File too large. Training goes on." in message
    assert "make room on the disk" in message
    assert told[0].filename == __file__
    log.write(4, {"a": 1.0})
    assert steps_of(tmp_path) == [1, 2, 3, 4]
    with files_limited_to(0), pytest.warns(RuntimeWarning, match="cannot be written to"):
        log.write(5, {})  # another time that it is full is reported again
    log.close()
    assert steps_of(tmp_path) == [1, 2, 3, 4, 5]


def test_a_device_that_is_always_full_costs_no_more_than_a_warning(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    log = MetricsLog(tmp_path, tensorboard=False)
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        log.write(7, {})
    log.write(8, {})
    lost = "2 lines of metrics, from step 7 on, are lost: .* could not be written"
    with pytest.warns(RuntimeWarning, match=lost) as told:
        log.close()
    assert told[0].filename == __file__
    log.close()


def test_memory_for_lines_that_wait_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MOST_WAITING_LINES", 3)
    log = MetricsLog(tmp_path, tensorboard=False)
    with files_limited_to(0):
        with pytest.warns(RuntimeWarning, match="The last 3 lines are kept in memory"):
            log.write(0, {})
        for step in range(1, 10):
            log.write(step, {})
    log.write(10, {})
    assert steps_of(tmp_path) == [8, 9, 10]


def test_many_lines_that_wait_are_written_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "LINES_AT_ONCE", 4)
    log = MetricsLog(tmp_path, tensorboard=False)
    with files_limited_to(5):
        with pytest.warns(RuntimeWarning, match="cannot be written"):
            log.write(0, {})
        for step in range(1, 10):
            log.write(step, {})
    with files_limited_to(len('{"step": 0}\n') * 6):
        log.write(10, {})
        assert steps_of(tmp_path) == [0, 1, 2, 3], "whole batches, as long as there is room"
    log.write(11, {})
    assert steps_of(tmp_path) == list(range(12))


def test_a_folder_that_is_gone_costs_no_more_than_a_warning(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "gone", tensorboard=False)
    with pytest.warns(RuntimeWarning, match="No such file or directory"):
        log.write(1, {})
    (tmp_path / "gone").mkdir()
    log.close()
    assert steps_of(tmp_path / "gone") == [1]


@pytest.mark.parametrize("killed", [False, True], ids=["refused", "killed"])
def test_whenever_writing_fails_the_next_writer_leaves_a_valid_file(tmp_path: Path, killed: bool) -> None:
    for fail_at in range(1, 10):
        file = tmp_path / str(fail_at) / "metrics.jsonl"
        file.parent.mkdir()
        file.write_text('{"step": 1}\n{"ste')
        with FailingDisk(fail_at, killed).installed() as disk, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                MetricsLog(file.parent, tensorboard=False).write(2, {"a": 1.0})
            except Killed:
                pass
        MetricsLog(file.parent, tensorboard=False).write(3, {})
        assert steps_of(file.parent) in ([1, 3], [1, 2, 3]), disk.operations
        if not disk.has_failed:
            break
    assert fail_at > 3


def test_a_killed_writer_leaves_every_line_that_it_has_reported(tmp_path: Path) -> None:
    code = f"""
        from shoal.runs import MetricsLog
        log = MetricsLog({str(tmp_path)!r}, tensorboard=False)
        for step in range(10**9):
            log.write(step, {{"a": 1.0, "b": 2.0}})
            print(step, flush=True)
    """
    with MarkedProgram(code) as program:
        assert program.process.stdout is not None
        for _ in range(200):
            program.process.stdout.readline()
        program.process.kill()
        reported = [int(line) for line in program.end()[1].splitlines() if line]
    steps = [line["step"] for line in read_metrics(tmp_path)]
    assert steps == list(range(len(steps)))
    assert len(steps) >= max(reported, default=199)


# -- other writers -------------------------------------------------------------------------------------------------


class Recorder:
    """Stands for TensorBoard's writer and for a run of W&B."""

    def __init__(self, **keywords: Any) -> None:
        self.keywords = keywords
        self.written: list[tuple[int, dict[str, float]]] = []
        self.is_closed = False
        self.fails = False

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.log({name: value}, step)

    def log(self, values: Mapping[str, float], step: int) -> None:
        if self.fails:
            raise ConnectionError("no network")
        self.written.append((step, dict(values)))

    def close(self) -> None:
        self.is_closed = True
        if self.fails:
            raise ConnectionError("no network")

    finish = close


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Recorder]:
    """What the fake packages have made."""
    made: list[Recorder] = []

    def make(**keywords: Any) -> Recorder:
        made.append(Recorder(**keywords))
        return made[-1]

    def pretend(name: str, **contents: Any) -> None:
        module = ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        for key, value in contents.items():
            setattr(module, key, value)
        monkeypatch.setitem(sys.modules, name, module)

    pretend("tensorboard")
    pretend("torch.utils.tensorboard", SummaryWriter=make)
    pretend("wandb", init=make)
    return made


@pytest.mark.parametrize("wanted", [True, "auto"])
def test_tensorboard_gets_every_number(tmp_path: Path, made: list[Recorder], wanted: Any) -> None:
    with MetricsLog(tmp_path, tensorboard=wanted) as log:
        log.write(1, {"a": 0.5, "b": math.inf})
    assert made[0].keywords["log_dir"] == str(tmp_path)
    assert made[0].written == [(1, {"a": 0.5}), (1, {"b": math.inf})]
    assert made[0].is_closed


def test_tensorboard_is_told_where_a_run_was_resumed(tmp_path: Path, made: list[Recorder]) -> None:
    with MetricsLog(tmp_path) as log:
        log.write(1, {"a": 0.5})
        log.write(2, {"a": 0.5})
        log.resume_at(1)
        assert made[0].is_closed
        log.write(2, {"a": 0.6})
    assert [one.keywords["purge_step"] for one in made] == [None, 2]
    assert steps_of(tmp_path) == [1, 2]


def test_wandb_resumes_its_own_run(tmp_path: Path, made: list[Recorder]) -> None:
    for step in (1, 2):
        with MetricsLog(tmp_path, tensorboard=False, wandb=True) as log:
            log.write(step, {"a": 0.5})
    first, second = made
    assert first.keywords["id"] == second.keywords["id"]
    assert first.keywords["name"] == tmp_path.name
    assert first.written == [(1, {"a": 0.5})]
    assert second.is_closed


@pytest.mark.parametrize("name", ["TensorBoard", "Weights & Biases"])
def test_a_writer_that_fails_is_reported_once_and_left_alone(tmp_path: Path, made: list[Recorder], name: str) -> None:
    log = MetricsLog(tmp_path, tensorboard=name == "TensorBoard", wandb=name != "TensorBoard")
    log.write(1, {"a": 0.5})
    made[0].fails = True
    with pytest.warns(
        RuntimeWarning,
        match=f"nothing more is written to {name}: ConnectionError: no network. Training goes on, and metrics still go to",
    ):
        log.write(2, {"a": 0.5})
    assert made[0].is_closed
    log.write(3, {"a": 0.5})
    log.close()
    assert steps_of(tmp_path) == [1, 2, 3]
    assert len(made[0].written) == 1


def test_a_writer_that_fails_at_the_end_is_reported(tmp_path: Path, made: list[Recorder]) -> None:
    log = MetricsLog(tmp_path, tensorboard=True)
    log.write(1, {"a": 0.5})
    made[0].fails = True
    with pytest.warns(RuntimeWarning, match="nothing more is written to TensorBoard"):
        log.close()


@pytest.mark.parametrize(
    ("package", "options", "extra"),
    [
        ("tensorboard", {"tensorboard": True}, "tensorboard"),
        ("torch", {"tensorboard": True}, "train"),
        ("wandb", {"tensorboard": False, "wandb": True}, "wandb"),
    ],
    ids=["tensorboard", "torch", "wandb"],
)
@pytest.mark.usefixtures("made")
def test_a_missing_package_is_reported_once_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, options: dict[str, bool], extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    log = MetricsLog(tmp_path, **options)
    with pytest.warns(RuntimeWarning, match=rf"{package} is not installed: pip install 'shoal\[{extra}\]'"):
        log.write(1, {"a": 0.5})
    log.write(2, {"a": 0.5})
    assert steps_of(tmp_path) == [1, 2]


def test_auto_says_nothing_if_tensorboard_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with MetricsLog(tmp_path) as log:
        log.write(1, {"a": 0.5})
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]

"""What is written down can be read again, and played again."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import ConfigurationError, StateError
from shoal.llm import Status, TrajectoryCollector, TrajectoryRecord, read_records, verify
from shoal.llm.record_files import append_records, write_parquet
from shoal.llm.records import TurnRecord, plain_json
from tests.llm.rollouts.worlds import RandomPolicy, managed

SETTINGS = {"env": {"max_steps": 6}, "agent_proxy": {"context_window_mode": "full"}}


def played(env_type: str = "sokoban", config: dict[str, Any] | None = None, **more: Any) -> list[TrajectoryRecord]:
    moves = ("more", "less") if env_type == "counter" else ("up", "down", "left", "right")
    with managed(env_type, config=config, **more) as envs, RandomPolicy(moves) as policy:
        return TrajectoryCollector(SETTINGS).multi_turn_loop(None, policy, envs).records


@pytest.mark.parametrize("name", ["some.jsonl", "some.parquet"])
def test_a_file_gives_back_what_was_written(tmp_path: Path, name: str) -> None:
    records = [*played(), *played("frozen_lake", {"size": 5}, noise="independent")]
    (append_records if name.endswith("jsonl") else write_parquet)(tmp_path / name, records)
    assert list(read_records(tmp_path / name)) == records
    assert not list(tmp_path.glob(".*"))


def test_lines_are_added_and_a_broken_one_is_named(tmp_path: Path) -> None:
    path, records = tmp_path / "some.jsonl", played()
    append_records(path, records[:2])
    append_records(path, records[2:])
    append_records(path, [])
    with open(path, "ab") as file:
        file.write(b'{"half": ')  # a writer was killed
    assert len(list(read_records(path))) == len(records)
    append_records(path, records[:1])
    assert len(list(read_records(path))) == len(records) + 1
    path.write_text("nonsense\n")
    with pytest.raises(StateError, match="line 1 of .* is no trajectory"):
        list(read_records(path))
    path.write_text('{"version": 99}\n')
    with pytest.raises(ConfigurationError, match="written in version 99"):
        list(read_records(path))


def test_parquet_has_columns_for_other_tools(tmp_path: Path) -> None:
    import pyarrow.parquet

    records = played()
    write_parquet(tmp_path / "some.parquet", records)
    rows = pyarrow.parquet.read_table(tmp_path / "some.parquet").to_pylist()
    assert [row["episode_return"] for row in rows] == [one.episode_return for one in records]
    assert rows[0]["task"] == "sokoban/5"
    assert rows[0]["num_turns"] == len(records[0].turns)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(info=st.dictionaries(st.text(max_size=3), anything, max_size=3), text=st.text())
def test_any_info_and_any_text_can_be_written(info: dict[str, Any], text: str) -> None:
    turn = TurnRecord("s", [{"role": "user", "content": text}], text, info=plain_json(info))
    record = TrajectoryRecord("e", "t", {}, 1, None, "train", 0, 0, turns=[turn])
    assert TrajectoryRecord.from_json(json.loads(json.dumps(record.to_json()))) == record


@pytest.mark.parametrize(
    ("env_type", "config"),
    [
        ("sokoban", None),
        ("sokoban", {"num_boxes": 1, "search_depth": 10, "observation_format": "coord", "dim_room": [7, 6]}),
        ("sokoban", {"num_boxes": 1, "search_depth": 10, "render_mode": "tiny_rgb_array"}),
        ("frozen_lake", {}),
        ("bandit", {}),
        ("countdown", {}),
        ("counter", {}),
    ],
)
@pytest.mark.parametrize("noise", ["common", "antithetic"])
def test_a_trajectory_can_be_played_again(env_type: str, config: dict[str, Any] | None, noise: str) -> None:
    records = played(env_type, config, noise=noise)
    from shoal.llm import REGISTERED_ENVS
    from tests.llm.rollouts.worlds import CounterEnv

    REGISTERED_ENVS["counter"] = CounterEnv
    try:
        for record in records:
            again = TrajectoryRecord.from_json(json.loads(json.dumps(record.to_json())))
            assert verify(again), verify(again).difference
    finally:
        del REGISTERED_ENVS["counter"]


def changed(record: TrajectoryRecord, turn: int, **what: Any) -> TrajectoryRecord:
    turns = list(record.turns)
    turns[turn] = dataclasses.replace(turns[turn], **what)
    return dataclasses.replace(record, turns=turns)


def test_the_first_difference_is_named() -> None:
    record = next(one for one in played() if sum(bool(turn.actions) for turn in one.turns) >= 3)
    acting = [number for number, turn in enumerate(record.turns) if turn.actions][1]
    info = {**record.turns[acting].info, "success": True}
    for wrong, said in (
        (dataclasses.replace(record, seed=99), "the episode begins: state is"),
        (changed(record, acting, reward=7.0), f"turn {acting}: reward is -0.1, and was 7.0"),
        (changed(record, acting, info=info), f"turn {acting}: info['success'] is False, and was True"),
        (changed(record, acting, state="?"), f"turn {acting} begins: state is"),
        (dataclasses.replace(record, final_state="?"), "the end: state is"),
        (dataclasses.replace(record, terminated=True), "the end: (terminated, truncated) is (False, False)"),
        (dataclasses.replace(record, config={"num_boxes": 1, "dim_room": [9, 9]}), "the episode begins: state is"),
    ):
        result = verify(wrong)
        assert not result.is_same
        assert result.difference.startswith(said)


def test_a_world_that_does_not_repeat_itself_is_found() -> None:
    from shoal.llm import REGISTERED_ENVS
    from tests.llm.rollouts.worlds import CounterEnv

    [record] = played("counter", {"drifts": True}, groups=1, size=1)
    REGISTERED_ENVS["counter"] = CounterEnv
    try:
        assert verify(record).difference.startswith("the episode begins: state is 'task 5: 0 of 0")
    finally:
        del REGISTERED_ENVS["counter"]


def test_what_failed_is_compared_up_to_there() -> None:
    from shoal.llm import REGISTERED_ENVS
    from tests.llm.rollouts.worlds import CounterEnv

    [record] = played("counter", {"raises_at": 2}, groups=1, size=1)
    assert record.status is Status.ENV_ERROR
    REGISTERED_ENVS["counter"] = CounterEnv
    try:
        assert verify(record)
        assert verify(dataclasses.replace(record, seed=6)).difference.startswith("the episode begins")
    finally:
        del REGISTERED_ENVS["counter"]

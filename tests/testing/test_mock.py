"""``MockParallelEnv``: does what its script says, remembers what it was given, refuses what the real one refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

import shoal
from shoal.testing import Called, MockParallelEnv, Request, Reset, Scripted
from shoal.testing.mock import WATCHED

BOX, MOVES = spaces.Box(-9, 9, (2,)), spaces.Discrete(4)


@pytest.fixture
def mock() -> Iterator[MockParallelEnv]:
    """Two environments that return zeros for ever."""
    with MockParallelEnv(BOX, MOVES, 2) as envs:
        yield envs


def test_a_list_is_what_every_environment_returns_step_after_step() -> None:
    script = [Scripted([1, 2], reward=0.5, info={"k": 3}), Scripted(terminated=True), Scripted(truncated=True)]
    with MockParallelEnv(BOX, MOVES, 2, script=script, autoreset_mode=AutoresetMode.SAME_STEP) as envs:
        envs.reset()
        observation, reward, terminated, truncated, info = envs.step([0, 1])
        assert observation.tolist() == [[1, 2], [1, 2]]
        assert observation.dtype == np.float32
        assert reward.tolist() == [0.5, 0.5]
        assert info["k"].tolist() == [3, 3]
        assert not terminated.any()
        assert envs.step([0, 0])[2].all()
        assert envs.step([0, 0])[3].all()


def test_a_list_in_the_list_has_one_for_each_environment() -> None:
    with MockParallelEnv(BOX, MOVES, 2, script=[[Scripted(reward=1), Scripted(reward=2)]]) as envs:
        envs.reset()
        assert envs.step([0, 0])[1].tolist() == [1, 2]


def test_a_function_is_told_who_asks_and_what_for() -> None:
    asked: list[Request] = []

    def script(request: Request) -> Scripted:
        asked.append(request)
        return Scripted(reward=request.env_index + 10 * request.step, terminated=request.step == 2)

    with MockParallelEnv(BOX, MOVES, 2, script=script, starts=script) as envs:
        envs.reset(seed=5, options={"level": 1})
        assert envs.step([3, 2])[1].tolist() == [10, 11]
        envs.step([0, 0])
        envs.step([1, 1])
    assert asked[:2] == [Request(0, 0, 0, None, 5, {"level": 1}), Request(1, 0, 0, None, 6, {"level": 1})]
    assert asked[2:4] == [Request(0, 0, 1, 3), Request(1, 0, 1, 2)]
    assert asked[6] == Request(0, 1, 0)


def test_starts_are_what_resets_return() -> None:
    with MockParallelEnv(BOX, MOVES, 2, starts=[Scripted([1, 1], info={"level": 7})]) as envs:
        observation, info = envs.reset()
        assert observation.tolist() == [[1, 1], [1, 1]]
        assert info["level"].tolist() == [7, 7]


def test_an_exception_in_the_script_arrives_as_from_an_environment() -> None:
    with MockParallelEnv(BOX, MOVES, 2, script=[[Scripted(), KeyError("door")], Scripted()]) as envs:
        envs.reset(seed=1)
        with pytest.raises(KeyError) as caught:
            envs.step([0, 3])
        assert isinstance(caught.value, shoal.EnvError)
        assert (caught.value.env_index, caught.value.seed, caught.value.step) == (1, 2, 1)
        with pytest.raises(shoal.ResetNeeded):
            envs.step([0, 0])
        envs.reset()
        envs.step([0, 0])


def test_a_script_that_has_ended_says_so() -> None:
    with MockParallelEnv(BOX, MOVES, 1, script=[Scripted()]) as envs:
        envs.reset()
        envs.step([0])
        with pytest.raises(
            IndexError, match="the list script has 1 elements, and environment 0 has asked for number 2"
        ):
            envs.step([0])


def test_what_was_sent_can_be_read_afterwards() -> None:
    script = [Scripted(), Scripted(terminated=True), Scripted()]
    with MockParallelEnv(BOX, MOVES, 2, script=script) as envs:
        batch = np.array([1, 2])
        envs.reset(seed=[4, 5])
        envs.step(batch)
        batch[:] = 0
        envs.step([3, 3])
        envs.step([0, 1])
        envs.step(actions=[2, 2])
        assert envs.call("render") == (None, None)
    assert envs.actions == [[1, 3, 2], [2, 3, 2]]  # the third batch was ignored, as by any autoreset
    assert envs.resets == [Reset(0, 4, None), Reset(1, 5, None), Reset(0, None, None), Reset(1, None, None)]
    assert [call.name for call in envs.calls] == ["reset", "step", "step", "step", "step", "call", "close"]
    assert envs.calls[0] == Called("reset", (), {"seed": [4, 5]})
    assert envs.calls[1].args[0].tolist() == [1, 2]
    assert envs.calls[4] == Called("step", (), {"actions": [2, 2]})


def test_arrivals_say_who_is_handed_over() -> None:
    with MockParallelEnv(BOX, MOVES, 3, arrivals=[[2], [0, 1]]) as envs:
        envs.reset()
        envs.send([1, 2, 3])
        assert envs.recv().env_ids.tolist() == [2]
        envs.send_reset([2], seed=9)
        assert envs.recv(min_envs=1).env_ids.tolist() == [0, 1]
        assert envs.recv().env_ids.tolist() == [2]
        assert envs.resets[-1] == Reset(2, 11, None)


def test_asyncio_programs_can_receive_too(mock: MockParallelEnv) -> None:
    mock.reset()
    mock.send([1, 1])
    assert asyncio.run(mock.arecv(min_envs=2)).env_ids.tolist() == [0, 1]
    assert mock.calls[-1] == Called("arecv", (), {"min_envs": 2})


def test_attributes_are_those_of_the_environments() -> None:
    attributes: dict[str, Any] = {"gravity": [9.8, 1.6], "name": "moon", "double": lambda number: 2 * number}
    with MockParallelEnv(BOX, MOVES, 2, attributes=attributes) as envs:
        assert envs.get_attr("gravity") == (9.8, 1.6)
        assert envs.get_attr("name") == ("moon", "moon")
        assert envs.call("double", 4) == (8, 8)
        envs.set_attr("name", "mars")
        assert envs.get_attr("name") == ("mars", "mars")
        assert [call.name for call in envs.calls] == ["get_attr", "get_attr", "call", "set_attr", "get_attr"]


def test_a_method_can_be_told_to_raise_once(mock: MockParallelEnv) -> None:
    mock.reset()
    mock.raise_next("step_wait", shoal.WaitTimeout("late"))
    mock.step_async([1, 2])
    with pytest.raises(TimeoutError, match="late"):
        mock.step_wait(timeout=1.0)
    assert mock.step_wait()[1].tolist() == [0, 0]
    mock.raise_next("reset", shoal.WorkerDied("first"))
    mock.raise_next("reset", shoal.WorkerDied("second"))
    for words in ("first", "second"):
        with pytest.raises(shoal.WorkerDied, match=words):
            mock.reset()
    mock.reset()
    with pytest.raises(shoal.ConfigurationError, match="'stop' cannot be told to raise; these can: arecv, call,"):
        mock.raise_next("stop", ValueError())


def test_misuse_is_refused_as_by_the_real_one(mock: MockParallelEnv) -> None:
    with pytest.raises(shoal.ResetNeeded):
        mock.step([0, 0])
    mock.reset()
    with pytest.raises(shoal.InvalidAction):
        mock.step([0, 9])
    with pytest.raises(shoal.NothingPending):
        mock.step_wait()
    with pytest.raises(shoal.NothingPending):
        mock.recv()
    mock.step_async([0, 0])
    with pytest.raises(shoal.AlreadyPending):
        mock.reset()
    mock.step_wait()
    mock.send([0, 0])
    with pytest.raises(shoal.AlreadyPending):
        mock.step([0, 0])
    assert mock.recv(min_envs=2).env_ids.tolist() == [0, 1]
    mock.close()
    with pytest.raises(shoal.Closed):
        mock.reset()
    assert mock.actions == [[0, 0], [0, 0]]


def test_further_arguments_are_those_of_the_real_one() -> None:
    with MockParallelEnv(BOX, MOVES, 4, group_size=2, tasks=[100, 200]) as envs:
        envs.reset()
        assert [reset.seed for reset in envs.resets] == [100, 100, 200, 200]


def test_it_is_the_real_one(mock: MockParallelEnv) -> None:
    assert isinstance(mock, shoal.ParallelEnv)
    assert all(callable(getattr(shoal.ParallelEnv, name)) for name in WATCHED)
    assert mock.step.__doc__ == shoal.ParallelEnv.step.__doc__


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"num_envs": 0}, "num_envs must be a whole number of at least 1, got 0"),
        ({"script": "abc"}, "script must be a function or a list, got 'abc'"),
        ({"script": [1.0]}, r"script\[0\] must give a Scripted or an exception, got 1.0"),
        ({"starts": [[Scripted()]]}, r"starts\[0\] has 1 elements for 2 environments"),
        ({"script": [[Scripted(), "x"]]}, r"script\[0\]\[1\] must give a Scripted or an exception, got 'x'"),
    ],
    ids=lambda value: "" if isinstance(value, str) else "-".join(value),
)
def test_scripts_that_cannot_work_are_refused(keywords: dict[str, Any], words: str) -> None:
    with pytest.raises(shoal.ConfigurationError, match=words):
        MockParallelEnv(BOX, MOVES, **{"num_envs": 2, **keywords})


def test_a_function_that_gives_something_else_is_refused_when_it_does() -> None:
    with MockParallelEnv(BOX, MOVES, 1, script=lambda request: 5) as envs:  # type: ignore[arg-type]
        envs.reset()
        with pytest.raises(TypeError, match="script must give a Scripted or an exception, got 5"):
            envs.step([0])

"""Different worlds in one pool: lists in, lists out, and turns of several actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import shoal
from shoal import EnvList
from shoal.vector.tasks import Task
from tests.comparing import difference
from tests.conftest import WAYS_TO_START
from tests.envs import CountingEnv, GrumpyEnv, TextEnv, WalkingEnv, counting

Make = Callable[..., EnvList]


@pytest.fixture(
    params=[
        ("serial", None),
        ("threads", None),
        *(pytest.param(way, marks=() if way[1] == "fork" else pytest.mark.soak) for way in WAYS_TO_START),
    ],
    ids=lambda way: "-".join(filter(None, way)),
)
def make_list(request: pytest.FixtureRequest) -> Iterator[Make]:
    """A factory of lists of environments on every backend, closed at the end. Workers are forked, but in ``make soak``."""
    name, method = request.param
    yield from _maker({"backend": name, "start_method": method})


@pytest.fixture
def make_list_any_way(way: dict[str, Any]) -> Iterator[Make]:
    """A factory of lists of environments on every backend and start method, closed at the end."""
    yield from _maker(way)


def _maker(way: dict[str, Any]) -> Iterator[Make]:
    made: list[EnvList] = []

    def make(env_fns: Any, **keywords: Any) -> EnvList:
        made.append(EnvList(env_fns, **{**way, "num_workers": 2, **keywords}))
        return made[-1]

    yield make
    for envs in made:
        envs.close()


def test_worlds_with_nothing_in_common_share_a_pool(make_list_any_way: Make) -> None:
    envs = make_list_any_way([WalkingEnv, TextEnv, counting(2)])
    lone = [WalkingEnv(), TextEnv(), CountingEnv(2)]
    assert [type(space).__name__ for space in envs.observation_spaces] == ["Box", "Text", "Box"]
    assert envs.action_spaces == [env.action_space for env in lone]
    observations, infos = envs.reset(seed=3)
    for row, env in enumerate(lone):
        assert not difference((observations[row], infos[row]), env.reset(seed=3 + row))
    actions: list[Any] = [2, lone[1].action_space.sample(), 1]
    results = envs.step(actions)
    for row, env in enumerate(lone):
        observation, reward, terminated, truncated, info = env.step(actions[row])
        assert not difference(results.observations[row], observation)
        assert (results.rewards[row], results.terminated[row], results.truncated[row]) == (
            reward,
            terminated,
            truncated,
        )
        assert results.infos[row] == info
    assert isinstance(results.rewards, list)


def test_some_are_stepped_while_others_stay(make_list: Make) -> None:
    envs = make_list([counting(5)] * 4)
    envs.reset(seed=0)
    results = envs.step([3, 1], env_ids=[2, 0])
    assert results.rewards == [3.0, 1.0]
    assert envs.get_attr("count") == (1, 0, 1, 0)
    observations, infos = envs.reset(env_ids=[0], options=[{"start": 4}])
    assert (len(observations), infos) == (1, [{"count": 4, "resets": 2}])
    assert envs.get_attr("count") == (4, 0, 1, 0)


def test_a_turn_is_several_actions_in_one_message(make_list: Make) -> None:
    envs = make_list([counting(3)] * 2, turn=shoal.run_actions)
    envs.reset(seed=0)
    observations, rewards, terminated, _, infos = envs.step([[1, 2], [4, 4, 1, 1]])
    assert rewards == [3.0, 9.0]
    assert terminated == [False, True], "what is left when the episode ends is not done"
    assert observations[0].tolist() == [2.0, 1.0]
    assert [one["action"] for one in infos[1]["turn"]] == [4, 4, 1]
    assert infos[0]["turn"][1]["reward"] == 2.0
    assert infos[0]["count"] == 2


def test_a_turn_is_whatever_the_caller_makes_of_it(make_list_any_way: Make) -> None:
    def twice(env: Any, word: str) -> Any:
        env.step(0)
        observation, *rest, info = env.step(1)
        return observation, *rest, {**info, "word": word.upper()}

    envs = make_list_any_way([counting(9)] * 2, turn=twice)
    envs.reset(seed=0)
    results = envs.step(["up", "down"])
    assert [info["word"] for info in results.infos] == ["UP", "DOWN"]
    assert [info["count"] for info in results.infos] == [2, 2]


def test_whoever_is_back_first_comes_as_lists_too(make_list: Make) -> None:
    envs = make_list([WalkingEnv, TextEnv, counting(5)])
    envs.send_reset([2, 1], seed=[5, 6])
    batch = envs.recv(min_envs=2, timeout=30)
    assert sorted(batch.env_ids) == [1, 2]
    assert isinstance(batch.observation, list)
    envs.send([3], [2])
    batch = envs.recv(timeout=30)
    assert (batch.env_ids.tolist(), batch.reward, batch.info) == ([2], [3.0], [{"count": 1, "resets": 1}])


def test_groups_and_tasks_work_here_too(make_list: Make) -> None:
    envs = make_list([WalkingEnv] * 4, group_size=2, tasks=lambda group, episode: Task(seed=group, id=group))
    observations, infos = envs.reset()
    assert [info["task_id"] for info in infos] == [0, 0, 1, 1]
    assert not difference(observations[0], observations[1])
    assert difference(observations[0], observations[2])


def test_episodes_end_and_wait_for_a_reset_unless_told_otherwise(make_list: Make) -> None:
    envs = make_list([counting(1)] * 2)
    envs.reset(seed=0)
    assert envs.step([0, 0]).terminated == [True, True]
    with pytest.raises(shoal.ResetNeeded, match=r"environments \[1\] must be reset before they are stepped"):
        envs.step([0], env_ids=[1])
    again = make_list([counting(1)] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    again.reset(seed=0)
    results = again.step([0, 0])
    assert results.infos[0]["final_obs"].tolist() == [1.0, 1.0]
    assert results.observations[0].tolist() == [0.0, 2.0]


def test_an_environment_that_raises_is_named_and_the_others_go_on(make_list: Make) -> None:
    envs = make_list([GrumpyEnv, counting(9)])
    envs.reset(seed=0)
    envs.step([0, 0])
    with pytest.raises(ValueError) as caught:
        envs.step([0, 0])
    assert isinstance(caught.value, shoal.EnvError)
    assert caught.value.env_index == 0
    with pytest.raises(shoal.ResetNeeded, match=r"environments \[0\] must be reset"):
        envs.step([0, 0])
    assert envs.step([0], env_ids=[1]).infos[0]["count"] == 3


@pytest.mark.parametrize(
    ("actions", "error", "message"),
    [
        ("ab", shoal.InvalidActionType, "actions must be a sequence with one for each of the 2 environments, got 'ab'"),
        (3, shoal.InvalidActionType, "actions must be a sequence"),
        ([1], shoal.InvalidAction, "1 actions were given for 2 environments. Nothing was sent"),
    ],
)
def test_actions_that_do_not_fit_are_refused(actions: Any, error: type[Exception], message: str) -> None:
    with EnvList([counting()] * 2, backend="serial") as envs:
        envs.reset()
        with pytest.raises(error, match=message):
            envs.step(actions)
        assert envs.step([0, 0]).rewards == [0.0, 0.0]


@pytest.mark.parametrize("turn", ["up", [], 3])
def test_a_turn_without_actions_is_refused(turn: Any) -> None:
    with EnvList([counting()], backend="serial", turn=shoal.run_actions) as envs:
        envs.reset()
        with pytest.raises(ValueError, match="a turn is a sequence of at least one action, got"):
            envs.step([turn])


def test_a_list_is_closed_once_and_then_refuses(way: dict[str, Any]) -> None:
    envs = EnvList([counting()] * 2, **way)
    assert len(envs) == 2
    envs.reset()
    envs.close()
    envs.close()
    with pytest.raises(shoal.Closed, match="Trying to operate on `EnvList`, after a call to `close"):
        envs.step([0, 0])


class SpoilingEnv(TextEnv):
    """Changes the action it is given."""

    def step(self, action: Any) -> Any:
        action.append("spoilt")
        return super().step("a")


def test_the_callers_actions_stay_as_they_are(make_list: Make) -> None:
    envs = make_list([SpoilingEnv] * 2)
    envs.reset(seed=0)
    actions: list[list[str]] = [["one"], ["two"]]
    envs.step(actions)
    assert actions == [["one"], ["two"]]


def test_large_arrays_pass_unchanged(make_list: Make) -> None:
    envs = make_list([WalkingEnv] * 2, turn=_echo)
    envs.reset(seed=0)
    picture = np.arange(300_000, dtype=np.uint16).reshape(3, 100_000)
    results = envs.step([picture, picture + 1])
    assert not difference(results.infos[1]["given"], picture + 1)


def _echo(env: Any, action: Any) -> Any:
    observation, *rest, _ = env.step(0)
    return observation, *rest, {"given": action}


def test_registered_environments_are_named_by_id(make_list: Make) -> None:
    lake = ("FrozenLake-v1", {"is_slippery": False})
    envs = make_list(
        ["CartPole-v1", lake, ["FrozenLake-v1", {"map_name": "8x8"}], gymnasium.spec("CartPole-v1"), counting(2)]
    )
    assert [type(space).__name__ for space in envs.action_spaces] == ["Discrete"] * 5
    assert [getattr(space, "n", None) for space in envs.observation_spaces] == [None, 16, 64, None, None]
    observations, _ = envs.reset(seed=3)
    with gymnasium.make("CartPole-v1") as alone:
        assert not difference(observations[0], alone.reset(seed=3)[0])
    assert envs.step([1, 2, 2, 0, 1]).observations[1] == 1


def test_what_names_no_environment_is_refused() -> None:
    with pytest.raises(gymnasium.error.NameNotFound, match="Did you mean: `CartPole`"):
        EnvList(["CartPol-v1"], backend="serial")
    with pytest.raises(
        shoal.ConfigurationError, match="env_fns must be a list, with one for each environment, got 'CartPole-v1'"
    ):
        EnvList("CartPole-v1", backend="serial")
    bad: Any = [("CartPole-v1", 5)]
    with pytest.raises(shoal.ConfigurationError, match=r"env_fns\[0\] is not a callable that makes an environment"):
        EnvList(bad, backend="serial")

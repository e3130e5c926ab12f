"""A world where it lives: both styles, and how it is brought elsewhere."""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle
import gymnasium
import pytest

from shoal.envs.texts.bandit import BanditEnv
from shoal.llm import EnvStateManager
from shoal.llm.hosted import ERROR, EXECUTED, LOOKUP, Begin, HostedWorld, Hosting
from tests.llm.worlds import Counter, CounterConfig, config_of, inputs_of, registered


class Old:
    """Knows neither seeds nor modes."""

    def reset(self) -> str:
        return "begun"

    def step(self, action: Any) -> Any:
        return {"three": ("seen", 0.0, False), "words": ("seen", "much", False, {})}[action]


class Open:
    """Takes whatever there is."""

    def reset(self, **given: Any) -> tuple[str, dict[str, Any]]:
        return str(sorted(given)), {"given": given}


def test_worlds_are_told_what_they_can_be_told() -> None:
    assert HostedWorld(Old).step(Begin(3))[0] == "begun"
    assert HostedWorld(Open).step(Begin(3, "val"))[0] == "['seed']"
    assert HostedWorld(Open).step(Begin(3, "val", {"noise_seed": 1}))[0] == "['options', 'seed']"
    assert HostedWorld(lambda: Counter(CounterConfig())).step(Begin(3, "val"))[0] == "val: 1 of 3"


def test_what_is_no_step_is_an_error_that_says_so() -> None:
    world = HostedWorld(Old)
    for action, message in (("three", "five values, as in Gymnasium, or four"), ("words", "could not convert")):
        world.step(Begin(0))
        *_, truncated, info = world.step([action])
        assert truncated
        assert message in info[ERROR]
        assert info[EXECUTED] == 0


def test_worlds_of_gymnasium_that_show_no_text_are_written_out() -> None:
    world = HostedWorld(lambda: gymnasium.make("FrozenLake-v1", is_slippery=False))
    assert world.step(Begin(0))[0] == "0"
    state, reward, terminated, truncated, info = world.step([2, 2, 1])
    assert (state, reward, terminated, info[EXECUTED]) == ("6", 0.0, False, 3)
    assert world.step([0])[2]  # a hole
    world.close()
    drawn = HostedWorld(lambda: gymnasium.make("FrozenLake-v1", render_mode="ansi"))
    assert "SFFF"[1:] in drawn.step(Begin(0))[0]
    drawn.close()


def test_worlds_of_ours_are_warmed_up_and_imported_beforehand() -> None:
    assert Hosting(BanditEnv).preload == ("shoal.envs.texts.bandit",)
    assert Hosting(Old).preload == ()
    HostedWorld(BanditEnv).warm_up()
    HostedWorld(lambda: pytest.fail("it was made")).warm_up()


def test_names_of_actions_are_told_when_they_change() -> None:
    world = HostedWorld(BanditEnv)
    first = world.step(Begin(0))[4][LOOKUP]
    assert sorted(first.values()) == ["dragon", "phoenix"]
    assert LOOKUP not in world.step([1])[4]
    assert world.step(Begin(1))[4][LOOKUP] is not None


@pytest.mark.parametrize("make", [BanditEnv, lambda: Counter(CounterConfig(target=9)), Old])
def test_a_world_goes_on_elsewhere(make: Any) -> None:
    def bring_there() -> None:
        other.set_state(pickle.loads(cloudpickle.dumps(one.get_state())))

    one, other = HostedWorld(make), HostedWorld(make)
    bring_there()
    assert other.render() is None
    one.step(Begin(4))
    bring_there()
    if make is not Old:
        assert one.step([1]) == other.step([1])
    assert other.ask(type) is one.ask(type)


def test_worlds_of_gymnasium_are_played_in_groups_too() -> None:
    class Lake(gymnasium.Wrapper[Any, Any, Any, Any]):
        action_lookup = {0: "Left", 1: "Down", 2: "Right", 3: "Up"}

        def __init__(self) -> None:
            super().__init__(gymnasium.make("FrozenLake-v1", is_slippery=False, render_mode="ansi"))

    from shoal.llm import REGISTERED_ENVS

    with registered():
        REGISTERED_ENVS["gym_lake"] = Lake
        try:
            custom = {"Gym": {"env_type": "gym_lake"}}
            with EnvStateManager(config_of("Gym", groups=1, custom=custom, use_multiprocessing=False)) as manager:
                caches = manager.step(inputs_of(manager.reset(seed=0), 2, 2))  # numbers are understood as well
                assert caches[0]["history"][0]["actions"] == [2, 2]
                assert manager.envs[0].status.num_actions == 2
        finally:
            del REGISTERED_ENVS["gym_lake"]

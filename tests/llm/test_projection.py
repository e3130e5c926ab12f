"""From what a model writes to what is done."""

from __future__ import annotations

from typing import Any

import pytest

from shoal import ConfigurationError, EnvList
from shoal.llm import REGISTERED_ENV_CONFIGS, REGISTERED_ENVS, Reading, create_projection_function


def one(env_type: str, answer: str, actions: Any = None, **keywords: Any) -> tuple[Any, bool]:
    """What becomes of a single answer."""
    (action,), (valid,) = create_projection_function(env_type, **keywords)([f"<answer>{answer}</answer>"], [actions])
    return action, valid


def test_the_promised_example() -> None:
    projection_f = create_projection_function("sokoban")
    text_actions = ["<action>up</action>", "<action>down</action>"]
    actions, valids = projection_f(text_actions)
    assert (actions, valids) == ([1, 2], [True, True])


@pytest.mark.parametrize(
    ("env_type", "names"),
    [
        ("sokoban", ["up", "down", "left", "right"]),
        ("sokoban", ["North", "SOUTH", " west ", "east"]),
        ("sokoban", ["u", "d", "l", "r"]),
        ("frozen_lake", ["left", "down", "right", "up"]),
        ("frozen_lake", ["west", "south", "east", "north"]),
        ("frozen_lake", ["L", "D", "R", "U"]),
    ],
)
def test_directions_have_their_numbers(env_type: str, names: list[str]) -> None:
    assert [one(env_type, name) for name in names] == [(number, True) for number in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    "answer", ["support", "up down", "Up || Down", "up!", "1", "uр", "ｕｐ", "upup", "step up", "{up}"]
)
@pytest.mark.parametrize("env_type", ["sokoban", "frozen_lake"])
def test_what_only_has_a_direction_in_it_is_none(env_type: str, answer: str) -> None:
    assert one(env_type, answer) == (None, False)
    assert one(env_type, answer, invalid_action="default") == (1, False)


@pytest.mark.parametrize(
    ("answer", "actions", "expected"),
    [
        ("phoenix", None, ("phoenix", True)),
        ("DRAGON", None, ("dragon", True)),
        ("2", None, (2, True)),
        ("3", None, (None, False)),
        ("phoenixes", None, (None, False)),
        ("falcon", {1: "snail", 2: "Falcon"}, ("Falcon", True)),
        ("2", {1: "snail", 2: "Falcon"}, (2, True)),
        ("phoenix", {1: "snail", 2: "Falcon"}, (None, False)),
        ("snail", ["snail", "falcon"], ("snail", True)),
        ("２", None, (None, False)),
    ],
)
def test_an_arm_is_pulled_by_name_or_number(answer: str, actions: Any, expected: tuple[Any, bool]) -> None:
    assert one("bandit", answer, actions) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("(3 + 5) * 3", ("(3 + 5) * 3", True)),
        ("3 / 0", ("3 / 0", True)),
        ("3 + 5 = 8", (None, False)),
        ("9 ** 9", (None, False)),
        ("print(1)", (None, False)),
        ("the answer is 8", (None, False)),
    ],
)
def test_countdown_takes_expressions(answer: str, expected: tuple[Any, bool]) -> None:
    assert one("countdown", answer) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("search[red shoes]", ("search[red shoes]", True)),
        ("Click[B07XYZ]", ("click[B07XYZ]", True)),
        ("Buy Now", ("buy now", True)),
        ("back", ("back", True)),
        ("search[]", (None, False)),
        ("search[red", (None, False)),
        ("search red]", (None, False)),
        ("buy", (None, False)),
        ("go[home]", (None, False)),
        ("search[a\nb]", (None, False)),
        (f"search[{'x' * 2000}]", (None, False)),
    ],
)
def test_webshop_takes_searches_and_clicks(answer: str, expected: tuple[Any, bool]) -> None:
    assert one("webshop", answer) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The answer is 42.", "42"),
        ("The answer is: $\\frac{1}{2}$", "$\\frac{1}{2}$"),
        ("12 * 6 + 45 = 72 + 45 = 117", "117"),
        ("She pays $1,234 in total.", "$1,234"),
        ("There are 12 apples", "12"),
        ("2x + y", "2x + y"),
        ("x = 2, y = 3", "x = 2, y = 3"),
        ("between 3 and 5", "between 3 and 5"),
        ("about 5 million", "about 5 million"),
        ("not 5", "not 5"),
        ("(1, 2)", "(1, 2)"),
        ("x^2", "x^2"),
    ],
)
def test_a_number_is_taken_out_of_an_answer_where_that_is_certain(answer: str, expected: str) -> None:
    assert one("metamathqa", answer) == (expected, True)


def test_any_answer_is_one_where_nothing_is_known_of_actions() -> None:
    assert one("metamathqa", " 42 ") == ("42", True)
    assert one("metamathqa", "x^2 + 1") == ("x^2 + 1", True)
    assert one("something else", " Sing a song ") == ("Sing a song", True)
    assert one("something else", "sing", ["Sing", "dance"]) == ("Sing", True)
    assert one("something else", "swim", ["Sing", "dance"]) == (None, False)


class Garden:
    """Registered here, with actions of its own."""

    action_lookup = {0: "Dig", 1: "Water the roses"}


def test_a_registered_world_is_acted_in_by_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REGISTERED_ENVS, "garden", Garden)
    assert one("garden", "water the ROSES") == (1, True)
    assert one("garden", "0") == (0, True)
    assert one("garden", "rest") == (None, False)


@pytest.mark.parametrize(
    ("env_type", "default"),
    [
        ("sokoban", 1),
        ("frozen_lake", 1),
        ("bandit", "phoenix"),
        ("webshop", "click[back to search]"),
        ("countdown", "hm"),
        ("metamathqa", "hm"),
        ("something else", " hm "),
    ],
)
def test_a_default_action_is_done_if_that_is_wished_and_is_not_valid(env_type: str, default: Any) -> None:
    assert create_projection_function(env_type)([" hm "]) == ([None], [False])
    assert create_projection_function(env_type, invalid_action="default")([" hm "]) == ([default], [False])
    actions, valids = create_projection_function(env_type, invalid_action="default")([None])  # type: ignore[list-item]
    assert (len(actions), valids) == (1, [False])


def test_text_and_action_are_recorded_side_by_side() -> None:
    projection_f = create_projection_function("frozen_lake", invalid_action="default")
    texts = ["<answer>Up</answer>", "<answer>support</answer>", "up"]
    assert projection_f(texts) == ([4, 1, 1], [True, False, False])
    assert projection_f.read(texts) == [
        Reading(texts[0], 4, True, ""),
        Reading(texts[1], 1, False, "'support' is none of left, west, l, down, south, d, right, east, r, up, north, u"),
        Reading(texts[2], 1, False, "there is no complete <action> or <answer> outside of <think>"),
    ]


@pytest.mark.parametrize(
    ("keywords", "texts", "spaces", "message"),
    [
        (
            {"invalid_action": "defualt"},
            [],
            None,
            "invalid_action must be one of 'default', got 'defualt'. Did you mean",
        ),
        ({}, "<action>up</action>", None, "text_actions must be a list of texts, got a str"),
        ({}, ["a", "b"], [None], "there are 1 action_spaces for 2 texts"),
        ({}, ["a"], [4], r"action_spaces\[0\] must be the names of actions, as a list or by number, or None, got 4"),
        ({}, ["a"], [[]], r"action_spaces\[0\] must be the names of actions"),
    ],
)
def test_what_cannot_be_projected_is_refused(keywords: dict[str, Any], texts: Any, spaces: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        create_projection_function("bandit", **keywords)(texts, spaces)


def test_texts_of_a_model_are_played_and_what_is_none_leaves_the_world_as_it_is() -> None:
    """From the text to the world: every kind of world there is here, by what it is called."""
    types = {"frozen_lake": "shoal/FrozenLakeText-v0", "bandit": "shoal/Bandit-v0", "countdown": "shoal/Countdown-v0"}
    with EnvList(list(types.values()), backend="serial") as envs:
        before, _ = envs.reset(seed=1)
        lookups = envs.get_attr("action_lookup")
        nonsense = ["<answer>support</answer>", "dragon", "<answer>import os</answer>"]
        for texts, is_valid in ((nonsense, False), (None, True)):
            if texts is None:
                texts = []
                for actions, lookup in zip(envs.call("solve"), lookups, strict=True):
                    name = actions[0] if lookup is None else lookup[actions[0]]
                    texts.append(f"<think>I know.</think><answer>{name}</answer>")
            actions = [
                create_projection_function(env_type)([text], [lookup])[0][0]
                for env_type, text, lookup in zip(types, texts, lookups, strict=True)
            ]
            results = envs.step(actions)
            assert [info["action_is_valid"] for info in results.infos] == [is_valid] * 3
            if not is_valid:
                assert results.observations == before
        assert [info["success"] for info in results.infos[1:]] == [True, True]


def test_names_and_numbers_are_those_of_the_worlds() -> None:
    lookup = REGISTERED_ENV_CONFIGS["frozen_lake"]().action_lookup
    assert [one("frozen_lake", name)[0] for name in lookup.values()] == list(lookup)

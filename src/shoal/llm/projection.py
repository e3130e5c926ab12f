"""From what a model writes to what is done in a world.

What a model writes is data. It is read strictly, in bounded time, and nothing in it is executed. What is no action becomes
``None``, and a world that is given ``None`` stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, overload

from shoal.llm.answers import NoAnswer, read_answer
from shoal.llm.grammars import GENERIC, GRAMMARS, Actions, Grammar, NoAction, actions_of
from shoal.llm.registry import REGISTERED_ENVS
from shoal.vector.arguments import check_choice
from shoal.vector.errors import ConfigurationError


class Reading(NamedTuple):
    """What became of one text."""

    raw: Any
    """The text, as it was given."""
    action: Any
    """What is executed; ``None`` for nothing."""
    is_valid: bool
    """Whether the text said so itself."""
    reason: str = ""
    """Why it did not."""


class Projected(NamedTuple):
    """What became of some texts."""

    actions: list[Any]
    valids: list[bool]
    readings: list[Reading]


Pair = tuple[list[Any], list[bool]]


@overload
def create_projection_function(
    env_type: str, *, invalid_action: str | None = ..., record: Literal[False] = ...
) -> Callable[..., Pair]: ...


@overload
def create_projection_function(
    env_type: str, *, invalid_action: str | None = ..., record: Literal[True]
) -> Callable[..., Projected]: ...


def create_projection_function(
    env_type: str, *, invalid_action: str | None = None, record: bool = False
) -> Callable[..., Pair] | Callable[..., Projected]:
    """A function ``f(text_actions, action_spaces=None)`` that returns actions, and whether each text was valid.

    It reads the last complete ``<action>`` or ``<answer>`` that is not part of a ``<think>``, and nothing else.

    Args:
        env_type: the kind of world. Worlds that have no grammar of their own take one of their ``action_lookup``, or, where
            they have none, any text.
        invalid_action: what stands for a text that is no action: ``None``, which leaves the world as it is, or
            ``"default"`` for a default action of the world. Either way the text is not valid.
        record: return a :class:`Projected`, in which raw texts and executed actions stand side by side.

    ``action_spaces`` has, for each text, the actions that there are: names by number, a list of names, or ``None``.
    """
    if invalid_action is not None:
        check_choice("invalid_action", invalid_action, ["default"])
    grammar = GRAMMARS.get(env_type)
    lookup = None if grammar is not None else _lookup_of(env_type)
    grammar = grammar or GENERIC

    def read_all(text_actions: Sequence[str], action_spaces: Sequence[Any] | None) -> list[Reading]:
        spaces = _checked(text_actions, action_spaces)
        return [
            read(grammar, text, lookup if actions is None else actions, invalid_action == "default")
            for text, actions in zip(text_actions, spaces, strict=True)
        ]

    def project(text_actions: Sequence[str], action_spaces: Sequence[Any] | None = None) -> Pair:
        """Actions, and whether each text was valid."""
        readings = read_all(text_actions, action_spaces)
        return [reading.action for reading in readings], [reading.is_valid for reading in readings]

    def project_and_record(text_actions: Sequence[str], action_spaces: Sequence[Any] | None = None) -> Projected:
        """Actions, whether each text was valid, and both beside the text."""
        readings = read_all(text_actions, action_spaces)
        return Projected(
            [reading.action for reading in readings], [reading.is_valid for reading in readings], readings
        )

    return project_and_record if record else project


def read(grammar: Grammar, text: Any, actions: Actions, has_default: bool) -> Reading:
    """Read one text."""
    try:
        return Reading(text, grammar.read(read_answer(text), actions), True)
    except (NoAnswer, NoAction) as error:
        instead = grammar.default(text if isinstance(text, str) else "", actions) if has_default else None
        return Reading(text, instead, False, str(error))


def _lookup_of(env_type: str) -> Actions:
    """The names of the actions of a registered world, by number."""
    lookup = getattr(REGISTERED_ENVS[env_type], "action_lookup", None) if env_type in REGISTERED_ENVS else None
    return lookup if isinstance(lookup, Mapping) else None


def _checked(text_actions: Any, action_spaces: Any) -> list[Actions]:
    if isinstance(text_actions, str | bytes) or not isinstance(text_actions, Sequence):
        raise ConfigurationError(f"text_actions must be a list of texts, got a {type(text_actions).__name__}")
    if action_spaces is None:
        return [None] * len(text_actions)
    if len(action_spaces) != len(text_actions):
        raise ConfigurationError(f"there are {len(action_spaces)} action_spaces for {len(text_actions)} texts")
    return [actions_of(value, place) for place, value in enumerate(action_spaces)]

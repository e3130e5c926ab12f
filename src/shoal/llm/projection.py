"""From what a model writes to what is done in a world.

What a model writes is data. It is read strictly, in bounded time, and nothing in it is executed. What is no action becomes
``None``, and a world that is given ``None`` stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shoal.llm.answers import NoAnswer, read_answer
from shoal.llm.grammars import GENERIC, GRAMMARS, Actions, NoAction, actions_of
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


class Projection:
    """A projection function. ``create_projection_function`` makes one."""

    def __init__(self, env_type: str, invalid_action: str | None = None) -> None:
        if invalid_action is not None:
            check_choice("invalid_action", invalid_action, ["default"])
        self.env_type, self.invalid_action = env_type, invalid_action
        self._lookup = None if env_type in GRAMMARS else _lookup_of(env_type)

    def __call__(
        self, text_actions: Sequence[str], action_spaces: Sequence[Any] | None = None
    ) -> tuple[list[Any], list[bool]]:
        """The action of each text, and whether each text was valid."""
        readings = self.read(text_actions, action_spaces)
        return [reading.action for reading in readings], [reading.is_valid for reading in readings]

    def read(self, text_actions: Sequence[str], action_spaces: Sequence[Any] | None = None) -> list[Reading]:
        """For each text what is to be recorded: the text itself, what is executed, and why that is not what was written."""
        if isinstance(text_actions, str | bytes) or not isinstance(text_actions, Sequence):
            raise ConfigurationError(f"text_actions must be a list of texts, got a {type(text_actions).__name__}")
        spaces = [None] * len(text_actions) if action_spaces is None else list(action_spaces)
        if len(spaces) != len(text_actions):
            raise ConfigurationError(f"there are {len(spaces)} action_spaces for {len(text_actions)} texts")
        actions = [actions_of(value, place) for place, value in enumerate(spaces)]
        return [self._read(*pair) for pair in zip(text_actions, actions, strict=True)]

    def _read(self, text: Any, actions: Actions) -> Reading:
        grammar = GRAMMARS.get(self.env_type, GENERIC)
        actions = self._lookup if actions is None else actions
        try:
            return Reading(text, grammar.read(read_answer(text), actions), True)
        except (NoAnswer, NoAction) as error:
            is_wished = self.invalid_action == "default"
            instead = grammar.default(text if isinstance(text, str) else "", actions) if is_wished else None
            return Reading(text, instead, False, str(error))

    def __repr__(self) -> str:
        return f"Projection({self.env_type!r}, invalid_action={self.invalid_action!r})"


def create_projection_function(env_type: str, *, invalid_action: str | None = None) -> Projection:
    """A function ``f(text_actions, action_spaces=None)`` that returns actions, and whether each text was valid.

    It reads the last complete ``<action>`` or ``<answer>`` that is not part of a ``<think>``, and nothing else.

    Args:
        env_type: the kind of world. One that has no grammar here takes the names in the ``action_lookup`` of the world that
            is registered, or, where there is none, any text.
        invalid_action: what stands for a text that is no action: ``None``, which leaves the world as it is, or
            ``"default"`` for a default action of the world. Either way the text is not valid.

    ``action_spaces`` has, for each text, the actions that there are: names by number, a list of names, or ``None``.
    """
    return Projection(env_type, invalid_action)


def _lookup_of(env_type: str) -> Actions:
    """The names of the actions of a registered world, by number."""
    lookup = getattr(REGISTERED_ENVS[env_type], "action_lookup", None) if env_type in REGISTERED_ENVS else None
    return lookup if isinstance(lookup, Mapping) else None

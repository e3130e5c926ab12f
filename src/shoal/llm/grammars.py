"""Which answers are actions, for each kind of world. An answer is compared as a whole: "up" is not in "support"."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.envs.texts.arithmetic import NotArithmetic, parse
from shoal.envs.texts.math_answers import number_in
from shoal.vector.errors import ConfigurationError

Actions = Mapping[int, str] | Sequence[str] | None
"""The actions that there are for one text: names by number, names alone, or nothing known."""

LONGEST_QUERY = 1000


class NoAction(ValueError):
    """Why an answer is no action."""


@dataclass(frozen=True)
class Grammar:
    """Reads answers."""

    read: Callable[[str, Actions], Any]
    """The action that an answer means; raises :class:`NoAction`."""
    default: Callable[[str, Actions], Any]
    """What is done instead, where that is asked for; it is given the whole text."""


def _moves(names: Mapping[str, int]) -> Grammar:
    """A direction by name."""

    def read(answer: str, _: Actions) -> int:
        if (action := names.get(answer.lower())) is None:
            raise NoAction(f"{shortened(answer)} is none of {', '.join(names)}")
        return action

    return Grammar(read, lambda *_: 1)


def _named(default_actions: Mapping[int, str] | None = None) -> Grammar:
    """One of the actions that there are, by name or number; any text where nothing is known of them."""

    def read(answer: str, actions: Actions) -> Any:
        known = default_actions if actions is None else actions
        if known is None:
            return answer
        pairs = list(known.items()) if isinstance(known, Mapping) else [(name, name) for name in known]
        wanted = answer.lower()
        for action, name in pairs:
            if wanted == name.lower():
                return name if default_actions is not None else action
            if wanted == str(action):
                return action
        raise NoAction(f"{shortened(answer)} is none of {', '.join(name for _, name in pairs)}")

    def default(text: str, actions: Actions) -> Any:
        if default_actions is None:
            return text
        names = default_actions if actions is None else actions
        return next(iter(names.values() if isinstance(names, Mapping) else names))

    return Grammar(read, default)


def _read_expression(answer: str, _: Actions) -> str:
    try:
        parse(answer)
    except NotArithmetic as error:
        raise NoAction(f"{shortened(answer)} is no arithmetic: {error}") from None
    return answer


def _read_page_action(answer: str, _: Actions) -> str:
    if answer.lower() in ("buy now", "back"):
        return answer.lower()
    name, bracket, argument = answer.partition("[")
    is_whole = bool(bracket) and argument.endswith("]") and bool(argument[:-1].strip()) and len(answer) <= LONGEST_QUERY
    if name.lower() not in ("search", "click") or not is_whole or "\n" in answer:
        raise NoAction(f"{shortened(answer)} is none of search[…], click[…], buy now, back")
    return f"{name.lower()}[{argument}"


def shortened(answer: str) -> str:
    """An answer in a message."""
    return repr(answer if len(answer) <= 60 else f"{answer[:60]}…")


GENERIC = _named()
GRAMMARS: dict[str, Grammar] = {
    "sokoban": _moves(
        {
            "up": 1, "north": 1, "u": 1, "down": 2, "south": 2, "d": 2,
            "left": 3, "west": 3, "l": 3, "right": 4, "east": 4, "r": 4,
        }
    ),
    "frozen_lake": _moves(
        {
            "left": 1, "west": 1, "l": 1, "down": 2, "south": 2, "d": 2,
            "right": 3, "east": 3, "r": 3, "up": 4, "north": 4, "u": 4,
        }
    ),
    "bandit": _named({1: "phoenix", 2: "dragon"}),
    "countdown": Grammar(_read_expression, lambda text, _: text.strip()),
    "metamathqa": Grammar(lambda answer, _: number_in(answer), lambda text, _: text.strip()),
    "webshop": Grammar(_read_page_action, lambda *_: "click[back to search]"),
}  # fmt: skip


def actions_of(value: Any, place: int) -> Actions:
    """What was given as the actions that there are for one text."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        names: list[Any] = list(value.values())
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        names = list(value)
    else:
        names = []
    if not names or not all(isinstance(name, str) for name in names):
        raise ConfigurationError(
            f"action_spaces[{place}] must be the names of actions, as a list or by number, or None, got {value!r}"
        )
    return value if isinstance(value, Mapping) else names

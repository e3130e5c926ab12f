"""Settings as flags of a command."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Iterable
from types import UnionType
from typing import Annotated, Any, Literal, TypedDict, Union, get_args, get_origin

import tyro

from shoal.runs.display import LEVELS
from shoal.runs.settings import Settings, choices_of, section_of

_WholeNumber = Annotated[
    str,
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=operator.itemgetter(0),
        is_instance=lambda value: isinstance(value, str),
        str_from_instance=lambda word: [word],
    ),
]
"""As a word: the config knows that 1e6 is one, and says what is wrong with one that is none."""


def one_of(choices: Iterable[str]) -> str:
    """How help shows that a word is one of a few."""
    return f"{{{','.join(choices)}}}"


DisplayLevel = Annotated[str, tyro.conf.arg(metavar=one_of(LEVELS))]


def flags_of(settings: type[Settings]) -> Any:
    """The type of what is said: those that are not said are not in it, because ``None`` is something that can be said.

    A setting that is a dictionary has no flag.
    """
    flags: dict[str, Any] = {}
    for name, field in settings.model_fields.items():
        section = section_of(field.annotation)
        if section is not None:
            flags[name] = flags_of(section)
        elif get_origin(field.annotation) is not dict:
            flags[name] = _flag(field)
    typed: Any = TypedDict  # mypy wants to read the names here
    return typed(settings.__name__, flags, total=False)


def _flag(field: Any) -> Any:
    """A setting as the type of a flag."""
    type_, choices = field.annotation, choices_of(field.annotation)
    text = re.sub(r":\w+:|`", "", " ".join((field.description or "").split()))
    metavar = None
    if choices:
        parts = get_args(type_)
        metavar = ("INT|" if int in parts else "") + one_of([*(["None"] if type(None) in parts else []), *choices])
    # Left out, it may still come from a file or a preset; the hint is what it is otherwise.
    argument = tyro.conf.arg(help=text, help_behavior_hint=f"(default: {field.default})", metavar=metavar)
    return Annotated[_spoken(type_), argument]


def _spoken(type_: Any) -> Any:
    """Which type the command line reads."""
    if type_ is int:
        return _WholeNumber
    if bool in (type_, *get_args(type_)):
        return bool  # which becomes two flags, --this and --no-this
    if get_origin(type_) is Literal:
        return str  # the config checks it, and says which word is the nearest
    if get_origin(type_) in (Union, UnionType):
        return functools.reduce(operator.or_, map(_spoken, get_args(type_)))
    return type_

"""What can be chosen about a training run. It is checked when it is made, never changed, and saved with the run.

    class Environment(Settings):
        env_name: str = "PointRobot-v0"
        num_parallel_workers: int = Field(default=1, ge=1)

    class LearnerConfig(Settings):
        env: Environment = Environment()          # a section: settings of its own, in a YAML file one step further in
        seed: int = Field(default=0, ge=0, lt=SEEDS)

    config = LearnerConfig.of({"seed": "1e3", "env": {"num_parallel_workers": 4}})
    config.replaced(env={"num_parallel_workers": 2})

Mistakes are said name by name, with the nearest one there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator

from shoal.vector.errors import ConfigurationError
from shoal.vector.nearest import did_you_mean

SEEDS = 2**31
"""Seeds are below this. Those of environments and evaluations follow from it, and must fit into 32 bits too."""
OTHER_NAMES = {"gpu": "cuda"}
"""What people say for a value whose name is nothing like it."""
KINDS_OF_A_VALUE = ("int", "literal['auto']")
"""What pydantic adds to the place of a mistake where a value may be of several kinds."""


class Settings(BaseModel):
    """The base of all settings, and of the sections in them."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @field_validator("*", mode="before")
    @classmethod
    def _is_of_its_kind(cls, value: Any, info: ValidationInfo) -> Any:
        """For pydantic, ``true`` is the number 1; and for YAML, 1e6 is a word."""
        parts = _parts_of(cls.model_fields[info.field_name or ""].annotation)
        if isinstance(value, list | tuple):
            return [_number(one, parts) for one in value]
        return _number(value, parts)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Settings with these values; what is wrong with them is said field by field, with the nearest name."""
        known = _known(cls, values)
        try:
            return cls(**known)
        except ValidationError as error:
            problems: list[Any] = list(error.errors())
        hints = "".join(_hint(cls, problem) for problem in problems)
        raise ConfigurationError("; ".join(map(_sentence, problems)) + (f".{hints}" if hints else ""))

    def replaced(self, **values: Any) -> Self:
        """The same with other values, checked again. Of a section, those that are not said stay."""
        before, fields = self.model_dump(), type(self).model_fields
        for name, value in values.items():
            is_part = name in fields and section_of(fields[name].annotation) is not None
            before[name] = {**before[name], **value} if is_part and isinstance(value, Mapping) else value
        return type(self).of(before)


def section_of(annotation: Any) -> type[Settings] | None:
    """The settings that a field of this type holds, if it is a section."""
    return annotation if isinstance(annotation, type) and issubclass(annotation, Settings) else None


def names_of(settings: type[Settings]) -> list[str]:
    """All of them; those in a section have its name and a dot before theirs."""
    names: list[str] = []
    for name, field in settings.model_fields.items():
        section = section_of(field.annotation)
        names += [name] if section is None else [f"{name}.{inner}" for inner in names_of(section)]
    return names


def flat(settings: type[Settings], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values under these names, as far as there are any."""
    found: dict[str, Any] = {}
    for name, field in settings.model_fields.items():
        section = section_of(field.annotation)
        if section is not None and isinstance(values.get(name), Mapping):
            found |= {f"{name}.{inner}": value for inner, value in flat(section, values[name]).items()}
        elif section is None and name in values:
            found[name] = values[name]
    return found


def whole_number(text: str) -> int:
    """Also of 1e6, as people write a million. Raises ``ValueError`` if it is none."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not number.is_integer():
            raise ValueError(f"not a whole number: {text}") from None
        return int(number)


def choices_of(annotation: Any) -> tuple[str, ...]:
    """The words that a setting of this type may be; none for one that may be any."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return tuple(choice for part in get_args(annotation) for choice in choices_of(part))


def _known(settings: type[Settings], values: Mapping[str, Any], place: str = "") -> dict[str, Any]:
    """The values, if there are settings of all these names, in the sections too."""
    fields, known = settings.model_fields, dict(values)
    for name in values:
        if name not in fields:
            hint = _home_of(name, settings) or did_you_mean(str(name), fields)
            hint = hint or f" There are {', '.join(sorted(fields))}."
            raise ConfigurationError(f"there is no setting {name!r}{place}.{hint}")
        section = section_of(fields[name].annotation)
        if section is None or isinstance(values[name], section):
            continue
        inside = {} if values[name] is None else values[name]  # as YAML reads a heading with nothing below it
        if not isinstance(inside, Mapping):
            raise ConfigurationError(f"{name} must hold settings of its own, 'name: value', got {inside!r}")
        known[name] = _known(section, inside, f" in {name}")
    return known


def _home_of(name: str, settings: type[Settings]) -> str:
    """A hint at the section that has such a setting, if there is one."""
    for title, field in settings.model_fields.items():
        section = section_of(field.annotation)
        if section is not None and name in section.model_fields:
            return f" There is one in the section {title}."
    return ""


def _parts_of(annotation: Any) -> tuple[Any, ...]:
    """The types that a value may be of."""
    return (annotation, *(part for one in get_args(annotation) for part in _parts_of(one)))


def _number(value: Any, parts: tuple[Any, ...]) -> Any:
    if isinstance(value, bool) and bool not in parts and (int in parts or float in parts):
        raise ValueError("input should be a number, and not true or false")
    if isinstance(value, str) and int in parts:
        try:
            return whole_number(value)
        except ValueError:
            return value  # and pydantic says what it should be
    return value


def _hint(settings: type[Settings], problem: Any) -> str:
    """The nearest word, if it should have been one of a few."""
    said = problem["input"]
    if problem["type"] != "literal_error" or not isinstance(said, str):
        return ""
    annotation: Any = settings
    for part in problem["loc"]:
        section = section_of(annotation)
        if section is not None:
            annotation = section.model_fields[part].annotation
    return did_you_mean(OTHER_NAMES.get(said.lower(), said), choices_of(annotation))


def _sentence(problem: Any) -> str:
    message = str(problem["msg"]).removeprefix("Value error, ")
    place = ".".join(str(part) for part in problem["loc"] if part not in KINDS_OF_A_VALUE)
    if not place:
        return message
    if problem["type"] == "missing":
        return f"{place} must be given"
    sentence = f"{place}: {message[0].lower()}{message[1:]}"
    is_about_a_section = problem["type"] == "value_error" and isinstance(problem["input"], Mapping)
    return sentence if is_about_a_section else f"{sentence} (got {problem['input']!r})"

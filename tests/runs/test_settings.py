"""Settings: what they take, in sections too, and what is said of mistakes."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import Field, model_validator

import shoal
from shoal.runs.settings import Settings, flat, names_of


class Worlds(Settings):
    name: str
    num_workers: int = Field(default=1, ge=1)
    device: Literal["cpu", "cuda"] = "cpu"
    bounds: tuple[float, ...] = (0.0, 1.0)
    keywords: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits_together(self) -> Worlds:
        if self.bounds != tuple(sorted(self.bounds)):
            raise ValueError(f"bounds must rise, got {self.bounds}")
        return self


class Plan(Settings):
    seed: int = 0
    steps: int | Literal["auto"] = "auto"
    worlds: Worlds = Worlds(name="a")


def test_sections_are_read_checked_and_written() -> None:
    plan = Plan.of({"steps": "1e6", "worlds": {"name": "b", "num_workers": "2e0", "bounds": ["1e-3", 2]}})
    assert (plan.steps, plan.worlds.num_workers, plan.worlds.bounds) == (1_000_000, 2, (1e-3, 2.0))
    assert Plan.of(plan.model_dump()) == plan
    assert Plan.of(plan.model_dump(mode="json")) == plan
    assert Plan.of({"worlds": plan.worlds}).worlds == plan.worlds


def test_replacing_a_part_of_a_section_leaves_the_rest_of_it() -> None:
    plan = Plan.of({"worlds": {"name": "b", "keywords": {"x": 1}}})
    other = plan.replaced(seed=3, worlds={"num_workers": 4, "keywords": {"y": 2}})
    assert other.seed == 3
    assert (other.worlds.name, other.worlds.num_workers, other.worlds.keywords) == ("b", 4, {"y": 2})
    assert plan.worlds.num_workers == 1, "the first is as it was"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sed": 1}, "there is no setting 'sed'. Did you mean 'seed'?"),
        ({"worlds": {"nmae": "b"}}, "there is no setting 'nmae' in worlds. Did you mean 'name'?"),
        ({"num_workers": 2}, "there is no setting 'num_workers'. There is one in the section worlds."),
        ({"zebra": 2}, "there is no setting 'zebra'. There are seed, steps, worlds."),
        ({1: 2}, "there is no setting 1. There are seed, steps, worlds."),
        ({"worlds": 3}, "worlds must hold settings of its own, 'name: value', got 3"),
        ({"worlds": None}, "worlds.name must be given"),
        ({"worlds": {"num_workers": 2}}, "worlds.name must be given"),
        ({"worlds": {"name": "b", "bounds": [2, 1]}}, "worlds: bounds must rise, got (2.0, 1.0)"),
        (
            {"worlds": {"name": "b", "num_workers": 0}},
            "worlds.num_workers: input should be greater than or equal to 1 (got 0)",
        ),
        (
            {"worlds": {"name": "b", "num_workers": True}},
            "worlds.num_workers: input should be a number, and not true or false (got True)",
        ),
        (
            {"worlds": {"name": "b", "device": "GPU"}},
            "worlds.device: input should be 'cpu' or 'cuda' (got 'GPU'). Did you mean 'cuda'?",
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_mistakes_are_named_with_their_section(values: dict[Any, Any], message: str) -> None:
    with pytest.raises(shoal.ConfigurationError) as caught:
        Plan.of(values)
    assert str(caught.value) == message


def test_they_are_not_changed() -> None:
    plan: Any = Plan()
    with pytest.raises(ValueError, match="frozen"):
        plan.seed = 1


def test_names_of_sections_go_before_those_in_them() -> None:
    names = ["seed", "steps", *(f"worlds.{name}" for name in ("name", "num_workers", "device", "bounds", "keywords"))]
    assert names_of(Plan) == names
    assert list(flat(Plan, Plan().model_dump())) == names
    assert flat(Plan, {"worlds": {"name": "b"}, "other": 1}) == {"worlds.name": "b"}
    assert flat(Plan, {"worlds": 3}) == {}

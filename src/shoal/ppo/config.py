"""What can be chosen about a training run. It is checked when it is made, never changed, and saved with the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from shoal.vector.errors import ConfigurationError
from shoal.vector.nearest import did_you_mean

SEEDS = 2**31
"""Seeds are below this. Those of environments and evaluations follow from it, and must fit into 32 bits too."""
OTHER_NAMES = {"gpu": "cuda"}
"""What people say for a value whose name is nothing like it."""


class PPOConfig(BaseModel):
    """Settings of PPO and of the run around it."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    env: str = "CartPole-v1"
    """The environment: an id registered with Gymnasium, or ``module:Class``."""
    env_kwargs: dict[str, Any] = Field(default_factory=dict)
    """What else the environment is made with."""
    seed: int = Field(default=0, ge=0, lt=SEEDS)
    """Decides everything: the network's first weights, the environments' episodes, the actions that are tried. Below 2**31."""

    n_envs: int | Literal["auto"] = 1
    """How many environments step at once. ``auto``: 8 for each processor, or 1024 of a compiled world."""
    backend: Literal["auto", "serial", "threads", "pipes", "shm"] = "auto"
    """Where environments run. Results do not depend on it."""
    num_workers: int | None = Field(default=None, ge=1)
    """How many worker processes; by default as many as there are processors. Results do not depend on it."""
    parallel_start_method: Literal["forkserver", "spawn", "fork"] | None = None
    """How worker processes are started."""
    device: Literal["cpu", "cuda", "mps"] = "cpu"
    """Where the network is."""
    torch_threads: int | None = Field(default=None, ge=1)
    """Processors that the update uses. By default all; decided at the start, because results of torch may depend on it."""

    overlap: bool | None = None
    """Whether the policy acts for one half of the environments while the other half steps. By default, decided once: for
    pictures and on other devices, it does; else both ways are tried in the first rollouts, of which the result is the same,
    unless the policy takes hardly any time."""

    num_episodes: int | None = Field(default=None, ge=1)
    """Stop when so many episodes are complete, over all environments."""
    total_steps: int | None = Field(default=None, ge=1)
    """Or after so many steps of single environments (a rollout is completed)."""

    rollout_steps: int = Field(default=128, ge=1)
    """Steps of every environment between two updates."""
    epochs: int = Field(default=4, ge=1)
    """How often an update goes through what was collected."""
    minibatches: int = Field(default=4, ge=1)
    """Into how many pieces it is cut each time."""
    learning_rate: float = Field(default=3e-4, gt=0)
    """Of Adam."""
    learning_rate_schedule: Literal["constant", "linear"] = "constant"
    """``linear``: it goes down to zero at the end of training."""
    gamma: float = Field(default=0.99, ge=0, le=1)
    """What a reward is worth a step later."""
    gae_lambda: float = Field(default=0.95, ge=0, le=1)
    """How far advantages look ahead: 0 a step, 1 to the end of the episode."""
    clip: float = Field(default=0.2, gt=0)
    """How far an update may change the probability of an action, as a ratio."""
    value_clip: float | None = Field(default=None, gt=0)
    """How far an update may change a value; by default, as far as it likes."""
    value_coefficient: float = Field(default=0.5, ge=0)
    """The weight of the value's loss."""
    entropy_coefficient: float = Field(default=0.0, ge=0)
    """The weight of the entropy, which keeps the policy from settling too early."""
    max_gradient_norm: float = Field(default=0.5, gt=0)
    """Gradients longer than this are shortened."""
    target_kl: float | None = Field(default=None, gt=0)
    """An update ends early when the policy has changed by more than 1.5 times this."""
    normalise_advantages: bool = True
    """Whether advantages of a minibatch have mean 0 and deviation 1."""
    normalise_observations: bool = False
    """Whether observations are shifted and scaled by what has been seen so far."""
    normalise_rewards: bool = False
    """Whether rewards are scaled so that returns have deviation 1."""

    hidden_sizes: tuple[int, ...] = (64, 64)
    """Units of every hidden layer, of the policy and of the value each."""
    activation: Literal["tanh", "relu"] = "tanh"
    recurrent_size: int = Field(default=0, ge=0)
    """Units of a recurrent layer, for tasks that need a memory; 0 for none."""

    eval_every: int | None = Field(default=None, ge=1)
    """Evaluate after so many updates, on a single environment."""
    eval_episodes: int = Field(default=10, ge=1)
    eval_max_steps: int = Field(default=100_000, ge=1)
    """An episode of an evaluation that takes longer is cut off: a policy that always does its best may never come to an end."""
    checkpoint_every: int = Field(default=50, ge=1)
    """Save after so many updates, and at the end."""
    keep_checkpoints: int = Field(default=3, ge=1)
    """How many of the last ones are kept, beside the best."""

    @field_validator("*", mode="before")
    @classmethod
    def _is_of_its_kind(cls, value: Any, info: ValidationInfo) -> Any:
        """For pydantic, ``true`` is the number 1; and for YAML, 1e6 is a word."""
        parts = _parts_of(cls.model_fields[info.field_name or ""].annotation)
        if isinstance(value, list | tuple):
            return [_number(one, parts) for one in value]
        return _number(value, parts)

    @model_validator(mode="after")
    def _fits_together(self) -> PPOConfig:
        if isinstance(self.n_envs, int) and self.n_envs < 1:
            raise ValueError(f"n_envs must be at least 1, or 'auto', got {self.n_envs}")
        if self.num_episodes is None and self.total_steps is None:
            raise ValueError("say when training ends: num_episodes or total_steps")
        if any(size < 1 for size in self.hidden_sizes):
            raise ValueError(f"hidden_sizes must be at least 1 each, got {self.hidden_sizes}")
        return self

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> PPOConfig:
        """A config of these values; what is wrong with them is said field by field, with the nearest name."""
        unknown = [name for name in values if name not in cls.model_fields]
        if unknown:
            hint = (
                did_you_mean(str(unknown[0]), cls.model_fields) or f" There are {', '.join(sorted(cls.model_fields))}."
            )
            raise ConfigurationError(f"there is no setting {unknown[0]!r}.{hint}")
        try:
            return cls(**values)
        except ValidationError as error:
            hints = "".join(map(_hint, error.errors()))
            raise ConfigurationError(
                "; ".join(map(_sentence, error.errors())) + (f".{hints}" if hints else "")
            ) from None

    def replaced(self, **values: Any) -> PPOConfig:
        """The same with other values, checked again."""
        return type(self).of({**self.model_dump(), **values})


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


def _hint(problem: Any) -> str:
    """The nearest word, if it should have been one of a few."""
    said = problem["input"]
    if problem["type"] != "literal_error" or not isinstance(said, str):
        return ""
    choices = choices_of(PPOConfig.model_fields[problem["loc"][0]].annotation)
    return did_you_mean(OTHER_NAMES.get(said.lower(), said), choices)


def _sentence(problem: Any) -> str:
    message = str(problem["msg"]).removeprefix("Value error, ")
    place = ".".join(str(part) for part in problem["loc"] if part not in ("int", "literal['auto']"))
    if not place:
        return message
    return f"{place}: {message[0].lower()}{message[1:]} (got {problem['input']!r})"

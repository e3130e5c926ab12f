"""From the spaces of single environments to the spaces of a batch, under Gymnasium's ``observation_mode``."""

from __future__ import annotations

from typing import Any

from gymnasium.spaces import Space
from gymnasium.spaces.utils import is_space_dtype_shape_equiv
from gymnasium.vector.utils import batch_differing_spaces, batch_space

from shoal.vector.errors import ConfigurationError, SpacesDiffer
from shoal.vector.messages import Census

ObservationMode = str | tuple[Space[Any], Space[Any]]


def check_observation_mode(mode: ObservationMode) -> None:
    """Refuse what is no mode, before any environment is made."""
    if isinstance(mode, tuple) and len(mode) == 2:
        if not all(isinstance(space, Space) for space in mode):
            raise TypeError(
                f"Expected both elements of observation_mode to be Spaces, got {type(mode[0])} and {type(mode[1])}"
            )
    elif mode not in ("same", "different"):
        raise ConfigurationError(
            "Invalid `observation_mode`, expected: 'same' or 'different' or tuple of single and batch observation "
            f"space, actual got {mode}"
        )


def batch_spaces(censuses: list[Census], mode: ObservationMode) -> tuple[Space[Any], Space[Any]]:
    """The single and the batched observation space; raises if the environments do not fit together."""
    spaces = [census.observation_space for census in censuses]
    single = mode[1] if isinstance(mode, tuple) else spaces[0]
    for index, space in enumerate(spaces):
        if mode == "same" and space is not single and space != single:
            raise SpacesDiffer(
                "observation_mode='same', but the sub-environments observation spaces are not equivalent. "
                f"Environment 0 has {single} and environment {index} has {space}. "
                "If this is intentional, use `observation_mode='different'` instead."
            )
        if mode != "same" and not is_space_dtype_shape_equiv(space, single):
            raise SpacesDiffer(
                f"the observation space of environment {index} has another shape or dtype than that of the batch: "
                f"{space} and {single}"
            )
    if isinstance(mode, tuple):
        return single, mode[0]
    return single, batch_space(single, len(spaces)) if mode == "same" else batch_differing_spaces(spaces)


def common_action_space(censuses: list[Census]) -> Space[Any]:
    """The action space that all environments have."""
    single = censuses[0].action_space
    for index, census in enumerate(censuses):
        if census.action_space != single:
            raise SpacesDiffer(
                "actions can only be batched if all environments have the same action space, but environment 0 has "
                f"{single} and environment {index} has {census.action_space}"
            )
    return single

"""What is really the case in every game, for who asks."""

from __future__ import annotations

from typing import Any

from shoal.vector.errors import ConfigurationError
from shoal.vector.layout import Array
from shoal.vector.parallel_env import ParallelEnv


def true_states(envs: ParallelEnv) -> Array:
    """The true states of all games of ``shoal/Cage2-v0``, as one structured array (``shoal.cyber.TRUE_STATE``)."""
    # Here, because these need Numba, which is not there where the real simulator is.
    from shoal.envs.cage2.true_state import true_states_of
    from shoal.envs.states import states_of

    states = states_of(envs)
    if "admin_sessions" not in states.dtype.names:
        raise ConfigurationError("true_states is for games of shoal/Cage2-v0, and these are of another world")
    return true_states_of(states)


def true_state_dictionaries(envs: ParallelEnv) -> list[dict[str, Any]]:
    """The same in words, shaped as CybORG shapes it, for reading rather than for computing."""
    from shoal.envs.cage2.true_state import as_dictionary

    (quirks,) = envs.get_attr("quirks", [0])
    return [as_dictionary(state, quirks) for state in true_states(envs)]

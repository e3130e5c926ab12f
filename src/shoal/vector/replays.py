"""What an environment can learn about replays, if it wants to.

A replacement does again what its predecessor had done. Most environments need not know: the same seeds and actions give the
same results. One that does something only once wants to know which calls are repetitions; one that counts its episodes,
which of them comes first, because a replay may begin with the last reset and a lost episode is not replayed at all.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

IS_REPLAYING: ContextVar[bool] = ContextVar("IS_REPLAYING", default=False)
"""Whether what environments are asked right now has been asked before."""

LISTENER = "shoal_next_episode"
"""The method that is called with the number of the episode which the next reset begins. Hardly any environment has it."""


def tell_next_episode(env: Any, episode: int) -> None:
    """Tell a new environment which episode its next reset begins, if it or one of its wrappers listens."""
    try:
        getter = getattr(env, "get_wrapper_attr", None)
        listener = getter(LISTENER) if getter is not None else getattr(env, LISTENER)
    except AttributeError:
        return
    listener(episode)

"""Which parts of an agent remember."""

from __future__ import annotations

from enum import Enum


class AGENT_ARCHS(str, Enum):  # noqa: N801, UP042  # its name and its kind are known from pomdp-baselines
    """What actor and critic see.

    ::

                        actor               critics
        Markov          this observation    this observation
        Memory          everything so far   everything so far
        Memory_Markov   this observation    everything so far
    """

    Markov = "markov"
    Memory = "memory"
    Memory_Markov = "memory-markov"

    @property
    def stores_sequences(self) -> bool:
        """Whether learning needs whole rollouts, and not single transitions."""
        return self is not AGENT_ARCHS.Markov

    @property
    def actor_remembers(self) -> bool:
        """Whether acting needs what happened before."""
        return self is AGENT_ARCHS.Memory

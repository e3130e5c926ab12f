"""Where an environment's history begins, when that is not where it was made.

To bring back an environment, everything it was ever asked has to be done again, unless there is a later point from which it
can begin. A *reset* is one, if what follows depends on nothing that was before it but the environment's random numbers:
these are noted down whenever an environment is reset, in its row of the arena's *origins*::

    sequence   episode   seed + 1   kind   random state (128 bits)   increment (128 bits)   half a word left over

An episode that could not be brought back is another: the environment begins anew, and reports with its next step that the
episode is over.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium
import numpy as np

if TYPE_CHECKING:
    from shoal.vector.messages import Replay

NUM_WORDS = 9
ORIGIN = struct.Struct(f"={NUM_WORDS}Q")
WORD = 2**64 - 1
KNOWN, SEEDED = 1, 2
Words = tuple[int, ...]


class Fault(dict[str, Any]):
    """Why an episode was lost, as the caller finds it in ``info["fault"]``: kind, signal, exit code and message."""


class Lost(NamedTuple):
    """An episode that could not be brought back."""

    observation: Any
    """The last one that the caller has seen."""
    fault: Fault
    seed: int
    """For the next episode, if nobody gives another."""


class Past(NamedTuple):
    """How an environment got somewhere, told so that any other of its kind can get there too."""

    replay: Replay
    """Of this environment alone."""
    entropy: int | None
    row: int
    """The environment that was there first: it decides about seeds that nobody gave."""
    place: int = 0
    """Which of the environments in a captured state it was."""


class Start(NamedTuple):
    """Where one environment's history begins."""

    sequence: int
    """Of the command in which it begins."""
    episode: int = 0
    seed: int | None = None
    random: Words | None = None
    """The state of its random numbers before that, where that is known."""
    is_seeded: bool = False
    """Whether it begins with a seed, which may reset more than the environment's random numbers."""
    lost: Lost | None = None
    past: Past | None = None
    """What brings a new environment there."""

    @property
    def is_new(self) -> bool:
        """Whether it begins with a new environment, to which nothing that was before matters."""
        return self.lost is not None or self.past is not None


def note_origin(
    origins: memoryview, row: int, sequence: int, episode: int, seed: int | None, is_seeded: bool, env: Any
) -> None:
    """Note down how an environment is that is about to be reset."""
    seed_word = 0 if seed is None or not 0 <= seed < WORD else seed + 1
    kind = SEEDED if is_seeded else 0
    core = getattr(env, "unwrapped", env)
    if hasattr(type(core), "random_words"):
        words = core.random_words
        ORIGIN.pack_into(origins, row * ORIGIN.size, sequence, episode, seed_word, kind | KNOWN, *words)
        return
    generator = getattr(core, "_np_random", None)
    if not isinstance(generator, np.random.Generator) or type(generator.bit_generator) is not np.random.PCG64:
        ORIGIN.pack_into(origins, row * ORIGIN.size, sequence, episode, seed_word, kind, 0, 0, 0, 0, 0)
        return
    state: dict[str, Any] = generator.bit_generator.state  # type: ignore[assignment]
    number, increment = state["state"]["state"], state["state"]["inc"]
    ORIGIN.pack_into(
        origins, row * ORIGIN.size, sequence, episode, seed_word, kind | KNOWN,
        number & WORD, number >> 64, increment & WORD, increment >> 64, state["has_uint32"] << 32 | state["uinteger"],
    )  # fmt: skip


def seed_quietly(env: Any, entropy: int, row: int) -> None:
    """Seed an environment that nobody has seeded, in the way it would do so itself, but so that it can be repeated."""
    core = getattr(env, "unwrapped", env)
    if hasattr(type(core), "seed_stream"):
        core.seed_stream(quiet_seed(entropy, row))
    elif getattr(core, "_np_random", 0) is None:
        core._np_random, core._np_random_seed = gymnasium.utils.seeding.np_random(quiet_seed(entropy, row))


def quiet_seed(entropy: int, row: int) -> int:
    """The seed of an environment that nobody has seeded."""
    return int(np.random.SeedSequence([entropy, row]).generate_state(1, np.uint64)[0])


def start_of(words: Sequence[int]) -> Start:
    """The point that these words describe."""
    sequence, episode, seed_word, kind, *random = words
    seed = seed_word - 1 if seed_word else None
    return Start(sequence, episode, seed, tuple(random) if kind & KNOWN else None, bool(kind & SEEDED))


def give_random(env: Any, random: Words) -> None:
    """Set an environment's random numbers to a state that was noted down."""
    core = getattr(env, "unwrapped", env)
    if hasattr(type(core), "random_words"):
        core.random_words = random
        return
    low, high, increment_low, increment_high, left_over = random
    bit_generator = np.random.PCG64(0)
    bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": high << 64 | low, "inc": increment_high << 64 | increment_low},
        "has_uint32": left_over >> 32,
        "uinteger": left_over & 0xFFFFFFFF,
    }
    core._np_random = np.random.Generator(bit_generator)


class Interrupted:
    """A new environment in the place of one whose episode was lost: its first step says so, then it is as any other."""

    def __init__(self, env: Any, lost: Lost) -> None:
        self.env = env
        self._lost: Lost | None = lost
        self._seed: int | None = lost.seed

    @property
    def has_news(self) -> bool:
        """Whether it is still not as any other."""
        return self._lost is not None or self._seed is not None

    def step(self, action: Any) -> Any:
        """The end of the lost episode, once; afterwards, the environment's step."""
        if self._lost is None:
            return self.env.step(action)
        lost, self._lost = self._lost, None
        return lost.observation, 0.0, False, True, {"fault": Fault(lost.fault)}

    def reset(self, **keywords: Any) -> Any:
        """A new episode. The first one has a seed in any case, so that it can be repeated."""
        if self._seed is not None and keywords.get("seed") is None:
            keywords["seed"] = self._seed
        self._lost = self._seed = None
        return self.env.reset(**keywords)

    def __getattr__(self, name: str) -> Any:
        if name == "env":  # not there yet: this object is being unpickled
            raise AttributeError(name)
        return getattr(self.env, name)

"""Where each environment's data lies.

A space is taken apart into its leaves. A leaf of fixed size (Box, Discrete, MultiDiscrete, MultiBinary) has a slot in the
arena; a leaf of any other kind (Text, Sequence, Graph, OneOf, custom spaces) is *loose*: its values travel with the
messages. Dict and Tuple only arrange their leaves, so a Dict of an image and a text has one of each.

The arena holds, one after the other and each contiguous over all environments::

    observation leaf 0   (num_envs, *shape)
    observation leaf 1   ...
    reward               (num_envs,) float64
    terminated           (num_envs,) bool
    truncated            (num_envs,) bool
    tickets              (num_envs,) int64, which command an environment has carried out last, when it was asked alone
    digests              (num_envs,) uint64, of the last result, where the caller cannot keep the result itself
    origins              (num_envs, 9) uint64, how the last episode began, where environments may have to be brought back
    sheet                (num_envs, 256) uint8, for infos that are alike in every step, where memory is shared
    action leaf 0        (num_envs, *shape)
    ...                  ... and again in double precision, for each action leaf of less

With *slots*, the observations of so many steps lie one after the other, and every step writes into the next slot, so that
those of the steps before stay as they are for a while. Which one a step writes into is the remainder of its command's
sequence number.

The same arithmetic runs in the parent and in every worker, so only the spaces are sent, never the offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from shoal.vector.starts import NUM_WORDS

Array = np.ndarray[Any, np.dtype[Any]]
Buffer = Any  # whatever np.frombuffer takes: bytearray, mmap, memoryview
Rows = range | list[int]
"""Environments, by index. Those of one worker are a range; a subset is a list."""

ALIGNMENT = 64  # a cache line, so that two fields never share one
SHEET_NBYTES = 256


@dataclass(frozen=True, slots=True)
class FixedLeaf:
    """A part of a space with a slot in the arena."""

    path: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    number: int
    """Its place among the fixed leaves of its space."""


@dataclass(frozen=True, slots=True)
class LooseLeaf:
    """A part of a space whose values have no fixed size."""

    path: str
    number: int
    """Its place among the loose leaves of its space."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A Dict (with keys) or a Tuple (without) of further nodes."""

    keys: tuple[Any, ...] | None
    children: tuple[Node, ...]


Node = FixedLeaf | LooseLeaf | Branch


def take_apart(space: spaces.Space[Any], name: str) -> Node:
    """Describe ``space`` as a tree of leaves; ``name`` begins the path that messages show."""
    counters = {FixedLeaf: 0, LooseLeaf: 0}

    def next_number(kind: type) -> int:
        counters[kind] += 1
        return counters[kind] - 1

    def describe(space: spaces.Space[Any], path: str) -> Node:
        if isinstance(space, spaces.Dict):
            keys = tuple(space.spaces)
            return Branch(keys, tuple(describe(space[key], f"{path}[{key!r}]") for key in keys))
        if isinstance(space, spaces.Tuple):
            parts = enumerate(space.spaces)
            return Branch(None, tuple(describe(part, f"{path}[{i}]") for i, part in parts))
        if isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
            # By way of its name: NumPy keeps one object per ordinary dtype, and comparing by identity is fast.
            dtype, shape = np.dtype(np.dtype(space.dtype).str), space.shape
            if not dtype.hasobject and shape is not None:
                return FixedLeaf(path, dtype, tuple(shape), next_number(FixedLeaf))
        return LooseLeaf(path, next_number(LooseLeaf))

    return describe(space, name)


def fixed_leaves(node: Node) -> Iterator[FixedLeaf]:
    """The fixed leaves below ``node``, in order."""
    if isinstance(node, FixedLeaf):
        yield node
    elif isinstance(node, Branch):
        for child in node.children:
            yield from fixed_leaves(child)


def loose_leaves(node: Node) -> Iterator[LooseLeaf]:
    """The loose leaves below ``node``, in order."""
    if isinstance(node, LooseLeaf):
        yield node
    elif isinstance(node, Branch):
        for child in node.children:
            yield from loose_leaves(child)


class Arena:
    """A buffer seen as arrays: every environment's observation, reward, flags and action."""

    observations: list[Array]
    actions: list[Array]
    action_block: Array
    """The same as bytes."""
    wide_actions: dict[int, Array]
    """Room for actions that the caller gives in double precision, by number of the leaf."""
    reward: Array
    terminated: Array
    truncated: Array
    tickets: Array
    digests: Array
    origins: Array
    sheet: Array
    results: list[Array]
    """What an environment's step writes."""
    result_blocks: list[Array]
    """The same as bytes, and in as few pieces as there are: the quickest to copy."""
    shipped: list[Array]
    """What has to be sent where memory is not shared."""

    def __init__(self, layout: Layout, buffer: Buffer) -> None:
        arrays = iter(layout.views(buffer))
        self.buffer = buffer
        self.num_slots = layout.num_slots
        self._slots = [[next(arrays) for _ in fixed_leaves(layout.observation)] for _ in range(layout.num_slots)]
        self._blocks, self.action_block = _blocks(layout, buffer)
        self.reward, self.terminated, self.truncated = next(arrays), next(arrays), next(arrays)
        self.tickets, self.digests, self.origins = next(arrays), next(arrays), next(arrays)
        self.sheet = next(arrays)
        self.actions = [next(arrays) for _ in fixed_leaves(layout.action)]
        self.wide_actions = {leaf.number: next(arrays) for leaf in layout.narrow_actions()}
        self.turn_to(0)

    def turn_to(self, slot: int) -> None:
        """Let the observations be those of this slot."""
        self.slot = slot
        self.observations = self._slots[slot]
        self.results = [*self.observations, self.reward, self.terminated, self.truncated]
        self.result_blocks = self._blocks[slot]
        self.shipped = [*self.results, self.digests, *([self.origins] if self.origins.size else [])]

    def carry_over(self, slot: int) -> None:
        """Copy the observations into another slot, for a command that will not write all of them."""
        for target, source in zip(self._slots[slot], self.observations, strict=True):
            target[:] = source

    def given_actions(self, wide: tuple[int, ...]) -> list[Array]:
        """The arrays that hold a batch of actions, some of them in double precision."""
        return [self.wide_actions[i] if i in wide else array for i, array in enumerate(self.actions)]


@dataclass(frozen=True)
class Layout:
    """The fields of an arena for ``num_envs`` environments with these spaces."""

    observation: Node
    action: Node
    num_envs: int
    num_slots: int = 1
    is_journaled: bool = False
    has_sheet: bool = False

    @classmethod
    def of(
        cls,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        num_envs: int,
        num_slots: int = 1,
        *,
        is_journaled: bool = False,
        has_sheet: bool = False,
    ) -> Layout:
        """The layout for environments that all have these two spaces."""
        observation, action = take_apart(observation_space, "observation"), take_apart(action_space, "action")
        return cls(observation, action, num_envs, num_slots, is_journaled, has_sheet)

    def narrow_actions(self) -> Iterator[FixedLeaf]:
        """The action leaves in which a double would have to be rounded."""
        return (leaf for leaf in fixed_leaves(self.action) if leaf.dtype.kind == "f" and leaf.dtype.itemsize < 8)

    def _fields(self) -> list[tuple[np.dtype[Any], tuple[int, ...]]]:
        numbers = [np.dtype(kind) for kind in (np.float64, np.bool_, np.bool_, np.int64, np.uint64)]
        return [
            *((leaf.dtype, leaf.shape) for _ in range(self.num_slots) for leaf in fixed_leaves(self.observation)),
            *((dtype, ()) for dtype in numbers),
            (np.dtype(np.uint64), (NUM_WORDS if self.is_journaled else 0,)),
            (np.dtype(np.uint8), (SHEET_NBYTES if self.has_sheet else 0,)),
            *((leaf.dtype, leaf.shape) for leaf in fixed_leaves(self.action)),
            *((np.dtype(np.float64), leaf.shape) for leaf in self.narrow_actions()),
        ]

    def placed(self) -> Iterator[tuple[int, np.dtype[Any], tuple[int, ...], int]]:
        """All fields, in order: where each begins, its type, its shape and how many bytes it has."""
        offset = 0
        for dtype, shape in self._fields():
            full = (self.num_envs, *shape)
            size = dtype.itemsize * int(np.prod(full, dtype=np.int64))
            yield offset, dtype, full, size
            offset += -(-size // ALIGNMENT) * ALIGNMENT

    @property
    def has_loose_observations(self) -> bool:
        """Whether some part of an observation has no place in the arena."""
        return any(True for _ in loose_leaves(self.observation))

    @property
    def result_nbytes(self) -> int:
        """How many bytes one environment's step writes."""
        numbers = np.dtype(np.float64).itemsize + 2
        return numbers + sum(
            leaf.dtype.itemsize * int(np.prod(leaf.shape, dtype=np.int64)) for leaf in fixed_leaves(self.observation)
        )

    @property
    def nbytes(self) -> int:
        """How large a buffer must be."""
        return max(ALIGNMENT, sum(-(-size // ALIGNMENT) * ALIGNMENT for *_, size in self.placed()))

    def views(self, buffer: Buffer) -> list[Array]:
        """The arrays of all fields, in order, as views into ``buffer``."""
        return [
            np.frombuffer(buffer, dtype, count=size // dtype.itemsize, offset=offset).reshape(shape)
            for offset, dtype, shape, size in self.placed()
        ]


def _blocks(layout: Layout, buffer: Buffer) -> tuple[list[list[Array]], Array]:
    """The results' bytes, for each slot, and the actions'.

    A slot's results are its observations and the numbers that all slots share: one piece if they are neighbours.
    """
    offsets = [*(offset for offset, *_ in layout.placed()), layout.nbytes]
    slots, leaves = layout.num_slots, sum(1 for _ in fixed_leaves(layout.observation))
    numbers, actions = slots * leaves, slots * leaves + 7

    def block(first: int, stop: int) -> Array:
        return np.frombuffer(buffer, np.uint8, offsets[stop] - offsets[first], offsets[first])

    results = [[block(slot * leaves, (slot + 1) * leaves), block(numbers, numbers + 3)] for slot in range(slots)]
    if slots == 1:
        results = [[block(0, numbers + 3)]]
    return results, block(actions, actions + sum(1 for _ in fixed_leaves(layout.action)))


def private_arena(layout: Layout) -> Arena:
    """An arena in ordinary memory."""
    return Arena(layout, np.zeros(layout.nbytes, dtype=np.uint8))


def arranged(node: Node, fixed: Sequence[Any], loose: Sequence[Any]) -> Any:
    """One observation, put together from the values of its leaves."""
    if isinstance(node, FixedLeaf):
        return fixed[node.number]
    if isinstance(node, LooseLeaf):
        return loose[node.number]
    parts = [arranged(child, fixed, loose) for child in node.children]
    return tuple(parts) if node.keys is None else dict(zip(node.keys, parts, strict=True))


def as_index(rows: Rows) -> slice | list[int]:
    """``rows`` in the form that selects them from an array, as a view where that is possible."""
    return slice(rows.start, rows.stop) if isinstance(rows, range) else rows


def as_slice(rows: Rows) -> slice | None:
    """What selects ``rows`` from an array as a view, where that is possible."""
    if not rows:
        return None
    step = rows[1] - rows[0] if len(rows) > 1 else 1
    evenly = range(rows[0], rows[-1] + 1, step) if step > 0 else range(0)
    return slice(evenly.start, evenly.stop, step) if [*rows] == [*evenly] else None


def pack(arrays: Sequence[Array], rows: Rows) -> list[memoryview]:
    """The bytes of these rows, array by array, ready for a gathering send. No copy where rows are a range."""
    index = as_index(rows)
    parts = (np.ascontiguousarray(array[index]) for array in arrays)
    return [part.reshape(-1).view(np.uint8).data for part in parts if part.nbytes]


def unpack(arrays: Sequence[Array], rows: Rows, data: memoryview) -> None:
    """Write bytes made by :func:`pack` into these rows."""
    index, offset = as_index(rows), 0
    for array in arrays:
        count = len(rows) * int(np.prod(array.shape[1:], dtype=np.int64))
        values = np.frombuffer(data, array.dtype, count=count, offset=offset)
        array[index] = values.reshape((len(rows), *array.shape[1:]))
        offset += values.nbytes


def packed_nbytes(arrays: Sequence[Array], rows: Rows) -> int:
    """How many bytes :func:`pack` gives for these rows."""
    return sum(len(rows) * array.dtype.itemsize * int(np.prod(array.shape[1:], dtype=np.int64)) for array in arrays)

"""What belongs to one process alone, and what a process that is forked from it does not get.

A socket counts as closed only when nobody holds it any more. A child that somebody forks from the caller inherits the
caller's ends, and would keep workers waiting for a caller that is gone. A child that an environment forks from a worker
inherits the worker's socket, and the memory that it shares with the caller: whatever the child wrote there would be taken
for the worker's. So every forked child first puts ``/dev/null`` in the place of such descriptors, and private copies in the
place of such memory. The descriptors are not closed: the child has copies of the objects that will close these
numbers some day, and by then a number might be that of something else.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from typing import NamedTuple

_FIXED = 0x10  # the same on Linux and macOS; Python has no name for it
IN_PLACE = mmap.MAP_PRIVATE | _FIXED
"""For private memory at an address where there is other memory now."""

map_at = ctypes.CDLL(None, use_errno=True).mmap
map_at.restype = ctypes.c_void_p
map_at.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]

_owned: set[int] = set()


class _Shared(NamedTuple):
    """Memory that is mapped from a file, and where."""

    mapping: weakref.ref[mmap.mmap]
    address: int
    descriptor: int
    file: os.stat_result


_shared: list[_Shared] = []


def own(descriptor: int) -> int:
    """Give up this descriptor in every process that will be forked from this one."""
    _owned.add(descriptor)
    return descriptor


def disown(descriptor: int) -> None:
    """Forget a descriptor that is about to be closed."""
    _owned.discard(descriptor)


def own_memory(mapping: mmap.mmap, descriptor: int) -> mmap.mmap:
    """Let every process that will be forked from this one have a private copy of this mapping of a file."""
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    _shared.append(_Shared(weakref.ref(mapping), address, descriptor, os.fstat(descriptor)))
    return mapping


def _give_up_owned() -> None:
    _make_private()
    if not _owned:
        return
    os.close(next(iter(_owned)))  # where no other number is free, this one is
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor in _owned - {null}:
        os.dup2(null, descriptor, inheritable=False)
    if null not in _owned:
        os.close(null)
    _owned.clear()


def _make_private() -> None:
    for each in _shared:
        mapping = each.mapping()
        if mapping is not None:
            where, access = (each.address, len(mapping)), mmap.PROT_READ | mmap.PROT_WRITE
            if _is_open(each):
                map_at(*where, access, IN_PLACE, each.descriptor, 0)
            else:  # an environment has closed it: what is in that memory cannot be kept
                map_at(*where, access, IN_PLACE | mmap.MAP_ANONYMOUS, -1, 0)
    _shared.clear()


def _is_open(shared: _Shared) -> bool:
    try:
        return os.path.samestat(os.fstat(shared.descriptor), shared.file)
    except OSError:
        return False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_give_up_owned)

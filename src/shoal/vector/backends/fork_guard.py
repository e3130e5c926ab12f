"""Descriptors that belong to the caller alone.

A socket counts as closed only when nobody holds it any more. A child that somebody forks from the caller inherits the
caller's ends, and would keep workers waiting for a caller that is gone. So every forked child gives them up first.

It does not close them but puts ``/dev/null`` in their place: the child has copies of the objects that will close these
numbers some day, and by then a number might be that of something else.
"""

from __future__ import annotations

import os

_owned: set[int] = set()


def own(descriptor: int) -> int:
    """Give up this descriptor in every process that will be forked from this one."""
    _owned.add(descriptor)
    return descriptor


def disown(descriptor: int) -> None:
    """Forget a descriptor that is about to be closed."""
    _owned.discard(descriptor)


def _give_up_owned() -> None:
    if not _owned:
        return
    os.close(next(iter(_owned)))  # where no other number is free, this one is
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor in _owned - {null}:
        os.dup2(null, descriptor, inheritable=False)
    if null not in _owned:
        os.close(null)
    _owned.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_give_up_owned)

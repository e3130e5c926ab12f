"""Descriptors that belong to the caller alone.

A socket counts as closed only when nobody holds it any more. A child that somebody forks from the caller inherits the
caller's ends, and would keep workers waiting for a caller that is gone. So every forked child closes them first.
"""

from __future__ import annotations

import os

_owned: set[int] = set()


def own(descriptor: int) -> int:
    """Close this descriptor in every process that will be forked from this one."""
    _owned.add(descriptor)
    return descriptor


def disown(descriptor: int) -> None:
    """Forget a descriptor that is about to be closed."""
    _owned.discard(descriptor)


def _close_owned() -> None:
    for descriptor in _owned:
        try:
            os.close(descriptor)
        except OSError:
            pass  # closed already
    _owned.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_owned)

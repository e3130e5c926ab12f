"""Looking a few times before going to sleep.

Being woken costs more than many short steps do: the processor has to leave its idle state, and on a virtual machine the host
is asked too. So whoever waits may first look again and again for a moment, and give way to others in between. That is only
worth it when the wait will be short, and the best guess is that it will be like the last one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

SPIN_SECONDS = 10e-3
LONG_SECONDS = 50e-3  # work that takes this long is not worth a hurry, and looking would slow down who still works

give_way: Callable[[], None] = getattr(os, "sched_yield", lambda: time.sleep(0))


def look(poll: Callable[[], Found], seconds: float) -> tuple[Found, float]:
    """Poll until something is found or the time is over; returns what was found and how long it took."""
    clock = time.perf_counter
    begin = clock()
    found = poll()
    waited = 0.0
    while not found and waited < seconds:
        give_way()
        found = poll()
        waited = clock() - begin
    return found, waited

"""Steps that overlap: environments that wait need not wait one after the other.

::

    Lanes        place 0 ─▶ thread: step ─ waits ─ done        each environment has a thread of its own, on which it is made,
                 place 1 ─▶ thread: step ─ waits ─ done        reset, stepped and closed
    EventLoop    all     ─▶ one thread: await step, step, ...  environments whose methods are coroutines

Only what environments do happens there. What becomes of their results is decided by who asked, in one place and in order, so
results are the same as without any of this.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import itertools
import os
import threading
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol

from shoal.vector.errors import CannotStart
from shoal.vector.forked import end_if_forked

LEAVE_SECONDS = 1.0
"""How long a thread may take to end. One that is stuck in an environment is left behind, and does not keep the process."""

Work = Callable[[int], Any]
"""Does something with one environment, given its number among those that are asked; may return something to await."""


_Shares = list[tuple["SimpleQueue[Callable[[], None] | None]", list[int]]]
"""Threads' queues, and the numbers of what is to be done there."""


class Result(NamedTuple):
    """What came of it."""

    value: Any
    error: BaseException | None = None


class Overlap(Protocol):
    """A way for several environments to be at work at the same time."""

    def run_all(self, places: Sequence[int], work: Work) -> list[Result]:
        """Do this with the environments in these places, and wait for all of them."""

    def close(self) -> None:
        """End the threads."""


def is_coroutine_env(env: Any) -> bool:
    """Whether stepping or resetting this environment gives something to await."""
    core = getattr(env, "unwrapped", env)
    return any(inspect.iscoroutinefunction(getattr(core, name, None)) for name in ("step", "reset"))


def attempt(work: Work, number: int, events: EventLoop | None) -> Result:
    """Do it here and now."""
    try:
        value = work(number)
        if events is not None and inspect.isawaitable(value):
            value = events.finish(value)
    except BaseException as error:
        return Result(None, error)
    return Result(value)


class Lanes:
    """Threads, each for the same environments always: some can be used only by the thread that made them."""

    def __init__(self, num_threads: int, name: str) -> None:
        self.events: EventLoop | None = None
        """Where what is to be awaited is awaited."""
        self.wakes_all = False
        """Whether threads are woken together, and not one by the other."""
        self.home = os.getpid()
        """The process that the threads are in. In a copy of it that an environment forks, nobody would wait for them."""
        self._shares: dict[range, _Shares] = {}
        """Who does what when all environments, or those of a part, are asked."""
        self._queues: list[SimpleQueue[Callable[[], None] | None]] = []
        self._threads: list[threading.Thread] = []
        for number in range(num_threads):
            queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
            thread = threading.Thread(target=_serve, args=(queue,), name=f"{name}-{number}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                # The system allows no more of them. With fewer, some environments take turns.
                if not self._threads:
                    raise CannotStart(f"no thread could be started for the environments: {error}") from error
                break
            self._queues.append(queue)
            self._threads.append(thread)

    def run_all(self, places: Sequence[int], work: Work) -> list[Result]:
        """Do this with the environments in these places, each on its thread, and wait for all of them."""
        results: dict[int, Result] = {}

        def do(number: int) -> None:
            results[number] = attempt(work, number, self.events)

        self.do_all(places, do)
        return [results[number] for number in range(len(places))]

    def do_all(self, places: Sequence[int], do: Callable[[int], None]) -> None:
        """The same with something that returns nothing, and should raise nothing."""
        if not places:
            return
        if not isinstance(places, range):
            shares = self._divided(places)
        elif places in self._shares:
            shares = self._shares[places]
        else:
            shares = self._shares[places] = self._divided(places)
        _Round(do, shares, self.home, wakes_all=self.wakes_all).run()

    def _divided(self, places: Sequence[int]) -> _Shares:
        """The numbers of these places for each thread that has any."""
        shares: dict[int, list[int]] = {}
        for number, place in enumerate(places):
            shares.setdefault(place % len(self._queues), []).append(number)
        return [(self._queues[lane], numbers) for lane, numbers in shares.items()]

    def start(self, place: int, work: Callable[[], None]) -> None:
        """Do this on the thread of that environment, and do not wait for it."""
        self._queues[place % len(self._queues)].put(work)

    def close(self) -> None:
        """End the threads."""
        for queue in self._queues:
            queue.put(None)
        for thread in self._threads:
            thread.join(LEAVE_SECONDS)


class EventLoop:
    """One thread in which coroutines run."""

    def __init__(self, name: str) -> None:
        self._home = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run_all(self, places: Sequence[int], work: Work) -> list[Result]:
        """Do this with the environments in these places, and wait for all of them."""

        async def run_everyone() -> list[Result]:
            return await asyncio.gather(*[self._attempt(partial(work, number)) for number in range(len(places))])

        results: list[Result] = self._wait_for(run_everyone())
        return results

    def finish(self, awaitable: Awaitable[Any]) -> Any:
        """What comes of one, for another thread."""
        result: Result = self._wait_for(self._attempt(lambda: awaitable))
        if result.error is not None:
            raise result.error
        return result.value

    async def _attempt(self, begin: Callable[[], Any]) -> Result:
        """Begin something, and wait for it. What it raises goes no further: ``SystemExit`` would end the event loop."""
        try:
            value = begin()
            if isinstance(value, Coroutine):
                value = _ending_copies(value, self._home)
            return Result(await value if inspect.isawaitable(value) else value)
        except BaseException as error:
            return Result(None, error)
        finally:
            end_if_forked(self._home)

    def _wait_for(self, coroutine: Any) -> Any:
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            # Whoever waits gives up. Nothing may still be under way when the environments are reset.
            future.cancel()
            with suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop).result(LEAVE_SECONDS)
            raise

    def close(self) -> None:
        """End the thread, and what still runs in it."""
        if self._loop.is_closed():
            return
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result(LEAVE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LEAVE_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()


class _Round:
    """One thing to do for some environments, by several threads."""

    def __init__(self, do: Callable[[int], None], shares: _Shares, home: int, *, wakes_all: bool) -> None:
        self._do, self._shares, self._home, self._is_chain = do, shares, home, not wakes_all
        self._error: BaseException | None = None
        self._finished = itertools.count(1)  # counting is one instruction, in which no other thread can come between
        self._is_over = threading.Lock()
        self._context = contextvars.copy_context()  # environments may want to know that they are being brought back

    def run(self) -> None:
        """Begin, and wait for all of them."""
        self._is_over.acquire()
        for turn in range(1 if self._is_chain else len(self._shares)):
            self._begin(turn)
        self._is_over.acquire()
        if self._error is not None:
            raise self._error

    def _begin(self, turn: int) -> None:
        job = partial(self._do_share, turn)
        self._shares[turn][0].put(partial(self._context.copy().run, job) if self._context else job)

    def _do_share(self, turn: int) -> None:
        # Each wakes the next before it begins: woken together, all of them would queue for the interpreter.
        if self._is_chain and turn + 1 < len(self._shares):
            self._begin(turn + 1)
        try:
            for number in self._shares[turn][1]:
                self._do(number)
                end_if_forked(self._home)
        except BaseException as error:  # a fault of ours, which nobody would ever hear of
            self._error = error
        if next(self._finished) == len(self._shares):
            self._is_over.release()


def _serve(queue: SimpleQueue[Callable[[], None] | None]) -> None:
    while (work := queue.get()) is not None:
        work()
        del work  # what it refers to is not this thread's to keep


@types.coroutine
def _ending_copies(coroutine: Coroutine[Any, Any, Any], home: int) -> Generator[Any, Any, Any]:
    """Await it. A process that it forks ends when it pauses there: otherwise other coroutines would go on there too."""
    go_on: Callable[[], Any] = partial(coroutine.send, None)
    while True:
        try:
            awaited = go_on()
        except StopIteration as end:
            return end.value
        end_if_forked(home)
        try:
            go_on = partial(coroutine.send, (yield awaited))
        except BaseException as error:
            go_on = partial(coroutine.throw, error)


async def _cancel_others() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

"""What every policy is: it is asked for turns, and answers them all together, or whichever is ready first.

::

    generations = policy.generate(requests)            lockstep: all of them, in this order

    policy.submit(requests)                            first-ready: returns at once
    for request, generation in policy.ready(timeout):  whichever is done
        ...

There are two ways to write one. A :class:`BatchPolicy` answers what has come together in one call, as a local model does.
A :class:`ConcurrentPolicy` answers each by itself, many at a time, as a server does.
"""

from __future__ import annotations

import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from shoal.llm.policies.requests import Generation, Key, Request
from shoal.vector.arguments import check_count
from shoal.vector.errors import ConfigurationError, ShoalError

CLOSING_SECONDS = 1.0
Answered = tuple[Request, Generation]


class PolicyError(ShoalError):
    """A policy can answer nothing at all: a wrong key, a model that is not there. The rollout cannot go on."""


class Policy(ABC):
    """Answers requests."""

    name = "policy"
    answers_together = False
    """Whether what has come together is answered in one call, so that it is worth waiting for more."""

    @abstractmethod
    def submit(self, requests: Sequence[Request]) -> None:
        """Begin to answer these. Returns at once."""

    @abstractmethod
    def ready(self, timeout: float | None = None) -> list[Answered]:
        """What has been answered since, at least one; nothing when the time is over, or when nothing was asked."""

    @abstractmethod
    def forget(self, requests: Sequence[Request]) -> None:
        """Nobody waits for these any more."""

    def generate(self, requests: Sequence[Request]) -> list[Generation]:
        """Answer all of these, and wait for it."""
        if len({(request.key, request.turn) for request in requests}) < len(requests):
            raise ConfigurationError("two requests are for the same turn of the same trajectory")
        self.submit(requests)
        answers: dict[tuple[Key, int], Generation] = {}
        while answered := self.ready():
            answers |= {(request.key, request.turn): generation for request, generation in answered}
        return [answers[request.key, request.turn] for request in requests]

    def end(self, key: Key) -> None:  # noqa: B027  # most policies remember nothing
        """This trajectory is over."""

    def close(self) -> None:  # noqa: B027
        """Let go of everything."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


class BatchPolicy(Policy):
    """Answers what has come together, in batches of at most ``batch_size``. A subclass says how."""

    answers_together = True

    def __init__(self, batch_size: int | None = None) -> None:
        if batch_size is not None:
            check_count("batch_size", batch_size)
        self.batch_size = batch_size
        self._waiting: dict[tuple[Key, int], Request] = {}

    @abstractmethod
    def answer(self, requests: Sequence[Request]) -> list[Generation]:
        """Answer these, in this order."""

    def submit(self, requests: Sequence[Request]) -> None:
        """Put these into the next batch."""
        self._waiting.update(((request.key, request.turn), request) for request in requests)

    def ready(self, timeout: float | None = None) -> list[Answered]:
        """Answer a batch now."""
        requests = list(self._waiting.values())[: self.batch_size]
        if not requests:
            return []
        generations = self.answer(requests)
        for request in requests:
            self._waiting.pop((request.key, request.turn), None)
        return list(zip(requests, generations, strict=True))

    def forget(self, requests: Sequence[Request]) -> None:
        """Leave these out of the next batch."""
        for request in requests:
            self._waiting.pop((request.key, request.turn), None)


class ConcurrentPolicy(Policy):
    """Answers each request by itself, ``concurrency`` of them at a time, in threads. A subclass says how."""

    def __init__(self, concurrency: int = 64) -> None:
        check_count("concurrency", concurrency)
        self.concurrency = concurrency
        self._asked: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._answered: queue.SimpleQueue[tuple[Request, Generation | BaseException]] = queue.SimpleQueue()
        self._wanted: set[tuple[Key, int]] = set()
        self._threads: list[threading.Thread] = []

    @abstractmethod
    def answer_one(self, request: Request) -> Generation:
        """Answer this. It is called in many threads at once."""

    def submit(self, requests: Sequence[Request]) -> None:
        """Hand these to the threads."""
        self._wanted.update((request.key, request.turn) for request in requests)
        for request in requests:
            self._asked.put(request)
        # Daemons: a server that never answers must not keep the program from ending.
        for _ in range(min(self.concurrency, len(self._wanted)) - len(self._threads)):
            thread = threading.Thread(target=self._work, name=f"shoal-{self.name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        while (request := self._asked.get()) is not None:
            if (request.key, request.turn) in self._wanted:
                try:
                    self._answered.put((request, self.answer_one(request)))
                except BaseException as error:  # whoever waits must hear of it
                    self._answered.put((request, error))

    def ready(self, timeout: float | None = None) -> list[Answered]:
        """Wait until one of them is answered, and take all that are."""
        found: list[Answered] = []
        while self._wanted:
            try:
                request, generation = self._answered.get(timeout=0 if found else timeout)
            except queue.Empty:
                break
            if (request.key, request.turn) not in self._wanted:
                continue
            self._wanted.discard((request.key, request.turn))
            if isinstance(generation, BaseException):
                raise generation
            found.append((request, generation))
        return found

    def forget(self, requests: Sequence[Request]) -> None:
        """What has not been begun never is; what has is dropped."""
        self._wanted.difference_update((request.key, request.turn) for request in requests)

    def close(self) -> None:
        """End the threads that are idle; others end after what they are at."""
        self._wanted.clear()
        for _ in self._threads:
            self._asked.put(None)
        end = time.monotonic() + CLOSING_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        self._threads.clear()


class FunctionPolicy(BatchPolicy):
    """A function from requests to texts (or generations), as a policy."""

    name = "function"

    def __init__(self, function: Callable[[Sequence[Request]], Sequence[Any]], batch_size: int | None = None) -> None:
        super().__init__(batch_size)
        self._function = function

    def answer(self, requests: Sequence[Request]) -> list[Generation]:
        """Call it."""
        answers = list(self._function(requests))
        if len(answers) != len(requests):
            raise PolicyError(f"the policy was asked for {len(requests)} turns, and gave {len(answers)}")
        return [one if isinstance(one, Generation) else Generation(str(one)) for one in answers]


def as_policy(value: Any) -> Policy:
    """A policy, or a function of requests that returns their texts."""
    if isinstance(value, Policy):
        return value
    if callable(value):
        return FunctionPolicy(value)
    raise ConfigurationError(
        f"a policy must be a shoal.llm.Policy, or a function from requests to texts, got {value!r:.200}"
    )

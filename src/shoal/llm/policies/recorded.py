"""A policy that says again what was said before, and one that writes down what another says."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from shoal.llm.policies.policy import Answered, BatchPolicy, Policy, PolicyError
from shoal.llm.policies.requests import Generation, Key, Message, Request
from shoal.runs.durable import reason_of
from shoal.runs.json_lines import append_lines, read_lines


class RecordingPolicy(Policy):
    """Asks another policy, and appends what it answers to a file of JSON lines, which :class:`RecordedPolicy` reads."""

    name = "recording"

    def __init__(self, policy: Policy, path: str | os.PathLike[str]) -> None:
        self._policy, self._path = policy, Path(path)
        self.answers_together = policy.answers_together

    def submit(self, requests: Sequence[Request]) -> None:
        """Ask the other."""
        self._policy.submit(requests)

    def ready(self, timeout: float | None = None) -> list[Answered]:
        """What the other has answered; it is in the file before it is returned."""
        answered = self._policy.ready(timeout)
        lines = "".join(
            f"{json.dumps({'key': one.key, 'turn': one.turn, 'asked': digest(one.messages), **_fields(generation)})}\n"
            for one, generation in answered
        )
        if lines:
            append_lines(self._path, lines.encode())
        return answered

    def forget(self, requests: Sequence[Request]) -> None:
        """Tell the other."""
        self._policy.forget(requests)

    def end(self, key: Key) -> None:
        """Tell the other."""
        self._policy.end(key)

    def close(self) -> None:
        """Close the other."""
        self._policy.close()


class RecordedPolicy(BatchPolicy):
    """Says what was said before in the same turn of the same trajectory.

    It sees that it was asked the same: otherwise the world has become another, and what was said then means nothing now.
    """

    name = "recorded"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self._path = Path(path)
        try:
            lines = [line for _, line in read_lines(self._path) if line is not None]
        except OSError as error:
            raise PolicyError(f"the recording {self._path} cannot be read: {reason_of(error)}") from error
        self._said = {(tuple(line["key"]), line["turn"]): line for line in lines}

    def answer(self, requests: Sequence[Request]) -> list[Generation]:
        """Look it up."""
        return [self._recorded(request) for request in requests]

    def _recorded(self, request: Request) -> Generation:
        line = self._said.get((request.key, request.turn))
        where = f"turn {request.turn} of trajectory {'/'.join(map(str, request.key))}"
        if line is None:
            raise PolicyError(f"{where} is not in the recording {self._path}")
        if line["asked"] != digest(request.messages):
            raise PolicyError(f"{where} begins with another prompt than when {self._path} was recorded")
        told: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in line.items()
        }
        return Generation(**{name: told[name] for name in _NAMES if name in told})


def digest(messages: Sequence[Message]) -> str:
    """What tells conversations apart."""
    return hashlib.blake2b(json.dumps(list(messages)).encode(), digest_size=8).hexdigest()


_DEFAULTS: dict[str, Any] = asdict(Generation(""))
_NAMES = tuple(_DEFAULTS)


def _fields(generation: Generation) -> dict[str, Any]:
    """What is not as it usually is."""
    return {name: value for name, value in asdict(generation).items() if name == "text" or value != _DEFAULTS[name]}

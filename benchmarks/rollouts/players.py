"""Policies whose time is known: one that sleeps, and a server in a process of its own."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from shoal.llm import ConcurrentPolicy, Generation, Request

MOVES = ("up", "down", "left", "right")


def said(messages: Any, seed: int) -> tuple[str, np.random.Generator]:
    """A move, and random numbers for all else; both depend on what was asked alone."""
    digest = hashlib.sha256(json.dumps([list(messages), seed]).encode()).digest()
    return f"<action>{MOVES[digest[0] % 4]}</action>", np.random.default_rng(list(digest))


class SleepingPolicy(ConcurrentPolicy):
    """Has so many slots for generation. An answer takes a time with a heavy tail, as lengths of answers have."""

    name = "sleeping"

    def __init__(self, slots: int, mean_seconds: float, shape: float = 1.5, longest: float = 20.0) -> None:
        super().__init__(slots)
        self._unit, self._shape, self._longest = mean_seconds, shape, longest
        self.slept = 0.0

    def answer_one(self, request: Request) -> Generation:
        """Sleep, then say something."""
        text, random = said(request.messages, request.seed)
        # Pareto's distribution with this shape has a mean of 1 / (shape - 1) above its minimum.
        seconds = self._unit * min(self._longest, random.pareto(self._shape) * (self._shape - 1))
        self.slept += seconds
        time.sleep(seconds)
        return Generation(text)


class Handler(BaseHTTPRequestHandler):
    """OpenAI's protocol."""

    protocol_version = "HTTP/1.1"
    seconds = 0.0

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(self.seconds)
        text, _ = said(asked["messages"], asked["seed"])
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        reply = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def serve(pipe: Any, seconds: float) -> None:
    """Until the process is ended."""
    Handler.seconds = seconds
    ThreadingHTTPServer.request_queue_size = 1024
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        pipe.send(server.server_address[1])
        server.serve_forever()


@contextmanager
def http_server(seconds: float) -> Iterator[str]:
    """The address of a server that takes so long for an answer."""
    context = multiprocessing.get_context("spawn")
    ours, its = context.Pipe()
    process = context.Process(target=serve, args=(its, seconds), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}/v1"
    finally:
        process.terminate()
        process.join()

"""A server that speaks OpenAI's protocol, and whose model is a hash."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, Any]]
MOVES = ("Up", "Down", "Left", "Right")


class Server:
    """What it was asked, and how it answers."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()
        self.trouble: Callable[[int, dict[str, Any]], Answer | None] = lambda number, asked: None
        """Given the number of a request (from 0) and the request: what is answered instead."""
        self.seconds = 0.0
        self.tells_tokens = True
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self.url = ""

    def answer(self, path: str, asked: dict[str, Any], key: str | None) -> Answer:
        with self._lock:
            number = len(self.asked)
            self.asked.append(asked)
            self.keys.add(key)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            time.sleep(self.seconds)
            return self.trouble(number, asked) or self._usual(path, asked)
        finally:
            with self._lock:
                self._at_once -= 1

    def _usual(self, path: str, asked: dict[str, Any]) -> Answer:
        prompt = asked.get("messages", asked.get("prompt"))
        number = int.from_bytes(hashlib.sha256(json.dumps([prompt, asked.get("seed")]).encode()).digest()[:4], "big")
        text = f"<think>{number % 97}</think><answer>{MOVES[number % 4]}</answer>"
        ids, logprobs = [number % 1000, 7, 2], [-0.5, -0.25, -0.125]
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop", "logprobs": None}
        if path.endswith("/chat/completions"):
            choice["message"] = {"role": "assistant", "content": text}
            if asked.get("logprobs"):
                content: list[dict[str, Any]] = [
                    {"token": "x", "logprob": one, "bytes": None, "top_logprobs": []} for one in logprobs
                ]
                choice["logprobs"] = {"content": content, "refusal": None}
        else:
            choice["text"] = text
            if asked.get("logprobs"):
                choice["logprobs"] = {"token_logprobs": logprobs, "tokens": [], "top_logprobs": [], "text_offset": []}
        reply: dict[str, Any] = {"id": "1", "object": "chat.completion", "created": 0, "model": asked["model"]}
        if self.tells_tokens and asked.get("return_token_ids"):
            choice["token_ids"], reply["prompt_token_ids"] = ids, [1, 2, 3]
        return 200, {**reply, "choices": [choice]}


@contextmanager
def running_server() -> Iterator[Server]:
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 20

        def do_GET(self) -> None:
            self._send(
                200, {"object": "list", "data": [{"id": "hash", "object": "model", "created": 0, "owned_by": ""}]}
            )

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._send(*server.answer(self.path, asked, self.headers.get("Authorization")))

        def _send(self, status: int, value: dict[str, Any]) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            try:
                self.wfile.write(data)
            except OSError:
                pass  # the client has given up

        def log_message(self, *_: object) -> None:
            pass

    class Listener(ThreadingHTTPServer):
        request_queue_size = 512
        daemon_threads = False

    with Listener(("127.0.0.1", 0), Handler) as listener:
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        server.url = f"http://127.0.0.1:{listener.server_address[1]}/v1"
        try:
            yield server
        finally:
            listener.shutdown()
            thread.join()

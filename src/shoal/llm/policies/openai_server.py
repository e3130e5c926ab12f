"""Any server that speaks OpenAI's protocol: vLLM, SGLang, Ollama, llama.cpp, and OpenAI's own."""

from __future__ import annotations

import importlib
import os
import random
import time
from collections.abc import Mapping
from typing import Any, Final, Literal

from shoal.llm.policies.policy import ConcurrentPolicy, PolicyError
from shoal.llm.policies.requests import Generation, Request
from shoal.vector.arguments import check_choice
from shoal.vector.errors import ConfigurationError

LONGEST_WAIT = 8.0
HOPELESS: Final = (401, 403, 404, 405)
"""Answers after which no other request is worth it. 400 and 422 may be about one conversation, unless they come first."""
AGAIN: Final = (408, 409, 429)
"""Answers of a server after which one may try again, beside those from 500 on."""
TOO_LONG = ("context_length", "context length", "maximum context", "too many tokens", "input is too long")
"""One of these is in what servers say when a conversation is longer than the model can read."""
NO_KEY = "none"
TELL_IDS = "return_token_ids"
"""vLLM's parameter. Most servers ignore what they do not know; some refuse it, and are not asked for it again."""


class OpenAIPolicy(ConcurrentPolicy):
    """Asks a server. Needs the package ``openai``: ``pip install 'shoal[llm]'``.

    Args:
        base_url: where the server is, such as ``http://localhost:8000/v1``.
        model: what the server calls the model; by default the first one that it has.
        api_key: by default ``OPENAI_API_KEY`` of the environment. It appears in no message.
        concurrency: how many requests are under way at once, at most.
        timeout: seconds for which a server may be silent.
        retries: how often a request is repeated, with pauses that grow, when the server is busy, broken or away.
        temperature: of sampling; 0 for the most likely token each time.
        max_tokens: of an answer, where a request does not say so; ``None`` for what the server says.
        prompts: ``"messages"`` lets the server make tokens of the conversation. ``"tokens"`` sends those of the collector's
            tokenizer to the completions endpoint, so that what is trained on is what was read.
        logprobs: whether to ask for the log-probability of each token.
        extra: further parameters of a request, by name; those that the package does not know go into ``extra_body``.
    """

    name = "openai"

    def __init__(
        self,
        base_url: str | None = None,
        model: str | None = None,
        *,
        api_key: str | None = None,
        concurrency: int = 64,
        timeout: float = 120.0,
        retries: int = 4,
        temperature: float = 1.0,
        max_tokens: int | None = 512,
        prompts: Literal["messages", "tokens"] = "messages",
        logprobs: bool = False,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(concurrency)
        check_choice("prompts", prompts, ["messages", "tokens"])
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            raise ConfigurationError(f"retries must be a whole number of at least 0, got {retries!r}")
        try:
            self._openai = importlib.import_module("openai")
        except ImportError as error:
            raise ConfigurationError(
                "asking a server needs the package openai: pip install 'shoal[llm]', or choose another policy"
            ) from error
        self._key = api_key or os.environ.get("OPENAI_API_KEY") or NO_KEY
        # Retries are ours, because each must end when nobody waits any more.
        self._client = self._openai.OpenAI(base_url=base_url, api_key=self._key, timeout=timeout, max_retries=0)
        self.base_url, self._retries, self._prompts = str(self._client.base_url), retries, prompts
        self._asking: dict[str, Any] = {"temperature": temperature, **(extra or {})}
        if max_tokens is not None:
            self._asking["max_tokens"] = max_tokens
        if logprobs:
            self._asking["logprobs"] = True if prompts == "messages" else 1
        self._model = model
        self._has_answered = False
        self._asks_for_ids = True
        self._waits = random.Random()  # noqa: S311  # how long to pause decides nothing

    def __repr__(self) -> str:
        return f"OpenAIPolicy({self.base_url!r}, model={self._model!r})"

    @property
    def model(self) -> str:
        """What the server calls the model."""
        if self._model is None:
            try:
                models = self._client.models.list().data
            except self._openai.OpenAIError as error:
                raise PolicyError(f"{self.base_url} does not say which models it has: {self._said(error)}") from None
            if not models:
                raise PolicyError(f"{self.base_url} has no model")
            self._model = str(models[0].id)
        return self._model

    def submit(self, requests: Any) -> None:
        """Hand these to the threads."""
        if requests:
            _ = self.model  # asked for once, and not in every thread
        super().submit(requests)

    def answer_one(self, request: Request) -> Generation:
        """Ask the server, again and again if need be."""
        openai, attempt = self._openai, 0
        while True:
            try:
                return self._ask(request)
            except openai.APITimeoutError:
                failed = Generation("", finish="timeout", error=f"{self.base_url} did not answer in time")
                is_worth_it = True
            except openai.APIStatusError as error:
                said, status = self._said(error), error.status_code
                if status in (400, 413, 422) and any(words in said.lower() for words in TOO_LONG):
                    return Generation("", finish="overflow", error=said)
                if status in (400, 422) and TELL_IDS in said and self._asks_for_ids:
                    self._asks_for_ids = False
                    continue
                if status in HOPELESS or (status in (400, 422) and not self._has_answered):
                    raise PolicyError(
                        f"{self.base_url} refuses every request ({status}): {said}\n"
                        "  What to do: look at the model's name, the key, and the parameters in extra=."
                    ) from None
                failed = Generation("", finish="error", error=f"{self.base_url} answered {status}: {said}")
                is_worth_it = status in AGAIN or status >= 500
            except openai.OpenAIError as error:
                failed = Generation("", finish="error", error=f"{self.base_url} cannot be asked: {self._said(error)}")
                is_worth_it = isinstance(error, openai.APIConnectionError)
            if not is_worth_it or attempt >= self._retries or (request.key, request.turn) not in self._wanted:
                return failed
            time.sleep(min(LONGEST_WAIT, 0.25 * 2**attempt) * self._waits.uniform(0.5, 1.0))
            attempt += 1

    def _ask(self, request: Request) -> Generation:
        asking = {**self._asking, "model": self._model, "seed": request.seed}
        if self._asks_for_ids:
            asking[TELL_IDS] = True
        if request.max_tokens is not None:
            asking["max_tokens"] = request.max_tokens
        if self._prompts == "messages":
            reply = self._client.chat.completions.create(messages=list(request.messages), **_known(asking, _CHAT))
        else:
            if request.prompt_ids is None:
                raise PolicyError('prompts="tokens" needs a collector with a tokenizer')
            reply = self._client.completions.create(prompt=list(request.prompt_ids), **_known(asking, _COMPLETION))
        self._has_answered = True
        return _generation(reply)

    def _said(self, error: Exception) -> str:
        """What an error says, without the key, which some servers repeat."""
        text = " ".join(str(error).split())
        return text.replace(self._key, "***") if self._key != NO_KEY else text

    def close(self) -> None:
        """Break all connections."""
        self._client.close()
        super().close()


_BOTH = {
    "model",
    "seed",
    "temperature",
    "top_p",
    "max_tokens",
    "stop",
    "logprobs",
    "frequency_penalty",
    "presence_penalty",
}
_CHAT = _BOTH | {"top_logprobs", "max_completion_tokens", "reasoning_effort", "response_format", "extra_body"}
_COMPLETION = _BOTH | {"extra_body"}


def _known(asking: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    """As the package takes it: what it does not know belongs into the body."""
    others = {name: value for name, value in asking.items() if name not in known}
    body = {**others, **asking.get("extra_body", {})}
    return {**{name: value for name, value in asking.items() if name in known}, "extra_body": body}


def _generation(reply: Any) -> Generation:
    """What a server answered, in both of its forms, and with what only some servers tell."""
    if not getattr(reply, "choices", None):
        return Generation("", finish="error", error="the server's answer has no choices in it")
    choice = reply.choices[0]
    message = getattr(choice, "message", None)
    text = (message.content if message is not None else choice.text) or ""
    prompt_ids = getattr(choice, "prompt_token_ids", None) or getattr(reply, "prompt_token_ids", None)
    return Generation(
        text,
        _numbers(getattr(choice, "token_ids", None), int),
        _logprobs(getattr(choice, "logprobs", None)),
        _numbers(prompt_ids, int),
        "length" if choice.finish_reason == "length" else "stop",
    )


def _logprobs(told: Any) -> tuple[float, ...] | None:
    content = getattr(told, "content", None)
    if content:
        return tuple(float(one.logprob) for one in content)
    return _numbers(getattr(told, "token_logprobs", None), float)


def _numbers(values: Any, kind: type[Any]) -> tuple[Any, ...] | None:
    if not isinstance(values, list) or not values or any(value is None for value in values):
        return None
    return tuple(kind(value) for value in values)

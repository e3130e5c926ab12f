"""Policies by what they are called on the command line."""

from __future__ import annotations

import importlib
from typing import Any

from shoal.llm.policies import OpenAIPolicy, Policy, RecordedPolicy, SolverPolicy, TransformersPolicy
from shoal.vector.errors import ConfigurationError
from shoal.vector.nearest import did_you_mean

KINDS = ("solver", "openai", "transformers", "recorded")


def policy_of(text: str, *, model: str | None, temperature: float, max_tokens: int, concurrency: int) -> Policy:
    """The policy that is meant: ``solver``, ``openai:URL``, ``transformers:NAME`` or ``recorded:FILE``."""
    kind, _, where = text.partition(":")
    if kind not in KINDS:
        hint = did_you_mean(kind, KINDS) or f" There are {', '.join(KINDS)}."
        raise ConfigurationError(f"--policy: there is no policy {kind!r}.{hint}")
    if model is not None and kind != "openai":
        raise ConfigurationError(f"--model is for openai:URL, and --policy is {text}")
    if kind == "solver":
        return SolverPolicy()
    if kind == "openai":
        url = where or None
        return OpenAIPolicy(url, model, temperature=temperature, max_tokens=max_tokens, concurrency=concurrency)
    if not where:
        raise ConfigurationError(f"--policy {kind} needs {'a file' if kind == 'recorded' else 'a model'}: {kind}:…")
    if kind == "recorded":
        return RecordedPolicy(where)
    return TransformersPolicy(where, temperature=temperature, max_tokens=max_tokens)


def tokenizer_of(name: str | None, policy: Policy) -> Any:
    """The tokenizer of that name; by default that of a local model."""
    if name is None:
        return getattr(policy, "tokenizer", None)
    try:
        transformers = importlib.import_module("transformers")
    except ImportError as error:
        raise ConfigurationError("--tokenizer needs transformers: pip install 'shoal[hf]'") from error
    return transformers.AutoTokenizer.from_pretrained(name)

"""A model of the package transformers, in this process.

Every answer is sampled by random numbers of its own, so that it does not depend on which others are in the same batch.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from shoal.llm.policies.policy import BatchPolicy, PolicyError
from shoal.llm.policies.requests import Generation, Request
from shoal.vector.arguments import check_count
from shoal.vector.errors import ConfigurationError


class TransformersPolicy(BatchPolicy):
    """Generates with a local model. Needs transformers and torch: ``pip install 'shoal[hf,train]'``.

    Args:
        model: the model, or its name or folder.
        tokenizer: its tokenizer; by default the one that belongs to the name.
        temperature: of sampling; 0 for the most likely token each time.
        max_tokens: of an answer, where a request does not say so.
        batch_size: how many answers are generated together, at most.
        generate: further fields of the ``GenerationConfig``.
    """

    name = "transformers"

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        temperature: float = 1.0,
        max_tokens: int = 256,
        batch_size: int = 32,
        **generate: Any,
    ) -> None:
        super().__init__(batch_size)
        check_count("max_tokens", max_tokens)
        if not temperature >= 0:
            raise ConfigurationError(f"temperature must be at least 0, got {temperature!r}")
        try:
            self._torch = importlib.import_module("torch")
            self._transformers = importlib.import_module("transformers")
        except ImportError as error:
            raise ConfigurationError(
                "a local model needs torch and transformers: pip install 'shoal[hf,train]', or choose another policy"
            ) from error
        if isinstance(model, str):
            tokenizer = tokenizer or self._transformers.AutoTokenizer.from_pretrained(model)
            model = self._transformers.AutoModelForCausalLM.from_pretrained(model)
        if tokenizer is None:
            raise ConfigurationError("a model that is given as an object needs its tokenizer, too")
        self.model, self.tokenizer = model.eval(), tokenizer
        self._temperature, self._max_tokens, self._generate = temperature, max_tokens, generate
        ends = getattr(model.generation_config, "eos_token_id", None)
        ends = tokenizer.eos_token_id if ends is None else ends
        self._ends = frozenset(ends if isinstance(ends, list | tuple) else [] if ends is None else [ends])
        pad = tokenizer.pad_token_id
        self._pad = pad if pad is not None else min(self._ends, default=0)

    def answer(self, requests: Sequence[Request]) -> list[Generation]:
        """Generate for all of these together."""
        torch = self._torch
        prompts = [self._prompt_of(request) for request in requests]
        limits = [request.max_tokens or self._max_tokens for request in requests]
        longest = getattr(self.model.config, "max_position_embeddings", None)
        fits = [
            longest is None or len(prompt) + limit <= longest for prompt, limit in zip(prompts, limits, strict=True)
        ]
        left = [place for place, fit in enumerate(fits) if fit]
        generations = [Generation("", finish="overflow", error=f"the model reads {longest} tokens")] * len(requests)
        if not left:
            return generations
        width = max(len(prompts[place]) for place in left)
        # On the left, so that what is generated begins at the same place for all.
        ids = torch.tensor([[self._pad] * (width - len(prompts[place])) + prompts[place] for place in left])
        mask = torch.tensor([[0] * (width - len(prompts[place])) + [1] * len(prompts[place]) for place in left])
        chooser = Chooser(torch, [requests[place].seed for place in left], self._temperature)
        with torch.inference_mode():
            output = self.model.generate(
                input_ids=ids.to(self.model.device),
                attention_mask=mask.to(self.model.device),
                generation_config=self._config(max(limits[place] for place in left)),
                logits_processor=[chooser],
            )
        logprobs = torch.stack(chooser.logprobs, dim=1).tolist()
        for row, place in enumerate(left):
            tokens = output[row, width:].tolist()
            generations[place] = self._generation(tokens[: limits[place]], logprobs[row], tuple(prompts[place]))
        return generations

    def _config(self, most_tokens: int) -> Any:
        """A config of its own: what a model's may have, such as penalties, would change what was sampled behind our back."""
        return self._transformers.GenerationConfig(
            max_new_tokens=most_tokens,
            do_sample=False,  # the chooser samples
            pad_token_id=self._pad,
            eos_token_id=sorted(self._ends) or None,
            **self._generate,
        )

    def _generation(self, tokens: list[int], logprobs: list[float], prompt: tuple[int, ...]) -> Generation:
        end = next((place for place, token in enumerate(tokens) if token in self._ends), None)
        kept = tokens if end is None else tokens[: end + 1]
        text = self.tokenizer.decode(tokens[:end], skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return Generation(text, tuple(kept), tuple(logprobs[: len(kept)]), prompt, "length" if end is None else "stop")

    def _prompt_of(self, request: Request) -> list[int]:
        if request.prompt_ids is not None:
            return list(request.prompt_ids)
        if getattr(self.tokenizer, "chat_template", None) is None:
            raise PolicyError(
                "the tokenizer has no chat template: give the collector a tokenizer, or this one a template"
            )
        text = self.tokenizer.apply_chat_template(list(request.messages), tokenize=False, add_generation_prompt=True)
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])


class Chooser:
    """Chooses the next token of each row, and notes how likely it was. To be given to ``generate`` as a logits processor."""

    def __init__(self, torch: Any, seeds: Sequence[int], temperature: float) -> None:
        self._torch, self._temperature = torch, temperature
        self._generators = [np.random.default_rng(seed) for seed in seeds]
        self.logprobs: list[Any] = []
        """Of the tokens that were chosen: one tensor for each step."""

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """The scores, so changed that the greatest is that of the token that was chosen."""
        torch = self._torch
        logprobs = torch.log_softmax(scores.float() / (self._temperature or 1.0), dim=-1)
        if self._temperature > 0:
            shares = logprobs.double().exp().cumsum(dim=-1)
            drawn = torch.tensor([[generator.random()] for generator in self._generators], dtype=torch.float64)
            chosen = torch.searchsorted(shares, drawn.to(scores.device) * shares[:, -1:], right=True)
            chosen = chosen.clamp(max=scores.shape[-1] - 1)
        else:
            chosen = logprobs.argmax(dim=-1, keepdim=True)
        self.logprobs.append(logprobs.gather(-1, chosen)[:, 0].cpu())
        return torch.full_like(scores, -torch.inf).scatter(-1, chosen, 0.0)

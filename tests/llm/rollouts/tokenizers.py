"""Tokenizers of several kinds, with templates of several kinds, made on the spot."""

from __future__ import annotations

from typing import Any

from tests.llm.policies.tiny_model import tiny_tokenizer

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
STRIPS_THOUGHTS = CHATML.replace(
    "{{ message['content'] }}",
    "{% if message['role'] == 'assistant' %}{{ message['content'].split('</think>')[-1] | trim }}"
    "{% else %}{{ message['content'] }}{% endif %}",
)
HIDES_ANSWERS = (
    "{% for message in messages %}{% if message['role'] != 'assistant' %}{{ message['content'] }}<|im_end|>\n{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEMPLATES = {"chatml": CHATML, "strips_thoughts": STRIPS_THOUGHTS, "hides_answers": HIDES_ANSWERS}
TEXTS = [
    "the player pushes the box onto the target",
    "Up Down Left Right up down <think> </think> <answer>",
    "#_P_O# ##X_",
]


def byte_tokenizer(template: str) -> Any:
    """Bytes and pairs of them, as in GPT-2 and most that came after."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    special = ["<pad>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator(
        TEXTS * 20, trainers.BpeTrainer(special_tokens=special, vocab_size=400, initial_alphabet=alphabet)
    )
    make: Any = transformers.PreTrainedTokenizerFast
    return make(tokenizer_object=core, pad_token="<pad>", eos_token="<|im_end|>", chat_template=template)


def all_tokenizers() -> dict[str, Any]:
    return {"words": tiny_tokenizer(), **{name: byte_tokenizer(template) for name, template in TEMPLATES.items()}}

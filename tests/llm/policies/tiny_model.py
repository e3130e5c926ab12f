"""A model of transformers with a few thousand weights, and its tokenizer, made on the spot."""

from __future__ import annotations

from typing import Any

WORDS = ("<pad>", "<eos>", "<user>", "<assistant>", "<unk>", "Up", "Down", "Left", "Right", "#", "_", "P", "O", "X")
TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] if message['role'] == 'assistant' else 'user' }}> "
    "{{ message['content'] }} <eos> {% endfor %}{% if add_generation_prompt %}<assistant> {% endif %}"
)


def tiny_tokenizer() -> Any:
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    words = [*WORDS, *(f"w{number}" for number in range(40)), "<think>", "</think>", "<answer>", "</answer>"]
    core = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    core.decoder = decoders.Fuse()
    make: Any = transformers.PreTrainedTokenizerFast
    return make(tokenizer_object=core, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", chat_template=TEMPLATE)


def tiny_model(vocabulary: int, positions: int = 128) -> Any:
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        vocab_size=vocabulary, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=positions, bos_token_id=None, eos_token_id=1, pad_token_id=0,
    )  # fmt: skip
    return transformers.Qwen2ForCausalLM(config)

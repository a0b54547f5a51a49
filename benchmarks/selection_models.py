"""Families of models whose heads read some positions of the last hidden state: the first, the last, or one of each sequence."""

from collections.abc import Callable
from typing import Final

import torch
import transformers
from model_example import Example, Size, pixels, text
from torch import Tensor, nn


def textclassifier(size: Size) -> Example:
    """BERT with a head that reads the first token."""
    config = transformers.BertConfig(vocab_size=size.vocabulary, max_position_embeddings=size.positions, **size.encoder)
    return text(transformers.BertForSequenceClassification(config), size)


def imageclassifier(size: Size) -> Example:
    """ViT with a head that reads the class token."""
    config = transformers.ViTConfig(image_size=size.image, patch_size=size.patch, **size.encoder)
    return pixels(transformers.ViTForImageClassification(config), size)


class LastToken(nn.Module):
    """A decoder whose head reads the last token, as in the generation of text."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor]:
        """The logits of the token after the last one."""
        return (self.module(input_ids=input_ids, attention_mask=attention_mask, logits_to_keep=1)[0],)


def nexttoken(size: Size) -> Example:
    """Llama for the logits of the next token."""
    config = transformers.LlamaConfig(
        vocab_size=size.vocabulary,
        max_position_embeddings=size.positions,
        num_key_value_heads=size.heads // 2,
        use_cache=False,
        **size.encoder,
    )
    return text(LastToken(transformers.LlamaForCausalLM(config)), size)


def textencoder(size: Size) -> Example:
    """The text encoder of CLIP, whose projection reads the end of each text: the token with the largest number."""
    config = transformers.CLIPTextConfig(
        vocab_size=size.vocabulary, max_position_embeddings=size.positions, projection_dim=size.hidden, eos_token_id=2, **size.encoder
    )
    return text(transformers.CLIPTextModelWithProjection(config), size)


def gpt2classifier(size: Size) -> Example:
    """GPT-2 with a head for all tokens, of which it keeps the last one of each text that is no padding."""
    config = transformers.GPT2Config(
        vocab_size=size.vocabulary, n_positions=size.positions, n_embd=size.hidden, n_layer=size.layers, n_head=size.heads,
        use_cache=False, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    return text(transformers.GPT2ForSequenceClassification(config), size)


def llamaclassifier(size: Size) -> Example:
    """The same with Llama."""
    config = transformers.LlamaConfig(
        vocab_size=size.vocabulary, max_position_embeddings=size.positions, num_key_value_heads=size.heads // 2, use_cache=False,
        pad_token_id=0, **size.encoder,
    )  # fmt: skip
    return text(transformers.LlamaForSequenceClassification(config), size)


class LastOfEach(nn.Module):
    """A decoder that embeds texts: the normalized state of the last token of each text that is no padding."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor]:
        """One vector for each text."""
        states = self.module(input_ids=input_ids, attention_mask=attention_mask)[0]
        last = attention_mask.sum(dim=1) - 1
        return (nn.functional.normalize(states[torch.arange(states.shape[0]), last], dim=-1),)


def embedder(size: Size) -> Example:
    """Qwen3 as a model for embeddings."""
    config = transformers.Qwen3Config(
        vocab_size=size.vocabulary, max_position_embeddings=size.positions, num_key_value_heads=size.heads // 2,
        head_dim=size.hidden // size.heads, use_cache=False, **size.encoder,
    )  # fmt: skip
    return text(LastOfEach(transformers.Qwen3Model(config)), size)


def distilled(size: Size) -> Example:
    """DeiT, whose two heads read the class token and the distillation token."""
    config = transformers.DeiTConfig(image_size=size.image, patch_size=size.patch, **size.encoder)
    module = transformers.DeiTForImageClassificationWithTeacher(config)
    return pixels(module, size)


FAMILIES: Final[tuple[Callable[[Size], Example], ...]] = (
    *(textclassifier, imageclassifier, nexttoken),
    *(textencoder, gpt2classifier, llamaclassifier, embedder, distilled),
)

"""A module to export, with example inputs, and the sizes that modules come in."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Size:
    """The dimensions that the families share."""

    hidden: int
    layers: int
    heads: int
    vocabulary: int
    positions: int
    sequence: int
    image: int
    patch: int

    @property
    def encoder(self) -> dict[str, Any]:
        """The arguments that most configurations of transformers have in common."""
        return {
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "intermediate_size": 4 * self.hidden,
        }


SIZES: Final = {
    "small": Size(hidden=64, layers=2, heads=4, vocabulary=256, positions=64, sequence=16, image=32, patch=8),
    "deep": Size(hidden=64, layers=12, heads=4, vocabulary=256, positions=64, sequence=16, image=32, patch=8),
    "h192": Size(hidden=192, layers=4, heads=6, vocabulary=2048, positions=128, sequence=32, image=64, patch=16),
    "h256": Size(hidden=256, layers=3, heads=8, vocabulary=2048, positions=128, sequence=32, image=64, patch=16),
    "h768": Size(hidden=768, layers=2, heads=12, vocabulary=2048, positions=128, sequence=32, image=96, patch=16),
    "wide": Size(hidden=768, layers=2, heads=12, vocabulary=30522, positions=512, sequence=128, image=224, patch=16),
    "base": Size(hidden=768, layers=12, heads=12, vocabulary=30522, positions=512, sequence=128, image=224, patch=16),
}


@dataclass(frozen=True)
class Example:
    """A module with its example inputs, and the axes of these that may vary."""

    module: nn.Module
    inputs: dict[str, Tensor]
    axes: dict[int, str]


class FirstOutput(nn.Module):
    """Calls a module of transformers by keyword, and returns only its first output."""

    def __init__(self, module: nn.Module, names: Iterable[str]) -> None:
        super().__init__()
        self.module = module
        self.names = tuple(names)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Run the module on inputs given in the order of `names`."""
        output: Tensor = self.module(**dict(zip(self.names, inputs, strict=True)))[0]
        return output


def text(module: nn.Module, size: Size, *, mask: bool = True, axes: Iterable[str] = ("batch", "sequence")) -> Example:
    """Make an example that reads token ids, with an attention mask if the model takes one."""
    inputs = {"input_ids": torch.randint(3, size.vocabulary, (2, size.sequence))}
    if mask:
        inputs["attention_mask"] = torch.ones(2, size.sequence, dtype=torch.int64)
    return Example(FirstOutput(module, inputs), inputs, dict(enumerate(axes)))


def pixels(module: nn.Module, size: Size, *, wrap: bool = True) -> Example:
    """Make an example that reads images of three channels."""
    inputs = {"pixel_values": torch.randn(2, 3, size.image, size.image)}
    return Example(FirstOutput(module, inputs) if wrap else module, inputs, {0: "batch"})

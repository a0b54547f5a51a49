"""Constants that are too large for the text of a program: what stands there instead."""

import base64
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.tensor import Tensor
from passat.ir.text.metadata import encode

INLINE_LIMIT: Final = 1 << 16
"""Bytes up to which a constant stands in a text in full."""


def is_large(tensor: Tensor) -> bool:
    """Whether a constant takes more room than the limit; one that is one element repeated takes little."""
    return tensor.nbytes > INLINE_LIMIT and tensor.dtype != "string" and tensor.uniform() is None


def first_element(tensor: Tensor) -> dict[str, AnyValue]:
    """The entry of a constant in the metadata of a text that has its first element only, repeated."""
    first = np.asarray(tensor.numpy()[(0,) * len(tensor.shape)])
    return {"dtype": tensor.dtype, "shape": list(tensor.shape), "splat": base64.b64encode(first.tobytes()).decode()}


class Stripped:
    """Makes the entries of constants, of large ones their first element only; `count` says of how many."""

    def __init__(self) -> None:
        self.count = 0

    def form(self, tensor: Tensor) -> dict[str, AnyValue]:
        """The entry of a constant."""
        if not is_large(tensor):
            return encode(tensor)
        self.count += 1
        return first_element(tensor)

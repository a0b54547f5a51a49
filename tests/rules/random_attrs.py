"""Random attributes of operators that suit their operands, mostly: what a draw of a rule's left side needs."""

from collections.abc import Callable, Sequence
from typing import Any as AnyValue

import numpy as np
from numpy.random import Generator

ALL_TYPES = ("float32", "float16", "float64", "bfloat16", "int64", "int32", "int8", "uint8", "int16", "uint32", "bool")
END = 2**63 - 1
Attributes = dict[str, AnyValue]


class Dice:
    """Random choices from a generator."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator

    def pick(self, choices: Sequence[AnyValue]) -> AnyValue:
        """One of several."""
        return choices[int(self.generator.integers(len(choices)))]

    def chance(self, share: float) -> bool:
        """True that often."""
        return bool(self.generator.random() < share)

    def integer(self, low: int, high: int) -> int:
        """An integer between two, both included."""
        return int(self.generator.integers(low, high + 1))

    def dim(self) -> int:
        """A size, now and then 0."""
        return int(self.pick((0, 1, 1, 2, 2, 2, 3, 3, 3, 4)))

    def shape(self, low: int = 0, high: int = 4) -> tuple[int, ...]:
        """A shape of a rank between two."""
        return tuple(self.dim() for _ in range(self.integer(low, high)))


def random_attributes(name: str, shape: tuple[int, ...], dtype: str, dice: Dice) -> Attributes:
    """Attributes of an operator whose first operand has that shape and element type; defaults are left out."""
    draw = _DRAWERS.get(name)
    return {} if draw is None else draw(shape, dtype, dice)


def _transpose(shape: tuple[int, ...], dtype: str, dice: Dice) -> Attributes:
    rank = len(shape)
    order = tuple(range(rank)) if dice.chance(0.3) else tuple(int(axis) for axis in dice.generator.permutation(rank))
    return {"axes": dice.pick([None, order, order, tuple(axis - rank for axis in order)])}


def _reshape(shape: tuple[int, ...], dtype: str, dice: Dice) -> Attributes:
    rest = int(np.prod(shape, dtype=int))
    target: list[int] = []
    while rest > 1 and len(target) < 3:
        factor = int(dice.pick([divisor for divisor in range(1, rest + 1) if rest % divisor == 0]))
        target.append(factor)
        rest //= factor
    target.append(rest)
    if dice.chance(0.3):
        target = list(shape)
    if target and dice.chance(0.4):
        target[dice.integer(0, len(target) - 1)] = -1
    newshape = (0 if i < len(shape) and dim == shape[i] and dice.chance(0.3) else dim for i, dim in enumerate(target))
    return {"newshape": tuple(newshape), "allowzero": False}


def _expand_dims(shape: tuple[int, ...], dtype: str, dice: Dice) -> Attributes:
    rank = len(shape)
    axis = dice.integer(-rank - 1, rank)
    few = {"axis": axis, "num_newaxis": dice.pick((0, 1, 1, 2))}
    return dict(dice.pick([few, {"axis": (0, rank + 1)}, {"axis": (dice.integer(0, rank),)}]))


def _squeeze(shape: tuple[int, ...], dtype: str, dice: Dice) -> Attributes:
    some = tuple(i - dice.pick((0, len(shape))) for i, dim in enumerate(shape) if dim == 1 and dice.chance(0.7))
    return {"axis": dice.pick([None, some, some])}


def _batch_flatten(shape: tuple[int, ...], dtype: str, dice: Dice) -> Attributes:
    return {"axis": dice.integer(-len(shape), len(shape))}


def _cast(shape: tuple[int, ...], dtype: str, dice: Dice) -> Attributes:
    return {"dtype": dtype if dice.chance(0.2) else dice.pick(ALL_TYPES)}


def _broadcast_to(shape: tuple[int, ...], dtype: str, dice: Dice) -> Attributes:
    grown = tuple(dice.pick((dim, 1)) if dim != 1 else dice.dim() for dim in shape)
    return {"shape": (*dice.shape(0, 1), *grown)}


def _tile(shape: tuple[int, ...], dtype: str, dice: Dice) -> Attributes:
    return {"reps": tuple(dice.pick((1, 1, 1, 2, 0)) for _ in range(len(shape) + dice.pick((0, 0, 0, 1))))}


def _pad(shape: tuple[int, ...], dtype: str, dice: Dice) -> Attributes:
    width = tuple((dice.pick((0, 0, 0, 0, 1)), dice.pick((0, 0, 0, 0, 2, -1))) for _ in shape)
    return {"pad_width": width, "pad_mode": dice.pick(("constant", "constant", "edge", "reflect")), "pad_value": float(dice.pick((0, 1)))}


def _split(shape: tuple[int, ...], dtype: str, dice: Dice) -> Attributes:
    axis = dice.integer(0, len(shape) - 1) if shape else 0
    size = shape[axis] if shape else 1
    places = tuple(sorted(dice.integer(0, size) for _ in range(dice.pick((0, 1, 2)))))
    return {"indices_or_sections": dice.pick([1, 2, places, max(size, 1)]), "axis": axis}


def _strided_slice(shape: tuple[int, ...], dtype: str, dice: Dice) -> Attributes:
    axes = tuple(axis for axis in range(len(shape)) if dice.chance(0.7))
    if dice.chance(0.25):
        return {"begin": (0,) * len(axes), "end": (END,) * len(axes), "strides": (1,) * len(axes), "axes": axes}
    strides = tuple(dice.pick((1, 1, 1, 2, -1, -2)) for _ in axes)
    return {
        "begin": tuple(dice.integer(-5, 5) for _ in axes),
        "end": tuple(dice.pick([dice.integer(-5, 5), END if step > 0 else -END]) for step in strides),
        "strides": None if all(step == 1 for step in strides) and dice.chance(0.5) else strides,
        "axes": axes,
    }


def _clip(shape: tuple[int, ...], dtype: str, dice: Dice) -> Attributes:
    return {"a_min": dice.pick((None, 0, -1, 2)), "a_max": dice.pick((None, 1, 5, -3))}


def _thresholded_relu(shape: tuple[int, ...], dtype: str, dice: Dice) -> Attributes:
    return {"alpha": dice.pick((0.5, -0.5, 0.0))}


def _batch_norm(shape: tuple[int, ...], dtype: str, dice: Dice) -> Attributes:
    epsilon = dice.pick((1e-5, 1e-3, 0.1))
    return {"axis": dice.pick((1, 1, 1, 1, -1, 0)), "epsilon": epsilon, "center": dice.chance(0.9), "scale": dice.chance(0.9)}


def _bias_add(shape: tuple[int, ...], dtype: str, dice: Dice) -> Attributes:
    return {"axis": dice.pick((1, -1, 0))}


def _matmul(shape: tuple[int, ...], dtype: str, dice: Dice) -> Attributes:
    flagged = len(shape) == 2 and dice.chance(0.3)
    return {"transpose_a": flagged and dice.chance(0.5), "transpose_b": flagged and dice.chance(0.5)}


def _concatenate(shape: tuple[int, ...], dtype: str, dice: Dice) -> Attributes:
    return {"axis": dice.pick((0, 0, 1, -1))}


_DRAWERS: dict[str, Callable[[tuple[int, ...], str, Dice], Attributes]] = {
    "broadcast_to": _broadcast_to,
    "cast": _cast,
    "clip": _clip,
    "concatenate": _concatenate,
    "expand_dims": _expand_dims,
    "nn.batch_flatten": _batch_flatten,
    "nn.batch_norm": _batch_norm,
    "nn.bias_add": _bias_add,
    "nn.matmul": _matmul,
    "nn.pad": _pad,
    "nn.thresholded_relu": _thresholded_relu,
    "reshape": _reshape,
    "split": _split,
    "squeeze": _squeeze,
    "strided_slice": _strided_slice,
    "tile": _tile,
    "transpose": _transpose,
}

"""Random inputs for a model: by element type and shape, with sizes for symbolic dimensions and ranges for integers.

Everything here is a function of its arguments: the same seed makes the same inputs.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from typing import Any as AnyValue

import ml_dtypes
import numpy as np

from passat.ir.shape import SymDim, evaluate_dim, names_in, parse_dim
from passat.ir.tensor import Array

if TYPE_CHECKING:
    from onnx import ModelProto, TensorShapeProto, TypeProto

ELEMENT_TYPES: Final[Mapping[str, np.dtype[np.generic]]] = {
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "bool": np.dtype(np.bool_),
    "string": np.dtype(np.object_),
    **{name: np.dtype(name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
}
"""NumPy's dtypes by the names that ONNX Runtime gives to element types."""

SAFE_RANGE: Final = 2
"""Integers below this are valid indices, masks and token types in nearly every model."""
WIDE_RANGE: Final = 50
"""Integers below this tell the rows of an embedding apart; four sizes made of them are still a small tensor."""
LARGEST_INPUT: Final = 1 << 24
"""Elements of one input beyond which sizes are not tried."""
_WORDS: Final = np.array(["", "a", "passat", "two words", "1.5"], np.object_)


class FeedError(ValueError):
    """Inputs of a kind that cannot be made at random. The message names the input and its type."""


@dataclass(frozen=True)
class InputSpec:
    """One input of a model as ONNX Runtime declares it: `tensor(float)` with dimensions that are integers, names or unknown."""

    name: str
    type: str
    shape: tuple[int | str | None, ...] = ()
    scalar: bool = False
    """Whether the model declares a scalar. ONNX Runtime shows inputs of unknown rank as it shows scalars."""

    @property
    def element_type(self) -> str:
        """The element type inside all wrappers: `float` of `optional(seq(tensor(float)))`."""
        found = re.search(r"tensor\((\w+)\)", self.type)
        if found is None or found[1] not in ELEMENT_TYPES:
            raise FeedError(f"the input {self.name!r} has type {self.type}, for which there are no random values")
        return found[1]

    @property
    def is_sequence(self) -> bool:
        """Whether the input is a sequence of tensors."""
        return "seq(" in self.type

    @property
    def is_index(self) -> bool:
        """Whether the elements are wide integers, which may be used as indices, masks or sizes."""
        return self.element_type in ("int16", "int32", "int64", "uint16", "uint32", "uint64")

    @property
    def of_any_rank(self) -> bool:
        """Whether nothing says of which rank the input is."""
        return not self.shape and not self.scalar

    def symbols(self) -> dict[str, None]:
        """The names that the dimensions depend on, in order. An unknown dimension is named by its axis and shared by all inputs."""
        found: dict[str, None] = {}
        for axis, dim in enumerate(self.shape):
            found.update(dict.fromkeys(names_in(_dim(dim, axis))))
        return found


@dataclass(frozen=True)
class Trial:
    """What one run of a model is fed with: sizes by the names of dimensions, the seed, exclusive bounds of integer inputs."""

    seed: int
    sizes: Mapping[str, int] = field(default_factory=dict)
    ranges: Mapping[str, int] = field(default_factory=dict)
    rank: int = 0
    """The rank given to inputs whose rank is not known."""
    source: str = ""
    """What inputs of the user's own are called; without a name they are random."""

    def __str__(self) -> str:
        if self.source:
            return self.source
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        return f"seed {self.seed}{', ' + sizes if sizes else ''}"


def symbols(specs: Sequence[InputSpec]) -> list[str]:
    """The names of all symbolic dimensions of the inputs, in order of appearance."""
    found: dict[str, None] = {}
    for spec in specs:
        found.update(spec.symbols())
    return list(found)


def size_assignments(names: Sequence[str]) -> Iterator[dict[str, int]]:
    """Sizes to try for symbolic dimensions: sizes that all differ, other such sizes, all 1; then equal sizes of growing numbers.

    >>> list(size_assignments(["batch", "seq"]))[:3]
    [{'batch': 2, 'seq': 3}, {'batch': 5, 'seq': 4}, {'batch': 1, 'seq': 1}]
    """
    if not names:
        while True:
            yield {}
    yield {name: 2 + i for i, name in enumerate(names)}
    yield {name: max(5 - i, 2) if i < 3 else 3 + i for i, name in enumerate(names)}
    for size in (1, 4, 8, 16, 32, 64, 2, 3, 128, 224):
        yield dict.fromkeys(names, size)


def make_feed(specs: Sequence[InputSpec], trial: Trial) -> dict[str, AnyValue]:
    """An array, or a list of arrays for a sequence, for every input. Raises FeedError where there is none of that type or size."""
    random = np.random.default_rng(trial.seed)
    return {spec.name: _value(spec, trial, random) for spec in specs}


def _value(spec: InputSpec, trial: Trial, random: np.random.Generator) -> AnyValue:
    dims = [_dim(dim, axis) for axis, dim in enumerate(spec.shape)]
    shape = tuple(evaluate_dim(dim, trial.sizes) for dim in dims) if not spec.of_any_rank else (3,) * trial.rank
    too_large = math.prod(shape) > LARGEST_INPUT and any(isinstance(dim, SymDim) for dim in dims)
    if too_large or any(size < 0 for size in shape):
        raise FeedError(f"the input {spec.name!r} would have the shape {list(shape)} for {trial}")
    if spec.is_sequence:
        return [_array(spec, shape, trial, random) for _ in range(3)]
    return _array(spec, shape, trial, random)


def _array(spec: InputSpec, shape: tuple[int, ...], trial: Trial, random: np.random.Generator) -> Array:
    dtype = ELEMENT_TYPES[spec.element_type]
    if spec.element_type == "string":
        return np.asarray(_WORDS[random.integers(0, len(_WORDS), shape)], dtype)
    if dtype.kind == "b":
        return np.asarray(random.integers(0, 2, shape), dtype)
    if dtype.kind in "iu":
        if spec.is_index:
            return np.asarray(random.integers(0, trial.ranges.get(spec.name, SAFE_RANGE), shape), dtype)
        low, high = (-128, 127) if spec.element_type == "int8" else (0, 255)
        return np.asarray(random.integers(low, high, shape, endpoint=True), dtype)
    # Every second trial is positive, for models that take logarithms or roots; whole numbers here and there meet ties and bounds.
    values = random.normal(size=shape) if trial.seed % 2 == 0 else random.uniform(size=shape)
    whole = random.integers(0, 8, shape) == 0
    return np.asarray(np.where(whole, np.round(values), values)).astype(dtype)


def _dim(dim: int | str | None, axis: int) -> int | SymDim:
    if isinstance(dim, int):
        return dim
    value = parse_dim(dim) if dim else SymDim.named(f"?{axis}")
    assert isinstance(value, (int, SymDim))
    return value


def declared_inputs(model: "ModelProto") -> tuple[InputSpec, ...]:
    """The inputs that have to be given: those without a value of the model's own."""
    given = {tensor.name for tensor in model.graph.initializer} | {tensor.values.name for tensor in model.graph.sparse_initializer}
    return tuple(_declared(value.name, value.type) for value in model.graph.input if value.name not in given)


def _declared(name: str, type_: "TypeProto") -> InputSpec:
    from passat.ir.onnx.value_types import runtime_name  # which needs onnx

    shape = type_.tensor_type.shape if type_.WhichOneof("value") == "tensor_type" else None
    dims = () if shape is None else tuple(_declared_dim(dim) for dim in shape.dim)
    return InputSpec(name, runtime_name(type_), dims, scalar=shape is not None and type_.tensor_type.HasField("shape") and not dims)


def _declared_dim(dim: "TensorShapeProto.Dimension") -> int | str | None:
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else None
    return dim.dim_param or None

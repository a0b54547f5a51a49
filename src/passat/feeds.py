"""Random inputs for models, by element type and shape, with sizes for symbolic dimensions and ranges for integers."""

import itertools
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from typing import Any as AnyValue

import ml_dtypes
import numpy as np

from passat.ir.diagnostic_text import cut
from passat.ir.dim_text import declared_dim
from passat.ir.passat_error import PassatError
from passat.ir.shape import SymDim, evaluate_dim, names_in
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
"""NumPy dtypes by ONNX Runtime's names of element types."""

SAFE_RANGE: Final = range(2)
"""Valid indices, masks and token types in nearly every model."""
WIDE_RANGES: Final = (range(-50, 50), range(50))
"""Ranges that distinguish the rows of an embedding; a tensor with four dimensions of such sizes is still small."""
_FEW_ITERATIONS: Final = range(2, 6)
"""Positive values of one integer, which may be the number of iterations of a loop."""
_EMPTY_ROWS: Final = 0.25
"""The share of rows that are 0 throughout, in every second trial, of inputs that may be masks."""
_CHOICES: Final = frozenset(f"tensor({name})" for name in ("bool", "int16", "int32", "int64", "uint16", "uint32", "uint64"))
_BYTES: Final = {"int8": range(-128, 128), "uint8": range(256)}
"""Ranges of narrow integers, which are quantized numbers."""
_GROWING: Final = (4, 8, 16, 32, 64, 2, 3, 128, 224, 512, 1600)
"""Sizes to try for models that do not run on very small ones; the last are for sound."""
_LARGE_BATCH: Final = 32
"""The largest batch to try beside other dimensions of its size."""
LARGEST_INPUT: Final = 1 << 24
"""Maximum number of elements of one input."""
_WORDS: Final = np.array(["", "a", "passat", "two words", "1.5"], np.object_)


class FeedError(PassatError, ValueError):
    """Inputs that cannot be generated. The message names the input and its type."""


@dataclass(frozen=True)
class InputSpec:
    """One input of a model as ONNX Runtime declares it: `tensor(float)` with dimensions that are integers, names or unknown."""

    name: str
    type: str
    shape: tuple[int | str | None, ...] = ()
    scalar: bool = False
    """True if the model declares a scalar; ONNX Runtime reports inputs of unknown rank as scalars."""
    compared: tuple[int, ...] = ()
    """Integers that the model compares the input with."""

    @property
    def element_type(self) -> str:
        """The innermost element type: `float` of `optional(seq(tensor(float)))`."""
        found = re.search(r"tensor\((\w+)\)", self.type)
        if found is None or found[1] not in ELEMENT_TYPES:
            raise FeedError(f"the input {self.name!r} has type {self.type}, for which there are no random values")
        return found[1]

    @property
    def is_sequence(self) -> bool:
        """True if the input is a sequence of tensors."""
        return "seq(" in self.type

    @property
    def is_index(self) -> bool:
        """True for wide integers, which may be indices, masks or sizes."""
        return self.element_type in ("int16", "int32", "int64", "uint16", "uint32", "uint64")

    @property
    def is_choice(self) -> bool:
        """True for one boolean or wide integer, which may be a flag, a mode or a number of iterations."""
        return self.type in _CHOICES and (self.scalar or (bool(self.shape) and all(dim == 1 for dim in self.shape)))

    @property
    def of_any_rank(self) -> bool:
        """True if the rank of the input is unknown."""
        return not self.shape and not self.scalar

    def symbols(self) -> dict[str, None]:
        """The names that the dimensions depend on, in order. An unknown dimension is named by its axis, shared by all inputs."""
        found: dict[str, None] = {}
        for axis, dim in enumerate(self.shape):
            found.update(dict.fromkeys(names_in(_dim(dim, axis))))
        return found


@dataclass(frozen=True)
class Trial:
    """The parameters of one run: sizes of named dimensions, the seed, ranges of integer inputs."""

    seed: int
    sizes: Mapping[str, int] = field(default_factory=dict)
    ranges: Mapping[str, range] = field(default_factory=dict)
    rank: int = 0
    """The rank of inputs of unknown rank."""
    source: str = ""
    """The name of user-provided inputs; "" for random ones."""

    def __str__(self) -> str:
        if self.source:
            return self.source
        return ", ".join([f"seed {self.seed}", *([self.shown_sizes] if self.sizes else [])])

    @property
    def shown_sizes(self) -> str:
        """The sizes as text: `n=2, m=3`."""
        return ", ".join(f"{cut(name)}={size}" for name, size in self.sizes.items())


def symbols(specs: Sequence[InputSpec]) -> list[str]:
    """The names of all symbolic dimensions of the inputs, in order of appearance."""
    found: dict[str, None] = {}
    for spec in specs:
        found.update(spec.symbols())
    return list(found)


def namings(specs: Sequence[InputSpec]) -> Iterator[tuple[InputSpec, ...]]:
    """The inputs, and if that differs, with unknown dimensions named by their place among those of their input, not by their axis: then the
    unknown size of a recurrent state of shape [2, ?, 128] is the batch, as the first one of an input of shape [?, ?] is. Last, with
    computed sizes as names, since models declare sizes that do not hold, and names such as `seq-len`.

    >>> [[spec.shape for spec in each] for each in namings([InputSpec("x", "tensor(float)", (None, 4)), InputSpec("h", "", (2, None))])]
    [[(None, 4), (2, None)], [('?0', 4), (2, '?0')]]
    >>> [[spec.shape for spec in each] for each in namings([InputSpec("x", "tensor(float)", ("n", "n//2"))])]
    [[('n', 'n//2')], [('n', '?n//2')]]
    """
    yield tuple(specs)
    unknown = [[axis for axis, dim in enumerate(spec.shape) if not (isinstance(dim, int) or dim)] for spec in specs]
    if any(axes != list(range(len(axes))) for axes in unknown):
        yield tuple(
            replace(spec, shape=tuple(f"?{axes.index(axis)}" if axis in axes else dim for axis, dim in enumerate(spec.shape)))
            for spec, axes in zip(specs, unknown, strict=True)
        )
    apart = tuple(replace(spec, shape=tuple(f"?{dim}" if _is_computed(dim) else dim for dim in spec.shape)) for spec in specs)
    if apart != tuple(specs):
        yield apart


def _is_computed(dim: int | str | None) -> bool:
    """Whether the size of an axis follows from others, such as `n//2`."""
    return isinstance(dim, str) and dim != "" and names_in(_dim(dim, 0)) not in ([], [dim])


def empty_last(specs: Sequence[InputSpec], assignments: Iterable[dict[str, int]]) -> Iterable[dict[str, int]]:
    """Sizes of names to try, last those for which a computed size is not positive, such as `n//2` for `n = 1`: on empty inputs, any results
    are equal.

    >>> list(empty_last([InputSpec("x", "tensor(float)", ("n//2",))], [{"n": 1}, {"n": 2}]))
    [{'n': 2}, {'n': 1}]
    """
    computed = [_dim(dim, 0) for dim in dict.fromkeys(dim for spec in specs for dim in spec.shape) if _is_computed(dim)]
    if not computed:
        return assignments
    return sorted(assignments, key=lambda sizes: any(evaluate_dim(dim, sizes) <= 0 for dim in computed))


def first_axes(specs: Sequence[InputSpec]) -> frozenset[str]:
    """The names of batches: symbolic dimensions that are the first axis of an input, and of others at most the first symbolic axis, as in
    recurrent states; of inputs some of which have other symbolic dimensions."""
    first, other, behind_known = set[str](), set[str](), set[str]()
    for spec in specs:
        symbolic = [(axis, names_in(_dim(dim, axis))) for axis, dim in enumerate(spec.shape)]
        for place, (axis, names) in enumerate((axis, names) for axis, names in symbolic if names):
            (other if place else behind_known if axis else first).update(names)
    other |= behind_known - first
    return frozenset(first - other) if other else frozenset()


def size_assignments(names: Sequence[str], batches: Collection[str] = ()) -> Iterator[dict[str, int]]:
    """Sizes to try for symbolic dimensions: distinct sizes, other distinct sizes, all 1; then equal sizes of growing value, first with
    small `batches`: a model of large images needs no large batch of them. Last, one size is the sum of two others, as that of a mask over
    past and new tokens is, or of another and 1, as in models of one step.

    >>> list(size_assignments(["batch", "seq"]))[:3]
    [{'batch': 2, 'seq': 3}, {'batch': 5, 'seq': 4}, {'batch': 1, 'seq': 1}]
    >>> list(size_assignments(["batch", "height", "width"], ["batch"]))[6:8]
    [{'batch': 2, 'height': 32, 'width': 32}, {'batch': 3, 'height': 64, 'width': 64}]
    >>> list(size_assignments(["batch", "new", "all", "past"], ["batch"]))[29]
    {'batch': 2, 'new': 3, 'all': 8, 'past': 5}
    >>> list(size_assignments(["batch", "all", "past"], ["batch"]))[20]
    {'batch': 2, 'all': 5, 'past': 4}
    """
    if not names:
        while True:
            yield {}
    small = [
        {name: 2 + i for i, name in enumerate(names)},
        {name: max(5 - i, 2) if i < 3 else 3 + i for i, name in enumerate(names)},
        dict.fromkeys(names, 1),
    ]
    yield from small
    for i, size in enumerate(_GROWING):
        yield {name: 1 + (i + 1) % 3 if name in batches else size for name in names}
    if batches:
        for size in _GROWING:
            if size <= _LARGE_BATCH:
                yield dict.fromkeys(names, size)
    inner = [name for name in names if name not in batches]
    for total in inner:
        others = [name for name in inner if name != total]
        for terms in (*itertools.combinations(others, 2), *((name,) for name in others)):
            for sizes in small:
                yield sizes | {total: sum(sizes[name] for name in terms) + 2 - len(terms)}


def make_feed(specs: Sequence[InputSpec], trial: Trial) -> dict[str, AnyValue]:
    """An array, or a list of arrays for a sequence, for every input. Raises FeedError for unsupported types or sizes."""
    random = np.random.default_rng(trial.seed)
    feed = {spec.name: _value(spec, trial, random) for spec in specs}
    for place, spec in enumerate(spec for spec in specs if spec.is_choice):
        feed[spec.name] = _choice(spec, place, trial, feed[spec.name])
    return feed


def _choice(spec: InputSpec, place: int, trial: Trial, drawn: Array) -> Array:
    """One value, chosen so that a few trials take the branches of a model: `drawn` and the integers that the model compares it with;
    `drawn` and a few iterations of a loop; or both values of a flag, with each value of another flag. The only value of a range is kept."""
    seed = trial.seed
    if len(trial.ranges.get(spec.name, ())) == 1:
        return drawn
    if spec.compared:
        value = (drawn.item(), *spec.compared)[(seed + place) % (1 + len(spec.compared))]
    elif spec.name in trial.ranges:
        value = _FEW_ITERATIONS[seed // 4 % len(_FEW_ITERATIONS)] if seed // 2 % 2 else drawn.item()
    else:
        halves, parity = (seed + 1) // 2, seed
        value = ((halves, parity, halves + parity)[place % 3] + place // 3) % 2
    return np.full(drawn.shape, value).astype(drawn.dtype)


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
    of_any_sign = trial.seed % 2 == 0  # the other trials have positive numbers, for logarithms and roots, and masks with rows without True
    if dtype.kind in "iub":
        among = _BYTES.get(spec.element_type) or trial.ranges.get(spec.name, SAFE_RANGE)
        drawn = np.asarray(random.integers(among.start, among.stop, shape))
        if of_any_sign and among.start < 0 and drawn.size:
            drawn.flat[0] = random.integers(among.start, 0)
        if not of_any_sign and len(shape) > 1:
            drawn *= random.random((*shape[:-1], 1)) >= _EMPTY_ROWS
        return drawn.astype(dtype)
    values = np.asarray(random.normal(size=shape) if of_any_sign else random.uniform(size=shape))
    if of_any_sign and values.size:  # an input of one element, too, is negative in some trial
        values.flat[0] = -abs(values.flat[0])
    whole = random.integers(0, 8, shape) == 0  # ties and bounds
    return np.asarray(np.where(whole, np.round(values), values)).astype(dtype)


def _dim(dim: int | str | None, axis: int) -> int | SymDim:
    if isinstance(dim, int):
        return dim
    return declared_dim(dim) if dim else SymDim.named(f"?{axis}")


def declared_inputs(model: "ModelProto") -> tuple[InputSpec, ...]:
    """The required inputs."""
    from passat.ir.onnx.scope import open_inputs

    return tuple(_declared(value.name, value.type) for value in open_inputs(model.graph))


def _declared(name: str, type_: "TypeProto") -> InputSpec:
    from passat.ir.onnx.value_types import runtime_name  # needs onnx

    shape = type_.tensor_type.shape if type_.WhichOneof("value") == "tensor_type" else None
    dims = () if shape is None else tuple(_declared_dim(dim) for dim in shape.dim)
    return InputSpec(name, runtime_name(type_), dims, scalar=shape is not None and type_.tensor_type.HasField("shape") and not dims)


def _declared_dim(dim: "TensorShapeProto.Dimension") -> int | str | None:
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else None
    return dim.dim_param or None

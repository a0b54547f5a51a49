"""Checks the declared types of values (`value_info`, outputs, inputs of subgraphs) against inferred types.

ONNX Runtime warns about wrong declared shapes and runs the model. Passat also accepts it, and ignores both types where they differ.
"""

from collections.abc import Iterable

from onnx import TypeProto

from passat.ir.infer import join
from passat.ir.onnx.value_types import UNKNOWN, type_of
from passat.ir.onnx_mapping import ELEMENT_TYPES
from passat.ir.shape import ANY, Dim
from passat.ir.types import TensorType, Type, compatible, refine


class DisbeliefError(Exception):
    """The declarations of some values contradict each other; the model is imported again without them."""

    def __init__(self, names: frozenset[str], why: str) -> None:
        super().__init__(f"{why}; the declared types of {', '.join(map(repr, sorted(names)))} are ignored")
        self.names = names


class Grounds:
    """Tracks which declarations the types of values depend on. Declarations are used for values without an inferred type, such as results
    of custom operators."""

    def __init__(self) -> None:
        self._names: dict[int, frozenset[str]] = {}
        self._kept: list[object] = []

    def of(self, values: Iterable[object]) -> frozenset[str]:
        """The names of the values whose declarations the types of these values depend on."""
        if not self._names:
            return frozenset()
        return frozenset().union(*(self._names.get(id(value), ()) for value in values))

    def put(self, value: object, names: frozenset[str]) -> None:
        """Records that the type of a value depends on declarations."""
        if names:
            self._names[id(value)] = names
            self._kept.append(value)  # keeps the object alive, so that its id is not reused


def contradicts(declared: TypeProto, type_: Type) -> bool:
    """Whether a type is incompatible with a declared type."""
    if type(type_) is not TensorType or not declared.HasField("tensor_type"):
        return not compatible(type_of(declared), type_)
    tensor = declared.tensor_type
    dtype = ELEMENT_TYPES.get(tensor.elem_type)
    if dtype is not None and dtype != type_.dtype:
        return True
    if not tensor.HasField("shape"):
        return False
    shape, dims = type_.shape, tensor.shape.dim
    if len(dims) != len(shape):
        return True
    for dim, size in zip(dims, shape, strict=True):  # hot path: every declared value is checked here
        if type(size) is int and dim.HasField("dim_value") and dim.dim_value != size and dim.dim_value >= 0:
            return True
    return False


def says_more(declared: TypeProto, type_: Type) -> bool:
    """Whether the declared type has sizes that the inferred type does not."""
    if type(type_) is not TensorType or not declared.tensor_type.HasField("shape"):
        return False
    dims = declared.tensor_type.shape.dim
    return any(dim.HasField("dim_value") and type(size) is not int for dim, size in zip(dims, type_.shape, strict=False))


def settle(declared: TypeProto, type_: Type) -> None:
    """Replaces names in a declared type by known sizes."""
    if type(type_) is TensorType and declared.tensor_type.HasField("shape"):
        for dim, size in zip(declared.tensor_type.shape.dim, type_.shape, strict=False):
            if type(size) is int and not dim.HasField("dim_value"):
                dim.dim_value = size


def same_kind(a: Type, b: Type) -> bool:
    """Whether two types differ only in shapes. ONNX Runtime does not load models that declare a value with the wrong kind of type."""
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return a.dtype == b.dtype
    return type(a) is type(b) or UNKNOWN in (a, b)


def holding(declared: Type, found: Type) -> Type:
    """Returns the valid part of the declared type of a loop-carried value that has a different type in some iteration."""
    if not isinstance(declared, TensorType) or not isinstance(found, TensorType):
        return declared if compatible(declared, found) else UNKNOWN
    if declared.dtype != found.dtype or declared.ndim != found.ndim:
        return UNKNOWN
    names = [type(size) is not int and type(other) is not int for size, other in zip(declared.shape, found.shape, strict=True)]
    kept = _without_conflicts(declared, found).shape
    return declared.with_shape(
        ANY if named and other is not ANY and size != other else size for named, size, other in zip(names, kept, found.shape, strict=True)
    )


def agreed(inferred: Type, declared: Type) -> Type:
    """Combines the inferred and the declared type; drops the parts that contradict each other."""
    if compatible(inferred, declared):
        return refine(inferred, declared)
    if isinstance(inferred, TensorType) and isinstance(declared, TensorType) and inferred.ndim == declared.ndim:
        if inferred.dtype == declared.dtype:
            return refine(_without_conflicts(inferred, declared), _without_conflicts(declared, inferred))
        return UNKNOWN
    return join(inferred, declared) or UNKNOWN


def _without_conflicts(type_: TensorType, other: TensorType) -> TensorType:
    def settled(size: Dim, against: Dim) -> Dim:
        return ANY if type(size) is int and type(against) is int and size != against else size

    return type_.with_shape(map(settled, type_.shape, other.shape))

"""What a graph declares of its values (`value_info`, outputs, inputs of subgraphs), held against what is inferred of them.

ONNX Runtime warns of shapes that are declared wrong, and runs the model. So is it read here: neither side is relied on where they differ.
"""

from collections.abc import Iterable

from onnx import TypeProto

from passat.ir.infer import join
from passat.ir.onnx.value_types import UNKNOWN, type_of
from passat.ir.onnx_mapping import ELEMENT_TYPES
from passat.ir.shape import ANY, Dim
from passat.ir.types import TensorType, Type, compatible, refine


class DisbeliefError(Exception):
    """Declarations, by the names of values, led to a contradiction: the model is read again without them."""

    def __init__(self, names: frozenset[str], why: str) -> None:
        super().__init__(f"{why}; what is declared of {', '.join(map(repr, sorted(names)))} is ignored")
        self.names = names


class Grounds:
    """Which declarations the types of values rest on: those of values that nothing is inferred of, as of custom operators."""

    def __init__(self) -> None:
        self._names: dict[int, frozenset[str]] = {}
        self._kept: list[object] = []

    def of(self, values: Iterable[object]) -> frozenset[str]:
        """The names of values whose declarations the types of these values rest on."""
        if not self._names:
            return frozenset()
        return frozenset().union(*(self._names.get(id(value), ()) for value in values))

    def put(self, value: object, names: frozenset[str]) -> None:
        """Notes that the type of a value rests on declarations."""
        if names:
            self._names[id(value)] = names
            self._kept.append(value)  # so that its identity is not given to another


def contradicts(declared: TypeProto, type_: Type) -> bool:
    """Whether a value of a type cannot be what is declared."""
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
    for dim, size in zip(dims, shape, strict=True):  # every declared value comes through here
        if type(size) is int and dim.HasField("dim_value") and dim.dim_value != size and dim.dim_value >= 0:
            return True
    return False


def says_more(declared: TypeProto, type_: Type) -> bool:
    """Whether sizes are declared of a tensor that it is not known to have."""
    if type(type_) is not TensorType or not declared.tensor_type.HasField("shape"):
        return False
    dims = declared.tensor_type.shape.dim
    return any(dim.HasField("dim_value") and type(size) is not int for dim, size in zip(dims, type_.shape, strict=False))


def same_kind(a: Type, b: Type) -> bool:
    """Whether two types differ in shapes at most. ONNX Runtime loads no model in which a value is declared as another kind."""
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return a.dtype == b.dtype
    return type(a) is type(b) or UNKNOWN in (a, b)


def holding(declared: Type, found: Type) -> Type:
    """What can be relied on of the declared type of a value that a loop carries, which in some iteration is of another type."""
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
    """What inference and declaration say together; where they contradict each other, nothing."""
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

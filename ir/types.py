"""Types of the language, under Relay's names. Types are values: immutable, hashable, compared by content."""

from collections.abc import Iterable, Mapping

from passat.ir.dtypes import itemsize
from passat.ir.shape import Any, Dim, Shape, is_static, product, show_shape, static_size


class Type:
    """The base of all types. `str` writes them as Relay's text format does."""

    __slots__ = ()

    def same_as(self, other: object) -> bool:
        """Whether the other one is this very object."""
        return self is other

    def __str__(self) -> str:
        from passat.ir.text.types import show_type

        return show_type(self)


class TensorType(Type):
    """A tensor of a shape and an element type; a scalar has shape `()`.

    >>> TensorType((1, 3), "float32")
    Tensor[(1, 3), float32]
    """

    __slots__ = ("_hash", "dtype", "shape")
    shape: Shape
    dtype: str

    def __init__(self, shape: Iterable[Dim] = (), dtype: str = "float32") -> None:
        self.shape = shape if type(shape) is tuple else tuple(shape)
        self.dtype = dtype
        self._hash = hash((self.shape, dtype))

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> Dim:
        """The number of elements."""
        return product(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether every dimension is an integer."""
        return is_static(self.shape)

    @property
    def concrete_shape(self) -> tuple[int, ...]:
        """The shape, of integers alone. Raises TypeError where a dimension is none."""
        if not is_static(self.shape):
            raise TypeError(f"the shape of {self} is not known in full")
        return tuple(dim for dim in self.shape if isinstance(dim, int))

    @property
    def nbytes(self) -> float:
        """Bytes that the tensor takes, with an assumed size for dimensions that are not integers."""
        return static_size(self.shape) * itemsize(self.dtype)

    def with_shape(self, shape: Iterable[Dim]) -> "TensorType":
        """The same element type in another shape."""
        return TensorType(tuple(shape), self.dtype)

    def with_dtype(self, dtype: str) -> "TensorType":
        """The same shape with another element type."""
        return TensorType(self.shape, dtype)

    def axis(self, axis: int) -> int:
        """The axis counted from the front. Raises ValueError where the tensor has no such axis."""
        if not -self.ndim <= axis < self.ndim:
            raise ValueError(f"{self!r} has no axis {axis}")
        return axis % self.ndim

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(other) is TensorType and self._hash == other._hash and self.dtype == other.dtype and self.shape == other.shape
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type, tuple[Shape, str]]:
        return (TensorType, (self.shape, self.dtype))

    def __repr__(self) -> str:
        return f"Tensor[{show_shape(self.shape)}, {self.dtype}]" if self.shape else self.dtype


class _Structural(Type):
    """A type that is the list of its parts."""

    __slots__ = ("_hash", "_parts")
    _parts: tuple[object, ...]

    def _set(self, *parts: object) -> None:
        self._parts = parts
        self._hash = hash((type(self), parts))

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is type(self) and isinstance(other, _Structural) and self._parts == other._parts)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return (type(self), self._parts)


class TupleType(_Structural):
    """The type of a tuple, field by field."""

    __slots__ = ("fields",)

    def __init__(self, fields: Iterable[Type]) -> None:
        self.fields = tuple(fields)
        self._set(self.fields)

    def __repr__(self) -> str:
        return f"({', '.join(map(repr, self.fields))}{',' if len(self.fields) == 1 else ''})"


class FuncType(_Structural):
    """The type of a function: types of its arguments and of its result, over its type parameters."""

    __slots__ = ("arg_types", "ret_type", "type_params")

    def __init__(
        self,
        arg_types: Iterable[Type],
        ret_type: Type,
        type_params: Iterable["TypeVar"] | None = (),
        type_constraints: Iterable[object] | None = None,
    ) -> None:
        if type_constraints:
            raise ValueError("type constraints are not supported: the relations of operators belong to the operators")
        self.arg_types = tuple(arg_types)
        self.ret_type = ret_type
        self.type_params = tuple(type_params or ())
        self._set(self.arg_types, ret_type, self.type_params)

    def __repr__(self) -> str:
        params = f"[{', '.join(map(repr, self.type_params))}]" if self.type_params else ""
        return f"fn {params}({', '.join(map(repr, self.arg_types))}) -> {self.ret_type!r}"


class RefType(_Structural):
    """The type of a mutable reference to a value."""

    __slots__ = ("value",)

    def __init__(self, value: Type) -> None:
        self.value = value
        self._set(value)

    def __repr__(self) -> str:
        return f"ref({self.value!r})"


class TypeVar(_Structural):
    """A type parameter, by name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name
        self._set(name)

    def __repr__(self) -> str:
        return self.name


class GlobalTypeVar(_Structural):
    """The name of an algebraic data type, or of one of ONNX's own types (`onnx.Sequence`, `onnx.Optional`, `onnx.Map`)."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name
        self._set(name)

    def __call__(self, *args: Type) -> "TypeCall":
        """The type applied to types: `List(float32)`."""
        return TypeCall(self, args)

    def __repr__(self) -> str:
        return self.name


class TypeCall(_Structural):
    """A type constructor applied to types: `List[float32]`."""

    __slots__ = ("args", "func")

    def __init__(self, func: Type, args: Iterable[Type]) -> None:
        self.func = func
        self.args = tuple(args)
        self._set(func, self.args)

    def __repr__(self) -> str:
        return f"{self.func!r}[{', '.join(map(repr, self.args))}]"


class IncompleteType(_Structural):
    """A type that nobody knows: a value of an operator without inference, or a tensor of unknown rank. Relay prints it `_`."""

    __slots__ = ()

    def __init__(self) -> None:
        self._set()

    def __repr__(self) -> str:
        return "_"


def tensor_type(type_: Type, what: str = "value") -> TensorType:
    """`type_` if it is a tensor's, else TypeError naming `what`."""
    if not isinstance(type_, TensorType):
        raise TypeError(f"{what} has type {type_!r}, a tensor is needed")
    return type_


def compatible(a: Type, b: Type) -> bool:
    """Whether one value can have both types: equal element types and ranks, and no two different integers in one dimension."""
    if isinstance(a, IncompleteType) or isinstance(b, IncompleteType):
        return True
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        if a.dtype != b.dtype or len(a.shape) != len(b.shape):
            return False
        return all(not (type(m) is int and type(n) is int) or m == n for m, n in zip(a.shape, b.shape, strict=True))
    if isinstance(a, TupleType) and isinstance(b, TupleType):
        return len(a.fields) == len(b.fields) and all(map(compatible, a.fields, b.fields))
    if isinstance(a, TypeCall) and isinstance(b, TypeCall):
        return a.func == b.func and len(a.args) == len(b.args) and all(map(compatible, a.args, b.args))
    if isinstance(a, FuncType) and isinstance(b, FuncType) and a.type_params == b.type_params and len(a.arg_types) == len(b.arg_types):
        return all(map(compatible, (*a.arg_types, a.ret_type), (*b.arg_types, b.ret_type)))
    if isinstance(a, RefType) and isinstance(b, RefType):
        return compatible(a.value, b.value)
    return a == b


def refine(a: Type, b: Type) -> Type:
    """The most that two compatible types of one value say together: integers before names before `Any`."""
    if a == b or isinstance(b, IncompleteType):
        return a
    if isinstance(a, IncompleteType):
        return b
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return TensorType((_refine_dim(m, n) for m, n in zip(a.shape, b.shape, strict=True)), a.dtype)
    if isinstance(a, TupleType) and isinstance(b, TupleType):
        return TupleType(map(refine, a.fields, b.fields))
    if isinstance(a, TypeCall) and isinstance(b, TypeCall):
        return TypeCall(a.func, map(refine, a.args, b.args))
    return a


def _refine_dim(a: Dim, b: Dim) -> Dim:
    rank_a, rank_b = _knowledge(a), _knowledge(b)
    if rank_a != rank_b:
        return a if rank_a > rank_b else b
    return a


def _knowledge(dim: Dim) -> int:
    return 2 if type(dim) is int else 0 if isinstance(dim, Any) else 1


def substitute(type_: Type, solution: Mapping[TypeVar, Type]) -> Type:
    """The type with types put in for type parameters."""
    if not solution:
        return type_
    if isinstance(type_, TypeVar):
        return solution.get(type_, type_)
    if isinstance(type_, TupleType):
        return TupleType(substitute(field, solution) for field in type_.fields)
    if isinstance(type_, TypeCall):
        return TypeCall(type_.func, [substitute(arg, solution) for arg in type_.args])
    if isinstance(type_, RefType):
        return RefType(substitute(type_.value, solution))
    if isinstance(type_, FuncType):
        inner = {param: given for param, given in solution.items() if param not in type_.type_params}
        return FuncType([substitute(arg, inner) for arg in type_.arg_types], substitute(type_.ret_type, inner), type_.type_params)
    return type_

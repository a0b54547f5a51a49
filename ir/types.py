"""Types of the language, under Relay's names. Types are values: immutable, hashable, compared by content."""

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from itertools import count
from typing import Final

from passat.ir.dtypes import itemsize
from passat.ir.shape import Any, Dim, Shape, is_static, product, show_shape, static_size

SHOWN: Final = 10_000
"""Characters of a type that messages and comments show."""
_NEW: Final = count()
"""Numbers the type parameters that nothing else has."""


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
    """A type that is the list of its parts. `_key` is what it is compared by: the parts, in which bound type parameters have no names."""

    __slots__ = ("_hash", "_key", "_parts")
    _key: tuple[object, ...]
    _parts: tuple[object, ...]

    def _set(self, *parts: object) -> None:
        self._parts = self._key = parts
        self._hash = hash((type(self), parts))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Structural) and _equal(self, other))

    def __repr__(self) -> str:
        return write_type(self, repr, SHOWN)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return (type(self), self._parts)


def _equal(a: _Structural, b: _Structural) -> bool:
    stack: list[tuple[object, object]] = [(a, b)]
    met: set[tuple[int, int]] = set()  # parts may be shared: a type of n tuples can be a tree of 2 ** n
    while stack:
        left, right = stack.pop()
        if left is right:
            continue
        if type(left) is not type(right):
            return False
        if isinstance(left, tuple) and isinstance(right, tuple):
            if len(left) != len(right):
                return False
            stack.extend(zip(left, right, strict=True))
        elif isinstance(left, _Structural) and isinstance(right, _Structural):
            if left._hash != right._hash:
                return False
            if (id(left), id(right)) not in met:
                met.add((id(left), id(right)))
                stack.append((left._key, right._key))
        elif left != right:
            return False
    return True


class TupleType(_Structural):
    """The type of a tuple, field by field."""

    __slots__ = ("fields",)

    def __init__(self, fields: Iterable[Type]) -> None:
        self.fields = tuple(fields)
        self._set(self.fields)


class FuncType(_Structural):
    """The type of a function: types of its arguments and of its result, over its type parameters.

    The names of its type parameters do not count.

    >>> FuncType([TypeVar("A")], TypeVar("A"), [TypeVar("A")]) == FuncType([TypeVar("B")], TypeVar("B"), [TypeVar("B")])
    True
    """

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
        if self.type_params:
            # Parameters are named by how deep generic types nest inside: whatever is bound further inside has another name.
            level = 1 + max(map(_nesting, (*self.arg_types, ret_type)))
            nameless = {param: TypeVar(f"\0{level}.{i}") for i, param in enumerate(self.type_params)}
            self._key = (tuple(substitute(arg, nameless) for arg in self.arg_types), substitute(ret_type, nameless), len(self.type_params))
            self._hash = hash((FuncType, self._key))


class RefType(_Structural):
    """The type of a mutable reference to a value."""

    __slots__ = ("value",)

    def __init__(self, value: Type) -> None:
        self.value = value
        self._set(value)


class TypeKind(IntEnum):
    """What names of types stand for, with TVM's numbers: here type parameters for types, global names for algebraic data types."""

    Type = 0
    ShapeVar = 1
    BaseType = 2
    Constraint = 4
    AdtHandle = 5
    TypeData = 6


def _only(kind: int, supported: TypeKind) -> None:
    """Raises ValueError for another kind."""
    if kind != supported:
        raise ValueError(f"the kind {TypeKind(kind).name} is not supported here; {supported.name} is")


class TypeVar(_Structural):
    """A type parameter, by name. It stands for a type: ValueError for another kind."""

    __slots__ = ("name",)

    def __init__(self, name_hint: str, kind: int = TypeKind.Type) -> None:
        _only(kind, TypeKind.Type)
        self.name = name_hint
        self._set(name_hint)

    @property
    def name_hint(self) -> str:
        """The name, as TVM calls it."""
        return self.name

    def __repr__(self) -> str:
        return self.name


class GlobalTypeVar(_Structural):
    """The name of an algebraic data type, or of one of ONNX's own types (`onnx.Sequence`, `onnx.Optional`, `onnx.Map`)."""

    __slots__ = ("name",)

    def __init__(self, name_hint: str, kind: int = TypeKind.AdtHandle) -> None:
        _only(kind, TypeKind.AdtHandle)
        self.name = name_hint
        self._set(name_hint)

    @property
    def name_hint(self) -> str:
        """The name, as TVM calls it."""
        return self.name

    def __call__(self, *args: Type) -> "TypeCall | GlobalTypeVar":
        """The type applied to types: `List(float32)`; a type without parameters is itself."""
        return TypeCall(self, args) if args else self

    def __repr__(self) -> str:
        return self.name


class TypeCall(_Structural):
    """A type constructor applied to types: `List[float32]`."""

    __slots__ = ("args", "func")

    def __init__(self, func: Type, args: Iterable[Type]) -> None:
        self.func = func
        self.args = tuple(args)
        self._set(func, self.args)


class IncompleteType(_Structural):
    """A type that nobody knows: a value of an operator without inference, or a tensor of unknown rank. Relay prints it `_`."""

    __slots__ = ()

    def __init__(self, kind: int = TypeKind.Type) -> None:
        _only(kind, TypeKind.Type)
        self._set()

    def __repr__(self) -> str:
        return "_"


def _nesting(type_: Type) -> int:
    """How deep function types with type parameters nest in a type."""
    if isinstance(type_, FuncType):
        return bool(type_.type_params) + max(map(_nesting, (*type_.arg_types, type_.ret_type)))
    if isinstance(type_, (TupleType, TypeCall)):
        return max(map(_nesting, type_.fields if isinstance(type_, TupleType) else type_.args), default=0)
    return _nesting(type_.value) if isinstance(type_, RefType) else 0


def occurring(type_: Type) -> list[TypeVar]:
    """The type parameters that occur free in a type, once, in order.

    >>> a, b = TypeVar("a"), TypeVar("b")
    >>> occurring(TupleType([b, FuncType([a], b, [a])])), occurring(TupleType([FuncType([a], b, [a]), a]))
    ([b], [b, a])
    """
    if isinstance(type_, TypeVar):
        return [type_]
    if isinstance(type_, FuncType):
        parts: tuple[Type, ...] = (*type_.arg_types, type_.ret_type)
    elif isinstance(type_, TupleType):
        parts = type_.fields
    elif isinstance(type_, TypeCall):
        parts = (type_.func, *type_.args)
    else:
        parts = (type_.value,) if isinstance(type_, RefType) else ()
    found = dict.fromkeys(var for part in parts for var in occurring(part))
    return [var for var in found if not (isinstance(type_, FuncType) and var in type_.type_params)]


def tensor_type(type_: Type, what: str = "value") -> TensorType:
    """`type_` if it is a tensor's, else TypeError naming `what`."""
    if not isinstance(type_, TensorType):
        raise TypeError(f"{what} has type {type_!r}, a tensor is needed")
    return type_


def compatible(a: Type, b: Type) -> bool:
    """Whether one value can have both types: equal element types and ranks, and no two different integers in one dimension."""
    if isinstance(a, IncompleteType) or isinstance(b, IncompleteType) or a == b:
        return True
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        if a.dtype != b.dtype or len(a.shape) != len(b.shape):
            return False
        return all(not (type(m) is int and type(n) is int) or m == n for m, n in zip(a.shape, b.shape, strict=True))
    if isinstance(a, TupleType) and isinstance(b, TupleType):
        return len(a.fields) == len(b.fields) and all(map(compatible, a.fields, b.fields))
    if isinstance(a, TypeCall) and isinstance(b, TypeCall):
        return a.func == b.func and len(a.args) == len(b.args) and all(map(compatible, a.args, b.args))
    if isinstance(a, FuncType) and isinstance(b, FuncType):
        if len(a.arg_types) != len(b.arg_types) or len(a.type_params) != len(b.type_params):
            return False
        a, b = alike(a, b)
        return all(map(compatible, (*a.arg_types, a.ret_type), (*b.arg_types, b.ret_type)))
    if isinstance(a, RefType) and isinstance(b, RefType):
        return compatible(a.value, b.value)
    return a == b


def as_general(wanted: Type, given: Type) -> bool:
    """Whether a value of the given type may stand where one of the wanted type is: types are compatible, and a function of any type is one
    of a certain type."""
    if isinstance(wanted, FuncType) and isinstance(given, FuncType) and given.type_params and not wanted.type_params:
        given = substitute(FuncType(given.arg_types, given.ret_type), dict.fromkeys(given.type_params, IncompleteType()))
    return compatible(wanted, given)


def write_type(type_: Type, leaf: Callable[[Type], str], limit: int | None = None) -> str:
    """A type as text: `leaf` writes tensors and names. Behind `limit` characters it is cut off: a type can be a tree that is far larger
    than the program."""
    out: list[str] = []
    length = 0
    stack: list[Type | str] = [type_]
    while stack:
        part = stack.pop()
        if isinstance(part, TupleType):
            stack.extend(reversed(["(", *_listed(part.fields), ",)" if len(part.fields) == 1 else ")"]))
        elif isinstance(part, FuncType):
            params = ["[", *_listed(part.type_params), "]"] if part.type_params else []
            stack.extend(reversed(["fn ", *params, "(", *_listed(part.arg_types), ") -> ", part.ret_type]))
        elif isinstance(part, RefType):
            stack.extend([")", part.value, "ref("])
        elif isinstance(part, TypeCall):
            stack.extend(reversed([part.func, "[", *_listed(part.args), "]"]))
        else:
            out.append(part if isinstance(part, str) else leaf(part))
            length += len(out[-1])
            if limit is not None and length > limit:
                return "".join(out)[:limit] + "..."
    return "".join(out)


def _listed(types: Iterable[Type]) -> list[Type | str]:
    found: list[Type | str] = []
    for type_ in types:
        found += [type_, ", "]
    return found[:-1]


def alike(a: FuncType, b: FuncType) -> tuple[FuncType, FuncType]:
    """Two function types of as many type parameters, which are left out: new ones stand in their place, the same in both."""
    if not a.type_params:
        return a, b
    new = [TypeVar(f"\0new{next(_NEW)}") for _ in a.type_params]
    ours, theirs = dict(zip(a.type_params, new, strict=True)), dict(zip(b.type_params, new, strict=True))
    bare = [FuncType(type_.arg_types, type_.ret_type) for type_ in (a, b)]
    first, second = substitute(bare[0], ours), substitute(bare[1], theirs)
    assert isinstance(first, FuncType)
    assert isinstance(second, FuncType)
    return first, second


def refine(a: Type, b: Type) -> Type:
    """The most that two types of one value say together: integers before names before `Any`. Where they contradict each other, the first
    holds: a rank, an element type, a size of it is never replaced."""
    if a == b or isinstance(b, IncompleteType):
        return a
    if isinstance(a, IncompleteType):
        return b
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        if len(a.shape) != len(b.shape) or a.dtype != b.dtype:
            return a
        return TensorType((_refine_dim(m, n) for m, n in zip(a.shape, b.shape, strict=True)), a.dtype)
    if isinstance(a, TupleType) and isinstance(b, TupleType) and len(a.fields) == len(b.fields):
        return TupleType(map(refine, a.fields, b.fields))
    if isinstance(a, TypeCall) and isinstance(b, TypeCall) and a.func == b.func and len(a.args) == len(b.args):
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
        params = list(type_.type_params)
        if params and inner:
            taken = {var for given in inner.values() for var in occurring(given)}
            for i, param in enumerate(params):
                if param in taken:  # it would bind what is put in
                    names = (TypeVar(f"{param.name}{number}") for number in count(1))
                    params[i] = inner[param] = next(name for name in names if name not in {*taken, *params, *occurring(type_)})
        return FuncType([substitute(arg, inner) for arg in type_.arg_types], substitute(type_.ret_type, inner), params)
    return type_

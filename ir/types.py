"""Relay types. Types are values: immutable, hashable, and compared by content."""

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from itertools import count
from typing import Final, NamedTuple, cast

from passat.ir.counting import counted
from passat.ir.dim_text import given_shape
from passat.ir.dtypes import itemsize
from passat.ir.passat_error import PassatError
from passat.ir.shape import Any, Dim, Shape, SymDim, is_static, product, show_shape, static_size
from passat.ir.walks import preorder

SHOWN: Final = 10_000
"""Maximum number of characters of a type in messages and comments."""
_DIMS: Final = frozenset((int, SymDim, Any))
_NEW: Final = count()
"""Numbers fresh type parameters."""


class TypeQueryError(PassatError, TypeError, ValueError):
    """A tensor type does not have an axis, or sizes that are known. Where a guard requires them, it rejects the match."""


class Type:
    """Base class of all types. `str` prints Relay's text format."""

    __slots__ = ()

    def same_as(self, other: object) -> bool:
        """Whether `other` is the same object."""
        return self is other

    def __str__(self) -> str:
        from passat.ir.text.types import show_type

        return show_type(self)


class TensorType(Type):
    """A tensor type: a shape and an element type. A scalar has the shape `()`.

    >>> TensorType((1, 3), "float32")
    Tensor[(1, 3), float32]
    """

    __slots__ = ("_hash", "dtype", "shape")
    shape: Shape
    dtype: str

    def __init__(self, shape: Iterable[Dim] = (), dtype: str = "float32") -> None:
        self.shape = shape if type(shape) is tuple else given_shape(shape)
        for dim in self.shape:
            if type(dim) not in _DIMS:
                self.shape = given_shape(self.shape)
                break
        self.dtype = dtype
        self._hash = hash((self.shape, dtype))

    @property
    def ndim(self) -> int:
        """The number of dimensions (the rank)."""
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
        """The shape as integers. Raises TypeQueryError if a dimension is symbolic or unknown."""
        if not is_static(self.shape):
            raise TypeQueryError(f"the shape of {self} is not static")
        return tuple(dim for dim in self.shape if isinstance(dim, int))

    @property
    def nbytes(self) -> float:
        """Size in bytes. Symbolic and unknown dimensions count with an assumed size."""
        return static_size(self.shape) * itemsize(self.dtype)

    def with_shape(self, shape: Iterable[Dim]) -> "TensorType":
        """Returns the type with another shape."""
        return TensorType(tuple(shape), self.dtype)

    def with_dtype(self, dtype: str) -> "TensorType":
        """Returns the type with another element type."""
        return TensorType(self.shape, dtype)

    def axis(self, axis: int) -> int:
        """Normalizes a negative axis. Raises TypeQueryError if the axis is out of range."""
        if not -self.ndim <= axis < self.ndim:
            raise TypeQueryError(f"{self!r} has no axis {axis}")
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
    """A type that is defined by its parts. `_key` is the parts with bound type parameters renamed; comparison uses it."""

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
    met: set[tuple[int, int]] = set()  # parts may be shared: a type built of n tuples can expand to a tree of 2 ** n nodes
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
    """The type of a tuple: one type per field."""

    __slots__ = ("fields",)

    def __init__(self, fields: Iterable[Type]) -> None:
        self.fields = tuple(fields)
        self._set(self.fields)


class FuncType(_Structural):
    """The type of a function: argument types, result type, type parameters, and type relations that constrain them.

    Inference does not solve the constraints of function types; the relations that it solves belong to operators.
    Types that differ only in the names of their type parameters are equal.

    >>> FuncType([TypeVar("A")], TypeVar("A"), [TypeVar("A")]) == FuncType([TypeVar("B")], TypeVar("B"), [TypeVar("B")])
    True
    """

    __slots__ = ("arg_types", "ret_type", "type_constraints", "type_params")

    def __init__(
        self,
        arg_types: Iterable[Type],
        ret_type: Type,
        type_params: Iterable["TypeVar"] | None = (),
        type_constraints: Iterable["TypeRelation"] | None = (),
    ) -> None:
        self.arg_types = tuple(arg_types)
        self.ret_type = ret_type
        self.type_params = tuple(type_params or ())
        self.type_constraints = tuple(type_constraints or ())
        self._set(self.arg_types, ret_type, self.type_params, *((self.type_constraints,) if self.type_constraints else ()))
        if self.type_params:
            # Canonical names of parameters include the nesting depth of generic types, so names bound further inside differ.
            level = 1 + max(map(_nesting, (*self.arg_types, ret_type)))
            nameless = {param: TypeVar(f"\0{level}.{i}", param.kind) for i, param in enumerate(self.type_params)}
            parts = (*self.arg_types, ret_type, *self.type_constraints)
            kinds = tuple(int(param.kind) for param in self.type_params)
            self._key = (len(self.arg_types), tuple(substitute(part, nameless) for part in parts), kinds)
            self._hash = hash((FuncType, self._key))


class RefType(_Structural):
    """The type of a mutable reference."""

    __slots__ = ("value",)

    def __init__(self, value: Type) -> None:
        self.value = value
        self._set(value)


class TypeKind(IntEnum):
    """Kinds of types, with TVM's numbers (`passat.ir.kinds.check_kind`)."""

    Type = 0
    ShapeVar = 1
    BaseType = 2
    Shape = 3
    Constraint = 4
    AdtHandle = 5
    TypeData = 6


class _Named(_Structural):
    """A type that is a name, of some kind. Compared by name and kind."""

    __slots__ = ("kind", "name")

    def _name(self, name_hint: str, kind: int, usual: TypeKind) -> None:
        self.name = name_hint
        self.kind = TypeKind(kind)
        self._set(name_hint, *(() if self.kind is usual else (self.kind,)))

    @property
    def name_hint(self) -> str:
        """The name, under TVM's attribute name."""
        return self.name

    def __repr__(self) -> str:
        return self.name


class TypeVar(_Named):
    """A type parameter. Raises ValueError for an unknown kind."""

    __slots__ = ()

    def __init__(self, name_hint: str, kind: int = TypeKind.Type) -> None:
        self._name(name_hint, kind, TypeKind.Type)


class GlobalTypeVar(_Named):
    """The name of an algebraic data type, or of a type that is specific to ONNX (`onnx.Sequence`, `onnx.Optional`, `onnx.Map`)."""

    __slots__ = ()

    def __init__(self, name_hint: str, kind: int = TypeKind.AdtHandle) -> None:
        self._name(name_hint, kind, TypeKind.AdtHandle)

    def __call__(self, *args: Type) -> "TypeCall | GlobalTypeVar":
        """Applies the type to arguments: `List(float32)`. Without arguments, returns the type itself."""
        return TypeCall(self, args) if args else self


class TypeCall(_Structural):
    """A type constructor applied to types: `List[float32]`."""

    __slots__ = ("args", "func")

    def __init__(self, func: Type, args: Iterable[Type]) -> None:
        self.func = func
        self.args = tuple(args)
        self._set(func, self.args)


class IncompleteType(_Structural):
    """An unknown type: the result of an operator without shape inference, or a tensor of unknown rank. Relay prints it as `_`."""

    __slots__ = ("kind",)

    def __init__(self, kind: int = TypeKind.Type) -> None:
        self.kind = TypeKind(kind)
        self._set(*(() if self.kind is TypeKind.Type else (self.kind,)))

    def __repr__(self) -> str:
        return "_"


class TypeRelation(_Structural):
    """A constraint on types: a named relation of argument types; the first `num_inputs` of them determine the others.

    Passat's operators have type relations of their own (`passat.ir.op.define_op`); this class is for function types and for tools that
    analyze types. Raises ValueError for a number of inputs that the arguments do not have.
    """

    __slots__ = ("args", "attrs", "func", "num_inputs")

    def __init__(self, func: "EnvFunc | None", args: Iterable[Type], num_inputs: int, attrs: object = None) -> None:
        self.func = func
        self.args = tuple(args)
        self.num_inputs = num_inputs
        self.attrs = attrs
        if not 0 <= num_inputs <= len(self.args):
            raise ValueError(f"a type relation of {counted(len(self.args), 'type')} cannot have {counted(num_inputs, 'input')}")
        self._set(func, self.args, num_inputs, attrs)

    def __repr__(self) -> str:
        name = "a relation" if self.func is None else self.func.name
        return f"{name}({', '.join(map(repr, self.args))})"


class EnvFunc(NamedTuple):
    """The name of a function that is registered elsewhere, such as `tvm.relay.type_relation.Broadcast`."""

    name: str

    @staticmethod
    def get(name: str) -> "EnvFunc":
        """The function with a name."""
        return EnvFunc(name)


def type_parts(type_: Type) -> tuple[Type, ...]:
    """Returns the types that a type is made of, in order, without the type parameters that it binds."""
    if isinstance(type_, TupleType):
        return type_.fields
    if isinstance(type_, FuncType):
        return (*type_.arg_types, type_.ret_type, *type_.type_constraints)
    if isinstance(type_, TypeCall):
        return (type_.func, *type_.args)
    if isinstance(type_, TypeRelation):
        return type_.args
    return (type_.value,) if isinstance(type_, RefType) else ()


def map_parts(type_: Type, function: Callable[[Type], Type]) -> Type:
    """Returns a type of the same kind, made of what a function returns for its parts."""
    if isinstance(type_, TupleType):
        return TupleType(map(function, type_.fields))
    if isinstance(type_, FuncType):
        constraints = cast("Iterable[TypeRelation]", map(function, type_.type_constraints))
        return FuncType(map(function, type_.arg_types), function(type_.ret_type), type_.type_params, constraints)
    if isinstance(type_, TypeCall):
        return TypeCall(function(type_.func), map(function, type_.args))
    if isinstance(type_, TypeRelation):
        return TypeRelation(type_.func, map(function, type_.args), type_.num_inputs, type_.attrs)
    return RefType(function(type_.value)) if isinstance(type_, RefType) else type_


def leaves(type_: Type) -> tuple[Type, ...]:
    """The types in nested tuple types, from left to right; the type itself if it is none.

    >>> leaves(TupleType([TypeVar("a"), TupleType([TypeVar("b")])]))
    (a, b)
    """
    if not isinstance(type_, TupleType):
        return (type_,)
    nested = preorder(type_.fields, lambda part: part.fields if isinstance(part, TupleType) else ())
    return tuple([part for part in nested if not isinstance(part, TupleType)])


def lacks_sizes(type_: Type) -> bool:
    """True if a tensor of a type has an unknown size without a name."""
    return any(isinstance(dim, Any) for leaf in leaves(type_) if isinstance(leaf, TensorType) for dim in leaf.shape)


def _nesting(type_: Type) -> int:
    """The nesting depth of generic function types within a type."""
    return (isinstance(type_, FuncType) and bool(type_.type_params)) + max(map(_nesting, type_parts(type_)), default=0)


def occurring(type_: Type) -> list[TypeVar]:
    """Returns the free type parameters of a type, without duplicates, in order of occurrence.

    >>> a, b = TypeVar("a"), TypeVar("b")
    >>> occurring(TupleType([b, FuncType([a], b, [a])])), occurring(TupleType([FuncType([a], b, [a]), a]))
    ([b], [b, a])
    """
    if isinstance(type_, TypeVar):
        return [type_]
    found = dict.fromkeys(var for part in type_parts(type_) for var in occurring(part))
    return [var for var in found if not (isinstance(type_, FuncType) and var in type_.type_params)]


def tensor_type(type_: Type, what: str = "value") -> TensorType:
    """Returns `type_` if it is a tensor type; raises TypeError naming `what` otherwise."""
    if not isinstance(type_, TensorType):
        raise TypeError(f"{what} must be a tensor, but has type {type_!r}")
    return type_


def compatible(a: Type, b: Type) -> bool:
    """Whether a value can have both types: equal ranks and element types, and no dimension with two different integers."""
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
    """Whether a value of the given type can be used as the wanted type: compatible after instantiating a generic function."""
    if isinstance(wanted, FuncType) and isinstance(given, FuncType) and given.type_params and not wanted.type_params:
        given = substitute(FuncType(given.arg_types, given.ret_type), dict.fromkeys(given.type_params, IncompleteType()))
    return compatible(wanted, given)


def write_type(type_: Type, leaf: Callable[[Type], str], limit: int | None = None) -> str:
    """Prints a type; `leaf` prints tensor types and names.

    The text is cut off after `limit` characters, because a type with shared parts can expand to a tree far larger than the program.
    """
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
    """Drops the type parameters of two function types with equally many, and substitutes the same fresh parameters in both."""
    if not a.type_params:
        return a, b
    new = [TypeVar(f"\0new{next(_NEW)}", param.kind) for param in a.type_params]
    ours, theirs = dict(zip(a.type_params, new, strict=True)), dict(zip(b.type_params, new, strict=True))
    bare = [FuncType(type_.arg_types, type_.ret_type) for type_ in (a, b)]
    first, second = substitute(bare[0], ours), substitute(bare[1], theirs)
    assert isinstance(first, FuncType)
    assert isinstance(second, FuncType)
    return first, second


def refine(a: Type, b: Type) -> Type:
    """Combines two types of one value into the more precise one: integers over symbols over `Any`.

    If the types contradict each other, the first wins: its rank, element type and static sizes are never replaced.
    """
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
    """Substitutes types for type parameters."""
    if not solution:
        return type_
    if isinstance(type_, TypeVar):
        return solution.get(type_, type_)
    if isinstance(type_, FuncType):
        inner = {param: given for param, given in solution.items() if param not in type_.type_params}
        params = list(type_.type_params)
        if params and inner:
            taken = {var for given in inner.values() for var in occurring(given)}
            for i, param in enumerate(params):
                if param in taken:  # avoids capturing a substituted parameter
                    names = (TypeVar(f"{param.name}{number}", param.kind) for number in count(1))
                    params[i] = inner[param] = next(name for name in names if name not in {*taken, *params, *occurring(type_)})
        constraints = [cast(TypeRelation, substitute(constraint, inner)) for constraint in type_.type_constraints]
        return FuncType([substitute(arg, inner) for arg in type_.arg_types], substitute(type_.ret_type, inner), params, constraints)
    return map_parts(type_, lambda part: substitute(part, solution))

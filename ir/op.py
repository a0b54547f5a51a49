"""The operator registry: one declaration per operator holds its type relation, attributes, kernel, cost, traits and ONNX form."""

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal
from typing import Any as AnyValue

import numpy as np
import numpy.typing as npt

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.cost import Cost, memory_bound
from passat.ir.dtypes import NAMES
from passat.ir.expr import Call, Expr, Span
from passat.ir.op_attributes import Registered
from passat.ir.passat_error import PassatError
from passat.ir.shape import ANY, Any, Dim, SymDim, static_size
from passat.ir.types import IncompleteType, TensorType, TupleType, Type

if TYPE_CHECKING:
    from passat.ir.onnx_mapping import ToOnnx

Relation = Callable[..., Type]
Exactness = Literal["never", "integers", "always"]
"""On which operands a kernel computes the bits that ONNX Runtime does: on none that is shown, on all but floating-point ones, on all."""
Kernel = Callable[..., AnyValue]
CostFunction = Callable[[Sequence[Type], Type, Attrs], Cost]
ShapeValue = npt.NDArray[np.object_]
"""The elements of an integer tensor as dimensions (`passat.ir.shape.Dim`): what shape arithmetic knows about a value before it runs."""
KnownValue = ShapeValue | tuple[ShapeValue, ...]
"""What is known of an operand: of a tuple, field by field."""
KnownFunction = Callable[[Sequence[Type], Sequence[KnownValue | None], Attrs], KnownValue | None]
KNOWN_LIMIT = 256
"""Tensors of more elements than this are not followed through shape arithmetic."""
ENTRY_LIMIT = 1 << 16
"""Vectors of more entries than this cannot be shapes, sizes of parts, starts or steps."""
FOLLOWED = frozenset({"int64", "int32", "bool"})
"""Element types of the tensors that are followed: sizes, and what comparisons say of them."""

REQUIRED = inspect.Parameter.empty
"""The default of an attribute that has none (`Op.defaults`)."""


class OpTypeError(PassatError, TypeError):
    """Operands or attributes that an operator does not accept. The message names the operator and the types."""


class Known:
    """An operand whose elements the type relation wants to look at (the shape of a reshape): its type, and what is known of its value."""

    __slots__ = ("type", "value")

    def __init__(self, type_: TensorType, value: KnownValue | None) -> None:
        self.type = type_
        self.value = value if not isinstance(value, tuple) else None

    def dims(self) -> list[Dim] | None:
        """The elements as dimensions, where the tensor is a vector of static length; `Any` for those that are not known. Raises OpTypeError
        for a vector of more than `ENTRY_LIMIT` elements."""
        if self.value is not None:
            return list(self.value.reshape(-1))
        if self.type.ndim != 1 or not isinstance(length := self.type.shape[0], int):
            return None
        if length > ENTRY_LIMIT:
            raise OpTypeError(f"{self.type!r} has more entries than shapes and sizes have, {ENTRY_LIMIT} at most")
        return [ANY] * length


class Op(Registered, Expr):
    """A primitive operator. Calling it on expressions builds a `Call`, attributes by keyword.

    Facts that rules and folding are derived from:

    * `elementwise`: each element of the result depends on the operands' elements at the same (broadcast) place only;
    * `movement`: the result's elements are elements of the tensor operands, moved, repeated or dropped;
    * `commutative`, `associative`; `idempotent`: f(f(x)) = f(x), or f(x, x) = x; `involution`: f(f(x)) = x;
    * `even`: f(-x) = f(x); `odd`: f(-x) = -f(x); `non_negative`: no floating-point element of the result is less than 0, or -0.0;
      `monotonic`: f(x) <= f(y) where x <= y, but for rounding, and NaN comes of NaN alone;
    * `unit`, `zero`: the scalar u with f(x, u) = x, or z with f(x, z) = z (of a commutative operator on either side; of another one on
      the right only). Both hold exactly on integers and bool. On floats a unit may turn -0.0 into 0.0 (x + 0), and a zero holds for
      finite x up to its sign (x * 0);
    * `stateful`: never folded, merged, duplicated, dropped or reordered;
    * `shape_arith`: the kernel also works on object arrays of dimensions, so partly known shapes go through it; `known` computes
      what is known of the result where that takes more than the kernel (`shape_of`);
    * `exact`: whether the kernel computes what ONNX Runtime does with its optimizations off, bit for bit: always, where no operand is of
      floating-point numbers, or never as far as is shown. What moves elements is exact. Other calls on constants ONNX Runtime computes
      itself (`passat.ir.folding`);
    * `results`: how many fields the result has where it is a tuple, a number or a function of the attributes;
    * `is_own`: whether it is one of Passat's own, and not declared elsewhere, as in a rule file;
    * `pattern`: how Relay's fusion sees it (0 elementwise, 1 broadcast, 2 injective, 3 reduction, 4 fusable output, 8 opaque): for
      operators that Relay has, their TOpPattern in TVM v0.8.
    """

    __slots__ = (
        "_cache",
        "arity",
        "associative",
        "attr_params",
        "commutative",
        "cost",
        "defaults",
        "doc",
        "elementwise",
        "even",
        "exact",
        "idempotent",
        "involution",
        "is_own",
        "kernel",
        "known",
        "known_operands",
        "monotonic",
        "movement",
        "name",
        "non_negative",
        "odd",
        "operand_names",
        "pattern",
        "registered",
        "relation",
        "results",
        "shape_arith",
        "stateful",
        "to_onnx",
        "unit",
        "variadic",
        "zero",
    )

    def __init__(self, name: str, relation: Relation, *, doc: str = "") -> None:
        self.name = name
        self.relation = relation
        self.is_own = relation.__module__.startswith("passat.")
        self.doc = doc
        self.span = None
        self._checked_type = IncompleteType()  # as a value it is one of a type that nobody knows
        self.kernel: Kernel | None = None
        self.known: KnownFunction | None = None
        self.cost: CostFunction = memory_bound
        self.elementwise = self.movement = self.commutative = self.associative = False
        self.idempotent = self.involution = self.stateful = self.shape_arith = False
        self.even = self.odd = self.non_negative = self.monotonic = False
        self.exact: Exactness = "never"
        self.unit: float | None = None
        self.zero: float | None = None
        self.results: Callable[[Attrs], int] | int | None = None
        self.pattern = 8
        self.registered = {}
        self.to_onnx: ToOnnx | None = None
        self._cache: dict[tuple[object, ...], Type] = {}
        self.operand_names: tuple[str, ...] = ()
        self.known_operands: frozenset[int] = frozenset()
        self.variadic = False
        self.attr_params: dict[str, inspect.Parameter] = {}
        for parameter in inspect.signature(relation).parameters.values():
            if parameter.kind is parameter.KEYWORD_ONLY:
                self.attr_params[parameter.name] = parameter
            elif parameter.kind is parameter.VAR_POSITIONAL:
                self.variadic = True
            elif parameter.kind is not parameter.VAR_KEYWORD:
                if parameter.annotation is Known:
                    self.known_operands |= {len(self.operand_names)}
                self.operand_names += (parameter.name,)
        self.arity = len(self.operand_names)
        self.defaults = {name: parameter.default for name, parameter in self.attr_params.items()}

    def __call__(self, *args: Expr, span: Span | None = None, **attrs: AnyValue) -> Call:
        """A call on expressions. Raises OpTypeError for a wrong number of operands, and for unknown or missing attributes."""
        if not self.variadic and len(args) != self.arity:
            raise OpTypeError(f"{self.name} takes {self.arity} operands ({', '.join(self.operand_names)}), {len(args)} were given")
        return Call(self, args, self.bind_attrs(attrs), span=span)

    @staticmethod
    def get(op_name: str) -> "Op":
        """The operator of that name (`get_op`)."""
        return get_op(op_name)

    def bind_attrs(self, given: Mapping[str, AnyValue]) -> Attrs:
        """All attributes of the operator in declared order, defaults filled in. Raises OpTypeError for unknown or missing ones."""
        if not self.attr_params and not given:
            return EMPTY_ATTRS
        values = {**self.defaults, **given}
        if len(values) != len(self.defaults):
            known = ", ".join(self.defaults) or "none"
            name = next(name for name in given if name not in self.defaults)
            raise OpTypeError(f"{self.name} has no attribute {name!r}; it has: {known}")
        for name, value in values.items():
            if value is REQUIRED:
                raise OpTypeError(f"{self.name} needs the attribute {name!r}")
        return Attrs(values)

    def infer(self, types: Sequence[Type], attrs: Attrs, values: Sequence[KnownValue | None] | None = None) -> Type:
        """The type of a call on operands of the given types. `values` is what is known of the operands' elements, where that matters.

        Raises OpTypeError that names the operator, the operands' types and what is wrong.
        """
        if self.known_operands:
            operands: Sequence[object] = [
                Known(type_, None if values is None else values[i]) if i in self.known_operands and isinstance(type_, TensorType) else type_
                for i, type_ in enumerate(types)
            ]
            return self._relate(operands, types, attrs)
        key = (*types, attrs)
        try:
            found = self._cache.get(key)
        except TypeError as error:
            raise OpTypeError(f"{self.name}: the value of an attribute is nothing that attributes hold: {error}") from error
        if found is None:
            found = self._relate(types, types, attrs)
            if len(self._cache) > 10_000:
                self._cache.clear()
            self._cache[key] = found
        return found

    @property
    def follows_sizes(self) -> bool:
        """Whether something may be known of the result before a run where it is a small tensor of integers (`known_value`)."""
        return self.known is not None or self.shape_arith

    def known_value(self, types: Sequence[Type], values: Sequence[KnownValue | None], attrs: Attrs, result: Type) -> KnownValue | None:
        """What is known of the elements of a call's result, from what is known of its operands; None where that is nothing."""
        try:
            if self.known is not None:
                return self.known(types, values, attrs)
            if not self.shape_arith or self.kernel is None or not is_followed(result) or any(value is None for value in values):
                return None
            found = self.kernel(*values, **attrs)
        except (ValueError, TypeError, IndexError, ArithmeticError):
            return None  # an index that is out of range, or a dimension where the kernel needs a number
        return found if isinstance(found, tuple) else _in_range(np.asarray(found, np.object_), result)

    def _relate(self, operands: Sequence[object], types: Sequence[Type], attrs: Attrs) -> Type:
        try:
            if not self.variadic and len(types) != self.arity:
                raise OpTypeError(f"takes {self.arity} operands, {len(types)} were given")
            return _well_formed(self.relation(*operands, **attrs))
        except Exception as error:
            if self.is_own and not isinstance(error, (TypeError, ValueError, AttributeError, LookupError, ArithmeticError)):
                raise
            if any(map(_is_incomplete, types)):
                return IncompleteType()  # what comes of an operand that nobody knows
            reason = str(error).removeprefix(f"{self.name}: ")
            shown = ", ".join(f"{name}={value!r}" for name, value in attrs.items())
            raise OpTypeError(f"{self.name}({', '.join(map(repr, types))}{'; ' + shown if shown else ''}): {reason}") from error

    def __reduce__(self) -> tuple[AnyValue, ...]:
        return (get_op, (self.name,))

    def __repr__(self) -> str:
        return self.name


def _well_formed(type_: Type) -> Type:
    """The type that a relation returned. Raises OpTypeError where an attribute made a dimension or element type that there is not."""
    if isinstance(type_, TensorType):
        if type_.dtype not in NAMES:
            raise OpTypeError(f"there is no element type {type_.dtype!r}")
        for dim in type_.shape:
            known = 0 <= dim < 1 << 63 if isinstance(dim, (int, np.integer)) else isinstance(dim, (SymDim, Any))
            if not known or isinstance(dim, bool):
                raise OpTypeError(f"the result would have the dimension {dim!r}")
    elif isinstance(type_, TupleType):
        for field in type_.fields:
            _well_formed(field)
    elif not isinstance(type_, Type):
        raise OpTypeError(f"the type relation gave {type_!r}, which is no type")
    return type_


def _is_incomplete(type_: Type) -> bool:
    return isinstance(type_, IncompleteType) or (isinstance(type_, TupleType) and any(map(_is_incomplete, type_.fields)))


def is_followed(type_: Type) -> bool:
    """Whether shape arithmetic follows values of a type: small tensors of integers or bool."""
    return isinstance(type_, TensorType) and type_.dtype in FOLLOWED and type_.is_static and static_size(type_.shape) <= KNOWN_LIMIT


def _in_range(found: ShapeValue, type_: Type) -> ShapeValue:
    """What is known, less the integers that the element type cannot hold: the run would wrap them around."""
    bits = 31 if isinstance(type_, TensorType) and type_.dtype == "int32" else 63
    elements = found.reshape(-1).tolist()
    kept = [ANY if type(element) is int and not -(1 << bits) <= element < 1 << bits else element for element in elements]
    return found if kept == elements else _objects(kept, found.shape)


def _objects(elements: Sequence[AnyValue], shape: tuple[int, ...]) -> ShapeValue:
    array = np.empty(len(elements), np.object_)
    array[:] = elements
    return array.reshape(shape)


_OPS: dict[str, Op] = {}
_FACTORIES: dict[str, Callable[[str], Op]] = {}


def define_op(
    name: str = "",
    *,
    kernel: Kernel | None = None,
    cost: CostFunction = memory_bound,
    onnx: str | None = None,
    pattern: int | None = None,
    elementwise: bool = False,
    movement: bool = False,
    commutative: bool = False,
    associative: bool = False,
    idempotent: bool = False,
    involution: bool = False,
    even: bool = False,
    odd: bool = False,
    non_negative: bool = False,
    monotonic: bool = False,
    stateful: bool = False,
    shape_arith: bool = False,
    exact: Exactness = "never",
    unit: float | None = None,
    zero: float | None = None,
    known: KnownFunction | None = None,
    results: Callable[[Attrs], int] | int | None = None,
) -> Callable[[Relation], Op]:
    """Declares an operator: the decorated function is its type relation, keyword-only parameters are its attributes.

    `onnx` is the short form of the ONNX mapping, for operators that differ in name only: `"Relu"`, `"Transpose(perm=axes)"`
    (ONNX attribute = our attribute), `"Erf@9"` (there is none before opset 9); with a domain, `"com.mycompany.FusedThing"`, it is also the
    name where none is given. Everything else is written with `@from_onnx` and `@to_onnx` (`passat.ir.onnx_mapping`). A declaration
    outside Passat takes the place of an earlier one of its name. Raises ValueError for a name that one of Passat's own operators has.
    """
    from passat.ir.onnx_mapping import parse_mapping, rename

    mapping = None if onnx is None else parse_mapping(onnx)
    if not name:
        if mapping is None or not mapping.domain:
            raise ValueError("an operator has a name, or that of an ONNX operator with its domain: onnx='com.mycompany.FusedThing'")
        name = f"{mapping.domain}.{mapping.op_type}"

    def declare(relation: Relation) -> Op:
        op = Op(name, relation, doc=inspect.getdoc(relation) or "")
        names = [name] if mapping is None or not mapping.domain else [name, f"{mapping.domain}.{mapping.op_type}"]
        _make_room(op, names)
        op.kernel, op.cost = kernel, cost
        op.elementwise, op.movement, op.commutative, op.associative = elementwise, movement, commutative, associative
        op.idempotent, op.involution, op.stateful, op.shape_arith = idempotent, involution, stateful, shape_arith
        op.even, op.odd, op.non_negative, op.monotonic = even, odd, non_negative, monotonic
        op.exact = "always" if movement else exact
        op.unit, op.zero, op.known, op.results = unit, zero, known, results
        op.pattern = pattern if pattern is not None else (0 if op.arity == 1 else 1) if elementwise else 2 if movement else 8
        _OPS.update(dict.fromkeys(names, op))
        if mapping is not None and mapping.domain:
            from passat.ir.custom_ops import map_custom

            map_custom(op, mapping.domain, mapping.op_type, mapping.attr_names)
        elif mapping is not None:
            rename(op, mapping.op_type, mapping.attr_names, mapping.since)
        return op

    return declare


def _make_room(op: Op, names: Sequence[str]) -> None:
    """Forgets operators of such names, of which an operator outside Passat takes the place. Raises ValueError for Passat's own."""
    if not op.is_own:
        _load()
    for taken in [_OPS[name] for name in names if name in _OPS]:
        if op.is_own or taken.is_own:
            raise ValueError(f"the operator {taken.name!r} is declared twice")
        for name in [name for name, other in _OPS.items() if other is taken]:
            del _OPS[name]


def op_family(prefix: str, factory: Callable[[str], Op]) -> None:
    """Operators whose names begin with `prefix` are made on demand (`onnx.` for operators that Passat does not know)."""
    _FACTORIES[prefix] = factory


def find_op(name: str) -> Op | None:
    """The operator of that name, None where there is none."""
    found = _OPS.get(name)
    if found is not None:
        return found
    _load()
    found = _OPS.get(name)
    if found is None:
        for prefix, factory in _FACTORIES.items():
            if name.startswith(prefix):
                found = _OPS[name] = factory(name)
                break
    return found


def get_op(name: str) -> Op:
    """The operator of that name. Raises KeyError that names the nearest known operators.

    >>> get_op("nn.relu").elementwise
    True
    """
    found = find_op(name)
    if found is None:
        # Members of families come to be as models are read: a message does not depend on that.
        declared = [known for known in _OPS if not known.startswith(tuple(_FACTORIES))]
        near = difflib.get_close_matches(name, declared, 3)
        raise KeyError(f"there is no operator {name!r}{'; did you mean ' + ' or '.join(near) + '?' if near else ''}")
    return found


def register_op_attr(op_name: str, attr_key: str, value: AnyValue = None, level: int = 10) -> AnyValue:
    """Registers an attribute of an operator (`Op.set_attr`); without a value, the decorator of a function that is the value.

    >>> @register_op_attr("exp", "example")
    ... def plus_one(x):
    ...     return x + 1
    >>> get_op("exp").get_attr("example")(1)
    2
    >>> get_op("exp").reset_attr("example")
    """
    op = get_op(op_name)

    def register(found: AnyValue) -> AnyValue:
        op.set_attr(attr_key, found, level)
        return found

    return register if value is None else register(value)


def list_ops() -> list[Op]:
    """Passat's own operators, by name (families made on demand only where they have been made)."""
    _load()
    return [_OPS[name] for name in sorted(_OPS) if _OPS[name].is_own]


def _load() -> None:
    import passat.ir.onnx.opaque
    import passat.ir.ops  # noqa: F401  # importing declares the operators

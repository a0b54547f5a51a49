"""The operator registry. One declaration per operator holds its type relation, attributes, kernel, cost, traits and ONNX mapping."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal
from typing import Any as AnyValue

import numpy as np
import numpy.typing as npt

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.cost import Cost, memory_bound
from passat.ir.counting import counted
from passat.ir.dtypes import NAMES
from passat.ir.expr import Call, Expr, Span
from passat.ir.op_attributes import Registered
from passat.ir.passat_error import PassatError
from passat.ir.shape import ANY, Any, Dim, SymDim, static_size
from passat.ir.similar_names import did_you_mean
from passat.ir.types import IncompleteType, TensorType, TupleType, Type
from passat.ir.virtual_devices import NOT_SUPPORTED, OPERATORS

if TYPE_CHECKING:
    from passat.ir.onnx_mapping import ToOnnx

Relation = Callable[..., Type]
Exactness = Literal["never", "integers", "always"]
"""For which operands a kernel is shown to match ONNX Runtime bit for bit: none, all except floating-point ones, or all."""
Kernel = Callable[..., AnyValue]
CostFunction = Callable[[Sequence[Type], Type, Attrs], Cost]
ShapeValue = npt.NDArray[np.object_]
"""The elements of an integer tensor as dimensions (`passat.ir.shape.Dim`), for shape arithmetic before execution."""
KnownValue = ShapeValue | tuple[ShapeValue, ...]
"""The known elements of an operand; for a tuple, of each field."""
KnownFunction = Callable[[Sequence[Type], Sequence[KnownValue | None], Attrs], KnownValue | None]
KNOWN_LIMIT = 256
"""Maximum number of elements of tensors tracked by shape arithmetic."""
ENTRY_LIMIT = 1 << 16
"""Maximum length of vectors of shapes, split sizes, starts or steps."""
FOLLOWED = frozenset({"int64", "int32", "bool"})
"""Element types tracked by shape arithmetic: integers for sizes, and bool for comparisons of sizes."""

REQUIRED = inspect.Parameter.empty
"""Marks an attribute without a default (`Op.defaults`)."""


class OpTypeError(PassatError, TypeError):
    """An operator rejects its operands or attributes. The message names the operator and the types."""


class Known:
    """An operand whose elements the type relation reads (such as the shape of a reshape): its type and its known elements."""

    __slots__ = ("type", "value")

    def __init__(self, type_: TensorType, value: KnownValue | None) -> None:
        self.type = type_
        self.value = value if not isinstance(value, tuple) else None

    def dims(self) -> list[Dim] | None:
        """Returns the elements of a vector of static length as dimensions, with `Any` for unknown ones.

        Raises OpTypeError for a vector of more than `ENTRY_LIMIT` elements.
        """
        if self.value is not None:
            return list(self.value.reshape(-1))
        if self.type.ndim != 1 or not isinstance(length := self.type.shape[0], int):
            return None
        if length > ENTRY_LIMIT:
            raise OpTypeError(f"{self.type!r} is too long for a vector of shapes or sizes; the maximum is {ENTRY_LIMIT} elements")
        return [ANY] * length


class Op(Registered, Expr):
    """A primitive operator. Calling it on expressions builds a `Call`, with attributes as keyword arguments.

    Traits and properties that rules and constant folding use:

    * `elementwise`: each element of the result depends only on the elements of the operands at the same (broadcast) position;
    * `movement`: the elements of the result are elements of the tensor operands, moved, repeated or dropped;
    * `commutative`, `associative`; `idempotent`: f(f(x)) = f(x), or f(x, x) = x; `involution`: f(f(x)) = x;
    * `even`: f(-x) = f(x); `odd`: f(-x) = -f(x); `non_negative`: no floating-point element of the result is negative or -0.0; `monotonic`:
      f(x) <= f(y) for x <= y, up to rounding, and only NaN maps to NaN;
    * `unit`, `zero`: the scalar u with f(x, u) = x, or z with f(x, z) = z (on either side for a commutative operator, otherwise on the
      right only). Both hold exactly for integers and bool. For floats, a unit may turn -0.0 into 0.0 (x + 0), and a zero holds for finite x
      up to its sign (x * 0);
    * `stateful`: never folded, merged, duplicated, dropped or reordered;
    * `non_computational`: constant folding keeps calls unless configured to fold them (`FoldConstant{fold_qnn=True}`), as Relay's
      TNonComputational;
    * `shape_arith`: the kernel also accepts object arrays of dimensions, so shape arithmetic uses it; `known` computes the known elements
      of the result where the kernel is not sufficient (`shape_of`);
    * `exact`: whether the kernel is shown to match ONNX Runtime with its optimizations disabled, bit for bit: always, for operands without
      floating-point elements, or never. Data movement is exact. ONNX Runtime folds other calls on constants itself (`passat.ir.folding`);
    * `results`: the number of fields of a tuple result, as a number or a function of the attributes;
    * `is_own`: whether Passat declares the operator itself, rather than a plug-in or rule file;
    * `pattern`: the kind of the operator in Relay's fusion (0 elementwise, 1 broadcast, 2 injective, 3 reduction, 4 fusable output, 8
      opaque). For Relay's operators this is their TOpPattern in TVM v0.8.
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
        "non_computational",
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
        self._checked_type = IncompleteType()  # as a first-class value, an operator has an unknown type
        self.kernel: Kernel | None = None
        self.known: KnownFunction | None = None
        self.cost: CostFunction = memory_bound
        self.elementwise = self.movement = self.commutative = self.associative = False
        self.idempotent = self.involution = self.stateful = self.shape_arith = self.non_computational = False
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

    @property
    def operand_count(self) -> str:
        """The number of operands, as messages name it."""
        return counted(self.arity, "operand")

    def __call__(self, *args: Expr, span: Span | None = None, **attrs: AnyValue) -> Call:
        """Builds a call. Raises OpTypeError for a wrong number of operands, and for unknown or missing attributes."""
        if not self.variadic and len(args) != self.arity:
            raise OpTypeError(f"{self.name} takes {self.operand_count} ({', '.join(self.operand_names)}), but got {len(args)}")
        return Call(self, args, self.bind_attrs(attrs), span=span)

    @staticmethod
    def get(op_name: str) -> "Op":
        """Returns the operator with a name (`get_op`)."""
        return get_op(op_name)

    def bind_attrs(self, given: Mapping[str, AnyValue]) -> Attrs:
        """Returns all attributes in declared order, with defaults filled in. Raises OpTypeError for unknown or missing ones."""
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
        """Returns the type of a call from the types and attributes, and from the known elements of the operands (`values`).

        Raises OpTypeError, which names the operator, the types of the operands and the reason.
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
            raise OpTypeError(f"{self.name}: unsupported type of an attribute value: {error}") from error
        if found is None:
            found = self._relate(types, types, attrs)
            if len(self._cache) > 10_000:
                self._cache.clear()
            self._cache[key] = found
        return found

    @property
    def num_inputs(self) -> int:
        """The number of operands; -1 if any number is accepted (TVM's name)."""
        return -1 if self.variadic else self.arity

    @property
    def follows_sizes(self) -> bool:
        """Whether shape arithmetic can compute the result of the operator (`known_value`)."""
        return self.known is not None or self.shape_arith

    def known_value(self, types: Sequence[Type], values: Sequence[KnownValue | None], attrs: Attrs, result: Type) -> KnownValue | None:
        """Computes the known elements of the result from the known elements of the operands; None if no element is known."""
        try:
            if self.known is not None:
                return self.known(types, values, attrs)
            if not self.shape_arith or self.kernel is None or not is_followed(result) or any(value is None for value in values):
                return None
            found = self.kernel(*values, **attrs)
        except (ValueError, TypeError, IndexError, ArithmeticError):
            return None  # an index is out of range, or the kernel requires an integer and a dimension is symbolic
        return found if isinstance(found, tuple) else _in_range(np.asarray(found, np.object_), result)

    def _relate(self, operands: Sequence[object], types: Sequence[Type], attrs: Attrs) -> Type:
        try:
            if not self.variadic and len(types) != self.arity:
                raise OpTypeError(f"takes {self.operand_count}, but got {len(types)}")
            return _well_formed(self.relation(*operands, **attrs))
        except Exception as error:
            if self.is_own and not isinstance(error, (TypeError, ValueError, AttributeError, LookupError, ArithmeticError)):
                raise
            if any(map(_is_incomplete, types)):
                return IncompleteType()  # an operand of unknown type makes the result unknown
            reason = str(error).removeprefix(f"{self.name}: ")
            shown = ", ".join(f"{name}={value!r}" for name, value in attrs.items())
            raise OpTypeError(f"{self.name}({', '.join(map(repr, types))}{'; ' + shown if shown else ''}): {reason}") from error

    def __reduce__(self) -> tuple[AnyValue, ...]:
        return (get_op, (self.name,))

    def __repr__(self) -> str:
        return self.name


def _well_formed(type_: Type) -> Type:
    """Returns the type from a relation. Raises OpTypeError for invalid dimensions or element types, which attributes can cause."""
    if isinstance(type_, TensorType):
        if type_.dtype not in NAMES:
            raise OpTypeError(f"unknown element type {type_.dtype!r}")
        for dim in type_.shape:
            known = 0 <= dim < 1 << 63 if isinstance(dim, (int, np.integer)) else isinstance(dim, (SymDim, Any))
            if not known or isinstance(dim, bool):
                raise OpTypeError(f"the result would have the invalid dimension {dim!r}")
    elif isinstance(type_, TupleType):
        for field in type_.fields:
            _well_formed(field)
    elif not isinstance(type_, Type):
        raise OpTypeError(f"the type relation returned {type_!r}, which is not a type")
    return type_


def _is_incomplete(type_: Type) -> bool:
    return isinstance(type_, IncompleteType) or (isinstance(type_, TupleType) and any(map(_is_incomplete, type_.fields)))


def is_followed(type_: Type) -> bool:
    """Whether shape arithmetic tracks values of a type: small tensors of integers or bool."""
    return isinstance(type_, TensorType) and type_.dtype in FOLLOWED and type_.is_static and static_size(type_.shape) <= KNOWN_LIMIT


def _in_range(found: ShapeValue, type_: Type) -> ShapeValue:
    """Drops integers that overflow the element type, since they would wrap around at run time."""
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
    non_computational: bool = False,
    shape_arith: bool = False,
    exact: Exactness = "never",
    unit: float | None = None,
    zero: float | None = None,
    known: KnownFunction | None = None,
    results: Callable[[Attrs], int] | int | None = None,
) -> Callable[[Relation], Op]:
    """Declares an operator. The decorated function is its type relation; its keyword-only parameters are the attributes.

    `onnx` is the short form of the ONNX mapping, for operators that differ from ONNX only in name:

    * `"Relu"`, or `"Transpose(perm=axes)"` (ONNX attribute = Passat attribute);
    * `"Erf@9"` for an operator that was added in opset 9;
    * `"com.mycompany.FusedThing"` for a custom domain. This is also the name of the operator if none is given.

    Other mappings use `@from_onnx` and `@to_onnx` (`passat.ir.onnx_mapping`). A declaration outside Passat replaces an earlier one with the
    same name. Raises ValueError for the name of one of Passat's own operators.
    """
    from passat.ir.onnx_mapping import parse_mapping, rename

    mapping = None if onnx is None else parse_mapping(onnx)
    if not name:
        if mapping is None or not mapping.domain:
            raise ValueError("an operator needs a name, or an ONNX operator with a domain, such as onnx='com.mycompany.FusedThing'")
        name = f"{mapping.domain}.{mapping.op_type}"

    def declare(relation: Relation) -> Op:
        op = Op(name, relation, doc=inspect.getdoc(relation) or "")
        names = [name] if mapping is None or not mapping.domain else [name, f"{mapping.domain}.{mapping.op_type}"]
        _make_room(op, names)
        op.kernel, op.cost = kernel, cost
        op.elementwise, op.movement, op.commutative, op.associative = elementwise, movement, commutative, associative
        op.idempotent, op.involution, op.stateful, op.shape_arith = idempotent, involution, stateful, shape_arith
        op.non_computational = non_computational
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
    """Unregisters operators with these names, which a declaration outside Passat replaces. Raises ValueError for Passat's own operators."""
    if not op.is_own:
        _load()
    for taken in [_OPS[name] for name in names if name in _OPS]:
        if op.is_own or taken.is_own:
            raise ValueError(f"the operator {taken.name!r} is declared twice")
        for name in [name for name, other in _OPS.items() if other is taken]:
            del _OPS[name]


def add_op(op: Op) -> None:
    """Registers an operator under its name."""
    _OPS[op.name] = op


def op_family(prefix: str, factory: Callable[[str], Op]) -> None:
    """Registers a factory for operators whose names begin with `prefix` (`onnx.` for operators unknown to Passat)."""
    _FACTORIES[prefix] = factory


def find_op(name: str) -> Op | None:
    """Returns the operator with a name; None if there is none."""
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
    """Returns the operator with a name. Raises KeyError with the most similar names.

    >>> get_op("nn.relu").elementwise
    True
    """
    found = find_op(name)
    if found is None:
        if name in OPERATORS:
            raise KeyError(f"there is no operator {name!r}; {NOT_SUPPORTED}")
        # Families are created as models are read; suggestions must not depend on that.
        declared = [known for known in _OPS if not known.startswith(tuple(_FACTORIES))]
        raise KeyError(f"there is no operator {name!r}{did_you_mean(name, declared)}")
    return found


def call_op(name: str, *args: Expr, **attrs: AnyValue) -> Call:
    """A call of an operator by its name."""
    return get_op(name)(*args, **attrs)


def register_op_attr(op_name: str, attr_key: str, value: AnyValue = None, level: int = 10) -> AnyValue:
    """Registers an attribute of an operator (`Op.set_attr`); without a value, returns a decorator of a function that is the value.

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
    """Returns Passat's own operators, by name. Operators of families are included only if they have been created."""
    _load()
    return [_OPS[name] for name in sorted(_OPS) if _OPS[name].is_own]


def _load() -> None:
    # importing declares the operators, and registers their gradients
    import passat.ir.gradients.tables
    import passat.ir.onnx.opaque
    import passat.ir.ops  # noqa: F401

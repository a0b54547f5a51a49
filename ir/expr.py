"""Relay expressions: immutable nodes that are compared by identity. Two `Var`s of the same name are different variables.

`checked_type` caches the result of type inference (`passat.ir.infer`). It is derived from the node and is not part of its content.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any as AnyValue
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.dim_text import given_shape
from passat.ir.dtypes import to_numpy
from passat.ir.passat_error import PassatError
from passat.ir.tensor import Tensor
from passat.ir.types import FuncType, IncompleteType, TensorType, TupleType, Type, TypeCall, TypeVar


class _Span(NamedTuple):
    source_name: str
    line: int = 0
    end_line: int = 0
    column: int = 0
    end_column: int = 0
    outputs: tuple[str, ...] = ()


class Span(_Span):
    """The source location of an expression.

    `source_name` is the name of an ONNX node or of a text. Lines and columns count from 1; 0 means unknown. `end_column` is exclusive.
    `outputs` are the names of the node's outputs in the ONNX file. For parsed text, `source_name` is a `passat.ir.source.SourceName`, which
    carries the text. None is accepted for an empty name.

    >>> Span(None, 3, 3, 14, 20)
    Span(source_name='', line=3, end_line=3, column=14, end_column=20, outputs=())
    """

    __slots__ = ()

    def __new__(
        cls,
        source_name: str | None,
        line: int = 0,
        end_line: int = 0,
        column: int = 0,
        end_column: int = 0,
        outputs: tuple[str, ...] = (),
    ) -> "Span":
        """Takes TVM's arguments in TVM's order, followed by `outputs`."""
        return super().__new__(cls, source_name or "", line, end_line, column, end_column, outputs)


class NotInferredError(PassatError, ValueError):
    """The type of an expression is read before it is inferred."""

    def __init__(self) -> None:
        super().__init__("the type of this expression has not been inferred yet; run InferType, or passat.ir.infer.infer_type(expr)")


class Expr:
    """Base class of all expressions. Operators on expressions build calls: `x + 1.0`, `x @ w`, `-x`, `x < y`, `x.astype("int8")`."""

    __slots__ = ("__weakref__", "_checked_type", "_known_value", "span")
    __array_ufunc__ = None  # makes `array + expr` call `Expr.__radd__`
    _checked_type: Type | None
    _known_value: AnyValue  # cached result of symbolic shape arithmetic (passat.ir.infer); unset until computed
    span: Span | None

    @property
    def checked_type(self) -> Type:
        """The inferred type. Raises NotInferredError, a ValueError, before inference."""
        if self._checked_type is None:
            raise NotInferredError
        return self._checked_type

    def assume_type(self, type_: Type | None) -> Self:
        """Sets `checked_type` to a type that the caller knows, so that inference skips this expression. None clears it. Returns the
        expression."""
        self._checked_type = type_
        return self

    def __add__(self, other: "ExprLike") -> "Expr":
        return _binary("add", self, other)

    def __radd__(self, other: "ExprLike") -> "Expr":
        return _binary("add", other, self)

    def __sub__(self, other: "ExprLike") -> "Expr":
        return _binary("subtract", self, other)

    def __rsub__(self, other: "ExprLike") -> "Expr":
        return _binary("subtract", other, self)

    def __mul__(self, other: "ExprLike") -> "Expr":
        return _binary("multiply", self, other)

    def __rmul__(self, other: "ExprLike") -> "Expr":
        return _binary("multiply", other, self)

    def __truediv__(self, other: "ExprLike") -> "Expr":
        return _binary("divide", self, other)

    def __rtruediv__(self, other: "ExprLike") -> "Expr":
        return _binary("divide", other, self)

    def __lt__(self, other: "ExprLike") -> "Expr":
        return _binary("less", self, other)

    def __le__(self, other: "ExprLike") -> "Expr":
        return _binary("less_equal", self, other)

    def __gt__(self, other: "ExprLike") -> "Expr":
        return _binary("greater", self, other)

    def __ge__(self, other: "ExprLike") -> "Expr":
        return _binary("greater_equal", self, other)

    def __matmul__(self, other: "ExprLike") -> "Expr":
        return _binary("nn.matmul", self, other)

    def __neg__(self) -> "Expr":
        return _call("negative", self)

    def same_as(self, other: object) -> bool:
        """Whether `other` is the same object."""
        return self is other

    def astype(self, dtype: str) -> "Expr":
        """Returns this expression cast to another element type."""
        return _call("cast", self, dtype=dtype)

    def __call__(self, *args: "Expr") -> "Call":
        """Builds a call of this expression, which is a function or a closure. Raises TypeError for arguments that are not expressions."""
        for arg in args:
            _check(arg, Expr, "an argument of a call")
        return Call(self, args)

    def __getitem__(self, index: int) -> "Expr":
        return TupleGetItem(self, index)

    def __iter__(self) -> "AnyValue":
        # Without this, Python would iterate forever through __getitem__.
        raise TypeError("an expression has no known length; take its parts with expr[i]")

    def astext(self, show_meta_data: bool = True, annotate: "Callable[[Expr], str] | None" = None) -> str:
        """Prints the expression in Relay's text format (`passat.ir.text.astext`)."""
        from passat.ir.text import astext

        return astext(self, show_meta_data, annotate)

    def __reduce__(self) -> "tuple[AnyValue, ...]":
        from passat.ir.serialize import reduced

        return reduced(self)

    def __copy__(self) -> "Expr":
        from passat.ir.serialize import shallow_copy

        return shallow_copy(self)

    def __repr__(self) -> str:
        from passat.ir.text import pretty_print

        return pretty_print(self)


class Var(Expr):
    """A local variable, compared by identity. The name is a printing hint. An annotation of unknown type counts as no annotation."""

    __slots__ = ("name_hint", "type_annotation")

    def __init__(self, name_hint: str, type_annotation: Type | None = None, span: Span | None = None) -> None:
        _check_name(name_hint, "variable")
        self.name_hint = name_hint
        self.type_annotation = None if isinstance(type_annotation, IncompleteType) else type_annotation
        self.span = span
        self._checked_type = type_annotation

    @property
    def vid(self) -> "Var":
        """The identity of the variable, which is the variable itself."""
        return self


class GlobalVar(Expr):
    """The name of a function in a module."""

    __slots__ = ("name_hint",)

    def __init__(self, name_hint: str, type_annot: Type | None = None, span: Span | None = None) -> None:
        _check_name(name_hint, "function")
        self.name_hint = name_hint
        self.span = span
        self._checked_type = type_annot


class Constant(Expr):
    """A constant tensor. Its type is known without inference."""

    __slots__ = ("data",)

    def __init__(self, data: Tensor | npt.ArrayLike, span: Span | None = None) -> None:
        self.data = data if isinstance(data, Tensor) else Tensor.dense(data)
        self.span = span
        self._checked_type = TensorType(self.data.shape, self.data.dtype)


class Tuple(Expr):
    """A tuple of expressions. The empty tuple represents an absent optional input of an ONNX operator."""

    __slots__ = ("fields",)

    def __init__(self, fields: Iterable[Expr], span: Span | None = None) -> None:
        self.fields = tuple(fields)
        self.span = span
        self._checked_type = None

    def __len__(self) -> int:
        return len(self.fields)

    def __getitem__(self, index: int) -> Expr:
        return self.fields[index]

    def __iter__(self) -> AnyValue:
        return iter(self.fields)


class TupleGetItem(Expr):
    """A field of a tuple, by zero-based index."""

    __slots__ = ("index", "tuple_value")

    def __init__(self, tuple_value: Expr, index: int, span: Span | None = None) -> None:
        self.tuple_value = tuple_value
        self.index = index
        self.span = span
        self._checked_type = None


class Call(Expr):
    """An operator, function, closure or constructor applied to arguments. Calls of operators have attributes.

    A call that is known to return a tuple, by its operator or its type, has a length and can be iterated over and unpacked: `first, second
    = split(x, indices_or_sections=2)`. (Relay wraps such calls in a TupleWrapper.)
    """

    __slots__ = ("_type_args", "args", "attrs", "op")

    def __init__(
        self,
        op: Expr,
        args: Iterable[Expr],
        attrs: Attrs | Mapping[str, AnyValue] | None = None,
        type_args: Iterable[Type] | None = (),
        span: Span | None = None,
    ) -> None:
        if isinstance(op, str):
            raise TypeError(f"a call needs an operator or a function, not the text {op!r}; write relay.op.get({op!r})")
        self.op = op
        self.args = args if type(args) is tuple else tuple(args)
        self.attrs = attrs if type(attrs) is Attrs else Attrs(attrs) if attrs else EMPTY_ATTRS
        self._type_args = tuple(type_args or ())
        self.span = span
        self._checked_type = None

    @property
    def type_args(self) -> "tuple[Type, ...]":
        """The types for the type parameters of a generic function or constructor, and the types of the arguments of an operator.

        Those that were given, or else those that follow from the inferred types. They are empty before inference, and for other functions.
        """
        from passat.ir.call_types import type_args_of

        return type_args_of(self)

    def astuple(self) -> "Call":
        """Returns the call itself; for compatibility with Relay's TupleWrapper."""
        return self

    def _n_fields(self) -> int | None:
        """The number of fields of the result, or None if it is not known to be a tuple."""
        if isinstance(self._checked_type, TupleType):
            return len(self._checked_type.fields)
        results: Callable[[Attrs], int] | int | None = getattr(self.op, "results", None)
        return results(self.attrs) if callable(results) else results

    def __len__(self) -> int:
        count = self._n_fields()
        if count is None:
            raise TypeError("an expression has no known length; take its parts with expr[i]")
        return count

    def __bool__(self) -> bool:
        return True  # not derived from `__len__`, which may raise

    def __getitem__(self, index: int) -> Expr:
        count = self._n_fields()
        if count is not None and index >= count:
            raise IndexError(f"Tuple index out of range: field {index} of {count}")
        return TupleGetItem(self, index)

    def __iter__(self) -> Iterator[Expr]:
        return iter([TupleGetItem(self, index) for index in range(len(self))])


class BaseFunc(Expr):
    """Base class of the values of a module: `Function`, and the functions of other back ends (`passat.ir.prim_func.PrimFunc`)."""

    __slots__ = ("attrs", "params", "ret_type")
    attrs: Attrs
    params: tuple[Var, ...]
    ret_type: Type | None


class Function(BaseFunc):
    """A function: parameters, a body, and attributes that passes read (`Primitive`, `Compiler`, `SkipOptimization` ...)."""

    __slots__ = ("_inner", "body", "type_params")
    _inner: tuple[Expr, ...]  # the nodes below the function (passat.ir.traverse); unset until they are visited

    def __init__(
        self,
        params: Iterable[Var],
        body: Expr,
        ret_type: Type | None = None,
        type_params: Iterable[Type] | None = (),
        attrs: Attrs | Mapping[str, AnyValue] | None = None,
        span: Span | None = None,
    ) -> None:
        if isinstance(params, Expr):
            raise TypeError("the parameters of a function must be a list of variables, not an expression")
        self.params = tuple(params)
        for param in self.params:
            _check(param, Var, "a parameter of a function")
        _check(body, Expr, "the body of a function")
        self.body = body
        self.ret_type = None if isinstance(ret_type, IncompleteType) else ret_type
        self.type_params = tuple(type_params or ())
        self.attrs = attrs if type(attrs) is Attrs else Attrs(attrs) if attrs else EMPTY_ATTRS
        self.span = span
        self._checked_type = None

    def with_body(self, body: Expr) -> "Function":
        """Returns the function with another body, or itself if the body is unchanged."""
        if body is self.body:
            return self
        return Function(self.params, body, self.ret_type, self.type_params, self.attrs, self.span)

    def with_attr(self, name: str | Mapping[str, AnyValue], value: AnyValue = None) -> "Function":
        """Returns the function with one attribute set, or with all attributes of a mapping set."""
        given = {name: value} if isinstance(name, str) else name
        return Function(self.params, self.body, self.ret_type, self.type_params, Attrs(self.attrs, **given), self.span)

    def without_attr(self, name: str) -> "Function":
        """Returns the function without an attribute."""
        kept = {key: value for key, value in self.attrs.items() if key != name}
        return Function(self.params, self.body, self.ret_type, self.type_params, kept, self.span)

    @property
    def func_type(self) -> FuncType:
        """The inferred type of the function. Raises ValueError before inference."""
        type_ = self.checked_type
        assert isinstance(type_, FuncType)
        return type_


class Let(Expr):
    """`let variable = value; body`."""

    __slots__ = ("body", "value", "var")

    def __init__(self, variable: Var, value: Expr, body: Expr, span: Span | None = None) -> None:
        _check(variable, Var, "the variable of a let")
        _check(value, Expr, "the value of a let")
        _check(body, Expr, "the body of a let")
        self.var = variable
        self.value = value
        self.body = body
        self.span = span
        self._checked_type = None


class If(Expr):
    """A conditional expression. Only the chosen branch is evaluated."""

    __slots__ = ("cond", "false_branch", "true_branch")

    def __init__(self, cond: Expr, true_branch: Expr, false_branch: Expr, span: Span | None = None) -> None:
        _check(cond, Expr, "the condition of an if")
        _check(true_branch, Expr, "a branch of an if")
        _check(false_branch, Expr, "a branch of an if")
        self.cond = cond
        self.true_branch = true_branch
        self.false_branch = false_branch
        self.span = span
        self._checked_type = None


class RefCreate(Expr):
    """Creates a mutable reference that holds a value."""

    __slots__ = ("value",)

    def __init__(self, value: Expr, span: Span | None = None) -> None:
        self.value = value
        self.span = span
        self._checked_type = None


class RefRead(Expr):
    """Reads the value of a reference."""

    __slots__ = ("ref",)

    def __init__(self, ref: Expr, span: Span | None = None) -> None:
        self.ref = ref
        self.span = span
        self._checked_type = None


class RefWrite(Expr):
    """Writes a value to a reference; evaluates to the empty tuple."""

    __slots__ = ("ref", "value")

    def __init__(self, ref: Expr, value: Expr, span: Span | None = None) -> None:
        self.ref = ref
        self.value = value
        self.span = span
        self._checked_type = None


class Constructor(Expr):
    """A constructor of an algebraic data type: its name, the types of its fields, and the data type.

    The data type is given by name, as in TVM, or applied to its type parameters: `List(a)`. With only a name, the parameters come from the
    definition of the type (`passat.ir.module.TypeData`), which also numbers constructors without a `tag`.
    """

    __slots__ = ("belong_to", "inputs", "name_hint", "tag", "type_vars")

    def __init__(self, name_hint: str, inputs: Iterable[Type], belong_to: Type, tag: int = -1) -> None:
        self.name_hint = name_hint
        self.inputs = tuple(inputs)
        self.belong_to = belong_to.func if isinstance(belong_to, TypeCall) else belong_to
        self.type_vars = tuple(arg for arg in belong_to.args if isinstance(arg, TypeVar)) if isinstance(belong_to, TypeCall) else ()
        self.tag = tag
        self.span = None
        self._checked_type = None

    @property
    def made(self) -> Type:
        """The type of the values that the constructor builds."""
        return TypeCall(self.belong_to, self.type_vars) if self.type_vars else self.belong_to


class Pattern:
    """Base class of the patterns of `Match`."""

    __slots__ = ()


class PatternWildcard(Pattern):
    """The wildcard pattern `_`, which matches everything."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "_"


class PatternVar(Pattern):
    """Matches everything and binds it to a variable."""

    __slots__ = ("var",)

    def __init__(self, var: Var) -> None:
        self.var = var

    def __repr__(self) -> str:
        return f"%{self.var.name_hint}"


class PatternConstructor(Pattern):
    """Matches values built by a constructor, with a pattern for each field."""

    __slots__ = ("constructor", "patterns")

    def __init__(self, constructor: Constructor, patterns: Iterable[Pattern] = ()) -> None:
        self.constructor = constructor
        self.patterns = tuple(patterns)

    def __repr__(self) -> str:
        return f"{self.constructor.name_hint}({', '.join(map(repr, self.patterns))})" if self.patterns else self.constructor.name_hint


class PatternTuple(Pattern):
    """Matches tuples, with a pattern for each field."""

    __slots__ = ("patterns",)

    def __init__(self, patterns: Iterable[Pattern] = ()) -> None:
        self.patterns = tuple(patterns)

    def __repr__(self) -> str:
        return f"({', '.join(map(repr, self.patterns))}{',' if len(self.patterns) == 1 else ''})"


class Clause:
    """One arm of a `Match`."""

    __slots__ = ("lhs", "rhs")

    def __init__(self, lhs: Pattern, rhs: Expr) -> None:
        self.lhs = lhs
        self.rhs = rhs

    def __repr__(self) -> str:
        return f"{self.lhs!r} => {{ {self.rhs!r} }}"


class Match(Expr):
    """Pattern matching on a value of an algebraic data type."""

    __slots__ = ("clauses", "complete", "data")

    def __init__(self, data: Expr, clauses: Iterable[Clause], complete: bool = True, span: Span | None = None) -> None:
        self.data = data
        self.clauses = tuple(clauses)
        self.complete = complete
        self.span = span
        self._checked_type = None


def _check(value: object, kind: type[Expr], what: str) -> None:
    """Raises TypeError if a part of an expression has the wrong kind."""
    if not isinstance(value, kind):
        wanted = "a variable" if kind is Var else "an expression"
        hint = f"; write relay.const({value!r})" if isinstance(value, (bool, int, float)) and kind is Expr else ""
        raise TypeError(f"{what} must be {wanted}, not a {type(value).__name__}{hint}")


def _check_name(name: object, what: str) -> None:
    """Raises TypeError if a name is not a text."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a {what} must be a text, not {name!r}")


ExprLike = Expr | bool | int | float | np.generic | npt.NDArray[AnyValue]


def var(
    name_hint: str,
    type_annotation: Type | str | None = None,
    shape: Iterable[AnyValue] | None = None,
    dtype: str = "float32",
    span: Span | None = None,
) -> Var:
    """Creates a variable from a type, from the element type of a scalar, or from a shape and an element type.

    Dimensions are integers, `Any()`, or names: `var("x", shape=("batch", 3))`. Raises ValueError if both a type and a shape are given,
    and for unknown element types and negative sizes. Raises TypeError for anything that is not a type or a shape.
    """
    if type_annotation is not None and shape is not None:
        raise ValueError("Can only specify either type_annotation or shape.")
    if type_annotation is not None and not isinstance(type_annotation, (Type, str)):
        raise TypeError(f"type_annotation must be a type or the name of an element type, not {type_annotation!r}; use shape= for a shape")
    if shape is not None:
        type_annotation = TensorType(given_shape(shape), "bool" if dtype == "uint1" else dtype)
    elif isinstance(type_annotation, str):
        type_annotation = TensorType((), "bool" if type_annotation == "uint1" else type_annotation)
    if isinstance(type_annotation, TensorType):
        to_numpy(type_annotation.dtype)
    return Var(name_hint, type_annotation, span)


def const(value: ExprLike | Tensor | npt.ArrayLike, dtype: str | TensorType | None = None, span: Span | None = None) -> Constant:
    """Creates a constant. Without a dtype, Python numbers and 64-bit arrays become 32-bit, as in Relay. A tensor type implies its dtype.

    Raises ValueError for values that are neither numbers nor arrays.

    >>> const(1).data.dtype, const(2.5).data.dtype, const(True).data.dtype
    ('int32', 'float32', 'bool')
    """
    if isinstance(value, Tensor):
        return Constant(value, span)
    if isinstance(value, Expr) or not isinstance(value, (bool, int, float, list, tuple, np.generic, np.ndarray)):
        raise ValueError("value has to be scalar or NDArray")
    array = np.asarray(value)
    if dtype is None:
        dtype = {"int64": "int32", "float64": "float32"}.get(array.dtype.name)
    return Constant(Tensor.dense(array, dtype.dtype if isinstance(dtype, TensorType) else dtype), span)


def _as_expr(value: ExprLike) -> Expr:
    return value if isinstance(value, Expr) else const(value)


def _binary(op: str, left: ExprLike, right: ExprLike) -> Expr:
    return _call(op, _as_expr(left), _as_expr(right))


def _call(op: str, *args: Expr, **attrs: AnyValue) -> Expr:
    from passat.ir.op import get_op

    return get_op(op)(*args, **attrs)

"""Builds calls for Relay's functions: checks operands, converts Python values to attributes, propagates types.

If an operator has the same parameters as in Relay, its function is derived from its declaration. The operands come first, then the
attributes, in the order of the declaration; all by position or by name. A single operand `x` is called `data`, and two operands are called
`lhs` and `rhs`, as in Relay.

Weights declared only by name, `relay.var("weight")`, as in the networks of `relay.testing`, get their types when a call is built, from the
attributes of the operator and the type of its data. Relay finds these types during type inference.
"""

import inspect
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any as AnyValue
from typing import TypeAlias

import numpy as np

from passat.ir.dtypes import from_numpy
from passat.ir.expr import Call, Constant, Expr, Tuple, Var, const
from passat.ir.infer import infer_type
from passat.ir.infer_error import InferError
from passat.ir.op import Op, OpTypeError, get_op, list_ops
from passat.ir.ops.blocked_layouts import joined_shape, split_shape, without_blocks
from passat.ir.ops.emitting import shortest
from passat.ir.ops.windows import begins_ends, per_axis
from passat.ir.shape import Dim
from passat.ir.tir.expr import FloatImm, IntImm
from passat.ir.traverse import post_order
from passat.ir.types import TensorType, TupleType, Type
from passat.passmgr.options import convert, show_annotation
from passat.relay.names import bound

_PER_CHANNEL = ("nn.batch_norm", "nn.bias_add", "nn.group_norm", "nn.instance_norm", "nn.layer_norm", "nn.prelu")
_CONVOLUTIONS = (
    *(f"nn.conv{rank}d{kind}" for rank in (1, 2, 3) for kind in ("", "_transpose")),
    *(f"nn.contrib_conv{rank}d_nchwc" for rank in (2, 3)),
)


def is_untyped(operand: object) -> bool:
    """True if an operand is a variable of unknown type."""
    return isinstance(operand, Var) and operand._checked_type is None


def type_weights(name: str, operands: Sequence[Expr], attrs: Mapping[str, AnyValue], units: int | None = None) -> None:
    """Types the untyped variables among the operands after the data, as the operator `name` requires."""
    untyped = [operand for operand in operands[1:] if isinstance(operand, Var) and is_untyped(operand)]
    data = _type_of_data(operands[0]) if untyped else None
    if not isinstance(data, TensorType) or not data.shape:
        return
    shape: tuple[Dim, ...] | None = None
    if name in _PER_CHANNEL:
        axis = attrs.get("axis", 1)
        shape = (data.shape[axis],) if -data.ndim <= axis < data.ndim else None
    elif name in _CONVOLUTIONS:
        shape = _kernel_shape(data, attrs, transposed=name.endswith("_transpose"))
    elif name == "nn.dense" and units is not None:
        shape = (units, data.shape[-1])
    if shape is not None:
        for var in untyped:
            var.type_annotation = TensorType(shape, data.dtype)
            var.assume_type(var.type_annotation)


def known_type(expr: Expr) -> Type | None:
    """The type of an expression, if annotations alone determine it; variables without annotations are unchanged."""
    if expr._checked_type is None:
        new = post_order(expr, into=lambda node: node._checked_type is None)
        if any(is_untyped(node) for node in new):
            return None
        infer_type(expr)
    return expr.checked_type


def _type_of_data(data: Expr) -> Type | None:
    try:
        return known_type(data)
    except InferError:
        return None  # InferType will report it, with its location


def _kernel_shape(data: TensorType, attrs: Mapping[str, AnyValue], transposed: bool) -> tuple[Dim, ...] | None:
    channels, window = attrs.get("channels"), attrs.get("kernel_size")
    data_layout, kernel_layout = attrs["data_layout"], attrs["kernel_layout"]
    place = without_blocks(data_layout).find("C")
    if channels is None or window is None or place < 0:
        return None
    try:
        inner, outer, groups = joined_shape(data.shape, data_layout)[place], channels, attrs.get("groups", 1)
        if groups != 1:
            if not isinstance(inner, int):
                return None
            inner, outer = (inner, outer // groups) if transposed else (inner // groups, outer)
        sizes: dict[str, Dim] = {"O": outer, "I": inner}
        letters = [letter for letter in without_blocks(kernel_layout) if letter not in sizes]
        sizes.update(zip(letters, window, strict=False))
        whole = tuple(sizes[letter] for letter in without_blocks(kernel_layout)) if len(letters) == len(window) else None
        return None if whole is None else split_shape(whole, kernel_layout)
    except OpTypeError:
        return None  # InferType reports it


Numbers: TypeAlias = int | Sequence[int]
Exprs: TypeAlias = Expr | Sequence[Expr]


def call(name: str, *operands: object, **attrs: object) -> Call:
    """A call of the operator `name`. Lists and tuples are operands if the operator takes a tuple.

    Raises TypeError for an operand that is not an expression and for an attribute of the wrong type; OpTypeError for unknown ones.
    """
    op = get_op(name)
    kinds = [parameter.annotation for parameter in inspect.signature(op.relation).parameters.values()][: len(operands)]
    args = [operand(name, what, value, kind) for what, value, kind in zip(op.operand_names, operands, kinds, strict=True)]
    found: dict[str, AnyValue] = {}
    for attr, value in attrs.items():
        parameter = op.attr_params.get(attr)
        found[attr] = value if parameter is None else attribute(f"relay.{name}: {attr}", value, parameter.annotation)
    made = op(*args, **found)
    type_weights(name, args, made.attrs)
    return made


def operand(name: str, what: str, value: object, kind: object = TensorType) -> Expr:
    """The value as an operand. Raises TypeError for other values."""
    if isinstance(value, Expr):
        return value
    if kind is TupleType and isinstance(value, (list, tuple)):
        if not value:
            raise ValueError(f"relay.{name} requires {what} to be non-empty")
        return Tuple([operand(name, f"field {i} of {what}", field) for i, field in enumerate(value)])
    number = isinstance(value, (bool, int, float, np.generic, np.ndarray))
    hint = f"; write relay.const({value!r})" if number else ""
    raise TypeError(f"relay.{name}: {what} must be an expression, not a {type(value).__name__}{hint}")


def attribute(what: str, value: object, annotation: object) -> AnyValue:
    """A value as an attribute of that annotation; a 32-bit float in its shortest form. Raises TypeError that names `what`.

    In a callback that becomes a rule (`passat.rules.dataflow`), attributes of the rule are unchanged.
    """
    if _is_of_rule(value):
        return value
    try:
        found = convert(plain(value), annotation)
    except TypeError as error:
        raise TypeError(f"{what}: expected {show_annotation(annotation)}, got {value!r}") from error
    return shortest(found) if isinstance(found, float) and found == np.float32(found) else found


def _is_of_rule(value: object) -> bool:
    """True if a value is an attribute of a rule. There are none unless the rule language is imported, which `import relay` does not do."""
    language = sys.modules.get("passat.rules.symbolic")
    return language is not None and isinstance(value, language.AttributeTerm)


def plain(value: object) -> object:
    """A value in the form of attributes: constants (also those of loops) and NumPy numbers become Python numbers, lists become tuples,
    NumPy dtypes become names."""
    if isinstance(value, Constant):
        return plain(value.data.numpy().tolist())
    if isinstance(value, (IntImm, FloatImm)):
        return value.value
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return from_numpy(np.dtype(value))
    if isinstance(value, (np.generic, np.ndarray)):
        return plain(value.tolist())
    return tuple(map(plain, value)) if isinstance(value, (list, tuple)) else value


def is_dynamic(value: object) -> bool:
    """True if a value is computed at run time: an expression other than a constant."""
    return isinstance(value, Expr) and not isinstance(value, Constant)


def numbers(name: str, what: str, value: object) -> tuple[int, ...]:
    """Converts an integer, a sequence of them or a constant to integers. Raises TypeError."""
    found = plain(value)
    wanted: tuple[int, ...] = attribute(f"relay.{name}: {what}", found if isinstance(found, tuple) else (found,), tuple[int, ...])
    return wanted


def window_attributes(
    name: str, spatial: int, strides: Numbers, padding: Numbers, dilation: Numbers, size: Numbers | None
) -> dict[str, tuple[int, ...] | None]:
    """The attributes of windows, one number for each spatial dimension; `kernel_size` is the size."""
    begins, ends = begins_ends(numbers(name, "padding", padding), spatial)
    return {
        "strides": per_axis(numbers(name, "strides", strides), spatial, "strides"),
        "padding": (*begins, *ends),
        "dilation": per_axis(numbers(name, "dilation", dilation), spatial, "dilation"),
        "kernel_size": None if size is None else per_axis(numbers(name, "kernel_size", size), spatial, "kernel_size"),
    }


def int_vector(values: object) -> Expr:
    """Sizes as an operand: expressions are unchanged, or cast if they are narrower than int32; numbers become an int64 constant."""
    if isinstance(values, Expr):
        type_ = known_type(values)
        narrow = isinstance(type_, TensorType) and type_.dtype in ("int8", "int16", "uint8", "uint16")
        return values.astype("int64") if narrow else values
    return const(np.asarray(plain(values), np.int64).reshape(-1), "int64")


def rank(name: str, what: str, expr: Expr) -> int:
    """The number of dimensions. Raises ValueError if it is unknown."""
    type_ = known_type(expr)
    if not isinstance(type_, TensorType):
        raise ValueError(f"relay.{name}: the number of dimensions of {what} must be known here; give its variables types")
    return type_.ndim


def only(name: str, what: str, value: object, *allowed: object) -> None:
    """Raises ValueError for an argument whose value the operator does not support."""
    if value not in allowed:
        raise ValueError(f"relay.{name}: {what}={value!r} is not supported; {' or '.join(repr(value) for value in allowed)} is")


def result_dtype(out_dtype: str | None, data: Expr) -> str:
    """The attribute `out_dtype`: empty if the element type of the result is known to be that of the data."""
    type_ = known_type(data) if out_dtype else None
    return "" if isinstance(type_, TensorType) and type_.dtype == out_dtype else out_dtype or ""


def only_dtype(name: str, out_dtype: str | None, data: Expr) -> None:
    """Raises ValueError unless the element type of the result is known to be that of the data."""
    if not out_dtype:
        return
    type_ = known_type(data)
    if not isinstance(type_, TensorType) or type_.dtype != out_dtype:
        found = type_.dtype if isinstance(type_, TensorType) else "not known here"
        raise ValueError(
            f"relay.{name}: out_dtype={out_dtype!r} is not supported: the result has the element type of data, which is {found}"
        )


_NAMES = {("x",): ("data",), ("x", "y"): ("lhs", "rhs")}


def signature_of(op: Op) -> inspect.Signature:
    """The parameters of the function of an operator; those without a default come first.

    >>> from passat.ir.op import get_op
    >>> list(signature_of(get_op("nn.leaky_relu")).parameters)
    ['data', 'alpha']
    """
    kinds = [parameter.annotation for parameter in inspect.signature(op.relation).parameters.values()]
    names = _NAMES.get(op.operand_names, op.operand_names)
    operands = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Exprs if kind is TupleType else "Expr")
        for name, kind in zip(names, kinds, strict=False)
    ]
    attrs = [parameter.replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD) for parameter in op.attr_params.values()]
    attrs.sort(key=lambda parameter: parameter.default is not parameter.empty)
    return inspect.Signature([*operands, *attrs], return_annotation=Call)


def function_of(op: Op) -> Callable[..., Call]:
    """The function that builds calls of an operator. It raises TypeError for arguments that do not fit."""
    signature = signature_of(op)
    arity = op.arity
    kinds = [parameter.annotation for parameter in inspect.signature(op.relation).parameters.values()][:arity]

    def build(*args: object, **kwargs: object) -> Call:
        given = list(bound(op.name, signature, args, kwargs).arguments.items())
        operands = [operand(op.name, name, value, kind) for (name, value), kind in zip(given, kinds, strict=False)]
        return call(op.name, *operands, **dict(given[arity:]))

    build.__name__ = build.__qualname__ = op.name.rpartition(".")[2]
    build.__doc__ = op.doc
    build.__module__ = "passat.relay"
    build.__signature__ = signature  # type: ignore[attr-defined]  # for inspect and help()
    return build


def namespace(prefix: str, respelled: Collection[str]) -> dict[str, Callable[..., Call]]:
    """The functions of the operators whose names begin with `prefix` and have no further dot, except those written by hand."""
    found = {}
    for op in list_ops():
        name = op.name.removeprefix(prefix)
        if op.name.startswith(prefix) and "." not in name and name not in respelled:
            found[name] = function_of(op)
    return found

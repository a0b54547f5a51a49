"""How Relay's functions build calls: operands checked, Python values turned into attributes, what is known of types."""

import inspect
from collections.abc import Iterable, Sequence
from typing import Any as AnyValue
from typing import TypeAlias

import numpy as np

from passat.ir.dtypes import from_numpy
from passat.ir.expr import Call, Constant, Expr, Tuple, const
from passat.ir.op import get_op
from passat.ir.types import TensorType, TupleType
from passat.passmgr.options import convert, show_annotation
from passat.relay.weights import known_type, type_weights

Numbers: TypeAlias = int | Sequence[int]
Exprs: TypeAlias = Expr | Sequence[Expr]


def call(name: str, *operands: object, **attrs: object) -> Call:
    """A call of the operator `name`. Lists and tuples are operands where the operator takes a tuple.

    Raises TypeError for an operand that is no expression and for an attribute of the wrong type; OpTypeError for unknown ones.
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
    """The value as an operand. Raises TypeError where it is none."""
    if isinstance(value, Expr):
        return value
    if kind is TupleType and isinstance(value, (list, tuple)):
        if not value:
            raise ValueError(f"relay.{name} requires {what} to be non-empty")
        return Tuple([operand(name, f"field {i} of {what}", field) for i, field in enumerate(value)])
    number = isinstance(value, (bool, int, float, np.generic, np.ndarray))
    hint = f"; write relay.const({value!r})" if number else ""
    raise TypeError(f"relay.{name}: {what} must be an expression, it is a {type(value).__name__}{hint}")


def attribute(what: str, value: object, annotation: object) -> AnyValue:
    """A value as an attribute of that annotation. Raises TypeError that names `what`."""
    try:
        return convert(plain(value), annotation)
    except TypeError as error:
        raise TypeError(f"{what}: {show_annotation(annotation)} is wanted, {value!r} is given") from error


def plain(value: object) -> object:
    """A value as attributes hold it: constants and NumPy's numbers become Python's, lists tuples, NumPy's dtypes their names."""
    if isinstance(value, Constant):
        return plain(value.data.numpy().tolist())
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return from_numpy(np.dtype(value))
    if isinstance(value, (np.generic, np.ndarray)):
        return plain(value.tolist())
    return tuple(map(plain, value)) if isinstance(value, (list, tuple)) else value


def is_dynamic(value: object) -> bool:
    """Whether a value is computed in the run: an expression that is no constant."""
    return isinstance(value, Expr) and not isinstance(value, Constant)


def numbers(name: str, what: str, value: object) -> tuple[int, ...]:
    """Integers given as one, as several or as a constant. Raises TypeError."""
    found = plain(value)
    wanted: tuple[int, ...] = attribute(f"relay.{name}: {what}", found if isinstance(found, tuple) else (found,), tuple[int, ...])
    return wanted


def int_vector(values: object) -> Expr:
    """Sizes as an operand: an expression as it is, numbers as a constant of int64."""
    return values if isinstance(values, Expr) else const(np.asarray(plain(values), np.int64).reshape(-1), "int64")


def rank(name: str, what: str, expr: Expr) -> int:
    """The number of dimensions. Raises ValueError where it is not known."""
    type_ = known_type(expr)
    if not isinstance(type_, TensorType):
        raise ValueError(f"relay.{name}: the number of dimensions of {what} must be known here; give its variables types")
    return type_.ndim


def only(name: str, what: str, value: object, *allowed: object) -> None:
    """Raises ValueError for a value of an argument that the operator has no form for."""
    if value not in allowed:
        raise ValueError(f"relay.{name}: {what}={value!r} is not supported; {_one_of(allowed)} is")


def only_dtype(name: str, out_dtype: str | None, data: Expr) -> None:
    """Raises ValueError for an element type of the result that is not that of the data, or may not be."""
    if not out_dtype:
        return
    type_ = known_type(data)
    if not isinstance(type_, TensorType) or type_.dtype != out_dtype:
        found = type_.dtype if isinstance(type_, TensorType) else "not known here"
        raise ValueError(
            f"relay.{name}: out_dtype={out_dtype!r} is not supported: the result has the element type of data, which is {found}"
        )


def _one_of(values: Iterable[object]) -> str:
    return " or ".join(repr(value) for value in values)

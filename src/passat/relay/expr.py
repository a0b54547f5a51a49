"""`relay.expr`: expressions, variables and constants."""

from typing import Any as AnyValue

import numpy as np

from passat.ir import expr as nodes
from passat.ir.bind import bind
from passat.ir.counting import counted
from passat.ir.expr import (
    BaseFunc,
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefWrite,
    Span,
    Tuple,
    TupleGetItem,
    Var,
    var,
)
from passat.ir.source import SourceName
from passat.runtime.values import NDArray

__all__ = [
    "BaseFunc",
    "Call",
    "Clause",
    "Constant",
    "Constructor",
    "Expr",
    "Function",
    "GlobalVar",
    "If",
    "Let",
    "Match",
    "PatternConstructor",
    "PatternTuple",
    "PatternVar",
    "PatternWildcard",
    "RefCreate",
    "RefRead",
    "RefWrite",
    "RelayExpr",
    "SourceName",
    "Span",
    "Tuple",
    "TupleGetItem",
    "TupleWrapper",
    "Var",
    "bind",
    "const",
    "var",
]

RelayExpr = Expr
"""Another name of the base class of all expressions."""


def const(value: AnyValue, dtype: str | None = None, span: Span | None = None) -> Constant:
    """A constant from a number, a list or an array, which is copied. Without a dtype, Python numbers and 64-bit arrays become 32-bit; an
    NDArray keeps its element type. Raises ValueError for other values.

    >>> const(1.5).data.dtype, const(np.int64(3), "int64").data.dtype
    ('float32', 'int64')
    """
    if isinstance(value, NDArray):
        return Constant(value.tensor if dtype is None else NDArray(value, dtype).tensor, span)
    return nodes.const(np.array(value) if isinstance(value, np.ndarray) else value, dtype, span)


def TupleWrapper(tuple_value: Expr, size: int) -> Expr:  # noqa: N802  # Relay's name of a class
    """The expression itself if its length is known, since it can be unpacked like a tuple; otherwise a tuple of its fields.

    Relay wraps calls of operators with several results. Passat does not need wrappers: such calls have a length.
    Raises ValueError if the expression has another length.
    """
    if not isinstance(tuple_value, (Call, Tuple)):
        return Tuple([TupleGetItem(tuple_value, i) for i in range(size)])
    try:
        found = len(tuple_value)
    except TypeError:
        return Tuple([TupleGetItem(tuple_value, i) for i in range(size)])
    if found != size:
        raise ValueError(f"the tuple has {counted(found, 'field')}, not {size}")
    return tuple_value

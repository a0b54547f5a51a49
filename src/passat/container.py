"""`tvm.runtime.container` and `tvm.ir.container`: TVM's containers, which are Python's."""

from collections.abc import Iterable
from typing import Any as AnyValue

from passat.runtime import TupleValue, convert
from passat.runtime.values import ADT

__all__ = ["ADT", "Array", "Map", "ShapeTuple", "String", "convert", "tuple_object"]

Array: type = tuple
"""A sequence of nodes."""
Map: type = dict
"""A map of nodes."""
ShapeTuple: type = tuple
"""The sizes of an array."""
String: type = str


def tuple_object(fields: Iterable[AnyValue] = ()) -> TupleValue:
    """A tuple of values.

    >>> len(tuple_object([1, 2]))
    2
    """
    return TupleValue(*fields)

"""`tvm.runtime.container` and `tvm.ir.container`: TVM's containers, which are Python's."""

from collections.abc import Iterable
from typing import Any as AnyValue

from passat.runtime import TupleValue

__all__ = ["ADT", "Array", "Map", "String", "convert", "tuple_object"]

ADT: type = TupleValue
"""A tuple of values."""
Array: type = tuple
"""A sequence of nodes."""
Map: type = dict
"""A map of nodes."""
String: type = str


def convert(value: AnyValue) -> AnyValue:
    """A value as the IR holds it: lists as tuples, also inside of others. Anything else stays.

    >>> convert([1, ["a", None]])
    (1, ('a', None))
    """
    if isinstance(value, (list, tuple)):
        return tuple(map(convert, value))
    return {key: convert(part) for key, part in value.items()} if isinstance(value, dict) else value


def tuple_object(fields: Iterable[AnyValue] = ()) -> TupleValue:
    """A tuple of values.

    >>> len(tuple_object([1, 2]))
    2
    """
    return TupleValue(*fields)

"""Checks of the values of arguments. Each error is one sentence that names the argument."""

import math
import numbers
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any as AnyValue
from typing import Final, SupportsIndex, TypeAlias

from passat.ir.long_words import short_repr
from passat.ir.passat_error import PassatError

Check: TypeAlias = Callable[[str, object], None]
"""Checks the value of the named argument. Raises TypeError or ArgumentError."""
PATH: Final = (str, os.PathLike)
"""The types of paths."""


class ArgumentError(PassatError, ValueError):
    """An argument with an invalid value. The message names it."""

    exit_code = 2


def kind(kinds: type | tuple[type, ...], said: str) -> Check:
    """Accepts instances of classes."""

    def check(name: str, value: object) -> None:
        if not isinstance(value, kinds):
            raise TypeError(f"{name} must be {said}, not {short_repr(value)}")

    return check


def integer(least: int, most: int | None = None) -> Check:
    """Accepts integers in a range, also those of NumPy."""
    bounds = f"from {least} to {most}" if most is not None else f"of at least {least}"

    def check(name: str, value: object) -> None:
        try:
            number = operator.index(value) if isinstance(value, SupportsIndex) and not isinstance(value, bool) else None
        except TypeError:  # an array, or a class of integers
            number = None
        if number is None:
            raise TypeError(f"{name} must be an integer {bounds}, not {short_repr(value)}")
        if number < least or (most is not None and number > most):
            raise ArgumentError(f"{name} must be an integer {bounds}, not {short_repr(value)}")
        if number.bit_length() > 63:
            raise ArgumentError(f"{name} must be an integer of at most 63 bits, not {short_repr(value)}")

    return check


def number(said: str, most: float) -> Check:
    """Accepts numbers that are not negative."""

    def check(name: str, value: object) -> None:
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            raise TypeError(f"{name} must be a {said}, not {short_repr(value)}")
        try:
            found = float(value)
        except OverflowError:  # an integer beyond all floats
            found = math.nan
        if not 0 <= found <= most:
            raise ArgumentError(f"{name} must be a {said}, at least 0, not {short_repr(value)}")

    return check


def one_of(*values: str) -> Check:
    """Accepts some strings."""

    def check(name: str, value: object) -> None:
        if not isinstance(value, str) or value not in values:
            raise ArgumentError(f"{name} must be {' or '.join(map(repr, values))}, not {short_repr(value)}")

    return check


def sequence(kinds: type | tuple[type, ...], said: str) -> Check:
    """Accepts lists and tuples of instances of classes. Sets have no order, and what an iterator has is there only once."""

    def check(name: str, value: object) -> None:
        if not is_sequence(value) or not all(isinstance(one, kinds) for one in value):  # type: ignore[attr-defined]  # a sequence is iterable
            raise TypeError(f"{name} must be {said}, not {short_repr(value)}")

    return check


def is_sequence(value: object) -> bool:
    """True for lists, tuples and the like; not for strings."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray, memoryview))


def sizes(name: str, value: object) -> None:
    """Accepts sizes of named dimensions."""
    if not isinstance(value, Mapping) or not all(isinstance(dim, str) for dim in value):
        raise TypeError(f"{name} must map names of dimensions to sizes, not {short_repr(value)}")
    for dim, size in value.items():
        _SIZE(f"{name}: the size of the dimension {dim!r}", size)


def shapes(name: str, value: object) -> None:
    """Accepts shapes of named inputs, with None for sizes that stay."""
    if not isinstance(value, Mapping) or not all(isinstance(each, str) and is_sequence(shape) for each, shape in value.items()):
        raise TypeError(f"{name} must map names of inputs to shapes, not {short_repr(value)}")
    for each, shape in value.items():
        for size in shape:
            if size is not None:
                _SIZE(f"{name}: a size of the input {each!r}", size)


def names(name: str, value: object) -> None:
    """Accepts names, at least one."""
    sequence(str, "a list of names")(name, value)
    if not value:
        raise ArgumentError(f"{name} names no output")


def folders(name: str, value: object) -> None:
    """Accepts the folders of two models, or None for one of them."""
    if not is_sequence(value) or [each is None or isinstance(each, PATH) for each in value] != [True, True]:  # type: ignore[attr-defined]  # it is iterable
        raise TypeError(f"{name} must be two paths of folders, with None for one that is not needed, not {short_repr(value)}")


def plain(value: AnyValue) -> AnyValue:
    """A checked argument with Python's own numbers in place of NumPy's, which JSON does not write, also within mappings and sequences.

    >>> import numpy as np
    >>> plain({"batch": np.int64(2)}), plain([np.float64(0.5), None])
    ({'batch': 2}, [0.5, None])
    """
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if is_sequence(value):
        return [plain(each) for each in value]
    if value is None or isinstance(value, (bool, str)):
        return value
    return operator.index(value) if isinstance(value, SupportsIndex) else float(value)


def executor(name: str, value: object) -> None:
    """Accepts objects that run jobs."""
    if not callable(getattr(value, "submit", None)) or isinstance(value, type):
        raise TypeError(f"{name} must be an executor of concurrent.futures, or have a method submit as these do, not {short_repr(value)}")


_SIZE: Final = integer(0, 2**31 - 1)
FILE: Final = kind(PATH, "the path of a file")
FOLDER: Final = kind(PATH, "the path of a folder")

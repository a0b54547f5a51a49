"""Element types of the loop IR: their names, with TVM's spelling of vectors (`float32x4`), and the types of variables."""

import json
from dataclasses import dataclass
from functools import lru_cache
from re import compile as pattern
from typing import Final, NamedTuple

from passat.ir.passat_error import PassatError

_NAME: Final = pattern(r"(int|uint|float|bfloat)(\d{1,4})?(?:x(\d{1,9}))?|(bool|handle|void)(?:x(\d{1,9}))?")
_SHOWN_BITS: Final = 128
_DEFAULT_BITS: Final = {"int": 32, "uint": 32, "float": 32, "bfloat": 16}


class TirError(PassatError, RuntimeError):
    """An invalid program of loops. TVM's scripts catch it as TVMError."""


class DataType(NamedTuple):
    """An element type: its kind (`int`, `uint`, `float`, `bfloat`, `handle`), the bits of an element, and the number of lanes.

    >>> DataType.of("float32x4")
    DataType(kind='float', bits=32, lanes=4)
    >>> str(DataType.of("uint1")), str(DataType.of("int"))
    ('bool', 'int32')
    """

    kind: str
    bits: int
    lanes: int = 1

    @staticmethod
    @lru_cache(1000)
    def of(name: str) -> "DataType":
        """Reads the name of an element type. Raises TirError for other names."""
        found = _NAME.fullmatch(name) if isinstance(name, str) else None
        if found is None:
            raise TirError(f"{name!r} is not an element type; 'int32', 'float32x4', 'bool' and 'handle' are")
        kind, bits, lanes, special, special_lanes = found.groups()
        if special is not None:
            count = int(special_lanes or 1)
            return {"bool": DataType("uint", 1, count), "handle": DataType("handle", 64, count), "void": DataType("handle", 0, 0)}[special]
        return DataType(kind, int(bits or _DEFAULT_BITS[kind]), int(lanes or 1))

    def __str__(self) -> str:
        if self == ("uint", 1, 1):
            return "bool"
        if self.kind == "handle":
            return "handle" if self.lanes else "void"
        return f"{self.kind}{self.bits}{f'x{self.lanes}' if self.lanes != 1 else ''}"

    @property
    def is_integer(self) -> bool:
        """Whether the elements are signed or unsigned integers, or booleans."""
        return self.kind in ("int", "uint")

    @property
    def is_float(self) -> bool:
        """Whether the elements are floating-point numbers."""
        return self.kind == "float"

    @property
    def is_bool(self) -> bool:
        """Whether the elements are booleans."""
        return self.kind == "uint" and self.bits == 1

    @property
    def is_index(self) -> bool:
        """Whether this is a type of indices: one int32 or int64."""
        return self.kind == "int" and self.lanes == 1 and self.bits in (32, 64)

    @property
    def limits(self) -> tuple[int, int]:
        """The lowest and the highest number of this integer type.

        >>> DataType.of("int8").limits, DataType.of("bool").limits
        ((-128, 127), (0, 1))
        """
        return (-(1 << self.bits - 1), (1 << self.bits - 1) - 1) if self.kind == "int" else (0, (1 << self.bits) - 1)

    def holds(self, value: int) -> bool:
        """Whether an integer is a number of this integer type."""
        lowest, highest = self.limits
        return lowest <= value <= highest

    def wrapped(self, value: int) -> int:
        """The number of this integer type that is equal to an integer modulo two to the power of the bits.

        >>> DataType.of("int8").wrapped(128), DataType.of("uint8").wrapped(-1)
        (-128, 255)
        """
        lowest, _ = self.limits
        return (value - lowest) % (1 << self.bits) + lowest

    @property
    def itemsize(self) -> int:
        """The size of an element in bytes."""
        return (self.bits + 7) // 8

    def with_lanes(self, lanes: int) -> "DataType":
        """The type with another number of lanes."""
        return self._replace(lanes=lanes)


def canonical(name: str) -> str:
    """The name of an element type in its usual spelling.

    >>> canonical("uint1"), canonical("float")
    ('bool', 'float32')
    """
    return str(DataType.of(name))


def show_integer(value: int) -> str:
    """An integer for messages; Python does not print those of thousands of digits.

    >>> show_integer(-3), show_integer(10**5000)
    ('-3', 'a number of 16610 bits')
    """
    return str(value) if value.bit_length() <= _SHOWN_BITS else f"a number of {value.bit_length()} bits"


@dataclass(frozen=True)
class PrimType:
    """The type of a number."""

    dtype: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", canonical(self.dtype))

    def __str__(self) -> str:
        return self.dtype


_SCOPE: Final = pattern(r"[A-Za-z_][A-Za-z0-9_.]*(:[A-Za-z_][A-Za-z0-9_.]*)?")
"""The scopes that are printed as they are: a name, which may have a tag."""


@dataclass(frozen=True)
class PointerType:
    """The type of a variable that points to memory: the type of its elements, and where the memory is."""

    element_type: PrimType
    storage_scope: str = "global"

    def __post_init__(self) -> None:
        object.__setattr__(self, "storage_scope", self.storage_scope or "global")

    def __str__(self) -> str:
        scope = self.storage_scope if _SCOPE.fullmatch(self.storage_scope) else json.dumps(self.storage_scope)
        return f"Pointer({scope} {self.element_type})"

"""Numbers, strings and names as text, both ways and exactly.

A number says its type by a suffix. For a scalar constant, none is int32 (int64 where it does not fit) or, with a point or exponent,
float32; `f` is float32 too; `f16 f32 f64 bf16` and `i4 i8 i16 i32 i64 u8 ...` are the types of those widths. An attribute is a Python
number: without point, exponent and float suffix an int; `f` is the float32 nearest to the digits, and that is printed where a float
is exactly a float32, as those of ONNX attributes are; `f64`, or no suffix behind a point, is the double nearest to the digits.
`inf` and `nan` take the same suffixes: `inff`, `-inff`, `nanf64`.
"""

import json
import re
from collections.abc import Container
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.dtypes import to_numpy
from passat.ir.tensor import Tensor
from passat.ir.text.lexer import PLAIN_NAME, PLAIN_VARIABLE

_FLOAT_SUFFIX: Final = {"float16": "f16", "bfloat16": "bf16", "float32": "f", "float64": "f64"}
_INT_SUFFIX: Final = {f"{sign}int{bits}": f"{letter}{bits}" for sign, letter in (("", "i"), ("u", "u")) for bits in (2, 4, 8, 16, 32, 64)}
_SUFFIX: Final = {**_FLOAT_SUFFIX, **_INT_SUFFIX, "int32": ""}
_DTYPE: Final = {suffix: dtype for dtype, suffix in (*_FLOAT_SUFFIX.items(), *_INT_SUFFIX.items())} | {"f32": "float32"}
_NUMBER: Final = re.compile(r"(?P<value>[0-9]+(?P<real>(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)|inf|nan)(?P<suffix>[a-z][a-z0-9]*)?")
SPECIAL: Final = frozenset(f"{value}{suffix}" for value in ("inf", "nan") for suffix in (*_FLOAT_SUFFIX.values(), "f32"))
"""Words that are numbers."""
COMPOUND: Final = frozenset({"fn", "if", "match", "ref", "ref_read", "ref_write", "constructor"})
"""Words that begin expressions of more than one token."""
EXPRESSION_WORDS: Final = SPECIAL | COMPOUND | {"let", "free_var", "else", "def", "type", "extern", "True", "False", "_"}
"""Words that cannot name constructors without quotes."""
KEYWORDS: Final = (
    SPECIAL
    | {"def", "type", "extern", "fn", "let", "free_var", "if", "else", "match", "ref", "ref_read", "ref_write"}
    | {*("constructor", "dim", "True", "False", "None", "nullptr", "meta")}
)
"""Words that cannot name operators without quotes."""
_FLOAT32_MAX: Final = 3.4028234663852886e38


def show_string(text: str) -> str:
    """A string in quotes, with JSON's escapes.

    >>> show_string('a"b')
    '"a\\\\"b"'
    """
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates, by which Python stands for bytes that are no text
        return json.dumps(text)
    return json.dumps(text, ensure_ascii=False)


def show_bytes(data: bytes) -> str:
    """Bytes as a literal: `b"..."`, printable ASCII as it is and everything else as `\\xNN`."""
    return 'b"' + "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}" for byte in data) + '"'


def show_variable(name: str) -> str:
    """The name of a variable or function as it stands behind `%` or `@`.

    >>> show_variable("conv1/weight"), show_variable("input:0")
    ('conv1/weight', '"input:0"')
    """
    return name if PLAIN_VARIABLE.fullmatch(name) else show_string(name)


def show_name(name: str, reserved: Container[str] = ()) -> str:
    """The name of an operator, attribute, type or dimension, in quotes where it is no dotted name or one of the reserved words.

    >>> show_name("nn.relu"), show_name("if", KEYWORDS), show_name("onnx.my-domain.Op")
    ('nn.relu', '"if"', '"onnx.my-domain.Op"')
    """
    return name if PLAIN_NAME.fullmatch(name) and name not in reserved else show_string(name)


def show_float(value: float) -> str:
    """A Python float as an attribute.

    >>> show_float(0.5), show_float(0.1), show_float(float(np.float32(0.1))), show_float(float("-inf"))
    ('0.5f', '0.1f64', '0.1f', '-inff')
    """
    single = np.float32(value) if abs(value) <= _FLOAT32_MAX or not np.isfinite(value) else None
    if single is not None and (float(single) == value or np.isnan(value)):
        return f"{_digits(single)}f"
    return f"{_digits(np.float64(value))}f64"


def show_scalar(tensor: Tensor) -> str | None:
    """A constant without dimensions as a literal; None where there is none for its type, or not exactly (NaNs with a payload).

    >>> show_scalar(Tensor.dense(np.float32(0.1))), show_scalar(Tensor.dense(np.int64(3))), show_scalar(Tensor.dense(np.ones(2)))
    ('0.1f', '3i64', None)
    """
    if tensor.shape != ():
        return None
    if tensor.dtype == "bool":
        return str(bool(tensor.numpy()[()]))
    suffix = _SUFFIX.get(tensor.dtype)
    if suffix is None:
        return None
    value: AnyValue = tensor.numpy()[()]
    if tensor.dtype in _INT_SUFFIX:
        return f"{int(value)}{suffix}"
    if np.isnan(value) and value.tobytes() != np.asarray(np.nan, to_numpy(tensor.dtype)).tobytes():
        return None
    return f"{_digits(value)}{suffix}"


def _digits(value: AnyValue) -> str:
    """The shortest digits that are read back as the same value."""
    text = str(value)
    if type(value)(float(text)).tobytes() != value.tobytes():
        text = repr(float(value))
    return text.removesuffix(".0")


def read_attribute_number(text: str, negative: bool) -> int | float:
    """The number that an attribute's literal means. Raises ValueError where it is no literal."""
    value, real, suffix = _parts(text)
    if suffix in ("f", "f32"):
        number: int | float = float(_rounded(value, "float32"))
    elif suffix == "f64" or (not suffix and real):
        number = float(_rounded(value, "float64"))
    elif not real and (not suffix or suffix in _INT_SUFFIX.values()):
        number = read_int(value)
    else:
        raise ValueError(f"the attribute {text} is of no type that attributes have; floats end in f or f64")
    return -number if negative else number


def read_scalar(text: str, negative: bool) -> Tensor:
    """The constant that a literal means. Raises ValueError where it is no literal or does not fit its type."""
    value, real, suffix = _parts(text)
    if suffix:
        dtype = _DTYPE.get(suffix)
        if dtype is None or (real and dtype in _INT_SUFFIX):
            raise ValueError(f"the number {text} has an unknown suffix; there are: {', '.join(_DTYPE)}")
    else:
        dtype = "float32" if real else "int32"
    if dtype in _FLOAT_SUFFIX:
        number = _rounded(value, dtype)
        return Tensor.dense(np.asarray(-number if negative else number))
    integer = -read_int(value) if negative else read_int(value)
    if not suffix and not -(1 << 31) <= integer < 1 << 31:
        dtype = "int64"
    bits = int(dtype.lstrip("uint"))
    low, high = (0, 1 << bits) if dtype[0] == "u" else (-1 << (bits - 1), 1 << (bits - 1))
    if not low <= integer < high:
        raise ValueError(f"the number {'-' * negative}{_short(value)} does not fit {dtype}")
    return Tensor.dense(np.asarray(integer, to_numpy(dtype)))


def _parts(text: str) -> tuple[str, bool, str]:
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise ValueError(f"{text} is no number")
    return found["value"], bool(found["real"]) or found["value"] in ("inf", "nan"), found["suffix"] or ""


def _rounded(digits: str, dtype: str) -> AnyValue:
    """The nearest number of an element type. Raises ValueError where the digits are beyond all of them."""
    with np.errstate(over="ignore"):
        found = to_numpy(dtype).type(float(digits))
    if np.isinf(found) and digits != "inf":
        raise ValueError(f"the number {_short(digits)} does not fit {dtype}; infinity is inf{_FLOAT_SUFFIX[dtype]}")
    return found


def read_int(digits: str) -> int:
    """An integer. Raises ValueError for more digits than Python converts."""
    try:
        return int(digits)
    except ValueError:
        raise ValueError(f"the integer {_short(digits)} has {len(digits)} digits, which are too many") from None


def _short(digits: str) -> str:
    return digits if len(digits) <= 40 else f"{digits[:20]}...{digits[-10:]}"

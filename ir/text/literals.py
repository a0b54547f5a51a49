"""Prints and parses numbers, strings and names without loss.

The suffix of a number gives its type.

* A scalar constant without suffix is an int32 (an int64 if it does not fit), or a float32 if it has a point or an exponent. `f` is
  float32; `f16 f32 f64 bf16` and `i4 i8 i16 i32 i64 u8 ...` name the type.
* An attribute is a Python number. Without point, exponent and float suffix it is an int. `f` rounds to float32 and is printed for floats
  that are exact float32 values, such as those of ONNX attributes. `f64`, or a point without suffix, is a double.
* `inf` and `nan` take the same suffixes: `inff`, `-inff`, `nanf64`.
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
"""Words that denote numbers."""
COMPOUND: Final = frozenset({"fn", "if", "match", "ref", "ref_read", "ref_write", "constructor"})
"""Keywords that begin compound expressions."""
EXPRESSION_WORDS: Final = SPECIAL | COMPOUND | {"let", "free_var", "else", "def", "type", "extern", "True", "False", "_"}
"""Words that must be quoted as names of constructors."""
KEYWORDS: Final = (
    SPECIAL
    | {"def", "type", "extern", "fn", "let", "free_var", "if", "else", "match", "ref", "ref_read", "ref_write"}
    | {*("constructor", "dim", "True", "False", "None", "nullptr", "meta")}
)
"""Words that must be quoted as names of operators."""
_FLOAT32_MAX: Final = 3.4028234663852886e38


def show_string(text: str) -> str:
    """Quotes a string with JSON's escapes.

    >>> show_string('a"b')
    '"a\\\\"b"'
    """
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates, Python's representation of bytes that are not valid text
        return json.dumps(text)
    return json.dumps(text, ensure_ascii=False)


def show_bytes(data: bytes) -> str:
    """Prints a bytes literal: `b"..."`, with printable ASCII unchanged and other bytes as `\\xNN`."""
    return 'b"' + "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}" for byte in data) + '"'


def show_variable(name: str) -> str:
    """Prints the name of a variable or function after `%` or `@`.

    >>> show_variable("conv1/weight"), show_variable("input:0")
    ('conv1/weight', '"input:0"')
    """
    return name if PLAIN_VARIABLE.fullmatch(name) else show_string(name)


def show_name(name: str, reserved: Container[str] = ()) -> str:
    """Prints the name of an operator, attribute, type or dimension, quoted if it is not a dotted name or is a reserved word.

    >>> show_name("nn.relu"), show_name("if", KEYWORDS), show_name("onnx.my-domain.Op")
    ('nn.relu', '"if"', '"onnx.my-domain.Op"')
    """
    return name if PLAIN_NAME.fullmatch(name) and name not in reserved else show_string(name)


def show_float(value: float) -> str:
    """Prints a Python float as an attribute.

    >>> show_float(0.5), show_float(0.1), show_float(float(np.float32(0.1))), show_float(float("-inf"))
    ('0.5f', '0.1f64', '0.1f', '-inff')
    """
    single = np.float32(value) if abs(value) <= _FLOAT32_MAX or not np.isfinite(value) else None
    if single is not None and (float(single) == value or np.isnan(value)):
        return f"{_digits(single)}f"
    return f"{_digits(np.float64(value))}f64"


def show_scalar(tensor: Tensor) -> str | None:
    """Prints a scalar constant as a literal. Returns None if its type or value has no exact literal (NaNs with a payload).

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
    """The shortest digits that parse back to the same value."""
    text = str(value)
    if type(value)(float(text)).tobytes() != value.tobytes():
        text = repr(float(value))
    return text.removesuffix(".0")


def read_attribute_number(text: str, negative: bool) -> int | float:
    """Parses the literal of an attribute. Raises ValueError for other text."""
    value, real, suffix = _parts(text)
    if suffix in ("f", "f32"):
        number: int | float = float(_rounded(value, "float32"))
    elif suffix == "f64" or (not suffix and real):
        number = float(_rounded(value, "float64"))
    elif not real and (not suffix or suffix in _INT_SUFFIX.values()):
        number = read_int(value)
    else:
        raise ValueError(f"the attribute {text} has an unsupported suffix; use f or f64 for floats")
    return -number if negative else number


def read_scalar(text: str, negative: bool) -> Tensor:
    """Parses the literal of a scalar constant. Raises ValueError if it is not a literal or does not fit its type."""
    value, real, suffix = _parts(text)
    if suffix:
        dtype = _DTYPE.get(suffix)
        if dtype is None or (real and dtype in _INT_SUFFIX):
            raise ValueError(f"the number {text} has an unknown suffix; known: {', '.join(_DTYPE)}")
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
        raise ValueError(f"{text} is not a number")
    return found["value"], bool(found["real"]) or found["value"] in ("inf", "nan"), found["suffix"] or ""


def _rounded(digits: str, dtype: str) -> AnyValue:
    """Rounds to the nearest number of an element type. Raises ValueError for finite numbers that overflow."""
    with np.errstate(over="ignore"):
        found = to_numpy(dtype).type(float(digits))
    if np.isinf(found) and digits != "inf":
        raise ValueError(f"the number {_short(digits)} does not fit {dtype}; write inf{_FLOAT_SUFFIX[dtype]} for infinity")
    return found


def read_int(digits: str) -> int:
    """Parses an integer. Raises ValueError for more digits than Python converts."""
    try:
        return int(digits)
    except ValueError:
        raise ValueError(f"the integer {_short(digits)} has too many digits: {len(digits)}") from None


def _short(digits: str) -> str:
    return digits if len(digits) <= 40 else f"{digits[:20]}...{digits[-10:]}"

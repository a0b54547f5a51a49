"""Types, attributes, constants and names as texts of a page.

Texts in models are untrusted: they may have any length and any characters, and must not affect the page.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any as AnyValue
from typing import Final

from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType, Type

LONGEST: Final = 400
"""Maximum number of characters of a text."""
_PARTS: Final = 60
"""Maximum number of elements of a tuple."""
_VALUES: Final = 4
"""Maximum number of elements of a constant that is shown by value."""


def shown(text: str, limit: int = LONGEST) -> str:
    r"""A text shortened to `limit` characters, with escapes for invisible ones: no name changes the text direction, and different
    names look different.

    >>> shown("a\0b\u202ec"), shown("weight" * 100, 20)
    ('a\\x00b\\u202ec', 'weightweigh... (600)')
    """
    cut = f"... ({len(text)})"
    kept = text if len(text) <= limit else text[: max(0, limit - len(cut))] + cut
    return kept if kept.isprintable() else "".join(char if char.isprintable() else repr(char)[1:-1] for char in kept)


def type_text(type_: Type | None) -> str:
    """A type in few characters.

    >>> type_text(TupleType([TensorType((2, 3), "float32"), TensorType((), "bool")]))
    '(float32[2, 3], bool)'
    """
    if type_ is None:
        return ""
    if isinstance(type_, TensorType):
        return shown(f"{type_.dtype}[{', '.join(map(str, type_.shape))}]" if type_.shape else type_.dtype)
    if isinstance(type_, TupleType):
        rest = [f"... ({len(type_.fields)})"] if len(type_.fields) > _PARTS else []
        return shown(f"({', '.join([*map(type_text, type_.fields[:_PARTS]), *rest])})")
    return shown(repr(type_))


def attrs_text(attrs: Mapping[str, AnyValue]) -> str:
    """Attributes as `name=value`, each shortened.

    >>> attrs_text({"axes": (1, 0), "mode": "edge"})
    "axes=(1, 0), mode='edge'"
    """
    return shown(", ".join(f"{shown(name, 60)}={shown(_value(value), 160)}" for name, value in attrs.items()))


def constant_text(tensor: Tensor) -> str:
    """A constant: its type, and its value if that is short.

    >>> import numpy as np
    >>> constant_text(Tensor.dense(np.float32([1, 2]))), constant_text(Tensor.splat(0, (9, 9), "int8"))
    ('float32[2] = [1.0, 2.0]', 'int8[9, 9], all 0')
    """
    kind = type_text(TensorType(tensor.shape, tensor.dtype))
    if tensor.is_splat and tensor.size:
        return f"{kind}, all {shown(str(tensor.uniform()), 60)}" if tensor.size > 1 else f"{kind} = {shown(str(tensor.uniform()), 60)}"
    if tensor.size <= _VALUES:
        return f"{kind} = {shown(str(tensor.numpy().tolist()), 120)}"
    return kind


def script_json(document: AnyValue) -> str:
    r"""JSON for the inside of a `<script>` element: ASCII only, without characters that end the element in HTML or a line in JavaScript.

    >>> script_json({"name": "</script>\u2028"})
    '{"name":"\\u003c/script\\u003e\\u2028"}'
    """
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


class Strings:
    """A table of distinct texts, referenced by number."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The number of a text."""
        found = self._numbers.setdefault(text, len(self.texts))
        if found == len(self.texts):
            self.texts.append(text)
        return found


def _value(value: AnyValue) -> str:
    if isinstance(value, Tensor):
        return constant_text(value)
    if isinstance(value, (tuple, list)):
        return _sequence(value)
    if isinstance(value, str):
        return repr(value[: LONGEST + 1])
    if isinstance(value, bytes):
        return repr(value[: LONGEST + 1])
    return str(value)


def _sequence(values: Sequence[AnyValue]) -> str:
    parts = [_value(part) for part in values[:_PARTS]]
    rest = f", ... ({len(values)})" if len(values) > _PARTS else "," if len(values) == 1 else ""
    return f"({', '.join(parts)}{rest})"

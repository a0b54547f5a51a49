"""Prints and parses attributes: `axes=[0, 1], epsilon=1e-05f, mode="same"`.

Numbers, strings and bytes are literals of `passat.ir.text.literals`, tuples are written in square brackets, dimensions as `?` and `dim(2*n
+ 1)`, and tensors as references into the metadata section. Attributes of operators are omitted if they equal the default.
"""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any as AnyValue

from passat.ir.attrs import Attrs
from passat.ir.expr import Expr
from passat.ir.op import Op
from passat.ir.shape import ANY, Any, SymDim
from passat.ir.text.lexer import Tokens
from passat.ir.text.literals import SPECIAL, read_attribute_number, show_bytes, show_float, show_name, show_string
from passat.ir.text.metadata import Metadata, MetadataReader
from passat.ir.text.types import TypeReader, show_dim
from passat.ir.virtual_devices import CLASSES, NOT_SUPPORTED


def show_attrs(callee: Expr | None, attrs: Attrs, meta: Metadata) -> Iterator[str]:
    """Prints the attributes of a call of `callee`, or of a function, as `name=value`."""
    declared: Mapping[str, inspect.Parameter] = callee.attr_params if isinstance(callee, Op) else {}
    for name, value in attrs.items():
        parameter = declared.get(name)
        if parameter is not None and (value is parameter.default or Attrs(value=value) == Attrs(value=parameter.default)):
            continue
        yield f"{show_name(name)}={show_value(value, meta)}"


def show_value(value: AnyValue, meta: Metadata) -> str:
    """Prints the value of an attribute."""
    if value is None or value is True or value is False:
        return str(value)
    if isinstance(value, str):
        return show_string(value)
    if type(value) is int:
        return str(value)
    if type(value) is float:
        return show_float(value)
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(show_value(element, meta) for element in value)}]"
    if isinstance(value, bytes):
        return show_bytes(value)
    if isinstance(value, Any):
        return "?"
    return f"dim({show_dim(value)})" if isinstance(value, SymDim) else meta.refer(value)


class AttributeReader:
    """Reads attributes from tokens."""

    def __init__(self, tokens: Tokens, types: TypeReader, metadata: MetadataReader) -> None:
        self.tokens = tokens
        self._types = types
        self._metadata = metadata

    def begins(self) -> bool:
        """Whether the next token starts an attribute."""
        tokens = self.tokens
        return tokens.kind in ("name", "string") and tokens.kinds[tokens.at + 1] == "="

    def read(self, into: dict[str, AnyValue]) -> None:
        """Reads one attribute. Raises ParseError, also for a duplicate name."""
        tokens = self.tokens
        if not self.begins():
            raise tokens.error(f"expected an attribute name=value, found {tokens.shown()}")
        name = tokens.text
        if name in into:
            raise tokens.error(f"the attribute {name!r} is given twice")
        tokens.at += 2
        if name.endswith("virtual_device") and tokens.text.removeprefix("meta[").split("]")[0] in CLASSES:
            raise tokens.error(NOT_SUPPORTED)
        into[name] = self.read_value()

    def read_value(self) -> AnyValue:
        """Reads the value of an attribute. Raises ParseError."""
        tokens = self.tokens
        kind = tokens.kind
        if kind in ("number", "-") or (kind == "name" and tokens.text in SPECIAL):
            return self._number()
        if kind == "string":
            return tokens.take()
        if kind == "bytes":
            return tokens.take().encode("latin-1")
        if kind == "meta":
            return self._metadata.constant(tokens.take())
        if kind == "name" and tokens.text in _WORDS:
            return _WORDS[tokens.take()]
        if tokens.accept("?"):
            return ANY
        if tokens.accept("["):
            elements: list[AnyValue] = []
            while tokens.kind != "]":
                elements.append(self.read_value())
                if not tokens.accept(","):
                    break
            tokens.expect("]", "after the elements of the list")
            return tuple(elements)
        if tokens.accept_word("dim"):
            tokens.expect("(", "after dim")
            dim = self._types.read_dim()
            tokens.expect(")", "after the dimension")
            return dim
        raise tokens.error(f"expected the value of an attribute, found {tokens.shown()}")

    def _number(self) -> int | float:
        tokens = self.tokens
        negative = False
        while tokens.accept("-"):
            negative = not negative
        try:
            number = read_attribute_number(tokens.text, negative)
        except ValueError as error:
            raise tokens.error(str(error)) from None
        tokens.at += 1
        return number


_WORDS = {"True": True, "False": False, "None": None, "nullptr": None}

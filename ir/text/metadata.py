"""The metadata section: constants that are not inlined, as JSON after `#[metadata]`.

The section is an object whose key `relay.Constant` lists the constants that `meta[relay.Constant][i]` refers to. Each has a `dtype`, a
`shape` and one of these:

* `data`: the elements in row-major order, little-endian, one byte each for narrower types, in base64;
* `splat`: the uniform element, in base64;
* `strings`: the list of strings of a string tensor, or its uniform string (bytes that are not valid text as `{"base64": ...}`).

Sections written by TVM, which are graphs of nodes (`passat.ir.graph_json`), can be read too. Objects without an encoding are listed by
class with their `repr`, for people to read; they cannot be parsed back.
"""

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any as AnyValue
from typing import Final, TypeAlias

import numpy as np

from passat.ir.bounded_read import decode_json
from passat.ir.dtypes import to_numpy
from passat.ir.expr import Constant, Expr
from passat.ir.tensor import Array, Tensor
from passat.ir.text.lexer import Tokens

CONSTANT: Final = "relay.Constant"

Encode: TypeAlias = Callable[[Tensor], dict[str, AnyValue]]
"""Encodes a constant for the metadata section."""


class Metadata:
    """The objects that a printed text refers to, each once, by class and index. `form` encodes constants, as `encode` does."""

    def __init__(self, form: "Encode | None" = None) -> None:
        self._form: Encode = form or encode
        self._numbers: dict[int, str] = {}
        self._tables: dict[str, list[object]] = {}

    def __bool__(self) -> bool:
        return bool(self._tables)

    def refer(self, value: object) -> str:
        """Returns the reference `meta[class][number]` to a value."""
        found = self._numbers.get(id(value))
        if found is None:
            kind = CONSTANT if isinstance(value, Tensor) else type(value).__name__
            table = self._tables.setdefault(kind, [])
            found = self._numbers[id(value)] = f"meta[{kind}][{len(table)}]"
            table.append(value)
        return found

    def astext(self) -> str:
        """Prints the section. Lazy constants are read."""
        tables = []
        for kind, values in self._tables.items():
            lines = [json.dumps(self._form(value) if isinstance(value, Tensor) else {"repr": repr(value)}) for value in values]
            tables.append(f"  {json.dumps(kind)}: [\n    " + ",\n    ".join(lines) + "\n  ]")
        return "#[metadata]\n{\n" + ",\n".join(tables) + "\n}\n"


def encode(tensor: Tensor) -> dict[str, AnyValue]:
    """Encodes a constant as JSON. A uniform tensor is encoded as a splat."""
    form: dict[str, AnyValue] = {"dtype": tensor.dtype, "shape": list(tensor.shape)}
    one = tensor.uniform() if tensor.size > 1 else None
    if tensor.dtype == "string":
        form["strings"] = [_string(element) for element in tensor.numpy().reshape(-1)] if one is None else _string(one)
    elif one is not None:
        form["splat"] = _base64(np.asarray(one, to_numpy(tensor.dtype)))
    else:
        form["data"] = _base64(tensor.numpy())
    return form


def decode(form: Mapping[str, AnyValue]) -> Tensor:
    """Decodes the output of `encode`. Raises ValueError for an invalid encoding."""
    try:
        dtype, shape = form["dtype"], tuple(map(int, form["shape"]))
        if dtype == "string":
            return _strings(form["strings"], shape)
        data = np.frombuffer(base64.b64decode(form["splat" if "splat" in form else "data"], validate=True), to_numpy(dtype))
        return Tensor.splat(data.reshape(()), shape, dtype) if "splat" in form else Tensor.dense(data.reshape(shape))
    except (KeyError, TypeError, binascii.Error, ValueError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


class MetadataReader:
    """Parses the metadata section after a text. Raises ParseError if it is not valid JSON of that form."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._tables: dict[str, AnyValue] = {}
        self._known: dict[str, Tensor] = {}
        if "metadata" in tokens.kinds[-2:]:
            try:
                self._tables = decode_json(tokens.rest)
            except ValueError as error:
                why = f"{error.msg} in its line {error.lineno}" if isinstance(error, json.JSONDecodeError) else f"{error}"
                reason = f"the metadata section is not valid JSON: {why}"
                raise tokens.error_at(tokens.starts[-1], reason) from None
            if isinstance(self._tables, dict) and "nodes" in self._tables:
                self._read_graph()

    def _read_graph(self) -> None:
        """Reads the constants of a section written by TVM, which is a graph of nodes."""
        from passat.ir.graph_json import JSONError, load_json

        tokens = self._tokens
        try:
            found = load_json(tokens.rest)
            if not isinstance(found, dict):
                raise JSONError("its root is not a map")
            self.refer_to({kind: values for kind, values in found.items() if kind == CONSTANT})
        except (JSONError, TypeError) as error:
            raise tokens.error_at(tokens.starts[-1], f"the metadata section cannot be read: {error}") from None

    def refer_to(self, table: Mapping[str, Sequence[Expr]]) -> None:
        """Replaces the section by a table of constants, by kind and index. Raises TypeError for values that are not constants."""
        for kind, values in table.items():
            for number, value in enumerate(values):
                if not isinstance(value, Constant):
                    raise TypeError(f"meta[{kind}][{number}] must be a constant, not a {type(value).__name__}")
                self._known[f"meta[{kind}][{number}]"] = value.data

    def constant(self, reference: str) -> Tensor:
        """Resolves a reference to a constant. Raises ParseError at the next token for an invalid reference."""
        found = self._known.get(reference)
        if found is not None:
            return found
        tokens = self._tokens
        if not self._tables:
            raise tokens.error(f"{reference} refers to the metadata section, but the text has none")
        kind, _, number = reference.removeprefix("meta[").removesuffix("]").partition("][")
        if kind != CONSTANT:
            raise tokens.error(f"{reference} is not a constant; other objects cannot be read back")
        try:
            form = self._tables[kind][int(number)]
        except (LookupError, TypeError, ValueError):
            raise tokens.error(f"{reference} is not in the metadata section") from None
        try:
            found = self._known[reference] = decode(form)
        except ValueError as error:
            raise tokens.error(f"{reference} cannot be read: {error}") from None
        return found


def _base64(array: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def _strings(form: AnyValue, shape: tuple[int, ...]) -> Tensor:
    if not isinstance(form, list):
        return Tensor.splat(_element(form), shape, "string")
    elements = np.empty(len(form), np.object_)
    elements[:] = [_element(text) for text in form]
    return Tensor.dense(elements.reshape(shape))


def _element(form: AnyValue) -> str | bytes:
    return form if isinstance(form, str) else base64.b64decode(form["base64"], validate=True)


def _string(element: AnyValue) -> AnyValue:
    return {"base64": base64.b64encode(element).decode()} if isinstance(element, bytes) else str(element)

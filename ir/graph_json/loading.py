"""Reads programs from TVM's JSON. Nothing in a text is executed: each type key selects one of the kinds of nodes in `nodes`."""

import base64
import binascii
import functools
from collections.abc import Callable, Mapping
from typing import Any as AnyValue
from typing import Final, cast

from passat.ir.attrs import Attrs
from passat.ir.bounded_read import decode_json
from passat.ir.counting import counted
from passat.ir.dim_text import parse_dim
from passat.ir.graph_json.arrays import decode_array
from passat.ir.graph_json.nodes import IGNORED, MAKERS, JSONError, bare, make
from passat.ir.op import get_op
from passat.ir.shape import ANY, Any, SymDim, divide, extreme
from passat.ir.source import SourceName
from passat.ir.tensor import Tensor
from passat.ir.types import EnvFunc
from passat.ir.virtual_devices import CLASSES, NOT_SUPPORTED

_LARGEST: Final = 1 << 63
_NUMBERS: Final = frozenset(("index", "complete", "tag", "kind", "num_inputs", "line", "end_line", "column", "end_column"))
"""Fields that are numbers."""
_TEXTS: Final = frozenset(("dtype",))
"""Fields that are strings. Other fields are indices of nodes; in earlier versions, names were strings too."""
_NAMES: Final = frozenset(("name_hint", "name"))
_ARRAYS: Final = frozenset(("Constant", "Tensor"))
"""Nodes whose `data` is the index of an array."""


def load_json(json_str: str) -> AnyValue:
    """Reads JSON that `save_json`, or TVM's function of this name, wrote.

    Supports TVM 0.6 and later. Raises JSONError for text in a different form, and for nodes that Passat does not have: those of TIR, and
    attributes of classes other than `DictAttrs`.

    >>> from passat.ir.graph_json import save_json
    >>> from passat.ir.types import TensorType
    >>> load_json(save_json(TensorType((2, 3), "int8")))
    Tensor[(2, 3), int8]
    """
    try:
        graph = decode_json(json_str)
    except (ValueError, TypeError, AttributeError) as error:
        raise JSONError(f"the text is not JSON: {error}") from None
    return _Loader(graph).load()


class _Loader:
    def __init__(self, graph: AnyValue) -> None:
        try:
            self._root = graph["root"]
            self._nodes: list[AnyValue] = graph["nodes"]
            self._arrays: list[AnyValue] = graph.get("b64ndarrays", [])
        except (TypeError, KeyError, AttributeError):
            raise JSONError("the text is not a graph of TVM: it has no 'root' and 'nodes'") from None
        if not isinstance(self._nodes, list) or not isinstance(self._arrays, list):
            raise JSONError("'nodes' and 'b64ndarrays' of a graph must be lists")
        self._done: dict[int, AnyValue] = {0: None}
        self._decoded: dict[int, Tensor] = {}

    def load(self) -> AnyValue:
        """Returns the root. Iterative: creates a node after the nodes that it refers to."""
        root = self._index(self._root, "'root'")
        stack = [(root, False)]
        begun: set[int] = set()
        while stack:
            at, ready = stack.pop()
            if at in self._done:
                continue
            if ready:
                try:
                    self._done[at] = self._make(at)
                except JSONError as error:
                    raise JSONError(f"node {at}: {error}") from error
                begun.discard(at)
            elif at in begun:
                raise JSONError(f"node {at} refers to itself through other nodes")
            else:
                begun.add(at)
                stack.append((at, True))
                # The last reference is followed first. A node that is reached twice before it is begun is on the stack twice.
                stack.extend((part, False) for part in self._references(at) if part not in self._done)
        return self._done[root]

    def _index(self, found: AnyValue, where: str) -> int:
        try:
            index = int(found)
        except (TypeError, ValueError):
            index = -1
        if not 0 <= index < len(self._nodes):
            raise JSONError(
                f"{where} refers to the node {str(found)[:30]!r}, which does not exist among {counted(len(self._nodes), 'node')}"
            )
        return index

    def _node(self, at: int) -> tuple[str, dict[str, str]]:
        node = self._nodes[at]
        type_key, fields = (node.get("type_key"), node.get("attrs", {})) if isinstance(node, dict) else (None, None)
        if not isinstance(type_key, str) or not isinstance(fields, dict) or not all(isinstance(value, str) for value in fields.values()):
            raise JSONError(f"node {at} must be an object with a 'type_key' and 'attrs' that are strings")
        return type_key, fields

    def _data(self, at: int) -> list[int]:
        data = self._nodes[at].get("data", [])
        if not isinstance(data, list):
            raise JSONError(f"the 'data' of node {at} must be a list")
        return [self._index(part, f"node {at}") for part in data]

    def _references(self, at: int) -> list[int]:
        """The nodes that a node refers to."""
        type_key, fields = self._node(at)
        kind = bare(type_key)
        if kind in _CONTAINERS:
            return self._data(at)
        if kind in CLASSES:
            raise JSONError(f"node {at} is a {kind}; {NOT_SUPPORTED}")
        if kind not in MAKERS and kind not in _SPECIAL:
            raise JSONError(f"node {at} is a {type_key!r:.80}, which Passat does not have")
        if kind in _IMMEDIATES:
            return []
        found = []
        for name, value in fields.items():
            if value == "0":  # the null node
                continue
            is_node = name not in _NUMBERS and name not in _TEXTS and name not in IGNORED and not (kind in _ARRAYS and name == "data")
            if is_node and not (name in _NAMES and self._text_of_name(value) is not None):
                found.append(self._index(value, f"the field {name!r} of node {at}"))
        return found

    def _text_of_name(self, value: str) -> str | None:
        """The string of a name that is stored inline, as in versions before 0.7; None if it is the index of a node."""
        if value.isdecimal() and len(value) < 10 and int(value) < len(self._nodes):
            node = self._nodes[int(value)]
            if isinstance(node, dict) and str(node.get("type_key")).endswith("String"):
                return None
        return value

    def _make(self, at: int) -> AnyValue:
        type_key, fields = self._node(at)
        kind = bare(type_key)
        special = _SPECIAL.get(kind)
        if special is not None:
            return special(self, at, fields if kind in _IMMEDIATES or kind in _CONTAINERS else self._values(at, kind, fields))
        return make(type_key, self._values(at, kind, fields))

    def _values(self, at: int, kind: str, fields: Mapping[str, str]) -> dict[str, AnyValue]:
        """The fields of a node, with the nodes that they refer to."""
        values: dict[str, AnyValue] = {}
        for name, value in fields.items():
            if name in IGNORED:
                continue
            if name in _NUMBERS:
                values[name] = _integer(value)
            elif name in _TEXTS:
                values[name] = value
            elif kind in _ARRAYS and name == "data":
                values[name] = self._array(value)
            else:
                text = self._text_of_name(value) if name in _NAMES else None
                values[name] = self._done[self._index(value, name)] if text is None else text
        return values

    def _array(self, number: str) -> Tensor:
        try:
            at = int(number)
            if at not in self._decoded:
                if at < 0:
                    raise IndexError(at)
                self._decoded[at] = decode_array(self._arrays[at])
        except (IndexError, TypeError, ValueError) as error:
            raise JSONError(f"the array {number[:30]} cannot be read: {error}") from error
        return self._decoded[at]

    def array(self, at: int, fields: Mapping[str, AnyValue]) -> tuple[AnyValue, ...]:
        """An Array."""
        return tuple(self._done[part] for part in self._data(at))

    def map(self, at: int, fields: Mapping[str, AnyValue]) -> dict[AnyValue, AnyValue]:
        """A Map, with keys that are strings or nodes."""
        values, keys = [self._done[part] for part in self._data(at)], self._nodes[at].get("keys")
        if keys is None and len(values) % 2 == 0:
            keys, values = values[::2], values[1::2]
        if not isinstance(keys, list) or len(keys) != len(values):
            raise JSONError("a map must have as many keys as values")
        try:
            return dict(zip(keys, values, strict=True))
        except TypeError as error:
            raise JSONError(f"a value cannot be the key of a map: {error}") from None

    def text(self, at: int, fields: Mapping[str, AnyValue]) -> str:
        """The string of a String, Op, or other node that is a string."""
        node = self._nodes[at]
        found = node.get("repr_str", node.get("global_key", ""))
        if "repr_b64" in node:
            found = self.bytes({"repr_str": node["repr_b64"]}).decode(errors="replace")
        if not isinstance(found, str):
            raise JSONError("its 'repr_str' must be a string")
        return found

    def bytes(self, node: Mapping[str, AnyValue]) -> bytes:
        """Decodes a base64 string."""
        try:
            return base64.b64decode(node.get("repr_str", ""), validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise JSONError(f"it is not base64: {error}") from None

    def node(self, at: int) -> Mapping[str, AnyValue]:
        """The JSON of a node."""
        return cast("Mapping[str, AnyValue]", self._nodes[at])


def _integer(text: AnyValue) -> int:
    try:
        number = int(text)
    except (TypeError, ValueError):
        raise JSONError(f"{str(text)[:30]!r} is not an integer") from None
    if not -_LARGEST <= number < _LARGEST:
        raise JSONError(f"the number {text[:30]} is out of range")
    return number


def _int_imm(loader: _Loader, at: int, fields: Mapping[str, AnyValue]) -> int | bool:
    number = _integer(fields.get("value"))
    return bool(number) if fields.get("dtype") == "bool" else number


def _float_imm(loader: _Loader, at: int, fields: Mapping[str, AnyValue]) -> float:
    try:
        return float(fields.get("value", ""))
    except (TypeError, ValueError):
        raise JSONError(f"{str(fields.get('value'))[:30]!r} is not a number") from None


def _operator(loader: _Loader, at: int, fields: Mapping[str, AnyValue]) -> AnyValue:
    try:
        return get_op(loader.text(at, fields))
    except KeyError as error:
        raise JSONError(str(error.args[0])) from None


def _attrs(loader: _Loader, at: int, fields: Mapping[str, AnyValue]) -> Attrs:
    found = fields.get("__dict__", {}) or {}
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise JSONError("the attributes of DictAttrs must be a map with string keys")
    return Attrs(found)


def _dim(loader: _Loader, at: int, fields: Mapping[str, AnyValue]) -> AnyValue:
    name = fields.get("name", fields.get("name_hint"))
    if not isinstance(name, str):
        raise JSONError("a variable must have a name")
    return parse_dim(name)


def _arithmetic(compute: Callable[[AnyValue, AnyValue], AnyValue]) -> "_Special":
    def made(loader: _Loader, at: int, fields: Mapping[str, AnyValue]) -> AnyValue:
        a, b = fields.get("a"), fields.get("b")
        if not all(isinstance(part, (int, SymDim, Any)) for part in (a, b)):
            raise JSONError("the operands of arithmetic must be dimensions")
        return compute(a, b)

    return made


_Special = Callable[[_Loader, int, Mapping[str, AnyValue]], AnyValue]
_CONTAINERS: Final = frozenset(("Array", "Map", "StrMap"))
_IMMEDIATES: Final = frozenset(("IntImm", "FloatImm"))
_SPECIAL: Final[dict[str, _Special]] = {
    "Array": _Loader.array,
    "Map": _Loader.map,
    "StrMap": _Loader.map,
    "String": _Loader.text,
    "Bytes": lambda loader, at, fields: loader.bytes(loader.node(at)),
    "IntImm": _int_imm,
    "FloatImm": _float_imm,
    "Op": _operator,
    "SourceName": lambda loader, at, fields: SourceName(loader.text(at, fields)),
    "EnvFunc": lambda loader, at, fields: EnvFunc(loader.text(at, fields)),
    "DictAttrs": _attrs,
    "Variable": _dim,
    "SizeVar": _dim,
    "Any": lambda loader, at, fields: ANY,
    "Add": _arithmetic(lambda a, b: a + b),
    "Sub": _arithmetic(lambda a, b: a - b),
    "Mul": _arithmetic(lambda a, b: a * b),
    "FloorDiv": _arithmetic(divide),
    "FloorMod": _arithmetic(lambda a, b: a - divide(a, b) * b),
    "Min": _arithmetic(functools.partial(extreme, "min")),
    "Max": _arithmetic(functools.partial(extreme, "max")),
}
"""Functions that make the nodes that are not in `MAKERS`, by type key without prefix."""

"""A module as a graph to be drawn: the nodes that compute something, with their operands, names and types.

Texts of a model are shown so that they do nothing to the page: everything in them is somebody else's, of any length, with any characters.
"""

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any as AnyValue
from typing import Final, NamedTuple

from passat.ir.expr import Call, Constant, Expr, Function, GlobalVar, Let, Tuple, TupleGetItem, Var
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.tensor import Tensor
from passat.ir.traverse import children, post_order
from passat.ir.types import TensorType, TupleType, Type

LONGEST: Final = 400
"""Characters of a text beyond this number are left out."""
_PARTS: Final = 60
"""Elements of a tuple beyond this number are left out."""
_VALUES: Final = 4
"""Constants of at most so many elements are shown by value."""


def shown(text: str, limit: int = LONGEST) -> str:
    r"""A text that is not too long and does nothing to what stands around it: what cannot be seen is shown as an escape, so that no
    name turns the direction of writing, and no two names look alike that are not.

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
    """Attributes as `name=value`, each of them not too long.

    >>> attrs_text({"axes": (1, 0), "mode": "edge"})
    "axes=(1, 0), mode='edge'"
    """
    return shown(", ".join(f"{shown(name, 60)}={shown(_value(value), 160)}" for name, value in attrs.items()))


def constant_text(tensor: Tensor) -> str:
    """A constant: its type, and its value where that is short.

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
    r"""JSON that may stand inside a `<script>` element: in ASCII, and without what HTML or old JavaScript would take for an end.

    >>> script_json({"name": "</script>\u2028"})
    '{"name":"\\u003c/script\\u003e\\u2028"}'
    """
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


class Strings:
    """Texts by number, each once."""

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


INPUT: Final = "input"
OUTPUT: Final = "output"
CALL: Final = "call"
OTHER: Final = "other"
MOST: Final = 25_000
"""A page draws at most so many nodes of a program."""


@dataclass(slots=True)
class Node:
    """A box of the drawing. `operands` are numbers of other nodes, or texts of constants, which have no box of their own. `key` is equal
    for nodes of two programs that are the same step of the computation."""

    expr: Expr | None
    kind: str
    label: str
    attrs: str = ""
    type: str = ""
    name: str = ""
    outputs: tuple[str, ...] = ()
    function: str = ""
    operands: list[int | str] = field(default_factory=list)
    key: object = None


@dataclass(slots=True)
class Program:
    """Nodes, operands before those that use them; how many there would be if none had been left out."""

    nodes: list[Node]
    total: int

    @property
    def calls(self) -> list[Node]:
        """The nodes that compute something."""
        return [node for node in self.nodes if node.kind == CALL]


def program_of(module: IRModule, most: int = MOST) -> Program:
    """The drawing of a module, function by function. Of more than `most` nodes the last ones are left out."""
    reader = _Reader(most)
    for var, function in module.functions.items():
        if isinstance(function, Function):
            reader.read(var.name_hint, function)
    return Program(reader.nodes, reader.total)


class Twins(NamedTuple):
    """For the nodes of two programs the counterparts in the other, -1 where there is none: `same` are the same steps, in `near` stand also
    those that compute the same value of the ONNX model in another way."""

    same: tuple[list[int], list[int]]
    near: tuple[list[int], list[int]]


def twins(before: Program, after: Program) -> Twins:
    """The counterparts in two programs."""
    same = [-1] * len(before.nodes), [-1] * len(after.nodes)
    _pair(before, after, same, lambda node: node.key)
    near = list(same[0]), list(same[1])
    _pair(before, after, near, lambda node: node.outputs or None)
    return Twins(same, near)


def _pair(before: Program, after: Program, found: tuple[list[int], list[int]], key_of: Callable[[Node], object]) -> None:
    """Pairs nodes of equal keys that have no counterpart yet, in order."""
    waiting: dict[object, deque[int]] = {}
    for number, node in enumerate(before.nodes):
        if found[0][number] < 0 and key_of(node) is not None:
            waiting.setdefault(key_of(node), deque()).append(number)
    for number, node in enumerate(after.nodes):
        others = waiting.get(key_of(node)) if found[1][number] < 0 else None
        if others:
            other = others.popleft()
            found[0][other], found[1][number] = number, other


class _Reader:
    def __init__(self, most: int) -> None:
        self.nodes: list[Node] = []
        self.total = 0
        self._most = most
        self._function = ""
        self._places: dict[int, int | str] = {}
        self._keys: dict[object, int] = {}
        self._key_of: dict[int, int] = {}

    def read(self, name: str, function: Function) -> None:
        self._function = shown(name, 120)
        for expr in post_order(function.body, *function.params, parts_of=_parts):
            if id(expr) in self._places:
                continue
            if isinstance(expr, Constant):
                self._places[id(expr)] = constant_text(expr.data)
                self._key_of[id(expr)] = self._key("constant", expr.span, expr._checked_type)
            else:
                self._add(expr)
        whole = Node(None, OUTPUT, "output" if name == "main" else f"output of {self._function}", function=self._function)
        body = function.body
        fields = body.fields if isinstance(body, Tuple) else (body,)
        whole.operands = [self._place(part) for part in fields]
        whole.type = type_text(body._checked_type)
        whole.key = (OUTPUT, name)
        self._keep(whole)

    def _add(self, expr: Expr) -> None:
        span = expr.span
        node = Node(expr, OTHER, type(expr).__name__, function=self._function, type=type_text(expr._checked_type))
        if isinstance(expr, Call) and isinstance(expr.op, Op):
            node.kind, node.label, node.attrs = CALL, shown(expr.op.name, 80), attrs_text(expr.attrs)
        elif isinstance(expr, (Var, GlobalVar)):
            node.kind = INPUT if isinstance(expr, Var) else OTHER
            node.label = shown(expr.name_hint, 80)
            node.name = shown(expr.name_hint)
        elif isinstance(expr, TupleGetItem):
            node.label = f".{expr.index}"
        elif isinstance(expr, Tuple):
            node.label = "tuple" if expr.fields else "absent"
        if span is not None:
            node.name = shown(span.source_name) or node.name
            node.outputs = tuple(shown(output) for output in span.outputs[:8])
        parts = _parts(expr)
        node.operands = [self._place(part) for part in parts]
        named = span if span is not None and (span.source_name or span.outputs) else None
        node.key = (node.kind, node.label, node.attrs, named or tuple(self._key_of.get(id(part), -1) for part in parts))
        self._key_of[id(expr)] = self._key(node.key)
        self._places[id(expr)] = self._keep(node)

    def _keep(self, node: Node) -> int | str:
        self.total += 1
        if len(self.nodes) >= self._most:
            return f"{node.label} (left out)"
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _place(self, expr: Expr) -> int | str:
        return self._places.get(id(expr), "itself")

    def _key(self, *content: object) -> int:
        return self._keys.setdefault(content, len(self._keys))


def _parts(expr: Expr) -> Sequence[Expr]:
    """What stands below a node in the drawing: operators and the names of lets have no boxes of their own."""
    if isinstance(expr, Call) and isinstance(expr.op, Op):
        return expr.args
    if isinstance(expr, Let):
        return (expr.value, expr.var, expr.body)
    return children(expr)

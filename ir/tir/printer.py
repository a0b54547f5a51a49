"""Prints the loop IR as text, which `passat.ir.tir.parser` reads back.

A variable or buffer is followed by its type where it occurs first: `(x: int32 + x)`. Its name gets a number if another one has it already.
Numbers without a suffix are int32; `2i64`, `1f32` and `3u8` name their type. `{}` encloses a block. Statements such as `let` and `allocate`
apply to the rest of their block. `seq {}` is a sequence that is not the content of a block.
"""

import json
import math
import re
from collections.abc import Callable, Iterable
from typing import Any as AnyValue
from typing import Final

from passat.ir.naming import Names
from passat.ir.tir.arithmetic import NEG_INF, POS_INF, Not
from passat.ir.tir.buffer import Buffer
from passat.ir.tir.expr import BinaryOp, Broadcast, Call, Cast, FloatImm, IntImm, PrimExpr, SizeVar, StringImm, Var
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.node import Node
from passat.ir.tir.ranges import CommReducer, IterVar, Range, Reduce
from passat.ir.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferRealize,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Prefetch,
    ProducerRealize,
    ProducerStore,
    SeqStmt,
    Stmt,
    Store,
    While,
)
from passat.ir.tir.values import BufferLoad, Let, Load, ProducerLoad, Ramp, Select, Shuffle

KEYWORDS: Final = frozenset(
    (
        *(
            "bfloat16",
            "float16",
            "float32",
            "float64",
            "Buffer",
            "False",
            "IterVar",
            "Pointer",
            "True",
            "allocate",
            "assert",
            "attr",
            "broadcast",
            "buffers",
            "cast",
            "else",
            "evaluate",
        ),
        *("floordiv", "floormod", "for", "if", "in", "let", "max", "min", "null", "prefetch", "primfn", "ramp", "range", "realize"),
        *("select", "seq", "shuffle", "size", "where", "while", "with"),
    )
)
"""The words of the text that are not names of variables."""
SUFFIXES: Final = {"int": "i", "uint": "u", "float": "f", "bfloat": "bf"}
"""The letters that name the kind of a number."""
_LINE, _INDENT, _DEDENT = "\n", "\n>", "\n<"
_SCOPED: Final = (LetStmt, AttrStmt, AssertStmt, Allocate, BufferRealize, ProducerRealize)
_INFIX: Final = {"+": " + ", "-": " - ", "*": "*", "/": " / ", "%": " % "}


class _Block:
    """A statement as the content of a block, or as the end of one."""

    def __init__(self, stmt: Stmt) -> None:
        self.stmt = stmt


def show(node: Node | PrimFunc) -> str:
    """Prints a function, statement or expression.

    >>> from passat.ir.tir.expr import Var
    >>> x = Var("x")
    >>> print(show(x * 2 + x))
    ((x: int32*2) + x)
    """
    return _Printer().text(_Block(node) if isinstance(node, Stmt) else node)


class _Printer:
    """Prints with an explicit stack. Pieces are text, nodes, and lists of pieces."""

    def __init__(self) -> None:
        self._names: dict[Node, str] = {}
        self._taken = Names(KEYWORDS)

    def text(self, root: AnyValue) -> str:
        """The text of a piece."""
        out: list[str] = []
        indent = 0
        stack = [root]
        while stack:
            piece = stack.pop()
            if isinstance(piece, list):
                stack.extend(reversed(piece))
            elif not isinstance(piece, str):
                stack.append(self._pieces(piece))
            elif piece in (_LINE, _INDENT, _DEDENT):
                indent += (piece == _INDENT) - (piece == _DEDENT)
                out.append("\n" + "  " * indent)
            else:
                out.append(piece)
        return "".join(out)

    def _pieces(self, node: AnyValue) -> list[AnyValue]:
        """The pieces of a node."""
        if isinstance(node, _Block):
            return _lines(node.stmt)
        if isinstance(node, Var):
            size = "size " if isinstance(node, SizeVar) else ""
            return [self._named(node, [size, str(node.type_annotation)])]
        if isinstance(node, Buffer):
            return [self._named(node, _buffer(node))]
        form = _FORMS.get(type(node))
        if form is None:
            form = _binary if isinstance(node, BinaryOp) else str if not isinstance(node, Node) else _unknown
        found = form(node)
        return found if isinstance(found, list) else [found]

    def _named(self, node: Var | Buffer, declaration: list[AnyValue]) -> list[AnyValue]:
        """The name of a variable or buffer, with its declaration where it occurs first."""
        known = self._names.get(node)
        if known is not None:
            return [known]
        base = re.sub(r"[^\w.]", "_", node.name, flags=re.ASCII)
        name = self._names[node] = self._taken.take(base if re.match(r"[A-Za-z_]", base) else f"_{base}")
        return [name, ": ", declaration]


def _separated(items: Iterable[AnyValue], separator: str = ", ") -> list[AnyValue]:
    pieces: list[AnyValue] = []
    for item in items:
        pieces += [separator, item] if pieces else [item]
    return pieces


def _list(items: Iterable[AnyValue]) -> list[AnyValue]:
    return ["[", _separated(items), "]"]


def _call(name: str, *args: AnyValue) -> list[AnyValue]:
    return [name, "(", _separated(args), ")"]


def _braced(content: AnyValue) -> list[AnyValue]:
    return ["{", _INDENT, content, _DEDENT, "}"]


def _lines(stmt: Stmt) -> list[AnyValue]:
    """The lines of a statement that is the content of a block, or its end."""
    if isinstance(stmt, SeqStmt) and len(stmt) > 1:
        return _sequence(stmt)
    return [_sequenced(stmt)] if isinstance(stmt, SeqStmt) else [stmt]


def _sequence(stmt: SeqStmt) -> list[AnyValue]:
    """The lines of the statements of a sequence."""
    parts: list[AnyValue] = [_sequenced(part) if isinstance(part, SeqStmt) else part for part in stmt]
    for place, part in enumerate(parts[:-1]):
        if isinstance(part, _SCOPED):
            parts[place] = _braced(part)
    return _separated(parts, _LINE)


def _sequenced(stmt: SeqStmt) -> list[AnyValue]:
    return ["seq ", _braced(_sequence(stmt)) if len(stmt) else "{}"]


def _function(function: PrimFunc) -> list[AnyValue]:
    pieces: list[AnyValue] = ["primfn(", _separated(function.params), ")"]
    if function.buffer_map:
        pairs = ([param, " -> ", buffer] for param, buffer in function.buffer_map.items())
        pieces += [_LINE, "  buffers ", _separated(pairs)]
    if function.attrs:
        pieces += [_LINE, "  with ", show_literal(dict(function.attrs))]
    return [*pieces, _LINE if len(pieces) > 3 else " ", _braced(_Block(function.body))]


def show_literal(value: AnyValue) -> str:
    """Prints the value of an attribute: numbers, strings, lists and maps as JSON has them."""
    return json.dumps(value, default=lambda part: int(part) if isinstance(part, IntImm) else str(part))


def _buffer(buffer: Buffer) -> list[AnyValue]:
    pieces: list[AnyValue] = ["Buffer(", buffer.data, f", {buffer.dtype}, ", _list(buffer.shape)]
    pieces += [", ", _list(buffer.strides)] if buffer.strides else []
    size_type = buffer.shape[0].dtype if buffer.shape else "int32"
    if not (isinstance(buffer.elem_offset, IntImm) and buffer.elem_offset.value == 0 and buffer.elem_offset.dtype == size_type):
        pieces += [", offset=", buffer.elem_offset]
    pieces += [f", align={buffer.data_alignment}"] if buffer.data_alignment != 128 else []
    pieces += [f", factor={buffer.offset_factor}"] if buffer.offset_factor != 1 else []
    pieces += [f", type={json.dumps(buffer.buffer_type)}"] if buffer.buffer_type else []
    return [*pieces, ")"]


def _integer(node: IntImm) -> str:
    if node.dtype == "bool":
        return str(bool(node.value))
    return str(node.value) if node.dtype == "int32" else f"{node.value}{SUFFIXES[node.type.kind]}{node.type.bits}"


def _float(node: FloatImm) -> str:
    return f"{node.value!r}{SUFFIXES[node.type.kind]}{node.type.bits}" if math.isfinite(node.value) else f"{node.dtype}({node.value!r})"


def _binary(node: BinaryOp) -> list[AnyValue]:
    if node.SYMBOL.isalpha():
        return _call(node.SYMBOL, node.a, node.b)
    return ["(", node.a, _INFIX.get(node.SYMBOL, f" {node.SYMBOL} "), node.b, ")"]


def _called(node: Call) -> list[AnyValue]:
    if node is POS_INF or node is NEG_INF:
        return ["pos_inf" if node is POS_INF else "neg_inf"]
    return _call(f"@{node.op.name}", *node.args, f"dtype={node.dtype}")


def _where(predicate: PrimExpr) -> list[AnyValue]:
    value = predicate
    while isinstance(value, Broadcast):
        value = value.value
    return [] if isinstance(value, IntImm) and value.dtype == "bool" and value.value else [" where ", predicate]


def _for(node: For) -> list[AnyValue]:
    pieces: list[AnyValue] = [_call("for ", node.loop_var, node.min, node.extent)]
    pieces += [f' "{node.kind.name.lower()}"'] if node.kind != ForKind.SERIAL else []
    pieces += [" in ", node.thread_binding] if node.thread_binding is not None else []
    pieces += [f" with {show_literal(node.annotations)}"] if node.annotations else []
    return [*pieces, " ", _braced(_Block(node.body))]


def _allocate(node: Allocate) -> list[AnyValue]:
    pieces: list[AnyValue] = [_call("allocate", node.buffer_var, node.dtype, _list(node.extents)), _where(node.condition)]
    pieces += [f" with {show_literal(node.annotations)}"] if node.annotations else []
    return [*pieces, _LINE, _Block(node.body)]


def _if(node: IfThenElse) -> list[AnyValue]:
    closing = [] if node.else_case is None else [" else ", _braced(_Block(node.else_case))]
    return ["if (", node.condition, ") ", _braced(_Block(node.then_case)), *closing]


def _attr(node: AttrStmt) -> list[AnyValue]:
    value = "null" if node.node is None else node.node if isinstance(node.node, Node) else node.node.name
    return ["attr [", value, f"] {json.dumps(node.attr_key)} = ", node.value, _LINE, _Block(node.body)]


def _iter_var(node: IterVar) -> list[AnyValue]:
    return _call("IterVar", node.var, "null" if node.dom is None else node.dom, str(node.iter_type), json.dumps(node.thread_tag))


def _reduce(node: Reduce) -> list[AnyValue]:
    parts = ["source=", _list(node.source), "init=", _list(node.init), "axis=", _list(node.axis), "where=", node.condition]
    named = [parts[i : i + 2] for i in range(0, len(parts), 2)]
    return _call("reduce", "None" if node.combiner is None else node.combiner, *named, f"value_index={node.value_index}")


def _reducer(node: CommReducer) -> list[AnyValue]:
    named = [[f"{name}=", _list(getattr(node, name))] for name in ("lhs", "rhs", "result", "identity_element")]
    return _call("comm_reducer", *named)


def _producer_name(node: ProducerLoad | ProducerStore | ProducerRealize) -> str:
    return str(getattr(node.producer, "name", node.producer))


def _unknown(node: Node) -> str:
    return f"<{type(node).__name__}>"


_FORMS: Final[dict[type, Callable[[AnyValue], AnyValue]]] = {
    PrimFunc: _function,
    IntImm: _integer,
    FloatImm: _float,
    StringImm: lambda node: json.dumps(node.value),
    Cast: lambda node: _call("cast", node.dtype, node.value),
    Broadcast: lambda node: _call("broadcast", node.value, str(node.lanes)),
    Call: _called,
    Not: lambda node: ["!", node.a],
    Select: lambda node: _call("select", node.condition, node.true_value, node.false_value),
    Let: lambda node: ["(let ", node.var, " = ", node.value, " in ", node.body, ")"],
    Ramp: lambda node: _call("ramp", node.base, node.stride, str(node.lanes)),
    Shuffle: lambda node: _call("shuffle", _list(node.vectors), _list(node.indices)),
    Load: lambda node: [f"({node.dtype}*)", node.buffer_var, "[", node.index, _where(node.predicate), "]"],
    BufferLoad: lambda node: [node.buffer, _list(node.indices)],
    ProducerLoad: lambda node: [_producer_name(node), _list(node.indices)],
    Reduce: _reduce,
    CommReducer: _reducer,
    Range: lambda node: ["range(min=", node.min, ", ext=", node.extent, ")"],
    IterVar: _iter_var,
    LetStmt: lambda node: ["let ", node.var, " = ", node.value, _LINE, _Block(node.body)],
    AttrStmt: _attr,
    AssertStmt: lambda node: [_call("assert", node.condition, node.message), _LINE, _Block(node.body)],
    For: _for,
    While: lambda node: ["while (", node.condition, ") ", _braced(_Block(node.body))],
    Store: lambda node: [node.buffer_var, "[", node.index, _where(node.predicate), "] = ", node.value],
    BufferStore: lambda node: [node.buffer, _list(node.indices), " = ", node.value],
    BufferRealize: lambda node: [_call("realize", node.buffer, _list(node.bounds)), _where(node.condition), _LINE, _Block(node.body)],
    ProducerStore: lambda node: [_producer_name(node), _list(node.indices), " = ", node.value],
    ProducerRealize: lambda node: [
        *(_call("realize", _producer_name(node), _list(node.bounds)), _where(node.condition)),
        *(_LINE, _Block(node.body)),
    ],
    Allocate: _allocate,
    IfThenElse: _if,
    Evaluate: lambda node: _call("evaluate", node.value),
    Prefetch: lambda node: _call("prefetch", node.buffer, _list(node.bounds)),
    SeqStmt: _sequenced,
}

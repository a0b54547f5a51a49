"""Programs as arrays: the nodes that an e-graph holds, seen from Python, with the facts that decisions are made on.

A node is a symbol, an integer payload (attributes, constant, leaf or field index) and operand nodes. Nodes are only ever added;
classes are a union-find over them that follows egglog. Each class has one type, and may have a constant value and known elements.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any as AnyValue
from typing import Final

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.evaluate import Value
from passat.ir.expr import Call, Constant, Expr, If, Match, Tuple, TupleGetItem
from passat.ir.infer import known_value
from passat.ir.op import FOLLOWED, KnownValue, Op, OpTypeError, get_op, is_followed
from passat.ir.ops.static_forms import HAVE_STATIC_FORM, static_form
from passat.ir.tensor import Tensor, look
from passat.ir.types import TensorType, TupleType, Type, refine
from passat.rules.engine.fold import Folder

CALL: Final = "call"
CONST: Final = "const"
LEAF: Final = "leaf"
TUPLE: Final = "tuple"
GET: Final = "get"
REGION: Final = "region"
"""A branch, a match, or a call of what is no operator: opaque but for the operands that it has in the dataflow around it."""
_SMALL: Final = 4096
"""Constants up to this many bytes are one node where their contents are equal; larger ones where they are one object,
or, with `compare_large`, where their contents are equal."""


class Symbol:
    """What a node applies: an operator at an arity, a tuple of so many fields, a projection, a constant, or a leaf. One object each,
    made by `symbol`; `name` is one that egglog takes."""

    __slots__ = ("arity", "has_payload", "kind", "name", "op")

    def __init__(self, kind: str, op: Op | None, arity: int) -> None:
        self.kind = kind
        self.op = op
        self.arity = arity
        text = op.name if op is not None else kind
        self.name = "s_" + "".join(c if c.isalnum() else f"_{ord(c):x}_" for c in text) + f"_{arity}"
        # Calls carry an integer where the operator has attributes, or where each call is its own.
        self.has_payload = kind in (CONST, LEAF, GET, REGION) or (op is not None and bool(op.attr_params or op.variadic or op.stateful))

    def __repr__(self) -> str:
        return self.name


def outer_parts(region: Expr) -> tuple[Expr, ...]:
    """The parts of a branch, a match or a call that belong to the dataflow around it."""
    if isinstance(region, If):
        return (region.cond,)
    if isinstance(region, Match):
        return (region.data,)
    assert isinstance(region, Call)
    return (region.op, *region.args)


_SYMBOLS: dict[tuple[str, Op | None, int], Symbol] = {}


def symbol(kind: str, op: Op | None, arity: int) -> Symbol:
    """The symbol of a kind, operator and arity."""
    found = _SYMBOLS.get((kind, op, arity))
    if found is None:
        found = _SYMBOLS[kind, op, arity] = Symbol(kind, op, arity)
    return found


CONST_SYMBOL: Final = symbol(CONST, None, 0)
LEAF_SYMBOL: Final = symbol(LEAF, None, 0)
GET_SYMBOL: Final = symbol(GET, None, 1)


class Graph:
    """A program loaded from an expression. `ids` maps every loaded expression (by identity) to its node."""

    def __init__(self, folder: Folder | None = None, *, compare_large: bool = False) -> None:
        self.symbols: list[Symbol] = []
        self.payloads: list[int] = []
        self.operands: list[tuple[int, ...]] = []
        self.types: list[Type] = []
        self.origins: list[Expr | None] = []
        self.classes: list[int] = []
        self.constants: dict[int, Value] = {}
        self.known: dict[int, KnownValue | None] = {}
        self.ids: dict[int, int] = {}
        self.attrs: list[Attrs] = [EMPTY_ATTRS]
        self.tensors: list[Tensor] = []
        self.leaves: list[Expr] = []
        self.stateful: list[Call] = []
        self.folder = folder
        self.folded = 0
        self.merged = 0
        self.projected = 0
        self.made_static = 0
        self.places: dict[int, Expr] = {}
        self._learnt: set[int] = set()
        self._attr_ids: dict[Attrs, int] = {EMPTY_ATTRS: 0}
        self._tensor_ids: dict[object, int] = {}
        self._large: dict[object, list[int]] | None = {} if compare_large else None
        self._nodes: dict[tuple[Symbol, int, tuple[int, ...]], int] = {}

    def __len__(self) -> int:
        return len(self.symbols)

    def anew(self) -> "Graph":
        """A graph of the same kind, without nodes."""
        return Graph(self.folder, compare_large=self._large is not None)

    # ---- loading

    def load(self, root: Expr) -> int:
        """Adds an expression whose types have been inferred and returns the node of the whole.

        Equal parts become one node, and the field of a tuple that was just made is that field. Where there is a folder, what it folds
        becomes a constant at once. Everything that is not dataflow (variables, functions) is a leaf, or a region around operands.
        """
        ids, nodes = self.ids, self._nodes
        known, seen, find_symbol = ids.get, nodes.get, _SYMBOLS.get
        plain = self.folder is None
        stack: list[Expr] = [root]
        while stack:
            expr = stack[-1]
            key = id(expr)
            if key in ids:
                stack.pop()
                continue
            kind = type(expr)
            parts: Sequence[Expr]
            load = self._load_node
            if kind is Call and isinstance(expr.op, Op):  # type: ignore[attr-defined]  # mypy does not follow `kind is Call`
                parts = expr.args  # type: ignore[attr-defined]
            elif kind is TupleGetItem:
                parts = (expr.tuple_value,)  # type: ignore[attr-defined]
            elif kind is Tuple:
                parts = expr.fields  # type: ignore[attr-defined]
            elif kind is Call or kind is If or kind is Match:
                parts = outer_parts(expr)
                load = self._load_region
            else:
                ids[key] = self._load_leaf(expr)
                stack.pop()
                continue
            operands = tuple([known(id(part), -1) for part in parts])
            if -1 in operands:
                stack += [part for part, node in zip(reversed(parts), reversed(operands), strict=True) if node < 0]
                continue
            stack.pop()
            if plain and kind is Call and expr.attrs is EMPTY_ATTRS:  # type: ignore[attr-defined]
                # What most nodes are, without the calls that the others take.
                head = find_symbol((CALL, expr.op, len(operands)))  # type: ignore[attr-defined]
                type_ = expr._checked_type
                if head is not None and type_ is not None and not head.op.stateful:  # type: ignore[union-attr]  # a call has an operator
                    node = seen((head, 0, operands), -1)
                    if node < 0:
                        node = self._new(head, 0, operands, type_, expr)
                    else:
                        self.merged += 1
                    ids[key] = node
                    continue
            ids[key] = load(expr, operands)
        return ids[id(root)]

    def _load_leaf(self, expr: Expr) -> int:
        if type(expr) is Constant:
            return self.add_constant(expr.data, expr)
        self.leaves.append(expr)
        return self._new(LEAF_SYMBOL, len(self.leaves) - 1, (), expr._checked_type or expr.checked_type, expr)

    def _load_region(self, expr: Expr, operands: tuple[int, ...]) -> int:
        self.leaves.append(expr)
        return self._new(symbol(REGION, None, len(operands)), len(self.leaves) - 1, operands, expr.checked_type, expr)

    def _load_node(self, expr: Expr, operands: tuple[int, ...]) -> int:
        head, payload = self._shape_of(expr, len(operands))
        if head is GET_SYMBOL and self.symbols[operands[0]].kind == TUPLE:
            self.projected += 1
            return self.operands[operands[0]][payload]
        node = self._nodes.get((head, payload, operands))
        if node is not None:
            self.merged += 1
            return node
        type_ = expr._checked_type or expr.checked_type
        folder = self.folder
        if folder is None:
            return self._new(head, payload, operands, type_, expr)
        learnt = not self._learnt.isdisjoint(operands)
        if learnt:
            with contextlib.suppress(OpTypeError):  # what was learnt contradicts the operator: the type stays as it was
                type_ = refine(type_, self.infer(head, payload, operands))
        value = None
        if not operands or operands[0] in self.constants:
            value = self._fold(head, payload, operands, type_)
        known: KnownValue | None = None
        if value is None and isinstance(type_, TensorType) and type_.dtype in FOLLOWED and is_followed(type_):
            known = self._known_from(head, payload, operands, type_) if learnt else known_value(expr)
            value = folder.from_known(known, type_)
        if isinstance(value, Tensor):
            self.folded += 1
            made = self.add_constant(value, Constant(value, expr.span))
        else:
            made = self._static_form(head, payload, operands, expr) if folder.static else -1
            if made < 0:
                made = self._new(head, payload, operands, type_, expr)
                if value is not None:
                    self.constants[made] = value
        if known is not None:
            self.known.setdefault(made, known)
        best = self.types[made]
        if learnt or made in self.constants or (best is not expr._checked_type and best != expr._checked_type):
            # Whoever uses this node may have a better type than inference gave it before.
            self._learnt.add(made)
        return made

    def _static_form(self, head: Symbol, payload: int, operands: tuple[int, ...], expr: Expr) -> int:
        """The node of the operator with attributes that does what a dynamic operator does here; -1 where too little is known."""
        if head.op is None or head.op.name not in HAVE_STATIC_FORM:
            return -1
        constants = [value if isinstance(value := self.constants.get(operand), Tensor) else None for operand in operands]
        types = [self.types[operand] for operand in operands]
        form = static_form(head.op.name, types, [self.known_of(operand) for operand in operands], self.attrs[payload], constants)
        if form is None:
            return -1
        op = get_op(form.op)
        kept = tuple(operands[i] for i in form.operands)
        made = self.make(symbol(CALL, op, len(kept)), self.attr_id(op.bind_attrs(form.attrs)), kept)
        self.made_static += 1
        self.places.setdefault(made, expr)
        return made

    def _shape_of(self, expr: Expr, arity: int) -> tuple[Symbol, int]:
        if type(expr) is Call:
            op: Op = expr.op  # type: ignore[assignment]  # only calls of operators are nodes
            call = _SYMBOLS.get((CALL, op, arity)) or symbol(CALL, op, arity)
            attrs = expr.attrs
            if op.stateful:
                # Each stateful call is itself: a payload of its own keeps congruence from merging it with an equal one.
                self.stateful.append(expr)
                self.attrs.append(attrs)
                return call, len(self.attrs) - 1
            return call, 0 if attrs is EMPTY_ATTRS else self.attr_id(attrs)
        if type(expr) is TupleGetItem:
            return GET_SYMBOL, expr.index
        return symbol(TUPLE, None, arity), 0

    # ---- nodes

    def attr_id(self, attrs: Attrs) -> int:
        """The payload that stands for attributes; equal attributes have one."""
        found = self._attr_ids.get(attrs)
        if found is None:
            found = self._attr_ids[attrs] = len(self.attrs)
            self.attrs.append(attrs)
        return found

    def add_constant(self, tensor: Tensor, origin: Constant | None = None) -> int:
        """The node of a constant."""
        key = self.tensor_key(tensor)
        handle = self._tensor_ids.get(key)
        if handle is None and type(key) is int and self._large is not None:
            # Not remembered by its identity: nobody keeps it, and another one may stand there next.
            handle = self._equal_large(tensor)
        if handle is None:
            handle = self._tensor_ids[key] = len(self.tensors)
            self.tensors.append(tensor)
        node = self._nodes.get((CONST_SYMBOL, handle, ()))
        if node is None:
            node = self._new(CONST_SYMBOL, handle, (), TensorType(tensor.shape, tensor.dtype), origin or Constant(tensor))
            self.constants[node] = tensor
        return node

    def ask(self, function: Callable[..., AnyValue], args: Sequence[AnyValue], *, decides: bool = False) -> AnyValue:
        """What a function says of the terms and values that it gets: a condition, which `decides`, or a computed attribute."""
        return function(*args)

    def tensor_key(self, tensor: Tensor) -> object:
        """What tells constants apart: the contents of small ones, else the object."""
        return tensor.key() if tensor.is_splat or self.is_small(tensor) else id(tensor)

    @staticmethod
    def is_small(tensor: Tensor) -> bool:
        """Whether a constant is one node with those of equal contents."""
        return tensor.nbytes <= _SMALL

    def _equal_large(self, tensor: Tensor) -> int | None:
        """The payload of an equal large constant met before. Only those of one shape and type that agree in a sample are hashed."""
        assert self._large is not None
        seen = self._large.setdefault((tensor.dtype, tensor.shape, look(tensor)), [])
        found = next((handle for handle in seen if self.tensors[handle] == tensor), None)
        if found is None:
            seen.append(len(self.tensors))
        return found

    def make(self, head: Symbol, payload: int, operands: tuple[int, ...]) -> int:
        """The node of a symbol on operand classes, typed, and folded where there is a folder. Raises OpTypeError where it has no type."""
        if head is GET_SYMBOL and self.symbols[operands[0]].kind == TUPLE and payload < len(self.operands[operands[0]]):
            return self.find(self.operands[operands[0]][payload])
        node = self._nodes.get((head, payload, operands))
        if node is not None:
            return node
        type_ = self.infer(head, payload, operands)
        value = self._fold(head, payload, operands, type_)
        if isinstance(value, Tensor):
            node = self._nodes[head, payload, operands] = self.add_constant(value)
            return node
        node = self._new(head, payload, operands, type_, None)
        if value is not None:
            self.constants[node] = value
        return node

    def _new(self, head: Symbol, payload: int, operands: tuple[int, ...], type_: Type, origin: Expr | None) -> int:
        node = len(self.symbols)
        self.symbols.append(head)
        self.payloads.append(payload)
        self.operands.append(operands)
        self.types.append(type_)
        self.origins.append(origin)
        self.classes.append(node)
        self._nodes[head, payload, operands] = node
        return node

    def edges(self, start: int = 0) -> set[tuple[Symbol, int, Symbol]]:
        """Which symbols stand where below which: (whole, place, part); of the nodes from `start` on."""
        symbols, operands = self.symbols, self.operands
        return {(symbols[node], i, symbols[part]) for node in range(start, len(symbols)) for i, part in enumerate(operands[node])}

    # ---- classes and facts

    def find(self, node: int) -> int:
        """The class of a node: the smallest node in it."""
        classes = self.classes
        while classes[node] != node:
            classes[node] = classes[classes[node]]
            node = classes[node]
        return node

    def unite(self, a: int, b: int) -> tuple[int, int] | None:
        """Makes two classes one, as egglog has; facts stay with the smaller. Returns (kept, gone), or None where they are one already."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return None
        kept, gone = (a, b) if a < b else (b, a)
        self.classes[gone] = kept
        if gone in self.constants and kept not in self.constants:
            self.constants[kept] = self.constants[gone]
        if self.known.get(gone) is not None and self.known.get(kept) is None:
            self.known[kept] = self.known[gone]
        return kept, gone

    def constant_of(self, node: int) -> Value | None:
        """The constant value of a node's class, where it has one."""
        return self.constants.get(self.find(node))

    def known_of(self, node: int) -> KnownValue | None:
        """What is known of the elements of a node's class (see `passat.ir.infer.known_value`)."""
        cls = self.find(node)
        if cls in self.known:
            return self.known[cls]
        if not isinstance(self.types[cls], TupleType) and not is_followed(self.types[cls]):
            return None
        found: KnownValue | None = None
        origin = self.origins[cls]
        if origin is not None and cls not in self._learnt:
            found = known_value(origin)
        else:
            constant = self.constants.get(cls)
            head = self.symbols[cls]
            if isinstance(constant, Tensor):
                found = known_value(Constant(constant))
            else:
                found = self._known_from(head, self.payloads[cls], self.operands[cls], self.types[cls])
        self.known[cls] = found
        return found

    def _known_from(self, head: Symbol, payload: int, operands: Sequence[int], type_: Type) -> KnownValue | None:
        if head.kind == CALL and head.op is not None and (head.op.known or head.op.shape_arith):
            types = [self.types[self.find(operand)] for operand in operands]
            return head.op.known_value(types, [self.known_of(operand) for operand in operands], self.attrs[payload], type_)
        if head.kind == TUPLE:
            fields = [self.known_of(operand) for operand in operands]
            if all(field is not None and not isinstance(field, tuple) for field in fields):
                return tuple(fields)  # type: ignore[arg-type]  # checked: arrays
        return None

    def infer(self, head: Symbol, payload: int, operands: Sequence[int]) -> Type:
        """The type of a symbol on operand classes. Raises OpTypeError."""
        types = [self.types[self.find(operand)] for operand in operands]
        if head.kind == TUPLE:
            return TupleType(types)
        if head.kind == GET:
            whole = types[0]
            if not isinstance(whole, TupleType) or payload >= len(whole.fields):
                raise OpTypeError(f"{whole!r} has no field {payload}")
            return whole.fields[payload]
        assert head.op is not None
        values = None
        if head.op.known_operands:
            values = [self.known_of(operand) if i in head.op.known_operands else None for i, operand in enumerate(operands)]
        return head.op.infer(types, self.attrs[payload], values)

    def fold(self, node: int) -> Value | None:
        """The value of a node whose operands are constants now, where there is a folder and it agrees."""
        return self._fold(self.symbols[node], self.payloads[node], self.operands[node], self.types[node])

    def _fold(self, head: Symbol, payload: int, operands: Sequence[int], type_: Type) -> Value | None:
        if self.folder is None or head.kind not in (CALL, TUPLE, GET):
            return None
        values: list[Value] = []
        constants = self.constants
        for operand in operands:
            value = constants.get(self.find(operand))
            if value is None:
                return None
            values.append(value)
        if head.kind == TUPLE:
            return tuple(values)
        if head.kind == GET:
            return values[0][payload] if isinstance(values[0], tuple) else None
        assert head.op is not None
        return self.folder.fold(head.op, values, self.attrs[payload], type_)

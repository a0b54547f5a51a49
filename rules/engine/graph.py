"""Programs as arrays: Python's view of the nodes of an e-graph, with the facts that guards need.

A node is a symbol, an integer payload (attributes, constant, leaf or field index) and operand nodes. Nodes are never removed; e-classes are
a union-find over them that mirrors egglog. Each e-class has one type, and may have a constant value and known elements, which loading needs
at every node. Any other fact belongs to an analysis (`passat.rules.analysis`) and is computed on demand.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple
from typing import Any as AnyValue

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.dtypes import FLOATS
from passat.ir.evaluate import Value
from passat.ir.expr import Call, Constant, Expr, If, Match, Tuple, TupleGetItem
from passat.ir.infer import known_value
from passat.ir.op import FOLLOWED, KnownValue, Op, OpTypeError, is_followed
from passat.ir.tensor import Tensor, look
from passat.ir.types import TensorType, TupleType, Type, refine
from passat.rules.analysis import OPAQUE, Analysis, ENode, Facts
from passat.rules.engine.deferred import evaluate
from passat.rules.engine.report import RuleStatistics
from passat.rules.engine.symbols import CALL, CONST_SYMBOL, GET, GET_SYMBOL, LEAF_SYMBOL, REGION, SYMBOLS, TUPLE, Symbol, symbol
from passat.rules.substitution import Environment

if TYPE_CHECKING:
    from passat.rules.engine.common_parts import CommonParts
    from passat.rules.engine.eager import Eager

FIELD_RULE: Final = "TupleProjection.field"
"""The rule that projects a field of a tuple, which a graph applies itself when tuples become constant."""
_SMALL: Final = 4096
"""Constants up to this size in bytes share a node if their contents are equal. Larger ones share it if they are the same object or, with
`compare_large`, if their contents are equal."""


def operands_of(expr: Expr) -> tuple[Expr, ...]:
    """The parts of an expression that its node in a graph has as operands: of a branch or match, the condition or the data; of a call of
    anything but an operator, also what is called; none for variables, functions, lets and references."""
    if type(expr) is Call:
        return expr.args if isinstance(expr.op, Op) else (expr.op, *expr.args)
    if type(expr) is TupleGetItem:
        return (expr.tuple_value,)
    if type(expr) is Tuple:
        return expr.fields
    if type(expr) is If:
        return (expr.cond,)
    return (expr.data,) if type(expr) is Match else ()


def _dtype(expr: Expr) -> str | None:
    type_ = expr._checked_type or expr.checked_type
    return type_.dtype if isinstance(type_, TensorType) else None


class NewNode(NamedTuple):
    """A node to be added: its symbol, payload, operands and type, and its known elements."""

    head: Symbol
    payload: int
    operands: tuple[int, ...]
    type_: Type
    known: KnownValue | None = None


class Decision(NamedTuple):
    """An eager rule's decision on a node: the rule, the node's position, the rejection reason ('' if applied), the node, its replacement,
    and at that time the number of nodes and the values of constant operands."""

    rule: str
    place: Expr | None
    rejection: str = ""
    new: NewNode | None = None
    made: int = -1
    size: int = 0
    values: Sequence[Value | None] = ()


class Graph:
    """A program loaded from an expression. `ids` maps every loaded expression (by identity) to its node.

    `eager` are the rules that are applied to nodes as they are added, in the given `environment`; `statistics` and `decisions` record their
    effects.
    """

    def __init__(self, eager: "Eager | None" = None, environment: Environment = Environment(), *, compare_large: bool = False) -> None:  # noqa: B008  # immutable
        self.symbols: list[Symbol] = []
        self.payloads: list[int] = []
        self.operands: list[tuple[int, ...]] = []
        self.types: list[Type] = []
        self.origins: list[Expr | None] = []
        self.classes: list[int] = []
        self.constants: dict[int, Value] = {}
        self.known: dict[int, KnownValue | None] = {}
        self.members: dict[int, list[int]] = {}
        """The nodes of each e-class that has more than one."""
        self.retired: set[int] = set()
        """Nodes that no longer match."""
        self.facts: dict[Analysis[AnyValue], Facts[AnyValue]] = {}
        self.common_parts: CommonParts | None = None
        """What sums and products of the program share, once a rule has asked."""
        self.ids: dict[int, int] = {}
        self.attrs: list[Attrs] = [EMPTY_ATTRS]
        self.tensors: list[Tensor] = []
        self.leaves: list[Expr] = []
        self.stateful: list[Call] = []
        self.eager = eager
        self.environment = environment
        self.statistics: dict[str, RuleStatistics] = {}
        self.applied = 0
        """The number of applications of eager rules."""
        self.nested = 0
        """The number of eager rules whose right sides are being added, each for a node of the preceding one."""
        self.decisions: list[Decision] = []
        self.merged = 0
        self.places: dict[int, Expr] = {}
        self._learned: set[int] = set()
        self._attr_ids: dict[Attrs, int] = {EMPTY_ATTRS: 0}
        self._tensor_ids: dict[object, int] = {}
        self._large: dict[object, list[int]] | None = {} if compare_large else None
        self._nodes: dict[tuple[Symbol, int, tuple[int, ...]], int] = {}
        self._forms: dict[tuple[AnyValue, ...], tuple[int, ...]] = {}
        """The operands of calls that rules made for e-classes."""

    def __len__(self) -> int:
        return len(self.symbols)

    def anew(self) -> "Graph":
        """A graph of the same kind, without nodes."""
        return Graph(self.eager, self.environment, compare_large=self._large is not None)

    def release(self) -> None:
        """Drops what only guards ask for. It refers to the graph, which would otherwise keep its constants until a garbage collection."""
        self.facts, self.common_parts = {}, None

    # ---- loading

    def load(self, root: Expr) -> int:
        """Adds an expression with inferred types and returns its root node.

        Equal subexpressions share a node (hash-consing), and eager rules are applied to each. Everything outside of dataflow (variables,
        functions) is a leaf, or a region around operands.
        """
        ids, nodes = self.ids, self._nodes
        known, seen, find_symbol = ids.get, nodes.get, SYMBOLS.get
        plain = self.eager is None or not self.eager.about_calls
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
                parts = operands_of(expr)
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
                # The fast path for most nodes, without the calls of the general one.
                head = find_symbol((CALL, expr.op, len(operands), False))  # type: ignore[attr-defined]
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
        node = self._nodes.get((head, payload, operands))
        if node is not None:
            self.merged += 1
            return self.find(node)
        type_ = expr._checked_type or expr.checked_type
        if self.eager is None or not (self.eager.about_calls or head is GET_SYMBOL):
            return self._new(head, payload, operands, type_, expr)
        learned = not self._learned.isdisjoint(operands)
        if learned:
            with contextlib.suppress(OpTypeError):  # the inferred fact contradicts the operator: keep the type
                type_ = refine(type_, self.infer(head, payload, operands))
        known: KnownValue | None = None
        if isinstance(type_, TensorType) and type_.dtype in FOLLOWED and is_followed(type_):
            known = self._known_from(head, payload, operands, type_) if learned else known_value(expr)
        size = len(self)
        made = self.eager.apply(self, head, payload, operands, type_, known, expr)
        if made < 0:
            made = self._new(head, payload, operands, type_, expr)
        else:
            self._nodes[head, payload, operands] = made
            if made >= size:
                self._place(made, expr)
        if known is not None:
            self.known.setdefault(made, known)
        best = self.types[made]
        if learned or made in self.constants or (best is not expr._checked_type and best != expr._checked_type):
            # Users of this node may now have a better type than inference gave them.
            self._learned.add(made)
        return made

    def _place(self, node: int, expr: Expr) -> None:
        """Records that a new node corresponds to an expression."""
        if self.symbols[node] is CONST_SYMBOL:
            self.origins[node] = Constant(self.tensors[self.payloads[node]], expr.span)
        else:
            self.places.setdefault(node, expr)

    def _shape_of(self, expr: Expr, arity: int) -> tuple[Symbol, int]:
        if type(expr) is Call:
            op: Op = expr.op  # type: ignore[assignment]  # only calls of operators are nodes
            attrs, widens = expr.attrs, False
            if attrs.get("out_dtype") and op.defaults.get("out_dtype") == "":
                if _dtype(expr) == _dtype(expr.args[0]):
                    attrs = Attrs(attrs, out_dtype="")
                else:
                    widens = True
            call = symbol(CALL, op, arity, widens=widens)
            if op.stateful:
                # Each stateful call is unique: its own payload keeps congruence from merging it with an equal one.
                self.stateful.append(expr)
                self.attrs.append(attrs)
                return call, len(self.attrs) - 1
            return call, 0 if attrs is EMPTY_ATTRS else self.attr_id(attrs)
        if type(expr) is TupleGetItem:
            return GET_SYMBOL, expr.index
        return symbol(TUPLE, None, arity), 0

    # ---- nodes

    def attr_id(self, attrs: Attrs) -> int:
        """The payload for attributes; equal attributes share one."""
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
            # Not cached by identity: the object may be freed and its address reused.
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
        """The result of a function on terms and values: of a guard, which `decides`, or of a computed attribute."""
        return function(*args)

    def tensor_key(self, tensor: Tensor) -> object:
        """The identity of a constant: its contents if it is small, else the object."""
        return tensor.key() if tensor.is_splat or self.is_small(tensor) else id(tensor)

    @staticmethod
    def is_small(tensor: Tensor) -> bool:
        """True if constants of this size share a node by content."""
        return tensor.nbytes <= _SMALL

    def _equal_large(self, tensor: Tensor) -> int | None:
        """The payload of an equal large constant seen before. Only constants with the same shape, type and sampled elements are hashed."""
        assert self._large is not None
        seen = self._large.setdefault((tensor.dtype, tensor.shape, look(tensor)), [])
        found = next((handle for handle in seen if self.tensors[handle] == tensor), None)
        if found is None:
            seen.append(len(self.tensors))
        return found

    def make(self, head: Symbol, payload: int, operands: tuple[int, ...]) -> int:
        """The typed node of a symbol on operand e-classes, or its replacement by eager rules. Raises OpTypeError for ill-typed operands."""
        node = self._nodes.get((head, payload, operands))
        if node is not None:
            return node
        type_ = self.infer(head, payload, operands)
        made = -1 if self.eager is None else self.eager.apply(self, head, payload, operands, type_)
        if made < 0:
            return self._new(head, payload, operands, type_, None)
        self._nodes[head, payload, operands] = made
        return made

    def differs_in_rounding(self, cls: int, head: Symbol, payload: int, operands: tuple[int, ...]) -> bool:
        """True if a rule has made this call for an e-class before, but with other floating-point constants. They were computed in another
        order, so only their rounding differs."""
        key = self._form(cls, head, payload, operands)
        return key is not None and self._forms.get(key, operands) != operands

    def remember_form(self, cls: int, node: int) -> None:
        """Records a call that a rule made for an e-class."""
        key = self._form(cls, self.symbols[node], self.payloads[node], self.operands[node])
        if key is not None:
            self._forms.setdefault(key, self.operands[node])

    def _form(self, cls: int, head: Symbol, payload: int, operands: tuple[int, ...]) -> tuple[AnyValue, ...] | None:
        """A call without the elements of its floating-point constants, if it has one."""
        if self.constants.keys().isdisjoint(operands):
            return None
        constants = map(self.constants.get, operands)
        parts = [
            (value.dtype, value.shape) if isinstance(value, Tensor) and value.dtype in FLOATS else operand
            for operand, value in zip(operands, constants, strict=True)
        ]
        return cls, head, payload, *parts

    def there(self, head: Symbol, payload: int, operands: tuple[int, ...]) -> int | None:
        """The existing node of a symbol on operand e-classes, or None; commutative operators match in either order."""
        found = self._nodes.get((head, payload, operands))
        if found is None and head.op is not None and head.op.commutative:
            found = self._nodes.get((head, payload, operands[::-1]))
        return found

    def has_node(self, cls: int, head: Symbol, operands: Sequence[int]) -> bool:
        """True if an e-class has a node of a symbol on operand e-classes; those of commutative operators may be in either order."""
        cls, wanted = self.find(cls), list(map(self.find, operands))
        orders = (wanted, wanted[::-1]) if head.op is not None and head.op.commutative and len(wanted) == 2 else (wanted,)
        return any(
            self.symbols[node] is head and list(map(self.find, self.operands[node])) in orders for node in self.members.get(cls, (cls,))
        )

    def make_again(self, node: int) -> int:
        """The eager rules' replacement for a node after facts about its operands changed; -1 if there is none."""
        if self.eager is None:
            return -1
        head, payload, operands = self.symbols[node], self.payloads[node], self.operands[node]
        if head is GET_SYMBOL and isinstance(whole := self.constant_of(operands[0]), tuple):
            made = self.add_value(whole[payload])
            new = NewNode(head, payload, operands, self.types[node])
            self.decisions.append(Decision(FIELD_RULE, None, "", new, made, len(self), (whole,)))
            return made
        return self.eager.apply(self, head, payload, tuple(map(self.find, operands)), self.types[node], self.known_of(node))

    # ---- nodes of right sides (`passat.rules.substitution.Maker`)

    def add_call(self, op: Op, operands: Sequence[int], attrs: Attrs) -> int:
        """The node of a call."""
        payload = self.attr_id(attrs) if op.attr_params or op.variadic else 0
        return self.make(symbol(CALL, op, len(operands)), payload, tuple(map(self.find, operands)))

    def add_tuple(self, operands: Sequence[int]) -> int:
        """The node of a tuple."""
        return self.make(symbol(TUPLE, None, len(operands)), 0, tuple(map(self.find, operands)))

    def add_field(self, operand: int, index: int) -> int:
        """The node of a field of a tuple."""
        return self.make(GET_SYMBOL, index, (self.find(operand),))

    def add_value(self, value: Value) -> int:
        """The node of a constant, or of a tuple of constants."""
        return self.add_tuple(list(map(self.add_value, value))) if isinstance(value, tuple) else self.add_constant(value)

    def type_of(self, cls: int) -> Type:
        """The type of an e-class."""
        return self.types[self.find(cls)]

    def evaluate(self, op: Op, values: Sequence[Value], attrs: Attrs, type_: Type) -> Value:
        """The value of a call on constants. Raises EvaluateError."""
        return evaluate(op, values, attrs, type_, self.environment.opset)

    def _new(self, head: Symbol, payload: int, operands: tuple[int, ...], type_: Type, origin: Expr | None) -> int:
        node = len(self.symbols)
        self.symbols.append(head)
        self.payloads.append(payload)
        self.operands.append(operands)
        self.types.append(type_)
        self.origins.append(origin)
        self.classes.append(node)
        self._nodes[head, payload, operands] = node
        if head.kind == TUPLE:
            self.learn_tuple(node)
        return node

    def learn_tuple(self, node: int) -> bool:
        """Gives a tuple of constants its value. Returns True if it is one."""
        values = [self.constants.get(self.find(operand)) for operand in self.operands[node]]
        if any(value is None for value in values):
            return False
        self.constants[self.find(node)] = tuple([value for value in values if value is not None])
        return True

    # ---- e-classes and facts

    def find(self, node: int) -> int:
        """The e-class of a node: its smallest node."""
        classes = self.classes
        while classes[node] != node:
            classes[node] = classes[classes[node]]
            node = classes[node]
        return node

    def key(self, node: int) -> tuple[Symbol, int, tuple[int, ...]]:
        """The congruence key: symbol, payload and operand e-classes."""
        return self.symbols[node], self.payloads[node], tuple(map(self.find, self.operands[node]))

    def unite(self, a: int, b: int) -> tuple[int, int] | None:
        """Unites two e-classes, as egglog did; the smaller one keeps its facts. Returns (kept, gone), or None if they were already
        equal."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return None
        kept, gone = (a, b) if a < b else (b, a)
        self.classes[gone] = kept
        self.members.setdefault(kept, [kept]).extend(self.members.pop(gone, [gone]))
        if gone in self.constants and kept not in self.constants:
            self.constants[kept] = self.constants[gone]
        if self.known.get(gone) is not None and self.known.get(kept) is None:
            self.known[kept] = self.known[gone]
        return kept, gone

    def constant_of(self, node: int) -> Value | None:
        """The constant value of a node's e-class, or None."""
        return self.constants.get(self.find(node))

    def constant(self, cls: int) -> Value | None:
        """The constant value of an e-class, or None."""
        return self.constants.get(cls)

    def e_nodes(self, cls: int) -> Iterator[ENode]:
        """The e-nodes of an e-class, oldest first, with canonical operands."""
        for node in sorted(self.members[cls]) if cls in self.members else (cls,):
            yield self._e_node(self.symbols[node], self.payloads[node], self.operands[node])

    def oldest(self, cls: int) -> ENode:
        """The oldest e-node of an e-class, which has its number."""
        return self._e_node(self.symbols[cls], self.payloads[cls], self.operands[cls])

    def _e_node(self, head: Symbol, payload: int, operands: Sequence[int]) -> ENode:
        if head.kind not in (CALL, TUPLE, GET):
            return OPAQUE
        parts = tuple(map(self.find, operands))
        return ENode(head.op, self.attrs[payload] if head.op is not None else EMPTY_ATTRS, payload if head.kind == GET else -1, parts)

    def fact(self, analysis: Analysis[AnyValue], node: int) -> AnyValue:
        """The fact of the e-class of a node."""
        return self._facts(analysis).of(node)

    def fact_of_new(self, analysis: Analysis[AnyValue], new: NewNode) -> AnyValue:
        """The fact of a node to be added."""
        return self._facts(analysis).of_node(self._e_node(new.head, new.payload, new.operands), new.type_)

    def _facts(self, analysis: Analysis[AnyValue]) -> Facts[AnyValue]:
        found = self.facts.get(analysis)
        if found is None:
            found = self.facts[analysis] = Facts(analysis, self)
        return found

    def known_of(self, node: int) -> KnownValue | None:
        """The known elements of a node's e-class (see `passat.ir.infer.known_value`)."""
        cls = self.find(node)
        if cls in self.known:
            return self.known[cls]
        if not isinstance(self.types[cls], TupleType) and not is_followed(self.types[cls]):
            return None
        found: KnownValue | None = None
        origin = self.origins[cls]
        if origin is not None and cls not in self._learned:
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
        """The type of a symbol on operand e-classes. Raises OpTypeError."""
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

"""The dataflow graph of a function as fusion sees it: how Relay's fusion sees operators (TOpPattern), who reads the value of each node,
and the tree of post-dominators, for each node the nearest one that everything computed from it goes through."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from passat.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem
from passat.ir.op import Op
from passat.ir.sealed import is_sealed
from passat.ir.traverse import children, evaluation_parts, post_order
from passat.ir.types import TensorType, TupleType, Type


class OpPattern(IntEnum):
    """Kinds of operators, from those that fuse with most to those that fuse with nothing (Relay's OpPattern).

    >>> combine(OpPattern.BROADCAST, OpPattern.COMM_REDUCE)
    <OpPattern.COMM_REDUCE: 3>
    """

    ELEMWISE = 0
    """Each element of the result comes of the elements at its place."""
    BROADCAST = 1
    """Elementwise, but for operands that are repeated along axes."""
    INJECTIVE = 2
    """Each element of the result comes of known elements of the operands."""
    COMM_REDUCE = 3
    """Elements are put together along axes, in any order."""
    OUT_ELEMWISE_FUSABLE = 4
    """Anything to whose result elementwise operators may be applied as it is written: products and convolutions."""
    TUPLE = 7
    """No operator, but a tuple of results."""
    OPAQUE = 8
    """What is computed by itself."""


def combine(first: OpPattern, second: OpPattern) -> OpPattern:
    """The kind of two together: the one that fuses with less."""
    return first if first > second else second


def pattern_of(call: Call) -> OpPattern:
    """The kind of a call. Opaque are calls of anything but operators, stateful operators, operators that take or give what is neither a
    tensor nor a tuple of tensors, and those that read sizes from operands that are no constants: in a function of fused calls nobody
    would know these."""
    op = call.op
    if not isinstance(op, Op) or op.stateful or not takes_data(call):
        return OpPattern.OPAQUE
    if any(not isinstance(call.args[i], Constant) for i in op.known_operands):
        return OpPattern.OPAQUE
    return OpPattern(op.pattern)


def takes_data(call: Call) -> bool:
    """Whether all operands of a call, and its result, are tensors and tuples of tensors."""
    return all(is_data(arg.checked_type) for arg in call.args) and is_data(call.checked_type)


def is_data(type_: Type) -> bool:
    """Whether a type is that of tensors, or of tuples of tensors, one deep: what functions of fused calls take and give."""
    return isinstance(type_, TensorType) or (isinstance(type_, TupleType) and all(isinstance(field, TensorType) for field in type_.fields))


_NO_NODES: Final = (Op,)


class Dataflow:
    """The nodes of a function, parts before wholes, with their kinds and the edges to what reads them.

    `readers[i]` are pairs of the number of a node that reads the value of node `i`, and the kind of the operator as what it reads sees it:
    an operator that broadcasts is elementwise to an operand of the shape of its result. `outside[i]` says that something other than
    dataflow reads the value: it is bound, branched on, returned, put into a reference, given to a function. Sealed functions
    (`passat.ir.sealed`) are not entered. Types must have been inferred.
    """

    __slots__ = ("kinds", "nodes", "numbers", "outside", "readers")

    def __init__(self, function: Function) -> None:
        found = post_order(function, into=lambda node: node is function or not is_sealed(node), parts_of=evaluation_parts)
        self.nodes: Sequence[Expr] = [node for node in found if not isinstance(node, _NO_NODES)]
        self.numbers = {id(node): number for number, node in enumerate(self.nodes)}
        count = len(self.nodes)
        self.kinds: list[OpPattern] = [OpPattern.OPAQUE] * count
        self.readers: list[list[tuple[int, OpPattern]]] = [[] for _ in range(count)]
        self.outside = [False] * count
        for number, node in enumerate(self.nodes):
            if node is function or not is_sealed(node):
                self._connect(number, node)

    def _connect(self, number: int, node: Expr) -> None:
        """Says to the parts of a node how it reads them, and what kind it is."""
        if isinstance(node, Call) and isinstance(node.op, Op) and takes_data(node):
            kind = self.kinds[number] = pattern_of(node)
            for arg in node.args:
                elementwise = kind == OpPattern.BROADCAST and _same_shape(arg, node)
                self.readers[self.numbers[id(arg)]].append((number, OpPattern.ELEMWISE if elementwise else kind))
        elif isinstance(node, Tuple):
            self.kinds[number] = OpPattern.TUPLE
            for field in node.fields:
                if isinstance(field.checked_type, TensorType):
                    self.readers[self.numbers[id(field)]].append((number, OpPattern.INJECTIVE))
                else:
                    self.outside[self.numbers[id(field)]] = True
        elif isinstance(node, TupleGetItem) and _is_flat(node.tuple_value):
            self.kinds[number] = OpPattern.INJECTIVE
            self.readers[self.numbers[id(node.tuple_value)]].append((number, OpPattern.INJECTIVE))
        elif isinstance(node, Constant):
            if not node.data.shape and node.data.dtype != "string":
                self.kinds[number] = OpPattern.ELEMWISE
        else:
            for part in children(node):
                if not isinstance(part, _NO_NODES):
                    self.outside[self.numbers[id(part)]] = True


def _same_shape(arg: Expr, call: Call) -> bool:
    given, made = arg.checked_type, call.checked_type
    return isinstance(given, TensorType) and isinstance(made, TensorType) and given.shape == made.shape


def _is_flat(expr: Expr) -> bool:
    """Whether the fields of a tuple are tensors."""
    type_ = expr.checked_type
    return isinstance(type_, TupleType) and all(isinstance(field, TensorType) for field in type_.fields)


NOTHING = -1
"""What dominates a node whose value leaves the dataflow, or goes separate ways."""


class PostDominators:
    """`parents[i]` is the number of the nearest post-dominator of node `i`, or NOTHING; `kinds[i]` combines the kinds of all edges on the
    ways there.

    The common ancestor of the readers of a node is found by jump pointers (Myers 1983: each node also knows an ancestor further up, and the
    combined kinds on the way there), so that the tree of n nodes and m edges takes O((n + m) log n) steps whatever its depth.

    >>> from passat.ir.expr import Function, var
    >>> from passat.ir.infer import infer_type
    >>> x = var("x", shape=(2,))
    >>> y = -x
    >>> function = Function([x], (y + x) * y)
    >>> flow = Dataflow(infer_type(function))
    >>> tree = PostDominators(flow)
    >>> flow.nodes[tree.parents[flow.numbers[id(y)]]] is function.body
    True
    """

    __slots__ = ("_depths", "_far", "_far_kinds", "_near", "kinds", "parents")

    def __init__(self, flow: Dataflow) -> None:
        count = len(flow.nodes)
        # A node that all trees hang from stands behind the last one: whatever has no common ancestor meets there.
        self._near = [count] * (count + 1)
        self._far = [count] * (count + 1)
        self._far_kinds = [OpPattern.ELEMWISE] * (count + 1)
        self._depths = [0] * (count + 1)
        self.kinds = [OpPattern.OPAQUE] * (count + 1)
        for number in range(count - 1, -1, -1):
            readers = flow.readers[number]
            above, kind = count, OpPattern.OPAQUE
            if readers and not flow.outside[number]:
                above, kind = readers[0]
                for reader, edge in readers[1:]:
                    above, kind = self._common(above, reader, combine(kind, edge))
            self._hang(number, above, kind if above != count else OpPattern.OPAQUE)
        self.parents = [NOTHING if above == count else above for above in self._near[:count]]

    def _hang(self, number: int, above: int, kind: OpPattern) -> None:
        """Puts a node under its parent."""
        self._near[number], self.kinds[number] = above, kind
        self._depths[number] = self._depths[above] + 1
        far = self._far[above]
        if self._depths[above] - self._depths[far] == self._depths[far] - self._depths[self._far[far]]:
            self._far[number] = self._far[far]
            self._far_kinds[number] = combine(kind, combine(self._far_kinds[above], self._far_kinds[far]))
        else:
            self._far[number], self._far_kinds[number] = above, kind

    def _common(self, a: int, b: int, kind: OpPattern) -> tuple[int, OpPattern]:
        """The nearest common ancestor of two nodes, and `kind` combined with those of the edges from both to it."""
        depths, far = self._depths, self._far
        if depths[a] < depths[b]:
            a, b = b, a
        while depths[a] > depths[b]:
            a, kind = self._up(a, kind, jump=depths[far[a]] >= depths[b])
        while a != b:
            jump = far[a] != far[b]
            a, kind = self._up(a, kind, jump=jump)
            b, kind = self._up(b, kind, jump=jump)
        return a, kind

    def _up(self, node: int, kind: OpPattern, *, jump: bool) -> tuple[int, OpPattern]:
        if jump:
            return self._far[node], combine(kind, self._far_kinds[node])
        return self._near[node], combine(kind, self.kinds[node])

"""The dataflow graph for operator fusion: operator kinds (Relay's TOpPattern), the readers of each node, and the post-dominator tree."""

from collections.abc import Sequence
from typing import Final

from passat.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem
from passat.ir.op import Op
from passat.ir.op_attributes import OpPattern
from passat.ir.sealed import is_sealed, nodes_in
from passat.ir.traverse import children, evaluation_parts
from passat.ir.types import TensorType, TupleType, Type


def combine(first: OpPattern, second: OpPattern) -> OpPattern:
    """The kind of two operators fused: the more restrictive one."""
    return first if first > second else second


def pattern_of(call: Call) -> OpPattern:
    """The kind of a call. Calls of the following are opaque: non-operators, stateful operators, operators on values other than tensors and
    tuples of tensors, and operators that read sizes from non-constant operands. A function of fused calls would not know these sizes."""
    op = call.op
    if not isinstance(op, Op) or op.stateful or not takes_data(call):
        return OpPattern.OPAQUE
    if any(not isinstance(call.args[i], Constant) for i in op.known_operands):
        return OpPattern.OPAQUE
    return OpPattern(op.pattern)


def takes_data(call: Call) -> bool:
    """True if all operands of a call and its result are tensors or tuples of tensors."""
    return all(is_data(arg.checked_type) for arg in call.args) and is_data(call.checked_type)


def is_data(type_: Type) -> bool:
    """True for types of tensors and of flat tuples of tensors: the parameter and result types of functions of fused calls."""
    return isinstance(type_, TensorType) or (isinstance(type_, TupleType) and all(isinstance(field, TensorType) for field in type_.fields))


_NO_NODES: Final = (Op,)


class Dataflow:
    """The nodes of a function in topological order, with their kinds and the edges to their readers.

    `readers[i]` lists the readers of node `i` as pairs of a node number and the kind of the reader for this operand. A broadcasting
    operator is elementwise for an operand with the shape of its result. `outside[i]` marks values with readers outside of dataflow: let
    bindings, branches, results, references, function arguments. Sealed functions (`passat.ir.sealed`) are not entered. Types must have been
    inferred.
    """

    __slots__ = ("kinds", "nodes", "numbers", "outside", "readers")

    def __init__(self, function: Function) -> None:
        found = nodes_in(function, evaluation_parts)
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
        """Registers a node with its operands, and sets its kind."""
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
    """True if the fields of a tuple are tensors."""
    type_ = expr.checked_type
    return isinstance(type_, TupleType) and all(isinstance(field, TensorType) for field in type_.fields)


NOTHING = -1
"""The post-dominator of a node whose value leaves the dataflow or has no common post-dominator."""


class PostDominators:
    """`parents[i]` is the immediate post-dominator of node `i`, or NOTHING; `kinds[i]` combines the kinds of all edges on the paths to it.

    The common ancestor of a node's readers is found by jump pointers (Myers 1983: each node also stores a farther ancestor and the combined
    kinds of the path to it). The tree of n nodes and m edges takes O((n + m) log n) steps regardless of depth.

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
        # A virtual root after the last node is the common ancestor of nodes that have no other.
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
        """Attaches a node to its parent."""
        self._near[number], self.kinds[number] = above, kind
        self._depths[number] = self._depths[above] + 1
        far = self._far[above]
        if self._depths[above] - self._depths[far] == self._depths[far] - self._depths[self._far[far]]:
            self._far[number] = self._far[far]
            self._far_kinds[number] = combine(kind, combine(self._far_kinds[above], self._far_kinds[far]))
        else:
            self._far[number], self._far_kinds[number] = above, kind

    def _common(self, a: int, b: int, kind: OpPattern) -> tuple[int, OpPattern]:
        """The lowest common ancestor of two nodes, and `kind` combined with the edge kinds on both paths to it."""
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

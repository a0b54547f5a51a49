"""Which values of a function share storage, when each is needed, how large it is, and what may be written in its place.

A value is a tensor that somebody computes, or that comes in. Reshapes, tuples, their fields and lets make no values, but views of some. The
order of execution is that of the text: operands from left to right, before what reads them; what is shared where it is met first.
"""

import math
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from passat.ir.dtypes import itemsize
from passat.ir.expr import Call, Constant, Expr, Function, If, Let, Match, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem, Var
from passat.ir.infer import infer_type
from passat.ir.op import Op
from passat.ir.sealed import is_sealed
from passat.ir.traverse import children, evaluation_parts, post_order
from passat.ir.types import IncompleteType, TensorType, TupleType, Type

RESHAPES: Final = frozenset(
    {"annotation.stop_fusion", "dyn.reshape", "expand_dims", "nn.batch_flatten", "reshape", "reshape_like", "squeeze"}
)
"""Operators whose result is their first operand, element by element in its order, in another shape."""
_STEPS: Final = (Call, If, Match, RefCreate, RefRead, RefWrite)
_NEW: Final = -1


def is_reshape(call: Call) -> bool:
    """Whether the result of a call is its first operand in another shape.

    >>> from passat.ir.expr import var
    >>> from passat.ir.op import get_op
    >>> x = var("x", shape=(2, 3))
    >>> [is_reshape(get_op(name)(x)) for name in ("squeeze", "transpose", "negative")]
    [True, False, False]
    """
    return isinstance(call.op, Op) and call.op.name in RESHAPES


def size_of(type_: Type) -> int | None:
    """The bytes of a tensor; None where its type does not say, and for texts.

    >>> size_of(TensorType((2, 3), "float16")), size_of(TensorType(("n",), "float16"))
    (12, None)
    """
    if not isinstance(type_, TensorType) or type_.dtype == "string":
        return None
    count = 1
    for dim in type_.shape:
        if not isinstance(dim, int):
            return None
        count *= dim
    return math.ceil(count * itemsize(type_.dtype))


class Origin(Enum):
    """Where a value comes from."""

    PARAMETER = "parameter"
    CONSTANT = "constant"
    COMPUTED = "computed"


class Buffer(NamedTuple):
    """A value: what makes it, its type, its bytes (None: not known), and from the step that makes it to the last that reads it. Step 0 is
    before all others; values that are needed after the last, as results are, live to step `end`."""

    number: int
    node: Expr
    type: Type
    size: int | None
    first: int
    last: int
    origin: Origin

    @property
    def is_writable(self) -> bool:
        """Whether the storage may be written to once the value is not needed any more: parameters and constants belong to others."""
        return self.origin is Origin.COMPUTED


class BufferView:
    """The values of a function. `steps` are the nodes that compute, in order, from step 1 on; `end` is the step behind the last.

    Functions that are called where they stand are one step, as an operator is; they read what they are given, or do nothing but look at it
    in another shape. What functions capture, what branches give, and what goes into references or unknown functions lives to the end.

    >>> from passat.ir.text import parse_expr
    >>> view = BufferView(parse_expr("fn (%x: Tensor[(2, 3), float32]) { exp(reshape(exp(%x), newshape=[6])) }"))
    >>> for buffer in view.buffers:
    ...     print(buffer.number, buffer.origin.value, buffer.size, (buffer.first, buffer.last))
    0 parameter 24 (0, 3)
    1 computed 24 (1, 2)
    2 computed 24 (2, 3)
    >>> view.in_place(view.steps[1])
    (1,)
    """

    def __init__(self, function: Function) -> None:
        infer_type(function)
        self.function = function
        self.steps: list[Expr] = []
        self._order = post_order(function.body, into=lambda node: not isinstance(node, Function), parts_of=evaluation_parts)
        self._of: dict[int, tuple[int, ...]] = {}
        self._rows: list[tuple[Expr, Type, int, Origin]] = []
        self._last: list[int] = []
        self._kept: set[int] = set()
        self._step_of: dict[int, int] = {}
        self._values = {node.var: node.value for node in self._order if isinstance(node, Let)}
        for param in function.params:
            self._make(param, 0, Origin.PARAMETER)
        for node in self._order:
            if id(node) not in self._of:
                self._visit(node)
        self.end = len(self.steps) + 1
        self._capture()
        self._kept.update(self.of(function.body))
        for number, (_, _, _, origin) in enumerate(self._rows):
            if origin is not Origin.COMPUTED or number in self._kept:
                self._last[number] = self.end
        self.buffers: tuple[Buffer, ...] = tuple(
            Buffer(number, node, type_, size_of(type_), first, last, origin)
            for number, ((node, type_, first, origin), last) in enumerate(zip(self._rows, self._last, strict=True))
        )

    def of(self, node: Expr) -> tuple[int, ...]:
        """The numbers of the buffers that hold the value of a node of the function: of a tuple those of its fields, none of functions."""
        return self._of.get(id(node), ())

    def step(self, node: Expr) -> int:
        """The step in which a node computes; 0 where it does not."""
        return self._step_of.get(id(node), 0)

    def is_view(self, node: Expr) -> bool:
        """Whether a node makes no value of its own."""
        return not any(self._rows[number][0] is node for number in self.of(node))

    def overlap(self, first: int, second: int) -> bool:
        """Whether two buffers are needed at one time. A result is made while the operands are still there."""
        a, b = self.buffers[first], self.buffers[second]
        return a.first <= b.last and b.first <= a.last

    def may_share(self, first: int, second: int) -> bool:
        """Whether two values may have one storage, one after the other: both are computed here, and never needed at one time."""
        a, b = self.buffers[first], self.buffers[second]
        return a.is_writable and b.is_writable and not self.overlap(first, second)

    def in_place(self, node: Expr) -> tuple[int, ...]:
        """The buffers that a call may write its result to: operands that nobody needs afterwards, of the size and shape of the result,
        where each element of the result comes of the elements at its place. A function of fused calls is taken for one operator."""
        if not isinstance(node, Call) or not self.step(node) or not isinstance(node.checked_type, TensorType) or not _is_elementwise(node):
            return ()
        result = node.checked_type
        size = size_of(result)
        tensors = [arg for arg in node.args if isinstance(arg.checked_type, TensorType)]
        found: dict[int, bool] = {}
        for arg in tensors:
            type_ = arg.checked_type
            assert isinstance(type_, TensorType)
            for number in self.of(arg):
                fits = type_.shape == result.shape and size is not None and size_of(type_) == size
                found[number] = found.get(number, True) and fits and self.buffers[number].size == size
        others = {number for arg in node.args if not isinstance(arg.checked_type, TensorType) for number in self.of(arg)}
        step = self.step(node)
        return tuple(
            number
            for number, fits in found.items()
            if fits and number not in others and self.buffers[number].is_writable and self.buffers[number].last == step
        )

    # ---- what each node makes and reads

    def _make(self, node: Expr, first: int, origin: Origin, types: Sequence[Type] | None = None) -> None:
        """New buffers for the tensors of a node, or for those of some types."""
        numbers = []
        for type_ in _tensors_of(node.checked_type) if types is None else types:
            numbers.append(len(self._rows))
            self._rows.append((node, type_, first, origin))
            self._last.append(first)
        self._of[id(node)] = tuple(numbers)

    def _visit(self, node: Expr) -> None:
        if isinstance(node, Constant):
            self._make(node, 0, Origin.CONSTANT)
        elif isinstance(node, Tuple):
            self._of[id(node)] = tuple(number for field in node.fields for number in self.of(field))
        elif isinstance(node, TupleGetItem):
            self._of[id(node)] = self._field(node)
        elif isinstance(node, Let):
            self._of[id(node)] = self.of(node.body)
        elif isinstance(node, Var):
            self._of[id(node)] = self._bound(node)
        elif isinstance(node, Call) and is_reshape(node):
            self._of[id(node)] = self.of(node.args[0])
            for operand in node.args[1:]:
                self._read(operand, len(self.steps))
        elif isinstance(node, _STEPS):
            self._step(node)

    def _step(self, node: Expr) -> None:
        sources = _sources(node) if isinstance(node, Call) else None
        if sources is not None and sources and _NEW not in sources:  # nothing but reshapes of what it is given
            self._of[id(node)] = self._given(node, sources)
            return
        self.steps.append(node)
        step = self._step_of[id(node)] = len(self.steps)
        types = _tensors_of(node.checked_type)
        if sources is not None:
            types = [type_ for type_, source in zip(types, sources, strict=True) if source == _NEW]
        self._make(node, step, Origin.COMPUTED, types)
        for part in children(node):
            self._read(part, step)
        if sources is not None:
            self._of[id(node)] = self._given(node, sources)
        else:
            for part in (node, *children(node)):
                self._kept.update(self.of(part))

    def _given(self, node: Expr, sources: Sequence[int]) -> tuple[int, ...]:
        """The buffers of a call's results: new ones, and operands."""
        assert isinstance(node, Call)
        made = iter(self.of(node))
        return tuple(next(made) if source == _NEW else self.of(node.args[source])[0] for source in sources)

    def _read(self, part: Expr, step: int) -> None:
        for number in self.of(part):
            self._last[number] = max(self._last[number], step)

    def _field(self, node: TupleGetItem) -> tuple[int, ...]:
        whole = self.of(node.tuple_value)
        type_ = node.tuple_value.checked_type
        assert isinstance(type_, TupleType)
        counts = [len(_tensors_of(field)) for field in type_.fields]
        start = sum(counts[: node.index])
        return whole[start : start + counts[node.index]]

    def _bound(self, var: Var) -> tuple[int, ...]:
        """The buffers of a variable that is no parameter."""
        value = self._values.get(var)
        if value is not None:
            return self.of(value)
        if var._checked_type is not None:  # of a match arm, or free: whoever made it may still need it
            self._make(var, 0, Origin.PARAMETER)
        return self.of(var)

    def _capture(self) -> None:
        """Keeps what functions use of the values around them."""
        for node in self._order:
            if isinstance(node, Function) and not is_sealed(node):
                for part in post_order(node.body):
                    self._kept.update(self.of(part))


def _tensors_of(type_: Type) -> list[Type]:
    """The types of the tensors that a value consists of."""
    found: list[Type] = []
    stack = [type_]
    while stack:
        part = stack.pop()
        if isinstance(part, TupleType):
            stack += reversed(part.fields)
        elif isinstance(part, (TensorType, IncompleteType)):
            found.append(part)
    return found


def _sources(call: Call) -> list[int] | None:
    """Where the tensors of a call's result come from: the number of the operand that each is, or _NEW; None where that is not known."""
    if isinstance(call.op, Op):
        if any(isinstance(arg, Function) for arg in call.args):
            return None
        return [_NEW] * len(_tensors_of(call.checked_type))
    if not isinstance(call.op, Function):
        return None
    params = {param: i for i, param in enumerate(call.op.params)}
    found: list[int] = []
    stack = [call.op.body]
    while stack:
        node = stack.pop()
        if isinstance(node, Tuple):
            stack += reversed(node.fields)
        elif isinstance(node, Call) and is_reshape(node):
            stack.append(node.args[0])
        elif isinstance(node, Var) and node in params and isinstance(node.checked_type, TensorType):
            found.append(params[node])
        elif isinstance(node, Constant) or _is_call_of_op(node) or (isinstance(node, TupleGetItem) and _is_call_of_op(node.tuple_value)):
            found += [_NEW] * len(_tensors_of(node.checked_type))
        else:
            return None
    return found


def _is_call_of_op(node: Expr) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Op)


def _is_elementwise(call: Call) -> bool:
    """Whether each element of the result comes of those at its place; of a function, where all calls in it are so."""
    if isinstance(call.op, Op):
        return call.op.elementwise
    if not is_sealed(call.op):
        return False
    assert isinstance(call.op, Function)
    return all(
        isinstance(node, (Var, Constant, Op)) or (isinstance(node, Call) and isinstance(node.op, Op) and node.op.elementwise)
        for node in post_order(call.op.body)
    )

"""How Relay's fusion sees operators (TOpPattern): what may be computed together follows from these kinds alone."""

from enum import IntEnum

from passat.ir.expr import Call, Constant
from passat.ir.op import Op
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

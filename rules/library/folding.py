"""Folds constants, known sizes, tuple fields and shapes. These rules are eager: the engine applies them to every node that it adds.
Operators: any, dyn.* and onnx.CastLike.

A folded value is what ONNX Runtime computes with its optimizations off (`passat.ir.folding`). CSE needs no rule: hash-consing shares nodes
with the same operator, attributes and operands, and congruence keeps them equal when their operands become equal.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.counting import counted
from passat.ir.evaluate import EvaluateError, Value, gives_splat, tensors_in
from passat.ir.folding import MOST_SPREAD, is_endless, keeps_bits
from passat.ir.op import get_op
from passat.ir.ops.static_forms import static_form
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, Type, leaves
from passat.rules.guards import Guard, Reject, Term, computed, guard, knows_all_elements
from passat.rules.holes import constants_of, operator, tensors_of
from passat.rules.pattern import attributes, op, tensors, term, value
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSet
from passat.rules.substitution import CallTerm

MOST_BYTES: Final = 1 << 30
"""Maximum size of a folded constant, even if `rules.max_growth` allows more."""
_MOST_OF: Final[dict[str, Callable[[Tensor], int]]] = {
    "onnx.Compress": lambda data: data.nbytes,
    "onnx.NonZero": lambda data: 8 * data.ndim * data.size,
    "onnx.Unique": lambda data: data.nbytes + 3 * 8 * data.size,
}
"""Operators that choose among the elements of their first operand: how many bytes their results may take."""
f, g = operator("f"), operator("g", follows_sizes=True)
cs = constants_of("cs", least=1)
xs, before, behind = tensors_of("xs"), tensors_of("before"), tensors_of("behind")
x, y, z, v, w = tensors("x y z v w")
_NONE: Final = Attrs()
(a,) = attributes("a")


@guard
def has_kernel(whole: CallTerm) -> bool | str:
    """The operator has a kernel that computes its result."""
    return whole.op.kernel is not None or f"{whole.op.name} has no kernel"


@guard
def is_computational(whole: CallTerm) -> bool | str:
    """Constant folding does not keep the operator, as it keeps quantized operators."""
    return not whole.op.non_computational or f"{whole.op.name} is folded only by FoldConstant with fold_qnn"


@guard
def is_quantized(whole: CallTerm) -> bool | str:
    """The operator is one that constant folding keeps by default."""
    return whole.op.non_computational or f"{whole.op.name} is not a quantized operator"


@guard
def keeps_every_bit(whole: CallTerm) -> bool | str:
    """The kernel computes the same bits as ONNX Runtime, and no result is rounded to 16 bits, which would depend on neighboring nodes."""
    return keeps_bits(whole.op, values_of(whole), whole.type_) or f"{whole.op.name} rounds"


@guard
def is_small(whole: CallTerm) -> bool | str:
    """The constant adds at most `rules.max_growth` bytes to the constants that it is computed from, since these may become dead. A splat
    takes no bytes."""
    size, most, values = _bytes(whole.type_), whole.environment.max_growth, values_of(whole)
    if size is None and whole.op.name in _MOST_OF:
        size = _MOST_OF[whole.op.name](next(tensors_in(values)))
    if size is None:
        return f"the size of {whole.type_!r} is unknown"
    if size <= min(most, MOST_BYTES):
        return True
    before = _bytes_of(values)
    if size <= min(before + most, MOST_BYTES) or gives_splat(whole.op, list(tensors_in(values))):
        return True
    return f"adds {counted(f'{size - before:,.0f}', 'byte')}, limit {most:,} (rules.max_growth)"


@guard
def is_quick(whole: CallTerm) -> bool | str:
    """The kernel does not read splats too large to expand."""
    return not is_endless(whole.op, values_of(whole)) or f"it would read more than {MOST_SPREAD:,} elements"


@computed
def computed_of(whole: CallTerm) -> Value:
    """The value of the call. Rejects calls whose kernel fails; such a call fails at run time, or never runs."""
    try:
        return whole.evaluate()
    except EvaluateError as error:
        raise Reject(f"the kernel failed: {error}") from None


@computed
def elements_of(whole: Term) -> Tensor:
    """The constant whose elements are all known."""
    dtype, elements = whole.type.dtype, whole.known
    assert elements is not None, "a guard has asked"
    return Tensor.dense(np.asarray(elements, bool if dtype == "bool" else np.int64).reshape(whole.type.concrete_shape), dtype)


_CALL, _SIZES, _FIELD = f(*cs, attrs=a), g(*xs, attrs=a), x[before]


def _folded(*guards: Guard) -> Rule:
    return (_CALL >> value(computed_of(_CALL))).when(has_kernel(_CALL), *guards, is_small(_CALL), is_quick(_CALL))


class ConstantFolding(RuleSet):
    """Replaces calls whose operands are constants or known from shapes by constants. Keeps stateful calls and calls without operands. Where
    `rules.math` is exact, folds only bit-exact results and leaves the rest to ONNX Runtime."""

    call = _folded(is_computational(_CALL)).inexact("computes what ONNX Runtime does with its optimizations off").eager()
    exact = _folded(is_computational(_CALL), keeps_every_bit(_CALL)).eager()
    sizes = (_SIZES >> value(elements_of(_SIZES))).when(knows_all_elements(_SIZES)).eager()
    field = (_FIELD >> value(elements_of(_FIELD))).when(knows_all_elements(_FIELD)).eager()


class QuantizedFolding(RuleSet):
    """Replaces quantized calls whose operands are constants by constants (`FoldConstant{fold_qnn=True}`)."""

    call = _folded(is_quantized(_CALL)).inexact("rounds to integers").eager()


class TupleProjection(RuleSet):
    """Replaces the projection of a tuple by its field."""

    field = (term((*before, y, *behind))[before] >> y).eager()


@computed
def static_attrs(name: str, operands: tuple[Term, ...], attrs: Attrs) -> AnyValue:
    """The attributes of the equivalent static operator. Rejects calls with unknown operands."""
    form = static_form(name, [x.type_ for x in operands], [x.known_value for x in operands], attrs, [x.constant for x in operands])
    if form is None:
        raise Reject(_why_dynamic(name, operands))
    return form.attrs


def _why_dynamic(name: str, operands: Sequence[Term]) -> str:
    """Why a call has no static form: the operands that are not, or only partly, known."""
    unknown, partly = [], []
    for label, x in zip(get_op(name).operand_names[1:], operands[1:], strict=False):  # an operator of ONNX has no names of operands
        if x.constant is None and x.known is None:
            unknown.append(label)
        elif x.known is not None and any(not isinstance(element, int) for element in x.known):
            partly.append(f"{label} is {x.known}")
    if unknown:
        return f"unknown before run time: {' and '.join(unknown)} of {name}"
    where = f"if {' and '.join(partly)}" if partly else "for these operands"
    return f"{name} has no static form {where}"


class DynamicToStatic(RuleSet):
    """Replaces operators that take a shape, bounds or repeats as a tensor by their static forms, where shape arithmetic knows the
    values."""

    reshape = (op.dyn.reshape(x, y, attrs=a) >> op.reshape(x, attrs=static_attrs("dyn.reshape", (x, y), a))).eager()
    broadcast_to = (op.dyn.broadcast_to(x, y) >> op.broadcast_to(x, attrs=static_attrs("dyn.broadcast_to", (x, y), _NONE))).eager()
    full = (op.dyn.full(x, y, attrs=a) >> op.full(x, attrs=static_attrs("dyn.full", (x, y), a))).eager()
    strided_slice = (
        op.dyn.strided_slice(x, y, z, v, w) >> op.strided_slice(x, attrs=static_attrs("dyn.strided_slice", (x, y, z, v, w), _NONE))
    ).eager()
    tile = (op.dyn.tile(x, y) >> op.tile(x, attrs=static_attrs("dyn.tile", (x, y), _NONE))).eager()
    pad = (op.dyn.pad(x, y, z, attrs=a) >> op.nn.pad(x, attrs=static_attrs("dyn.pad", (x, y, z), a))).eager()
    one_hot = (op.dyn.one_hot(x, y, z, v, attrs=a) >> op.one_hot(x, z, v, attrs=static_attrs("dyn.one_hot", (x, y), a))).eager()
    topk = (op.dyn.topk(x, y, attrs=a) >> op.topk(x, attrs=static_attrs("dyn.topk", (x, y), a))).eager()
    cast_like = (op.onnx.CastLike(x, y) >> op.cast(x, attrs=static_attrs("onnx.CastLike", (x, y), _NONE))).eager()


def values_of(whole: CallTerm) -> list[Value]:
    """The operands' values; all are constants."""
    return [value for value in whole.values if value is not None]


def _bytes(type_: Type) -> float | None:
    """The size of a value of the type in bytes; None if a dimension is unknown."""
    sizes = [part.nbytes if isinstance(part, TensorType) and part.is_static else None for part in leaves(type_)]
    return None if None in sizes else math.fsum(size for size in sizes if size is not None)


def _bytes_of(values: Sequence[Value]) -> int:
    """The bytes that values take in a file: 0 for a splat."""
    return sum(0 if tensor.is_splat else tensor.nbytes for tensor in tensors_in(values))

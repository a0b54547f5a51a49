"""Rules for rows: calls on stacks of rows, [batch, sequence, hidden], as calls on matrices, [batch * sequence, hidden]. By these rules
certificates prove what the pass CollapseBatchDims, a walk, did. No pass runs them.

Operators: nn.matmul nn.layer_norm nn.rms_norm split reshape dyn.reshape shape_of, reductions, and elementwise operators of one and two
operands.
"""

from typing import Any as AnyValue

from passat.ir.attrs import Attrs
from passat.ir.shape import same_dims
from passat.rules.guards import Term, computed, guard, is_axis
from passat.rules.holes import cases, operator, tensors_of
from passat.rules.library.commuting import f
from passat.rules.library.products import is_matrix
from passat.rules.passes.collapse_batch_dims import leading_sizes, matrix_shape
from passat.rules.pattern import Pattern, attributes, op, tensors
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSet

x, y, w = tensors("x y w")
p, a, e = attributes("p a e")


@guard
def is_stack_of_rows(x: Term) -> bool | str:
    """The tensor has at least three dimensions, no unknown sizes without a name, and rows of known size."""
    return leading_sizes(x.type) is not None or f"{x.type!r} is not a stack of rows of known size"


@computed
def rows_of(x: Term) -> tuple[int, int]:
    """The newshape that collapses a stack of rows to a matrix, with static sizes if all are known."""
    return matrix_shape(x.type.shape)


@guard
def stacks_alike(x: Term, y: Term) -> bool | str:
    """Both tensors are stacks of rows with the same leading sizes."""
    sizes, others = leading_sizes(x.type), leading_sizes(y.type)
    alike = sizes is not None and others is not None and same_dims(tuple(sizes), tuple(others))
    return alike or f"{y.type!r} is not a stack like {x.type!r}"


@guard
def is_one_row(y: Term, x: Term) -> bool | str:
    """The tensor is a scalar, a vector or a matrix of one row."""
    return (y.type.ndim <= 2 and all(size == 1 for size in y.type.shape[:-1])) or f"{y.type!r} is not one row for {x.type!r}"


@guard
def is_last_axis(axis: AnyValue, x: Term) -> bool | str:
    """The reduction is over the last axis alone."""
    axes = (axis,) if isinstance(axis, int) else axis
    if not isinstance(axes, tuple) or len(axes) != 1:
        return f"axis={axis} is not only the last axis"
    return axes[0] % x.type.ndim == x.type.ndim - 1 or f"axis={axis} is not the last axis of {x.type!r}"


@guard
def cuts_rows(attrs: Attrs, x: Term) -> bool | str:
    """The split is along the last axis."""
    return attrs.axis % x.type.ndim == x.type.ndim - 1 or f"axis={attrs.axis} is not the last axis of {x.type!r}"


@computed
def cut_places(attrs: Attrs) -> int | tuple[int, ...]:
    """The positions where a split cuts."""
    found: int | tuple[int, ...] = attrs.indices_or_sections
    return found


def _rows(x: Pattern) -> Pattern:
    return op.reshape(x, newshape=rows_of(x))


def _on_rows(whole: Pattern, flat: Pattern) -> Rule:
    """The call on the matrix of the rows of x instead of the stack, with the shape restored."""
    return (whole >> op.dyn.reshape(flat, op.shape_of(whole), allowzero=True)).when(is_stack_of_rows(x)).exploring()


g = operator("g", elementwise=True, arity=2, but=("nn.prelu",))
reduction = operator("reduction", "sum", "mean", "max", "min")
operand = cases("operand", "stack", "row", "row_first")
params = tensors_of("params", most=2)
norm = operator("norm", "nn.layer_norm", "nn.rms_norm")
part = cases("part", "first", "second", "third")
_PART = part(first=0, second=1, third=2)


class StackedRows(RuleSet):
    """Calls on stacks of rows as calls on matrices."""

    elementwise = _on_rows(f(x, attrs=a), f(_rows(x), attrs=a))
    arithmetic = (
        _on_rows(
            operand(stack=g(x, y, attrs=a), row=g(x, y, attrs=a), row_first=g(y, x, attrs=a)),
            operand(stack=g(_rows(x), _rows(y), attrs=a), row=g(_rows(x), y, attrs=a), row_first=g(y, _rows(x), attrs=a)),
        )
        .when(*operand.only("stack", stacks_alike(x, y)), *operand.only("row row_first", is_one_row(y, x)))
        .inexact("the order of operands decides which zero is the maximum or minimum of two zeros")
    )
    reductions = _on_rows(
        reduction(x, axis=p, keepdims=True, exclude=False), reduction(_rows(x), axis=(-1,), keepdims=True, exclude=False)
    ).when(is_last_axis(p, x))
    product = _on_rows(x @ w, _rows(x) @ w).when(is_matrix(w)).inexact("a product of another shape may accumulate in another order")
    normalized = _on_rows(norm(x, *params, attrs=e, axis=p), norm(_rows(x), *params, attrs=e, axis=-1)).when(is_axis(p, -1, x))
    parts = _on_rows(op.split(x, attrs=a)[_PART], op.split(_rows(x), indices_or_sections=cut_places(a), axis=-1)[_PART]).when(
        cuts_rows(a, x)
    )

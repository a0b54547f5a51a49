"""Gradients of products of matrices and of biases."""

import math
from collections.abc import Sequence

from passat.ir.expr import Call, Expr, Tuple
from passat.ir.gradients.adjoints import field_of, reshaped
from passat.ir.gradients.elementwise import scalar
from passat.ir.gradients.registry import GradientError, built_in
from passat.ir.infer import infer_type
from passat.ir.op import call_op, get_op
from passat.ir.ops.einsum import as_equation, labels_of
from passat.ir.types import TupleType, tensor_type


@built_in("nn.dense")
def dense_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """g W and g' x, where the result is x W'."""
    data, weight = call.args
    type_ = tensor_type(data.checked_type)
    rows = math.prod(type_.concrete_shape[:-1]) if type_.is_static else -1
    first, second = (grad, data) if type_.ndim == 2 else (reshaped(grad, (rows, _last(grad))), reshaped(data, (rows, _last(data))))
    return [
        call_op("nn.dense", grad, call_op("transpose", weight)),
        call_op("nn.dense", call_op("transpose", first), call_op("transpose", second)),
    ]


def _last(value: Expr) -> int:
    size = tensor_type(value.checked_type).shape[-1]
    assert isinstance(size, int)  # the inner size of a weight
    return size


@built_in("nn.matmul", "nn.batch_matmul")
def product_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The product of the gradient with the other operand, each in the orientation of the call, summed over broadcast axes."""
    a, b = call.args
    left, right = call.attrs.transpose_a, call.attrs.transpose_b
    of_a = _product(call, b, grad, right, True) if left else _product(call, grad, b, False, not right)
    of_b = _product(call, grad, a, True, left) if right else _product(call, a, grad, not left, False)
    return [call_op("collapse_sum_like", of_a, a), call_op("collapse_sum_like", of_b, b)]


def _product(call: Call, a: Expr, b: Expr, transpose_a: bool, transpose_b: bool) -> Expr:
    ranks = [tensor_type(type_).ndim for type_ in (call.checked_type, *(arg.checked_type for arg in call.args))]
    if min(ranks) < 2:
        raise GradientError(f"the gradient of {call.op!r} supports only operands with at least 2 dimensions")
    if call.op.same_as(get_op("nn.batch_matmul")) or max(ranks) == 2:
        return Call(call.op, [a, b], {"transpose_a": transpose_a, "transpose_b": transpose_b})
    sides = [_turned(value) if turn else value for value, turn in ((a, transpose_a), (b, transpose_b))]
    return call_op("nn.matmul", *sides)


def _turned(matrices: Expr) -> Expr:
    """Transposes the last two axes."""
    rank = tensor_type(matrices.checked_type).ndim
    return call_op("transpose", matrices, axes=(*range(rank - 2), rank - 1, rank - 2))


@built_in("einsum")
def einsum_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """For each operand the sum with the gradient in its place and the labels of the result and the operand exchanged."""
    (data,) = call.args
    assert isinstance(data.checked_type, TupleType)  # of a type-checked call
    operands = [field_of(data, i) for i in range(len(data.checked_type.fields))]
    types = [tensor_type(field) for field in data.checked_type.fields]
    terms, result = labels_of(call.attrs.equation, tuple(type_.ndim for type_ in types))
    found: list[Expr] = []
    for i, (operand, term) in enumerate(zip(operands, terms, strict=True)):
        if len(set(term)) != len(term):
            raise GradientError(
                f"the gradient of einsum supports only operands without repeated labels, but {call.attrs.equation!r} has one"
            )
        rest = [j for j in range(len(operands)) if j != i]
        others = [(grad, result), *((operands[j], terms[j]) for j in rest)]
        shapes = [tensor_type(call.checked_type).shape, *(types[j].shape for j in rest)]
        sizes = {pair for (_, labels), shape in zip(others, shapes, strict=True) for pair in zip(labels, shape, strict=True)}
        if not {*zip(term, types[i].shape, strict=True)} <= sizes:
            others.append((call_op("ones_like", operand), term))  # for labels that the others do not have in this size
        equation = as_equation([labels for _, labels in others], term)
        found.append(call_op("collapse_sum_like", call_op("einsum", Tuple([value for value, _ in others]), equation=equation), operand))
    return [Tuple(found)]


@built_in("contrib.fused_matmul")
def fused_matmul_gradient(call: Call, grad: Expr) -> Sequence[Expr | None]:
    """As for nn.matmul, with the factor `alpha`."""
    attrs = call.attrs
    plain = call_op("nn.matmul", *call.args, transpose_a=attrs.transpose_a, transpose_b=attrs.transpose_b)
    plain._checked_type = call.checked_type
    return product_gradient(plain, infer_type(grad * scalar(attrs.alpha, call)))


@built_in("nn.bias_add")
def bias_add_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient, and for the bias its sum over all other axes."""
    return [grad, _all_but(grad, call)]


def _all_but(grad: Expr, call: Call) -> Expr:
    rank = tensor_type(call.checked_type).ndim
    axis = call.attrs.axis % rank
    others = tuple(i for i in range(rank) if i != axis)
    return call_op("sum", grad, axis=others) if others else grad

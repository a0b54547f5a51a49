"""Products of the rows of a stack: Gemm between reshapes, as exporters write a linear layer on sequences."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from passat.ir.aligned_axes import Place
from passat.ir.analysis import is_call_of
from passat.ir.expr import Call, Expr
from passat.ir.op import get_op
from passat.ir.shape import same_dim, same_dims
from passat.ir.types import tensor_type

RESHAPES: Final = ("reshape", "dyn.reshape")


@dataclass(frozen=True, eq=False)
class ProductOfRows:
    """A product with the rows of a stack as a matrix, maybe with a bias, whose result is reshaped to a stack."""

    stack: Expr
    matrix: Expr
    """The rows."""
    calls: tuple[Call, ...]
    """The product, and the addition of the bias."""

    @property
    def operands(self) -> Sequence[Expr]:
        """The stack, the weight, and the bias."""
        return (self.stack, *(call.args[1] for call in self.calls))

    def of_others(self, parts: Sequence[Expr]) -> Expr:
        """The same on other operands, of which the first one is a stack, without reshapes."""
        made = parts[0]
        for call, operand in zip(self.calls, parts[1:], strict=True):
            if call.op is get_op("nn.bias_add"):
                made = Call(get_op("add"), (made, operand), span=call.span)
            elif call.op is get_op("nn.dense"):
                turn, product = get_op("transpose"), get_op("nn.matmul")
                weight = Call(turn, (operand,), turn.bind_attrs({"axes": (1, 0)}))
                made = Call(product, (made, weight), product.bind_attrs({}), span=call.span)
            else:
                made = Call(call.op, (made, operand), call.attrs, span=call.span)
        return made


def product_of_rows(node: Expr, place: Place, users: Counter[int]) -> ProductOfRows | None:
    """The product behind a reshape to a stack of which rows are selected, if nothing else reads the product."""
    calls = _between_reshapes(node)
    if not calls or any(users[id(call)] > 1 for call in calls):
        return None
    product, matrix = calls[0], calls[0].args[0]
    assert isinstance(matrix, Call)
    stack = matrix.args[0]
    result, whole, rows, flat, weight = (tensor_type(part.checked_type) for part in (node, stack, matrix, product, product.args[1]))
    if not same_dims(result.shape[:-1], whole.shape[:-1]) or max(place.axis, place.batch or 0) == result.ndim - 1:
        return None
    is_dense = product.op is get_op("nn.dense")  # its weight is transposed
    if (not is_dense and product.attrs.transpose_a) or not rows.ndim == flat.ndim == weight.ndim == 2:
        return None
    width = weight.shape[1 if is_dense or product.attrs.transpose_b else 0]
    are_rows = isinstance(width, int) and width and same_dim(whole.shape[-1], width) and same_dim(result.shape[-1], flat.shape[1])
    if not are_rows or any(flat.axis(call.attrs.axis) != 1 for call in calls[1:]):
        return None
    return ProductOfRows(stack, matrix, calls)


def _between_reshapes(node: Expr) -> tuple[Call, ...]:
    """The calls between two reshapes, the later of which is given: a product, and a bias that is added to it; none for other nodes."""
    if not is_call_of(node, *RESHAPES):
        return ()
    last = node.args[0]
    calls: tuple[Call, ...] = ()
    if is_call_of(last, "nn.bias_add"):
        calls, last = (last,), last.args[0]
    return (last, *calls) if is_call_of(last, "nn.matmul", "nn.dense") and is_call_of(last.args[0], *RESHAPES) else ()

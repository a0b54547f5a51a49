"""Products and their surroundings. Operators: nn.matmul nn.bias_add add reshape and elementwise operators between reshapes."""

from passat.rules.conditions import Term, condition
from passat.rules.pattern import attributes, constants, op, tensors
from passat.rules.rule import RuleSet

x, y, z = tensors("x y z")
w, b, c = constants("w b c")
a, e = attributes("a e")


@condition
def is_row_bias(b: Term, product: Term) -> bool | str:
    """A vector as long as the rows of a matrix."""
    if product.type.ndim != 2:
        return f"{product.type!r} is no matrix"
    return b.type.shape == product.type.shape[1:] or f"{b.type!r} is no bias of {product.type!r}"


@condition
def keeps_rows(x: Term, flat: Term) -> bool | str:
    """The reshape only merges leading axes: rows stay rows."""
    return (x.type.ndim >= 2 and flat.type.ndim == 2 and x.type.shape[-1] == flat.type.shape[-1]) or (
        f"{flat.type!r} does not have the rows of {x.type!r}"
    )


class Products(RuleSet):
    """Matrix products with biases, and the reshapes around them that exist only to make matrices."""

    bias = (op.nn.matmul(x, y, attrs=a) + b >> op.nn.bias_add(op.nn.matmul(x, y, attrs=a), b, axis=-1)).when(
        is_row_bias(b, op.nn.matmul(x, y, attrs=a))
    )
    unflatten_biased = (
        op.reshape(op.nn.bias_add(op.nn.matmul(op.reshape(x), w, transpose_a=False, transpose_b=False), b)) >> op.nn.matmul(x, w) + b
    ).when(keeps_rows(x, op.reshape(x)))
    unflatten = (op.reshape(op.nn.matmul(op.reshape(x), w, transpose_a=False, transpose_b=False)) >> op.nn.matmul(x, w)).when(
        keeps_rows(x, op.reshape(x))
    )

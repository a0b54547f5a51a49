"""Products and their surroundings. Operators: nn.matmul nn.bias_add add reshape and elementwise operators between reshapes."""

import math

from passat.rules.conditions import Refuse, Term, computed, condition, is_float, shape_of
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


@condition
def is_matrix(w: Term) -> bool | str:
    """The weight is a matrix."""
    return w.type.ndim == 2 or f"{w.type!r} is no matrix"


@condition
def is_vector_of(b: Term, w: Term) -> bool | str:
    """The constant is a vector as long as the rows of the weight."""
    return b.type.shape == w.type.shape[1:] or f"{b.type!r} is no bias of a product by {w.type!r}"


@computed
def rows(w: Term) -> tuple[int, ...]:
    """The newshape that makes a matrix for a weight."""
    size = w.type.shape[0]
    if not isinstance(size, int):
        raise Refuse(f"{w.type!r} is not static")
    return (-1, size)


_VIEWED = op.reshape(op.nn.matmul(op.reshape(x), w, transpose_a=False, transpose_b=False) + b)


class Products(RuleSet):
    """Matrix products with biases, and the reshapes around them that exist only to make matrices."""

    bias = (op.nn.matmul(x, y, attrs=a) + b >> op.nn.bias_add(op.nn.matmul(x, y, attrs=a), b, axis=-1)).when(
        is_row_bias(b, op.nn.matmul(x, y, attrs=a))
    )
    unflatten_biased = (
        op.reshape(op.nn.bias_add(op.nn.matmul(op.reshape(x), w, transpose_a=False, transpose_b=False), b)) >> op.nn.matmul(x, w) + b
    ).when(keeps_rows(x, op.reshape(x)))
    flatten_biased = (
        _VIEWED >> op.reshape(op.nn.bias_add(op.nn.matmul(op.reshape(x, newshape=rows(w)), w), b, axis=-1), newshape=shape_of(_VIEWED))
    ).when(is_matrix(w), is_vector_of(b, w))
    unflatten = (op.reshape(op.nn.matmul(op.reshape(x), w, transpose_a=False, transpose_b=False)) >> op.nn.matmul(x, w)).when(
        keeps_rows(x, op.reshape(x))
    )


@condition
def is_scalar(c: Term, x: Term) -> bool | str:
    """The constant has one element and does not add axes to what it meets."""
    return (c.type.size == 1 and c.type.ndim <= x.type.ndim) or f"{c.type!r} is not one number"


@condition
def is_power_of_two(c: Term) -> bool | str:
    """Dividing by the number and multiplying by its reciprocal are the same, bit for bit."""
    value = c.value().uniform()
    return (value is not None and abs(math.frexp(float(value))[0]) == 0.5) or f"{value} is no power of two"


@condition
def is_product_bias(b: Term, x: Term) -> bool | str:
    """The constant is a vector along the last axis."""
    return (b.type.ndim == 1 and b.type.shape == x.type.shape[-1:]) or f"{b.type!r} is no bias of {x.type!r}"


@computed
def no_axes(c: Term) -> tuple[int, ...]:
    """The newshape of a scalar."""
    return ()


class Scales(RuleSet):
    """A product with one number moves through views towards the weights of the product before it, where it costs nothing."""

    through_reshape = (op.reshape(x, attrs=a) * c >> op.reshape(x * op.reshape(c, newshape=no_axes(c)), attrs=a)).when(
        is_scalar(c, op.reshape(x, attrs=a))
    )
    through_transpose = (op.transpose(x, attrs=a) * c >> op.transpose(x * op.reshape(c, newshape=no_axes(c)), attrs=a)).when(
        is_scalar(c, op.transpose(x, attrs=a))
    )
    division = (x / c >> x * (1.0 / c)).when(is_scalar(c, x), is_float(x), is_power_of_two(c))
    through_sum = ((x + b) * c >> x * c + b * c).when(is_scalar(c, x + b), is_product_bias(b, x)).exploring().inexact("distributes")
    into_weight = (op.nn.matmul(x, w, attrs=a) * c >> op.nn.matmul(x, w * c, attrs=a)).when(is_scalar(c, w)).inexact("scales the weights")

"""Operators that look at the same elements in another shape, casts, and tensors of one value repeated, or made like others. Operators:
reshape expand_dims squeeze nn.batch_flatten transpose cast broadcast_to tile concatenate strided_slice nn.pad split zeros_like ones_like
full_like full zeros ones, arithmetic on them, cast_like reshape_like broadcast_to_like collapse_sum_like.

Relay's SimplifyExpr: the Concretize...Like rewrites, FullElementwise, and the part of EliminateIdentity that knows `zeros(...)` and
`ones(...)` are `Fills`.
"""

from typing import Any as AnyValue
from typing import Final

from passat.ir.attrs import Attrs
from passat.ir.bounds import at_least
from passat.ir.dtypes import FLOATS, INTEGERS, to_numpy
from passat.ir.ops.like import collapsed_axes
from passat.ir.ops.movement import is_reshaping_permutation
from passat.ir.ops.newshape import is_identity_reshape, static_newshape
from passat.ir.ops.slicing import compose_slices, is_identity_slice
from passat.ir.types import TupleType
from passat.rules.case_hole import CaseHole, cases
from passat.rules.conditions import Refuse, Term, compose, computed, condition, dtype_of, is_float, is_identity, same_type, shape_of
from passat.rules.operator_hole import operator
from passat.rules.pattern import AttrHole, Pattern, attributes, op, tensors
from passat.rules.rule import RuleSet

x, y, z = tensors("x y z")
a, b, p, q, t, u = attributes("a b p q t u")


@condition
def keeps_shape(x: Term, whole: Term) -> bool | str:
    """The view has the shape of what it looks at."""
    return is_identity_reshape(x.type, whole.type) or f"{whole.type!r} is not certainly {x.type!r}"


@computed
def new_shape(x: Term, whole: Term, *given: tuple[int, ...]) -> tuple[int, ...]:
    """The `newshape` of the reshape from one type to another. Refuses where sizes are unknown in more than one place, and where it
    would count elements (-1) that may be none, unless a `newshape` that was `given` counts them already."""
    attrs = static_newshape(x.type.shape, whole.type.shape)
    if attrs is None or attrs["allowzero"]:
        raise Refuse(f"no reshape of {x.type!r} is certain to give {whole.type!r}")
    newshape: tuple[int, ...] = tuple(attrs["newshape"])
    if -1 in newshape:
        others = [dim for dim, entry in zip(whole.type.shape, newshape, strict=True) if entry != -1]
        certain = all(at_least(dim, 1) for dim in others) or any(-1 in entries for entries in given)
        if not certain or 0 in x.type.shape:
            raise Refuse(f"{x.type!r} may be empty")
    return newshape


VIEWS: Final = ("reshape", "expand_dims", "squeeze", "flatten")
outer, inner = cases("outer", *VIEWS), cases("inner", *VIEWS)


def _view(kind: CaseHole, of: Pattern, newshape: AttrHole | None = None) -> Pattern:
    reshape = op.reshape(of, ...) if newshape is None else op.reshape(of, ..., newshape=newshape)
    return kind(reshape=reshape, expand_dims=op.expand_dims(of, ...), squeeze=op.squeeze(of, ...), flatten=op.nn.batch_flatten(of, ...))


_ONE, _PAIR = _view(outer, x), _view(outer, _view(inner, x, newshape=q), newshape=p)
_GIVEN = [kind(reshape=hole, expand_dims=(), squeeze=(), flatten=()) for kind, hole in ((outer, p), (inner, q))]


class Views(RuleSet):
    """Views of views: reshapes, new axes, dropped axes and flattenings that meet become one reshape, or nothing."""

    to_same = (_ONE >> x).when(keeps_shape(x, _ONE))
    fuse = _PAIR >> op.reshape(x, newshape=new_shape(x, _PAIR, *_GIVEN))


@computed
def composed_axes(inner: Attrs, outer: Attrs, x: Term) -> tuple[int, ...]:
    """The positions, in the result, of all axes that two expand_dims put in."""
    from passat.ir.ops.reshaping import new_axes

    rank = x.type.ndim
    first = new_axes(rank, inner.axis, inner.num_newaxis)
    then = new_axes(rank + len(first), outer.axis, outer.num_newaxis)
    source = iter(range(rank + len(first)))
    return tuple(place for place in range(rank + len(first) + len(then)) if place in then or next(source) in first)


class NewAxes(RuleSet):
    """New axes put in twice go in at once, whatever the sizes are."""

    merge = op.expand_dims(op.expand_dims(x, attrs=a), attrs=b) >> op.expand_dims(x, axis=composed_axes(a, b, x))


@condition
def is_view(axes: AnyValue, x: Term) -> bool | str:
    """The transpose moves no axis of more than one element past another."""
    return (
        is_reshaping_permutation(x.type.shape, axes or tuple(reversed(range(x.type.ndim)))) or f"axes={axes} moves elements of {x.type!r}"
    )


class Transposes(RuleSet):
    """Transposes that meet, merge or vanish."""

    merge = op.transpose(op.transpose(x, axes=p), axes=q) >> op.transpose(x, axes=compose(p, q, x))
    drop = (op.transpose(x, axes=p) >> x).when(is_identity(p, x))


@condition
def same_cast(x: Term, dtype: str) -> bool | str:
    """The cast is to the element type that the tensor has."""
    return x.type.dtype == dtype or f"casts {x.type.dtype} to {dtype}"


@condition
def loses_nothing(x: Term, through: str) -> bool | str:
    """Every value of the tensor's element type is a value of the type it is cast through."""
    source = x.type.dtype
    reason = f"{through} does not hold every {source}"
    if source in (through, "bool"):
        return True
    if source in INTEGERS and through in INTEGERS:
        signed = source.startswith("int")
        bits, room = int(source.strip("uint")), int(through.strip("uint"))
        return (room >= bits if signed == through.startswith("int") else not signed and room > bits) or reason
    if source in FLOATS and through in FLOATS:
        wider = {"float16": ("float32", "float64"), "bfloat16": ("float32", "float64"), "float32": ("float64",)}
        return through in wider.get(source, ()) or reason
    if source in INTEGERS and through in ("float32", "float64"):
        return int(source.strip("uint")) <= (16 if through == "float32" else 32) or reason
    return f"{reason} ({to_numpy(source)})"


class Casts(RuleSet):
    """Casts that do nothing, and casts through a type that loses nothing."""

    same = (op.cast(x, dtype=t) >> x).when(same_cast(x, t))
    chain = (op.cast(op.cast(x, dtype=t), dtype=u) >> op.cast(x, dtype=u)).when(loses_nothing(x, t))


@condition
def is_whole(attrs: Attrs, x: Term) -> bool | str:
    """The slice takes everything."""
    return is_identity_slice(x.type, attrs) or f"takes a part of {x.type!r}"


@computed
def sliced_twice(inner: Attrs, outer: Attrs, x: Term, part: str) -> AnyValue:
    """A parameter of the one slice that does what two do. Refuses where the sizes do not tell."""
    found = compose_slices(x.type.shape, inner, outer)
    if found is None:
        raise Refuse(f"the slices do not compose on {x.type!r}")
    return found[part]


class Slices(RuleSet):
    """Slices of everything, and slices of slices."""

    whole = (op.strided_slice(x, attrs=a) >> x).when(is_whole(a, x))
    merge = op.strided_slice(op.strided_slice(x, attrs=a), attrs=b) >> op.strided_slice(
        x,
        begin=sliced_twice(a, b, x, "begin"),
        end=sliced_twice(a, b, x, "end"),
        strides=sliced_twice(a, b, x, "strides"),
        axes=sliced_twice(a, b, x, "axes"),
    )


@condition
def pads_nothing(width: AnyValue) -> bool | str:
    """All paddings are zero."""
    flat = [side for pair in width for side in (pair if isinstance(pair, tuple) else (pair,))]
    return not any(flat) or f"pads by {width}"


@condition
def one_part(x: Term, whole: Term) -> bool | str:
    """The split has one part."""
    return (isinstance(whole.type_, TupleType) and len(whole.type_.fields) == 1) or "splits into several parts"


class Copies(RuleSet):
    """Data movement that moves nothing."""

    concat_of_one = op.concatenate((x,), ...) >> x
    broadcast_to_same = (op.broadcast_to(x, ...) >> x).when(same_type(x, op.broadcast_to(x, ...)))
    tile_once = (op.tile(x, ...) >> x).when(same_type(x, op.tile(x, ...)))
    pad_nothing = (op.nn.pad(x, ..., pad_width=p) >> x).when(pads_nothing(p))
    split_into_one = (op.split(x, attrs=a)[0] >> x).when(one_part(x, op.split(x, attrs=a)))


g = operator("g", "add", "multiply", "subtract", "divide")
_WIDE: Final = op.broadcast_to(x, ...)


class Broadcasts(RuleSet):
    """An operand that arithmetic would broadcast by itself need not be broadcast before."""

    left = (g(_WIDE, y) >> g(x, y)).when(same_type(g(x, y), g(_WIDE, y)))
    right = (g(y, _WIDE) >> g(y, x)).when(same_type(g(y, x), g(y, _WIDE)))


@computed
def summed_axes(x: Term, whole: Term) -> tuple[int, ...]:
    """The axes that are summed, of which there is one at least."""
    axes = collapsed_axes(x.type, whole.type)
    if not axes:
        raise Refuse(f"{x.type!r} is not summed to be {whole.type!r}")
    return axes


@computed
def full_shape(x: Term) -> tuple[int, ...]:
    """The shape of a tensor that has elements, all sizes known: 0 stands for another size in a newshape."""
    if not x.type.is_static or 0 in x.type.shape:
        raise Refuse(f"{x.type!r} is not static, or empty")
    return tuple(int(dim) for dim in x.type.shape)  # type: ignore[arg-type]  # static: all are integers


form = cases("form", "full", "full_like", "zeros", "ones", "zeros_like", "ones_like")
_FILLED: Final = form(
    full=op.full(y, ...),
    full_like=op.full_like(z, y),
    zeros=op.zeros(...),
    ones=op.ones(...),
    zeros_like=op.zeros_like(z),
    ones_like=op.ones_like(z),
)
_VALUE: Final = form(full=y, full_like=y, zeros=0, ones=1, zeros_like=0, ones_like=1)
filled = operator("f", "add", "multiply", "maximum", "minimum", "subtract")
filled_first = operator("g", "subtract", "divide")


class Fills(RuleSet):
    """Tensors of one value are made without the tensor that they are like, and arithmetic with one is arithmetic with its value."""

    zeros_like = op.zeros_like(x) >> op.zeros(shape=shape_of(x), dtype=dtype_of(x))
    ones_like = op.ones_like(x) >> op.ones(shape=shape_of(x), dtype=dtype_of(x))
    full_like = op.full_like(x, y) >> op.full(y, shape=shape_of(x))
    cast_like = op.cast_like(x, y) >> op.cast(x, dtype=dtype_of(y))
    reshape_like = op.reshape_like(x, y) >> op.reshape(x, newshape=new_shape(x, op.reshape_like(x, y)))
    broadcast_to_like = op.broadcast_to_like(x, y) >> op.broadcast_to(x, shape=shape_of(y))
    collapse_sum_like = (
        (
            op.collapse_sum_like(x, y)
            >> op.reshape(op.sum(x, axis=summed_axes(x, op.collapse_sum_like(x, y)), keepdims=True), newshape=full_shape(y))
        )
        .inexact("a sum of nothing but -0.0 is 0.0")
        .lowering()  # two operators for one that nothing else knows
    )
    collapse_nothing = (op.collapse_sum_like(x, y) >> x).when(same_type(x, op.collapse_sum_like(x, y)))
    right = (filled(x, _FILLED) >> filled(x, _VALUE)).when(same_type(x, filled(x, _FILLED)))
    left = (filled_first(_FILLED, x) >> filled_first(_VALUE, x)).when(same_type(x, filled_first(_FILLED, x)))
    # ONNX Runtime does not load a quotient by an integer 0, even where there is nothing to divide.
    divisor = (x / _FILLED >> x / _VALUE).when(same_type(x, x / _FILLED), *form.only("full full_like zeros zeros_like", is_float(x)))

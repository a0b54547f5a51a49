"""Converts `dyn.*` operators to operators with attributes if shape arithmetic knows the operands, and cast_like to cast."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any as AnyValue
from typing import Final, NamedTuple

from passat.ir.attrs import Attrs
from passat.ir.bounds import at_least
from passat.ir.op import Known, KnownValue
from passat.ir.ops.elementwise import PLAIN
from passat.ir.ops.newshape import reshaped, static_newshape
from passat.ir.ops.padding import PadValue, plain_value, zip_pads
from passat.ir.ops.slicing import END
from passat.ir.shape import Any, Dim, same_dim
from passat.ir.tensor import Tensor
from passat.ir.types import IncompleteType, TensorType, Type, tensor_type


class StaticForm(NamedTuple):
    """The equivalent operator, the operands it uses, and its non-default attributes."""

    op: str
    operands: tuple[int, ...]
    attrs: Mapping[str, AnyValue]


class _Operands:
    """The operands of a call: types, known elements, and constants."""

    def __init__(self, types: Sequence[Type], values: Sequence[KnownValue | None], constants: Sequence[Tensor | None]) -> None:
        self.types = types
        self.values = values
        self.constants = constants

    def type(self, index: int) -> TensorType:
        return tensor_type(self.types[index])

    def dims(self, index: int) -> list[Dim] | None:
        return Known(self.type(index), self.values[index]).dims()

    def ints(self, index: int) -> tuple[int, ...] | None:
        dims = self.dims(index)
        return (
            tuple(dim for dim in dims if isinstance(dim, int)) if dims is not None and all(isinstance(dim, int) for dim in dims) else None
        )

    def constant(self, index: int) -> Tensor | None:
        return self.constants[index] if index < len(self.constants) else None


def static_form(
    op: str,
    types: Sequence[Type],
    values: Sequence[KnownValue | None],
    attrs: Attrs,
    constants: Sequence[Tensor | None] = (),
) -> StaticForm | None:
    """Returns the equivalent call of an operator with attributes; None if too little is known, or for other operators.

    `types` and `values` are the types and known elements of the operands (`passat.ir.infer.known_value`); `constants` are the constant
    operands, which dyn.pad needs for its value. The form is valid for all values of the symbols, with the two exceptions of
    `passat.ir.ops.newshape`:

    * symbolic entries of a shape count as sizes;
    * a reshape without `allowzero` that needs -1 next to a copied symbolic size fails at run time if that size is 0, as it does in exported
      models.

    >>> import numpy as np
    >>> from passat.ir.shape import SymDim
    >>> n = SymDim.named("n")
    >>> shape = np.array([n, 12, 64], dtype=object)
    >>> static_form("dyn.reshape", [TensorType((n, 768)), TensorType((3,), "int64")], [None, shape], Attrs(allowzero=False))
    StaticForm(op='reshape', operands=(0,), attrs={'newshape': (0, 12, 64), 'allowzero': False})
    """
    find = _FORMS.get(op)
    if find is None or any(isinstance(type_, IncompleteType) for type_ in types):
        return None
    return find(_Operands(types, values, constants), attrs)


def _reshape(operands: _Operands, attrs: Attrs) -> StaticForm | None:
    shape, dims = operands.type(0).shape, operands.dims(1)
    if dims is None:
        return None
    copied = () if attrs["allowzero"] else [i for i, dim in enumerate(dims) if dim == 0]
    found = static_newshape(shape, reshaped(shape, dims, attrs["allowzero"]), copied)
    if found is None or (attrs["allowzero"] and {-1, 0} <= {*found["newshape"]}):
        return None  # sizes of 0 are explicit, and -1 next to one is invalid
    return StaticForm("reshape", (0,), found)


def _broadcast_to(operands: _Operands, attrs: Attrs) -> StaticForm | None:
    shape, dims = operands.type(0).shape, operands.dims(1)
    if dims is None:
        return None
    entries: list[int] = []
    for i, dim in enumerate(dims):
        size = shape[i - len(dims)] if i - len(dims) >= -len(shape) else 1
        if isinstance(dim, int):
            entries.append(dim)
        elif same_dim(size, dim) or (isinstance(size, int) and size != 1):
            entries.append(1)  # the entry must be 1 or the existing size
        else:
            return None
    return StaticForm("broadcast_to", (0,), {"shape": tuple(entries)})


def _full(operands: _Operands, attrs: Attrs) -> StaticForm | None:
    shape = operands.ints(1)
    return None if shape is None else StaticForm("full", (0,), {"shape": shape, "dtype": attrs["dtype"]})


def _strided_slice(operands: _Operands, attrs: Attrs) -> StaticForm | None:
    data = operands.type(0)
    begin, end, strides, axes = operands.dims(1), operands.dims(2), operands.ints(3), operands.ints(4)
    if begin is None or end is None or strides is None or axes is None:
        return None
    first = [_index(index, data.shape[axis]) for index, axis in zip(begin, axes, strict=True)]
    last = [_index(index, data.shape[axis], END if step > 0 else END - 1) for index, axis, step in zip(end, axes, strides, strict=True)]
    known = {"begin": tuple(i for i in first if i is not None), "end": tuple(i for i in last if i is not None)}
    if len(known["begin"]) != len(axes) or len(known["end"]) != len(axes):
        return None
    return StaticForm("strided_slice", (0,), {**known, "strides": strides, "axes": tuple(axis % data.ndim for axis in axes)})


def _index(index: Dim, size: Dim, beyond: int = END) -> int | None:
    """Returns the integer for the same position in an axis of that size, for all values of the symbols; `beyond` is one past the axis."""
    if isinstance(index, int):
        return index
    if isinstance(index, Any) or isinstance(size, Any):
        return None
    if at_least(index, size):
        return beyond
    back = index - size
    return back if isinstance(back, int) and back < 0 and at_least(index, 0) else None


def _tile(operands: _Operands, attrs: Attrs) -> StaticForm | None:
    reps = operands.ints(1)
    return None if reps is None else StaticForm("tile", (0,), {"reps": reps})


def _pad(operands: _Operands, attrs: Attrs) -> StaticForm | None:
    widths, mode = operands.ints(1), attrs["pad_mode"]
    value: PadValue | None = 0.0
    if mode == "constant":
        given, known = operands.constant(2), operands.ints(2)
        value = plain_value(given) if given is not None else None if known is None else known[0] or 0.0
    if widths is None or value is None or (mode != "constant" and min(widths, default=0) < 0):
        return None
    return StaticForm("nn.pad", (0,), {"pad_width": tuple(zip_pads(widths)), "pad_mode": mode, "pad_value": value})


def _one_hot(operands: _Operands, attrs: Attrs) -> StaticForm | None:
    depth = operands.ints(1)
    return None if depth is None else StaticForm("one_hot", (0, 2, 3), {"depth": depth[0], "axis": attrs["axis"], "dtype": attrs["dtype"]})


def _topk(operands: _Operands, attrs: Attrs) -> StaticForm | None:
    k = operands.ints(1)
    return None if k is None else StaticForm("topk", (0,), {"k": k[0], **attrs})


def _cast_like(operands: _Operands, attrs: Attrs) -> StaticForm | None:
    source, wanted = operands.types[:2]
    if not isinstance(source, TensorType) or not isinstance(wanted, TensorType) or not {source.dtype, wanted.dtype} <= PLAIN:
        return None
    return StaticForm("cast", (0,), {"dtype": wanted.dtype})


_FORMS: Final[Mapping[str, Callable[[_Operands, Attrs], StaticForm | None]]] = {
    "dyn.reshape": _reshape,
    "dyn.broadcast_to": _broadcast_to,
    "dyn.full": _full,
    "dyn.strided_slice": _strided_slice,
    "dyn.tile": _tile,
    "dyn.pad": _pad,
    "dyn.one_hot": _one_hot,
    "dyn.topk": _topk,
    "onnx.CastLike": _cast_like,
}
HAVE_STATIC_FORM: Final = frozenset(_FORMS)
"""The operators that `static_form` converts."""
ARE_STATIC_FORMS: Final = frozenset({"reshape", "broadcast_to", "full", "strided_slice", "tile", "nn.pad", "one_hot", "topk", "cast"})
"""The operators that `static_form` converts to."""

"""Random operands of quantized operators: integers in the shapes of the operator on real numbers, and constant scales and zero points."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from passat.ir.op import Op, find_op, get_op
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType, Type
from passat.rules.checking.attributes import Attributes, random_attributes
from passat.rules.checking.sampler import Sampler

_REAL: Final = {"qnn.mul": "multiply"}
Drawn = tuple[list[Type], Attributes, dict[int, Tensor]]
Real = Callable[[Op, Sequence[Type | None], Attributes, str], tuple[Sequence[Type], Attributes]]
"""Draws operand types and attributes of an operator on real numbers, for an element type."""


def fit_quantized(op: Op, known: Sequence[Type | None], fixed: Attributes, sampler: Sampler, real: Real) -> Drawn:
    """Types for the unknown operands of a quantized operator, attributes, and the values of scales and zero points."""
    places = [i for i, name in enumerate(op.operand_names) if not name.endswith(("scale", "scales", "zero_point", "zero_points"))]
    dtype = "float32" if op.name == "qnn.quantize" else "int8"
    given = [known[i] for i in places]
    drawn, attrs = real(_counterpart(op), given, {name: value for name, value in fixed.items() if name != "out_dtype"}, dtype)
    types: list[Type] = [type_ or TensorType((), "float32") for type_ in known]
    values: dict[int, Tensor] = {}
    for i, type_ in zip(places, drawn, strict=True):
        types[i] = known[i] or _of_dtype(type_, dtype)
    shape = tuple(dim if isinstance(dim, int) else 2 for dim in types[0].shape) if isinstance(types[0], TensorType) else ()
    own = random_attributes(op, shape, dtype, sampler)
    if op.name in ("qnn.quantize", "qnn.requantize"):
        own["out_dtype"] = sampler.pick(("int8", "int8", "int16", "int32"))
    attrs = {**own, **attrs, **fixed}
    axis = attrs.get("axis", -1)
    vector = (shape[axis],) if shape and isinstance(axis, int) and -len(shape) <= axis < len(shape) and sampler.chance(0.3) else ()
    for i, name in enumerate(op.operand_names):
        if i in places:
            continue
        number = np.float32(sampler.pick((0.5, 1.0, 0.25, 0.3))) if "scale" in name else np.int32(sampler.pick((0, 0, 1, -2)))
        if name.endswith("s") and isinstance(types[0], TupleType):
            whole = known[i]
            given_fields = whole.fields if isinstance(whole, TupleType) else [None] * len(types[0].fields)
            types[i] = TupleType([field if isinstance(field, TensorType) else TensorType((), number.dtype.name) for field in given_fields])
        elif known[i] is None:
            size = vector if "axis" in op.attr_params and (name.startswith("input") or op.name == "qnn.quantize") else ()
            types[i], values[i] = TensorType(size, number.dtype.name), Tensor.dense(np.full(size, number))
    return types, {name: value for name, value in attrs.items() if name in op.attr_params}, values


def _counterpart(op: Op) -> Op:
    """The operator on real numbers; `negative` for those that keep shapes."""
    name = op.name.removeprefix("qnn.")
    return find_op(_REAL.get(op.name, f"nn.{name}")) or find_op(name) or get_op("negative")


def _of_dtype(type_: Type, dtype: str) -> Type:
    if isinstance(type_, TupleType):
        return TupleType([_of_dtype(field, dtype) for field in type_.fields])
    assert isinstance(type_, TensorType)
    return type_.with_dtype(dtype)

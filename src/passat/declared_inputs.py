"""The inputs that a model declares, as ONNX Runtime shows them, and whether they are scalars, which it does not show."""

from typing import TYPE_CHECKING

from passat.feeds import InputSpec

if TYPE_CHECKING:
    from onnx import ModelProto, TensorShapeProto, TypeProto


def declared_inputs(model: "ModelProto") -> tuple[InputSpec, ...]:
    """The inputs that have to be given: those without a value of the model's own."""
    given = {tensor.name for tensor in model.graph.initializer} | {tensor.values.name for tensor in model.graph.sparse_initializer}
    return tuple(_spec(value.name, value.type) for value in model.graph.input if value.name not in given)


def _spec(name: str, type_: "TypeProto") -> InputSpec:
    from passat.ir.onnx.value_types import runtime_name  # which needs onnx

    shape = type_.tensor_type.shape if type_.WhichOneof("value") == "tensor_type" else None
    dims = () if shape is None else tuple(_dim(dim) for dim in shape.dim)
    return InputSpec(name, runtime_name(type_), dims, scalar=shape is not None and type_.tensor_type.HasField("shape") and not dims)


def _dim(dim: "TensorShapeProto.Dimension") -> int | str | None:
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else None
    return dim.dim_param or None

"""Specializes models: fixes the sizes of inputs, and removes outputs with the nodes that only they need."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any as AnyValue
from typing import Final

from onnx import GraphProto, ModelProto, NodeProto, TensorShapeProto, TypeProto, ValueInfoProto

from passat.ir.dim_text import declared_dim, is_name
from passat.ir.module import IRModule
from passat.ir.onnx.declared import settle
from passat.ir.onnx.exporter import result_fields
from passat.ir.onnx.scope import free_names, inner_graphs, inner_nodes, open_inputs, subgraphs
from passat.ir.onnx.value_types import text_of
from passat.ir.passat_error import PassatError
from passat.ir.shape import SymDim, names_in, replace_names
from passat.ir.similar_names import did_you_mean
from passat.ir.walks import reachable

Sizes = Mapping[str, int]
"""Sizes by dimension name."""
_UNNAMED: Final = ("", "?")


class SpecializeError(PassatError, ValueError):
    """A dimension, input or output does not exist, or a size contradicts the model. The message lists the alternatives."""

    exit_code = 2


def fix_sizes(model: ModelProto, dims: Sizes, shapes: Mapping[str, Sequence[int | None]]) -> None:
    """Fixes sizes in place. Named dimensions are fixed in every declared type, including subgraphs.

    `shapes` are shapes of inputs by name; None leaves a size unchanged. Raises SpecializeError.
    """
    inputs = {value.name: value for value in open_inputs(model.graph)}
    check_dims(dims, list(dict.fromkeys(name for value in inputs.values() for name in _names(value))))
    sizes = dict(dims)
    origins = {name: f"the dimension {name!r} is given the size {size}" for name, size in dims.items()}
    for name, shape in shapes.items():
        if name not in inputs:
            raise SpecializeError(f"the model has no input {name!r}; {_there_is('input', name, inputs)}")
        _name_sizes(inputs[name], shape, sizes, origins)
    _check_expressions(inputs.values(), sizes)
    for type_ in _types(model.graph):
        for dim in _dims(type_):
            _fix(dim, sizes)
    for name, shape in shapes.items():
        _set_shape(inputs[name], shape)


def _names(value: ValueInfoProto) -> list[str]:
    """The names of dimensions of an input."""
    named = [dim.dim_param for dim in _dims(value.type) if isinstance(dim.dim_param, str) and dim.dim_param not in _UNNAMED]
    return [name for text in named for name in names_in(declared_dim(text))]


def check_dims(dims: Iterable[str], known: Sequence[str]) -> None:
    """Raises SpecializeError for a dimension that is not among the known ones."""
    for name in dims:
        if name not in known:
            within = names_in(declared_dim(name))
            instead = (
                f", which is an expression: give {' and '.join(within)} a size instead" if within and set(within) <= set(known) else ""
            )
            raise SpecializeError(
                f"the model has no input with a dimension named {name!r}{instead}; {_there_is('named dimension', name, known)}"
            )


def _there_is(what: str, name: str, known: Iterable[str]) -> str:
    """Lists the existing names after an unknown name."""
    names = list(known)
    if not names:
        return f"the model has no {what}s"
    return f"its {what}s are {', '.join(names)}{did_you_mean(name, names, 1)}"


def settle_outputs(model: ModelProto, module: IRModule) -> None:
    """Declares the sizes of outputs that follow from fixed sizes, in a model in place, and when its module is written."""
    module.attrs["onnx"].settled = True
    for value, field in zip(model.graph.output, result_fields(module["main"].body), strict=False):
        settle(value.type, field.checked_type)


def _name_sizes(value: ValueInfoProto, shape: Sequence[int | None], sizes: dict[str, int], origins: dict[str, str]) -> None:
    """Adds the sizes that the shape of an input implies for named dimensions."""
    name = value.name
    if value.type.WhichOneof("value") not in ("tensor_type", None):
        raise SpecializeError(f"the input {name!r} is not a tensor and has no shape")
    if not value.type.tensor_type.HasField("shape"):
        return
    declared = value.type.tensor_type.shape.dim
    if len(declared) != len(shape):
        given = "1 size is" if len(shape) == 1 else f"{len(shape)} sizes are"
        raise SpecializeError(f"the input {name!r} has the shape {_show(value)}, but {given} given")
    for axis, (dim, size) in enumerate(zip(declared, shape, strict=True)):
        if size is None:
            continue
        if dim.HasField("dim_value") and dim.dim_value >= 0 and dim.dim_value != size:
            raise SpecializeError(f"the input {name!r} has the size {dim.dim_value} at axis {axis}, but {size} is given")
        if dim.dim_param not in _UNNAMED and is_name(dim.dim_param):
            if sizes.setdefault(dim.dim_param, size) != size:
                given = f"the input {name!r} is given the size {size} at axis {axis}, which is {dim.dim_param!r}"
                raise SpecializeError(f"{given}, but {origins[dim.dim_param]}")
            origins.setdefault(dim.dim_param, f"the input {name!r} is given the size {size} there")


def _check_expressions(inputs: Iterable[ValueInfoProto], sizes: Sizes) -> None:
    """Raises SpecializeError if a size would be negative, such as n - 4 for n = 1."""
    for value in inputs:
        for axis, dim in enumerate(_dims(value.type)):
            size = replace_names(declared_dim(dim.dim_param), sizes) if isinstance(dim.dim_param, str) and dim.dim_param else 0
            if isinstance(size, int) and size < 0:
                raise SpecializeError(
                    f"the input {value.name!r} would have the invalid size {size} at axis {axis}, which is {dim.dim_param}"
                )


def _set_shape(value: ValueInfoProto, shape: Sequence[int | None]) -> None:
    """Sets the sizes of an input that are not named: anonymous dimensions, expressions, and all of an unranked input."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        tensor.shape.dim.extend(TensorShapeProto.Dimension() for _ in shape)
        tensor.shape.SetInParent()
    for axis, (dim, size) in enumerate(zip(tensor.shape.dim, shape, strict=True)):
        if size is None:
            continue
        if dim.HasField("dim_value") and dim.dim_value >= 0 and dim.dim_value != size:
            raise SpecializeError(f"the input {value.name!r} has the size {dim.dim_value} at axis {axis}, but {size} is given")
        dim.dim_value = size


def _fix(dim: TensorShapeProto.Dimension, sizes: Sizes) -> None:
    text = dim.dim_param
    if isinstance(text, str) and text not in _UNNAMED and any(name in sizes for name in names_in(declared_dim(text))):
        size = replace_names(declared_dim(text), sizes)
        if isinstance(size, int):
            dim.dim_value = size
        elif isinstance(size, SymDim):
            dim.dim_param = text_of(size)


def _types(graph: GraphProto) -> Iterator[TypeProto]:
    """All declared types in a graph and its subgraphs."""
    nested = inner_graphs(attribute for node in graph.node for attribute in node.attribute)
    for each in (graph, *nested):
        for values in (each.input, each.output, each.value_info):
            yield from (value.type for value in values)


def _dims(type_: TypeProto) -> Iterator[TensorShapeProto.Dimension]:
    """The dimensions of a tensor, or of the tensors in a sequence or an optional."""
    kind = type_.WhichOneof("value")
    while kind in ("sequence_type", "optional_type"):
        type_ = getattr(type_, kind).elem_type
        kind = type_.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        yield from getattr(type_, kind).shape.dim


def _show(value: ValueInfoProto) -> str:
    dims = value.type.tensor_type.shape.dim
    return f"[{', '.join(str(dim.dim_value) if dim.HasField('dim_value') else dim.dim_param or '?' for dim in dims)}]"


def keep_outputs(model: ModelProto, names: Sequence[str]) -> None:
    """Keeps only these outputs of a model, in place and in the order of the model. Raises SpecializeError.

    Nodes, initializers, inputs and functions that are no longer used are removed.
    """
    graph = model.graph
    there = [value.name for value in graph.output]
    for name in names:
        if name not in there:
            raise SpecializeError(f"the model has no output {name!r}; {_there_is('output', name, there)}")
    read_before = _read(graph)
    _keep(graph.output, lambda value: value.name in names)
    needed = needed_names(graph, [value.name for value in graph.output])
    _keep(graph.node, lambda node: any(name in needed for name in node.output if name))
    _keep(graph.initializer, lambda tensor: tensor.name in needed)
    _keep(graph.sparse_initializer, lambda tensor: tensor.values.name in needed)
    _keep(graph.input, lambda value: value.name in needed or value.name not in read_before)
    made = {value.name for value in graph.input} | {name for node in graph.node for name in node.output}
    _keep(graph.value_info, lambda value: value.name in made)
    _keep(graph.quantization_annotation, lambda annotation: annotation.tensor_name in needed)
    _drop_functions(model)


def _read(graph: GraphProto) -> set[str]:
    """The names that the outputs and nodes of a graph read."""
    return {value.name for value in graph.output}.union(*(_operands(node) for node in graph.node))


def _operands(node: NodeProto) -> list[str]:
    """The names that a node reads, including its subgraphs."""
    return [*node.input, *(name for graph in subgraphs(node) for name in free_names(graph))]


def needed_names(graph: GraphProto, names: Iterable[str]) -> set[str]:
    """The names of the values of a graph that some values depend on, including these."""
    maker = {name: node for node in graph.node for name in node.output if name}
    return set(reachable(names, lambda name: _operands(maker[name]) if name in maker else ()))


def _drop_functions(model: ModelProto) -> None:
    """Removes local functions without callers."""
    by_name = {(function.domain, function.name): function for function in model.functions}
    called: set[tuple[str, str]] = set()
    pending = list(model.graph.node)
    while pending:
        node = pending.pop()
        pending += inner_nodes(node.attribute)
        key = (node.domain, node.op_type)
        if key in by_name and key not in called:
            called.add(key)
            pending += by_name[key].node
    _keep(model.functions, lambda function: (function.domain, function.name) in called)


def _keep(entries: AnyValue, wanted: Callable[[AnyValue], bool]) -> None:
    """Deletes unwanted entries of a repeated field."""
    for at in range(len(entries) - 1, -1, -1):
        if not wanted(entries[at]):
            del entries[at]

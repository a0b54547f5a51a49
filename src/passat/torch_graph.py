"""Graphs of TorchDynamo as ONNX programs: the weights inside the program, the sizes of its inputs computed from the inputs."""

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any as AnyValue
from typing import Final, TypeAlias

from passat.ir.passat_error import PassatError

Tensor = AnyValue
"""A `torch.Tensor`. torch is optional, so nothing here is typed by it."""
GraphModule = AnyValue
"""A `torch.fx.GraphModule`."""


class UnsupportedError(PassatError):
    """A graph that cannot run on ONNX Runtime. The message says why, without a subject: "it ..."."""


@dataclass(frozen=True)
class Split:
    """The arguments of a graph: `inputs` and `weights` are the places of the tensors that change from call to call, and of parameters and
    buffers."""

    inputs: tuple[int, ...]
    weights: tuple[int, ...]


PickOutputs: TypeAlias = Callable[[Sequence[AnyValue], Sequence[Tensor]], tuple[AnyValue, ...]]
"""Gets the arguments of a graph and the values that it computes, and returns its outputs in order."""


def split(graph: GraphModule, examples: Sequence[AnyValue]) -> Split:
    """Separates the weights from the inputs. Numbers are neither."""
    import torch

    inputs: list[int] = []
    weights: list[int] = []
    for place, (node, example) in enumerate(zip(_placeholders(graph), examples, strict=True)):
        if not isinstance(example, torch.Tensor):
            continue
        static = "_dynamo_static_input_type" in (node.meta.get("tensor_dict") or {})
        (weights if static or isinstance(example, torch.nn.Parameter) else inputs).append(place)
    return Split(tuple(inputs), tuple(weights))


def outputs_of(graph: GraphModule) -> PickOutputs:
    """How to assemble the outputs. Raises UnsupportedError for outputs that share memory, and for computed numbers."""
    import torch

    (found,) = graph.graph.find_nodes(op="output")[0].args
    places = {node: place for place, node in enumerate(_placeholders(graph))}
    owners: dict[AnyValue, AnyValue] = {_memory(node): node for node in places if _memory(node) is not None}
    computed: dict[AnyValue, int] = {}
    for node in found:
        if not isinstance(node, torch.fx.Node) or node in places or node in computed:
            continue
        if not isinstance(node.meta.get("example_value"), torch.Tensor):
            raise UnsupportedError("it returns a number that it computes from sizes")
        owner = owners.setdefault(_memory(node), node)
        if owner is not node:
            kind = "an argument" if owner in places else "another result"
            raise UnsupportedError(f"it returns a view of {kind} ({node.name})")
        computed[node] = len(computed)

    def pick(arguments: Sequence[AnyValue], values: Sequence[Tensor]) -> tuple[AnyValue, ...]:
        return tuple(
            node if not isinstance(node, torch.fx.Node) else arguments[places[node]] if node in places else values[computed[node]]
            for node in found
        )

    return pick


def export(graph: GraphModule, arguments: Sequence[AnyValue], places: Split) -> AnyValue:
    """The `torch.onnx.ONNXProgram` of a graph with its current weights. Raises UnsupportedError, and what torch raises."""
    import torch

    module, sizes = _closed(graph, arguments, places)
    tensors = tuple(arguments[place].clone() for place in places.inputs)  # the export would look up the base of a view
    if not tensors:
        raise UnsupportedError("it has no input, only weights")
    exported = torch.export.export(module, tensors, dynamic_shapes=sizes, strict=False)
    # Decomposed operators show what they write to, and whether they draw random numbers.
    functional = exported.run_decompositions({})
    if functional.graph_signature.buffers_to_mutate or functional.graph_signature.user_inputs_to_mutate:
        raise UnsupportedError("it changes its arguments, or buffers of the model")
    for node in functional.graph.nodes:
        if _is_random(node):
            raise UnsupportedError(f"it draws random numbers ({node.target})")
    with _quiet(logging.getLogger("torch.onnx")):
        program = torch.onnx.export(exported, dynamo=True, verbose=False)
    if program is None or len(program.model.graph.inputs) != len(tensors):
        raise UnsupportedError("its ONNX program has other inputs")
    return program


_SHARES: Final = ("dropout_p", "dropout", "p")
_SWITCHES: Final = ("train", "training")


def _is_random(node: AnyValue) -> bool:
    """True if a node draws random numbers; operators with dropout do so only if dropout is on."""
    import torch

    if not isinstance(node.target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in node.target.tags:
        return False
    arguments = node.target._schema.arguments
    given = {argument.name: argument.default_value for argument in arguments}
    given |= dict(zip([argument.name for argument in arguments], node.args, strict=False)) | node.kwargs
    return not (any(given.get(name) == 0 for name in _SHARES) or any(given.get(name) is False for name in _SWITCHES))


@contextlib.contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Silences messages of a logger below the level of errors."""
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _closed(graph: GraphModule, arguments: Sequence[AnyValue], places: Split) -> tuple[AnyValue, tuple[AnyValue, ...]]:
    """A module that takes only the inputs: weights are its parameters and buffers, and sizes are computed from the inputs. Also returns
    which dimensions of the inputs change from call to call, in the form that `torch.export` takes."""
    import torch

    copied, root = torch.fx.Graph(), torch.nn.Module()
    old = _placeholders(graph)
    moved: dict[AnyValue, AnyValue] = {old[place]: copied.placeholder(f"input_{place}") for place in places.inputs}
    for place in places.weights:
        name, weight = f"weight_{place}", arguments[place]
        if isinstance(weight, torch.nn.Parameter):
            root.register_parameter(name, weight)
        else:
            root.register_buffer(name, weight)
        moved[old[place]] = copied.get_attr(name)
    known = _sizes([old[place] for place in places.inputs])
    for node in old:
        if node not in moved and node.users:
            value = node.meta.get("example_value")
            if isinstance(value, int):
                moved[node] = value
                continue
            if str(value) not in known:
                raise UnsupportedError(f"it has an argument that is a number and changes from call to call ({node.name})")
            tensor, axis = known[str(value)]
            moved[node] = copied.call_function(torch.ops.aten.sym_size.int, (moved[tensor], axis))
    for node in graph.graph.nodes:
        if node.op == "output":
            kept = [each for each in dict.fromkeys(node.args[0]) if isinstance(each, torch.fx.Node) and each.op != "placeholder"]
            copied.output(tuple(moved[each] for each in kept))
        elif node.op != "placeholder":
            moved[node] = copied.node_copy(node, moved.__getitem__)
            moved[node].meta = {}  # it describes tensors of another trace
    for name, part in graph.named_children():
        root.add_module(name, part)
    for node in graph.graph.find_nodes(op="get_attr"):
        if not hasattr(root, node.target.partition(".")[0]):
            setattr(root, node.target, getattr(graph, node.target))
    dynamic = [_dynamic(old[place]) for place in places.inputs]
    return torch.fx.GraphModule(root, copied), tuple(dynamic)


def _dynamic(node: AnyValue) -> dict[int, AnyValue] | None:
    import torch

    shape = node.meta["example_value"].shape
    return {axis: torch.export.Dim.DYNAMIC for axis, size in enumerate(shape) if not isinstance(size, int)} or None


def _sizes(nodes: Sequence[AnyValue]) -> dict[str, tuple[AnyValue, int]]:
    """The first input and axis of each named size."""
    found: dict[str, tuple[AnyValue, int]] = {}
    for node in nodes:
        for axis, size in enumerate(node.meta["example_value"].shape):
            if not isinstance(size, int):
                found.setdefault(str(size), (node, axis))
    return found


def _placeholders(graph: GraphModule) -> list[AnyValue]:
    return list(graph.graph.find_nodes(op="placeholder"))


def _memory(node: AnyValue) -> AnyValue:
    """The common identity of all tensors that share memory with a node's; None for other values."""
    value = node.meta.get("example_value")
    try:
        return value.untyped_storage()._cdata
    except Exception:  # a number, or a tensor without memory of its own
        return None

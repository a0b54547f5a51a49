"""Replaces each group of nodes that ONNX Runtime does not fuse by one node with a kernel."""

import hashlib
import itertools
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from passat.ir.tir.expr import PrimExpr, Var, const
from passat.ir.tir.function import PrimFunc
from passat.runtime.kernels.axes import Block, padded
from passat.runtime.kernels.columns import Columns
from passat.runtime.kernels.emit_c import emit
from passat.runtime.kernels.groups import MOST_INPUTS, MOST_OUTPUTS, Graph, Group
from passat.runtime.kernels.lower import Lowering, Program, Step

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

    from passat.ir.onnx.kernel_nodes import KernelNode, Tensor

Key: TypeAlias = tuple[str, str, tuple[str, ...], tuple[str, ...]]
LEAST: Final = 2
"""The minimum number of nodes in a kernel."""
MOST: Final = 64
"""The maximum number of different kernels in a library: it bounds the time of compilation."""
MOST_VARIED: Final = 2
"""Maximum number of inputs of unknown broadcasting for a function per combination. Beyond it there is one function without broadcasting,
and a general one."""
_INSERTED: Final = "InsertedPrecisionFreeCast_"


@dataclass(frozen=True)
class Kernel:
    """A kernel of a library. `rank` is the rank of its widest values, `block` the axes that it reduces. `forms` has for each output 0 (a
    widest value), 1 (one element along the block) or 2 (no axes of the block)."""

    name: str
    program: Program
    functions: tuple[tuple[int | None, PrimFunc], ...]
    rank: int
    block: Block | None
    forms: tuple[int, ...]


@dataclass(frozen=True)
class Kernels:
    """A model with kernel nodes, and its kernels."""

    model: "ModelProto"
    domain: str
    kernels: tuple[Kernel, ...]
    groups: "tuple[KernelNode, ...]"
    _original: "ModelProto"
    _constants: Set[str]
    _types: "Mapping[str, Tensor]"

    @property
    def nodes(self) -> int:
        """The number of nodes that kernels replace."""
        return sum(len(group.nodes) for group in self.groups)

    def groups_of(self, kernels: Collection[str]) -> set[tuple[int, ...]]:
        """The nodes of the groups that the named kernels replace."""
        return {tuple(group.nodes) for group in self.groups if group.kernel in kernels}

    def model_with(self, kernels: Collection[str]) -> "ModelProto":
        """The model with the named kernels only. It needs the same library."""
        from passat.ir.onnx.kernel_nodes import with_kernel_nodes  # needs onnx

        chosen = [group for group in self.groups if group.kernel in kernels]
        return with_kernel_nodes(self._original, chosen, self._constants, self.domain, self._types)


def key(node: "NodeProto") -> Key:
    """Identifies a node in a model, before and after ONNX Runtime's fusions, which compute float16 as float32."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    inputs, outputs = (tuple(name.removeprefix(_INSERTED) for name in names) for names in (node.input, node.output))
    return domain, node.op_type, inputs, outputs


def fuse(model: "ModelProto", left: Collection[Key], without: Collection[tuple[int, ...]] = ()) -> Kernels | None:
    """Replaces nodes that are `left` after ONNX Runtime's fusions by kernels; None if no nodes can be replaced. Skips the groups of nodes
    in `without`."""
    graph = Graph(model, [key(node) in left for node in model.graph.node])
    made: dict[str, Kernel] = {}
    from passat.ir.onnx.kernel_nodes import KernelNode, with_kernel_nodes  # needs onnx

    chosen: list[KernelNode] = []
    for group in graph.groups():
        inputs, outputs = graph.inputs(group), graph.outputs(group)
        if (
            len(group.nodes) < LEAST
            or not 0 < len(inputs) <= MOST_INPUTS
            or not 0 < len(outputs) <= MOST_OUTPUTS
            or tuple(group.nodes) in without
        ):
            continue
        program, forms = program_of(graph, group, inputs, outputs)
        rank = len(group.shape)
        text = f"{rank} {group.block if group.reduces else None} {forms}\n" + "\n".join(
            emit(function) for _, function in variants("k", program)
        )
        if text not in made:
            if len(made) == MOST:
                continue
            name = f"Kernel{len(made)}"
            made[text] = Kernel(name, program, tuple(variants(name, program)), rank, group.block if group.reduces else None, forms)
        chosen.append(KernelNode(group.nodes, made[text].name, inputs, outputs))
    if not chosen:
        return None
    bound = hashlib.sha256(model.SerializeToString(deterministic=True))
    bound.update("\n".join(made).encode())
    domain = f"passat.kernels.{bound.hexdigest()[:32]}"
    changed = with_kernel_nodes(model, chosen, graph.constants.keys(), domain, graph.types)
    return Kernels(changed, domain, tuple(made.values()), tuple(chosen), model, graph.constants.keys(), graph.types)


def variants(name: str, program: Program) -> list[tuple[int | None, PrimFunc]]:
    """The functions of a kernel, each with the mask of the inputs that advance along the row; None for any, with strides as arguments."""
    if program.columns:
        return [(None, Columns(program).function(f"{name}_any"))]
    if program.has_halves:
        program = program.of_singles()
    unknown = [number for number, (_, along) in enumerate(program.inputs) if along is None]
    known = sum(1 << number for number, (_, along) in enumerate(program.inputs) if along)
    if len(unknown) > MOST_VARIED:
        masks = [known + sum(1 << number for number in unknown)]
    else:
        masks = [known + sum(each) for each in itertools.product(*((1 << number, 0) for number in unknown))]
    return [(mask, Lowering(program, mask).function(f"{name}_{'any' if mask is None else mask}")) for mask in (*masks, None)]


def program_of(graph: Graph, group: Group, inputs: Sequence[str], outputs: Sequence[str]) -> tuple[Program, tuple[int, ...]]:
    """The computation of a group of nodes, and the forms of its outputs (`Kernel`)."""
    known: dict[str, PrimExpr] = {}
    block = group.block if group.reduces else None
    columns = block is not None and block.last < len(group.shape)
    declared: list[tuple[str, bool | None]] = []
    for position, name in enumerate(inputs):
        dtype, shape = graph.types[name]
        known[name] = Var(f"x{position}", _computed(dtype))
        last = shape[-1] if shape else 1
        if block is None or block.is_last_axis(len(group.shape)):
            declared.append((dtype, True if shape == group.shape or last == group.shape[-1] != 1 else False if last == 1 else None))
        else:
            part = slice(block.last, None) if columns else slice(block.first, block.last)
            declared.append((dtype, padded(shape, len(group.shape))[part] == group.shape[part]))
    steps: list[Step] = []
    forms: dict[str, int] = {}
    for position, number in enumerate(group.nodes):
        name = graph.result(number)
        args = [known[operand] if operand in known else _constant(graph, operand) for operand in graph.operands(number)]
        dtype, shape = graph.types[name]
        var = Var(f"v{position}", _computed(dtype))
        reduces = number in graph.reductions
        is_wide = number in group.loose or (shape == group.shape and not reduces)
        forms[name] = 0 if is_wide else 2 if len(shape) < len(group.shape) else 1
        if reduces:
            steps.append(Step(var, args[0], wide=False, kind=graph.nodes[number].op_type))
        else:
            steps.append(Step(var, graph.built[number](args), wide=not forms[name]))
        known[name] = var
    named = [known[name] for name in outputs]
    written = tuple((var.name, graph.types[name].dtype) for var, name in zip(named, outputs, strict=True) if isinstance(var, Var))
    outer = block is not None and block.outer != (0, 0)
    return Program(tuple(declared), tuple(steps), written, columns, outer), tuple(forms[name] for name in outputs)


def _computed(dtype: str) -> str:
    return "float32" if dtype == "float16" else dtype


def _constant(graph: Graph, name: str) -> PrimExpr:
    value, dtype, _ = graph.constants[name]
    return const(value, _computed(dtype))

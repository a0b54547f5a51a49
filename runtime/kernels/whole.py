"""Functions of loops that compute a whole model of known sizes, which is what a primitive function becomes.

Each takes pointers to its inputs, then to its results. Sizes and strides are constants, and the loops go over all rows.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Final, TypeAlias

from passat.ir.tensor import Array
from passat.ir.tir.arithmetic import Min
from passat.ir.tir.expr import IntImm, PrimExpr, Var, const
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.functor import rewrite, substitute
from passat.ir.tir.stmt import For, ForKind, Stmt, Store
from passat.ir.tir.values import Load
from passat.runtime.kernels.axes import padded
from passat.runtime.kernels.columns import LANES, WIDTH, Columns
from passat.runtime.kernels.fusing import program_of
from passat.runtime.kernels.groups import MOST_INPUTS, MOST_OUTPUTS, Graph, Group
from passat.runtime.kernels.lower import ELEMENTS, ROWS, Lowering, Program

if TYPE_CHECKING:
    from onnx import ModelProto

_VIEWS: Final = frozenset(("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"))
"""Operators whose result has the elements of their first input, in order."""
Sizes: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class WholeKernel:
    """A function, and the values that its pointers point to."""

    function: PrimFunc
    values: tuple[str, ...]


@dataclass(frozen=True)
class WholeModel:
    """The kernels of a model, in order; the values that they write, with type and shape; the constants that they read; and the values that
    have the elements of its results."""

    kernels: tuple[WholeKernel, ...]
    made: Mapping[str, tuple[str, Sizes]]
    constants: Mapping[str, Array]
    results: tuple[str, ...]


def whole_model(model: "ModelProto") -> WholeModel | None:
    """The kernels that compute a model; None if it has operators or types that kernels do not have, unknown sizes, or results that are not
    the only ones with their elements."""
    from passat.ir.onnx.kernel_nodes import constants_of  # needs onnx

    graph = Graph(model, [True] * len(model.graph.node))
    groups = graph.groups()
    constants = constants_of(model.graph)
    same: dict[str, str] = {}
    for number, node in enumerate(graph.nodes):
        if node.op_type in _VIEWS:
            same[node.output[0]] = same.get(node.input[0], node.input[0])
        elif number not in graph.group_of and (number in graph.built or number in graph.reductions):
            groups.append(graph.single(number))
        elif number not in graph.group_of and node.output[0] not in constants:
            return None
    kernels: list[WholeKernel] = []
    made: dict[str, tuple[str, Sizes]] = {}
    for group in _in_order(graph, groups, same):
        inputs, outputs = graph.inputs(group), graph.outputs(group)
        if not 0 < len(inputs) <= MOST_INPUTS or not 0 < len(outputs) <= MOST_OUTPUTS:
            return None
        if group.block is not None and group.block.outer != (0, 0):
            return None
        types = {name: graph.types[name] for name in (*inputs, *outputs)}
        if any(not isinstance(size, int) for type_ in types.values() for size in type_.shape):
            return None
        kernels.append(
            WholeKernel(_function_of(graph, group, inputs, outputs), tuple(same.get(name, name) for name in (*inputs, *outputs)))
        )
        made |= {name: (types[name].dtype, _sizes(types[name].shape)) for name in outputs}
    results = tuple(same.get(value.name, value.name) for value in model.graph.output)
    if len(set(results)) != len(results) or not made.keys() >= set(results):
        return None
    return WholeModel(tuple(kernels), made, constants, results)


def _in_order(graph: Graph, groups: Sequence[Group], same: Mapping[str, str]) -> Iterable[Group]:
    maker = {name: number for number, group in enumerate(groups) for name in graph.outputs(group)}
    read = [[same.get(name, name) for name in graph.inputs(group)] for group in groups]
    order = TopologicalSorter({number: {maker[name] for name in names if name in maker} for number, names in enumerate(read)})
    return (groups[number] for number in order.static_order())


def _function_of(graph: Graph, group: Group, inputs: Sequence[str], outputs: Sequence[str]) -> PrimFunc:
    program, forms = program_of(graph, group, inputs, outputs)
    wide = _sizes(group.shape)
    shapes = [_sizes(padded(graph.types[name].shape, len(wide))) for name in inputs]
    first = len(wide)
    if group.block is not None:
        first, last, _ = group.block
        if program.columns:
            shapes, wide = [_merged(shape, last, len(shape)) for shape in shapes], _merged(wide, last, len(wide))
        shapes, wide = [_merged(shape, first, last) for shape in shapes], _merged(wide, first, last)
    dims, strides = _joined(wide, [_strides(shape) for shape in shapes], first)
    return (_columns if program.columns else _rows)(program, forms, dims, strides)


def _rows(program: Program, forms: Sequence[int], dims: Sizes, strides: Sequence[Sizes]) -> PrimFunc:
    """The function of rows along the last of some dimensions: a loop for each of those before the last two."""
    lowering = Lowering(program, sum(1 << number for number, steps in enumerate(strides) if steps[-1]))
    count, rows = dims[-1], dims[-2] if len(dims) > 1 else 1
    between = {var: _number(steps[-2] if len(dims) > 1 else 0) for var, steps in zip(lowering.between, strides, strict=True)}
    loops = [(Var(f"o{place}", "int64"), size) for place, size in enumerate(dims[:-2])]
    outer = [var for var, _ in loops]
    starts = {buffer: _place(outer, steps) for buffer, steps in zip(lowering.buffers, strides, strict=True)}
    row = [math.prod(dims[place + 1 : -1]) for place in range(len(loops))]
    for buffer, form in zip(lowering.outputs.values(), forms, strict=True):
        starts[buffer] = _place(outer, [step if form else step * count for step in row])
    body = substitute(lowering.function("rows").body, {**between, ROWS: _number(rows), ELEMENTS: _number(count)})
    return _function(lowering, _moved(body, starts), loops)


def _columns(program: Program, forms: Sequence[int], dims: Sizes, strides: Sequence[Sizes]) -> PrimFunc:
    """The function of columns along the last but one of some dimensions, some columns at a time."""
    lowering = Columns(program)
    *before, count, width = dims
    along = {var: _number(steps[-2]) for var, steps in zip(lowering.strides, strides, strict=True)}
    loops = [(Var(f"o{place}", "int64"), size) for place, size in enumerate(before)]
    parts, part = -(-width // LANES), Var("part", "int64")
    outer, lanes = [var for var, _ in loops], list[int]()
    size: PrimExpr = _number(width)
    if parts > 1:
        loops.append((part, parts))
        outer, lanes = [*outer, part], [LANES]
        size = Min(_number(LANES), _number(width) - part * _number(LANES))
    starts = {
        buffer: _place(outer, [*steps[:-2], *(lane * steps[-1] for lane in lanes)])
        for buffer, steps in zip(lowering.buffers, strides, strict=True)
    }
    for buffer, form in zip(lowering.outputs.values(), forms, strict=True):
        each = width if form else width * count
        starts[buffer] = _place(outer, [*(math.prod(before[place + 1 :]) * each for place in range(len(before))), *lanes])
    values = {**along, ROWS: size, ELEMENTS: _number(count), WIDTH: _number(width)}
    return _function(lowering, _moved(substitute(lowering.function("columns").body, values), starts), loops)


def _function(lowering: Lowering, body: Stmt, loops: Sequence[tuple[Var, int]]) -> PrimFunc:
    for var, size in reversed(loops):
        body = For(var, 0, _number(size), ForKind.SERIAL, body)
    return PrimFunc((*lowering.buffers, *lowering.outputs.values()), body, attrs={"tir.noalias": True})


def _moved(body: Stmt, starts: Mapping[Var, PrimExpr | None]) -> Stmt:
    """The statement with a number added to each place in some memory."""

    def moved(node: object) -> object:
        if isinstance(node, (Load, Store)) and (start := starts.get(node.buffer_var)) is not None:
            return node.with_fields(index=start + node.index)
        return None

    made: Stmt = rewrite(body, moved)
    return made


def _place(loops: Iterable[Var], steps: Iterable[int]) -> PrimExpr | None:
    """The place that loops begin at; None for the first."""
    found: PrimExpr | None = None
    for var, step in zip(loops, steps, strict=False):
        if step:
            part = var if step == 1 else var * _number(step)
            found = part if found is None else found + part
    return found


def _number(value: int) -> IntImm:
    made = const(value, "int64")
    assert isinstance(made, IntImm)  # the type is an integer
    return made


def _sizes(shape: Iterable[int | str]) -> Sizes:
    return tuple(size for size in shape if isinstance(size, int))


def _merged(shape: Sizes, first: int, last: int) -> Sizes:
    """The sizes with one axis in place of some."""
    return (*shape[:first], math.prod(shape[first:last]), *shape[last:])


def _strides(shape: Sizes) -> Sizes:
    """The steps in contiguous memory; zero along axes of one element."""
    return tuple(0 if size == 1 else math.prod(shape[axis + 1 :]) for axis, size in enumerate(shape))


def _joined(wide: Sizes, strides: Sequence[Sizes], first: int) -> tuple[Sizes, list[Sizes]]:
    """The dimensions without those of size 1, and adjacent ones as one if all memory is contiguous along them. The axes from `first` on
    are kept."""
    dims: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis, size in enumerate(wide):
        own = [each[axis] for each in strides]
        if axis < first and size == 1:
            continue
        if dims and axis < first and all(before[-1] == step * size for before, step in zip(steps, own, strict=True)):
            dims[-1] *= size
            for before, step in zip(steps, own, strict=True):
                before[-1] = step
        else:
            dims.append(size)
            for before, step in zip(steps, own, strict=True):
                before.append(step)
    if not dims:
        return (1,), [(0,) for _ in strides]
    return tuple(dims), [tuple(each) for each in steps]

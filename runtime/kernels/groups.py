"""Finds the nodes of each kernel: elementwise nodes, and reductions with the nodes that use their results.

A walk over the model, not rules: whether nodes can share a kernel depends on all uses of each value.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from passat.runtime.kernels.axes import Block, block_along, block_of, fits, row_of
from passat.runtime.kernels.operators import DIVISIONS, INTEGERS, KNOWN, REDUCTIONS, Build, builder

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

    from passat.ir.onnx.kernel_nodes import Shape

MOST_INPUTS: Final = 16
MOST_OUTPUTS: Final = 8
MOST_DIMENSIONS: Final = 16
MOST_NODES: Final = 128
"""Limits of a kernel."""
_SEARCHED: Final = 500
"""Maximum number of groups that the search for a path around a group visits."""


@dataclass(eq=False)
class Group:
    """The nodes of one kernel. Their results have the same shape, or the shape `row` with one element along the axes that are reduced."""

    nodes: list[int]
    shape: "Shape"
    block: Block | None
    """The axes that are reduced, if there is a reduction."""
    row: "Shape | None" = None
    inputs: set[str] = field(default_factory=set)
    outputs: int = 1
    loose: set[int] = field(default_factory=set)
    """Nodes whose results are only used here, and of which some sizes are unknown: at most those of the shape, to which they broadcast."""

    @property
    def reduces(self) -> bool:
        """True for a kernel with reductions."""
        return self.block is not None


Unit: TypeAlias = Group | int
"""A group, or a node that is in none."""


class Graph:
    """The main graph of a model: types, constants, uses, and the functions of the nodes that may be in kernels."""

    def __init__(self, model: "ModelProto", left: Sequence[bool]) -> None:
        from passat.ir.onnx.kernel_nodes import Tensor, integers, names_read, scalars, tensor_types  # needs onnx

        self.nodes = list(model.graph.node)
        self.types = tensor_types(model, KNOWN)
        self.constants = scalars(model.graph)
        self.integers = integers(model.graph)
        for name, constant in self.constants.items():
            self.types.setdefault(name, Tensor(constant.dtype, constant.shape))
        self.uses: dict[str, list[int]] = {}
        self.reads = [names_read(node) for node in self.nodes]
        self.maker = {name: number for number, node in enumerate(self.nodes) for name in node.output if name}
        for number, names in enumerate(self.reads):
            for name in names:
                self.uses.setdefault(name, []).append(number)
        self.results = {value.name for value in model.graph.output}
        self.built: dict[int, Build] = {}
        self.reductions: dict[int, Block] = {}
        for number, node in enumerate(self.nodes):
            if left[number] and node.domain in ("", "ai.onnx") and len(node.output) == 1:
                if (block := self._block(node)) is not None:
                    self.reductions[number] = block
                elif (build := self._build(node)) is not None:
                    self.built[number] = build
        self.group_of: dict[int, Group] = {}
        self.narrow: set[int] = set()
        """Nodes that are not computed once per row."""
        self.height: dict[Unit, int] = {}
        """Of each visited group and of nodes in none: higher than those of all that use its results, so that paths lead down."""

    def _block(self, node: "NodeProto") -> Block | None:
        """The axes of a reduction of a tensor, if a kernel may reduce along them."""
        from passat.ir.onnx.kernel_nodes import reduced_axes

        if node.op_type not in REDUCTIONS or any(name not in self.types for name in (node.input[0], node.output[0])):
            return None
        dtype, shape = self.types[node.input[0]]
        axes = reduced_axes(node, self.integers, len(shape))
        floats = dtype in ("float32", "float64", "float16")
        exact = dtype in ("int32", "int64") and node.op_type in ("ReduceMax", "ReduceMin", "ReduceSum")
        return block_along(shape, axes) if axes and (floats or exact) and 1 <= len(shape) <= MOST_DIMENSIONS else None

    def _build(self, node: "NodeProto") -> Build | None:
        from passat.ir.onnx.kernel_nodes import attributes_of

        if node.op_type not in KNOWN or node.output[0] not in self.types:
            return None
        dtype, shape = self.types[node.output[0]]
        operands = self._operands(node)
        if len(shape) > MOST_DIMENSIONS or not operands or any(name not in self.types for name in operands):
            return None
        if node.op_type in DIVISIONS and dtype in INTEGERS and self._is_zero(node.input[1]):
            return None
        constants: list[float | None] = []
        for name in list(node.input)[len(operands) :]:
            # ranks of constants must not decide the rank of the result
            if name and (name not in self.constants or len(self.constants[name].shape) > len(shape)):
                return None
            constants.append(self.constants[name].value if name else None)
        return builder(node.op_type, [self.types[name].dtype for name in operands], dtype, constants, attributes_of(node))

    def _is_zero(self, divisor: str) -> bool:
        """False for a constant other than zero."""
        return divisor not in self.constants or not self.constants[divisor].value

    def _operands(self, node: "NodeProto") -> Sequence[str]:
        others_are_constants = node.op_type in ("Clip", *REDUCTIONS) or (node.op_type == "Pow" and node.input[1] in self.constants)
        return list(node.input[: 1 if others_are_constants else None])

    def operands(self, number: int) -> Sequence[str]:
        """The inputs of a node that are not part of its function."""
        return self._operands(self.nodes[number])

    def result(self, number: int) -> str:
        """The result of a node."""
        name: str = self.nodes[number].output[0]
        return name

    def is_constant(self, name: str, shape: "Shape") -> bool:
        """True for a constant that is part of the function of a kernel with results of a shape."""
        return name in self.constants and len(self.constants[name].shape) <= len(shape)

    def inputs(self, group: Group) -> list[str]:
        """The values that a group reads, constants excepted."""
        inside = {self.result(number) for number in group.nodes}
        read = dict.fromkeys(name for number in group.nodes for name in self.operands(number))
        return [name for name in read if name not in inside and not self.is_constant(name, group.shape)]

    def outputs(self, group: Group) -> list[str]:
        """The results in a group that nodes outside it need."""
        names = [self.result(number) for number in group.nodes]
        return [name for name in names if self.is_used_outside(name, group)]

    def is_used_outside(self, name: str, group: Group) -> bool:
        """True if a value is an output of the kernel of a group."""
        return name in self.results or any(self.group_of.get(user) is not group for user in self.uses.get(name, ()))

    def groups(self) -> list[Group]:
        """The groups, each with its nodes in order. Every result that nodes outside need is an output."""
        while True:
            found = self._found()
            # One number per row does not justify a loop over rows: such nodes get groups of their own.
            narrow = {
                number
                for group in found
                if not group.reduces
                for number in group.nodes
                if self.types[self.result(number)].shape != group.shape and number not in group.loose
            }
            if not narrow:
                return found
            self.narrow |= narrow

    def _found(self) -> list[Group]:
        """The groups, in which `narrow` nodes do not compute numbers of rows."""
        found: list[Group] = []
        self.group_of.clear()
        self.height.clear()
        for number in reversed(range(len(self.nodes))):
            height = max((self.height[user] + 1 for user in self._users(number)), default=0)
            if number not in self.built and number not in self.reductions:
                self.height[number] = height
                continue
            name = self.result(number)
            users = (self.group_of[user] for user in sorted(self.uses.get(name, ())) if user in self.group_of)
            for group in {id(each): each for each in users}.values():
                if self._joins(number, group):
                    break
            else:
                block = self.reductions.get(number)
                shape = self.types[name if block is None else self.operands(number)[0]].shape
                group = Group([], shape, block, None if block is None else row_of(shape, block))
                self.height[group] = height
                found.append(group)
            group.nodes.append(number)
            self.group_of[number] = group
            group.inputs.discard(self.result(number))
            group.inputs.update(operand for operand in self.operands(number) if not self.is_constant(operand, group.shape))
        for group in found:
            group.nodes.sort()
        return found

    def single(self, number: int) -> Group:
        """A group of a node that is in none."""
        block = self.reductions.get(number)
        shape = self.types[self.result(number) if block is None else self.operands(number)[0]].shape
        group = self.group_of[number] = Group([number], shape, block, None if block is None else row_of(shape, block))
        return group

    def _joins(self, number: int, group: Group) -> bool:
        name = self.result(number)
        outside = self.is_used_outside(name, group)
        read = [operand for operand in self.operands(number) if not self.is_constant(operand, group.shape)]
        if len(group.nodes) >= MOST_NODES or len(group.inputs.union(read) - {name}) > MOST_INPUTS or group.outputs + outside > MOST_OUTPUTS:
            return False
        shapes = self._shapes_with(number, group)
        if shapes is None and not outside and self._is_loose(number, group):
            shapes = group.shape, None, None
            group.loose.add(number)
        if shapes is None:
            return False
        wide, block, row = shapes
        if block is not None and not all(fits(self.types[operand].shape, wide, block) for operand in group.inputs.union(read)):
            return False
        if outside:
            heights = self._heights(name, group)
            if heights is None:
                return False
            self.height.update(heights)
        group.outputs += outside
        group.shape, group.block, group.row = wide, block, row
        return True

    def _shapes_with(self, number: int, group: Group) -> "tuple[Shape, Block | None, Shape | None] | None":
        """The shape, the reduced axes and the shape of rows of a group with another node; None if the node has another shape."""
        shape, wide, block, row = self.types[self.result(number)].shape, group.shape, group.block, group.row
        if number not in self.reductions:
            if shape == wide:
                return wide, block, row
            if number in self.narrow or group.loose:
                return None
            fitting = shape == row or (row is None and block_of(wide, shape) is not None)
            return (wide, block, shape) if fitting else None
        if group.loose:
            return None
        given, reduced = self.types[self.operands(number)[0]].shape, self.reductions[number]
        rows = row_of(given, reduced)
        if shape != rows:
            return None
        if given == wide:
            return (wide, reduced, rows) if block in (None, reduced) and row in (None, rows) else None
        return (given, reduced, rows) if shape == wide and block is None and row is None else None

    def _is_loose(self, number: int, group: Group) -> bool:
        """True for a node whose result may have the shape of a group without reductions: it differs in unknown sizes only."""
        shape = self.types[self.result(number)].shape
        if group.reduces or group.row is not None or number in self.reductions or len(shape) != len(group.shape):
            return False
        return all(one == other or (isinstance(one, str) and isinstance(other, str)) for one, other in zip(shape, group.shape, strict=True))

    def _heights(self, name: str, group: Group) -> "dict[Unit, int] | None":
        """The heights that change if the maker of a value joins a group; None if a value leads from it around the group into it, or if it
        takes too long to find that out."""
        users = {self._unit(user) for user in self.uses.get(name, ())} - {group}
        lowest = max((self.height[user] for user in users), default=-1) + 1
        if lowest <= self.height[group]:
            return {}
        waiting = [user for user in users if self.height[user] > self.height[group]]
        seen = {*waiting}
        while waiting:  # paths lead down
            for user in {user for number in self._members(waiting.pop()) for user in self._users(number)} - seen:
                if user is group:
                    return None
                if self.height[user] > self.height[group]:
                    seen.add(user)
                    waiting.append(user)
            if len(seen) > _SEARCHED:
                return None
        raised: dict[Unit, int] = {group: lowest}
        above: list[Unit] = [group]
        while above:
            low = above.pop()
            for maker in {self._unit(maker) for number in self._members(low) for maker in self._makers(number)} - {low}:
                if maker in self.height and raised.get(maker, self.height[maker]) <= raised[low]:
                    raised[maker] = raised[low] + 1
                    above.append(maker)
            if len(raised) > _SEARCHED:
                return None
        return raised

    def _unit(self, number: int) -> "Unit":
        """The group of a node, or the node."""
        return self.group_of.get(number, number)

    def _members(self, unit: "Unit") -> Sequence[int]:
        return unit.nodes if isinstance(unit, Group) else [unit]

    def _users(self, number: int) -> "set[Unit]":
        return {self._unit(user) for name in self.nodes[number].output for user in self.uses.get(name, ())}

    def _makers(self, number: int) -> list[int]:
        return [self.maker[name] for name in self.reads[number] if name in self.maker]

"""Finds trees of elementwise nodes that ONNX Runtime does not fuse, and replaces each by one node with a kernel.

A walk over the model, not rules: whether nodes can share a kernel depends on all uses of each value.
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from passat.ir.tir import Const, Expr, LoopFunc, Var, show
from passat.runtime.kernels.library import MOST_DIMENSIONS, MOST_INPUTS
from passat.runtime.kernels.lower import Value, variants
from passat.runtime.kernels.operators import KNOWN, Build, builder, constants_from

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

Key: TypeAlias = tuple[str, str, tuple[str, ...], tuple[str, ...]]
LEAST: Final = 2
"""The minimum number of nodes in a kernel."""


@dataclass(frozen=True)
class Kernels:
    """A model with kernel nodes, and its kernels: the name, the number of inputs and the functions of each."""

    model: "ModelProto"
    domain: str
    kernels: tuple[tuple[str, int, list[tuple[int | None, LoopFunc]]], ...]
    nodes: int
    """The number of nodes that kernels replace."""


def key(node: "NodeProto") -> Key:
    """Identifies a node in a model, before and after ONNX Runtime's fusions."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    return domain, node.op_type, tuple(node.input), tuple(node.output)


def fuse(model: "ModelProto", left: Collection[Key]) -> Kernels | None:
    """Replaces nodes that are `left` after ONNX Runtime's fusions by kernels; None if no nodes can be replaced."""
    graph = _Graph(model, left)
    made: dict[str, tuple[str, int, list[tuple[int | None, LoopFunc]]]] = {}
    chosen: list[tuple[list[int], str, list[str]]] = []
    for group in graph.groups():
        inputs = graph.inputs_of(group)
        if len(group) < LEAST or not 0 < len(inputs) <= MOST_INPUTS:
            continue
        value = _value(graph, group, inputs)
        text = "\n".join(show(function) for _, function in variants("k", len(inputs), value))
        if text not in made:
            name = f"Kernel{len(made)}"
            made[text] = name, len(inputs), variants(name, len(inputs), value)
        chosen.append((group, made[text][0], inputs))
    if not chosen:
        return None
    bound = hashlib.sha256(model.SerializeToString(deterministic=True))
    bound.update("\n".join(made).encode())
    domain = f"passat.kernels.{bound.hexdigest()[:32]}"
    from passat.ir.onnx.kernel_nodes import with_kernel_nodes  # needs onnx

    changed = with_kernel_nodes(model, chosen, graph.constants.keys(), domain)
    return Kernels(changed, domain, tuple(made.values()), sum(len(group) for group, _, _ in chosen))


class _Graph:
    """The main graph of a model: types, constants, uses, and the functions of the nodes that may be in kernels."""

    def __init__(self, model: "ModelProto", left: Collection[Key]) -> None:
        from passat.ir.onnx.kernel_nodes import float32_scalars, float32_shapes  # needs onnx
        from passat.ir.onnx.scope import read_names, subgraphs

        graph = model.graph
        self.nodes = list(graph.node)
        self.shapes = float32_shapes(model)
        self.constants = float32_scalars(graph)
        self.shapes |= {name: shape for name, (_, shape) in self.constants.items()}
        self.uses: dict[str, list[int]] = {}
        for number, node in enumerate(self.nodes):
            for name in node.input:
                self.uses.setdefault(name, []).append(number)
        self.kept = {value.name for value in graph.output}.union(*(read_names(inner) for node in self.nodes for inner in subgraphs(node)))
        self.built: dict[int, Build] = {}
        for number, node in enumerate(self.nodes):
            if key(node) in left and (build := self._build(node)) is not None:
                self.built[number] = build

    def _build(self, node: "NodeProto") -> Build | None:
        if node.domain not in ("", "ai.onnx") or node.op_type not in KNOWN or len(node.output) != 1:
            return None
        shape = self.shapes.get(node.output[0])
        if shape is None or len(shape) > MOST_DIMENSIONS:
            return None
        first = constants_from(node.op_type)
        if any(name not in self.shapes for name in node.input[:first]):
            return None
        constants: list[float | None] = []
        for name in [] if first is None else node.input[first:]:
            # ranks of constants must not decide the rank of the result
            if name and (name not in self.constants or len(self.constants[name][1]) > len(shape)):
                return None
            constants.append(self.constants[name][0] if name else None)
        return builder(node.op_type, constants, {attribute.name: attribute.f for attribute in node.attribute})

    def operands(self, number: int) -> Sequence[str]:
        """The inputs of a node that are not part of its function."""
        node = self.nodes[number]
        operands: Sequence[str] = node.input[: constants_from(node.op_type)]
        return operands

    def groups(self) -> Iterable[list[int]]:
        """The nodes of each kernel, in order. Other nodes use only the result of the last one, and all results have its shape."""
        group_of: dict[int, int] = {}
        for number in reversed(range(len(self.nodes))):
            if number not in self.built:
                continue
            name = self.nodes[number].output[0]
            users = {group_of.get(user, -1) for user in self.uses.get(name, ())}
            root = users.pop() if len(users) == 1 and name not in self.kept else -1
            joins = root >= 0 and self.shapes[name] == self.shapes[self.nodes[root].output[0]] and "" not in self.shapes[name]
            group_of[number] = root if joins else number
        found: dict[int, list[int]] = {}
        for number in sorted(group_of):
            found.setdefault(group_of[number], []).append(number)
        return found.values()

    def constant(self, name: str, group: Sequence[int]) -> float | None:
        """The value of a constant that is part of a group's function."""
        if name not in self.constants:
            return None
        value, shape = self.constants[name]
        return value if len(shape) <= len(self.shapes[self.nodes[group[-1]].output[0]]) else None

    def inputs_of(self, group: Sequence[int]) -> list[str]:
        """The values that a group reads, constants excepted."""
        inside = {self.nodes[number].output[0] for number in group}
        read = dict.fromkeys(name for number in group for name in self.operands(number))
        return [name for name in read if name not in inside and self.constant(name, group) is None]


def _value(graph: _Graph, group: Sequence[int], inputs: Sequence[str]) -> Value:
    def value(elements: list[Expr]) -> tuple[list[tuple[Var, Expr]], Expr]:
        known: dict[str, Expr] = {}
        named: list[tuple[Var, Expr]] = []
        for position, (name, element) in enumerate(zip(inputs, elements, strict=True)):
            known[name] = Var(f"e{position}", "float32")
            named.append((Var(f"e{position}", "float32"), element))
        for position, number in enumerate(group):
            args = []
            for name in graph.operands(number):
                constant = graph.constant(name, group)
                args.append(known[name] if constant is None else Const(constant))
            var = Var(f"v{position}", "float32")
            named.append((var, graph.built[number](args)))
            known[graph.nodes[number].output[0]] = var
        return named, known[graph.nodes[group[-1]].output[0]]

    return value

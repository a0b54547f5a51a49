"""Sets the seeds of random operators, so that two models draw the same random numbers."""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from onnx import ModelProto, NodeProto, helper

from passat.ir.onnx.counterparts import Named, counterparts
from passat.ir.onnx.opaque import RANDOM
from passat.ir.onnx.scope import defined_names, sort_nodes, subgraphs, without_functions

_MODE: Final = 2
"""The index of the operand training_mode of Dropout."""
_UNUSED: Final[frozenset[str]] = frozenset()
_INLINED: Final = re.compile(r"__\d+$")
"""The suffix that `onnx.inliner` appends to names."""
_INTEGER_SEED: Final = "Dropout"
_FIRST: Final = 7_000_003
"""The first seed, which is large to avoid collisions with existing seeds."""


class Seeds:
    """The seeds of the random operators of a model and of the corresponding operators in other models.

    An optimized model may lack operators, most likely those that no output depends on. These are matched last. Other operators match by
    name, or else by the outputs that depend on them.
    """

    def __init__(self, model: ModelProto) -> None:
        named = [drawing.named for drawing in _random_nodes(without_functions(model))]
        self._nodes = sorted(named, key=lambda node: not node.use)

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def given_to(self, model: ModelProto) -> ModelProto:
        """Returns a model with these seeds. Existing seeds are kept; operators without a counterpart get different seeds."""
        made = without_functions(model)  # each call of a function needs its own seeds
        drawings = _random_nodes(made)
        numbers = counterparts(self._nodes, [drawing.named for drawing in drawings])
        for place, (drawing, number) in enumerate(zip(drawings, numbers, strict=True)):
            node = drawing.node
            if any(attribute.name == "seed" for attribute in node.attribute):
                continue
            seed = _FIRST + (len(self._nodes) + place if number is None else number)
            node.attribute.append(helper.make_attribute("seed", seed if node.op_type == _INTEGER_SEED else float(seed)))
        return made


class _Drawing(NamedTuple):
    """A random node, and the outputs of the model that depend on it."""

    node: NodeProto
    outputs: frozenset[str]

    @property
    def named(self) -> Named:
        """The node with its identifying properties. The number in names of inlined functions is ignored, since it depends on earlier
        calls."""
        return Named(self.node.op_type, _INLINED.sub("", self.node.output[0]) if self.node.output else "", self.outputs)


def _random_nodes(model: ModelProto) -> list[_Drawing]:
    """The random nodes of a model in order, including subgraphs."""
    found = list(_drawings(model.graph.node, {value.name: frozenset([value.name]) for value in model.graph.output}))
    for function in model.functions:  # functions may import a different opset than the model
        found += _drawings(function.node, {name: frozenset([name]) for name in function.output})
    return found[::-1]


def _drawings(nodes: Iterable[NodeProto], outputs: dict[str, frozenset[str]]) -> Iterator[_Drawing]:
    """Yields the random nodes, last one first. `outputs` maps names to dependent outputs and is extended by the names that nodes read."""
    for node in reversed(sort_nodes(nodes)):
        use = _UNUSED.union(*(outputs.get(name, _UNUSED) for name in node.output if name))
        read = dict.fromkeys(filter(None, node.input), use)
        for graph in subgraphs(node):
            inner = {value.name: use for value in graph.output}
            yield from _drawings(graph.node, inner)
            made = defined_names(graph)
            read.update((name, read.get(name, _UNUSED) | found) for name, found in inner.items() if name not in made)
        for name, found in read.items():
            outputs[name] = outputs.get(name, _UNUSED) | found
        if node.domain in ("", "ai.onnx") and node.op_type in RANDOM and (node.op_type != "Dropout" or _may_train(node)):
            yield _Drawing(node, use)


def _may_train(node: NodeProto) -> bool:
    return len(node.input) > _MODE and bool(node.input[_MODE])

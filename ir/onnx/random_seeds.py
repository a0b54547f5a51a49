"""Models that draw random numbers, run so that two of them draw the same: each random operator gets a seed."""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from onnx import ModelProto, NodeProto, helper

from passat.ir.onnx.counterparts import Named, counterparts
from passat.ir.onnx.opaque import RANDOM
from passat.ir.onnx.scope import defined_names, sort_nodes, subgraphs, without_functions

_MODE: Final = 2
"""The place of the operand that says whether a Dropout is in training mode."""
_UNUSED: Final[frozenset[str]] = frozenset()
_INLINED: Final = re.compile(r"__\d+$")
"""What `onnx.inliner` appends to names."""
_INTEGER_SEED: Final = "Dropout"
_FIRST: Final = 7_000_003
"""The first seed: large, so that no operator is likely to have it already and to draw the same numbers as another one."""


class Seeds:
    """The seeds of the random operators of a model, and of those that stand for them in others.

    An optimized model may lack operators, first of all those on which no output depends: they come last, and any other operator stands for
    one that the same outputs depend on, where names do not tell.
    """

    def __init__(self, model: ModelProto) -> None:
        named = [drawing.named for drawing in _random_nodes(without_functions(model))]
        self._nodes = sorted(named, key=lambda node: not node.use)

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def given_to(self, model: ModelProto) -> ModelProto:
        """The model with these seeds. Operators that have seeds keep them; those without counterpart get others."""
        made = without_functions(model)  # each call of a function draws numbers of its own
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
    """A node that draws random numbers, and the outputs of the model that depend on it."""

    node: NodeProto
    outputs: frozenset[str]

    @property
    def named(self) -> Named:
        """The node as it is known again. Of names in an inlined function the number depends on the calls before."""
        return Named(self.node.op_type, _INLINED.sub("", self.node.output[0]) if self.node.output else "", self.outputs)


def _random_nodes(model: ModelProto) -> list[_Drawing]:
    """The nodes of a model that draw random numbers, in their order, those of subgraphs too."""
    found = list(_drawings(model.graph.node, {value.name: frozenset([value.name]) for value in model.graph.output}))
    for function in model.functions:  # of an opset that does not go with the model's
        found += _drawings(function.node, {name: frozenset([name]) for name in function.output})
    return found[::-1]


def _drawings(nodes: Iterable[NodeProto], outputs: dict[str, frozenset[str]]) -> Iterator[_Drawing]:
    """The nodes that draw random numbers, the last one first. `outputs` says which depend on names; the names that are read are added."""
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

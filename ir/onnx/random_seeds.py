"""Models that draw random numbers, run so that two of them draw the same: each random operator gets a seed."""

from collections.abc import Iterator
from typing import Final

from onnx import ModelProto, NodeProto, helper

from passat.ir.onnx.counterparts import Named, counterparts
from passat.ir.onnx.opaque import RANDOM
from passat.ir.onnx.scope import inner_nodes

_MODE: Final = 2
"""The place of the operand that says whether a Dropout is in training mode."""
_INTEGER_SEED: Final = "Dropout"
_FIRST: Final = 7_000_003
"""The first seed: large, so that no operator is likely to have it already and to draw the same numbers as another one."""


class Seeds:
    """The seeds of the random operators of a model, and of those that stand for them in others."""

    def __init__(self, model: ModelProto) -> None:
        self._nodes = [_named(node) for node in _random_nodes(model)]

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def given_to(self, model: ModelProto) -> ModelProto:
        """The model with these seeds. Operators that have seeds keep them; those without counterpart get others."""
        made = ModelProto()
        made.CopyFrom(model)
        nodes = list(_random_nodes(made))
        numbers = counterparts(self._nodes, [_named(node) for node in nodes])
        for place, (node, number) in enumerate(zip(nodes, numbers, strict=True)):
            if any(attribute.name == "seed" for attribute in node.attribute):
                continue
            seed = _FIRST + (len(self._nodes) + place if number is None else number)
            node.attribute.append(helper.make_attribute("seed", seed if node.op_type == _INTEGER_SEED else float(seed)))
        return made


def _random_nodes(model: ModelProto) -> Iterator[NodeProto]:
    """The nodes of a model that draw random numbers, those of subgraphs and local functions too."""
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for node in nodes:
            for each in (node, *inner_nodes(node.attribute)):
                if each.domain in ("", "ai.onnx") and each.op_type in RANDOM and (each.op_type != "Dropout" or _may_train(each)):
                    yield each


def _may_train(node: NodeProto) -> bool:
    return len(node.input) > _MODE and bool(node.input[_MODE])


def _named(node: NodeProto) -> Named:
    return Named(node.op_type, node.output[0] if node.output else "")

"""The test cases of the onnx package with one defect each: invalid attributes, missing or additional operands and results."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from tests.fuzz.graphs import NEWEST
from tests.fuzz.node_cases import node_cases
from tests.ir.onnx.opset_samples import all_samples

INTEGERS: Final = (-1, 0, 99, -2, -7, 2**31 - 1, -(2**31), 2**40, -(2**63))
FLOATS: Final = (float("nan"), -1.0, 0.0, 3e38)
TEXTS: Final = (b"x", b"", b"\xff", b"SAME_UPPER", b"SAME_LOWER", b"VALID")
_WINDOWS: Final = ("strides", "dilations", "pads", "kernel_shape")


@lru_cache(1)
def distinct_cases() -> Sequence[tuple[NodeProto, Sequence[ValueInfoProto], int]]:
    """One case, with its declared inputs and its opset, for each operator, set of attributes, and number of operands."""
    found: dict[object, tuple[NodeProto, Sequence[ValueInfoProto], int]] = {}
    for node, inputs, _, opset in node_cases():
        key = (node.op_type, tuple(attribute.name for attribute in node.attribute), len(node.input))
        found.setdefault(key, (node, inputs, opset))
    return tuple(found.values())


@lru_cache(1)
def older_cases() -> Sequence[tuple[NodeProto, Sequence[TensorProto], int]]:
    """Nodes of operators that have several versions, with their operands, in the first and the last opset that accept them, and in
    between."""
    found: dict[object, tuple[NodeProto, Sequence[TensorProto], int]] = {}
    for sample in all_samples():
        if sample.before:
            continue
        operands = [numpy_helper.from_array(array, f"i{i}") for i, array in enumerate(sample.operands) if array is not None]
        for opset in sorted({sample.since, min(sample.since + 3, sample.until, NEWEST), min(sample.until, NEWEST)}):
            found.setdefault((sample.op_type, opset, tuple(sample.attrs), len(operands)), (sample.node(), operands, opset))
    return tuple(found.values())


def spoiled(node: NodeProto) -> Iterator[NodeProto]:
    """A node with one defect, each defect in turn."""
    for i, attribute in enumerate(node.attribute):
        for values in _values(attribute):
            copy = _copy(node)
            copy.attribute[i].CopyFrom(AttributeProto(name=attribute.name, type=attribute.type, **values))
            yield copy
            if attribute.name in _WINDOWS:  # automatic padding follows from these
                kept = [each for each in copy.attribute if each.name not in ("auto_pad", "pads")]
                del copy.attribute[:]
                copy.attribute.extend([*kept, helper.make_attribute("auto_pad", "SAME_UPPER")])
                yield copy
        copy = _copy(node)
        del copy.attribute[i]
        yield copy
    for name in ("input", "output"):
        count = len(getattr(node, name))
        for i in range(count):
            copy = _copy(node)
            getattr(copy, name)[i] = ""
            yield copy
            copy = _copy(node)
            del getattr(copy, name)[i:]
            yield copy
        copy = _copy(node)
        getattr(copy, name).append(node.input[0] if name == "input" and count else "more")
        yield copy


def _values(attribute: AttributeProto) -> list[Mapping[str, Any]]:
    given = list(attribute.ints)
    match attribute.type:
        case AttributeProto.INTS:
            others = [given[:-1], [*given, 1], [], [-number for number in given], given * 3]
            return [{"ints": numbers} for numbers in (*others, *([number] * len(given) for number in INTEGERS))]
        case AttributeProto.INT:
            return [{"i": number} for number in INTEGERS]
        case AttributeProto.STRING:
            return [{"s": text} for text in TEXTS]
        case AttributeProto.FLOAT:
            return [{"f": number} for number in FLOATS]
        case AttributeProto.FLOATS:
            return [{"floats": numbers} for numbers in (list(attribute.floats)[:-1], [float("nan")], [])]
        case _:
            return []


def _copy(node: NodeProto) -> NodeProto:
    copy = NodeProto()
    copy.CopyFrom(node)
    return copy


def model_of(node: NodeProto, inputs: Sequence[ValueInfoProto], opset: int, constants: Sequence[TensorProto] = ()) -> ModelProto:
    """The model of a node whose results are not declared."""
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    imports = [helper.make_opsetid("", opset), *([helper.make_opsetid(node.domain, 1)] if node.domain else [])]
    return helper.make_model(helper.make_graph([node], "g", inputs, outputs, constants), opset_imports=imports)

"""Groups of nodes that become kernels, in random graphs: no kernel needs its own results."""

from collections.abc import Sequence

import onnx
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from passat.runtime.kernels import fuse
from passat.runtime.kernels.fusing import key

UNARY = ("Neg", "Abs", "Sqrt", "Softmax")


def graph(choices: Sequence[tuple[int, int, int]]) -> onnx.ModelProto:
    """Each choice is a node: its operator, and how far back its operands are. Softmax cannot be in a kernel."""
    names = ["x"]
    nodes = []
    for number, (kind, one, other) in enumerate(choices):
        operands = [names[-1 - one % len(names)], names[-1 - other % len(names)]]
        name = f"v{number}"
        nodes.append(
            helper.make_node(UNARY[kind], operands[:1], [name]) if kind < len(UNARY) else helper.make_node("Add", operands, [name])
        )
        names.append(name)
    used = {name for node in nodes for name in node.input}
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in names[1:] if name not in used]
    given_ = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])]
    return helper.make_model(helper.make_graph(nodes, "g", given_, results), opset_imports=[helper.make_opsetid("", 18)])


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 12), st.integers(0, 12)), min_size=2, max_size=60))
def test_kernels_are_in_order(choices: Sequence[tuple[int, int, int]]) -> None:
    proto = graph(choices)
    made = fuse(proto, {key(node) for node in proto.graph.node})
    if made is None:
        return
    onnx.checker.check_model(made.model)  # rejects nodes that read what later ones write
    inside = [number for group in made.groups for number in group.nodes]
    assert len(inside) == len(set(inside))
    assert len(made.model.graph.node) == len(proto.graph.node) - made.nodes + len(made.groups)
    assert all(proto.graph.node[number].op_type != "Softmax" for number in inside)


def test_a_value_with_far_uses_is_in_the_kernel_of_the_nearest() -> None:
    """Of 3,000 nodes, each third reads a value from the middle; the search for paths around a group visits few nodes."""
    proto = graph([(4, 0, number // 2) if number % 3 == 2 else (number % 3, 0, 0) for number in range(3000)])
    made = fuse(proto, {key(node) for node in proto.graph.node})
    assert made is not None
    assert made.nodes == 3000

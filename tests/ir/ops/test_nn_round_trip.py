"""Models with one node through the importer and the exporter: unchanged, and rebuilt call by call."""

from typing import TYPE_CHECKING
from typing import Any as AnyValue

import numpy as np
import onnx
import pytest

from passat.ir.expr import Call, Expr
from passat.ir.module import IRModule
from passat.ir.onnx import from_onnx, to_onnx
from passat.ir.op import Op
from passat.ir.tensor import Array
from passat.ir.traverse import post_order, rewrite

if TYPE_CHECKING:
    from tests.ir.ops.conftest import Nodes

Case = tuple[str, int, list[tuple[int, ...]], dict[str, AnyValue]]

CASES: list[Case] = [
    ("MatMul", 9, [(2, 3), (3, 4)], {}),
    ("Gemm", 7, [(2, 3), (4, 3), (4,)], {"transB": 1}),
    ("Gemm", 9, [(3, 2), (3, 4), (4,)], {"transA": 1}),
    ("Gemm", 13, [(2, 3), (4, 3)], {"transB": 1}),
    ("Einsum", 12, [(2, 3), (3, 4)], {"equation": "ij,jk"}),
    ("Conv", 11, [(1, 2, 5, 5), (4, 1, 3, 3), (4,)], {"group": 2, "auto_pad": "SAME_UPPER"}),
    ("Conv", 22, [(1, 2, 5), (4, 2, 3)], {}),
    ("ConvTranspose", 11, [(1, 2, 5), (2, 3, 4), (3,)], {"auto_pad": "SAME_UPPER", "strides": [2]}),
    ("MaxPool", 8, [(1, 2, 6, 6)], {"kernel_shape": [2, 2], "auto_pad": "SAME_LOWER"}),
    ("AveragePool", 19, [(1, 2, 6)], {"kernel_shape": [3], "count_include_pad": 1, "ceil_mode": 1, "pads": [1, 1], "strides": [2]}),
    ("LpPool", 18, [(1, 2, 6)], {"kernel_shape": [3], "p": 1}),
    ("GlobalAveragePool", 7, [(1, 2, 6, 6)], {}),
    ("GlobalMaxPool", 22, [(1, 2, 6)], {}),
    ("BatchNormalization", 7, [(2, 3, 4), (3,), (3,), (3,), (3,)], {"momentum": 0.5, "spatial": 1}),
    ("BatchNormalization", 15, [(2, 3, 4), (3,), (3,), (3,), (3,)], {"epsilon": 0.5, "training_mode": 0}),
    ("InstanceNormalization", 7, [(2, 3, 4), (3,), (3,)], {}),
    ("GroupNormalization", 21, [(2, 4, 3), (4,), (4,)], {"num_groups": 2}),
    ("LayerNormalization", 17, [(2, 3, 4), (3, 4), (3, 4)], {"axis": 1}),
    ("LayerNormalization", 17, [(2, 4), (4,)], {"stash_type": 1}),
    ("RMSNormalization", 23, [(2, 4), (4,)], {}),
    ("LRN", 7, [(1, 4, 2, 2)], {"size": 3}),
    ("LpNormalization", 7, [(2, 4)], {"p": 1}),
    ("Softmax", 7, [(2, 4)], {}),
    ("LogSoftmax", 13, [(2, 4)], {"axis": 0}),
    ("Dropout", 7, [(2, 4)], {"ratio": 0.25}),
    ("Dropout", 13, [(2, 4)], {"seed": 1}),
]


def arrays(shapes: list[tuple[int, ...]]) -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.uniform(0.5, 2, shape).astype(np.float32) for shape in shapes]


def model_of(nodes: "Nodes", case: Case) -> onnx.ModelProto:
    op_type, version, shapes, attrs = case
    model = nodes.model(op_type, version, arrays(shapes), **attrs)
    model = onnx.shape_inference.infer_shapes(model)
    if not model.graph.output[0].type.ListFields():  # onnx infers nothing for GroupNormalization
        model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("y", 1, shapes[0]))
    return model


def names_of(module: IRModule) -> list[str]:
    return [node.op.name for node in post_order(module["main"]) if isinstance(node, Call) and isinstance(node.op, Op)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def test_a_node_comes_back_as_it_was(nodes: "Nodes", case: Case) -> None:
    model = model_of(nodes, case)
    module = from_onnx(model)
    assert not [name for name in names_of(module) if name.startswith("onnx.")]
    found = to_onnx(module)
    assert list(found.graph.node) == list(model.graph.node)
    onnx.checker.check_model(found)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def test_a_rebuilt_node_is_one_node_of_the_same_value(nodes: "Nodes", case: Case) -> None:
    def again(_: Expr, new: Expr) -> Expr:
        return Call(new.op, new.args, new.attrs, new._type_args, new.span) if isinstance(new, Call) else new

    model = model_of(nodes, case)
    module = from_onnx(model)
    main = module["main"]
    module["main"] = main.with_body(rewrite(main.body, again))
    found = to_onnx(module)
    assert [node.op_type for node in found.graph.node] == [case[0]]
    assert list(found.graph.node[0].output) == ["y"]
    feeds = {f"x{i}": array for i, array in enumerate(arrays(case[2]))}
    np.testing.assert_allclose(nodes.run(found, feeds), nodes.run(model, feeds), rtol=1e-5, atol=1e-6)

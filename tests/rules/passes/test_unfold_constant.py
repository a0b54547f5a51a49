"""UnfoldConstant: large constants that can be computed from others of the program are not stored."""

from pathlib import Path
from typing import Any as AnyValue

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from passat.certificates import check_certificate
from passat.optimizer import Result, optimize

ROWS, COLUMNS = 700, 500
"""1.4 MB in float32."""
SMALL = 100


def tied(*nodes: onnx.NodeProto, dtype: type = np.float32, rows: int = ROWS, **constants: AnyValue) -> onnx.ModelProto:
    """A model that reads rows of the weight w, and computes y from their relu x by the nodes."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.normal(size=(rows, COLUMNS)), **constants}
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["w", "ids"], ["rows"]),
            helper.make_node("Relu", ["rows"], ["same"]),
            helper.make_node("Relu", ["same"], ["x"]),
            *nodes,
        ],
        "tied",
        [helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, ["n"])],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(np.asarray(value, dtype), name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def operators(result: Result) -> list[str]:
    return [node.op_type for node in result.model.graph.node]


TRANSPOSED = helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0])
PRODUCT = helper.make_node("MatMul", ["x", "t"], ["y"])


def test_a_weight_that_is_also_read_transposed_is_stored_once() -> None:
    model = tied(TRANSPOSED, PRODUCT)
    result = optimize(model, certificate=True)
    assert sorted(operators(result)) == ["Gather", "MatMul", "Relu", "Transpose"]
    assert len(result.model.SerializeToString()) < 1.01 * len(model.SerializeToString())
    assert optimize(result.model).model == result.model
    assert check_certificate(result.certificate, before=model, after=result.model).complete


def test_a_product_with_a_number_is_unfolded_too() -> None:
    scaled = helper.make_node("Mul", ["t", "half"], ["s"])
    result = optimize(tied(TRANSPOSED, scaled, helper.make_node("MatMul", ["x", "s"], ["y"]), half=0.7))
    assert sorted(operators(result)) == ["Gather", "MatMul", "Mul", "Relu", "Transpose"]
    assert len(result.model.graph.initializer) == 2


def test_equal_copies_of_a_weight_count_as_one() -> None:
    model = tied(helper.make_node("Transpose", ["copy"], ["t"], perm=[1, 0]), PRODUCT)
    model.graph.initializer.add().CopyFrom(model.graph.initializer[0])
    model.graph.initializer[1].name = "copy"
    assert [each.name for each in optimize(model).model.graph.initializer] == ["w"]


def test_products_of_one_tensor_with_the_weights_of_all_layers_share_it() -> None:
    # As in DeBERTa: each layer multiplies the relative positions by the weights that it also multiplies its input by.
    layers = range(6)
    nodes = [helper.make_node("Softmax", ["positions"], ["p"])]
    for i in layers:
        nodes += [
            helper.make_node("MatMul", ["p", f"w{i}"], [f"r{i}"]),
            helper.make_node("Transpose", [f"r{i}"], [f"t{i}"], perm=[1, 0]),
            helper.make_node("MatMul", [f"x{i - 1}" if i else "x", f"w{i}"], [f"q{i}"]),
            helper.make_node("Relu", [f"q{i}"], [f"a{i}"]),
            helper.make_node("MatMul", [f"a{i}", f"t{i}"], [f"s{i}"]),
            helper.make_node("Relu", [f"s{i}"], [f"v{i}"]),
            helper.make_node("MatMul", [f"v{i}", "w"], [f"z{i}"]),
            helper.make_node("Relu", [f"z{i}"], [f"x{i}"]),
        ]
    rng = np.random.default_rng(1)
    weights: dict[str, AnyValue] = {f"w{i}": rng.normal(size=(COLUMNS, COLUMNS)) / COLUMNS for i in layers}
    model = tied(*nodes, helper.make_node("Neg", [f"x{layers[-1]}"], ["y"]), positions=rng.normal(size=(ROWS, COLUMNS)), **weights)
    result = optimize(model, certificate=True)
    assert len(result.model.SerializeToString()) < 1.01 * len(model.SerializeToString())
    assert operators(result).count("Softmax") <= 1
    assert optimize(result.model).model == result.model
    assert check_certificate(result.certificate, before=model, after=result.model).complete


@pytest.mark.parametrize(
    ("nodes", "config", "dtype", "rows"),
    [
        ([TRANSPOSED, PRODUCT], {"rules.max_growth": 1 << 22}, np.float32, ROWS),
        ([TRANSPOSED, PRODUCT], {}, np.float32, SMALL),
        # ONNX Runtime has no such product of float16, and does not compute it when it loads the model.
        (
            [TRANSPOSED, helper.make_node("Mul", ["t", "half"], ["s"]), helper.make_node("MatMul", ["x", "s"], ["y"])],
            {},
            np.float16,
            2 * ROWS,
        ),
    ],
    ids=["a larger limit", "a small weight", "float16"],
)
def test_what_stays_folded(nodes: list[onnx.NodeProto], config: dict[str, int], dtype: type, rows: int) -> None:
    result = optimize(tied(*nodes, dtype=dtype, rows=rows, half=0.7), config=config, allow_unverified=True)
    assert "Mul" not in operators(result)
    assert "Transpose" not in operators(result)


def test_a_weight_without_other_readers_is_stored_transposed() -> None:
    model = tied(helper.make_node("Transpose", ["v"], ["t"], perm=[1, 0]), PRODUCT, v=np.random.default_rng(1).normal(size=(ROWS, COLUMNS)))
    assert sorted(operators(optimize(model))) == ["Gather", "MatMul", "Relu"]


def test_a_weight_that_a_branch_reads_transposed() -> None:
    kind = onnx.TensorProto.FLOAT
    then = helper.make_graph([TRANSPOSED, PRODUCT], "then", [], [helper.make_tensor_value_info("y", kind, None)])
    other = helper.make_graph([helper.make_node("MatMul", ["x", "v"], ["z"])], "else", [], [helper.make_tensor_value_info("z", kind, None)])
    branch = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    model = tied(branch, v=np.random.default_rng(1).normal(size=(COLUMNS, ROWS)))
    model.graph.input.append(helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []))
    result = optimize(model)
    assert len(result.model.SerializeToString()) < 1.01 * len(model.SerializeToString())


def test_external_data(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save_model(tied(TRANSPOSED, PRODUCT), path, save_as_external_data=True, location="model.data")
    optimize(path).save(tmp_path / "result.onnx")
    sizes = [sum(each.stat().st_size for each in tmp_path.glob(f"{name}*")) for name in ("model", "result")]
    assert sizes[1] < 1.01 * sizes[0]

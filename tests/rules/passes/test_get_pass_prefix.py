"""GetPassPrefix: the first passes of relay.build."""

import onnx

from passat.optimizer import optimize
from passat.passmgr import get_pass, pipeline_text
from passat.rules.passes.pipelines import get_pass_prefix
from tests.rules.passes.golden import program, run

SIGNATURE = "%x: (1, 2, 5, 5), %w: (3, 2, 3, 3), %b: (3)"
BODY = "nn.relu(nn.dropout(nn.bias_add(nn.conv2d(%x, %w), %b)).0) + 0f"


def test_it_is_a_pass_with_a_name() -> None:
    assert pipeline_text(get_pass("GetPassPrefix")) == "GetPassPrefix"
    assert [member.info.name for member in get_pass_prefix().members] == [
        "RemoveUnusedFunctions",
        "Legalize",
        "SimplifyInference",
        "DynamicToStatic",
        "EliminateCommonSubexpr",
        "SimplifyExpr",
        "CombineParallelConv2D",
        "CombineParallelDense",
        "CombineParallelBatchMatmul",
        "FoldConstant",
        "FoldScaleAxis",
        "CanonicalizeCast",
        "CanonicalizeOps",
        "FlattenAtrousConv",
        "InferType",
        "AlterOpLayout",
        "FastMath",
        "FoldConstant",
    ]


def test_levels() -> None:
    module = program(SIGNATURE, BODY)
    assert "nn.bias_add" in str(run(get_pass_prefix(), module, opt_level=2))
    after = str(run(get_pass_prefix(), module, opt_level=3))
    assert "nn.bias_add" not in after
    assert "expand_dims" in after
    assert "dropout" not in after
    softmax = program("%x: (2, 3)", "nn.softmax(%x)")
    assert "fast_softmax" not in str(run(get_pass_prefix(), softmax, opt_level=3))
    assert "fast_softmax" in str(run(get_pass_prefix(), softmax, opt_level=4))


def test_casts_to_int32_stay_apart_and_others_do_not() -> None:
    twice = "let %a = cast(%x, dtype={0!r});\nlet %b = cast(%x, dtype={0!r});\n(nn.relu(%a), %b)".replace("'", '"')
    kept = str(run(get_pass_prefix(), program("%x: (2, 3)", twice.format("int32").replace("'", '"')), opt_level=3))
    shared = str(run(get_pass_prefix(), program("%x: (2, 3)", twice.format("float64").replace("'", '"')), opt_level=3))
    assert kept.count("cast(") == 2
    assert shared.count("cast(") <= kept.count("cast(")


def test_models() -> None:
    model = onnx.parser.parse_model(
        """
        <ir_version: 9, opset_import: ["": 18]>
        main (float[2, 3] x) => (float[2, 3] z) { zero = Constant<value_float = 0.0>() y = Add(x, zero) z = Softmax(y) }
        """
    )
    result = optimize(model, passes="GetPassPrefix", opt_level=4)
    assert [node.op_type for node in result.model.graph.node] == ["Softmax"]

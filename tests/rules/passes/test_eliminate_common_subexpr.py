"""EliminateCommonSubexpr with expressions that are excluded."""

import pytest

from passat.ir.expr import Call, Expr, TupleGetItem
from passat.passmgr import Pass, parse_pipeline, pipeline_text
from passat.rules.passes.simplify import eliminate_common_subexpr, share
from tests.rules.building import func, ops, var
from tests.rules.passes.golden import becomes, stays
from tests.rules.running import operators

TWICE = "%0 = nn.relu(%x); %1 = nn.relu(%x); %2 = tanh(%0); %3 = tanh(%1); (%2, %3)"


def is_tanh(expr: Expr) -> bool:
    return isinstance(expr, Call) and repr(expr.op) == "tanh"


@pytest.mark.parametrize("pass_", [eliminate_common_subexpr(is_tanh), eliminate_common_subexpr(("tanh",))])
def test_named_bindings_are_not_merged(pass_: Pass) -> None:
    becomes(pass_, "%x: (3)", TWICE, "%0 = nn.relu(%x); %1 = tanh(%0); %2 = tanh(%0); (%1, %2)", sharing=True)


def test_relay_build_leaves_casts_to_int32() -> None:
    def is_cast(expr: Expr) -> bool:
        return isinstance(expr, Call) and expr.attrs.get("dtype") == "int32"

    body = '%0 = cast(%x, dtype="int32"); %1 = cast(%x, dtype="int32"); add(%0, %1)'
    stays(eliminate_common_subexpr(is_cast), "%x: (3)", body)
    becomes(eliminate_common_subexpr(("nothing",)), "%x: (3)", body, '%0 = cast(%x, dtype="int32"); add(%0, %0)', sharing=True)


def test_equal_scalars_are_equal_and_other_constants_are_not() -> None:
    becomes(
        eliminate_common_subexpr(("nothing",)),
        "%x: (3)",
        "%0 = add(%x, 1f); %1 = add(%x, 1f); %2 = add(%x, 2f); (%0, %1, %2)",
        "%0 = add(%x, 1f); %1 = add(%x, 2f); (%0, %0, %1)",
        sharing=True,
    )
    becomes(
        eliminate_common_subexpr(("nothing",)),
        "%x: (3)",
        "(add(%x, -0f), add(%x, 0f))",
        "(add(%x, -0f), add(%x, 0f))",
        sharing=True,
    )


def test_attributes_distinguish_calls() -> None:
    becomes(
        eliminate_common_subexpr(("nothing",)),
        "%x: (3, 3)",
        "(sum(%x, axis=[0]), sum(%x, axis=[1]), sum(%x, axis=[0]))",
        "%0 = sum(%x, axis=[0]); (%0, sum(%x, axis=[1]), %0)",
        sharing=True,
    )


def test_fields_of_one_tuple() -> None:
    body = "%0 = split(%x, indices_or_sections=3); %1 = %0.0; %2 = %0.0; add(%1, %2)"
    becomes(
        eliminate_common_subexpr(("nothing",)),
        "%x: (3)",
        body,
        "%0 = split(%x, indices_or_sections=3); %1 = %0.0; add(%1, %1)",
        sharing=True,
    )
    stays(eliminate_common_subexpr(lambda expr: isinstance(expr, TupleGetItem)), "%x: (3)", body)


def test_stateful_calls_are_not_merged() -> None:
    stays(eliminate_common_subexpr(("nothing",)), "%x: (3)", "(nn.dropout(%x).1, nn.dropout(%x).1)")


def test_functions_that_are_primitive_are_not_entered() -> None:
    body = "%0 = fn (%y: Tensor[(3), float32], Primitive=1) { add(tanh(%y), tanh(%y)) }; %0(%x)"
    stays(eliminate_common_subexpr(("nothing",)), "%x: (3)", body)


def test_names_in_pipeline_text() -> None:
    text = "EliminateCommonSubexpr{fskip=[cast,tanh]}".replace(",", ", ")
    assert pipeline_text(parse_pipeline(text)) == text
    becomes(parse_pipeline(text), "%x: (3)", TWICE, "%0 = nn.relu(%x); %1 = tanh(%0); %2 = tanh(%0); (%1, %2)", sharing=True)


def test_a_long_chain() -> None:
    left = right = var("x", (3,))
    for _ in range(5000):
        left, right = ops.nn.relu(left), ops.nn.relu(right)
    made = share(func(left + right), lambda expr: False)
    assert len(operators(made)) == 5001


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(TWICE, "%0 = nn.relu(%x); %1 = tanh(%0); (%1, %1)", id="calls"),
        pytest.param("(add(%x, 1f), add(%x, 1f))", "%0 = add(%x, 1f); (%0, %0)", id="scalars"),
        pytest.param("(sum(%x), sum(%x, axis=[0]))", "(sum(%x), sum(%x, axis=[0]))", id="attributes that are written otherwise"),
        pytest.param("(ones(shape=[3]), ones(shape=[3]))", "%0 = ones(shape=[3]); (%0, %0)", id="calls without operands"),
        pytest.param(
            "%0 = split(%x, indices_or_sections=3); (tanh(%0.0), tanh(%0.0), tanh(%0.1))",
            "%0 = split(%x, indices_or_sections=3); %1 = tanh(%0.0); (%1, %1, tanh(%0.1))",
            id="fields",
        ),
        pytest.param("%0 = (%x, tanh(%x)); %1 = (%x, tanh(%x)); (%0, %1)", "%0 = (%x, tanh(%x)); (%0, %0)", id="tuples"),
    ],
)
def test_without_fskip_all_equal_calls_are_merged(before: str, after: str) -> None:
    becomes(eliminate_common_subexpr(), "%x: (3)", before, after, sharing=True)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("(nn.dropout(%x).1, nn.dropout(%x).1)", id="stateful calls"),
        pytest.param("(add(%x, 0f), add(%x, -0f))", id="zeros of two signs"),
        pytest.param("(add(%x, 1f), add(%x, 2f))", id="other constants"),
        pytest.param("(subtract(%x, tanh(%x)), subtract(tanh(%x), %x))", id="operands in another order"),
    ],
)
def test_without_fskip_different_calls_are_not_merged(body: str) -> None:
    wanted = body.replace("(subtract(%x, tanh(%x)), subtract(tanh(%x), %x))", "%0 = tanh(%x); (subtract(%x, %0), subtract(%0, %x))")
    becomes(eliminate_common_subexpr(), "%x: (3)", body, wanted, sharing=True)

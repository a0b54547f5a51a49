"""FastMath, CanonicalizeOps, CanonicalizeCast and Legalize."""

import pytest

from passat.ir.op import get_op
from passat.passmgr import PipelineError, get_entry, parse_pipeline
from passat.rules.passes.target import CanonicalizeCast, canonicalize_ops, fast_math, legalize
from passat.rules.pattern import RuleError, op, tensors
from passat.rules.rule_set import RuleSet
from tests.rules.passes.golden import becomes, program, run, stays
from tests.rules.running import assert_equal_in_value

x, y = tensors("x y")


class Rectifiers(RuleSet):
    """Rectifiers as the maximum of two numbers."""

    relu = op.nn.relu(x) >> op.maximum(x, 0)


class Sums(RuleSet):
    """A bidirectional rule."""

    swap = (x + y >> y + x).and_back()


def test_fast_math() -> None:
    signature, before = "%x: (2, 3)", "nn.softmax(erf(tanh(exp(%x))), axis=0)"
    becomes(fast_math(), signature, before, "nn.fast_softmax(fast_erf(fast_tanh(fast_exp(%x))), axis=0)")
    whole = program(signature, before)
    assert_equal_in_value(whole["main"], run(fast_math(), whole)["main"], exact=False)


def test_fast_math_is_of_32_bits_and_not_exact() -> None:
    stays(fast_math(), "%x: (2, 3) float64", "exp(%x)")
    stays(fast_math(), "%x: (2, 3) float16", "tanh(%x)")
    stays(fast_math(), "%x: (2, 3)", "exp(%x)", rules__math="exact")


def test_levels() -> None:
    levels = {name: get_entry(name).make({}).info.opt_level for name in ("FastMath", "CanonicalizeOps", "CanonicalizeCast", "Legalize")}
    assert levels == {"FastMath": 4, "CanonicalizeOps": 3, "CanonicalizeCast": 3, "Legalize": 1}


def test_a_bias_is_added() -> None:
    signature = "%x: (1, 3, 4, 4), %w: (3), %b: (4)"
    becomes(canonicalize_ops(), signature, "nn.bias_add(%x, %w)", "add(%x, expand_dims(%w, axis=1, num_newaxis=2))")
    becomes(canonicalize_ops(), signature, "nn.bias_add(%x, %b, axis=-1)", "add(%x, %b)")
    stays(canonicalize_ops(), signature, "add(%x, %b)")


def test_each_use_casts_by_itself() -> None:
    becomes(
        CanonicalizeCast(),
        "%x: (3) int8",
        '%0 = cast(%x, dtype="int32"); add(multiply(%0, 2), negative(%0))',
        'add(multiply(cast(%x, dtype="int32"), 2), negative(cast(%x, dtype="int32")))',
        sharing=True,
    )


@pytest.mark.parametrize(
    ("signature", "body"),
    [
        ("%x: (3) int32", '%0 = cast(%x, dtype="int8"); add(%0, %0)'),  # to a narrower type
        ("%x: (3) int8", 'negative(cast(%x, dtype="int32"))'),  # used once
        ("%x: (3) int8", '%0 = cast(%x, dtype="int32"); (sum(%0), max(%0))'),  # not fused with what comes before
    ],
)
def test_other_casts_stay_shared(signature: str, body: str) -> None:
    stays(CanonicalizeCast(), signature, body)


def test_rules_of_the_user_lower() -> None:
    becomes(legalize((Rectifiers,)), "%x: (2, 3)", "nn.relu(%x)", "maximum(%x, 0f)")
    stays(legalize(()), "%x: (2, 3)", "nn.relu(%x)")


def test_sets_of_the_library_are_named() -> None:
    becomes(parse_pipeline("Legalize{sets=[Decompositions]}"), "%x: (2, 3), %b: (3)", "nn.bias_add(%x, %b)", "add(%x, %b)")
    with pytest.raises(RuleError, match="the library has no rule set 'Canonical'"):
        parse_pipeline("Legalize{sets=[Canonical]}")
    with pytest.raises(RuleError, match="a bidirectional rule cannot be lowering"):
        legalize((Sums,))
    with pytest.raises(PipelineError):
        parse_pipeline("Legalize{sets=3}")


@pytest.mark.parametrize(
    ("fast", "exact"), [("fast_exp", "Exp"), ("fast_tanh", "Tanh"), ("fast_erf", "Erf"), ("nn.fast_softmax", "Softmax")]
)
def test_onnx_has_the_functions_themselves(fast: str, exact: str) -> None:
    from passat.ir.onnx import to_onnx

    model = to_onnx(program("%x: (2, 3)", f"{fast}(%x)"))
    assert [node.op_type for node in model.graph.node] == [exact]
    assert get_op(fast).to_onnx is not None

"""RaiseOps and RaiseAttention: recover operators from the forms that exporters write."""

from passat.ir.module import IRModule
from passat.passmgr import PassContext
from passat.rules.passes.target import raise_attention, raise_operators
from passat.rules.rule_pass import written_opset
from tests.rules.passes.golden import becomes, program, run, stays

ATTENTION = """
%0 = transpose(reshape(%q, newshape=[2, 5, 2, 4]), axes=[0, 2, 1, 3]);
%1 = transpose(reshape(%k, newshape=[2, 5, 2, 4]), axes=[0, 2, 3, 1]);
%2 = transpose(reshape(%v, newshape=[2, 5, 2, 4]), axes=[0, 2, 1, 3]);
%3 = multiply(nn.matmul(%0, %1), 0.5f);
%4 = nn.matmul(nn.softmax(%3), %2);
reshape(transpose(%4, axes=[0, 2, 1, 3]), newshape=[2, 5, 8])
"""
ROWS = "%q: (2, 5, 8), %k: (2, 5, 8), %v: (2, 5, 8)"


def test_gelu_with_its_half_inside() -> None:
    becomes(raise_operators(), "%x: (4, 3)", "multiply(%x, multiply(0.5f, add(1f, erf(divide(%x, 1.4142135f)))))", "nn.gelu(%x)")


def test_the_halves_of_integers_stay() -> None:
    stays(raise_operators(), "%x: (4, 3) int32", "multiply(%x, multiply(%x, %x))")


def test_mish_and_hard_swish() -> None:
    becomes(raise_operators(), "%x: (4)", "multiply(tanh(nn.softplus(%x)), %x)", "nn.mish(%x)")
    becomes(raise_operators(), "%x: (4)", "divide(multiply(%x, clip(add(%x, 3f), a_min=0.0, a_max=6.0)), 6f)", "nn.hard_swish(%x)")


def test_softmax() -> None:
    body = "%0 = exp(subtract(%x, max(%x, axis=[1], keepdims=True))); divide(%0, sum(%0, axis=[1], keepdims=True))"
    becomes(raise_operators(), "%x: (4, 3)", body, "nn.softmax(%x, axis=1)")
    stays(raise_operators(), "%x: (4, 3)", body, rules__math="exact")


def test_attention_is_raised_if_the_target_has_it() -> None:
    found = str(run(raise_attention(), program(ROWS, ATTENTION), rules__opset=23))
    assert "nn.attention(%q, %k, %v, ()" in found.replace("%0 = ();", "").replace("%0,", "(),")
    assert "q_num_heads=2, kv_num_heads=2, scale=0.5" in found
    assert "transpose" not in found


def test_attention_stays_decomposed_if_the_target_lacks_it() -> None:
    stays(raise_attention(), ROWS, ATTENTION)
    stays(raise_attention(), ROWS, ATTENTION, rules__opset=22)


def test_the_target_is_that_of_the_context() -> None:
    with PassContext(config={"rules.opset": 23}) as ctx:
        assert written_opset(IRModule(), ctx) == 23
    assert written_opset(IRModule(), PassContext()) is None

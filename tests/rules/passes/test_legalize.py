"""Legalize with functions that are registered for operators."""

from typing import Any

import pytest

from passat import relay
from passat.ir.equality import structural_equal
from passat.ir.expr import Expr, Function
from passat.ir.module import IRModule
from passat.ir.op import get_op, register_op_attr
from passat.relay.testing import TempOpAttr, run_opt_pass
from passat.transform import PassContext, Sequential

X = relay.var("x", shape=(2, 3))


def program() -> Function:
    return relay.Function([X], relay.nn.relu(relay.tanh(X)))


def doubled(attrs: Any, inputs: list[Expr], types: list[Any]) -> Expr:
    assert [repr(type_) for type_ in types] == ["Tensor[(2, 3), float32]"] * 2
    return relay.tanh(inputs[0] + inputs[0])


def test_calls_become_results_of_registered_functions() -> None:
    with TempOpAttr("tanh", "FTVMLegalize", doubled):
        made = run_opt_pass(program(), relay.transform.Legalize())
    assert structural_equal(made, relay.Function([X], relay.nn.relu(relay.tanh(X + X))))
    assert run_opt_pass(program(), relay.transform.Legalize()) is not made


def test_none_leaves_a_call_and_other_attributes_are_other_functions() -> None:
    for attribute, passes in (("FTVMLegalize", relay.transform.Legalize()), ("FTVMOther", relay.transform.Legalize("FTVMOther"))):
        with TempOpAttr("tanh", attribute, lambda attrs, inputs, types: None):
            assert structural_equal(run_opt_pass(program(), passes), program())
    with TempOpAttr("tanh", "FTVMOther", doubled):
        assert structural_equal(run_opt_pass(program(), relay.transform.Legalize()), program())
        made = run_opt_pass(program(), relay.transform.Legalize(legalize_map_attr_name="FTVMOther"))
    assert not structural_equal(made, program())


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (3, "FTVMLegalize of tanh must return an expression or None, not a int"),
        (relay.const(1.0), "returned type float32 for a call of type Tensor"),
    ],
)
def test_ill_typed_results_are_rejected(result: object, message: str) -> None:
    with TempOpAttr("tanh", "FTVMLegalize", lambda attrs, inputs, types: result), pytest.raises(TypeError, match=message):
        run_opt_pass(program(), relay.transform.Legalize())


def test_applications_are_counted() -> None:
    with TempOpAttr("tanh", "FTVMLegalize", doubled), PassContext() as context:
        Sequential([relay.transform.Legalize()])(IRModule.from_expr(program()))
    assert context.statistics.counters["Legalize"]["legalized"] == 1


def test_levels_of_attributes() -> None:
    op = get_op("ceil")
    assert (op.get_attr("TOpPattern"), op.get_attr("TOpIsStateful"), op.get_attr("level"), op.has_attr("level")) == (0, False, None, False)
    register_op_attr("ceil", "level", 5)
    with pytest.raises(ValueError, match="ceil already has the attribute level with level 10"):
        op.set_attr("level", 6)
    op.set_attr("level", 4, 9)
    assert op.get_attr("level") == 5
    op.set_attr("level", 7, 11)
    assert op.get_attr("level") == 7
    op.reset_attr("level")
    op.reset_attr("level")
    assert not op.has_attr("level")

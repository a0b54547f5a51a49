"""Operators that are declared step by step."""

from collections.abc import Iterator, Sequence

import pytest

from passat import relay
from passat.error import TVMError
from passat.ir import op
from passat.ir.attrs import Attrs
from passat.ir.infer import InferError, infer_type
from passat.ir.types import TensorType, Type

x = relay.var("x", shape=(10, 4))


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """Removes operators that a test declares at its end."""
    relay.op.list_ops()
    before = dict(op._OPS)
    yield
    op._OPS.clear()
    op._OPS.update(before)


def declared(name: str, inputs: int, relation: str) -> op.Op:
    made = relay.op.register(name, "An operator of ours.")
    made.set_num_inputs(inputs)
    made.add_argument("data_0", "Tensor", "The data.")
    made.set_attrs_type_key("DictAttrs")
    made.set_support_level(1)
    made.add_type_rel(relation)
    return made


def test_an_operator_is_found_and_inferred() -> None:
    log = declared("custom.log", 1, "Identity")
    assert relay.op.get("custom.log") is log
    assert (log.num_inputs, log.doc, log.is_own) == (1, "An operator of ours.", False)
    assert infer_type(relay.Call(log, [x])).checked_type == TensorType((10, 4))
    with pytest.raises(InferError, match=r"custom\.log.*takes 1 operand, but got 2"):
        infer_type(relay.Call(log, [x, x]))


def test_operands_broadcast() -> None:
    add = declared("custom.add", 2, "Broadcast")
    y = relay.var("y", shape=(5, 10, 1))
    assert infer_type(relay.Call(add, [x, y])).checked_type == TensorType((5, 10, 4))
    with pytest.raises(InferError, match="operands have different element types float32 and int8; cast one"):
        infer_type(relay.Call(add, [x, relay.var("z", shape=(4,), dtype="int8")]))


def test_a_relation_may_be_a_function_of_types_and_attributes() -> None:
    def relation(types: Sequence[Type], attrs: Attrs) -> Type:
        assert isinstance(types[0], TensorType)
        return types[0].with_dtype(attrs.get("to", "int8"))

    made = relay.op.register("custom.cast")
    with pytest.raises(InferError, match="has no type relation yet; add one with add_type_rel"):
        infer_type(relay.Call(made, [x]))
    made.set_num_inputs(1)
    made.add_type_rel("custom", relation)
    assert infer_type(relay.Call(made, [x], {"to": "int16"})).checked_type == TensorType((10, 4), "int16")
    made.add_type_rel("nothing", lambda types, attrs: None)  # type: ignore[arg-type,return-value]  # which is the point
    with pytest.raises(InferError, match="the type relation returned None, which is not a type"):
        infer_type(relay.Call(made, [x]))


def test_invalid_declarations() -> None:
    declared("custom.op", 1, "Identity")
    for name in ("custom.op", "nn.relu"):
        with pytest.raises(TVMError, match=f"Operator {name} is registered before"):
            relay.op.register(name)
    with pytest.raises(TVMError, match="there is no type relation 'Nope'; pass a function, or one of the names Identity and Broadcast"):
        declared("custom.other", 1, "Nope")
    with pytest.raises(TVMError, match="add declares already whether it is stateful"):
        relay.op.register_stateful("add", True)


def test_fusion_and_effects_are_set_by_name() -> None:
    made = declared("custom.op", 1, "Identity")
    relay.op.register_pattern("custom.op", relay.op.OpPattern.ELEMWISE)
    relay.op.register_stateful("custom.op", True)
    assert made.get_attr("TOpPattern") == relay.op.OpPattern.ELEMWISE
    assert made.get_attr("TOpIsStateful") is True
    assert made.stateful
    assert relay.op.get("add").num_inputs == 2
    assert relay.op.get("concatenate").num_inputs == 1


def test_functions_of_passes_are_registered_by_name() -> None:
    made = declared("custom.op", 1, "Identity")
    assert relay.op.register_alter_op_layout("custom.op", len) is len
    assert made.get_attr("FTVMAlterOpLayout") is len

    @relay.op.register_legalize("custom.op", level=11)  # type: ignore[untyped-decorator]  # what TVM has is a decorator and no decorator
    def legal(attrs: Attrs, inputs: list[relay.Expr], types: list[relay.Type]) -> relay.Expr:
        return inputs[0]

    assert made.get_attr("FTVMLegalize") is legal

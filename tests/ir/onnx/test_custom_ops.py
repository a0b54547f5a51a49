"""Declared operators of other domains: how their nodes are read and written, and invalid nodes."""

from collections.abc import Callable, Iterator

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

from passat.ir import onnx_mapping, op
from passat.ir.attrs import Attrs
from passat.ir.custom_ops import declared_op
from passat.ir.expr import Call, Function, Span, var
from passat.ir.folding import folded_value
from passat.ir.module import IRModule
from passat.ir.onnx import from_onnx, to_onnx
from passat.ir.op import Op, OpTypeError, define_op, get_op, list_ops
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType, Type

Parse = Callable[..., ModelProto]
X = TensorType((2, 3), "float32")


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """Removes operators that a test declares at its end."""
    list_ops()
    before = [(table, dict(table)) for table in (op._OPS, onnx_mapping.READERS)]
    yield
    for table, entries in before:
        table.clear()
        table.update(entries)  # type: ignore[arg-type]  # of its own kind


def declare() -> Op:
    """Declares an operator with one operand and attributes of several kinds."""

    @define_op(onnx="com.mine.Fused(gamma=scale)", kernel=lambda x, **_: x * np.float32(2), exact="never")
    def fused(x: TensorType, *, alpha: float = 1.0, scale: tuple[float, ...] = (), mode: str = "fast", steps: int = 1) -> TensorType:
        """A user's operator."""
        if x.dtype != "float32":
            raise OpTypeError("x is of float32")
        return x

    return fused


def calls(model: ModelProto) -> Iterator[Call]:
    from passat.ir.traverse import post_order

    function = from_onnx(model)["main"]
    return (node for node in post_order(function) if isinstance(node, Call))


def test_a_node_is_read_as_declared(parse: Parse) -> None:
    fused = declare()
    model = parse(
        "g (float[2, 3] x) => (float[2, 3] y) { f = com.mine.Fused<alpha = 0.1, gamma = [0.3, 2.0]>(x) y = Relu(f) }",
        imports=', "com.mine": 4',
    )
    first, second = calls(model)
    assert first.op is fused is get_op("com.mine.Fused") is declared_op("onnx.com.mine.Fused")
    assert dict(first.attrs) == {"alpha": 0.1, "scale": (0.3, 2.0), "mode": "fast", "steps": 1}
    assert (repr(second.op), second.checked_type) == ("nn.relu", X)
    assert to_onnx(from_onnx(model)) == model


def test_a_call_is_written_as_declared() -> None:
    fused = declare()
    x = var("x", shape=(2, 3))
    body = get_op("nn.relu")(fused(x, alpha=2, scale=[1, 0.1], steps=3.0, span=Span("n", outputs=("f",))))
    made = to_onnx(IRModule.from_expr(Function([x], body)))
    onnx.checker.check_model(made)
    [node, _] = made.graph.node
    assert (node.op_type, node.domain, list(node.input), list(node.output)) == ("Fused", "com.mine", ["x"], ["f"])
    kinds = {attribute.name: (attribute.type, helper.get_attribute_value(attribute)) for attribute in node.attribute}
    floats, ints, texts = onnx.AttributeProto.FLOAT, onnx.AttributeProto.INT, onnx.AttributeProto.STRING
    assert kinds == {
        "alpha": (floats, 2.0),
        "gamma": (onnx.AttributeProto.FLOATS, [1.0, np.float32(0.1)]),
        "mode": (texts, b"fast"),
        "steps": (ints, 3),
    }
    assert {(each.domain, each.version) for each in made.opset_import} >= {("com.mine", 1)}
    assert [(value.name, value.type.tensor_type.elem_type) for value in made.graph.value_info] == [("f", TensorProto.FLOAT)]


def test_several_results_and_any_number_of_operands(parse: Parse) -> None:
    @define_op("mine.parts", onnx="com.mine.Parts", kernel=lambda *xs: (xs[0], xs[-1]))
    def parts(*xs: TensorType) -> TupleType:
        """The first and the last."""
        return TupleType([xs[0], xs[-1]])

    text = "g (float[2] x, float[3] z) => (float[3] y) { p, q = com.mine.Parts(x, x, z) y = Relu(q) }"
    model = parse(text, imports=', "com.mine": 1')
    first, _ = calls(model)
    assert (first.op, first.checked_type) == (parts, TupleType([TensorType((2,), "float32"), TensorType((3,), "float32")]))
    assert to_onnx(from_onnx(model)) == model
    x = var("x", shape=(2,))
    again = to_onnx(IRModule.from_expr(Function([x], parts(x, x))))
    assert [(len(node.input), len(node.output)) for node in again.graph.node] == [(2, 2)]


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ("com.mine.Fused<beta = 2.0>(x)", "com.mine.Fused has no attribute 'beta'; it has: alpha, scale, mode, steps"),
        ('com.mine.Fused<alpha = "">(x)', "com.mine.Fused declares alpha as float, but the node has str"),
        ('com.mine.Fused<gamma = ["a"]>(x)', "com.mine.Fused declares scale as float, but the node has str"),
        ("com.mine.Fused<alpha = float {1.0}>(x)", "com.mine.Fused declares alpha as float, but the node has Tensor"),
        ("com.mine.Fused<steps = 2.5>(x)", "com.mine.Fused declares steps as int, but the node has float"),
        ("com.mine.Fused(x, x)", "com.mine.Fused takes 1 operand (x), but got 2"),
        ("com.mine.Fused(h)", "n: com.mine.Fused(Tensor[(2, 3), float16]; alpha=1.0, scale=(), mode='fast', steps=1): x is of float32"),
    ],
)
def test_undeclared_forms_stay_opaque_and_are_reported(parse: Parse, node: str, reason: str) -> None:
    declare()
    text = f"g (float[2, 3] x, float16[2, 3] h) => (float[2, 3] y) {{ [n] y = {node} }}"
    module = from_onnx(parse(text, imports=', "com.mine": 1'))
    [warning] = module.attrs["onnx"].warnings
    assert str(warning.sentence) == f"node 'n' (com.mine.Fused) is left opaque, since it does not match its declaration: {reason}"


def test_every_error_of_a_declaration_is_a_sentence(parse: Parse) -> None:
    @define_op(onnx="com.mine.Odd")
    def odd(x: TensorType) -> TensorType:
        """Always fails."""
        assert x.ndim == 7
        return x

    @define_op(onnx="com.mine.Nothing")
    def nothing(x: TensorType) -> Type:
        """Returns nothing."""
        return None  # type: ignore[return-value]  # which is the mistake

    assert odd.name == "com.mine.Odd"
    for name, reason in (("Odd", "(Tensor[(2, 3), float32]): "), ("Nothing", "the type relation returned None, which is not a type")):
        module = from_onnx(parse(f"g (float[2, 3] x) => (float[2, 3] y) {{ y = com.mine.{name}(x) }}", imports=', "com.mine": 1'))
        [warning] = module.attrs["onnx"].warnings
        assert reason in str(warning.sentence)


def test_constants_are_folded_by_the_kernel() -> None:
    value = folded_value(declare(), [Tensor.dense(np.ones((2, 3), np.float32))], Attrs(), X)
    assert isinstance(value, Tensor)
    assert value.numpy().tolist() == [[2, 2, 2]] * 2


def test_a_later_declaration_takes_the_place_of_an_earlier_one(parse: Parse) -> None:
    first = declare()
    second = declare()
    assert get_op("com.mine.Fused") is second is not first
    model = parse("g (float[2, 3] x) => (float[2, 3] y) { y = com.mine.Fused(x) }", imports=', "com.mine": 1')
    assert next(calls(model)).op is second
    assert not {first, second} & set(list_ops())


def test_a_declaration_counts_more_than_a_function_of_the_model(parse: Parse) -> None:
    model = parse("g (float[2, 3] x) => (float[2, 3] y) { y = com.mine.Fused(x) }", imports=', "com.mine": 1')
    body = [helper.make_node("Relu", ["p"], ["q"])]
    model.functions.append(helper.make_function("com.mine", "Fused", ["p"], ["q"], body, [helper.make_opsetid("", 17)]))
    assert [call.op.name for call in calls(model) if isinstance(call.op, Op)] == ["onnx.com.mine.Fused"]
    fused = declare()
    assert [call.op for call in calls(model)] == [fused]


def test_names_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="an operator needs a name, or an ONNX operator with a domain"):
        define_op(onnx="Relu")
    with pytest.raises(ValueError, match=r"the operator 'nn\.relu' is declared twice"):
        define_op(onnx="nn.relu")(lambda x: x)
    with pytest.raises(ValueError, match="already has a reader"):
        define_op(onnx="com.microsoft.QuickGelu")(lambda x: x)

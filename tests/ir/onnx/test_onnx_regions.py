"""Subgraphs of If, Loop and Scan are functions in the module, and subgraphs again in the model."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto

from passat.ir.analysis import free_vars
from passat.ir.expr import Call, Constant, Expr, Function
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.onnx import OnnxError, from_onnx, to_onnx
from passat.ir.traverse import post_order
from passat.ir.types import FuncType, TensorType
from passat.passmgr import get_pass

Parse = Callable[..., ModelProto]
Run = Callable[[ModelProto, dict[str, Any]], list[Any]]
Rebuilt = Callable[[IRModule], IRModule]
Histogram = Callable[[ModelProto], Counter[str]]

IF = """g (bool c, float[N] x, float[N] z) => (float[N] y) {
    h = Relu(x)
    r = If (c) <
        then_branch = yes () => (float[N] a) { t = Add(h, z)\n a = Neg(t) },
        else_branch = no () => (float[N] b) { t = Mul(h, x)\n b = Exp(t) }
    >
    y = Sqrt(r)
}"""
LOOP = """g (int64 n, bool c, float[2] x, float[2] k) => (float[2] y, float[M, 2] all) {
    y, all = Loop (n, c, x) <body = step (int64 i, bool go, float[2] state) => (bool more, float[2] next, float[2] seen) {
        more = Identity(go)
        next = Add(state, k)
        seen = Mul(next, k)
    }>
}"""
SCAN = """g (float[2] start, float[T, 2] xs) => (float[2] last, float[T, 2] sums) {
    last, sums = Scan <num_scan_inputs = 1, body = step (float[2] total, float[2] x) => (float[2] next, float[2] out) {
        next = Add(total, x)
        out = Identity(next)
    }> (start, xs)
}"""
NESTED = """g (bool c, float[2] x) => (float[2] y) {
    y = If (c) <
        then_branch = a () => (float[2] p) {
            inner = Neg(x)
            p = If (c) <
                then_branch = b () => (float[2] q) { q = Add(inner, x) },
                else_branch = d () => (float[2] s) { s = Mul(inner, inner) }
            >
        },
        else_branch = e () => (float[2] u) { u = Relu(x) }
    >
}"""
X = np.array([1, -2], np.float32)
K = np.array([3, 0.5], np.float32)
CASES: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "If": (IF, [{"c": np.array(flag), "x": X, "z": K} for flag in (True, False)]),
    "Loop": (LOOP, [{"n": np.array(3), "c": np.array(True), "x": X, "k": K}]),
    "Scan": (SCAN, [{"start": X, "xs": np.stack([X, K, X])}]),
    "nested": (NESTED, [{"c": np.array(flag), "x": X} for flag in (True, False)]),
}


@pytest.mark.parametrize("name", CASES)
def test_they_come_back_with_the_same_nodes_and_values(name: str, parse: Parse, run: Run, rebuilt: Rebuilt, histogram: Histogram) -> None:
    text, all_feeds = CASES[name]
    model = parse(text)
    module = from_onnx(model)
    for out in (to_onnx(module), to_onnx(rebuilt(module))):
        onnx.checker.check_model(out, full_check=True)
        assert histogram(out) == histogram(model)
        assert out.graph.input == model.graph.input
        assert out.graph.output == model.graph.output
        for feeds in all_feeds:
            for want, got in zip(run(model, feeds), run(out, feeds), strict=True):
                np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("normal_form", ["ToANormalForm", "PartialEvaluate", "LambdaLift"])
@pytest.mark.parametrize("name", CASES)
def test_bodies_may_be_bound_to_variables_or_be_functions_of_the_module(name: str, normal_form: str, parse: Parse, run: Run) -> None:
    text, all_feeds = CASES[name]
    model = parse(text)
    module = get_pass(normal_form)(from_onnx(model))
    assert not regions(module, "onnx.If" if name == "nested" else f"onnx.{name}")[1]
    out = to_onnx(module)
    onnx.checker.check_model(out, full_check=True)
    for feeds in all_feeds:
        for want, got in zip(run(model, feeds), run(out, feeds), strict=True):
            np.testing.assert_array_equal(got, want)


def regions(module: IRModule, op: str) -> tuple[Call, list[Function]]:
    call = next(node for node in post_order(module["main"].body) if isinstance(node, Call) and repr(node.op) == op)
    return call, [arg for arg in call.args if isinstance(arg, Function)]


def test_the_functions_are_closed_and_typed(parse: Parse) -> None:
    module = from_onnx(parse(IF))
    call, functions = regions(module, "onnx.If")
    assert not any(free_vars(function) for function in functions)
    assert [len(function.params) for function in functions] == [2, 2]
    assert call.attrs["bodies"] == ("then_branch", "else_branch")
    assert call.attrs["captured"] == (2, 2)
    assert all(isinstance(function.checked_type, FuncType) for function in functions)
    assert repr(call.checked_type) == "Tensor[(N,), float32]"


@pytest.mark.parametrize(
    ("kind", "one", "other", "type_"),
    [
        ("seq(float[])", "SequenceConstruct(x)", "SequenceConstruct(y)", "onnx.Sequence[Tensor[(?, 4), float32]]"),
        ("optional(float[])", "Optional(y)", "Optional(x)", "onnx.Optional[Tensor[(?, 4), float32]]"),
        ("seq(float[])", "SequenceEmpty()", "SequenceConstruct(y)", "onnx.Sequence[_]"),
        ("seq(float[])", "SequenceConstruct(y)", "SequenceEmpty()", "onnx.Sequence[_]"),
    ],
)
def test_elements_of_both_branches(kind: str, one: str, other: str, type_: str, parse: Parse) -> None:
    """A size that only one branch knows is unknown."""
    branches = f"then_branch = t () => ({kind} a) {{ a = {one} }}, else_branch = e () => ({kind} a) {{ a = {other} }}"
    module = from_onnx(parse(f"g (float[b, 4] x, float[4, 4] y, bool c) => ({kind} z) {{ z = If(c) <{branches}> }}"))
    assert repr(module["main"].body.checked_type) == type_


def test_types_of_a_loop_follow_from_its_body_when_inferred_again(parse: Parse, rebuilt: Rebuilt) -> None:
    text = LOOP.replace("float[M, 2] all", "float all")  # a wrong rank would show
    model = parse(text)
    model.graph.output[1].type.tensor_type.ClearField("shape")
    module = rebuilt(from_onnx(model))
    infer_type(module["main"])
    assert repr(module["main"].body.checked_type) == "(Tensor[(2,), float32], Tensor[(?, 2), float32])"


def test_passes_may_change_the_functions(parse: Parse, run: Run) -> None:
    module = from_onnx(parse(IF))
    call, (yes, no) = regions(module, "onnx.If")
    changed = Call(call.op, [call.args[0], yes.with_body(yes.body * 2.0), no, *call.args[3:]], call.attrs, span=call.span)
    body = module["main"].body
    assert isinstance(body, Call)
    module["main"] = module["main"].with_body(Call(body.op, [changed], body.attrs, span=body.span))
    out = to_onnx(module)
    onnx.checker.check_model(out, full_check=True)
    feeds = {"c": np.array(True), "x": X, "z": np.array([-5, -7], np.float32)}
    np.testing.assert_array_equal(run(out, feeds)[0], np.sqrt(-(np.maximum(X, 0) + feeds["z"]) * 2))


def test_a_captured_value_may_become_a_constant(parse: Parse, run: Run) -> None:
    module = from_onnx(parse(IF))
    call, _ = regions(module, "onnx.If")
    args: list[Expr] = [Constant(K) if i in (4, 6) else arg for i, arg in enumerate(call.args)]
    module["main"] = module["main"].with_body(Call(call.op, args, call.attrs, span=call.span))
    out = to_onnx(module)
    onnx.checker.check_model(out)
    np.testing.assert_array_equal(run(out, {"c": np.array(True), "x": X, "z": X})[0], -(np.maximum(X, 0) + K))


def test_constants_that_a_branch_returns_are_made_in_it(parse: Parse, run: Run, rebuilt: Rebuilt) -> None:
    model = parse(
        """g (bool c, float[2] x) => (float[2] y) {
            y = If (c) <
                then_branch = yes () => (float[2] a) { a = Constant<value_floats = [1.0, 2.0]>() },
                else_branch = no () => (float[2] b) { w = Constant<value_floats = [3.0, 4.0]>()\n b = Identity(w) }
            >
        }"""
    )
    out = to_onnx(rebuilt(from_onnx(model)))
    onnx.checker.check_model(out)
    for flag in (True, False):
        feeds = {"c": np.array(flag), "x": X}
        np.testing.assert_array_equal(run(out, feeds)[0], run(model, feeds)[0])


def test_a_branch_that_returns_an_outer_value(parse: Parse, run: Run, rebuilt: Rebuilt) -> None:
    model = parse(
        """g (bool c, float[2] x) => (float[2] y) {
            y = If (c) <
                then_branch = yes () => (float[2] a) { a = Identity(x) },
                else_branch = no () => (float[2] b) { b = Neg(x) }
            >
        }"""
    )
    out = to_onnx(rebuilt(from_onnx(model)))
    onnx.checker.check_model(out)
    for flag, want in ((True, X), (False, -X)):
        np.testing.assert_array_equal(run(out, {"c": np.array(flag), "x": X})[0], want)


def test_initializers_of_a_subgraph(parse: Parse, run: Run, rebuilt: Rebuilt) -> None:
    model = parse(NESTED)
    branch = model.graph.node[0].attribute[0].g
    branch.initializer.append(onnx.numpy_helper.from_array(K, "k"))
    branch.node[0].CopyFrom(onnx.helper.make_node("Mul", ["x", "k"], ["inner"]))
    out = to_onnx(rebuilt(from_onnx(model)))
    onnx.checker.check_model(out)
    feeds = {"c": np.array(True), "x": X}
    np.testing.assert_array_equal(run(out, feeds)[0], X * K + X)


def test_names_of_sibling_branches_do_not_clash(parse: Parse) -> None:
    out = to_onnx(from_onnx(parse(IF)))
    made: list[str] = []
    stack = [out.graph]
    while stack:
        graph = stack.pop()
        made += [name for node in graph.node for name in node.output]
        stack += [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    assert len(made) == len(set(made))


def test_operators_with_subgraphs_keep_their_captures(parse: Parse, run: Run, rebuilt: Rebuilt) -> None:
    model = parse(
        """g (float[2] x, float[2] k) => (float[4] y) {
            h = Relu(k)
            s = SequenceConstruct(x, x)
            m = SequenceMap (s) <body = each (float[2] e) => (float[2] r) { r = Add(e, h) }>
            y = ConcatFromSequence <axis = 0> (m)
        }"""
    )
    module = from_onnx(model)
    call = next(node for node in post_order(module["main"].body) if isinstance(node, Call) and repr(node.op) == "onnx.SequenceMap")
    assert call.attrs["captured"] == (1,)
    assert repr(call.args[1].checked_type) == "Tensor[(2,), float32]"
    renamed = rebuilt(module)
    for out in (to_onnx(module), to_onnx(renamed)):
        onnx.checker.check_model(out)
        feeds = {"x": X, "k": K}
        np.testing.assert_array_equal(run(out, feeds)[0], run(model, feeds)[0])


@pytest.mark.parametrize("own", ["outer:0", "outer:1", "inner:0"])
def test_values_of_a_body_with_the_names_of_captured_values(own: str, parse: Parse, run: Run, rebuilt: Rebuilt) -> None:
    """An opaque body calls what it captures `outer:0`, `outer:1` ..."""
    model = parse(
        """g (float[2] x, float[2] k) => (float[2] y) {
            h = Relu(k)
            s = SequenceConstruct(x, x)
            m = SequenceMap (s) <body = each (float[2] e) => (float[2] r) { own = Add(e, h) sum = Sub(own, k) r = Mul(own, sum) }>
            first = Constant<value_int = 0>()
            y = SequenceAt(m, first)
        }"""
    )
    body = next(node.attribute[0].g for node in model.graph.node if node.op_type == "SequenceMap")
    for node in body.node:
        node.input[:] = [own if name == "own" else name for name in node.input]
        node.output[:] = [own if name == "own" else name for name in node.output]
    out = to_onnx(rebuilt(from_onnx(model)))
    onnx.checker.check_model(out)
    np.testing.assert_array_equal(run(out, {"x": X, "k": K})[0], run(model, {"x": X, "k": K})[0])


@pytest.mark.parametrize(
    ("domain", "call", "function"),
    [
        ("com.microsoft", "com.microsoft.Gelu(each)", ""),
        ("local", "local.Negated(each)", '<domain: "local", opset_import: ["" : 18]> Negated (a) => (b) { b = Neg(a) }'),
    ],
)
def test_a_sequence_map_of_another_domain(domain: str, call: str, function: str, run: Run, rebuilt: Rebuilt) -> None:
    """Inference requires that the domain is imported."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 18, "{domain}" : 1]> g (float[2] x) => (float[2] y) {{
            s = SequenceConstruct(x, x)
            m = SequenceMap (s) <body = step (float[2] each) => (float[2] made) {{ made = {call} }}>
            first = Constant<value_int = 0>()
            y = SequenceAt(m, first)
        }}
        {function}"""
    )
    out = to_onnx(rebuilt(from_onnx(model)))
    onnx.checker.check_model(out)
    np.testing.assert_array_equal(run(out, {"x": X})[0], run(model, {"x": X})[0])


def test_an_unused_carried_value_and_an_absent_limit(parse: Parse, run: Run, rebuilt: Rebuilt) -> None:
    model = parse(
        """g (bool c, float[2] x) => (float[2] y) {
            y = Loop ("", c, x) <body = step (int64 i, bool go, float[2] state) => (bool more, float[2] next) {
                limit = Constant<value_int = 3>()
                more = Less(i, limit)
                next = Add(state, state)
            }>
        }"""
    )
    out = to_onnx(rebuilt(from_onnx(model)))
    onnx.checker.check_model(out)
    feeds = {"c": np.array(True), "x": X}
    np.testing.assert_array_equal(run(out, feeds)[0], run(model, feeds)[0])


@pytest.mark.parametrize("limit", ["n", '""'])
def test_a_loop_that_carries_nothing_keeps_its_absent_operands(limit: str, parse: Parse, run: Run, rebuilt: Rebuilt) -> None:
    """Loop needs two operands, even if both are absent."""
    model = parse(
        f"""g (int64 n, float[2] x) => (float[m, 2] y) {{
            y = Loop ({limit}, "") <body = step (int64 i, bool go) => (bool more, float[2] seen) {{
                last = Constant<value_int = 2>()
                more = Less(i, last)
                seen = Neg(x)
            }}>
        }}"""
    )
    out = to_onnx(rebuilt(from_onnx(model)))
    onnx.checker.check_model(out)
    feeds = {"n": np.array(2), "x": X}
    np.testing.assert_array_equal(run(out, feeds)[0], run(model, feeds)[0])


@pytest.mark.parametrize("shape", ["[2]", ""])
def test_a_sequence_that_a_loop_passes_on_stays(shape: str, parse: Parse, run: Run, rebuilt: Rebuilt) -> None:
    """ONNX Runtime moves it out of the operand, so that nodes that it runs later read nothing."""
    model = parse(
        f"""g (int64 n, float[2] x) => (seq(float{shape}) s, seq(float{shape}) y) {{
            s = SequenceConstruct(x, x)
            y = Loop (n, "", s) <body = step (int64 i, bool go, seq(float{shape}) held) => (bool more, seq(float{shape}) held) {{
                more = Identity(go)
            }}>
        }}"""
    )
    out = to_onnx(rebuilt(from_onnx(model)))
    onnx.checker.check_model(out)
    assert list(map(len, run(out, {"n": np.array(2), "x": X}))) == [2, 2]


def deep(depth: int) -> ModelProto:
    """Nested Ifs, built from the outside in, because protobuf does not parse deep nesting."""
    model = onnx.helper.make_model(
        onnx.parser.parse_graph("g (bool c, float[2] x) => (float[2] v0) { }"),
        opset_imports=[onnx.helper.make_opsetid("", 17)],
        ir_version=8,
    )
    graph = model.graph
    for level in range(depth):
        node = graph.node.add(op_type="If", input=["c"], output=[f"v{level}"])
        for name in ("else_branch", "then_branch"):
            graph = node.attribute.add(name=name, type=onnx.AttributeProto.GRAPH).g
            graph.name = "g"
            graph.output.append(onnx.helper.make_tensor_value_info(f"v{level + 1}" if name == "then_branch" else f"w{level}", 1, [2]))
            if name == "else_branch":
                graph.node.add(op_type="Neg", input=["x"], output=[f"w{level}"])
    graph.node.add(op_type="Relu", input=["x"], output=[f"v{depth}"])
    return model


def test_nesting_as_deep_as_protobuf_reads(rebuilt: Rebuilt, histogram: Histogram) -> None:
    model = deep(31)
    out = to_onnx(rebuilt(from_onnx(model)))
    onnx.checker.check_model(out)
    assert histogram(out) == histogram(model)


def test_nesting_that_is_too_deep_is_rejected() -> None:
    with pytest.raises(OnnxError, match="nested more than 31 levels deep"):
        from_onnx(deep(32))


def test_a_body_without_declared_types_survives(parse: Parse, run: Run, rebuilt: Rebuilt) -> None:
    model = parse(LOOP)
    body = model.graph.node[0].attribute[0].g
    for value in (*body.input[1:], *body.output):
        value.ClearField("type")
    module = from_onnx(model)
    assert isinstance(module["main"].body.checked_type.fields[0], TensorType)  # type: ignore[attr-defined]  # a tuple
    out = to_onnx(rebuilt(module))
    feeds = CASES["Loop"][1][0]
    for want, got in zip(run(model, feeds), run(out, feeds), strict=True):
        np.testing.assert_array_equal(got, want)

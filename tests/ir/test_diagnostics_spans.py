"""Spans: those of parsed texts, and that expressions keep them when they are rebuilt, moved, copied and sent."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from onnx import TensorProto, helper

from passat.ir.anf import to_anf, to_graph
from passat.ir.expr import Call, Constant, Expr, Function, If, Let, Span, Tuple, TupleGetItem, Var, const
from passat.ir.functor import ExprMutator
from passat.ir.infer import InferError, infer_type
from passat.ir.module import IRModule
from passat.ir.onnx import from_onnx
from passat.ir.source import SourceName
from passat.ir.text import astext, parse, parse_expr
from passat.ir.traverse import children, post_order, rewrite, with_children
from tests.share import share
from tests.strategies import modules

TEXT = """\
def @main(%x: Tensor[(2, 3), float32], %c: bool) {
  let %v = negative(%x) + %x * 2f;
  %0 = ((%v, %c), if (%c) {
    %x
  } else {
    ref_read(ref(%v))
  });
  %0.1;
  (%0, %0.0.1, True)
}
"""


def quoted(expr: Expr) -> str:
    """The part of the text that a span refers to."""
    span = expr.span
    assert span is not None
    name = span.source_name
    assert isinstance(name, SourceName)
    lines = [name.line(number) for number in range(span.line, span.end_line + 1)]
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    return "\n".join(lines)


def test_every_expression_of_a_text_knows_its_place() -> None:
    main = parse_expr(TEXT.removeprefix("def @main").replace("(%x", "fn (%x", 1), "f")
    assert isinstance(main, Function)
    found = {(quoted(node), type(node).__name__) for node in post_order(main) if node.span is not None}
    branch = "if (%c) {\n    %x\n  } else {\n    ref_read(ref(%v))\n  }"
    whole = quoted(main)
    assert whole.startswith("fn (%x")
    assert whole.endswith("}")
    assert found == {
        (whole, "Function"),
        ("%x: Tensor[(2, 3), float32]", "Var"),
        ("%c: bool", "Var"),
        ("%v", "Var"),
        ("negative(%x)", "Call"),
        ("2f", "Constant"),
        ("True", "Constant"),
        ("%x * 2f", "Call"),
        ("negative(%x) + %x * 2f", "Call"),
        ("let %v = negative(%x) + %x * 2f", "Let"),
        ("ref(%v)", "RefCreate"),
        ("ref_read(ref(%v))", "RefRead"),
        (branch, "If"),
        ("(%v, %c)", "Tuple"),
        (f"((%v, %c), {branch})", "Tuple"),
        ("%0.1", "Let"),  # a statement whose value is not used
        ("%0.1", "TupleGetItem"),
        ("%0.0.1", "TupleGetItem"),
        ("(%0, %0.0.1, True)", "Tuple"),
    }


def test_infix_operators_stand_from_their_first_operand_to_their_last() -> None:
    call = parse_expr("free_var %x: int8;\n  (%x) * %x - negative(%x)  ; 1")
    assert isinstance(call, Let)
    assert quoted(call.value) == "(%x) * %x - negative(%x)"
    assert isinstance(call.value, Call)
    assert quoted(call.value.args[0]) == "(%x) * %x"


def test_nodes_of_a_model_have_their_names() -> None:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])]
    nodes = [helper.make_node("Relu", ["x"], ["r"], name="node1"), helper.make_node("Foo", ["r"], ["y"], name="node2", domain="my")]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("my", 1)]
    main = from_onnx(helper.make_model(graph, opset_imports=opsets, ir_version=9))["main"]
    calls = [node.span for node in post_order(main) if isinstance(node, Call)]
    assert calls == [Span("node1", outputs=("r",)), Span("node2", outputs=("y",))]
    assert main.params[0].span == Span("", outputs=("x",))


class Doubler(ExprMutator):
    """Replaces each constant by another."""

    def visit_constant(self, constant: Constant) -> Expr:
        return const(np.float32(4))


class Renamer(ExprMutator):
    """Replaces each variable by another."""

    def __init__(self) -> None:
        super().__init__()
        self._new: dict[Var, Var] = {}

    def visit_var(self, var: Var) -> Expr:
        return self._new.setdefault(var, Var(var.name_hint + "x", var.type_annotation, var.span))


def spans(expr: Expr) -> set[Span]:
    return {node.span for node in post_order(expr) if node.span is not None and not isinstance(node, Constant)}


def test_a_mutator_keeps_spans() -> None:
    main = parse(TEXT)["main"]
    for mutator in (Doubler(), Renamer()):
        made = mutator.visit(main)
        assert made is not main
        assert spans(made) == spans(main)


def test_a_walk_keeps_spans() -> None:
    main = parse(TEXT)["main"]
    made = rewrite(main, lambda old, new: const(np.float32(4)) if isinstance(old, Constant) else new)
    assert made is not main
    assert spans(made) == spans(main)


@settings(max_examples=share(8, 40))
@given(modules())
def test_each_kind_of_node_keeps_its_span_with_other_parts(module: IRModule) -> None:
    module = parse(astext(module), "f")
    for function in module.functions.values():
        for node in post_order(function):
            parts = list(children(node))
            places = [i for i, part in enumerate(parts) if not isinstance(part, Var)]
            if places:
                parts[places[-1]] = Tuple([])
                assert with_children(node, parts).span is node.span


@settings(max_examples=share(8, 40))
@given(modules())
def test_normal_forms_keep_spans(module: IRModule) -> None:
    module = parse(astext(module), "f")
    for function in module.functions.values():
        before = spans(function)
        normal = to_anf(function)
        assert spans(to_graph(normal)) <= before
        calls = {node.span for node in post_order(function) if isinstance(node, (Call, TupleGetItem, If))}
        assert calls <= {node.span for node in post_order(normal)} | {None}
        lets = {node.span for node in post_order(function) if isinstance(node, Let)}
        assert all(node.span == node.value.span or node.span in lets for node in post_order(normal) if isinstance(node, Let))


def test_errors_after_a_pass_still_quote_the_text() -> None:
    main = parse("def @main(%x: Tensor[(2), float32]) {\n  add(%x, 1f)\n}", "f.relay")["main"]
    broken = rewrite(main, lambda old, new: const([1.0, 2.0, 3.0]) if isinstance(old, Constant) else new)
    with pytest.raises(InferError) as caught:
        infer_type(to_anf(broken))
    assert caught.value.render() == (
        "error: add(Tensor[(2,), float32], Tensor[(3,), float32]): shapes (2,) and (3,) do not broadcast: 2 against 3\n"
        " --> f.relay:2:3\n  |\n2 |   add(%x, 1f)\n  |   ^^^^^^^^^^^"
    )


def test_spans_are_copied_and_sent_with_their_text() -> None:
    module = parse(TEXT, "f.relay")
    for other in (pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):
        call = next(node for node in post_order(other["main"]) if isinstance(node, Call))
        assert quoted(call) == "negative(%x)"

"""AnnotateTarget: which calls external compilers take."""

from collections.abc import Iterator

import pytest

from passat import relay
from passat.ir.equality import structural_equal
from passat.ir.expr import Call, Expr, Function, If, Let, Tuple
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import get_op
from passat.passmgr import PassContext, Sequential
from passat.relay.annotation import compiler_begin, compiler_end
from passat.relay.transform import AnnotateTarget, MergeCompilerRegions

X, Y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
SUPPORTED = {"nn.relu": "a", "tanh": "a", "add": "b"}


@pytest.fixture(autouse=True)
def _compilers() -> Iterator[None]:
    for name, target in SUPPORTED.items():
        get_op(name).set_attr(f"target.{target}", lambda call: call.checked_type.dtype == "float32")
    yield
    for name, target in SUPPORTED.items():
        get_op(name).reset_attr(f"target.{target}")


def annotated(body: Expr, *targets: str, everything: bool = True) -> Expr:
    return AnnotateTarget(targets, everything)(IRModule.from_expr(Function([X, Y], body)))["main"].body


def begin(expr: Expr, target: str = "default") -> Expr:
    return compiler_begin(expr, target)


def end(expr: Expr, target: str = "default") -> Expr:
    return compiler_end(expr, target)


def same(a: Expr, b: Expr) -> bool:
    return structural_equal(infer_type(Function([X, Y], a)), infer_type(Function([X, Y], b)))


def test_calls_get_the_first_target_that_supports_them() -> None:
    body = relay.nn.relu(X) + relay.exp(Y)
    wanted = end(begin(end(relay.nn.relu(begin(X, "a")), "a"), "b") + begin(end(relay.exp(begin(Y))), "b"), "b")
    assert same(annotated(body, "a", "b"), wanted)
    assert same(annotated(body, "b", "a"), wanted)


def test_the_registered_function_decides_by_the_call() -> None:
    half = relay.var("h", shape=(2,), dtype="float16")
    found = AnnotateTarget("a")(IRModule.from_expr(relay.nn.relu(half)))["main"].body
    assert isinstance(found, Call)
    assert found.attrs["compiler"] == "default"


def test_composite_functions_belong_to_the_target_of_their_name() -> None:
    p = relay.var("p", shape=(2,))
    function = Function([p], relay.exp(relay.exp(p)), attrs={"Composite": "a.twice"})
    assert same(annotated(function(X), "a"), end(function(begin(X, "a")), "a"))
    assert same(annotated(function(X), "a.b"), end(function(begin(X)), "default"))


@pytest.mark.parametrize("everything", [True, False])
def test_tuples_are_annotated_on_request(everything: bool) -> None:
    body = Tuple([relay.nn.relu(X), relay.tanh(Y)])
    parts: list[Expr] = [end(relay.nn.relu(begin(X, "a")), "a"), end(relay.tanh(begin(Y, "a")), "a")]
    wanted = end(Tuple([begin(part, "a") for part in parts]), "a") if everything else Tuple(parts)
    assert same(annotated(body, "a", everything=everything), wanted)


def test_values_of_lets_and_branches_are_closed() -> None:
    v, flag = relay.var("v", shape=(2,)), relay.const(True)
    body = Let(v, relay.nn.relu(X), If(flag, relay.tanh(v), Y))
    wanted = Let(v, end(relay.nn.relu(begin(X, "a")), "a"), If(flag, end(relay.tanh(begin(v, "a")), "a"), Y))
    assert same(annotated(body, "a"), wanted)


@pytest.mark.parametrize("everything", [True, False])
def test_targets_one_after_the_other_are_targets_at_once(everything: bool) -> None:
    r = relay.nn.relu(X)
    body = relay.exp(relay.nn.relu(r) + (r + Y))
    module = IRModule.from_expr(Function([X, Y], body))
    once = AnnotateTarget(["a", "b"], everything)(module)
    first = AnnotateTarget("a", everything)(module)
    assert structural_equal(AnnotateTarget("b", everything)(first), once)
    assert structural_equal(AnnotateTarget(["a", "b"], everything)(once), once)


def test_merged_regions_are_not_annotated_again() -> None:
    module = IRModule.from_expr(Function([X, Y], relay.exp(relay.tanh(relay.nn.relu(X)))))
    merged = MergeCompilerRegions()(AnnotateTarget("a")(module))
    assert structural_equal(AnnotateTarget("b")(merged), merged)


def test_functions_for_compilers_are_left_alone_and_calls_are_counted() -> None:
    theirs = Function([X], relay.nn.relu(X), attrs={"Compiler": "a"})
    fused = Function([X], relay.nn.relu(X), attrs={"Primitive": 1})
    module = IRModule({"theirs": theirs, "fused": fused, "main": Function([Y], relay.tanh(relay.nn.relu(Y)))})
    with PassContext() as context:
        found = Sequential([AnnotateTarget("a")])(module)
    assert found["theirs"] is theirs
    assert found["fused"] is fused
    assert context.statistics.counters["AnnotateTarget"]["annotated"] == 2

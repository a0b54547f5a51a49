"""The standard passes that pipelines depend on."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.equality import assert_structural_equal
from passat.ir.expr import Call, Expr, Function, GlobalVar, Let, Tuple, const, var
from passat.ir.infer import InferError
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.prim_func import PrimFunc
from passat.ir.text import parse
from passat.ir.traverse import post_order
from passat.ir.types import TensorType
from passat.passmgr import (
    AnnotateSpans,
    PassContext,
    RemoveUnusedFunctions,
    Sequential,
    ToANormalForm,
    ToGraphNormalForm,
    function_pass,
    get_pass,
    module_pass,
    parse_pipeline,
    pipeline_text,
)
from tests.share import share


def test_it_writes_types_and_returns_the_module_itself(mod: IRModule) -> None:
    assert get_pass("InferType")(mod) is mod
    assert mod["main"].body.checked_type == TensorType((2,), "float32")
    assert mod.get_global_var("main").checked_type == mod["main"].checked_type


def test_a_changed_function_is_inferred_again(mod: IRModule) -> None:
    @function_pass(opt_level=0, required=["InferType"])
    def cast(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return func.with_body(func.body.astype("float16"))

    seen: list[object] = []

    @module_pass(opt_level=0, required=["InferType"])
    def look(mod: IRModule, ctx: PassContext) -> IRModule:
        seen.append(mod["main"].body.checked_type)
        seen.append(mod.get_global_var("main").checked_type == mod["main"].checked_type)
        return mod

    Sequential([cast, look])(mod)
    assert seen == [TensorType((2,), "float16"), True]


def test_it_is_level_0_and_requires_nothing() -> None:
    info = get_pass("InferType").info
    assert (info.opt_level, info.required, set(info.provides)) == (0, (), {"types"})


def test_a_program_without_type() -> None:
    x = var("x", shape=(2,))
    wrong = IRModule({"main": Function([x], x + const([1.0, 2.0, 3.0]))})
    with pytest.raises(InferError) as caught:
        Sequential([get_pass("InferType")])(wrong)
    assert caught.value.__notes__[0] == "in the module pass InferType"


GRAPH = """
def @main(%x: Tensor[(2), float32]) {
  %0 = add(%x, %x);
  multiply(%0, %0)
}
"""
ANF = """
def @main(%x: Tensor[(2), float32]) {
  let %a = add(%x, %x);
  let %b = multiply(%a, %a);
  %b
}
"""


@pytest.mark.parametrize("name", ["ToANormalForm", "ToGraphNormalForm"])
def test_level_1_and_no_requirements(name: str) -> None:
    info = get_pass(f"relay._transform.{name}").info
    assert (info.name, info.opt_level, info.required) == (name, 1, ())


def test_there_and_back() -> None:
    anf = ToANormalForm()(parse(GRAPH))
    assert_structural_equal(anf, parse(ANF))
    assert_structural_equal(ToGraphNormalForm()(anf), parse(GRAPH))


def test_a_module_in_the_form_comes_back_itself() -> None:
    anf, graph = parse(ANF), parse(GRAPH)
    assert ToANormalForm()(anf) is anf
    assert ToGraphNormalForm()(graph) is graph


def test_the_module_that_goes_in_is_not_changed() -> None:
    mod = parse(GRAPH)
    main = mod["main"]
    ToANormalForm()(mod)
    assert mod["main"] is main


def test_functions_of_an_external_compiler_are_left_alone() -> None:
    x = var("x", shape=(2,))
    mod = IRModule({"main": Function([x], x + x), "theirs": Function([x], x * x, attrs={"Compiler": "dnnl"}), "kernel": PrimFunc([x])})
    made = ToANormalForm()(mod)
    assert isinstance(made["main"].body, Let)
    assert made["theirs"] is mod["theirs"]
    assert made["kernel"] is mod["kernel"]


def test_bodies_of_primitive_functions_are_unchanged() -> None:
    x, y = var("x", shape=(2,)), var("y", shape=(2,))
    inner = Function([y], (y + y) * y, attrs={"Primitive": 1})
    made = ToANormalForm()(IRModule.from_expr(Function([x], inner(x) + x)))
    body = made["main"].body
    assert isinstance(body, Let)
    assert body.value is inner


def test_they_establish_and_undo_a_fact() -> None:
    assert ToANormalForm().info.provides == {"anf"}
    assert not ToGraphNormalForm().info.keeps("anf")
    assert get_pass("InferType").info.keeps("anf")


def test_they_are_gated_by_level() -> None:
    mod = parse(GRAPH)
    with PassContext(opt_level=0):
        assert Sequential([ToANormalForm()])(mod) is mod
    with PassContext(opt_level=1):
        assert Sequential([ToANormalForm()])(mod) is not mod


def test_a_long_chain() -> None:
    x = var("x", shape=(2,))
    body = x + x
    one = const(1.0)
    for _ in range(share(4_000, 20_000)):
        body = body + one
    anf = ToANormalForm()(IRModule.from_expr(Function([x], body)))
    assert isinstance(anf["main"].body, Let)
    assert not isinstance(ToGraphNormalForm()(anf)["main"].body, Let)


def module(calls: dict[str, list[str]]) -> IRModule:
    """Functions that call each other as given."""
    variables = {name: GlobalVar(name) for name in calls}
    parts: dict[str, list[Expr]] = {name: [variables[callee]() for callee in callees] for name, callees in calls.items()}
    return IRModule({variables[name]: Function([], Tuple([const(1), *called])) for name, called in parts.items()})


def names(mod: IRModule) -> list[str]:
    return [var.name_hint for var in mod.functions]


def test_unreachable_functions_are_removed() -> None:
    mod = module({"unused": ["main"], "main": ["a"], "b": ["b"], "a": ["c"], "c": ["a"]})
    with PassContext() as ctx:
        made = RemoveUnusedFunctions()(mod)
    assert names(made) == ["main", "a", "c"]
    assert names(mod) == ["unused", "main", "b", "a", "c"]
    assert ctx.statistics.counters == {"RemoveUnusedFunctions": {"removed": 2}}


def test_if_all_functions_are_reachable_the_module_is_unchanged() -> None:
    mod = module({"main": ["a"], "a": []})
    assert RemoveUnusedFunctions()(mod) is mod


def test_a_function_that_is_handed_on_is_reached() -> None:
    a = GlobalVar("a")
    mod = IRModule({"main": Function([], Tuple([a])), a: Function([], const(1))})
    assert RemoveUnusedFunctions()(mod) is mod


def test_other_entries() -> None:
    mod = module({"main": [], "first": ["a"], "second": [], "a": []})
    assert names(RemoveUnusedFunctions(("first", "second"))(mod)) == ["first", "second", "a"]
    assert names(get_pass("RemoveUnusedFunctions", entry_functions=["second"])(mod)) == ["second"]


def test_an_unknown_entry() -> None:
    with pytest.raises(KeyError, match="the module has no function 'main'; it has: f"):
        RemoveUnusedFunctions()(module({"f": []}))


def test_level_requirements_and_facts() -> None:
    info = get_pass("relay._transform.RemoveUnusedFunctions").info
    assert (info.opt_level, info.required) == (1, ())
    assert info.keeps("types")
    assert info.keeps("anf")


def test_as_text() -> None:
    text = "RemoveUnusedFunctions{entry_functions=[first, second]}"
    assert pipeline_text(parse_pipeline(text)) == text


@settings(max_examples=share(40, 100))
@given(st.dictionaries(st.sampled_from("abcdefgh"), st.lists(st.sampled_from("abcdefgh"), max_size=3), min_size=1), st.data())
def test_the_rest_is_closed_and_reached(calls: dict[str, list[str]], data: st.DataObject) -> None:
    calls = {name: [callee for callee in callees if callee in calls] for name, callees in calls.items()}
    entry = data.draw(st.sampled_from(sorted(calls)))
    kept = names(RemoveUnusedFunctions((entry,))(module(calls)))
    assert entry in kept
    assert all(callee in kept for name in kept for callee in calls[name])
    assert all(name == entry or any(name in calls[other] for other in kept) for name in kept)
    assert RemoveUnusedFunctions((entry,))(made := module({name: calls[name] for name in kept})) is made


def program() -> IRModule:
    x = var("x", shape=(2, "n"))
    total = x + const([[1.0], [2.0]])
    mod = IRModule.from_expr(Function([x], total * total))
    mod.attrs["kept"] = 1
    return mod


def test_the_program_stays_the_same() -> None:
    mod = program()
    made = AnnotateSpans()(mod)
    assert_structural_equal(made, mod, sharing=True)
    assert made.attrs == {"kept": 1}
    assert made["main"].params[0].name_hint == "x"


def test_every_call_points_to_its_place() -> None:
    mod = program()
    lines = mod.astext().split("\n")
    made = AnnotateSpans()(mod)
    calls = [node for node in post_order(made["main"]) if isinstance(node, Call)]
    assert calls
    for call in calls:
        assert call.span is not None
        assert isinstance(call.op, Op)
        assert call.span.source_name == "GeneratedSource"
        assert lines[call.span.line - 1][call.span.column - 1 :].startswith(call.op.name)


def test_types_are_there() -> None:
    assert AnnotateSpans()(program())["main"].checked_type
    assert AnnotateSpans().info.provides == {"types"}


def test_level_and_requirements() -> None:
    info = get_pass("relay._transform.AnnotateSpans").info
    assert (info.opt_level, info.required) == (0, ())


def test_a_module_with_a_function_of_another_back_end_is_left_alone() -> None:
    mod = program()
    mod["kernel"] = PrimFunc([])
    with PassContext() as ctx:
        assert AnnotateSpans()(mod) is mod
    assert "@kernel belongs to another back end" in next(iter(ctx.statistics.remarks["AnnotateSpans"]))

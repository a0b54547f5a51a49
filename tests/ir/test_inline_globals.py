"""Inline: global functions marked for inlining are inlined into their callers."""

from passat import relay, te, tir
from passat.ir.analysis import well_formed
from passat.ir.equality import assert_structural_equal
from passat.ir.expr import Call, Function, GlobalVar, If, var
from passat.ir.module import IRModule
from passat.ir.shape import SymDim
from passat.ir.text import parse
from passat.ir.traverse import post_order
from tests.share import share

CHAIN = """
def @leaf(%a: int32, Inline=1) { add(%a, 1) }
def @middle(%b: int32, Inline=1) { multiply(@leaf(%b), 2) }
def @plain(%c: int32) { @leaf(%c) }
def @main(%x: int32) { subtract(@middle(%x), @plain(%x)) }
"""
INLINED = """
def @plain(%c: int32) { add(%c, 1) }
def @main(%x: int32) { subtract(multiply(add(%x, 1), 2), @plain(%x)) }
"""
LOOP = """
def @loop(%i: int32, Inline=1) -> int32 { if (equal(%i, 0)) { %i } else { @loop(subtract(%i, 1)) } }
def @main(%x: int32) { @loop(%x) }
"""


def inline(text: str) -> IRModule:
    return relay.transform.Inline()(parse(text))


def test_callees_are_inlined_first_and_removed() -> None:
    assert_structural_equal(inline(CHAIN), parse(INLINED))
    run = relay.create_executor
    assert run(mod=inline(CHAIN)).evaluate()(5) == run(mod=parse(CHAIN)).evaluate()(5)


def test_recursive_functions_stay() -> None:
    module = parse(LOOP)
    assert relay.transform.Inline()(module) is module
    both = parse("def @f(%i: int32, Inline=1) -> int32 { @g(%i) }\ndef @g(%i: int32, Inline=1) -> int32 { @f(%i) }")
    assert relay.transform.Inline()(both) is both


def test_what_nobody_uses_stays() -> None:
    module = parse("def @f(%i: int32, Inline=1) { %i }\ndef @main(%i: int32) { %i }")
    assert relay.transform.Inline()(module) is module


def test_a_function_for_a_compiler_stays_whole() -> None:
    made = inline('def @f(%i: int32, Inline=1, Compiler="other") { add(%i, 1) }\ndef @main(%x: int32) { @f(%x) }')
    assert [name.name_hint for name in made.functions] == ["main"]
    body = made["main"].body
    assert isinstance(body, Call)
    assert isinstance(body.op, Function)
    assert body.op.attrs["Compiler"] == "other"


def test_a_function_as_a_value_is_the_function() -> None:
    made = inline("def @f(Inline=1) { 1 }\ndef @g(Inline=1) { 2 }\ndef @main(%p: bool) { (if (%p) { @f } else { @g })() }")
    body = made["main"].body
    assert isinstance(body, Call)
    assert isinstance(body.op, If)
    assert isinstance(body.op.true_branch, Function)
    assert not any(isinstance(node, GlobalVar) for node in post_order(made["main"]))


def test_each_copy_binds_variables_of_its_own() -> None:
    mod = IRModule()
    mod.import_from_std("prelude.rly")
    text = """
    def @first(%l: List[int32], Inline=1) -> int32 { match (%l) { Cons(%h, _) => { let %y = add(%h, %h); %y }, Nil => { 0 } } }
    def @main(%l: List[int32]) -> int32 { add(@first(%l), @first(%l)) }
    """
    made = relay.transform.Inline()(parse(mod.astext() + text))
    assert "first" not in made
    assert well_formed(made)
    value = parse(f"{mod.astext()}\ndef @main() {{ Cons(4, Nil) }}")
    argument = relay.create_executor(mod=value).evaluate(value["main"].body)
    assert relay.create_executor(mod=made).evaluate()(argument).numpy() == 16


def test_numbers_of_tvms_tir() -> None:
    function = Function([x := var("x", shape=(tir.Var("n"),))], x).with_attr("Inline", tir.IntImm("int32", 1))
    assert function.attrs["Inline"] == 1
    assert str(x.type_annotation) == "Tensor[(n), float32]"
    m = te.size_var("m")
    of_tir = relay.TensorType((m * 2 - 1, m // 2))  # type: ignore[arg-type]  # expressions of TVM's scripts are converted
    assert of_tir == relay.TensorType((2 * SymDim.named("m") - 1, SymDim.named("m") // 2))
    assert of_tir.shape[1] == m // 2
    assert relay.TensorType((tir.Any(),)) == relay.TensorType((relay.Any(),))


def test_half_the_functions_of_a_long_chain_are_inlined_and_none_of_a_circle() -> None:
    count = share(1_000, 10_000)
    bodies = [*[f"@f{i}(%x)" for i in range(1, count)], "%x"]
    text = "".join(f"def @f{i}(%x: int32{', Inline=1' * (i % 2)}) -> int32 {{ {body} }}\n" for i, body in enumerate(bodies))
    assert len(inline(text).functions) == count // 2
    assert len(inline(text.replace("{ %x }", "{ @f0(%x) }")).functions) == count

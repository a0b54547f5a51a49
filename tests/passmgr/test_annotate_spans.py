"""AnnotateSpans: spans that point into the module's own text."""

from passat.ir.equality import assert_structural_equal
from passat.ir.expr import Call, Function, const, var
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.prim_func import PrimFunc
from passat.ir.traverse import post_order
from passat.passmgr import AnnotateSpans, PassContext, get_pass


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

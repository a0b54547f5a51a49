"""The diff of programs: small for small changes, empty if only names change, grouped by function."""

import numpy as np
import pytest
from hypothesis import given, settings

from passat.ir.expr import Constant, Expr, Function, Var, var
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.prim_func import PrimFunc
from passat.ir.tensor import Tensor
from passat.ir.text import parse, parse_expr
from passat.ir.types import TensorType
from passat.passmgr import ir_diff
from passat.passmgr.inspection.ir_diff import sections
from tests.share import share
from tests.strategies import modules, programs


def changed_lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line[:1] in "+-" and not line.startswith(("---", "+++"))]


def chain(length: int, left_out: int = -1) -> IRModule:
    x: Expr = var("x", shape=(2,))
    start = x
    for i in range(length):
        if i != left_out:
            x = x * 2.0 if i % 3 else -x
    return IRModule.from_expr(Function([start], x))  # type: ignore[list-item]  # start is a Var


def test_a_removed_node_changes_two_lines() -> None:
    diff = ir_diff(chain(20), chain(20, left_out=9))
    assert changed_lines(diff) == [
        "-  %9 = negative(%8);",
        "-  %10 = multiply(%9, 2f);",
        "+  %10 = multiply(%8, 2f);",
    ]
    assert "   %11 = multiply(%10, 2f);\n" in diff
    assert diff.split("\n")[:3] == ["--- @main", "+++ @main", "@@ -8,8 +8,7 @@"]


def test_an_added_node_gets_a_new_number() -> None:
    added = changed_lines(ir_diff(chain(20, left_out=9), chain(20)))
    assert added == [
        "-  %9 = multiply(%8, 2f);",
        "+  %18 = negative(%8);",
        "+  %9 = multiply(%18, 2f);",
    ]


@settings(max_examples=share(10, 60))
@given(programs(effects=True))
def test_a_parsed_program_equals_its_source(program: Function) -> None:
    module = parse(IRModule.from_expr(program).astext())  # constants from files, which are not compared with others, no longer are
    again = parse(module.astext())
    assert ir_diff(module, again) == ""
    assert ir_diff(module, module) == ""
    assert ir_diff(module["main"], again["main"]) == ""


def printed(module: IRModule, name: str) -> list[str]:
    """The lines of a printed function."""
    text = str(IRModule({name: module[name]}))
    return text.partition("\n\n/* Metadata section omitted")[0].split("\n")


@settings(max_examples=share(10, 50))
@given(modules(), modules())
def test_the_first_program_keeps_its_names_in_the_diff(before: IRModule, after: IRModule) -> None:
    for section in sections(before, after):
        signs = "".join(line[0] for line in section.lines)
        if section.kind != "added" and section.name:
            old = [line[1:] for line in section.lines if line[0] != "+"]
            assert len(old) == len(printed(before, section.name))
            assert section.kind == "changed" or signs == "-" * len(old)
        if section.kind != "removed" and section.name:
            new = [line[1:] for line in section.lines if line[0] != "-"]
            assert len(new) == len(printed(after, section.name))
            assert section.kind == "changed" or signs == "+" * len(new)


@settings(max_examples=share(10, 50))
@given(programs())
def test_lines_of_the_first_program_are_as_they_are_printed(program: Function) -> None:
    before = IRModule.from_expr(program)
    after = IRModule.from_expr(Function(program.params, program.body, attrs={"Other": 1}))
    (section,) = sections(before, after)
    assert [line[1:] for line in section.lines if line[0] != "+"] == printed(before, "main")
    assert section.lines[1][0] == "+"


def test_functions_that_come_and_go() -> None:
    f, g = parse_expr("fn (%x: int8) { %x }"), parse_expr("fn (%x: int8) { (%x, %x) }")
    assert isinstance(f, Function)
    assert isinstance(g, Function)
    diff = ir_diff(IRModule({"a": f, "b": f}), IRModule({"b": f, "c": g}))
    assert diff == (
        "--- @a\n+++ (nothing)\n@@ -1,3 +0,0 @@\n-def @a(%x: int8) {\n-  %x\n-}\n"
        "--- (nothing)\n+++ @c\n@@ -0,0 +1,3 @@\n+def @c(%x: int8) {\n+  (%x, %x)\n+}"
    )


def test_type_definitions() -> None:
    lists = "type List[A] { Cons(A, List[A]), Nil }\n"
    diff = ir_diff(parse("type Pair { Two(int8, int8) }"), parse(lists))
    assert "-type Pair {" in diff
    assert "+type List[A] {" in diff
    assert "(the type definitions)" in diff
    assert ir_diff(parse(lists), parse(lists)) == ""


def test_constants_keep_their_numbers() -> None:
    a, b, c = (Constant(np.array([i, 2], "float32")) for i in range(3))
    x = var("x", shape=(2,))
    before, after = Function([x], ((x + a) * b) - c), Function([x], (x * b) - c)
    assert changed_lines(ir_diff(IRModule.from_expr(before), IRModule.from_expr(after))) == [
        "-  %0 = add(%x, meta[relay.Constant][0] /* ty=Tensor[(2), float32] */);",
        "-  %1 = multiply(%0, meta[relay.Constant][1] /* ty=Tensor[(2), float32] */);",
        "+  %1 = multiply(%x, meta[relay.Constant][1] /* ty=Tensor[(2), float32] */);",
    ]


def test_other_contents_of_a_constant_are_a_difference_and_equal_ones_are_none() -> None:
    x = var("x", shape=(2,))

    def add(*values: float) -> IRModule:
        return IRModule.from_expr(Function([x], x + Constant(np.array(values, "float32"))))

    assert ir_diff(add(1, 2), add(1, 2)) == ""
    assert changed_lines(ir_diff(add(1, 2), add(1, 3))) == [
        "-  add(%x, meta[relay.Constant][0] /* ty=Tensor[(2), float32] */)",
        "+  add(%x, meta[relay.Constant][1] /* ty=Tensor[(2), float32] */)",
    ]


def test_constants_in_files_are_not_read() -> None:
    def load() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        raise AssertionError("the constant was read")

    x = var("x", shape=(2,))

    def module(offset: int) -> IRModule:
        constant = Constant(Tensor.lazy("float32", (2,), load, key=("file", "weights", offset)))
        return IRModule.from_expr(Function([x], x + constant))

    assert ir_diff(module(0), module(0)) == ""
    assert len(changed_lines(ir_diff(module(0), module(8)))) == 2


def test_types_on_one_side_only_are_not_a_difference() -> None:
    module = chain(3)
    typed = parse(module.astext())
    assert "/* ty=Tensor" in str(typed)
    assert ir_diff(module, typed) == ir_diff(typed, module) == ""


def test_another_type_is_a_difference() -> None:
    def module(size: int) -> IRModule:
        x = Var("x")
        x._checked_type = TensorType((size,))
        return IRModule.from_expr(infer_type(Function([x], (-x).astype("float32"))))

    assert changed_lines(ir_diff(module(2), module(3))) == [
        "-  %0 = negative(%x) /* ty=Tensor[(2), float32] */;",
        '-  cast(%0, dtype="float32") /* ty=Tensor[(2), float32] */',
        "+  %0 = negative(%x) /* ty=Tensor[(3), float32] */;",
        '+  cast(%0, dtype="float32") /* ty=Tensor[(3), float32] */',
    ]


def test_variables_of_lets_are_renamed_like_temporaries() -> None:
    x = "fn (%x: int8) { let %x1 = (%x, %x); let %x2 = (%x1, %x1); let %x3 = (%x2, %x1); %x3 }"
    y = "fn (%x: int8) { let %x1 = (%x, %x); let %x2 = (%x1, %x1, %x1); let %x3 = (%x1, %x1); let %x4 = (%x3, %x1); %x4 }"
    assert changed_lines(ir_diff(parse_expr(x), parse_expr(y))) == ["+  let %x4 = (%x1, %x1, %x1);"]


def test_temporaries_in_strings_are_left_alone() -> None:
    before = parse_expr('fn (%x: int8, note="%0 = 1 /* ty=int8 */") { (%x, (%x, %x)) }')
    after = parse_expr('fn (%x: int8, note="%1 = 1 /* ty=int8 */") { (%x, (%x, %x)) }')
    assert changed_lines(ir_diff(before, after)) == [
        '-fn (%x: int8, note="%0 = 1 /* ty=int8 */") {',
        '+fn (%x: int8, note="%1 = 1 /* ty=int8 */") {',
    ]


def test_functions_of_other_back_ends_by_their_bodies() -> None:
    x = var("x", shape=(2,))
    before, after = (IRModule({"k": PrimFunc([x], f"first\n{line}")}) for line in ("second", "third"))
    assert changed_lines(ir_diff(before, after)) == ["-second", "+third"]
    assert ir_diff(before, before.shallow_copy()) == ""


def test_colors() -> None:
    diff = ir_diff(chain(3), chain(3, left_out=1), color=True, context=0)
    assert diff.split("\n")[:3] == ["\x1b[1m--- @main\x1b[0m", "\x1b[1m+++ @main\x1b[0m", "\x1b[36m@@ -3,2 +3 @@\x1b[0m"]
    assert "\x1b[31m-  %1 = " in diff


def test_a_huge_module() -> None:
    length = share(4_000, 20_000)
    diff = ir_diff(chain(length), chain(length, left_out=length // 2 - 1))
    assert len(changed_lines(diff)) == 3


def test_a_module_is_compared_with_a_module() -> None:
    module = chain(1)
    with pytest.raises(TypeError, match=r"^a module can only be compared with a module"):
        ir_diff(module, module["main"])

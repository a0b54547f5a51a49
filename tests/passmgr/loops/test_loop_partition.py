"""LoopPartition: results as text, and random nests of loops that do the same before and after."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat import driver, nd, te
from passat.ir.module import IRModule
from passat.ir.tir.arithmetic import And, Not, Or
from passat.ir.tir.expr import PrimExpr, SizeVar, Var, const
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.functor import post_order
from passat.ir.tir.ops import call_extern, if_then_else, likely, maximum, minimum, truncdiv
from passat.ir.tir.parser import parse_function
from passat.ir.tir.ranges import IterVar
from passat.ir.tir.stmt import AttrStmt, Evaluate, For, ForKind, IfThenElse, LetStmt, SeqStmt, Stmt, Store
from passat.ir.tir.values import Load, Select
from passat.passmgr import PassContext
from passat.passmgr.loops.loop_partition import MAX_PARTS
from passat.tir.transform import LoopPartition, Simplify
from tests.passmgr.loops.interpreter import behavior
from tests.passmgr.loops.loop_programs import pointer
from tests.share import share


def partitioned(function: PrimFunc, **config: bool) -> PrimFunc:
    with PassContext(config={"tir.LoopPartition": {"partition_const_loop": True, **config}}):
        made = LoopPartition()(IRModule({"main": function}))["main"]
    assert isinstance(made, PrimFunc)
    return made


def marked(condition: str) -> str:
    return f"@tir.likely({condition}, dtype=bool)"


# --- the same behavior ---


@st.composite
def indices(draw: st.DrawFn, scope: list[Var]) -> PrimExpr:
    """A number that is linear in loop variables, or a part of a split or fused one."""
    total: PrimExpr = const(draw(st.integers(-3, 6)))
    scope = scope[2:] if len(scope) > 2 and draw(st.integers(0, 3)) else scope
    for var in draw(st.lists(st.sampled_from(scope), min_size=1, max_size=3)):
        form = draw(st.sampled_from(("times",) * 8 + ("div", "mod", "min", "product", "truncdiv")))
        step = draw(st.integers(1, 4))
        if form == "times":
            total = total + var * draw(st.sampled_from((-4, -1, 1, 1, 2, 4)))
        elif form in ("div", "mod", "truncdiv"):
            divided = total if draw(st.booleans()) else var
            part = divided // step if form == "div" else divided % step if form == "mod" else truncdiv(divided, step)
            total = part * draw(st.sampled_from((-2, -1, 1, 3))) + draw(st.sampled_from(scope))
        elif form == "min":
            total = draw(st.sampled_from((minimum, maximum)))(total, var)
        else:
            total = total + var * draw(st.sampled_from(scope))
    return total


@st.composite
def conditions(draw: st.DrawFn, scope: list[Var], depth: int = 1) -> PrimExpr:
    form = draw(st.sampled_from(("compare",) * 5 + ("and", "or", "not"))) if depth else "compare"
    if form == "not":
        return Not(draw(conditions(scope, depth - 1)))
    if form in ("and", "or"):
        parts = [draw(conditions(scope, depth - 1)) for _ in range(2)]
        return And(*parts) if form == "and" else Or(*parts)
    a = draw(indices(scope))
    b: PrimExpr = draw(st.sampled_from(scope)) if draw(st.booleans()) else const(draw(st.integers(-3, 12)))
    return draw(st.sampled_from((a < b, a < b, a <= b, a > b, a >= b, a.equal(b), Not(a.equal(b)))))


@st.composite
def nests(draw: st.DrawFn) -> PrimFunc:
    """Loops around statements with likely conditions. The calls tell which values the variables had."""
    n, m, a = SizeVar("n"), Var("m"), pointer("a")
    shared = draw(conditions([n, m]))

    def condition(scope: list[Var]) -> PrimExpr:
        made = shared if draw(st.integers(0, 9)) == 0 else draw(conditions(scope))
        return likely(made) if draw(st.integers(0, 5)) else made

    def leaf(scope: list[Var]) -> Stmt:
        form = draw(st.sampled_from(("call", "store", "select", "if")))
        value = draw(indices(scope))
        if form == "select":
            value = Select(condition(scope), value, draw(indices(scope)))
        elif form == "if":
            value = if_then_else(condition(scope), value, draw(indices(scope)))
        elif form == "store":
            return Store(a, value, draw(indices(scope)) % 32)
        return Evaluate(call_extern("int32", "f", value, *scope[2:]))

    def body(scope: list[Var], depth: int) -> Stmt:
        form = draw(st.sampled_from(("for", "for", "for", "for", "if", "if", "if", "seq", "let"))) if depth else "leaf"
        if form == "for":
            var = Var(draw(st.sampled_from("ijk")))
            sizes = [const(draw(st.integers(2, 7))), n, m, draw(st.sampled_from(scope)) + 1, truncdiv(n + 3, 4), Load("int32", a, 0) % 4]
            low: Any = draw(st.sampled_from((0, 0, 0, 2, -1, m)))
            if draw(st.integers(0, 7)) == 0:
                thread = IterVar(None, var, IterVar.ThreadIndex, draw(st.sampled_from(("blockIdx.x", "blockIdx.y", "threadIdx.x"))))
                return AttrStmt(thread, "thread_extent", draw(st.sampled_from(sizes[:4])), body([*scope, var], depth - 1))
            kind = draw(st.sampled_from((ForKind.SERIAL, ForKind.SERIAL, ForKind.PARALLEL, ForKind.UNROLLED, ForKind.VECTORIZED)))
            made = For(var, low, draw(st.sampled_from(sizes)), kind, body([*scope, var], depth - 1))
            return AttrStmt(IterVar(None, var), "pragma_loop_partition_hint", 1, made) if draw(st.integers(0, 5)) == 0 else made
        if form == "if":
            return IfThenElse(condition(scope), body(scope, depth - 1), leaf(scope) if draw(st.booleans()) else None)
        if form == "seq":
            return SeqStmt([body(scope, depth - 1), leaf(scope)])
        if form == "let":
            var = Var("v")
            value = draw(indices(scope)) if draw(st.integers(0, 3)) else Load("int32", a, draw(indices(scope)) % 32) % 8
            return LetStmt(var, value, body([*scope, var], depth - 1))
        return leaf(scope)

    return PrimFunc([n, m, a], body([n, m], draw(st.integers(2, 5))))


@given(
    function=nests(),
    n=st.integers(0, 12),
    m=st.integers(-3, 12),
    memory=st.lists(st.integers(-9, 9), min_size=32, max_size=32),
    const_loops=st.booleans(),
    kept=st.booleans(),
)
@settings(max_examples=share(35, 2000))
def test_nests_do_the_same(function: PrimFunc, n: int, m: int, memory: list[int], const_loops: bool, kept: bool) -> None:
    given_arguments = [n, m, np.array(memory, "int32")]
    before = behavior(function, given_arguments)
    made = partitioned(function, partition_const_loop=const_loops, no_unroll_loop_with_extent_one=kept)
    assert "likely" not in str(made)
    assert behavior(made, given_arguments) == before


@given(
    sizes=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    factors=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    symbolic=st.booleans(),
    form=st.sampled_from(("tile", "fuse", "compute_at", "twice")),
    vectorize=st.booleans(),
)
@settings(max_examples=share(6, 200))
def test_schedules_compute_the_same(sizes: tuple[int, int], factors: tuple[int, int], symbolic: bool, form: str, vectorize: bool) -> None:
    """Splits that do not divide the sizes, and fused axes, compiled with and without splitting loops."""
    shape = (te.size_var("n"), te.size_var("m")) if symbolic else sizes
    a = te.placeholder(shape, name="a", dtype="int32")
    b = te.compute(shape, lambda i, j: a[i, j] * 2, name="b")
    c = te.compute(shape, lambda i, j: b[i, j] + i * 3 - j, name="c")
    schedule = te.create_schedule(c.op)
    i, j = c.op.axis
    if form == "fuse":
        outer, inner = schedule[c].split(schedule[c].fuse(i, j), factor=factors[0])
        outer, _ = schedule[c].split(outer, factor=factors[1])
    elif form == "twice":
        outer, inner = schedule[c].split(j, factor=factors[0])
        schedule[c].split(outer, factor=factors[1])
    else:
        outer, _, _, inner = schedule[c].tile(i, j, *factors)
        if form == "compute_at":
            schedule[b].split(b.op.axis[1], factor=factors[1])
            schedule[b].compute_at(schedule[c], outer)
    if vectorize:
        schedule[c].vectorize(inner)
    values = np.arange(sizes[0] * sizes[1], dtype="int32").reshape(sizes)
    rows, columns = np.indices(sizes)
    with PassContext(config={"tir.LoopPartition": {"partition_const_loop": True}}):
        function = driver.build(schedule, [*shape, a, c] if symbolic else [a, c], target="llvm")
    result = nd.array(np.zeros(sizes, "int32"))
    function(*(sizes if symbolic else ()), nd.array(values), result)
    np.testing.assert_array_equal(result.numpy(), values * 2 + rows * 3 - columns)


@pytest.mark.parametrize(
    "body",
    [
        "let x: int32 = (int32*)p[0] seq { p[0] = 7 let y: int32 = (int32*)p[0] LOOP }",
        "for (j: int32, 0, 2) { let x: int32 = (int32*)p[0] seq { p[0] = (x + 2) let y: int32 = (int32*)p[0] LOOP } }",
        "for (i: int32, 0, 8) { let x: int32 = (int32*)p[0] seq { p[0] = (x + 5) let y: int32 = (int32*)p[0] IF } }",
    ],
)
def test_memory_changes_between_reads(body: str) -> None:
    """Two reads of the same element are different numbers."""
    chosen = f'if ({marked("(i < (y - x))")}) {{ evaluate(@tir.call_extern("f", i, dtype=int32)) }}'
    text = body.replace("LOOP", f"for (i: int32, 0, 8) {{ {chosen} }}").replace("IF", chosen)
    function = parse_function(f"primfn(p: Pointer(global int32)) {{ {text} }}")
    before = behavior(function, [np.zeros(4, "int32")])
    assert before[1]
    assert behavior(partitioned(function), [np.zeros(4, "int32")]) == before


def test_a_loop_may_have_a_parameter_as_its_variable() -> None:
    n, i = SizeVar("n"), Var("i")
    called = IfThenElse(likely(i < n), Evaluate(call_extern("int32", "f", i)))
    function = PrimFunc([n, i], For(Var("j"), 0, n, ForKind.SERIAL, SeqStmt([called, For(i, 0, 4, ForKind.SERIAL, called)])))
    for size, number in ((3, 5), (5, 3), (2, 9)):
        assert behavior(partitioned(function), [size, number]) == behavior(function, [size, number])


# --- results as text ---


def split(body: str, params: str = "n: size int32", **config: bool) -> str:
    """The statement after the passes LoopPartition and Simplify, without the types of variables."""
    return text(partitioned(parse_function(f"primfn({params}, p: Pointer(global int32)) {{ {body} }}"), **config))


def text(function: PrimFunc) -> str:
    made = Simplify()(IRModule({"main": function}))["main"]
    lines = str(made).splitlines()[1:-1]
    return "\n".join(line.removeprefix("  ").replace("(int32*)", "").replace(": size int32", "").replace(": int32", "") for line in lines)


def loop(extent: str, condition: str, kind: str = "") -> str:
    """A loop that writes 1 where a condition holds, and 2 elsewhere."""
    return f"for (i: int32, 0, {extent}) {kind} {{ if ({marked(condition)}) {{ p[i] = 1 }} else {{ p[i] = 2 }} }}"


TILED = f"for (j: int32, 0, 4) {{ if ({marked('(((i*4) + j) < n)')}) {{ p[((i*4) + j)] = 0 }} }}"
PADDED = f"for (i: int32, 0, floordiv((n + 3), 4)) {{ {TILED} }}"


def test_the_last_iterations_are_a_loop_of_their_own() -> None:
    assert split(PADDED, partition_const_loop=False).splitlines() == [
        *("for (i, 0, floordiv(n, 4)) {", "  for (j, 0, 4) {", "    p[((i*4) + j)] = 0", "  }", "}"),
        *("for (i_1, floordiv(n, 4), (floordiv((n + 3), 4) - floordiv(n, 4))) {", "  for (j_1, 0, 4) {"),
        *("    if ((((i_1*4) + j_1) < n)) {", "      p[((i_1*4) + j_1)] = 0", "    }", "  }", "}"),
    ]


def test_loops_of_constant_size_are_split_by_an_option() -> None:
    constant = f"for (i: int32, 0, 6) {{ {TILED.replace('< n', '< 21')} }}"
    whole = ["for (i, 0, 5) {", "  for (j, 0, 4) {", "    p[((i*4) + j)] = 0", "  }", "}"]
    assert split(constant, partition_const_loop=False).count("if (") == 1
    assert split(constant).splitlines() == [*whole, "p[20] = 0"]
    single = ["for (i_1, 5, 1) {", "  for (j_1, 0, 1) {", "    p[20] = 0", "  }", "}"]
    assert split(constant, no_unroll_loop_with_extent_one=True).splitlines() == [*whole, *single]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("(i == 5)", "for (i, 0, 5) {\n  p[i] = 2\n}\np[5] = 1\nfor (i_1, 6, 4) {\n  p[i_1] = 2\n}"),
        ("((2 <= i) && (i < 9))", "for (i, 0, 2) {\n  p[i] = 2\n}\nfor (i_1, 2, 7) {\n  p[i_1] = 1\n}\np[9] = 2"),
        ("((i < 1) || (8 < i))", "p[0] = 1\nfor (i, 1, 8) {\n  p[i] = 2\n}\np[9] = 1"),
        ("((i*3) > 11)", "for (i, 0, 4) {\n  p[i] = 2\n}\nfor (i_1, 4, 6) {\n  p[i_1] = 1\n}"),
        ("(floordiv(i, 4) < 2)", "for (i, 0, 8) {\n  p[i] = 1\n}\nfor (i_1, 8, 2) {\n  p[i_1] = 2\n}"),
        ("(-1 < i)", "for (i, 0, 10) {\n  p[i] = 1\n}"),
    ],
)
def test_conditions_are_solved(condition: str, expected: str) -> None:
    assert split(loop("10", condition)) == expected


def test_bounds_that_are_not_in_order_are_clamped() -> None:
    made = split(loop("n", "(i < m)"), "n: size int32, m: int32")
    assert made.splitlines()[0] == "for (i, 0, min(max(m, 0), n)) {"
    assert made.splitlines()[3] == "for (i_1, min(max(m, 0), n), (n - min(max(m, 0), n))) {"


@pytest.mark.parametrize(
    "condition",
    [
        "((int32*)p[n] < i)",  # memory that the loop may change
        "(i < floordiv(6, n))",  # a division by what may be 0
        "((i*i) < n)",
        "(i < m)",
    ],
)
def test_conditions_that_are_not_solved(condition: str) -> None:
    """They stay. In the last case, a loop of vectors would have an unknown number of iterations."""
    assert split(loop("8", condition, '"vectorized"' if "m" in condition else ""), "n: size int32, m: int32").count("for (") == 1


def test_bounds_have_the_type_of_the_loop() -> None:
    i, n, wide = Var("i"), SizeVar("n"), Var("wide", "int64")
    body = IfThenElse(likely(i.astype("int64") < wide), Evaluate(call_extern("int32", "f", i)))
    assert text(partitioned(PrimFunc([n, wide], For(i, 0, n, ForKind.SERIAL, body)))).count("for (") == 1


def test_values_of_variables_are_used() -> None:
    made = split(f"for (i: int32, 0, n) {{ let k: int32 = (i*2) if ({marked('(k < 6)')}) {{ p[k] = 0 }} }}")
    assert made.splitlines()[0] == "for (i, 0, min(3, n)) {"
    assert "if (" not in made


def test_hinted_loops_are_split_at_all_comparisons() -> None:
    body = "for (i, 0, 8) { p[i] = @tir.if_then_else((i < 5), 1, 2, dtype=int32) }"
    hinted = f'attr [IterVar(i: int32, null, 0, "")] "pragma_loop_partition_hint" = 1 {body}'
    assert split(hinted) == "for (i, 0, 5) {\n  p[i] = 1\n}\nfor (i_1, 5, 3) {\n  p[i_1] = 2\n}"
    assert split(body.replace("(i,", "(i: int32,")).count("for (") == 1


def thread(name: str, tag: str, extent: str) -> str:
    return f'attr [IterVar({name}: int32, null, 1, "{tag}")] "thread_extent" = {extent} '


def test_blocks_of_threads_choose() -> None:
    inside = f"if ({marked('(((b*4) + t) < n)')}) {{ p[((b*4) + t)] = 0 }}"
    made = split(thread("b", "blockIdx.x", "floordiv((n + 3), 4)") + thread("t", "threadIdx.x", "4") + inside)
    assert made.splitlines()[2:] == [
        *("if ((b < floordiv(n, 4))) {", "  p[((b*4) + t)] = 0", "} else {"),
        *("  if ((((b*4) + t) < n)) {", "    p[((b*4) + t)] = 0", "  }", "}"),
    ]


def test_all_threads_of_a_block_run_the_same_loops() -> None:
    made = split(thread("t", "threadIdx.x", "4") + loop("n", "((i + t) < n)"))
    assert made.count("for (") == 2
    assert not any("for (" in line and "t" in line.split("(", 1)[1].replace("int32", "") for line in made.splitlines())


def test_copies_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    i, n = Var("i"), SizeVar("n")
    called = Evaluate(call_extern("int32", "f", i))
    many = SeqStmt([IfThenElse(likely(i.equal(place * 3)), called) for place in range(40)])
    assert 2 < str(partitioned(PrimFunc([n], For(i, 0, 400, ForKind.SERIAL, many)))).count("for (") <= MAX_PARTS
    deep: Stmt = called
    variables = [Var(f"i{place}") for place in range(5)]
    for var in variables:
        deep = IfThenElse(likely(var + n < 9 - var), deep)
    for var in variables:
        deep = For(var, 0, n, ForKind.SERIAL, deep)
    unlimited = len(post_order(partitioned(PrimFunc([n], deep)).body))
    monkeypatch.setattr("passat.passmgr.loops.loop_partition.MAX_GROWTH", 200)
    limited = len(post_order(partitioned(PrimFunc([n], deep)).body))
    assert limited < unlimited / 2

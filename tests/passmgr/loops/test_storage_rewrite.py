"""StorageRewrite keeps what a function computes, and never makes it allocate more memory at a time."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from passat.ir.module import IRModule
from passat.ir.tir.buffer import decl_buffer
from passat.ir.tir.expr import Var, const
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.functor import post_order
from passat.ir.tir.parser import parse_function
from passat.ir.tir.stmt import Allocate, For, ForKind, IfThenElse, SeqStmt, Stmt, Store, nothing
from passat.ir.tir.types import DataType, TirError
from passat.ir.tir.values import Load, true
from passat.runtime.jit.c_library import compile_with_c
from passat.runtime.jit.engine import compile_functions
from passat.tir.transform import StorageRewrite
from tests.passmgr.loops.interpreter import Interpreter, UndefinedBehaviorError, behavior
from tests.passmgr.loops.loop_programs import arguments, conditions, functions, indices, pointer
from tests.share import share


def rewritten(function: PrimFunc) -> PrimFunc:
    made = StorageRewrite()(IRModule({"main": function}))["main"]
    assert isinstance(made, PrimFunc)
    return made


def peak(stmt: Stmt, values: dict[Var, int]) -> int:
    """The largest number of bytes that are allocated at the same time, if all branches are taken."""
    own, below = 0, []
    for name in stmt.WALKED:
        part = getattr(stmt, name)
        below += [part] if isinstance(part, Stmt) else [each for each in part if isinstance(each, Stmt)] if isinstance(part, tuple) else []
    if isinstance(stmt, Allocate):
        type_ = DataType.of(stmt.dtype)
        own = type_.itemsize * type_.lanes
        for extent in stmt.extents:
            own *= Interpreter(values).value(extent)
    return own + max((peak(part, values) for part in below), default=0)


def allocated(function: PrimFunc) -> list[str]:
    """The allocations of a function as text."""
    found = [node for node in post_order(function.body) if isinstance(node, Allocate)]
    return [f"{node.buffer_var.name} {node.dtype} {'*'.join(map(str, node.extents))}" for node in found]


def parsed(body: str, params: str = "n: int32") -> PrimFunc:
    return parse_function(f"primfn({params}, p: Pointer(global int32)) {{ {body} }}")


@given(function=functions(), given_arguments=arguments())
@settings(max_examples=share(28, 600))
def test_functions_do_the_same(function: PrimFunc, given_arguments: list[Any]) -> None:
    try:
        before = behavior(function, given_arguments)
    except UndefinedBehaviorError:
        assume(False)
    made = rewritten(function)
    assert behavior(made, given_arguments) == before
    sizes = {function.params[0]: given_arguments[0]}
    assert peak(made.body, sizes) <= peak(function.body, sizes)


TYPES = ("int32",) * 6 + ("int16", "int8", "int64")
SCOPES = ("global",) * 6 + ("global:tag", "global:tag", "local", "shared")
LENGTH = 12


@st.composite
def stages(draw: st.DrawFn, readable: dict[Var, str], n: Var, depth: int = 2) -> Stmt:
    """Stages that compute memory of various types, sizes and scopes, each from earlier ones; between them loops, branches and writes."""

    known = list(readable)

    def element(scope: list[Var], place: Any) -> Any:
        """A sum of elements of what was computed last, for the most part at the same place, and seldom of others."""
        total: Any = const(draw(st.integers(-2, 2)))
        others = draw(st.lists(st.sampled_from((*known[-2:], draw(st.sampled_from(known)))), max_size=2))
        for var in (known[-1], *others):
            index = draw(st.sampled_from((place, place, place, LENGTH - 1 - place, draw(indices(scope)) % LENGTH)))
            total = total * 3 + Load(readable[var], var, index).astype("int32")
        return total

    def write(target: Var) -> Stmt:
        i = Var("i")
        return For(i, 0, LENGTH, ForKind.SERIAL, Store(target, element([i], i).astype(readable[target]), i))

    def step() -> Stmt:
        form = draw(st.sampled_from(("write", "if", "for", "stages") if depth else ("write",)))
        if form == "if":
            other = draw(stages(readable, n, depth - 1)) if draw(st.booleans()) else None
            return IfThenElse(draw(conditions([n])), draw(stages(readable, n, depth - 1)), other)
        if form == "for":
            kind = draw(st.sampled_from((ForKind.SERIAL, ForKind.SERIAL, ForKind.PARALLEL, ForKind.UNROLLED)))
            return For(Var("k"), 0, draw(st.sampled_from((0, 1, 2))), kind, draw(stages(readable, n, depth - 1)))
        if form == "stages":
            return draw(stages(readable, n, depth - 1))
        return write(draw(st.sampled_from((*known[:2], draw(st.sampled_from(known))))))

    if len(known) >= 3 + 2 * depth and not draw(st.integers(0, 3)):
        return write(draw(st.sampled_from(known[:2])))
    dtype = draw(st.sampled_from(TYPES))
    new = pointer(f"t{len(readable)}", draw(st.sampled_from(SCOPES)), dtype)
    size = draw(st.sampled_from((*[const(LENGTH)] * 6, const(LENGTH + 5), n + LENGTH, n * 2 + LENGTH)))
    outer, inner = Var("o"), Var("i")
    place: Any = outer * 4 + inner if draw(st.booleans()) else inner * (LENGTH // 4) + outer
    if draw(st.booleans()):
        compute: Stmt = For(inner, 0, 4, ForKind.SERIAL, Store(new, element([outer, inner], place).astype(dtype), place))
        compute = For(outer, 0, LENGTH // 4, draw(st.sampled_from((ForKind.SERIAL, ForKind.PARALLEL))), compute)
    else:
        compute = For(inner, 0, LENGTH, ForKind.SERIAL, Store(new, element([inner], inner).astype(dtype), inner))
    rest = draw(stages({**readable, new: dtype}, n, depth))
    before, after = (step() if not draw(st.integers(0, 3)) else nothing() for _ in range(2))
    return Allocate(new, dtype, [size], true(), SeqStmt([compute, before, rest, after]))


@st.composite
def chains(draw: st.DrawFn) -> PrimFunc:
    """A function of a size and two pointers that computes stages."""
    n, a, b = Var("n"), pointer("a"), pointer("b")
    buffers = [decl_buffer((LENGTH,), "int32", each.name, each) for each in (a, b)]
    return PrimFunc([n, *buffers], draw(stages({a: "int32", b: "int32"}, n)))


def chain_arguments() -> list[Any]:
    return [3, np.arange(LENGTH, dtype=np.int32), np.arange(LENGTH, dtype=np.int32) * 7 % 5]


@given(function=chains())
@settings(max_examples=share(6, 2000))
def test_chains_of_stages_compute_the_same_in_no_more_memory(function: PrimFunc) -> None:
    try:
        before = behavior(function, chain_arguments())
    except UndefinedBehaviorError:
        assume(False)
    made = rewritten(function)
    assert behavior(made, chain_arguments()) == before
    for n in (0, 3, 1000):
        assert peak(made.body, {function.params[0]: n}) <= peak(function.body, {function.params[0]: n})
    again = rewritten(made)
    assert peak(again.body, {function.params[0]: 3}) <= peak(made.body, {function.params[0]: 3})


@pytest.mark.parametrize(("target", "examples"), [("llvm", (2, 200)), ("c", (1, 40))])
def test_compiled_chains_compute_the_same(target: str, examples: tuple[int, int]) -> None:
    if target == "llvm":
        pytest.importorskip("llvmlite")
    compile_ = compile_functions if target == "llvm" else compile_with_c

    @given(function=chains())
    @settings(max_examples=share(*examples))
    def check(function: PrimFunc) -> None:
        results = []
        for each in (function, rewritten(function)):
            given_arguments = chain_arguments()
            compile_({"main": each})["main"](*given_arguments)
            results.append(given_arguments[1:])
        np.testing.assert_array_equal(results[0], results[1])

    check()


def buffer(name: str, dtype: str = "int32", size: str = "12", scope: str = "global") -> str:
    return f"allocate({name}: Pointer({scope} {dtype}), {dtype}, [{size}])"


def loop(var: str, body: str, extent: str = "12", kind: str = "") -> str:
    return f"for ({var}: int32, 0, {extent}) {kind} {{ {body} }}"


def two_stages(second: str) -> PrimFunc:
    """A function with a stage that computes `a`, one that computes `b` from it, and one that reads `b`."""
    return parsed(f"{buffer('a')} {loop('i', 'a[i] = i')} {buffer('b')} {second} {loop('k', 'p[k] = (int32*)b[k]')}")


@pytest.mark.parametrize(
    "second",
    [
        loop("j", "b[j] = ((int32*)a[j]*(int32*)a[j])"),
        loop("j", "b[(11 - j)] = (int32*)a[(11 - j)]"),
        loop("j", loop("l", "b[((j*4) + l)] = (int32*)a[((l + 0) + (j*4))]", "4"), "3"),
        loop("j", loop("l", "b[((l*3) + j)] = (int32*)a[((l*3) + j)]", "4"), "3"),
        loop("j", "if ((j < n)) { b[j] = (int32*)a[j] }"),
        "b[ramp(0, 1, 12)] = (int32x12*)a[ramp(0, 1, 12)]",
        loop("j", "b[ramp((j*4), 1, 4)] = (int32x4*)a[ramp((j*4), 1, 4)]", "3"),
    ],
)
def test_an_operand_is_replaced_by_the_result(second: str) -> None:
    assert allocated(rewritten(two_stages(second))) == ["a int32 12"]


@pytest.mark.parametrize(
    "second",
    [
        loop("j", "b[j] = (int32*)a[(11 - j)]"),
        loop("j", "b[j] = ((int32*)a[j] + (int32*)a[0])"),
        loop("j", "b[floordiv(j, 2)] = (int32*)a[floordiv(j, 2)]"),
        loop("j", loop("l", "b[((j*3) + l)] = (int32*)a[((j*3) + l)]", "4"), "3"),
        loop("j", loop("l", "b[((j*n) + l)] = (int32*)a[((j*n) + l)]", "4"), "3"),
        loop("j", "b[j] = (int32*)a[j] b[j] = (int32*)a[j]"),
        loop("j", "if (((int32*)a[0] < 1)) { b[j] = (int32*)a[j] }"),
        loop("j", "let m: int32 = floordiv(j, 2) b[m] = (int32*)a[m]"),
        loop("j", 'b[j] = (int32*)a[j] evaluate(@tir.call_extern("f", a, dtype=int32))'),
        loop("j", 'b[j] = @tir.call_extern("f", @tir.address_of((int32*)a[j], dtype=handle), dtype=int32)'),
        "while (((int32*)a[0] < 1)) { b[0] = (int32*)a[0] }",
        loop("j", "b[ramp((j*2), 1, 4)] = (int32x4*)a[ramp((j*2), 1, 4)]", "3"),
        loop("j", "b[(int32*)a[j]] = (int32*)a[j]"),
    ],
)
def test_an_operand_that_is_read_later_is_kept(second: str) -> None:
    assert len(allocated(rewritten(two_stages(second)))) == 2


T = loop("j", "t[j] = i")


@pytest.mark.parametrize(
    ("body", "moves"),
    [
        (loop("i", f"{buffer('t')} {T} p[i] = (int32*)t[3]"), True),
        (loop("i", f"if ((i < n)) {{ {buffer('t')} {T} p[i] = (int32*)t[3] }}"), True),
        (loop("i", f"{buffer('t', size='(n*2)')} {T} p[i] = (int32*)t[3]"), True),
        (loop("i", f"{buffer('t', size='(n - 2)')} {T} p[i] = (int32*)t[3]"), False),
        (loop("i", f"{buffer('t', size='(i + 1)')} {T} p[i] = (int32*)t[3]"), False),
        (loop("i", f"{buffer('t', size='(int32*)p[0]')} {T} p[i] = (int32*)t[3]"), False),
        (loop("i", f"let m: int32 = (n + 9) {buffer('t', size='m')} {T} p[i] = (int32*)t[3]"), False),
        (loop("i", f"{buffer('t')} {T} let q: Pointer(global int32) = t p[i] = (int32*)q[3]"), False),
        (
            loop("i", f'attr [t: Pointer(global int32)] "volatile_scope" = 1 {buffer("t").replace(": Pointer(global int32)", "")} {T}'),
            False,
        ),
        (
            loop(
                "i", f"{buffer('t')} {T} evaluate(@tir.tvm_struct_set(p, 0, 1, @tir.address_of((int32*)t[0], dtype=handle), dtype=int32))"
            ),
            False,
        ),
        (loop("i", f"{buffer('t')} {T} p[i] = (int32*)t[3]", kind='"parallel"'), False),
        (loop("i", f"{buffer('t')} {T} p[i] = (int32*)t[3]", kind='"vectorized"'), False),
    ],
)
def test_memory_moves_out_of_loops(body: str, moves: bool) -> None:
    function = parsed(body)
    made = rewritten(function)
    assert isinstance(made.body, Allocate) == moves
    assert (made is function) != moves


def test_memory_does_not_move_if_more_would_be_allocated() -> None:
    """Local memory is not shared."""
    loops = [loop(f"i{name}", f"{buffer(name, scope='local')} {name}[0] = 1 p[i{name}] = (int32*){name}[0]") for name in "ab"]
    function = parsed(" ".join(loops))
    assert rewritten(function) is function
    assert isinstance(rewritten(parsed(loops[0])).body, Allocate)


def test_memory_with_a_tag_is_one_block() -> None:
    stages = [buffer(name, dtype, "3", "global.tag") for name, dtype in zip("abcd", ("int8", "int64", "int16", "int16"), strict=True)]
    uses = 'a[2] = 1i8 b[2] = 1i64 c[2] = 1i16 d[2] = 1i16 evaluate(@tir.call_extern("f", d, (int8*)a[2], dtype=int32)) c[1] = 2i16 b[1] = 1i64'
    made = rewritten(parsed(" ".join([*stages, uses])))
    assert allocated(made) == ["d int16 3", "a int8 33"]
    written = [node for node in post_order(made.body) if isinstance(node, Store)]
    assert [str(node.index) for node in written] == ["32", "2", "14", "2", "13", "1"]


def test_unused_memory_is_removed_and_buffers_are_flattened_first() -> None:
    assert allocated(rewritten(parsed(f"{buffer('a')} p[0] = 1"))) == []
    with pytest.raises(TirError, match="StorageRewrite applies to flat memory; run StorageFlatten before"):
        rewritten(parsed(f"{buffer('a')} a[0] = T: Buffer(q: Pointer(global int32), int32, [2])[0]"))


@pytest.mark.parametrize("size", ["12", "6000", "(n + 12)"])
def test_c_code_accesses_elements_of_other_types(size: str) -> None:
    """Both on the stack and on the heap; C assumes that pointers to elements of different types do not overlap."""
    function = parse_function(
        f"""primfn(n: int32, a: handle) buffers a -> A: Buffer(p: Pointer(global int32), int32, [12]) {{
          allocate(t: Pointer(global int64), int64, [{size}])
          for (r: int32, 0, 3) {{
            for (i: int32, 0, 12) {{ t[i] = cast(int64, (r + i)) }}
            for (j: int32, 0, 12) {{ p[j] = cast(int32, (int64*)t[j]) }}
            for (k: int32, 0, 12) {{ t[(11 - k)] = cast(int16, (int32*)p[k]) }}
            for (l: int32, 0, 12) {{ p[l] = ((int32*)p[l] + cast(int32, (int16*)t[l])) }}
          }}
        }}"""
    )
    result = np.zeros(12, np.int32)
    compile_with_c({"main": function})["main"](0, result)
    assert result.tolist() == [15] * 12


def test_c_code_allocates_nothing_for_a_negative_size() -> None:
    function = parsed(f"{buffer('t', size='(n - 20)')} if ((n > 20)) {{ t[0] = 1 p[0] = (int32*)t[0] }}")
    function = PrimFunc([function.params[0], decl_buffer((1,), "int32", "p", function.params[1])], function.body)
    result = np.zeros(1, np.int32)
    run = compile_with_c({"main": function})["main"]
    run(3, result)
    assert result[0] == 0
    run(30, result)
    assert result[0] == 1

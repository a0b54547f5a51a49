"""Results of passes over loops as text; their limits and errors."""

from typing import Any

import pytest

from passat.ir.module import IRModule
from passat.ir.tir.parser import parse_function
from passat.ir.tir.types import TirError
from passat.passmgr import Pass, PassContext
from passat.tir.transform import RemoveNoOp, StorageFlatten, UnrollLoop, VectorizeLoop

P = "p: Pointer(global int32)"


def passed(pass_: Pass, body: str, params: str = "n: int32", **config: Any) -> str:
    """The body of a function after a pass, without the types of variables."""
    function = parse_function(f"primfn({params}, {P}) {{ {body} }}")
    with PassContext(config={f"tir.{key}": value for key, value in config.items()}):
        made = pass_(IRModule({"main": function}))["main"]
    lines = str(made).splitlines()[1:-1]
    return "\n".join(line.removeprefix("  ").replace("(int32*)", "") for line in lines)


def test_unrolling() -> None:
    body = 'for (i: int32, 2, 3) "unrolled" { p[i] = i }'
    assert passed(UnrollLoop(), body) == "p[2] = 2\np[3] = 3\np[4] = 4"
    assert passed(UnrollLoop(), 'for (i: int32, n, ((n + 1) - n)) "unrolled" { p[i] = 0 }') == "p[n] = 0"
    assert passed(UnrollLoop(), 'for (i: int32, 0, 0) "unrolled" { p[i] = 0 }') == "evaluate(0)"


def test_small_loops_are_unrolled_where_the_options_say() -> None:
    body = "for (i: int32, 0, 2) { p[i] = 0 }"
    unrolled = "p[0] = 0\np[1] = 0"
    marked = body.replace("2) {", '2) "unrolled" {').replace("{ ", "{\n  ").replace(" }", "\n}")
    assert passed(UnrollLoop(), body, UnrollLoop={"auto_max_step": 2}) == unrolled
    assert passed(UnrollLoop(), body, UnrollLoop={"auto_max_extent": 2}) == unrolled
    assert passed(UnrollLoop(), body, UnrollLoop={"auto_max_step": 2, "explicit_unroll": False}) == marked
    for options in ({}, {"auto_max_step": 1}, {"auto_max_step": 2, "auto_max_depth": -1}):
        assert "for (" in passed(UnrollLoop(), body, UnrollLoop=options)


def test_a_loop_that_cannot_be_unrolled() -> None:
    with pytest.raises(TirError, match="is marked unroll, but its number of iterations is n: int32, not a constant"):
        passed(UnrollLoop(), 'for (i: int32, 0, n) "unrolled" { p[i] = 0 }')
    with pytest.raises(TirError, match=r"cannot be unrolled: its 1000000 iterations would have .* more than 262144; use a serial loop"):
        passed(UnrollLoop(), 'for (i: int32, 0, 1000000) "unrolled" { p[i] = 0 }')
    with pytest.raises(AttributeError, match="max_steps"):
        passed(UnrollLoop(), "p[0] = 0", UnrollLoop={"max_steps": 3})


def test_each_copy_of_an_inner_loop_has_its_own_variable() -> None:
    function = parse_function(f'primfn({P}) {{ for (i: int32, 0, 2) "unrolled" {{ for (j: int32, 0, 2) {{ p[i] = j }} }} }}')
    first, second = UnrollLoop()(IRModule({"main": function}))["main"].body
    assert first.loop_var is not second.loop_var
    assert second.body.value is second.loop_var


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for (i: int32, 0, 4) { if ((i < n)) { evaluate(n) } }", "evaluate(0)"),
        ("seq { p[0] = 1 evaluate(n) seq { p[1] = 2 evaluate(0) } }", "p[0] = 1\np[1] = 2"),
        ("for (i: int32, 0, 0) { p[0] = 1 }", "evaluate(0)"),
        ("if ((n < 2)) { p[0] = 1 } else { evaluate(1) }", "if ((n < 2)) {\n  p[0] = 1\n}"),
        ("let v: int32 = n evaluate(v)", "evaluate(0)"),
    ],
)
def test_statements_without_effect(body: str, expected: str) -> None:
    assert passed(RemoveNoOp(), body) == expected


def test_vectors() -> None:
    loop = 'for (i: int32, 0, 4) "vectorized" '
    assert (
        passed(VectorizeLoop(), loop + "{ p[i] = ((int32*)p[(i + n)] + 1) }")
        == "p[ramp(0, 1, 4)] = ((int32x4*)p[ramp(n, 1, 4)] + broadcast(1, 4))"
    )
    assert passed(VectorizeLoop(), loop + "{ p[i] = (i*n) }") == "p[ramp(0, 1, 4)] = ramp(0, n, 4)"
    assert "for (i: int32, 0, 4) {" in passed(VectorizeLoop(), loop + "{ if ((i < n)) { p[i] = 0 } }")
    assert passed(VectorizeLoop(False), loop + "{ p[i] = 0 }") == "for (i: int32, 0, 4) {\n  p[i] = 0\n}"


def test_a_statement_without_vector_form_takes_the_variables_around_it_into_its_loop() -> None:
    made = passed(
        VectorizeLoop(), 'for (i: int32, 0, 4) "vectorized" { let v: int32 = (int32*)p[i] seq { p[i] = 0 if ((v < n)) { p[i] = v } } }'
    )
    assert made.splitlines()[:3] == ["for (i: int32, 0, 4) {", "  let v: int32 = p[i]", "  p[i] = 0"]
    assert "ramp(" not in made


def test_a_loop_that_cannot_be_vectorized() -> None:
    with pytest.raises(TirError, match="is marked vectorize, but its number of iterations is n: int32, not a positive constant"):
        passed(VectorizeLoop(), 'for (i: int32, 0, n) "vectorized" { p[i] = 0 }')
    with pytest.raises(TirError, match="A while loop inside a vectorized loop not supported"):
        passed(VectorizeLoop(), 'for (i: int32, 0, 4) "vectorized" { while ((n < 2)) { p[i] = 0 } }')


def flattened(body: str, **options: Any) -> str:
    text = f'primfn(a: handle) buffers a -> A: Buffer({P}, int32, [25, 100, 4]) with {{"from_legacy_te_schedule": true}} {{ {body} }}'
    made = StorageFlatten(**options)(IRModule({"main": parse_function(text)}))["main"]
    body = str(made).partition("\n{\n")[2].removesuffix("\n}")
    return "\n".join(line.removeprefix("  ").replace("(int32*)", "") for line in body.splitlines())


T = "t: Pointer(global int32)"
REALIZED = f"realize(T: Buffer({T}, int32, [8, 16]), [range(min=2, ext=8), range(min=0, ext=16)])"


def test_realized_regions_are_memory_of_their_size() -> None:
    assert flattened(f"{REALIZED} T[3, 1] = A[0, 1, 2]") == f"allocate({T}, int32, [8, 16])\nt[17] = p[6]".replace(f"[{T}", "[t")
    assert flattened("realize(A, [range(min=0, ext=25), range(min=0, ext=100), range(min=0, ext=4)]) A[0, 0, 0] = 1").endswith("p[0] = 1")


def test_dimensions_are_padded() -> None:
    aligned = f'attr [T: Buffer({T}, int32, [8, 16])] "buffer_dim_align" = @tir.tvm_tuple(0, 2, 1, dtype=handle)'
    made = flattened(f"{aligned} realize(T, [range(min=2, ext=8), range(min=0, ext=16)]) T[3, 1] = 0")
    assert made == f"allocate({T}, int32, [136])\nt[18] = 0"
    with pytest.raises(TirError, match="tuple of three constants"):
        flattened(aligned.replace("2, 1,", "1,") + " A[0, 0, 0] = 0")


def test_attributes_of_buffers_become_those_of_memory() -> None:
    moved = f'attr [T: Buffer({T}, int32, [8, 16])] "realize_scope" = "local" attr [T] "double_buffer_scope" = 1'
    made = flattened(f"{moved} realize(T, [range(min=2, ext=8), range(min=0, ext=16)]) T[3, 1] = 0")
    assert made.splitlines()[1:] == ["allocate(t, int32, [8, 16])", "t[17] = 0"]
    assert made.splitlines()[0] == 'attr [t: Pointer(local int32)] "double_buffer_scope" = 1'


def test_prefetches_are_loops_over_cache_lines() -> None:
    made = flattened("prefetch(A, [range(min=1, ext=2), range(min=3, ext=8), range(min=0, ext=4)])")
    assert next(line for line in made.splitlines() if "for (" in line).strip().endswith("0, 2) {")
    assert made.count("for (") == 2
    made = flattened("prefetch(A, [range(min=1, ext=2), range(min=3, ext=8), range(min=0, ext=4)])", cache_line_size=4)
    assert made.count("for (") == 3


def test_bounds_are_attributes() -> None:
    made = flattened(f"{REALIZED} T[3, 1] = A[0, 1, 2]", create_bound_attribute=True)
    assert [line.rpartition(" = ")[2] for line in made.splitlines() if "buffer_bound" in line] == ["128", "128", "10000"]


def test_buffers_without_memory() -> None:
    with pytest.raises(TirError, match="the buffer T is neither a parameter nor realized"):
        flattened(f"T: Buffer({T}, int32, [8, 16])[0, 0] = 1")
    with pytest.raises(TirError, match="the buffer T is realized twice"):
        flattened(f"{REALIZED} realize(T, [range(min=0, ext=8), range(min=0, ext=16)]) T[3, 1] = 0")

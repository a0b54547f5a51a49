"""MergeCompilerRegions: which regions become one."""

import pytest

from passat import relay
from passat.ir.annotated_regions import AnnotatedRegionSet
from passat.ir.equality import structural_equal
from passat.ir.expr import Expr, Function, If, Let, Tuple
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.relay.annotation import compiler_begin, compiler_end
from passat.relay.transform import MergeCompilerRegions, PartitionGraph

X, Y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))


def of(target: str, *operands: Expr) -> Expr:
    """A region of one call."""
    first, *others = [compiler_begin(operand, target) for operand in operands]
    return compiler_end(first + others[0] if others else relay.tanh(first), target)


def merged(body: Expr) -> Function:
    return MergeCompilerRegions()(IRModule.from_expr(Function([X, Y], body)))["main"]


def count(function: Function, target: str = "a") -> int:
    return sum(region.target == target for region in AnnotatedRegionSet(function))


def test_chains_become_one_region() -> None:
    wanted = compiler_end(relay.tanh(relay.tanh(compiler_begin(X, "a"))), "a")
    assert structural_equal(merged(of("a", of("a", X))), infer_type(Function([X, Y], wanted)))


def test_regions_for_other_compilers_stay() -> None:
    function = merged(of("b", of("a", X)))
    assert (count(function, "a"), count(function, "b")) == (1, 1)
    module = IRModule.from_expr(infer_type(function))
    assert MergeCompilerRegions()(module) is module


def test_a_region_does_not_read_what_needs_it() -> None:
    first = of("a", X)
    assert count(merged(of("a", of("a", first), of("b", first)))) == 2
    assert count(merged(of("a", of("a", first), of("b", Y)))) == 1


def test_paths_through_unannotated_expressions_count() -> None:
    first = of("a", X)
    for between in (relay.exp(first), Tuple([of("b", first), Y])[0], If(relay.const(True), of("b", first), Y)):
        assert count(merged(of("a", first, between))) == 2
    v = relay.var("v", shape=(2,))
    assert count(merged(Let(v, relay.exp(first), of("a", first, v)))) == 2


def test_two_merges_do_not_need_each_other() -> None:
    """Each of the two pairs could be merged, but not both: `p` is before `s` through `q`, and `r` before `t`."""
    p, q = of("a", X), of("b", Y)
    body = Tuple([of("a", p, of("c", q)), of("b", q, of("c", p))])
    function = merged(body)
    assert count(function, "a") + count(function, "b") == 3
    assert len(PartitionGraph()(IRModule.from_expr(function)).functions) == 1 + len(AnnotatedRegionSet(function))


def test_bodies_and_branches_are_apart() -> None:
    first, p = of("a", X), relay.var("p", shape=(2,))
    inner = Function([p], of("a", first, p))
    assert count(merged(Tuple([inner(Y), first]))) == 2
    assert count(merged(Tuple([If(relay.const(True), of("a", first), Y), first]))) == 2


@pytest.mark.parametrize("length", [3000])
def test_long_chains(length: int) -> None:
    node: Expr = X
    for _ in range(length):
        node = of("a", node)
    assert count(merged(node)) == 1

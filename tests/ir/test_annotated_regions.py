"""Regions between the annotations for external compilers."""

import pytest

from passat import relay
from passat.ir.annotated_regions import AnnotatedRegionSet, RegionError
from passat.ir.expr import Expr, Function, If, Tuple
from passat.relay.annotation import compiler_begin, compiler_end
from tests.share import share

X, Y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))


def test_regions_are_numbered_and_know_their_edges() -> None:
    first, second = compiler_begin(X, "a"), compiler_begin(Y, "a")
    added = first + second
    end = compiler_end(added, "a")
    third = compiler_begin(end, "b")
    last = compiler_end(-third, "b")
    regions = AnnotatedRegionSet(Function([X, Y], last))
    one, two = regions.regions
    assert [(one.id, one.target), (two.id, two.target)] == [(0, "a"), (2, "b")]
    assert (one.args, one.rets, set(one.nodes)) == ([first, second], [end], {first, second, added, end})
    assert (two.args, two.rets) == ([third], [last])
    assert regions.get_region(added) is one
    assert regions.get_region(X) is None
    assert len(regions) == 2
    assert repr(one) == "AnnotatedRegion(0, 'a', 4 nodes)"


def test_merged_regions_have_no_annotations_inside() -> None:
    begin = compiler_begin(X, "a")
    end = compiler_end(-begin, "a")
    inner = compiler_begin(end, "a")
    last = compiler_end(-inner, "a")
    regions = AnnotatedRegionSet(last)
    one, two = regions
    regions.merge_regions(one, two)
    assert regions.regions == [two]
    assert two.id == 1
    assert (two.args, two.rets) == ([begin], [last])
    assert all(regions.get_region(node) is two for node in (begin, end, inner, last))
    regions.merge_regions(two, two)
    assert regions.regions == [two]


def test_constants_belong_to_the_region_that_reads_them() -> None:
    begin = compiler_begin(X, "a")
    (region,) = AnnotatedRegionSet(compiler_end(begin + relay.const([1.0, 2.0]), "a"))
    assert region.args == [begin]


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        (compiler_begin(X, "a") + compiler_begin(Y, "b"), r"regions for a and b meet here; end one of them with compiler_end: add\("),
        (compiler_end(-X, "a"), r"a region for a ends here, but its operand is in no region: annotation\.compiler_end\("),
        (compiler_end(-compiler_begin(X, "b"), "a"), "a region for a ends here, but its operand is in a region for b"),
        (
            compiler_end(compiler_begin(X, "a") + Y, "a"),
            "this operand is outside of the region for a that uses it; wrap it in compiler_begin: %y",
        ),
    ],
)
def test_annotations_that_are_no_regions_are_rejected(expr: Expr, message: str) -> None:
    with pytest.raises(RegionError, match=message):
        AnnotatedRegionSet(expr)


def test_branches_are_not_part_of_regions() -> None:
    flag = relay.var("flag", shape=(), dtype="bool")
    branch = compiler_end(-compiler_begin(X, "a"), "a")
    choice = If(flag, branch, X)
    regions = AnnotatedRegionSet(choice)
    assert regions.get_region(choice) is None
    with pytest.raises(RegionError, match="its operand is in no region"):
        AnnotatedRegionSet(compiler_end(If(flag, compiler_begin(X, "a"), X), "a"))


def test_many_regions_take_linear_time() -> None:
    length = share(4_000, 20_000)
    node: Expr = X
    for _ in range(length):
        node = compiler_end(-compiler_begin(node, "a"), "a")
    regions = AnnotatedRegionSet(Tuple([node]))
    assert len(regions) == length
    first, *others = regions
    for region in others:
        regions.merge_regions(first, region)
        first = region
    assert len(first.nodes) == 3 * length
    assert all(regions.get_region(node) is first for node in first.nodes)

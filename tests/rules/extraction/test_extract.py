"""Extracting the best program: trees and graphs with shared parts, cycles, invalid costs, and very deep programs."""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.attrs import Attrs
from passat.ir.expr import Call, Expr
from passat.ir.infer import infer_type
from passat.ir.op import Op, get_op
from passat.ir.types import Type
from passat.rules.cost import EPSILON, CostModel, NodeCount
from passat.rules.engine.graph import Graph
from passat.rules.engine.symbols import CALL, symbol
from passat.rules.extraction.extract import Extraction, extract
from tests.rules.building import func, ops, splat, tup, var
from tests.share import share

x, y = var("x"), var("y")
UNARY = ("exp", "sin", "cos", "tan", "tanh", "erf", "abs")


class Prices:
    """A price for each operator by name; 1 if none is given."""

    def __init__(self, **prices: float) -> None:
        self.prices = prices

    def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        """The price."""
        return self.prices.get(op.name, 1.0)


class Classes:
    """An e-graph built by hand from a program, further nodes and unions."""

    def __init__(self, body: Expr) -> None:
        self.graph = Graph()
        self.root = self.graph.load(func(body).body)

    def add(self, name: str, *operands: int) -> int:
        """Adds a call."""
        return self.graph.make(symbol(CALL, get_op(name), len(operands)), 0, operands)

    def node(self, expr: Expr) -> int:
        """The node of a part of the program."""
        return self.graph.ids[id(expr)]

    def union(self, *nodes: int) -> None:
        """Unites the e-classes of nodes."""
        for other in nodes[1:]:
            self.graph.unite(nodes[0], other)

    def extract(self, model: CostModel) -> Extraction:
        """The best program, checked to be complete, in order, and of the reported cost."""
        found = extract(self.graph, [self.root], len(self.graph), model)
        check(self.graph, self.graph.find(self.root), found, model)
        return found

    def chosen(self, model: CostModel) -> list[str]:
        """The operators of the best program."""
        choice = self.extract(model).choice
        heads = [self.graph.symbols[node] for node in choice.values()]
        return sorted(head.op.name for head in heads if head.op is not None)


def check(graph: Graph, root: int, found: Extraction, model: CostModel) -> None:
    done: set[int] = set()
    constants = set(graph.constants)
    total = 0.0
    for cls, node in found.choice.items():
        parts = [graph.find(operand) for operand in graph.operands[node]]
        assert done.issuperset(parts), "operands come before their users"
        assert node == cls or node in graph.members[cls]
        head = graph.symbols[node]
        constant = bool(parts) and constants.issuperset(parts)
        if constant:
            constants.add(cls)
        total += EPSILON if head.op is None or constant else model.call(head.op, [], graph.types[node], Attrs())
        done.add(cls)
    assert root in done
    assert found.cost == pytest.approx(total, rel=1e-6, abs=1e-6)
    assert found.cost <= found.input_cost * (1 + 1e-9)


def test_without_alternatives_the_program_is_unchanged() -> None:
    classes = Classes(ops.exp(x) + y)
    found = classes.extract(NodeCount())
    assert sorted(found.choice.values()) == [0, 1, 2, 3]
    assert found.cost == found.input_cost == pytest.approx(2, abs=1e-6)


def test_the_cheaper_of_two_is_taken() -> None:
    dear = ops.exp(x)
    classes = Classes(ops.abs(dear))
    classes.union(classes.node(dear), classes.add("sin", classes.node(x)))
    assert classes.chosen(Prices(exp=5, sin=1)) == ["abs", "sin"]
    assert classes.chosen(Prices(exp=1, sin=5)) == ["abs", "exp"]


def test_of_equal_cost_the_program_stays() -> None:
    part = ops.exp(x)
    classes = Classes(part)
    classes.union(classes.node(part), classes.add("sin", classes.node(x)))
    assert classes.chosen(NodeCount()) == ["exp"]


def test_a_part_that_is_there_anyway_costs_nothing_more() -> None:
    """tan(x) costs 3. cos(s) with s = exp(x) costs 1 + 4 as a tree, but the other operand needs s in any case."""
    shared, own = ops.exp(x), ops.tan(x)
    classes = Classes(tup(ops.abs(shared), own))
    classes.union(classes.node(own), classes.add("cos", classes.node(shared)))
    model = Prices(exp=4, tan=3)
    assert classes.chosen(model) == ["abs", "cos", "exp"]
    assert classes.extract(model).cost == pytest.approx(6, abs=1e-6)


def test_a_part_that_nothing_else_needs_costs_all_of_itself() -> None:
    own = ops.tan(x)
    classes = Classes(tup(own, ops.abs(x)))
    classes.union(classes.node(own), classes.add("cos", classes.add("exp", classes.node(x))))
    assert classes.chosen(Prices(exp=4, tan=3)) == ["abs", "tan"]


def test_freeing_a_shared_part_counts_as_gain() -> None:
    """Two users of an expensive part each have an alternative that costs a little more than the user, but less than the part."""
    dear = ops.exp(x)
    first, second = ops.cos(dear), ops.tan(dear)
    classes = Classes(tup(first, second))
    for user, other in ((first, "sin"), (second, "abs")):
        classes.union(classes.node(user), classes.add(other, classes.node(x)))
    model = Prices(exp=10, cos=1, tan=1, sin=2, abs=2)
    assert classes.chosen(model) == ["abs", "sin"]


def test_alternatives_that_share_a_new_part_are_taken_together() -> None:
    """Each of three sums has an alternative that costs the same alone, with a part that all of them may share."""
    sums = [ops.sin(ops.exp(var(f"x{i}"))) for i in range(3)]
    classes = Classes(tup(*sums))
    shared = classes.add("tan", classes.add("cos", classes.node(sums[0].args[0].args[0])))
    for i, each in enumerate(sums):
        classes.union(classes.node(each), classes.add("add" if i else "multiply", classes.node(each.args[0].args[0]), shared))
    assert classes.chosen(NodeCount()) == ["add", "add", "cos", "multiply", "tan"]


def test_a_new_part_is_computed_from_what_is_there_anyway() -> None:
    """cos(y) costs 8. tan costs 1, and its operand is sin(y) for 12, or erf(s) for 4 and all of s = exp(x) as a tree. But two other values
    need s: one of them has no alternative, and the other has one that is cheaper as a tree."""
    shared, own = ops.exp(x), ops.cos(y)
    first, second = ops.tanh(shared), ops.abs(shared)
    classes = Classes(tup(first, second, own))
    part, other = classes.add("sin", classes.node(y)), classes.add("erf", classes.node(shared))
    classes.union(part, other)
    classes.union(classes.node(own), classes.add("tan", part))
    classes.union(classes.node(second), classes.add("sqrt", classes.add("log", classes.node(y))))
    assert classes.chosen(Prices(exp=10, cos=8, sin=12, erf=4, log=5)) == ["abs", "erf", "exp", "tan", "tanh"]


def test_the_cheapest_trees_are_improved_even_if_they_cost_more_than_the_input() -> None:
    """tanh and abs of exp(x) cost 12, and 9 as chains above sin(x), if both change. The cheapest trees have both chains, but also tan(x) for
    8 instead of ceil for 1, whose operand is there anyway."""
    shared, kept = ops.exp(x), ops.negative(x)
    first, second, third = ops.tanh(shared), ops.abs(shared), ops.ceil(kept)
    classes = Classes(tup(first, second, third, kept))
    base = classes.add("sin", classes.node(x))
    classes.union(classes.node(first), classes.add("sqrt", classes.add("log", base)))
    classes.union(classes.node(second), classes.add("erf", classes.add("cos", base)))
    classes.union(classes.node(third), classes.add("tan", classes.node(x)))
    prices = Prices(exp=10, sin=5, negative=20, tan=8)
    assert classes.chosen(prices) == ["ceil", "cos", "erf", "log", "negative", "sin", "sqrt"]


def test_a_new_part_takes_the_form_that_reads_what_the_program_has() -> None:
    """The cheapest tree of the new part computes a value of its own; the other form reads a costly one that the program returns."""
    kept, own = ops.abs(x), ops.tanh(y)
    classes = Classes(tup(kept, own))
    part = classes.add("cos", classes.add("ceil", classes.node(y)))
    classes.union(part, classes.add("erf", classes.node(kept)))
    classes.union(classes.node(own), classes.add("sin", part))
    found = classes.extract(Prices(abs=10, tanh=8, ceil=6))
    assert found.cost == pytest.approx(10 + 2, abs=0.1)


def test_values_that_the_input_shares_are_not_given_up_for_one_use_after_the_other() -> None:
    """tanh, abs and ceil of negative(x) change to exp, rsqrt and floor of x one by one, and then negative(x) is not there for erf, which with
    log replaces cos(x)."""
    shared, kept = ops.negative(x), ops.sigmoid(x)
    first, second, third = ops.tanh(shared), ops.abs(shared), ops.ceil(shared)
    own, other = ops.cos(x), ops.sqrt(kept)
    classes = Classes(tup(first, second, third, own, other, kept))
    for old, name in ((first, "exp"), (second, "rsqrt"), (third, "floor"), (other, "tan")):
        classes.union(classes.node(old), classes.add(name, classes.node(x)))
    part = classes.add("sin", classes.node(x))
    classes.union(part, classes.add("erf", classes.node(shared)))
    classes.union(classes.node(own), classes.add("log", part))
    prices = Prices(negative=9, exp=0.5, rsqrt=0.5, floor=5, cos=8, sin=12, sigmoid=20, tan=8)
    assert classes.chosen(prices) == ["ceil", "erf", "exp", "log", "negative", "rsqrt", "sigmoid", "sqrt"]


def test_a_class_that_contains_its_own_user_gives_no_cycle() -> None:
    """x * 1 is x, so the e-class of x has a node that needs x."""
    whole = x * splat(1.0)
    classes = Classes(ops.exp(whole))
    classes.union(classes.node(x), classes.node(whole))
    assert classes.chosen(NodeCount()) == ["exp"]
    classes = Classes(ops.exp(ops.abs(x)))
    inner = classes.graph.operands[classes.root][0]
    classes.union(inner, classes.add("abs", inner))
    assert classes.chosen(Prices(exp=1, abs=1)) == ["abs", "exp"]


def test_two_classes_that_need_each_other() -> None:
    """One e-class contains f(g), the other g(f). Both are cheap, but together they form no program."""
    one, other = ops.exp(x), ops.sin(x)
    classes = Classes(tup(one, other))
    classes.union(classes.node(one), classes.add("cos", classes.node(other)))
    classes.union(classes.node(other), classes.add("tan", classes.node(one)))
    model = Prices(exp=10, sin=10, cos=1, tan=1)
    assert classes.chosen(model) in (["cos", "sin"], ["exp", "tan"])
    assert classes.extract(model).cost == pytest.approx(11, abs=1e-6)


def test_a_constant_is_preferred_to_any_call() -> None:
    whole = ops.exp(splat(0.0))
    classes = Classes(x * whole)
    classes.union(classes.node(whole), classes.graph.add_constant(splat(1.0).data))
    assert classes.chosen(NodeCount()) == ["multiply"]


def test_calls_on_constants_are_free() -> None:
    dear = ops.tan(x)
    classes = Classes(dear + splat(1.0))
    constant = classes.graph.load(func(splat(3.0)).body)
    free = classes.add("exp", classes.add("sin", constant))
    wide = classes.add("add", classes.node(x), free)
    classes.union(classes.node(dear), wide)
    assert classes.chosen(Prices(tan=5, exp=100, sin=100)) == ["add", "add", "exp", "sin"]


@pytest.mark.parametrize("price", [math.nan, math.inf, 0.0, -1.0])
def test_costs_that_cannot_be_are_rejected(price: float) -> None:
    classes = Classes(ops.exp(x))
    with pytest.raises(ValueError, match=rf"the cost model Prices returned {price} for exp\(.*; a cost must be positive and finite"):
        classes.extract(Prices(exp=price))


def test_several_roots() -> None:
    shared, own = ops.exp(x), ops.tan(x)
    classes = Classes(tup(shared, own))
    classes.union(classes.node(own), classes.add("cos", classes.node(shared)))
    found = extract(classes.graph, [classes.node(own), classes.node(shared)], len(classes.graph), Prices(exp=4, tan=3))
    assert sorted(found.choice) == sorted({classes.node(x), classes.node(own), classes.node(shared)})


def test_a_long_chain_of_calls_with_alternatives_everywhere() -> None:
    body: Expr = x
    count = share(5_000, 50_000)
    for _ in range(count):
        body = Call(get_op("exp"), [body])
    graph = Graph()
    root = graph.load(infer_type(body))
    head = symbol(CALL, get_op("sin"), 1)
    for cls in range(1, count + 1, 2):
        graph.unite(cls, graph.make(head, 0, (cls - 1,)))
    found = extract(graph, [root], len(graph), Prices(exp=2))
    assert found.cost == pytest.approx(1.5 * count)
    assert found.input_cost == pytest.approx(2 * count)


def test_a_graph_of_many_paths() -> None:
    body: Expr = x
    levels: list[Expr] = []
    for _ in range(100):
        levels.append(ops.abs(body))
        body = levels[-1] + levels[-1]
    classes = Classes(body)
    for level in levels:
        classes.union(classes.node(level), classes.add("sin", classes.graph.operands[classes.node(level)][0]))
    assert classes.extract(Prices(abs=3)).cost == pytest.approx(200)


@st.composite
def random_classes(draw: st.DrawFn) -> tuple[Classes, Prices]:
    """A small program, further calls, and arbitrary unions: values do not matter here."""
    pool: list[Expr] = [x, y]
    for _ in range(draw(st.integers(2, 5))):
        pick = st.integers(0, len(pool) - 1)
        name = draw(st.sampled_from([*UNARY, "add", "add"]))
        args = [pool[draw(pick)]] if name != "add" else [pool[draw(pick)], pool[draw(pick)]]
        pool.append(Call(get_op(name), args))
    classes = Classes(tup(pool[-1], pool[-2]))
    for _ in range(draw(st.integers(1, 5))):
        nodes = [node for node in range(len(classes.graph)) if classes.graph.types[node] == func(x).body.checked_type]
        choose = st.sampled_from(nodes)
        if draw(st.booleans()):
            other = classes.add(draw(st.sampled_from(UNARY)), classes.graph.find(draw(choose)))
        else:
            other = classes.add("add", classes.graph.find(draw(choose)), classes.graph.find(draw(choose)))
        classes.union(draw(choose), other)
    prices = {name: draw(st.sampled_from([0.5, 1.0, 2.0, 3.0, 7.0])) for name in (*UNARY, "add")}
    return classes, Prices(**prices)


def optimum(classes: Classes, model: Prices) -> float:
    """The cost of the best program, found by trying all choices."""
    graph = classes.graph
    options = graph.members
    best = math.inf
    for picked in itertools.product(*options.values()):
        choice = dict(zip(options, picked, strict=True))
        best = min(best, cost_of(graph, graph.find(classes.root), choice, model))
    return best


def cost_of(graph: Graph, root: int, choice: Mapping[int, int], model: Prices) -> float:
    state: dict[int, int] = {}
    total, stack = 0.0, [(root, False)]
    while stack:
        cls, done = stack.pop()
        if done:
            state[cls] = 2
            continue
        if state.get(cls) == 2:
            continue
        if state.get(cls) == 1:
            return math.inf
        state[cls] = 1
        node = choice.get(cls, cls)
        head = graph.symbols[node]
        total += EPSILON if head.op is None else model.prices[head.op.name]
        stack.append((cls, True))
        for operand in graph.operands[node]:
            part = graph.find(operand)
            if state.get(part) == 1:
                return math.inf
            stack.append((part, False))
    return total


@settings(max_examples=share(52, 300), derandomize=True)
@given(random_classes())
def test_random_e_graphs_give_costs_between_optimum_and_input(drawn: tuple[Classes, Prices]) -> None:
    classes, model = drawn
    found = classes.extract(model)
    best = optimum(classes, model)
    assert best <= found.cost + 1e-6
    assert found.cost <= found.input_cost + 1e-6


def test_most_random_classes_give_the_best_program() -> None:
    """The search is not exact, but it rarely misses the optimum of a small graph."""
    generator = np.random.default_rng(0)
    hits = 0
    for _ in range(100):
        pool: list[Expr] = [x]
        for _ in range(5):
            pool.append(Call(get_op(str(generator.choice(UNARY))), [pool[int(generator.integers(len(pool)))]]))
        classes = Classes(tup(*pool[-3:]))
        model = Prices(**{name: float(generator.integers(1, 9)) for name in UNARY})
        for _ in range(4):
            nodes = [node for node in range(len(classes.graph)) if classes.graph.types[node] == func(x).body.checked_type]
            other = classes.add(str(generator.choice(UNARY)), classes.graph.find(int(generator.choice(nodes))))
            classes.union(int(generator.choice(nodes)), other)
        hits += classes.extract(model).cost <= optimum(classes, model) + 1e-6
    assert hits >= 95

"""From a rule to its query, and the decision on each match: orders of operands, attributes, literals, types, reasons."""

import numpy as np
import pytest

from passat.ir.equality import structural_equal
from passat.ir.expr import Expr, Function
from passat.ir.shape import ANY, SymDim
from passat.rules.engine.graph import Graph
from passat.rules.engine.matching import Matcher
from passat.rules.engine.symbols import Symbol, symbol
from passat.rules.guards import Check, Reject, Term, computed, guard, has_rank, is_constant, is_float
from passat.rules.pattern import Pattern, RuleError, attributes, constants, number, op, tensors
from passat.rules.rule import Rule
from tests.rules.building import const, func, ops, splat, tup, var
from tests.rules.running import assert_equal_in_value, difference, operators, rewritten, run

x, y, z = tensors("x y z")
c, d = constants("c d")
p, q = attributes("p q")
a, b = var("a"), var("b")


def made(body: Expr, rule: Rule) -> Function:
    """The only function that a rule makes of a body."""
    (result,), _ = rewritten(func(body), rule)
    return result


def reasons(body: Expr, rule: Rule) -> list[str]:
    results, rejected = rewritten(func(body), rule)
    assert not results
    return rejected


def roots(graph: Graph, head: Symbol) -> list[int]:
    return [node for node, given in enumerate(graph.symbols) if given is head]


def rows(body: Expr, rule: Rule) -> list[tuple[int, ...]]:
    """The rows of all matches of a rule in a body."""
    graph = Graph()
    graph.load(func(body).body)
    matcher = Matcher(rule)
    return [row for variant in matcher.variants for row in variant.search(graph, roots(graph, matcher.root))]


# ---- queries


def test_every_place_is_found() -> None:
    body = ops.exp(ops.exp(ops.exp(a)) + ops.exp(a))
    assert len(rows(body, op.exp(x) >> x)) == 3  # exp(a) is one node
    assert len(rows(body, op.exp(op.exp(x)) >> x)) == 1
    assert not rows(body, op.log(x) >> x)


def test_a_hole_that_occurs_twice_is_one_thing() -> None:
    rule = x - x >> op.zeros_like(x)
    assert len(rows(a - a, rule)) == 1
    assert not rows(a - b, rule)
    assert len(rows(ops.exp(a) - ops.exp(a), rule)) == 1


def test_operands_of_commutative_operators_stand_in_both_orders() -> None:
    rule = op.exp(x) * y >> y
    assert len(rows(ops.exp(a) * b, rule)) == 1
    assert len(rows(b * ops.exp(a), rule)) == 1
    assert len(rows(ops.exp(b) * ops.exp(a), rule)) == 2
    assert len(rows(ops.exp(a) - b, op.exp(x) - y >> y)) == 1
    assert not rows(b - ops.exp(a), op.exp(x) - y >> y)


def test_swapped_holes_are_bound_elsewhere() -> None:
    """Both orders of `x + y` are the same match, unless x or y also occurs elsewhere."""
    assert len(rows(a + b, x + y >> y + x)) == 1
    assert len(rows((a + b) - b, (x + y) - x >> y)) == 1
    assert len(rows((a + b) - a, (x + y) - x >> y)) == 1
    constant = splat(2.0)
    for body in (a * constant, constant * a):
        results, _ = rewritten(func(body), (x * y >> y).when(is_constant(x), has_rank(y, 2)))
        assert len(results) == 1


def test_sums_are_matched_in_every_order_of_their_operands() -> None:
    """All orders are found: eight sums have 256."""
    for turned in range(256):
        whole: Pattern = op.exp(x)
        body = ops.exp(a)
        for level in range(8):
            whole = whole + c
            constant = splat(2.0)
            body = constant + body if turned >> level & 1 else body + constant
        assert len(rows(body, whole >> x)) == 1


def test_constants_match_constants_alone() -> None:
    rule = x + c >> x
    assert not rows(a + b, rule)
    assert len(rows(a + splat(1.0), rule)) == 1
    assert len(rows(splat(1.0) + splat(2.0), rule)) == 2


def test_tuples_and_fields() -> None:
    rule = op.concatenate((x, y)) >> op.concatenate((y, x))
    assert len(rows(ops.concatenate(tup(a, b)), rule)) == 1
    assert not rows(ops.concatenate(tup(a, b, a)), rule)
    halves = ops.split(a, indices_or_sections=2)
    first = op.split(x, ...)[0] >> x
    assert len(rows(tup(halves[0], halves[1]), first)) == 2
    assert reasons(halves[1], first) == ["the field is 1, not 0"]


def test_operators_without_operands() -> None:
    rule = op.zeros(shape=p) >> op.ones(shape=p)
    results, rejected = rewritten(func(ops.zeros(shape=(2,), dtype="float32")), rule)
    assert operators(results[0].body) == ["ones"]
    assert not rejected


def test_stateful_calls_are_matched_one_by_one() -> None:
    body = ops.nn.dropout(a)[0] + ops.nn.dropout(a)[0]
    assert len(rows(body, op.nn.dropout(x)[0] >> x)) == 2


# ---- attributes


def test_attributes_that_a_pattern_names_are_checked() -> None:
    rule = op.sum(x, axis=(0,), keepdims=True) >> op.max(x, axis=(0,), keepdims=True)
    assert operators(made(ops.sum(a, axis=(0,), keepdims=True), rule).body) == ["max"]
    assert reasons(ops.sum(a, axis=(1,), keepdims=True), rule) == ["axis is (1,), not (0,)"]
    assert reasons(ops.sum(a, axis=(0,)), rule) == ["keepdims is False, not True"]


def test_lists_are_tuples() -> None:
    assert made(ops.transpose(a, axes=(1, 0)), op.transpose(x, axes=[1, 0]) >> op.exp(op.transpose(x)))


def test_one_hole_has_one_value() -> None:
    rule = op.transpose(op.transpose(x, axes=p), axes=p) >> op.transpose(x, axes=p)
    assert operators(made(ops.transpose(ops.transpose(a, axes=(0, 1)), axes=(0, 1)), rule).body) == ["transpose"]
    assert reasons(ops.transpose(ops.transpose(a, axes=(1, 0)), axes=(0, 1)), rule) in (
        ["the attribute p has two values: (0, 1) and (1, 0)"],
        ["the attribute p has two values: (1, 0) and (0, 1)"],
    )


def test_all_attributes_at_once() -> None:
    rule = op.nn.avg_pool2d(op.nn.relu(x), attrs=p) >> op.nn.avg_pool2d(x, attrs=p)
    image = var("image", (1, 2, 6, 6))
    body = ops.nn.avg_pool2d(ops.nn.relu(image), pool_size=(3, 3), strides=(2, 2))
    assert made(body, rule).body.attrs == body.attrs  # type: ignore[attr-defined]  # a call


def test_attributes_are_passed_to_another_operator_by_name() -> None:
    rule = op.sum(x, attrs=p) >> op.mean(x, attrs=p, keepdims=True)
    result = made(ops.sum(a, axis=(1,), keepdims=True), rule).body
    assert (result.attrs.axis, result.attrs.keepdims) == ((1,), True)  # type: ignore[attr-defined]  # a call


def test_attributes_that_a_right_side_leaves_out_have_their_defaults() -> None:
    kept = made(ops.transpose(a, axes=(0, 1)), (op.transpose(x, axes=p) >> op.transpose(op.transpose(x), axes=(1, 0))))
    inner = kept.body.args[0]  # type: ignore[attr-defined]  # a call
    assert inner.attrs.axes is None


def test_computed_attributes() -> None:
    @computed
    def reverse(axes: tuple[int, ...], term: Term) -> tuple[int, ...]:
        """The axes in reverse order."""
        if term.type.ndim != 2:
            raise Reject("no matrix")
        return axes[::-1]

    rule = op.reverse(op.transpose(x, axes=p), axis=0) >> op.reverse(op.transpose(x, axes=reverse(p, x)), axis=1)
    square = var("square", (2, 2))
    result = made(ops.reverse(ops.transpose(square, axes=(0, 1)), axis=0), rule)
    assert result.body.args[0].attrs.axes == (1, 0)  # type: ignore[attr-defined]  # a call of a call
    cube = var("cube", (2, 2, 2))
    assert reasons(ops.reverse(ops.transpose(cube, axes=(0, 1, 2)), axis=0), rule) == ["no matrix"]


# ---- numbers


def test_literals_on_the_left() -> None:
    rule = x * 2 >> x + x
    for two in (splat(2.0), const([2.0, 2.0, 2.0]), splat(2.0, (2, 3))):
        assert operators(made(a * two, rule).body) == ["add"]
    assert reasons(a * splat(3.0), rule) == ["the constant is 3.0, not 2"]
    assert reasons(a * const([1.0, 2.0, 3.0]), rule) == ["the constant is not uniform, not 2"]
    integer = var("i", dtype="int32")
    assert operators(made(integer * splat(2, (), "int32"), rule).body) == ["add"]


@pytest.mark.parametrize(
    ("dtype", "value", "reason"),
    [
        ("int64", 0.5, "int64 cannot represent 0.5"),
        ("int8", 300, "int8 cannot represent 300"),
        ("uint8", -1, "uint8 cannot represent -1"),
        ("int32", float("inf"), "int32 cannot represent inf"),
        ("float16", 1e6, "float16 cannot represent 1000000.0"),
    ],
)
def test_a_number_that_the_element_type_does_not_have_is_rejected(dtype: str, value: float, reason: str) -> None:
    v = var("v", dtype=dtype)
    assert reasons(v + v, x + x >> x * value) == [reason]


def test_numbers_on_the_right_have_the_element_type_of_the_left() -> None:
    for dtype in ("float16", "bfloat16", "float64", "int8", "uint32"):
        v = var("v", dtype=dtype)
        function = func(v + v)
        assert_equal_in_value(function, made(function.body, x + x >> x * 2), exact=True)
    truth = var("t", dtype="bool")
    assert reasons(ops.logical_not(truth), op.logical_not(x) >> op.logical_xor(x, 2)) == ["bool cannot represent 2"]
    assert operators(made(ops.logical_not(truth), op.logical_not(x) >> op.logical_xor(x, True)).body) == ["logical_xor"]
    assert made(a + a, x + x >> x * float("inf"))


def test_a_number_needs_a_tensor_on_the_left() -> None:
    assert reasons(ops.split(a, indices_or_sections=2), op.split(x, attrs=p) >> op.split(x * 1, attrs=p)) == [
        "a number on the right side needs a left side that is a tensor"
    ]


def test_computed_numbers() -> None:
    @computed
    def count(term: Term) -> int:
        """The number of columns."""
        return int(term.type.shape[-1])  # type: ignore[arg-type]  # static in this test

    function = func(ops.mean(a, axis=(1,)))
    result = made(function.body, op.mean(x, axis=p) >> op.sum(x, axis=p) / number(count(x)))
    assert_equal_in_value(function, result, exact=False)


# ---- types


def test_a_right_side_of_another_type_is_rejected() -> None:
    rule = op.exp(x) >> op.sum(x, axis=(0,))
    assert reasons(ops.exp(a), rule) == ["the right side has type Tensor[(3,), float32], the left side Tensor[(2, 3), float32]"]


def test_a_size_that_only_one_side_knows_is_another_size() -> None:
    """The tensor may turn out to have size 1, so that the constant widens it."""
    for size, said in ((ANY, "?"), (SymDim.named("n"), "n")):
        v = var("v", (size, 3))
        (reason,) = reasons(v * splat(1.0, (2, 1)), x * 1 >> x)
        assert reason == f"the right side has type Tensor[({said}, 3), float32], the left side Tensor[(2, 3), float32]"
        assert made(v * splat(1.0, (1, 3)), x * 1 >> x).body is v
    (reason,) = reasons(var("v", (ANY, 3)) + var("w", (2, 1)), x + y >> op.maximum(x, x))
    assert reason.endswith("the left side Tensor[(2, 3), float32]")


def test_shapes_that_depend_on_values_may_be_known_on_one_side_only() -> None:
    made_again = op.dyn.reshape(op.exp(x), op.shape_of(op.exp(x)))
    assert operators(made(ops.exp(a), (op.exp(x) >> made_again).lowering()).body) != ["exp"]


def test_an_ill_typed_right_side_is_rejected() -> None:
    (reason,) = reasons(ops.exp(a), op.exp(x) >> op.exp(op.nn.matmul(x, x)))
    assert reason.startswith("ill-typed: nn.matmul(Tensor[(2, 3), float32], Tensor[(2, 3), float32];")


def test_a_missing_field_is_rejected() -> None:
    rule = op.split(x, indices_or_sections=2)[0] >> op.split(x, indices_or_sections=2)[5]
    (reason,) = reasons(ops.split(a, indices_or_sections=2)[0], rule)
    assert reason == "ill-typed: (Tensor[(1, 3), float32], Tensor[(1, 3), float32]) has no field 5"
    beyond = op.exp(x) >> op.exp(op.split(x, indices_or_sections=1)[0])
    assert reasons(ops.exp(a), beyond.when(has_rank(op.split(x, indices_or_sections=1)[1], 2))) == [
        "has_rank(split(x, indices_or_sections=1)[1], 2): the type of split(x, indices_or_sections=1)[1] is unknown here"
    ]


# ---- guards


def test_guards_may_name_terms_outside_the_program() -> None:
    rule = (x + y >> y + x).when(
        has_rank(op.sum(x + y, axis=(0,)), 1), is_float(op.concatenate((x, y))), has_rank(op.split(x, indices_or_sections=1)[0], 2)
    )
    assert len(rewritten(func(a + b), rule)[0]) == 2  # in both orders, since the guards distinguish x and y
    cube = var("cube", (2, 2, 3))
    (reason, *_) = reasons(cube + var("other", (2, 2, 3)), rule)
    assert reason == "has_rank(sum((x + y), axis=(0,)), 1): the rank of the tensor is 2, not 1"


def test_a_guard_states_its_reason() -> None:
    @guard
    def never(term: Term) -> bool | str:
        """Rejects without a reason."""
        return False

    assert reasons(ops.exp(a), (op.exp(x) >> x).when(is_float(x), never(x))) == ["never(x): does not hold"]
    integer = var("i", dtype="int32")
    assert reasons(ops.abs(integer), (op.abs(x) >> x).when(is_float(x))) == [
        "is_float(x): the elements are int32, not floating-point numbers"
    ]


def test_a_condition_that_fails_names_its_rule() -> None:
    @guard
    def broken(term: Term) -> bool | str:
        """A guard with an error in it."""
        raise KeyError("oh")

    rule = (op.exp(x) >> x).when(broken(x)).named("Mine.exponent")
    with pytest.raises(RuleError, match=r"the rule Mine\.exponent \(test_matching\.py:\d+\): broken\(x\) raises KeyError: 'oh'"):
        rewritten(func(ops.exp(a)), rule)


def test_a_guard_that_asks_for_what_a_type_does_not_have_rejects() -> None:
    """Static sizes, and axes, that only some types have."""

    @guard
    def is_even(term: Term) -> bool | str:
        """The first of the sizes, all of which are known, is even."""
        return term.type.concrete_shape[0] % 2 == 0

    @guard
    def is_third(term: Term) -> bool | str:
        """The tensor has three axes."""
        return term.type.axis(2) == 2

    assert reasons(ops.exp(var("n", ("n", 2))), (op.exp(x) >> x).when(is_even(x))) == [
        "is_even(x): the shape of Tensor[(n, 2), float32] is not static"
    ]
    assert reasons(ops.exp(var("m", (2, 2))), (op.exp(x) >> x).when(is_third(x))) == ["is_third(x): Tensor[(2, 2), float32] has no axis 2"]


def test_known_elements_reach_conditions() -> None:
    seen: list[object] = []

    @guard
    def look(term: Term) -> bool | str:
        """Records what is known."""
        seen.append(term.known)
        return True

    named = var("named", ("n", 3))
    assert made(ops.dyn.reshape(a, ops.shape_of(a, dtype="int64")), (op.dyn.reshape(x, y) >> x).when(look(y)))
    assert made(ops.dyn.reshape(named, ops.shape_of(named, dtype="int64")), (op.dyn.reshape(x, y) >> x).when(look(y)))
    assert seen == [[2, 3], [SymDim.named("n"), 3]]


# ---- retiring


def test_the_node_that_a_reducing_rule_retires() -> None:
    graph = Graph()
    root = graph.load(func(splat(1.0) * a).body)
    matcher = Matcher(x * c >> x)
    found = [(variant, row) for variant in matcher.variants for row in variant.search(graph, [root])]
    assert [matcher.retired(variant, row) for variant, row in found] == [graph.operands[root]]
    assert Matcher((x * c >> x).exploring()).retired(*found[0]) is None


def test_a_retired_node_keeps_its_attributes() -> None:
    graph = Graph()
    root = graph.load(func(ops.transpose(a, axes=(1, 0))).body)
    matcher = Matcher(op.transpose(x, axes=p) >> x)
    (row,) = matcher.variants[0].search(graph, [root])
    assert matcher.retired(matcher.variants[0], row) == (*graph.operands[root], graph.payloads[root])


def test_a_rejection_is_not_an_error() -> None:
    graph = Graph()
    root = graph.load(func(ops.exp(a)).body)
    matcher = Matcher((op.exp(x) >> x).when(has_rank(x, 5)))
    (row,) = matcher.variants[0].search(graph, [root])
    with pytest.raises(Reject, match="rank of the tensor is 2, not 5") as caught:
        matcher.decide(graph, row)
    assert (caught.value.check, caught.value.by) == (Check.FUNCTION, matcher.rule.guards[0])


def test_a_guard_rejects_where_an_attribute_computed_for_it_has_no_value() -> None:
    graph = Graph()
    root = graph.load(func(ops.transpose(a, axes=(1, 0))).body)
    matcher = Matcher((op.transpose(x, axes=p) >> x).when(p[5] == 1))
    (row,) = matcher.variants[0].search(graph, [root])
    with pytest.raises(Reject) as caught:
        matcher.decide(graph, row)
    assert (repr(caught.value.by), str(caught.value)) == ("p[5] == 1", "p[5] == 1: (1, 0) has no element 5")


def test_results_of_rules_have_the_right_value() -> None:
    function = func(a * (b + a))
    result = made(function.body, x * (y + z) >> x * y + x * z)
    feeds = [const(np.ones((2, 3)) * k).data for k in (2, 3)]
    assert difference(run(result, feeds), run(function, feeds), exact=True) is None


def test_symbols_are_one_object_each() -> None:
    assert symbol("call", None, 2) is symbol("call", None, 2)
    assert symbol("call", None, 2) is not symbol("call", None, 3)


def test_conditions_may_answer_as_numpy_does() -> None:
    @guard
    def large(term: Term) -> bool | str:
        """True for more than four elements."""
        return np.bool_(term.type.size > 4)  # type: ignore[return-value, operator]  # as a user may write it

    assert made(ops.exp(a), (op.exp(x) >> op.exp(op.copy(x))).when(large(x)))
    small = var("small", (2,))
    assert reasons(ops.exp(small), (op.exp(x) >> op.exp(op.copy(x))).when(large(x))) == ["large(x): does not hold"]


@pytest.mark.parametrize("axis", [-1, 0])
def test_attributes_that_are_not_named_have_their_defaults(axis: int) -> None:
    along = ops.nn.softmax(var("m", (2, 3)), axis=axis)
    assert bool(rewritten(func(along), op.nn.softmax(x) >> op.exp(x))[0]) == (axis == -1)
    assert rewritten(func(along), op.nn.softmax(x, ...) >> op.exp(x))[0]


# ---- the right side


@guard
def is_there(term: Term) -> bool:
    return True


_A, _B = var("a", (2, 2)), var("b", (2, 2))
_EXP, _TANH = op.exp(x * y), op.tanh(op.exp(x * y) - y)
_TURNED = op.transpose(_EXP, axes=p)
_MADE = ops.exp(_A * _B)
_MADE_TANH, _MADE_TURNED = ops.tanh(_MADE - _B), ops.transpose(_MADE, axes=(1, 0))


@pytest.mark.parametrize("named", [None, x * y, _EXP, _TANH, _TURNED, _TURNED + _TANH])
@pytest.mark.parametrize(
    ("right", "wanted"),
    [
        (_TURNED + _TANH, _MADE_TURNED + _MADE_TANH),
        (_TURNED, _MADE_TURNED),
        (_TANH, _MADE_TANH),
        (_EXP, _MADE),
        (x * y, _A * _B),
        (_TURNED - op.abs(_EXP), _MADE_TURNED - ops.abs(_MADE)),
    ],
)
@pytest.mark.parametrize("kind", ["reducing", "exploring"])
def test_the_right_side_may_be_any_part_of_the_left(kind: str, right: Pattern, wanted: Expr, named: Pattern | None) -> None:
    """Operands of the root of a reducing rule, and terms that guards name, are reused with everything below them."""
    rule = Rule(op.nn.relu(_TURNED + _TANH), right, () if named is None else (is_there(named),), kind=kind)
    result = made(ops.nn.relu(_MADE_TURNED + _MADE_TANH), rule)
    assert structural_equal(result.body, wanted, map_free_vars=True)


def test_a_joining_rule_finds_a_part_that_a_guard_names() -> None:
    rule = Rule(op.abs(op.exp(x)), op.exp(x), (is_there(op.exp(x)),), kind="joining")
    assert structural_equal(made(ops.abs(ops.exp(_A)), rule).body, ops.exp(_A), map_free_vars=True)


def test_a_row_with_a_wrong_hole_is_not_a_match_of_a_large_left_side_with_cycles() -> None:
    """egglog 13.2 returns such rows. Here each hole of a true match is exchanged in turn."""
    rule = op.tanh(op.exp(x * y) + op.sqrt(op.exp(x) * op.tanh(y))) >> op.exp(x)
    body = ops.tanh(ops.exp(a * b) + ops.sqrt(ops.exp(a) * ops.tanh(b)))
    graph = Graph()
    graph.load(func(body).body)
    matcher = Matcher(rule)
    (row, *_) = [row for variant in matcher.variants for row in variant.search(graph, roots(graph, matcher.root))]
    matcher.bind(graph, row)
    for hole, other in ((x, y), (y, x)):
        wrong = list(row)
        wrong[matcher.slot(hole)] = row[matcher.slot(other)]
        with pytest.raises(Reject, match="the row is not a match"):
            matcher.bind(graph, wrong)

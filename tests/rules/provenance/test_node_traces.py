"""Node traces: the rules and passes that led to a node, and the nodes of the input that it derives from."""

import contextlib

from passat.ir.expr import Call, Expr, Function, If, Let, Var
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import get_op
from passat.ir.traverse import rewrite, with_children
from passat.passmgr import FunctionPass, PassContext, PassInfo, module_pass
from passat.rules import RuleSet, constants, each, joined, op, parts, rule_pass, tensors
from passat.rules.engine.trace import Trace
from passat.rules.library.folding import ConstantFolding
from passat.rules.passes.hoist_selections import HoistSelections
from passat.rules.passes.simplify import dynamic_to_static, eliminate_common_subexpr, fold_constant
from passat.rules.provenance.pass_trace import PassTrace
from tests.rules.building import const, func, ops, tup, var
from tests.rules.provenance.proving import named, written

x, y, w = tensors("x y w")
c, d = constants("c d")
a, b = var("a"), var("b")


class Words(RuleSet):
    """Renames operators by equal ones, in a chain."""

    difference = x + op.negative(y) >> x - y
    squared = op.exp(x) * op.exp(y) >> op.exp(x + y)


class Zeros(RuleSet):
    """Nothing added."""

    zero = x + 0.0 >> x


class Twice(RuleSet):
    """Removes pairs that cancel."""

    negated = op.negative(op.negative(x)) >> x
    product = op.sqrt(x * x) >> op.abs(x)


class Together(RuleSet):
    """Products of one matrix with several."""

    matmul = (each(x @ w, sharing=x) >> parts(x @ joined(w, axis=-1), axis=-1)).inexact("accumulates in blocks of another size")


def chain(left: Expr, right: Expr) -> Expr:
    return named(ops.multiply(named(ops.exp(left), "e1"), named(ops.exp(right), "e2")), "product")


def test_a_new_node_names_its_rule_and_match() -> None:
    found = written(func(chain(a, b)), [rule_pass(Words, name="First")])
    assert found.steps("exp") == ["First: Words.squared at product"]
    assert found.node_trace("exp").sources == ("product", "e1", "e2")
    assert found.node_trace("add").sources == ("product", "e1", "e2"), "the inner sum was part of the match"


def test_unchanged_nodes_belong_to_the_input() -> None:
    function = func(tup(chain(a, b), named(ops.tanh(a), "kept")))
    found = written(function, [rule_pass(Words, name="First")])
    assert found.node_trace("tanh").events == ()
    assert found.node_trace("tanh").sources == ("kept",)
    (kept,) = [call for call in found.calls() if getattr(call.op, "name", "") == "tanh"]
    assert not found.node_traces.changed(kept)


def test_chains_go_back_through_two_and_three_passes() -> None:
    """The second pass matches the product of the first, and the third matches the result of the second."""
    whole = named(ops.abs(chain(named(ops.add(a, const(0.0)), "zero"), named(ops.negative(ops.negative(b)), "back"))), "top")
    passes = [rule_pass(Zeros, name="First"), rule_pass(Twice, name="Second"), rule_pass(Words, name="Third")]
    two = written(func(whole), [passes[0], passes[2]])
    assert two.steps("exp") == ["First: Zeros.zero at zero", "Third: Words.squared at product"]
    three = written(func(whole), passes)
    assert three.steps("exp") == ["First: Zeros.zero at zero", "Second: Twice.negated at back", "Third: Words.squared at product"]
    assert set(three.node_trace("exp").sources) == {"product", "e1", "e2", "zero", "back"}


def test_chains_inside_one_saturation_are_followed_in_order() -> None:
    """exp(a) * exp(-b) becomes exp(a + -b), and that sum becomes a - b."""
    found = written(func(chain(a, named(ops.negative(b), "minus"))), [rule_pass(Words, name="Only")])
    assert found.steps("subtract") == ["Only: Words.squared at product", "Only: Words.difference at minus"]
    assert found.node_trace("subtract").sources == ("product", "e1", "e2", "minus")


def test_a_removed_operand_names_its_rule() -> None:
    found = written(func(named(ops.tanh(named(ops.add(a, const(0.0)), "zero")), "top")), [rule_pass(Zeros, name="First")])
    assert found.steps("tanh") == ["First: Zeros.zero at zero"]
    assert found.node_trace("tanh").sources == ("top", "zero")


def test_rules_with_several_roots_name_all_of_them() -> None:
    weights = [const([[float(i + j)] * k for j in range(3)]) for i, k in enumerate((2, 3, 4))]
    body = tup(*(named(ops.nn.matmul(a, weight), f"m{i}") for i, weight in enumerate(weights)))
    found = written(func(body), [rule_pass(Together, ConstantFolding, name="Joint")])
    assert found.steps("nn.matmul") == ["Joint: Together.matmul at m0, m1, m2"]
    assert found.steps("split") == found.steps("nn.matmul")
    assert found.node_trace("nn.matmul").sources == ("m0", "m1", "m2")


def test_folding_and_static_forms_are_steps() -> None:
    shape = named(ops.shape_of(a), "shape")
    found = written(func(named(ops.dyn.reshape(a, shape), "view")), [dynamic_to_static()])
    assert found.steps("reshape") == ["DynamicToStatic: DynamicToStatic.reshape at view"]
    added = named(ops.add(named(ops.exp(const([1.0, 2.0, 3.0])), "weight"), a), "sum")
    folded = written(func(added), [fold_constant()])
    assert folded.steps("add") == ["FoldConstant: ConstantFolding.call at weight"]


class Selected(RuleSet):
    """Selections: a broadcast moves behind one, and one of two equal values is the value."""

    broadcast = (op.where(op.broadcast_to(x, ...), c, d) >> op.broadcast_to(op.where(x, c, d), shape=(2, 3))).exploring()
    same = op.where(x, y, y) >> y
    minus_zero = x - 0.0 >> x


def test_a_constant_that_rules_led_to_names_them() -> None:
    """The selection is only found to be constant once both rules have applied: what it is broadcast to folds."""
    same = const([1.0, 2.0, 3.0])
    mask = ops.broadcast_to(var("m", (3,), "bool"), shape=(2, 3))
    found = written(func(tup(named(ops.where(mask, same, same), "top"))), [rule_pass(Selected, ConstantFolding, name="Both")])
    assert found.calls() == []
    assert found.node_traces.rules() == {"Selected.broadcast", "Selected.same"}
    steps = found.node_traces.of_result(found.main.body, 0).events
    assert [step.rule for step in steps][-2:] == ["Selected.broadcast", "Selected.same"]


def test_a_number_that_rules_led_to_names_them() -> None:
    """The number is folded after the other rule has applied."""
    halves = const([0.5, 0.5, 0.5])
    zeros = ops.floor(named(ops.where(var("m", (3,), "bool"), halves, halves), "selected"))
    whole = named(ops.exp(named(ops.subtract(a, zeros), "difference")), "top")
    found = written(func(whole), [rule_pass(Selected, ConstantFolding, name="Only")])
    assert found.node_traces.rules() == {"Selected.same", "Selected.minus_zero"}
    assert found.steps("exp") == ["Only: Selected.same at selected", "Only: Selected.minus_zero at difference"]


def test_each_of_two_equal_folded_nodes_names_the_rule() -> None:
    one, two = (named(ops.exp(const([1.0, 2.0, 3.0])), name) for name in ("one", "two"))
    found = written(func(tup(named(ops.add(a, one), "sum"), named(ops.multiply(a, two), "product"))), [fold_constant()])
    assert found.steps("add") == ["FoldConstant: ConstantFolding.call at one"]
    assert found.steps("multiply") == ["FoldConstant: ConstantFolding.call at two"]


def test_equal_nodes_that_became_one_are_the_inputs_own() -> None:
    twice = named(ops.add(named(ops.exp(a), "one"), named(ops.exp(a), "two")), "sum")
    found = written(func(twice), [eliminate_common_subexpr()])
    assert found.node_trace("exp").sources == ("one",)
    assert found.node_trace("exp").events == ()


def test_lowering_is_a_step() -> None:
    class Target(RuleSet):
        """For a target without relu."""

        relu = (op.nn.relu(x) >> op.maximum(x, 0.0)).lowering()

    found = written(func(named(ops.nn.relu(a), "r")), [rule_pass(Target, name="Lower")])
    assert found.steps("maximum") == ["Lower: Target.relu at r"]


def test_nodes_of_passes_without_rules_are_rewritten() -> None:
    class Swap(FunctionPass):
        """Swaps the operands of sums."""

        info = PassInfo(0, "Swap")

        def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
            body = func.body
            made = with_children(body, (body.op, *reversed(body.args)))  # type: ignore[attr-defined]  # it is a sum
            made.span = body.span
            infer_type(made)
            return func.with_body(made)

    found = written(func(named(ops.add(a, b), "sum")), [Swap()])
    assert found.steps("add") == ["Swap: rewritten at sum"]


def test_nodes_that_are_computed_for_selected_positions_only_say_so() -> None:
    x, w = var("x", ("batch", 40, 64)), var("w", (64, 64))
    scaled = named(ops.tanh(named(ops.nn.matmul(x, w), "product")), "scaled")
    found = written(
        func(named(ops.take(scaled, const([0], "int64"), axis=1), "first"), x, w), [HoistSelections()], **{"rules.cost": "roofline"}
    )
    assert found.steps("nn.matmul") == ["HoistSelections: only the selected positions are computed at product"]
    assert found.steps("tanh") == ["HoistSelections: only the selected positions are computed at scaled"]
    assert found.steps("take") == ["HoistSelections: rewritten at first"]


class Sigmoids(FunctionPass):
    """Replaces tanh by sigmoid in a walk, which rebuilds the nodes above."""

    info = PassInfo(0, "Sigmoids")

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        def change(old: Expr, new: Expr) -> Expr:
            return Call(get_op("sigmoid"), new.args) if isinstance(new, Call) and new.op is get_op("tanh") else new

        return infer_type(rewrite(func, change))


def test_rebuilt_nodes_keep_their_history() -> None:
    product = named(ops.abs(chain(named(ops.tanh(a), "lower"), b)), "top")
    other = named(ops.cos(named(ops.negative(named(ops.tanh(b), "other")), "end")), "far")
    found = written(func(tup(product, other)), [rule_pass(Words, name="First"), Sigmoids()])
    assert found.steps("exp") == ["First: Words.squared at product"]
    assert found.steps("add") == ["First: Words.squared at product", "Sigmoids: rewritten at product"]
    assert found.steps("abs") == []
    assert found.steps("negative") == ["Sigmoids: rewritten at end"]
    (kept,) = [call for call in found.calls() if call.op is get_op("cos")]
    assert found.node_trace("cos").sources == ("far",)
    assert not found.node_traces.changed(kept), "same computation on changed operands"


def test_branches_are_explained_like_everything_else() -> None:
    flag = Var("flag", const(True, "bool").checked_type)
    other = named(ops.negative(a), "other")
    choice = If(flag, chain(a, b), other)
    infer_type(choice)
    found = written(func(named(ops.tanh(choice), "top"), flag, a, b), [rule_pass(Words, name="First")])
    assert found.steps("exp") == ["First: Words.squared at product"]


def test_nodes_of_removed_lets_are_rewritten() -> None:
    bound = Var("t", a.checked_type)
    body = Let(bound, chain(a, b), ops.tanh(bound))
    found = written(func(body, a, b), [rule_pass(Words, name="First")])
    assert all(step.pass_name == "First" for call in found.calls() for step in found.node_traces.of(call).events)
    assert found.steps("exp"), "the pass is named, even if the rule is not"


class Two(RuleSet):
    """The second rule matches a result of the first beside a constant."""

    first = op.exp(op.log(x)) >> op.tanh(x)
    second = 2.0 + op.tanh(x) >> op.sigmoid(x)


def test_rules_that_enabled_others_count() -> None:
    found = written(func(named(ops.add(const(2.0), named(ops.exp(ops.log(a)), "e")), "top")), [rule_pass(Two, name="Only")])
    assert found.steps("sigmoid") == ["Only: Two.first at e", "Only: Two.second at top"]
    assert found.node_traces.rules() == {"Two.first", "Two.second"}


def test_consequences_above_name_the_rule_below() -> None:
    """The sums are merged, and so are the calls above, including those of operators without rules."""

    class Joins(RuleSet):
        """Unites a sum with the sum in the other order, if that exists."""

        swapped = (x + y >> y + x).joining()

    left, right = named(ops.add(a, b), "left"), named(ops.add(b, a), "right")
    body = tup(named(ops.exp(ops.tanh(left)), "one"), named(ops.abs(ops.tanh(right)), "two"))
    found = written(func(body), [rule_pass(Joins, name="Only")])
    assert found.steps("abs") == ["Only: Joins.swapped at left"]
    assert found.steps("exp") == []
    assert found.node_traces.rules() == {"Joins.swapped"}


def test_a_pass_that_catches_the_error_of_another_one_is_traced_from_its_own_input() -> None:
    @module_pass(opt_level=0)
    def broken(mod: IRModule, ctx: PassContext) -> IRModule:
        raise ValueError

    @module_pass(opt_level=0)
    def catching(mod: IRModule, ctx: PassContext) -> IRModule:
        with contextlib.suppress(ValueError):
            broken(mod.shallow_copy())
        return mod

    trace, mod = PassTrace(Trace()), IRModule()
    with PassContext(instruments=[trace]):
        catching(mod)
    (event,) = trace.events
    assert event.before is mod

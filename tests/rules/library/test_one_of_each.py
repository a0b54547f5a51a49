"""Each equation occurs once in the library, and each guard has a unique name."""

import ast
import inspect
from collections import defaultdict

from passat.rules import library
from passat.rules.checking.relations import covers
from passat.rules.multi_pattern import MultiRule, each, joined, parts
from passat.rules.pattern import Pattern, PCall, op, tensors
from passat.rules.rule import Rule, equation_of

GUARDS, KINDS, LIBERTIES = "other guards", "another kind, for other passes", "exact in one case, inexact in the other"
TWICE = {
    ("Arithmetic.clip_nothing", "Arithmetic.clip_nothing_finite"): LIBERTIES,
    ("Arithmetic.clip_nothing", "Arithmetic.clipped"): GUARDS,
    ("Arithmetic.clip_nothing_finite", "Arithmetic.clipped"): GUARDS,
    ("Arithmetic.rectified", "Arithmetic.rectified_zeros"): LIBERTIES,
    ("Arithmetic.zero", "Factoring.times_zero"): LIBERTIES,
    ("Attention.divided_scores", "MatmulAlgebra.divided_product"): GUARDS,
    ("BackwardScaleAxis.hoist_past_broadcast", "BackwardScaleAxis.hoist_past_sum"): GUARDS,
    ("BackwardScaleAxis.hoist_past_transpose", "Commute.transpose_and_constant"): GUARDS,
    ("ConstantFolding.call", "ConstantFolding.exact"): LIBERTIES,
    ("ConstantFolding.call", "QuantizedFolding.call"): GUARDS,
    ("ConstantFolding.exact", "QuantizedFolding.call"): GUARDS,
    ("Commute.pad", "MoveTransposes.hoist_windows"): GUARDS,
    ("Constants.switch_add_multiply", "Products.through_sum"): GUARDS,
    ("ConvolutionChains.meet", "ConvolutionChains.meet_larger"): GUARDS,
    ("Exchanges.matmul_associates", "MatmulAlgebra.regroup"): GUARDS,
    ("Exchanges.transpose_of_sum", "MoveTransposes.hoist_left"): GUARDS,
    ("ForwardScaleAxis.scaled", "MatmulAlgebra.scaled_rows"): KINDS,
    ("Masks.added_first", "Reassociate.grouped"): GUARDS,
    ("MatmulAlgebra.meet", "MatmulAlgebra.meet_larger"): GUARDS,
    ("Windows.finite_maximum", "Windows.maximum"): LIBERTIES,
}
"""Equations that occur twice, up to names of holes and order of operands, with the reason. A new one needs a reason, too."""


def root(pattern: Pattern) -> str:
    return pattern.op.name if isinstance(pattern, PCall) else type(pattern).__name__


def twice(rules: list[Rule]) -> set[tuple[str, ...]]:
    """The names of rules with the same equation, regardless of guards."""
    by_root = defaultdict(list)
    for rule in rules:
        axis = rule.right.axis if isinstance(rule, MultiRule) else None
        by_root[root(rule.lhs), root(rule.rhs), axis].append(Rule(rule.lhs, rule.rhs, name=rule.name))
    return {
        tuple(sorted((equation_of(one.name), equation_of(other.name))))
        for alike in by_root.values()
        for i, one in enumerate(alike)
        for other in alike[:i]
        if covers(one, other) and covers(other, one)
    }


def test_each_equation_occurs_once() -> None:
    sets = library.rule_sets().values()
    assert twice([direction for rules in sets for rule in rules for direction in rule.directions()]) == set(TWICE)


def test_an_equation_with_other_names_is_found_and_a_more_general_one_is_not() -> None:
    x, y, z = tensors("x y z")
    rules = {
        "A.one": (x + op.exp(y)) * z >> x * z + op.exp(y) * z,
        "B.two": z * (op.exp(x) + y) >> y * z + op.exp(x) * z,
        "C.three": (x + y) * z >> x * z + y * z,
        "D.four": each(x @ y, sharing=x) >> parts(x @ joined(y, axis=-1), axis=-1),
        "E.five": each(z @ x, sharing=z) >> parts(z @ joined(x, axis=-1), axis=-1),
        "F.six": each(z @ x, sharing=z) >> parts(z @ joined(x, axis=-2), axis=-1),
    }
    assert twice([rule.named(name) for name, rule in rules.items()]) == {("A.one", "B.two"), ("D.four", "E.five")}


def test_public_functions_of_the_library_have_names_of_their_own() -> None:
    """docs/rules.md lists guards by name, and rules of users import them by name."""
    found = defaultdict(list)
    for module in library.rule_files():
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                found[node.name].append(module.__name__)
    assert {name: modules for name, modules in found.items() if len(modules) > 1} == {}

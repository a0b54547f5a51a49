"""Mistakes with terms of the rule language: each raises an error with one sentence, and none passes silently."""

import math
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any as AnyValue

import numpy as np
import pytest

from passat.ir.expr import Call, Expr, Function, Var
from passat.ir.op import get_op
from passat.ir.types import TensorType
from passat.passmgr import Statistics
from passat.rulefile import RuleFileError, load_rules
from passat.rules import RuleSet, attribute, constant, guards, holes, op, tensor, tensors
from passat.rules.guards import Guard, Term, computed, guard, is_all, is_float
from passat.rules.multi_pattern import each, joined, parts
from passat.rules.pattern import RuleError, constants, number, value
from passat.rules.rule_set import RuleSetMeta
from tests.rules.building import func, ops, var
from tests.rules.running import saturate

KNOWN: dict[str, AnyValue] = {
    **{"x": tensor("x"), "y": tensor("y"), "c": constant("c"), "a": attribute("a"), "b": attribute("b"), "op": op, "math": math},
    **{"is_float": is_float, "is_all": is_all, "guards": guards, "number": number},
    **{"tensor": tensor, "tensors": tensors, "constant": constant, "constants": constants, "attribute": attribute},
    **{"each": each, "joined": joined, "parts": parts},
}
TERMS = ("x", "c", "x + y", "op.nn.relu(x)", "a", "a * b", "x.shape", "is_float(x)", "a > b", "op.nn.relu")
GUARD = "a guard is a function of the match"


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize(
    "use",
    [
        *("bool(T)", "T and T", "not T", "1 if T else 2", "0 < T < 3", "T in T", "3 in T", "len(T)"),
        *(
            "list(T)",
            "[*T]",
            "max(T)",
            "iter(T)",
            "int(T)",
            "float(T)",
            "complex(T)",
            "range(T)",
            "round(T)",
            "math.floor(T)",
            "f'{T:.2f}'",
        ),
        *("~T", "+T", "T & T", "T | 3", "3 ^ T", "T << T", "3 << T", "divmod(T, 2)", "[1, 2][T]"),
    ],
)
def test_no_term_is_tested_compared_converted_or_gone_through(use: str, term: str) -> None:
    with pytest.raises(RuleError) as caught:
        eval(use.replace("T", f"({term})"), KNOWN)
    assert ", and has no " in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("term", ["x", "c", "x + y", "op.nn.relu(x)", "is_float(x)", "a > b", "op.nn.relu"])
@pytest.mark.parametrize("use", ["T < 3", "3 >= T", "T > T", "T <= a"])
def test_only_attributes_are_compared(use: str, term: str) -> None:
    with pytest.raises(RuleError) as caught:
        eval(use.replace("T", f"({term})"), KNOWN)
    assert ", and has no comparison " in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x.size > 3", f"x is a pattern, and has no .size: {GUARD}"),
        ("op.nn.relu(x).type", f"nn.relu(x) is a pattern, and has no .type: {GUARD}"),
        (
            "1 < a < 3",
            "a > 1 is a guard, and has no truth value (if, and, or, not): to require several guards, list them: .when(a, b), and",
        ),
        ("a > 1 and a < 3", "and .when(1 < a, a < 3) for 1 < a < 3"),
        ("a > x", "a is an attribute, but x is a pattern: compare attributes, or x.ndim, x.shape[0], x.dtype of a tensor x"),
        ("a == is_float(x)", "a is an attribute, but is_float(x) is a guard: compare attributes"),
        ("a > 'b'", "a > 'b': 'b' is neither an attribute nor a number; == and != compare other values"),
        ("x.shape[0] == 'n'", "x.shape[0] == 'n': x.shape[0] is a number, which never equals 'n'"),
        ("'n' != x.shape[-1] * 2", "x.shape[-1] * 2 is a number, which never equals 'n'"),
        ("x.ndim == (1,)", "x.ndim is a number, which never equals (1,)"),
        ("x.shape == ('n', 3)", "x.shape is a tuple of numbers, which never equals ('n', 3)"),
        ("x.shape != 3", "x.shape is a tuple of numbers, which never equals 3"),
        ("a <= True", "a <= True: True is neither an attribute nor a number"),
        ("a >= None", "a >= None: None is neither an attribute nor a number"),
        ("(op.nn.relu(x) >> x).when(y.ndim == 2)", "the guard y.ndim == 2 uses 'y', which the left side does not bind"),
        ("(op.nn.relu(x) >> x).when(a > 2)", "the guard a > 2 uses the attribute 'a', which the left side does not bind"),
        ("(op.nn.relu(x) >> x).when(x.ndim == x.ndim, x.ndim)", "x.ndim is not a guard"),
        ("x.relu()", "x is a pattern, and has no .relu: operators are applied as op.NAME(x)"),
        ("x.when(is_float(x))", ".when(...) belongs to the rule, not to its right side: write (left >> right).when(...)"),
        ("a.shape", "a is an attribute, and has no .shape"),
        ("a.data_layout", "has no .data_layout: if it stands for all attributes of a call (attrs=a), write a['data_layout']"),
        ("x.shap[0] == 1", "x is a pattern, and has no .shap: did you mean shape?"),
        ("(op.nn.relu(x) >> x).wen(x.ndim == 1)", "a rule has no .wen; did you mean when?"),
        (
            "x > 3",
            "x is a pattern, and has no comparison >: compare x.ndim, x.shape[0] or x.dtype, or apply an operator such as op.greater(x, y)",
        ),
        ("op.transpose(x, axes=a != b)", "transpose(axes=...) is an attribute: write a value or attribute('axes'); a != b is a guard"),
        ("is_float(x) and is_float(c)", "is_float(x) is a guard, and has no truth value (if, and, or, not): to require several guards"),
        ("is_float(x) & is_float(c)", "has no operator &: to require several guards, list them: .when(a, b)"),
        ("x // 2", "x is a pattern, and has no operator //: apply an operator by its name: op.NAME(x, y)"),
        ("x @ a", "a is an attribute, not a tensor; on a right side, number(a) makes a constant of it"),
        ("a * x", "a is an attribute, but x is neither one nor a number; number(a) makes a constant"),
        ("a * 'b'", "a is an attribute, but 'b' is neither one nor a number"),
        ("a + [1]", "a is an attribute, but [1] is neither one nor a number"),
        ("number(x)", "number(...) takes an attribute or the result of a @computed function, not x"),
        ("op.nn.relu + x", "op.nn.relu is an operator that is not applied"),
        ("op.nn.relu >> x", "op.nn.relu is an operator that is not applied"),
        ("x + op.nn.relu", "op.nn.relu is an operator that is not applied: write op.nn.relu(...)"),
        ("op.nn.relu(x) >> op.nn.relu", "op.nn.relu is an operator that is not applied: write op.nn.relu(...)"),
        ("op.nn.relu(x)(y)", "nn.relu(x) is a pattern, and has no call: operators are applied as op.NAME(x)"),
        ("op.nn.relu(x) >> x >> y", "already has a left and a right side; write a separate rule for y"),
        ("op.nn.relu(x) << x", "has no operator <<: write rules from left to right: left >> right"),
        ("a >> b", "a is an attribute, and has no operator >>: a rule has a left and a right side, both patterns"),
        ("x[-1]", "fields are counted from 0"),
        ("x[1:2]", "fields are counted from 0; parts of a tensor are op.strided_slice(...)"),
        ("x['a']", "x['a']: fields are counted from 0"),
        ("x[a]", "x[a]: fields are counted from 0"),
        ("x * 10**400", "an int of 401 digits cannot occur in a pattern"),
        ("-10**400 + x", "an int of 401 digits cannot occur in a pattern"),
        ("x + 'a'", "'a' cannot occur in a pattern"),
        ("x + None", "None cannot occur in a pattern"),
        ("x + 1j", "1j cannot occur in a pattern"),
        ("x + (op.nn.relu(x) >> x)", "cannot occur in a pattern"),
        ("(op.nn.relu(x) >> x).when(True)", "True is not a guard"),
        ("(op.nn.relu(x) >> x).when(x.dtype == float)", "False is not a guard; write one with @guard, or compare attributes with numbers"),
        (
            "(op.nn.relu(x) >> x).when(x == y)",
            "x is a pattern, and has no comparison ==: compare x.ndim, x.shape[0] or x.dtype, or apply an operator such as op.equal(x, y)",
        ),
        ("x != 3", "x is a pattern, and has no comparison =="),
        ("op.nn.relu(x) >> x == y", "rule [nn.relu(x) -> x] is compared with y, which does not make a rule: write left >> right"),
        ("op.nn.relu(x) == x >> y", "the left side must apply an operator"),
        ("op.nn.relu(x) == op.abs(x) >> x", "rule [abs(x) -> x] is compared with nn.relu(x), which does not make a rule"),
        ("op.nn.relu(x) >> x == 3", "rule [nn.relu(x) -> x] is compared with 3, which does not make a rule"),
        ("op.nn.relu(x) >> x != (x, y)", "rule [nn.relu(x) -> x] is compared with (x, y), which does not make a rule"),
        (
            "(op.nn.relu(x) >> x).when(is_float)",
            "is_float is a function; a guard is the call of one that @guard decorates: .when(is_float(x))",
        ),
        (
            "(op.nn.relu(x) >> x).when(lambda x: True)",
            "a lambda is not a guard: write a function with a name, decorate it with @guard, and call it",
        ),
        ("(op.nn.relu(x) >> x).inexact(3)", "state what it changes"),
        ("(op.nn.relu(x) >> x).inexact()", "state what it changes, as in .inexact('reassociates sums')"),
        ("(op.nn.relu(x) >> x).finite()", "state what it changes, as in .inexact('reassociates sums') or .finite('x - x is 0')"),
        ("(op.nn.relu(x) >> x).budget('many')", "a budget is at least one match, not 'many'"),
        ("tensors('')", "holes are named in one string, such as 'x y', not ''"),
        ("tensors(['x', 'y'])", "holes are named in one string, such as 'x y', not ['x', 'y']"),
        ("constants(3)", "holes are named in one string"),
        ("tensors('x y x')", "'x y x' names a hole twice"),
        ("tensor('x y')", "the name of a hole is a word, such as 'x', not 'x y'"),
        ("tensor('')", "the name of a hole is a word"),
        ("constant(3)", "the name of a hole is a word, such as 'x', not 3"),
        ("attribute(None)", "the name of a hole is a word, such as 'x', not None"),
        ("each(x @ y, sharing=x) >> x", "the right side of each(...) is parts(whole, axis=...), not x"),
    ],
)
def test_the_error_says_what_to_write_instead(text: str, said: str) -> None:
    with pytest.raises(RuleError) as caught:
        eval(text, KNOWN)
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["x.size", "x > 3", "a & b", "is_float(x) and is_float(x)", "op.nn.relu + x", "x * 10**400"])
def test_in_a_rule_file_the_line_is_named_and_no_class_of_python(tmp_path: Path, text: str) -> None:
    file = tmp_path / "rules.py"
    file.write_text(
        f"from passat.rules import *\nfrom passat.rules.guards import *\nx, a, b = tensor('x'), attribute('a'), attribute('b')\n\n{text}\n"
    )
    with pytest.raises(RuleFileError) as caught:
        load_rules(file)
    assert str(caught.value).startswith(f"{file}, line 5: ")
    assert "Error" not in str(caught.value)


def test_terms_and_rules_have_an_identity() -> None:
    x, y = tensors("x y")
    rules = [op.nn.relu(x) >> x, op.nn.relu(x) >> x]
    assert {x: 1, y: 2, rules[0]: 3}[x] == 1
    assert x in [x, y]
    assert x not in (None, ..., [], {})
    assert [rules.index(rule) for rule in rules] == [0, 1]


@pytest.mark.parametrize("hold", [lambda rule: (rule, tensor("x")), lambda rule: [rule], lambda rule: {"relu": rule}])
def test_a_rule_that_a_set_would_lose_is_an_error(hold: Callable[[AnyValue], AnyValue]) -> None:
    x = tensor("x")
    first, lost = op.nn.relu(op.nn.relu(x)) >> op.nn.relu(x), op.abs(op.abs(x)) >> op.abs(x)
    with pytest.raises(
        RuleError, match=r"Mine\.rest is a \w+ that contains the rule \[abs\(abs\(x\)\) -> abs\(x\)\], which the set would lack"
    ):
        RuleSetMeta("Mine", (RuleSet,), {"first": first, "rest": hold(lost)})
    assert len(RuleSetMeta("Mine", (RuleSet,), {"first": first, "lost": lost, "rest": hold(lost), "sides": (op.nn.relu(x), x)})) == 2


def test_terms_are_shown_and_looked_at_as_before() -> None:
    x, a = tensor("x"), attribute("a")
    assert f"{x} {a} {op.nn.relu} {op} {x + 1}" == "x a op.nn.relu op (x + 1)"
    assert not hasattr(x, "size")
    assert repr([x**2, 2**x, abs(x), 2 @ x]) == "[power(x, 2), power(2, x), abs(x), (2 @ x)]"


def run(rules: RuleSetMeta, function: Function) -> tuple[Function, Statistics]:
    outcome = saturate(function, rules, rules__cost="nodes")
    return outcome.function, outcome.statistics


def leaky(*alphas: float) -> Function:
    """Nested LeakyRelus."""
    x = Var("x", TensorType((2, 3), "float32"))
    value: Expr = x
    for alpha in alphas:
        value = Call(get_op("nn.leaky_relu"), [value], {"alpha": alpha})
    return Function([x], value)


def joined_alphas(combine: Callable[[AnyValue, AnyValue], AnyValue]) -> RuleSetMeta:
    x, a, b = tensor("x"), attribute("a"), attribute("b")
    left = op.nn.leaky_relu(op.nn.leaky_relu(x, alpha=a), alpha=b)
    return RuleSetMeta("Joined", (RuleSet,), {"both": left >> op.nn.leaky_relu(x, alpha=combine(a, b))})


@pytest.mark.parametrize(
    ("combine", "expected"),
    [
        (operator.add, 0.75),
        (operator.sub, -0.25),
        (operator.mul, 0.125),
        (operator.truediv, 0.5),
        (operator.floordiv, 0.0),
        (operator.mod, 0.25),
        (operator.pow, 0.5),
        (lambda a, b: 2 * a + 1 - b / 2, 1.25),
        (lambda a, b: 1 // b % 8 ** (2 - a), 2.0),
        (lambda a, b: abs(-a), 0.25),
    ],
)
def test_attributes_are_computed_by_arithmetic(combine: Callable[[AnyValue, AnyValue], AnyValue], expected: float) -> None:
    found, _ = run(joined_alphas(combine), leaky(0.25, 0.5))
    assert isinstance(found.body, Call)
    assert found.body.attrs.alpha == expected


@pytest.mark.parametrize(
    ("combine", "reason"),
    [
        (lambda a, b: a / (b - b), "division by zero"),
        (lambda a, b: (a - 1) ** b, "is not an attribute value"),
        (lambda a, b: 10.0**308 * a**-999, "the result is too large"),
        (lambda a, b: a[0] + b, "0.25 has no element 0"),
        (lambda a, b: 10**65 + a - a, None),
    ],
)
def test_arithmetic_without_a_result_rejects_the_match(combine: Callable[[AnyValue, AnyValue], AnyValue], reason: str | None) -> None:
    function = leaky(0.25, 0.5)
    found, statistics = run(joined_alphas(combine), function)
    if reason is not None:
        assert found is function
        assert reason in str(statistics.remarks)


def test_an_element_of_an_attribute() -> None:
    x, p, q = tensor("x"), attribute("p"), attribute("q")
    rules = RuleSetMeta("Axes", (RuleSet,), {"one": op.sum(x, axis=p, attrs=q) >> op.sum(x, axis=(p[0],), keepdims=q["keepdims"])})
    data = Var("x", TensorType((2, 1), "float32"))
    found, _ = run(rules, Function([data], Call(get_op("sum"), [data], {"axis": (1, 0), "keepdims": True})))
    assert found is not None


def guarded(answer: AnyValue) -> Callable[[], RuleSetMeta]:
    """A rule set whose guard returns or raises this for the alpha of `leaky(0.25)`, and rejects all others."""

    @guard
    def fails(alpha: float) -> AnyValue:
        """Fails."""
        if alpha != 0.25:
            return "another alpha"
        if isinstance(answer, Exception):
            raise answer
        return answer

    x, a = tensor("x"), attribute("a")
    rule = (op.nn.leaky_relu(x, alpha=a) >> x).when(fails(a))
    return lambda: RuleSetMeta("Guarded", (RuleSet,), {"one": rule})


@pytest.mark.parametrize(
    "answer", [7, 1, 0, None, 0.5, [], ["why"], b"why", KeyError("k"), ZeroDivisionError("z"), ValueError("v"), TypeError("t")]
)
def test_an_invalid_answer_of_a_guard_is_an_error_that_names_the_rule(answer: AnyValue) -> None:
    rules = guarded(answer)()
    with pytest.raises(RuleError) as caught:
        run(rules, leaky(0.25))
    said = (
        f"raises {type(answer).__name__}: " if isinstance(answer, Exception) else f"returned {answer!r}; it must return True, or the reason"
    )
    assert str(caught.value).startswith("the rule Guarded.one (test_misuse_of_terms.py:")
    assert said in str(caught.value)


@pytest.mark.parametrize("answer", [True, np.True_, False, np.False_, "", "why"])
def test_a_guard_answers_with_a_bool_or_a_text(answer: AnyValue) -> None:
    function = leaky(0.25)
    found, _ = run(guarded(answer)(), function)
    assert (found is not function) == (not isinstance(answer, str) and bool(answer))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: (op.nn.relu(tensor("x")) >> op.abs(tensor("x"))).when(is_all(tensor("x"))),
            "is_all(x): missing a required argument: 'value'",
        ),
        (
            lambda: (op.nn.relu(tensor("x")) >> op.abs(tensor("x"))).when(is_float(tensor("x"), 3)),
            "is_float(x, 3): too many positional arguments",
        ),
        (
            lambda: op.nn.relu(tensor("x")) >> op.cast(tensor("x"), dtype=guards.dtype_of()),
            "dtype_of(): missing a required argument: 'x'",
        ),
    ],
)
def test_a_function_that_is_given_too_much_or_too_little_is_named_when_the_set_is_made(make: Callable[[], AnyValue], said: str) -> None:
    with pytest.raises(RuleError) as caught:
        RuleSetMeta("Mine", (RuleSet,), {"one": make()})
    assert said in str(caught.value)


def leaky_if(wanted: Guard) -> RuleSetMeta:
    """A set with a rule about all attributes of nn.leaky_relu."""
    x, p = tensor("x"), attribute("p")
    return RuleSetMeta("Mine", (RuleSet,), {"one": (op.nn.leaky_relu(op.nn.relu(x), attrs=p) >> op.nn.relu(x)).when(wanted)})


def test_an_attribute_that_no_operator_has_is_named_when_the_set_is_made() -> None:
    p = attribute("p")
    assert len(leaky_if(p["alpha"] > 0)) == 1
    with pytest.raises(RuleError, match=r"nn\.leaky_relu has no attribute 'slope'; it has: alpha"):
        leaky_if(p["slope"] > 0)
    with pytest.raises(RuleError, match=r"nn\.leaky_relu has no attribute 'slope'"):
        leaky_if(2 * p["slope"] > 0)


def test_an_attribute_that_some_of_the_operators_have_may_be_named() -> None:
    x, p = tensor("x"), attribute("p")
    f = holes.operator("f", "sum", "nn.softmax")
    rule = f(op.nn.relu(x), attrs=p) >> op.nn.relu(f(x, attrs=p))
    RuleSetMeta("Mine", (RuleSet,), {"one": rule.when(p["keepdims"] == True)})  # noqa: E712  # a guard
    with pytest.raises(RuleError, match="has no attribute 'keepdim'; it has: axis, "):
        RuleSetMeta("Mine", (RuleSet,), {"one": rule.when(p["keepdim"] == True)})  # noqa: E712  # a guard


def test_a_computed_value_that_raises_names_the_rule() -> None:
    @computed
    def half(alpha: float) -> float:
        """Fails."""
        if alpha == 0.25:
            raise ZeroDivisionError(alpha)
        return alpha / 2

    rules = joined_alphas(lambda a, b: half(a))
    with pytest.raises(RuleError, match=r"the rule Joined\.both \(.*\): half\(a\) raises ZeroDivisionError: 0\.25"):
        run(rules, leaky(0.25, 0.5))


@pytest.mark.parametrize("given", ["x", None, b"x", 1j, True, [1.0], {}, object(), 10**400])
def test_an_attribute_has_the_declared_type(given: AnyValue) -> None:
    x, a = tensor("x"), attribute("a")
    with pytest.raises(RuleError, match=r"nn\.leaky_relu\(alpha=.*\): "):
        op.nn.leaky_relu(x, alpha=given)
    rules = joined_alphas(lambda a, b: computed(lambda alpha: given)(a))
    function = leaky(0.25, 0.5)
    assert run(rules, function)[0] is function
    assert op.nn.leaky_relu(x, alpha=a).attrs["alpha"] is a


def test_numpys_numbers_are_attributes() -> None:
    x = tensor("x")
    assert op.nn.leaky_relu(x, alpha=np.float32(0.1)).key == op.nn.leaky_relu(x, alpha=0.1).key
    assert op.transpose(x, axes=np.array([1, 0])).key == op.transpose(x, axes=[1, 0]).key == op.transpose(x, axes=(1, 0)).key
    assert op.nn.leaky_relu(x, alpha=2).key == op.nn.leaky_relu(x, alpha=2.0).key


@pytest.mark.parametrize(("returned", "said"), [(None, "NoneType"), (1.0, "float"), (np.zeros(3), "ndarray"), ((1,), "tuple")])
def test_a_computed_constant_is_a_tensor(returned: AnyValue, said: str) -> None:
    @computed
    def made(x: Term) -> AnyValue:
        """Returns something else."""
        return returned

    x = tensor("x")
    rules = RuleSetMeta("Made", (RuleSet,), {"one": op.nn.leaky_relu(x, ...) >> value(made(x))})
    with pytest.raises(RuleError, match=rf"the rule Made\.one \(.*\): made\(x\) returned {said}; it must return a Tensor"):
        run(rules, leaky(0.25))


def test_a_number_that_no_type_can_represent_rejects_the_match() -> None:
    x, a = tensor("x"), attribute("a")
    huge = computed(lambda alpha: 10**400)
    rules = RuleSetMeta("Huge", (RuleSet,), {"one": (op.nn.leaky_relu(x, alpha=a) >> x * number(huge(a))).lowering()})
    function = leaky(0.25)
    assert run(rules, function)[0] is function


@pytest.mark.parametrize(("axes", "fired"), [(None, True), ((1, 0), False)])
def test_an_attribute_may_be_none(axes: AnyValue, fired: bool) -> None:
    x, p = tensor("x"), attribute("p")
    rule = op.nn.relu(op.transpose(x, axes=p)) >> op.transpose(x, axes=p)
    rules = RuleSetMeta("Turned", (RuleSet,), {"one": rule.when(p == None)})  # noqa: E711  # a guard
    function = func(ops.nn.relu(ops.transpose(var("x"), axes=axes)))
    assert (run(rules, function)[0] is not function) is fired


def test_an_eager_rule_that_applies_to_its_own_results_is_an_error() -> None:
    x = tensor("x")
    rules = RuleSetMeta("Endless", (RuleSet,), {"one": (op.nn.relu(x) >> op.nn.relu(op.nn.relu(x))).eager()})
    with pytest.raises(RuleError, match=r"the rule Endless\.one \(.*\): eager rules apply to what they make, and this one to its own"):
        run(rules, func(ops.nn.relu(var("x"))))


def test_guards_and_computed_values_take_arguments_by_position() -> None:
    x = tensor("x")
    with pytest.raises(RuleError, match=r"has_rank\(rank=3\): the arguments of guards and @computed functions are given by position"):
        guards.has_rank(x, rank=3)
    with pytest.raises(RuleError, match=r"shape_of\(x=x\): "):
        guards.shape_of(x=x)


def test_an_attribute_of_one_operator_has_the_type_that_another_declares() -> None:
    x, a = tensor("x"), attribute("a")
    rules = RuleSetMeta("Other", (RuleSet,), {"one": (op.nn.leaky_relu(x, alpha=a) >> op.nn.softmax(x, axis=a)).lowering()})
    function = leaky(0.25)
    assert run(rules, function)[0] is function

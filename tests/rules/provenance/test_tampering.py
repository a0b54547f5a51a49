"""A certificate that was changed is rejected, with the step that fails; no claim in it is trusted."""

import contextlib
import copy
import json
from collections.abc import Callable
from typing import Any as AnyValue

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.expr import Expr
from passat.rules import RuleSet, op, rule_pass, tensors
from passat.rules.passes.simplify import fold_constant, simplify_expr
from passat.rules.provenance.plain import CertificateError, plain_tensor
from passat.rules.provenance.terms import FORMAT, VERSION, Terms
from passat.rules.provenance.verdict import Verdict
from tests.rules.building import const, func, numbers, ops, tup, var
from tests.rules.provenance.proving import Written, check, written
from tests.share import share

x, y = tensors("x y")
a, b = var("a"), var("b")


class Words(RuleSet):
    """Renames operators by equal ones."""

    quotient = op.exp(x) / op.exp(y) >> op.exp(x - y)
    other = op.sqrt(x) / op.sqrt(y) >> op.sqrt(x - y)
    total = x - op.negative(y) >> x + y


def whole() -> Written:
    """exp(a) / exp(-b), summed, beside a constant that is computed: two passes."""
    product = ops.divide(ops.exp(a), ops.exp(ops.negative(b)))
    body = tup(ops.sum(product, axis=(0,)), ops.multiply(ops.exp(numbers((2, 2))), var("m", (2, 2))))
    return written(func(body), [fold_constant(), rule_pass(Words, name="Words")])


GOOD = whole()
FOLDING, RULES = (GOOD.part(name) for name in ("FoldConstant", "Words"))


def tampered(change: Callable[[AnyValue], None]) -> str:
    """The message about a certificate after a change; before the change it was valid."""
    assert GOOD.check(Words).functions == ["main"]
    bad = copy.deepcopy(GOOD.certificate)
    change(bad)
    with pytest.raises(CertificateError) as rejected:
        check(json.loads(json.dumps(bad)), GOOD.constants, [Words])
    return str(rejected.value)


def words(data: AnyValue) -> AnyValue:
    return next(part for part in data["steps"] if part["pass"] == "Words")["steps"]


def folds(data: AnyValue) -> AnyValue:
    return next(part for part in data["steps"] if part["pass"] == "FoldConstant")["steps"]


def find(kind: str, name: str | None = None) -> int:
    return next(i for i, row in enumerate(GOOD.certificate["terms"]) if row[0] == kind and name in (None, row[1]))


def test_the_certificate_contains_the_tampered_parts() -> None:
    assert [step["rule"] for step in RULES["steps"]] == ["Words.quotient", "Words.total"]
    assert [step["rule"] for step in FOLDING["steps"]] == ["ConstantFolding.call"]


def test_the_name_of_a_rule() -> None:
    def change(data: AnyValue) -> None:
        words(data)[0]["rule"] = "Words.other"

    assert tampered(change) == "Words, part 2, step 1 (Words.other): the certificate does not name the rule"

    def both(data: AnyValue) -> None:
        change(data)
        data["rules"]["Words.other"] = "(sqrt(x) / sqrt(y)) -> sqrt((x - y)) [exact]"

    assert tampered(both) == "Words, part 2, step 1 (Words.other): the left side does not match: this is not sqrt(x)"


def test_text_of_a_rule() -> None:
    def change(data: AnyValue) -> None:
        data["rules"]["Words.quotient"] = "(exp(x) / exp(y)) -> exp((x + y)) [exact]"

    assert tampered(change).startswith("the rule Words.quotient differs")


def test_the_instance() -> None:
    def swapped(data: AnyValue) -> None:
        words(data)[0]["left"] = [find("call", "sum")]

    assert tampered(swapped) == "Words, part 2, step 1 (Words.quotient): the left side does not match: this is not (exp(x) / exp(y))"

    def none(data: AnyValue) -> None:
        words(data)[0]["left"] = []

    assert tampered(none) == "Words, part 2, step 1 (Words.quotient): the rule has one root, the step has 0"

    def elsewhere(data: AnyValue) -> None:
        words(data)[0]["left"] = [find("var", "a")]

    assert tampered(elsewhere) == "Words, part 2, step 1 (Words.quotient): the left side does not match: this is not (exp(x) / exp(y))"


def test_the_operands_and_constants_of_an_instance() -> None:
    class Neutral(RuleSet):
        """Calls that give one of their operands."""

        same = op.maximum(x, x) >> x
        unit = x * 1.0 >> x

    good = written(func(tup(ops.maximum(a, a), ops.multiply(b, const(1.0)))), [rule_pass(Neutral, name="Neutral")])
    assert good.check(Neutral).functions == ["main"]

    def error(kind: str, change: Callable[[AnyValue], None]) -> str:
        bad = copy.deepcopy(good.certificate)
        change(next(row for row in bad["terms"] if kind in row[:2]))
        with pytest.raises(CertificateError) as rejected:
            check(bad, good.constants, [Neutral])
        return str(rejected.value)

    other = good.certificate["terms"].index(next(row for row in good.certificate["terms"] if row[:2] == ["var", "b"]))
    text = error("maximum", lambda row: row[3].__setitem__(1, other))
    assert text.endswith("(Neutral.same): the left side does not match: x is bound to two different terms")
    two = plain_tensor(const(2.0).data)
    text = error("const", lambda row: row.__setitem__(1, two))
    assert text.endswith("(Neutral.unit): the left side does not match: the constant is 2.0, not 1.0")


def test_swapped_operands_are_another_instance() -> None:
    def change(data: AnyValue) -> None:
        data["terms"][words(data)[0]["left"][0]][3].reverse()

    assert tampered(change) == "Words, part 2, step 1 (Words.quotient): the right side differs from the step"


def test_an_attribute_in_an_instance() -> None:
    def change(data: AnyValue) -> None:
        data["terms"][find("call", "exp")][2]["axis"] = 1

    assert "it cannot be replayed" in tampered(change) or "exp" in tampered(change)


def test_a_step_that_is_left_out() -> None:
    def first(data: AnyValue) -> None:
        del words(data)[0]

    assert tampered(first) == "Words, part 2, the end: the extracted program does not follow from the input"

    def last(data: AnyValue) -> None:
        del words(data)[-1]

    assert tampered(last) == "Words, part 2, the end: the extracted program does not follow from the input"

    def fold(data: AnyValue) -> None:
        folds(data).clear()

    assert tampered(fold) == "FoldConstant, part 1, the end: the extracted program does not follow from the input"


def test_the_right_side() -> None:
    def right(data: AnyValue) -> None:
        words(data)[0]["right"] = [find("var", "a")]

    assert tampered(right) == "Words, part 2, step 1 (Words.quotient): the right side differs from the step"

    def none(data: AnyValue) -> None:
        words(data)[0]["right"] = []

    assert "Words, part 2, step 1 (Words.quotient): it cannot be replayed" in tampered(none)


def test_an_attribute_of_the_program() -> None:
    def change(data: AnyValue) -> None:
        data["terms"][find("call", "sum")][2]["axis"] = [1]

    # The sum occurs in both programs, so the certificate proves another statement. The comparison with the model detects that.
    bad = copy.deepcopy(GOOD.certificate)
    change(bad)
    rows = [row for row in bad["terms"] if row[:2] == ["call", "sum"]]
    assert len(rows) == 2, "the sum before and the sum after"
    assert tampered(change).startswith("Words, part 2, the end")


def test_the_value_of_a_folded_constant() -> None:
    where = "FoldConstant, part 1, step 1 (ConstantFolding.call): "

    def change(data: AnyValue) -> None:
        (step,) = folds(data)
        data["terms"][step["right"][0]][1]["bytes"] = "AAAAAAAAAAAAAAAAAAAAAA=="

    assert tampered(change) == f"{where}the right side differs from the step"

    def other(data: AnyValue) -> None:
        folds(data)[0]["right"] = [find("var", "a")]

    assert tampered(other) == f"{where}the right side differs from the step"

    def variable(data: AnyValue) -> None:
        folds(data)[0]["left"] = [find("call", "sum")]

    assert tampered(variable) == f"{where}the left side does not match: cs1 is not a constant"


def test_a_constant_of_the_program() -> None:
    """The folded value is computed from a constant other than the one in the certificate."""

    def change(data: AnyValue) -> None:
        row = data["terms"][data["terms"][folds(data)[0]["left"][0]][3][0]]
        row[1]["bytes"] = "AAAAAAAAAAAAAAAAAAAAAA=="

    assert tampered(change) == "FoldConstant, part 1, step 1 (ConstantFolding.call): the right side differs from the step"


def test_the_choice() -> None:
    def part(data: AnyValue) -> None:
        data["steps"][-1]["after"] = find("var", "a")

    assert tampered(part) == "Words, part 2, the end: the extracted program does not follow from the input"

    def end(data: AnyValue) -> None:
        data["functions"]["main"][1] = find("var", "a")

    assert tampered(end) == "the end: the last program of the function main does not follow from the first one"


def test_a_part_that_is_left_out() -> None:
    def change(data: AnyValue) -> None:
        del data["steps"][0]

    assert tampered(change) == "the end: the last program of the function main does not follow from the first one"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data.update({"passat certificate": 1}), "the certificate has version 1; this version of Passat reads 2"),
        (lambda data: data.pop("passat certificate"), "this is not a Passat certificate"),
        (lambda data: data.pop("terms"), "the certificate: 'terms' is missing"),
        (lambda data: words(data)[0].update(rule=5), "Words, part 2, steps, 1, rule must be a string, but it is 5"),
        (lambda data: words(data)[0].update(left={}), "Words, part 2, steps, 1, left must be a list, but it is {}"),
        (lambda data: words(data)[0].pop("rule"), "Words, part 2, steps, 1: 'rule' is missing"),
        (lambda data: data["steps"][0].update({"pass": 7}), "7, part 1, pass must be a string, but it is 7"),
        (lambda data: data["steps"][0].update({"opset": "x"}), "FoldConstant, part 1, opset must be an integer, but it is 'x'"),
        (lambda data: data["terms"][find("var", "a")].__setitem__(1, 3), "[1] must be a string, but it is 3"),
        (lambda data: data["terms"].__setitem__(0, ["call", "exp", {}, [0]]), "terms[0][3], 1: 0 is not the number of a term before"),
        (lambda data: data["terms"].__setitem__(0, ["exec", "rm"]), "terms[0]: ['exec', 'rm'] is not a term"),
        (lambda data: data["terms"].__setitem__(0, ["tuple", [], 5]), "terms[0]: ['tuple', [], 5] is not a term"),
        (lambda data: data["terms"].__setitem__(0, ["if", []]), "terms[0]: ['if', []] has the wrong number of parts"),
        (lambda data: data["terms"][find("call", "exp")].__setitem__(1, "exq"), "there is no operator 'exq'"),
        (lambda data: data["functions"].update(main=[0]), "functions, main: needs the numbers of two terms, not [0]"),
        (
            lambda data: folds(data)[0].update(right=["0"]),
            "FoldConstant, part 1, steps, 1, right, 1: '0' is not the number of a term before",
        ),
        (
            lambda data: folds(data)[0].update(left=[True]),
            "FoldConstant, part 1, steps, 1, left, 1: True is not the number of a term before",
        ),
    ],
)
def test_another_form(change: Callable[[AnyValue], None], said: str) -> None:
    assert said in tampered(change)


@settings(max_examples=share(25, 150))
@given(st.data())
def test_no_single_change_proves_something_else(data: st.DataObject) -> None:
    """After any single change, the certificate is rejected with a sentence, or still proves the programs that it states."""
    bad = copy.deepcopy(GOOD.certificate)
    place: AnyValue = bad
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], (dict, list)) or data.draw(st.integers(0, 5)) == 0:
            break
        place = place[key]
    place[key] = data.draw(
        st.one_of(st.integers(-1, 40), st.text(max_size=5), st.none(), st.just([]), st.just({}), st.booleans(), st.just({"float": "nan"}))
    )
    with contextlib.suppress(CertificateError):
        verdict = check(bad, GOOD.constants, [Words])
        assert verdict.functions == ["main"] or verdict.uncovered or not bad["functions"]


def test_steps_that_are_not_needed_may_go() -> None:
    """Terms that were not extracted need no proof."""
    found = written(func(ops.add(ops.add(a, const(0.0)), ops.multiply(b, const(1.0)))), [simplify_expr()])
    assert found.check().unions == 2


def test_shape_arithmetic_proves_equal_sizes() -> None:
    """No step is needed: the same name in two shapes is the same size, and another name is another size."""
    m, k = var("m", ("n", "l")), var("k", ("l", "n"))

    def claimed(one: Expr, other: Expr) -> Verdict:
        terms = Terms()
        ends = [terms.encode(func(body, m, k)) for body in (one, other)]
        return check({FORMAT: VERSION, "rules": {}, "terms": terms.rows, "functions": {"main": ends}, "steps": []}, {})

    def size(tensor: Expr, axis: int) -> Expr:
        taken: Expr = ops.take(ops.shape_of(tensor), const(axis, "int64"), axis=0)
        return taken

    assert claimed(size(m, 0), size(k, 1)).functions == ["main"]
    for other in (size(k, 0), size(m, 1), ops.cast(size(k, 1), dtype="int32"), ops.shape_of(m)):
        with pytest.raises(CertificateError, match="the last program of the function main does not follow"):
            claimed(size(m, 0), other)

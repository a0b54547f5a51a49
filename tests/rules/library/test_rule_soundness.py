"""Every rule of the library is checked as by `passat rules check`: both sides have the same value and type on random instances.

CI checks a fixed share of the instances; `make nightly` checks as many as the command.
"""

import contextlib
import functools
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from passat.catalog import library_subjects, rule_rows
from passat.cli.rules import rule_sets
from passat.ir.types import IncompleteType
from passat.rules import RuleSet, library
from passat.rules.checking.case import Case
from passat.rules.checking.check_sets import INSTANCES, check_rule
from passat.rules.checking.relations import circles, covered, enlarges, reducing_matchers, starts
from passat.rules.checking.report import rule_lines
from passat.rules.checking.trial import WRONG, Verdict
from passat.rules.checking.trying import triers
from passat.rules.engine.matching import Matcher
from passat.rules.engine.symbols import Symbol
from passat.rules.pattern import RuleError, op, tensor
from passat.rules.rule import EAGER, Rule
from passat.rules.rule_set import RuleSetMeta
from passat.rules.typecheck import check_types
from tests.share import share

RULES: list[Rule] = [rule for rules in library.rule_sets().values() for rule in rules]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_both_sides_have_one_value(rule: Rule) -> None:
    wanted = share(1 if rule.holes() else 2, INSTANCES)  # each form of a rule with holes has instances of its own
    checked = check_rule(rule, instances=wanted)
    report = checked.report
    assert report.verdict == "sound", "\n".join(rule_lines(report))
    assert report.compared >= wanted
    if rule.holes().cases:
        assert {trier.rule.name for trier, _ in checked.agreeing} == {trier.rule.name for trier in triers(rule)}
    assert not enlarges(checked)
    assert circles([(rule, starts(checked))], matchers()) == []
    for trier, trial in checked.agreeing[:2]:
        for case in without_types(trial.case):
            untyped = trier.try_case(case)
            assert untyped.verdict not in (Verdict.RAISES, *WRONG), f"of inputs whose types are not known: {untyped.reason}"


@functools.cache
def matchers() -> Mapping[Symbol, Sequence[Matcher]]:
    return reducing_matchers(RULES)


def without_types(case: Case) -> Iterator[Case]:
    """The case without the type of one input, for each in turn, and without any types."""
    names = [name for name in case.types if name in case.inputs]
    for unknown in [*([name] for name in names), names][: 1 if len(names) < 2 else None]:
        types = {name: IncompleteType() if name in unknown else type_ for name, type_ in case.types.items()}
        yield case._replace(types=types, unknown={}, computed={})


def test_both_sides_of_every_rule_have_one_type() -> None:
    """Rules of users are checked for this when they are made."""
    for rule in RULES:
        check_types(rule)


def test_the_holes_and_sides_of_every_rule_are_valid() -> None:
    """Rules of users are checked for this when they are made."""
    for rule in RULES:
        rule.check()
        for direction in rule.directions() if rule.kind != EAGER else ():
            direction.check()


def test_holes_in_rules_of_the_library_alone_are_not_checked_when_they_are_made() -> None:
    for module, rejected in (("mine", True), ("passat.rules.library.none", False), ("passat.rules.passes", True)):
        written: dict[str, Any] = {"__name__": module, "op": op, "x": tensor("x"), "y": tensor("y")}
        with pytest.raises(RuleError, match="the right side uses 'y'") if rejected else contextlib.nullcontext():
            exec("rule = op.exp(x) >> y", written)
        if not rejected:
            with pytest.raises(RuleError, match="the right side uses 'y'"):
                written["rule"].check()


def test_types_in_rules_of_the_library_alone_are_not_checked_when_they_are_made() -> None:
    rule = op.cast(tensor("x"), dtype="int32") >> tensor("x")
    for module, rejected in (("mine", True), ("passat.rules.library.none", False), ("passat.rules.passes", True)):
        with pytest.raises(RuleError, match="different types") if rejected else contextlib.nullcontext():
            RuleSetMeta("Wrong", (RuleSet,), {"__module__": module, "wrong": rule})


def test_no_rules_of_the_library_are_superfluous() -> None:
    assert list(covered(RULES)) == []


def all_sets(base: RuleSetMeta = RuleSet) -> Iterator[RuleSetMeta]:
    """All rule sets, bound to a name or not."""
    for rules in cast("list[RuleSetMeta]", base.__subclasses__()):
        yield rules
        yield from all_sets(rules)


def test_every_rule_set_that_a_file_of_the_library_makes_is_found() -> None:
    found = set(library.rule_sets().values())
    made = {rules for rules in all_sets() if rules.__module__.startswith(f"{library.__name__}.") and rules.__module__ in sys.modules}
    names = {(rules.__module__, rules.__name__) for rules in found}  # a set of another kind has the name of its source
    assert {rules.__name__ for rules in made if rules.rules and (rules.__module__, rules.__name__) not in names} == set()
    assert all(len(rules) for rules in found)
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_a_set_in_a_new_file_is_found_by_all_who_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "brand_new.py").write_text(
        "from passat.rules import RuleSet, op, tensor\n\nx = tensor('x')\n\n\n"
        "class BrandNew(RuleSet):\n    twice = op.negative(op.negative(op.sin(x))) >> op.sin(x)\n"
    )
    caches = (library.rule_files, library.rule_sets)
    try:
        monkeypatch.setattr(library, "__path__", [*library.__path__, str(tmp_path)])
        for cache in caches:
            cache.cache_clear()
        assert [rule.name for rule in library.BrandNew] == ["BrandNew.twice"]
        assert [rules.__name__ for rules in rule_sets(["BrandNew"])] == ["BrandNew"]
        assert "BrandNew" in {rules.__name__ for rules in rule_sets([])}
        assert "BrandNew.twice" in {row["name"] for row in rule_rows()}
        assert "BrandNew" in {rules.__name__ for subject in library_subjects() for rules in subject.sets}
    finally:
        monkeypatch.undo()
        for cache in caches:
            cache.cache_clear()
        sys.modules.pop(f"{library.__name__}.brand_new", None)

"""Every rule has a program on which it fires and one on which it does not, in the tables of all test files of this folder."""

import importlib
from pathlib import Path
from types import ModuleType

from passat.catalog import library_subjects
from passat.rules.planned_rules import registered_rule_passes
from passat.rules.rule import Rule, equation_of
from passat.rules.rule_set import RuleSetMeta
from tests.rules.library.cases import Case

Table = list[tuple[RuleSetMeta, Rule, Case]]
FILES = sorted(path.stem for path in Path(__file__).parent.glob("test_*.py") if path.stem != Path(__file__).stem)


def module(name: str) -> ModuleType:
    """A test file. Raises AssertionError if its table lacks a case, or has one too many."""
    return importlib.import_module(f"tests.rules.library.{name}")


def tables_of(tests: ModuleType) -> list[Table]:
    """The results of `pairs` in a file, under any name."""
    lists = [value for value in vars(tests).values() if isinstance(value, list) and value and isinstance(value[0], tuple)]
    return [value for value in lists if isinstance(value[0][-1], Case) and isinstance(value[0][0], RuleSetMeta)]


def all_cases() -> tuple[dict[str, list[Case]], list[str]]:
    """The cases of each rule, and the errors of tables that cannot be built."""
    found: dict[str, list[Case]] = {}
    wrong: list[str] = []
    for name in FILES:
        try:
            tables = tables_of(module(name))
        except AssertionError as error:
            wrong.append(f"{name}.py: {error}")
            continue
        for rule, example in {id(row[-1]): row[1:] for table in tables for row in table}.values():
            found.setdefault(equation_of(rule.name), []).append(example)
    return found, wrong


def all_rules() -> dict[str, list[Rule]]:
    """The rules of the library, and of the passes, by file."""
    rules = {subject.path: [rule for each in subject.sets for rule in each] for subject in library_subjects()}
    known = {rule.name for group in rules.values() for rule in group}
    for name, pass_ in registered_rule_passes():
        own = [each for each in pass_.sets if each.__module__.startswith("passat.")]  # other tests register sets
        rules[f"the pass {name}"] = [rule for each in own for rule in each if rule.name not in known]
    return rules


def test_every_rule_has_a_positive_and_a_negative_case() -> None:
    found, wrong = all_cases()
    missing = []
    for where, rules in all_rules().items():
        without = [rule.name for rule in rules if rule.name not in found]
        if without:
            missing.append(f"{where}: {len(without)} rules without cases: {', '.join(without[:20])}{' ...' if len(without) > 20 else ''}")
    assert not missing, "\n".join([*missing, *wrong, "add them to a table of tests/rules/library (see cases.py)"])

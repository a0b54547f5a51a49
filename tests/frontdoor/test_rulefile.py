"""Reading a user's rule file, and the message for each way in which it may be wrong."""

import os
import sys
from pathlib import Path

import pytest

from passat.rulefile import RuleFileError, load_rules

GOOD = '''
"""My rules."""
from passat.rules.pattern import op, tensors
from passat.rules.rule_set import RuleSet

(x,) = tensors("x")

class Negations(RuleSet):
    """Negations that meet."""
    twice = op.negative(op.negative(x)) >> x

class Empty(RuleSet):
    """Nothing."""

class More(Negations):
    """These and another."""
    relu = op.nn.relu(op.nn.relu(x)) >> op.nn.relu(x)
'''


def write(folder: Path, text: str, name: str = "rules.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def error_of(path: Path) -> str:
    with pytest.raises(RuleFileError) as caught:
        load_rules(path)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_sets_come_in_order_and_without_empty_bases(tmp_path: Path) -> None:
    sets = load_rules(write(tmp_path, GOOD))
    assert [rules.__name__ for rules in sets] == ["Negations", "More"]
    assert [rule.name for rule in sets[1].rules] == ["Negations.twice", "More.relu"]


def test_another_form_of_a_set_is_not_a_set_of_its_own(tmp_path: Path) -> None:
    more = "Alternatives = Negations.of_kind('exploring')\nFew = More.only('relu')\n"
    assert [rules.__name__ for rules in load_rules(write(tmp_path, GOOD + more))] == ["Negations", "More"]


def test_sets_in_collections_are_sets_of_the_file(tmp_path: Path) -> None:
    made = "\ndef made(name):\n    return type(name, (Negations,), {})\n\nSETS = {'a': [made('One')], 'b': (made('Two'), made('Three'))}\nSETS['c'] = [SETS]\n"
    assert [rules.__name__ for rules in load_rules(write(tmp_path, GOOD + made))] == ["Negations", "More", "One", "Two", "Three"]
    twice = "SETS = []\nfor each in range(2):\n    class Several(Negations):\n        pass\n    SETS.append(Several)\n"
    assert "has two sets of the name Several" in error_of(write(tmp_path, GOOD + twice))


def test_a_pipe_is_read_once() -> None:
    reader, writer = os.pipe()
    with open(writer, "w") as file:
        file.write(GOOD)
    try:
        sets = load_rules(f"/dev/fd/{reader}")
    finally:
        os.close(reader)
    assert [rules.__name__ for rules in sets] == ["Negations", "More"]
    assert not hasattr(sys.modules[sets[0].__module__], "__file__"), "reading the source would wait for the pipe forever"


def test_a_set_that_was_only_imported_is_not_the_files_own(tmp_path: Path) -> None:
    write(tmp_path, GOOD, "base_rules_of_a_test.py")
    second = GOOD.replace("class Negations(RuleSet)", "from base_rules_of_a_test import Negations\nclass Own(RuleSet)").split(
        "class Empty"
    )[0]
    try:
        assert [rules.__name__ for rules in load_rules(write(tmp_path, second))] == ["Own"]
    finally:
        sys.modules.pop("base_rules_of_a_test", None)


def test_two_files_of_one_name_are_two_modules_and_the_path_is_left_alone(tmp_path: Path) -> None:
    before = list(sys.path)
    (tmp_path / "a").mkdir()
    first = load_rules(write(tmp_path, GOOD))
    second = load_rules(write(tmp_path / "a", GOOD))
    assert first[0] is not second[0]
    assert sys.path == before
    assert "rules" not in sys.modules


def test_no_file(tmp_path: Path) -> None:
    assert error_of(tmp_path / "none.py") == f"{tmp_path / 'none.py'} cannot be read: No such file or directory"
    assert "is a folder" in error_of(tmp_path)


def test_a_syntax_error_gives_the_line(tmp_path: Path) -> None:
    path = write(tmp_path, "x = 1\nclass (:\n")
    assert error_of(path) == f"{path}, line 2: invalid syntax"


def test_a_failing_import_gives_the_line(tmp_path: Path) -> None:
    path = write(tmp_path, "\n\nimport no_such_module_anywhere\n")
    assert error_of(path) == f"{path}, line 3: ModuleNotFoundError: No module named 'no_such_module_anywhere'"


def test_an_error_in_an_imported_file_gives_both_lines(tmp_path: Path) -> None:
    (tmp_path / "broken_module.py").write_text("from passat.rules import op, tensor\n\nleft = op.nn.rel(tensor('x'))\n")
    path = write(tmp_path, "\nimport broken_module\n")
    assert error_of(path).startswith(f"{path}, line 2: broken_module.py, line 3: there is no operator 'nn.rel'")


def test_sys_exit_in_a_rule_file_is_an_error(tmp_path: Path) -> None:
    assert "SystemExit: 3" in error_of(write(tmp_path, "raise SystemExit(3)\n"))


def test_text_that_is_not_python(tmp_path: Path) -> None:
    path = tmp_path / "rules.py"
    path.write_bytes(b"\x00\x01\xff")
    assert str(path) in error_of(path)


def test_no_rule_set(tmp_path: Path) -> None:
    assert "defines no rules" in error_of(write(tmp_path, "x = 1\n"))
    assert "defines no rules" in error_of(write(tmp_path, "from passat.rules.rule_set import RuleSet\n"))


def test_a_rule_outside_of_a_set_is_an_error(tmp_path: Path) -> None:
    head = "from passat.rules import RuleSet, op, tensors\nx, y = tensors('x y')\nshared = x - x + y >> y\n"
    held = "class Mine(RuleSet):\n    first = shared\n"
    assert [rule.name for [rule] in load_rules(write(tmp_path, head + held))] == ["Mine.first"]
    rule = "op.negative(op.negative(x)) >> x"
    for outside in (rule, f"[{rule}]", f"{{'some': {rule}}}"):
        text = error_of(write(tmp_path, f"{head}{held}lost = {outside}\n"))
        assert "line 6: lost has the rule [negative(negative(x)) -> x], which no set has, so it would never run" in text
    some = f"from passat.rules.rule_set import RuleSetMeta\nall_of = {{'some': {rule}, 'unused': x - x + y >> y}}\n"
    made = "Made = RuleSetMeta('Made', (RuleSet,), {'__module__': __name__, 'some': all_of['some']})\n"
    assert [rule.name for [rule] in load_rules(write(tmp_path, head + held + some + made))[1:]] == ["Made.some"], "a set may take a part"


HEAD = (
    "from passat.rules.pattern import op, tensors\nfrom passat.rules.rule_set import RuleSet\nx, y = tensors('x y')\nclass Mine(RuleSet):\n"
)


def test_an_unbound_hole_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + "    bad = op.negative(x) >> y\n")
    text = error_of(path)
    assert text.startswith(f"{path}, line 5: ")
    assert "'y', which the left side does not bind" in text


def test_sides_of_different_type_are_rejected(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + "    fine = op.negative(op.negative(x)) >> x\n\n    bad = op.negative(x) >> op.equal(x, x)\n")
    text = error_of(path)
    assert text.startswith(f"{path}, line 7: rule Mine.bad ")
    assert "the sides have different types" in text


def test_a_guard_that_raises_is_named_with_the_line_of_its_rule(tmp_path: Path) -> None:
    guarded = "\n    bad = (op.negative(op.negative(x)) >> x).when(good(x))\n"
    wrong = "from passat.rules.guards import guard\n@guard\ndef good(t):\n    return t.type.shpe == 3\n"
    path = write(tmp_path, wrong + HEAD + guarded)
    assert error_of(path) == (
        f"{path}, line 10: rule Mine.bad [negative(negative(x)) -> x]: good(x) raises AttributeError: 'TensorType' object has no attribute 'shpe'"
    )


@pytest.mark.parametrize("line", ["lost = op.nn.relu(x) >> x == y", "lost = (op.negative(op.negative(x)) >> x, 3)"])
def test_a_rule_that_would_be_lost_is_an_error_with_its_line(tmp_path: Path, line: str) -> None:
    path = write(tmp_path, HEAD + f"    fine = op.negative(op.negative(x)) >> x\n    {line}\n")
    assert str(path) + ", line " in error_of(path)
    assert "rule [" in error_of(path)


def test_an_unknown_operator_is_named_with_the_nearest(tmp_path: Path) -> None:
    text = error_of(write(tmp_path, HEAD + "    bad = op.negativ(x) >> x\n"))
    assert "negativ" in text
    assert "did you mean negative" in text


def test_a_pattern_without_a_right_side_is_rejected(tmp_path: Path) -> None:
    assert "needs a right side" in error_of(write(tmp_path, HEAD + "    bad = op.negative(x)\n"))


@pytest.mark.parametrize(
    ("name", "module"),
    [("cases", "passat.rules"), ("is_not_empty", "passat.rules.guards"), ("never_nan", "passat.rules.range_guards")],
)
def test_a_missing_name_of_the_rule_language_comes_with_its_import(tmp_path: Path, name: str, module: str) -> None:
    assert error_of(write(tmp_path, f"\n{name}(1)\n")).endswith(
        f"line 2: NameError: name '{name}' is not defined; add: from {module} import {name}"
    )


def test_other_missing_names_come_without_an_import(tmp_path: Path) -> None:
    assert error_of(write(tmp_path, "np.pi\n")).endswith("NameError: name 'np' is not defined")

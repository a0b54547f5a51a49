"""Pages about rules: the description of each rule, and `passat rules doc`."""

import json
import os
import re
import sys
from pathlib import Path

import pytest
from generators.rules import every_rule
from typer.testing import CliRunner, Result

from passat.catalog import (
    call_of,
    library_subjects,
    meaning,
    named_functions,
    operators_of,
    rule_rows,
    runners,
    subjects_of,
)
from passat.cli.app import app
from passat.pipelines import build_pipeline
from passat.rule_pages import library_table, page
from passat.rules import library
from passat.rules.guards import compose, is_all, is_float, same_type
from passat.rules.holes import cases
from passat.rules.library import Arithmetic, FastMath, Parallel
from passat.rules.passes import default_pipeline
from passat.rules.pattern import RuleError, attributes, constants, op, tensors
from passat.rules.planned_rules import registered_rule_passes
from passat.rules.rule_set import RuleSet

RULES = '''
"""Rules of a user. They have a guard with a bar."""
from passat.rules import RuleSet, guard, op, tensors

(x,) = tensors("x")

@guard
def is_small(x, most):
    """It has at most `most` | dimensions; 2 * 3 <= 6."""
    return x.type.ndim <= most

class Mine(RuleSet):
    """What I know about my models."""

    relu = (op.nn.relu(x) >> op.maximum(x, 0.0)).when(is_small(x, 3))
'''
x, y, z = tensors("x y z")
c, d = constants("c d")
(p,) = attributes("p")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["rules", "doc", *(str(argument) for argument in arguments)])


@pytest.fixture(scope="module")
def whole() -> str:
    return every_rule()


def test_every_rule_of_the_library_is_on_its_page(whole: str) -> None:
    named = set(re.findall(r"`(\w+\.\w+)`", whole))
    rules = [rule.name for subject in library_subjects() for rules in subject.sets for rule in rules]
    assert [name for name in rules if name not in named] == []
    assert f"There are {len(rules)} rules" in whole


def test_every_set_has_a_heading_that_links_lead_to(whole: str) -> None:
    headings = {heading.lower() for heading in re.findall(r"^### (\w+)$", whole, re.MULTILINE)}
    linked = set(re.findall(r"\]\(#(\w+)\)", whole))
    assert linked <= headings
    assert {name.lower() for name in library.rule_sets()} <= headings
    assert len(headings) == len(re.findall(r"^### ", whole, re.MULTILINE))


def test_the_table_has_a_row_for_each_set() -> None:
    rows = dict(re.findall(r"^\| \[(\w+)\]\(\S+\) \| (\d+) \|", library_table(), re.MULTILINE))
    sets = {rules.__name__: str(len(rules)) for subject in library_subjects() for rules in subject.sets}
    assert rows == sets
    assert "| [FastMath](reference/every-rule.md#fastmath) | 3 | lowering |" in library_table()
    assert len(library_table().splitlines()) < 120


def test_rules_of_one_set_are_listed(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(RULES)
    result = CliRunner().invoke(app, ["rules", "list", "FastMath", str(tmp_path / "mine.py"), "--json"])
    rows = {row["name"]: row["passes"] for row in json.loads(result.stdout)}
    assert rows == {
        "FastMath.reciprocal": ["BackwardFoldScaleAxis", "DivToMul", "FoldScaleAxis", "ForwardFoldScaleAxis"],
        **{"FastMath.exp": ["FastMath"], "FastMath.approximated": ["FastMath"]},
        "Mine.relu": [],
    }


def test_the_page_says_what_omitted_attributes_mean_and_lists_the_operators_that_holes_stand_for(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from passat.rules import RuleSet, op, operator, tensor\n\n"
        'f, x = operator("f", elementwise=True, arity=1), tensor("x")\n\n\n'
        "class Mine(RuleSet):\n    once = f(f(x)) >> f(x)\n"
    )
    text = CliRunner().invoke(app, ["rules", "doc", str(tmp_path / "mine.py")]).stdout
    assert "Omitted\nattributes have their defaults" in text
    assert "`exp`" in text
    assert "`clip`" not in text


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names of files are characters")
def test_a_page_on_a_file_whose_name_is_not_utf_8_is_written(tmp_path: Path) -> None:
    file, written = tmp_path / os.fsdecode(b"r\xfcl.py"), tmp_path / "rules.md"
    file.write_text(
        "from passat.rules import RuleSet, op, tensor\nx = tensor('x')\nclass Mine(RuleSet):\n    once = op.abs(op.abs(x)) >> op.abs(x)\n"
    )
    result = run(file, "-o", written)
    assert result.exit_code == 0, result.stderr
    assert "r\\udcfcl.py" in written.read_text()


def test_the_table_lists_the_passes_of_each_level() -> None:
    lines = [line for line in library_table().splitlines() if re.fullmatch(r"\| \w+ \|(( yes)? +\|){5}", line)]
    rows = {
        name: tuple(cell == "yes" for cell in cells)
        for name, *cells in ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines)
    }
    assert rows["SimplifyExpr"] == (True,) * 5
    assert rows["DeadCodeElimination"] == (False, True, True, True, True)
    assert {pass_.info.name for pass_ in default_pipeline().members if pass_.members is None} <= rows.keys()


def test_the_page_stays_of_a_size_that_can_be_read(whole: str) -> None:
    assert len(whole.encode()) < 400_000


def test_no_cell_of_a_table_breaks_it(whole: str) -> None:
    widths: list[int] = []
    for line in [*whole.splitlines(), "", *library_table().splitlines(), ""]:
        if line.startswith("| "):
            widths.append(len(re.findall(r"(?<!\\)\|", line)))
        elif widths:
            assert len(set(widths)) == 1
            widths = []


def test_holes_for_operators_are_explained(whole: str) -> None:
    assert "involution is any involution operator of 1 operand." in whole
    assert "extremum is maximum or minimum." in whole


def test_cases_are_explained(whole: str) -> None:
    assert "biases is none, shifted, left or both." in whole
    assert "has_groups(a, w, c, 'O') if product is grouped" in " ".join(whole.split())


def test_the_left_side_is_not_repeated_in_conditions() -> None:
    class Units(RuleSet):
        """One rule."""

        sums = (x + c >> x).when(same_type(x, x + c))

    assert "| `Units.sums` | `(x + c) -> x` | `same_type(x, left)` |" in page(subjects_of([Units]))


def test_parts_that_a_long_equation_repeats_have_a_letter() -> None:
    long = op.exp(op.log(op.abs(op.negative(op.sqrt(op.exp(op.log(x)))))))

    class Repeated(RuleSet):
        """One rule."""

        twice = (long * long + op.exp(long * long) >> op.exp(long) * op.exp(long)).when(same_type(x, long))

    text = page(subjects_of([Repeated]))
    assert "where same_type(x, " in text
    assert re.search(r"^  [A-Z] = exp\(log\(abs\(", text, re.MULTILINE)


def test_descriptions_of_guards() -> None:
    guards, _ = named_functions(Arithmetic)
    assert "is_float" in {function.__name__ for function in guards}
    assert call_of(is_all(c, 0).function) == "is_all(c, value)"
    assert meaning(is_float(x).function) == "The elements are floating-point numbers."
    assert meaning(lambda: None) == "<lambda>."
    _, computed = named_functions(library.Transposes)
    assert [function.__name__ for function in computed] == ["compose", "new_shape"]
    assert ">>>" not in meaning(computed[0])


def test_functions_of_some_cases_are_named() -> None:
    kind = cases("kind", "exp", "log")
    called = kind(exp=op.exp(x), log=op.log(x))
    rule = op.transpose(called, axes=p) >> op.transpose(called, axes=kind(exp=compose(p, p), log=p))
    assert [function.__name__ for function in named_functions([rule])[1]] == ["compose"]


def test_operators_of_rules_with_several_roots_count_on_both_sides() -> None:
    assert operators_of(Parallel.only("products", "heads")) == [
        "add",
        "nn.bias_add",
        "nn.dense",
        "nn.matmul",
        "nn.relu",
        "reshape",
        "transpose",
    ]


def test_which_passes_run_a_set() -> None:
    by = runners(registered_rule_passes())
    assert "SimplifyExpr" in by[Arithmetic]
    assert by[library.TargetForms] == {"TargetForms": [library.TargetForms]}
    joining = library.Reassociate.of_kind("joining")
    assert by[library.Reassociate] == {"Explore": [joining, library.Reassociate], "LinearAlgebra": [joining]}
    folding = {name for name, (rules,) in by[FastMath].items() if [rule.name for rule in rules] == ["FastMath.reciprocal"]}
    assert folding == {"BackwardFoldScaleAxis", "DivToMul", "FoldScaleAxis", "ForwardFoldScaleAxis"}
    assert by[FastMath]["DivToMul"] == [FastMath.only("reciprocal")]
    assert by[FastMath]["FastMath"] == [FastMath.only("exp", "approximated")]


def test_a_rule_that_a_pass_leaves_out_is_not_listed_for_it() -> None:
    passes = {row["name"]: row["passes"] for row in rule_rows([library.Decompositions])}
    assert passes["Decompositions.dropout"] == ["SimplifyInference", "SimplifyInference{unpack=True}"]
    assert passes["Decompositions.layer_norm"] == ["SimplifyInference{unpack=True}"]
    assert passes["Decompositions.bias_add"] == ["CanonicalizeOps"]


def test_common_kinds_and_exactness_are_stated_once() -> None:
    class Terms(RuleSet):
        """Rules of two kinds."""

        folded = ((x + c) + d >> x + (c + d)).when(is_float(x)).inexact("reassociates a sum")
        moved = (c + x >> x + c).exploring()

    text = page(subjects_of([Arithmetic, Terms, FastMath]))
    assert "All rules are reducing." in text
    assert "| `Terms.folded` | `((x + c) + d) -> (x + (c + d))` | `is_float(x)` | reducing | inexact (reassociates a sum) |" in text
    assert "All rules are lowering." in text
    assert "finite (an overflowing exponential saturates near the largest number)" in text


def test_the_command_documents_rules_of_a_user(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(RULES)
    result = run(tmp_path / "mine.py")
    assert result.exit_code == 0, result.stderr
    assert "# The rules of `mine.py`" in result.stdout
    assert "Rules of a user. They have a guard with a bar." in result.stdout
    assert "| `Mine.relu` | `nn.relu(x) -> maximum(x, 0.0)` | `is_small(x, 3)` |" in result.stdout
    assert r"* `is_small(x, most)`: It has at most `most` \| dimensions; 2 \* 3 \<= 6." in result.stdout
    assert "Run by" not in result.stdout


def test_the_command_writes_a_file(tmp_path: Path) -> None:
    result = run("Transposes", "-o", tmp_path / "page.md")
    assert (result.exit_code, result.stdout) == (0, f"{tmp_path / 'page.md'} was written\n")
    assert "`Transposes.drop`" in (tmp_path / "page.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("Arithmetics",), "Arithmetics is neither a rule file nor a set of the library or of a plug-in; did you mean Arithmetic"),
        (("Doubles", "-o", "no/such/folder.md"), "the folder no/such does not exist"),
        (("missing.py",), "missing.py cannot be read: No such file or directory"),
    ],
)
def test_unsupported_uses_of_the_command(arguments: tuple[str, ...], sentence: str) -> None:
    result = run(*arguments)
    assert result.exit_code in (1, 2)
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


def test_the_page_states_the_kind_of_a_set_in_each_pass() -> None:
    text = every_rule()
    assert "\n\nRun by `Explore` (also joining), `LinearAlgebra` (joining). Operators: " in text
    norms = "layer_norm, instance_norm, group_norm, batch_norm, l2_normalize"
    runners = ["`SimplifyInference` (only dropout)", f"`SimplifyInference{{unpack=True}}` (only dropout, {norms})"]
    assert f"Run by `CanonicalizeOps` (only bias_add), {', '.join(runners)}. Operators: " in text


def test_the_rules_of_pipelines_that_are_passes_are_listed_under_their_names() -> None:
    rows = {row["name"]: row["passes"] for row in rule_rows()}
    assert rows["HiddenStates.gathered_experts"] == ["Explore", "LinearAlgebra"]
    assert {"FoldScaleAxis", "BackwardFoldScaleAxis"} <= set(rows["ScaleAxis.scaled"])


def test_a_pass_of_the_users_is_not_on_the_page_of_the_library() -> None:
    class Known(RuleSet):
        """A fact that the user knows."""

        nothing = op.exp(op.log(x)) >> x

    build_pipeline("Known", [Known])
    assert "Known" in {name for name, _ in registered_rule_passes()}
    assert "Known" not in every_rule()


def test_rules_of_ones_own_must_not_have_the_names_of_rules_in_pipelines_either() -> None:
    class HiddenStates(RuleSet):
        """Has the name of a set in LinearAlgebra."""

        scaled = op.exp(op.log(x)) >> x

    with pytest.raises(RuleError, match=r"HiddenStates\.scaled has the name of a built-in rule"):
        build_pipeline(None, [HiddenStates])

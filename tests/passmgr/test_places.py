"""Places: pipelines in the order that passes declare, and passes that are inserted into other pipelines."""

import importlib.metadata
import json
import random
import shlex
import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from passat.cli.app import app
from passat.ir.module import IRModule
from passat.passmgr import (
    ModulePass,
    Pass,
    PassContext,
    PassDependencyError,
    PluginError,
    Sequential,
    UnknownPassError,
    in_order,
    list_passes,
    module_pass,
    register_pass,
    registry,
    with_landed,
)
from passat.pipelines import build_pipeline
from passat.rules import RulePass, RuleSet, op, tensor
from passat.rules.passes import default_pipeline
from passat.rules.passes.pipelines import default_passes
from tests.share import share

pytestmark = pytest.mark.usefixtures("forgotten")

x = tensor("x")
RESNET = Path(__file__).parents[2] / "examples" / "models" / "resnet_tiny.onnx"
TUNED = [
    *("ReadOpaque", "SimplifyInference", "FoldConstant", "DynamicToStatic", "FoldBatchNorm", "SimplifyExpr"),
    *("SimplifyShapes", "HoistSelections", "SlicesToSplit"),
    *("EliminateCommonSubexpr", "FoldScaleAxis", "LinearAlgebra", "RaiseOps", "RaiseAttention"),
    *("Explore", "CombineParallelConv2D", "CombineParallelDense", "CombineParallelBatchMatmul"),
    *("HoistSelections", "CollapseBatchDims", "MergeProducts", "ContribOperators", "TargetForms", "AvoidSkipLayerNorm"),
    *("DeadCodeElimination", "UnfoldConstant"),
]


def make(name: str, after: Iterable[str] = (), before: Iterable[str] = (), required: Iterable[str] = ()) -> ModulePass:
    def body(mod: IRModule, ctx: PassContext) -> IRModule:
        ctx.record(name, "ran", 1)
        return mod

    return module_pass(body, opt_level=0, name=name, required=list(required), after=after, before=before)


def names(passes: Iterable[Pass]) -> list[str]:
    return [pass_.info.name for pass_ in passes]


def landed(members: str, *newcomers: Pass) -> str:
    """The names of a pipeline after passes were inserted."""
    return " ".join(names(with_landed(Sequential([make(name) for name in members.split()]), newcomers).members))


def test_declared_places_give_the_tuned_order_from_any_order() -> None:
    assert names(default_pipeline().members) == TUNED
    shuffled = default_passes()
    for seed in range(20):
        random.Random(seed).shuffle(shuffled)
        assert names(in_order(shuffled)) == TUNED


def test_the_default_passes_are_listed_in_order_so_that_nothing_is_sorted() -> None:
    assert names(default_passes()) == names(default_pipeline().members)


def test_undeclared_order_stays_as_given() -> None:
    assert names(in_order([make("C"), make("A", after=["Z"]), make("Z"), make("B"), make("D", before=["C"])])) == ["Z", "A", "B", "D", "C"]
    assert names(in_order([make("P", required=["R", "InferType"]), make("R")])) == ["R", "P"]


@given(st.permutations(range(7)), st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda edge: edge[0] < edge[1])))
def test_every_declaration_holds(given_order: list[int], edges: set[tuple[int, int]]) -> None:
    passes = [make(f"P{b}", [f"P{a}" for a, other in sorted(edges) if other == b and a % 2], []) for b in range(7)]
    passes = [make(f"P{a}", passes[a].info.after, [f"P{b}" for other, b in sorted(edges) if other == a and not a % 2]) for a in range(7)]
    found = names(in_order([passes[at] for at in given_order]))
    assert all(found.index(f"P{a}") < found.index(f"P{b}") for a, b in edges)
    assert sorted(found) == [f"P{at}" for at in range(7)]


def test_a_cycle_is_one_sentence() -> None:
    with pytest.raises(PassDependencyError) as caught:
        in_order([make("A", after=["B"]), make("B", after=["A"]), make("C")])
    assert str(caught.value) == "no order of passes satisfies their declarations: A before B before A (A: after B; B: after A)"


@pytest.mark.parametrize(
    ("newcomers", "expected"),
    [
        ([make("X", after=["B"])], "A B X C D"),
        ([make("X", before=["B"])], "A X B C D"),
        ([make("X", after=["A"], before=["D"])], "A X B C D"),
        ([make("X", after=["A", "C"], before=["D"])], "A B C X D"),
        ([make("X", after=["transform.B"], before=["relay._transform.C"])], "A B X C D"),
        ([make("Y", after=["B"]), make("X", after=["B"])], "A B Y X C D"),
        ([make("X", after=["Y"]), make("Y", after=["B"])], "A B Y X C D"),
        ([make("X", before=["Y"]), make("Y", after=["B"])], "A B X Y C D"),
        ([make("X", after=["A"]), make("Y", after=["C"], before=["X"])], "A B C Y X D"),
        ([make("X", after=["A", "InferType"])], "A B C D"),
        ([make("X", after=["A", "Y"]), make("Y", after=["FoldConstant"])], "A B C D"),
        ([make("X")], "A B C D"),
        ([make("B", after=["D"])], "A B C D"),
    ],
)
def test_a_pass_lands_beside_those_that_it_names(newcomers: list[Pass], expected: str) -> None:
    assert landed("A B C D", *newcomers) == expected


def test_places_use_the_first_and_last_run_of_a_repeated_pass() -> None:
    assert landed("A B A B", make("X", after=["B"], before=["A"])) == "A B X A B"
    assert landed("A B A B", make("X", after=["A"], before=["B"])) == "A X B A B"


def test_a_pass_before_a_repeated_one_lands_before_its_first_run() -> None:
    """As a pass that prepares the program for HoistSelections, which runs twice in the default pipeline."""
    assert landed("A B C B", make("X", before=["B"])) == "A X B C B"
    early = with_landed(default_pipeline(), [make("X", before=["HoistSelections"])])
    assert names(early.members) == [*TUNED[:7], "X", *TUNED[7:]]


def test_a_pass_between_two_members_joins_their_nested_pipeline() -> None:
    inner = Sequential([make("A"), make("B")], opt_level=1, name="inner")
    outer = Sequential([make("Z"), inner, make("C")], name="outer")
    between = with_landed(outer, [make("X", after=["Z", "A"], before=["B"])])
    assert [names(member.members) for member in between.members if member.members is not None] == [["A", "X", "B"]]
    assert (between.info.name, between.members[1].info.name, between.members[1].info.opt_level) == ("outer", "inner", 1)
    assert names(with_landed(outer, [make("X", after=["A"])]).members) == ["Z", "inner", "X", "C"]
    assert names(with_landed(outer, [make("X", before=["B"])]).members) == ["Z", "X", "inner", "C"]


@st.composite
def pipelines_and_newcomers(draw: st.DrawFn) -> tuple[Sequential, list[Pass]]:
    """A pipeline of the passes a to e, some of them nested, and passes that name these and each other."""
    cuts = [0, *sorted(draw(st.sets(st.integers(1, 4)))), 5]
    groups = [[make(name) for name in "abcde"[start:stop]] for start, stop in pairwise(cuts)]
    members: list[Pass] = [
        one for at, group in enumerate(groups) for one in ([Sequential(group, name=f"g{at}")] if len(group) > 1 else group)
    ]
    anchors = st.lists(st.sampled_from("abcdexyz"), max_size=2)
    return Sequential(members), [make(name, draw(anchors), draw(anchors) or ["e"]) for name in "xyz"]


@settings(max_examples=share(52, 300))
@given(pipelines_and_newcomers())
def test_wherever_passes_land_all_that_they_declare_holds(drawn: tuple[Sequential, list[Pass]]) -> None:
    pipeline, newcomers = drawn
    try:
        found = with_landed(pipeline, newcomers).plan().order
    except PassDependencyError:
        return
    assert [name for name in found if name in "abcde"] == list("abcde")
    for info in (pass_.info for pass_ in newcomers):
        if info.name in found:
            assert all(found.index(name) < found.index(info.name) for name in info.after)
            assert all(found.index(info.name) < found.index(name) for name in info.before)
        else:
            assert not {*info.after, *info.before}.issubset(found)


def test_no_place_is_one_sentence() -> None:
    with pytest.raises(PassDependencyError) as caught:
        landed("A B C D", make("X", after=["D"], before=["A"]))
    assert str(caught.value) == "no order of passes satisfies their declarations: A before D before X before A (X: after D and before A)"
    with pytest.raises(UnknownPassError) as unknown:
        landed("A B", make("X", after=["A"], before=["FoldConstan"]))
    assert str(unknown.value) == (
        "the pass X is declared to come before FoldConstan: there is no pass FoldConstan; did you mean FoldConstant or UnfoldConstant?"
    )


def test_passes_within_two_pipelines_that_contradict_each_other_are_named() -> None:
    first, second = (Sequential([make(name) for name in members], name=name) for name, members in (("First", "AB"), ("Second", "CD")))
    newcomers = [make("X", after=["A", "Y"], before=["B"]), make("Y", after=["C"], before=["D"])]
    with pytest.raises(PassDependencyError) as caught:
        with_landed(Sequential([first, second]), newcomers)
    assert str(caught.value) == (
        "no order of passes satisfies their declarations: First before Second before First (X: after A, Y and before B; Y: after C and before D)"
    )


def test_a_registered_pass_joins_pipelines_that_have_the_passes_it_names(mod: IRModule) -> None:
    own = make("Lander", after=["FoldConstant"], before=["TargetForms"])
    register_pass("Lander", own)
    at = TUNED.index("FoldConstant") + 1
    assert names(build_pipeline().members) == [*TUNED[:at], "Lander", *TUNED[at:]]
    assert names(build_pipeline("FoldConstant, SimplifyExpr, TargetForms").members) == [
        "FoldConstant",
        "Lander",
        "SimplifyExpr",
        "TargetForms",
    ]
    assert names(build_pipeline("FoldConstant, TargetForms, Lander").members) == ["FoldConstant", "TargetForms", "Lander"]
    assert names(build_pipeline("FoldConstant").members) == ["FoldConstant"]
    with PassContext(0) as ctx:
        build_pipeline()(mod)
    assert ctx.statistics.counters["Lander"] == {"ran": 1}
    register_pass("Lander", make("Lander"), override=True)
    assert build_pipeline() is build_pipeline()
    assert names(build_pipeline().members) == TUNED


def plug_in(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    found = importlib.metadata.EntryPoint("mine", value, registry.ENTRY_POINTS)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [found])
    monkeypatch.setattr(registry, "_SOURCES", [registry._load_installed])


def test_a_pass_of_an_installed_plug_in_lands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_plug_in.py").write_text(
        "from passat.passmgr import function_pass, register_pass\n"
        "@register_pass('Plugged')\n"
        "@function_pass(opt_level=1, name='Plugged', before=['TargetForms'])\n"
        "def plugged(func, mod, ctx):\n"
        "    return func\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    plug_in(monkeypatch, "a_plug_in")
    at = TUNED.index("TargetForms")
    assert names(build_pipeline().members) == [*TUNED[:at], "Plugged", *TUNED[at:]]


def test_a_plug_in_that_cannot_be_imported_is_one_sentence_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in(monkeypatch, "no_such_module")
    for _ in range(2):
        with pytest.raises(PluginError) as caught:
            list_passes()
        assert str(caught.value) == (
            "the plug-in no_such_module cannot be loaded; repair or uninstall it: ModuleNotFoundError: No module named 'no_such_module'"
        )


@pytest.mark.parametrize("source", ["print('hello')", "raise SystemExit(3)"])
def test_a_plug_in_that_prints_or_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "plugged_in", raising=False)
    (tmp_path / "plugged_in.py").write_text(source)
    plug_in(monkeypatch, "plugged_in")
    result = run("order", "--json")
    if source.startswith("print"):
        assert (result.exit_code, result.stdout[0]) == (0, "{")
    else:
        assert (result.exit_code, json.loads(result.stdout)["error"]) == (
            1,
            "the plug-in plugged_in cannot be loaded; repair or uninstall it: SystemExit: 3",
        )


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_pass_of_a_rule_file_runs_at_its_declared_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(
        "from passat.passmgr import function_pass, register_pass\n"
        "@register_pass('Placed')\n"
        "@function_pass(opt_level=2, name='Placed', after=['FoldConstant'], before=['TargetForms'])\n"
        "def mine(func, mod, ctx):\n"
        "    return func\n"
    )
    order = json.loads(run("order", "--rules", "mine.py", "--json").stdout)["order"]
    assert order[order.index("Placed") - 1] == "FoldConstant"
    assert "Placed" in run("order", "--rules", "mine.py", "--passes", "FoldConstant,TargetForms").stdout
    without = run("order", "--rules", "mine.py", "--passes", "FoldConstant")
    assert "Placed" not in without.stdout
    assert without.stderr == (
        "note: mine.py registers the pass Placed, which does not run: a pipeline has to name it, or all passes of its `after` and `before`\n"
    )
    Path("mine.py").write_text(Path("mine.py").read_text().replace("'FoldConstant'", "'FoldConstan'"))
    unknown = run("order", "--rules", "mine.py")
    assert unknown.exit_code == 2
    assert unknown.stderr.startswith("error: the pass Placed is declared to come after FoldConstan: there is no pass FoldConstan")
    Path("mine.py").write_text(Path("mine.py").read_text().replace("'FoldConstan'", "'DeadCodeElimination'"))
    cycle = run("optimize", RESNET, "-o", "out.onnx", "--rules", "mine.py")
    assert cycle.exit_code == 2
    assert cycle.stderr == (
        "error: no order of passes satisfies their declarations: TargetForms before DeadCodeElimination before Placed before TargetForms "
        "(Placed: after DeadCodeElimination and before TargetForms); nothing was written\n"
    )
    Path("mine.py").write_text(Path("mine.py").read_text().replace("'DeadCodeElimination'", "'Nowhere'"))
    unknown = run("optimize", RESNET, "-o", "out.onnx", "--rules", "mine.py")
    assert (unknown.exit_code, "Traceback" in unknown.output) == (2, False)
    assert unknown.stderr.startswith("error: the pass Placed is declared to come after Nowhere:")
    assert not Path("out.onnx").exists()


def test_passes_that_are_registered_under_other_names_than_their_own_land() -> None:
    register_pass("Registered", make("Own", after=["FoldConstant"]))
    register_pass("Then", make("Then", after=["Registered"]))
    pipeline = build_pipeline()
    at = TUNED.index("FoldConstant") + 1
    assert names(pipeline.members) == [*TUNED[:at], "Own", "Then", *TUNED[at:]]
    assert "Then                                 listed, level 0, after Registered" in pipeline.plan().to_text()


def test_two_passes_of_the_same_name_land() -> None:
    register_pass("One", make("Same", after=["FoldConstant"]))
    register_pass("Other", make("Same", before=["DeadCodeElimination"]))
    at = TUNED.index("FoldConstant") + 1
    assert names(build_pipeline().members) == [*TUNED[:at], "Same", *TUNED[at:-2], "Same", *TUNED[-2:]]


def test_some_passes_of_a_rule_file_do_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(
        "from passat.passmgr import module_pass, register_pass\n"
        "for name, after in (('Lands', ['FoldConstant']), ('Idle', ['FuseOps']), ('Helper', [])):\n"
        "    register_pass(name, module_pass(lambda mod, ctx: mod, 0, name, after=after))\n"
    )
    assert run("order", "--rules", "mine.py").stderr == (
        "note: mine.py registers the pass Idle, which does not run: a pipeline has to name it, or all passes of its `after` and `before`\n"
    )
    Path("other.py").write_text(
        "from dataclasses import dataclass\n"
        "from passat.passmgr import ModulePass, PassInfo, register_pass\n"
        "@register_pass('Needs')\n"
        "@dataclass(frozen=True)\n"
        "class Needs(ModulePass):\n"
        "    times: int\n"
        "    info = PassInfo(0, 'Needs', after=['FoldConstant'])\n"
    )
    assert (
        run("order", "--rules", "other.py").stderr
        == "note: other.py registers the pass Needs, which does not run: a pipeline has to name it\n"
    )


def test_rule_sets_run_around_passes_that_land() -> None:
    class Negations(RuleSet):
        twice = op.negative(op.negative(x)) >> x

    register_pass("Lander", make("Lander", after=["FoldConstant"], before=["TargetForms"]))
    default = names(build_pipeline(None, [Negations]).members)
    assert (default[0], default[-1], "Lander" in default) == ("Negations", "Negations", True)
    assert names(build_pipeline(["FoldConstant", "TargetForms"], [Negations]).members) == [
        "FoldConstant",
        "Lander",
        "TargetForms",
        "Negations",
    ]


def test_a_rule_set_of_a_pass_that_lands_runs_there_only() -> None:
    class Negations(RuleSet):
        twice = op.negative(op.negative(x)) >> x

    register_pass("Lander", RulePass((Negations.of_kind("exploring"),), name="Lander", opt_level=2, after=["FoldConstant"]))
    at = TUNED.index("FoldConstant") + 1
    assert names(build_pipeline(None, [Negations]).members) == [*TUNED[:at], "Lander", *TUNED[at:]]
    assert names(build_pipeline(["SimplifyExpr"], [Negations]).members) == ["SimplifyExpr", "Negations"]


def test_the_failure_of_a_pass_that_lands_is_replayed_with_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "failing.py"
    file.write_text(
        "from passat.passmgr import function_pass, register_pass\n"
        "@register_pass('Failing')\n"
        "@function_pass(opt_level=0, name='Failing', after=['FoldConstant'])\n"
        "def failing(func, mod, ctx):\n"
        "    raise ArithmeticError('no')\n"
    )
    failed = run("optimize", RESNET, "-o", "out.onnx", "--rules", file, "--reproducer", "crash")
    assert (failed.exit_code, Path("out.onnx").exists()) == (1, False)
    assert f"{shlex.join(['passat', 'replay', str(tmp_path / 'crash'), '--rules', str(file)])} reproduces it" in failed.stderr
    again = run("replay", "crash", "--rules", file)
    assert again.stdout == "the pass Failing on the saved module fails the same way: ArithmeticError: no\n"
    registry._ENTRIES.pop("transform.Failing")  # as in another process
    registry._VERSION[0] += 1
    without = run("replay", "crash")
    assert without.exit_code == 2
    assert without.stderr == (
        "error: crash needs the pass Failing, which is not registered here: pass the file that registers it with --rules\n"
    )


def test_a_registered_pass_that_cannot_be_made_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def fails() -> Pass:
        raise ArithmeticError("no")

    register_pass("Fails", fails)
    with pytest.raises(PluginError, match=r"^the registered pass Fails cannot be made: ArithmeticError: no$"):
        build_pipeline()
    failed = run("optimize", RESNET, "-o", "out.onnx")
    assert (failed.exit_code, failed.stderr) == (
        1,
        "error: the registered pass Fails cannot be made: ArithmeticError: no; nothing was written\n",
    )

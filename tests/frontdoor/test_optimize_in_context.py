"""`passat.optimize` inside `with PassContext(...)`: which settings it uses, and which its own arguments override."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper
from typer.testing import CliRunner

import passat
from passat.cli.app import app
from passat.ir.expr import Function
from passat.ir.module import IRModule
from passat.passmgr import InferType, PassContext, PassInfo, PassInstrument, function_pass, module_pass
from passat.passmgr.debugging.replaying import read_reproducer
from tests.frontdoor.small_pipeline import SMALL


def model() -> onnx.ModelProto:
    """The product of x + x and x + x, followed by two Relus."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    nodes = [
        helper.make_node("Add", ["x", "x"], ["a"]),
        helper.make_node("Add", ["x", "x"], ["b"]),
        helper.make_node("Mul", ["a", "b"], ["c"]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Watch(PassInstrument):
    """Records its calls, and vetoes the passes of some names."""

    def __init__(self, *vetoed: str) -> None:
        self.heard: list[str] = []
        self.vetoed = vetoed

    def enter_pass_ctx(self) -> None:
        self.heard.append("enter")

    def exit_pass_ctx(self) -> None:
        self.heard.append("exit")

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        return info.name not in self.vetoed

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self.heard.append(info.name)


seen: list[tuple[Any, ...]] = []


@module_pass(opt_level=0, name="Look")
def look(mod: IRModule, ctx: PassContext) -> IRModule:
    seen.append((ctx.opt_level, tuple(ctx.required_pass), tuple(ctx.disabled_pass), ctx.config, ctx.diag_ctx))
    ctx.record("Look", "looks")
    return mod


class Diagnostics:
    def render(self) -> None:
        pass


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    seen.clear()


def run(**arguments: Any) -> tuple[Any, ...]:
    passat.optimize(model(), passes=[look], verify=False, **arguments)
    return seen.pop()


def test_without_a_context_around_it_the_default_one_of_the_thread_does_not_count() -> None:
    default = PassContext.current()
    try:
        default.disabled_pass, default.opt_level = ["Look"], 1
        assert run() == (3, (), (), {}, None)
    finally:
        default.disabled_pass, default.opt_level = [], 2


def test_missing_settings_come_from_the_surrounding_context() -> None:
    diagnostics = Diagnostics()
    around = {"rules.math": "exact", "rules.nodes": 7, "rules.time_limit": 9.0}
    with PassContext(4, ["A"], ["B"], None, around, diag_ctx=diagnostics) as ctx:
        assert run() == (4, ("A",), ("B",), around, diagnostics)
        own = run(opt_level=1, config={"rules.math": "finite", "rules.rounds": 2}, time_limit=5.0)
        assert own[:3] == (1, ("A",), ("B",))
        assert own[3] == {"rules.math": "finite", "rules.nodes": 7, "rules.rounds": 2, "rules.time_limit": 5.0}
        assert ctx.config == around
    with PassContext():
        assert run()[0] == 2


def test_a_context_that_a_function_runs_in_is_around_it() -> None:
    assert PassContext(1, disabled_pass=["X"]).run(run)[:3] == (1, (), ("X",))


def test_disabled_and_required_passes() -> None:
    with PassContext(3, disabled_pass=["EliminateCommonSubexpr", "SimplifyExpr", "DynamicToStatic", "FoldBatchNorm"]):
        assert passat.optimize(model(), passes=SMALL).report.node_count_after == 5
        assert passat.optimize(model()).report.node_count_after == 2, "passes of other names make a part of the changes"
    with PassContext(0, required_pass=["EliminateCommonSubexpr"]):
        assert "EliminateCommonSubexpr" in [one.name for one in passat.optimize(model()).report.passes]


def test_unknown_passes_of_the_context_are_warnings() -> None:
    with PassContext(3, disabled_pass=["SimplifyExp"], required_pass=["FoldConstnt"]):
        warnings = passat.optimize(model(), verify=False).report.warnings
    assert warnings == [
        "disabled_pass names 'SimplifyExp', which is neither a pass of this pipeline nor registered; did you mean SimplifyExpr?",
        "required_pass names 'FoldConstnt', which is neither a pass of this pipeline nor registered; did you mean FoldConstant?",
    ]


def test_instruments_from_around_run_and_are_entered_once() -> None:
    watch, own = Watch(), Watch()
    with PassContext(3, instruments=[watch]):
        passat.optimize(model(), passes="SimplifyExpr", instruments=[own], verify=False)
        assert watch.heard == ["enter", "sequential", "InferType", "SimplifyExpr"]
    assert watch.heard[-1] == "exit"
    assert own.heard == ["enter", "sequential", "InferType", "SimplifyExpr", "exit"]


def test_statistics_are_reported_here_and_there() -> None:
    with PassContext() as ctx:
        report = passat.optimize(model(), passes=[look, look], verify=False).report
        assert ctx.statistics.counters["Look"] == {"looks": 2}
        assert any(one.counters.get("looks") for one in report.passes)
        passat.optimize(model(), passes=[look], verify=False)
    assert ctx.statistics.counters["Look"] == {"looks": 3}


def test_statistics_up_to_an_exception_are_kept() -> None:
    with PassContext() as ctx, pytest.raises(passat.PassError):
        passat.optimize(model(), passes=[look, broken], verify=False)
    assert ctx.statistics.counters["Look"] == {"looks": 1}


@module_pass(opt_level=0)
def broken(mod: IRModule, ctx: PassContext) -> IRModule:
    raise ValueError("broken")


def wrong(name: str) -> Any:
    """A pass that replaces each function's result by its input."""

    def change(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return Function(func.params, func.params[0], func.ret_type, func.type_params, func.attrs)

    return function_pass(change, opt_level=0, name=name, required=["InferType"])


def test_the_guilty_pass_is_looked_for_in_the_same_settings() -> None:
    pipeline = [wrong("Disabled"), wrong("Vetoed"), wrong("Above"), wrong("Guilty")]
    pipeline[2].info.opt_level = 4
    with PassContext(3, disabled_pass=["Disabled"], instruments=[Watch("Vetoed")]), pytest.raises(passat.MismatchError) as caught:
        passat.optimize(model(), passes=pipeline)
    assert str(caught.value).endswith("the difference comes from the pass Guilty")


def test_a_pass_that_enters_its_context_again_is_named() -> None:
    @module_pass(opt_level=0, name="Loses")
    def loses(mod: IRModule, ctx: PassContext) -> IRModule:
        with ctx:
            InferType()(mod)
        return IRModule({})

    with pytest.raises(passat.PassError, match=r"^the pass Loses failed: .*it removed the function @main; before it ran: InferType$"):
        passat.optimize(model(), passes=[InferType(), loses])


def test_a_reproducer_has_the_same_settings(tmp_path: Path) -> None:
    folder = tmp_path / "crash"
    around = PassContext(1, ["R"], ["D"], config={"rules.nodes": 7})
    with around, pytest.raises(passat.PassError):
        passat.optimize(model(), passes=[look, broken], reproducer=folder, config={"rules.rounds": 3})
    recorded = read_reproducer(folder)
    assert (recorded.opt_level, recorded.required_pass, recorded.disabled_pass) == (1, ("R",), ("D",))
    assert recorded.config == {"rules.nodes": 7, "rules.rounds": 3}


def test_how_requirements_are_resolved_comes_from_either_side() -> None:
    lost = module_pass(lambda mod, ctx: mod, opt_level=4, name="Lost", required=["NoSuchPass"])
    with pytest.raises(LookupError):
        passat.optimize(model(), passes=[lost], verify=False)
    relay = {"passmgr.resolve": "relay"}
    passat.optimize(model(), passes=[lost], verify=False, config=relay)
    with PassContext(config=relay):
        passat.optimize(model(), passes=[lost], verify=False)
    with PassContext(config=relay), pytest.raises(LookupError):
        passat.optimize(model(), passes=[lost], verify=False, config={"passmgr.resolve": "graph"})


def test_bad_settings_are_reported_before_the_model_is_read() -> None:
    with pytest.raises(AttributeError, match=r"Invalid config option 'rules\.mth'"):
        passat.optimize("no such file", config={"rules.mth": 1})
    with pytest.raises(TypeError, match="opt_level must be an integer from 0 to 4, not '3'"):
        passat.optimize("no such file", opt_level="3")  # type: ignore[arg-type]  # the mistake


def test_nothing_stays_entered() -> None:
    with PassContext(1) as ctx:
        run()
        assert PassContext.entered() is ctx
    assert PassContext.entered() is None


def test_the_command_line_has_its_own_settings(tmp_path: Path) -> None:
    path, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(model(), path)
    done = CliRunner().invoke(app, ["optimize", str(path), "-o", str(out), "--json", "--config", "rules.math=exact"])
    assert done.exit_code == 0
    report = json.loads(done.stdout)
    expected = passat.optimize(path, config={"rules.math": "exact"})
    assert [one["name"] for one in report["passes"]] == [one.name for one in expected.report.passes]
    assert out.read_bytes() == expected.model.SerializeToString(deterministic=True)


def test_options_of_rules_are_known_before_anything_is_imported() -> None:
    program = "from passat.passmgr import PassContext; print(PassContext(config={'rules.nodes': 5}).config)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "{'rules.nodes': 5}\n", done.stderr

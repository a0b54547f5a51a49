"""Measured costs: what is measured, cached and estimated. No test asserts a time."""

import copy
import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any as AnyValue

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

import passat.measure
from passat.ir.attrs import Attrs
from passat.ir.expr import Call, Expr, Tuple, Var
from passat.ir.infer import infer_type
from passat.ir.op import get_op, list_ops
from passat.ir.shape import ANY, SymDim
from passat.ir.types import TensorType, TupleType, Type
from passat.measure import FILE, Measured, Measurements, _copies, _single, cache_folder, machine_name, measured, this_machine
from passat.passmgr import PassContext
from passat.rules import CostError, CostModel, Machine, Roofline
from passat.rules.cost import ConstantAware, cost_model
from passat.rules.passes import default_pipeline
from passat.runner import Runner, VerifyError
from tests.rules.building import func, ops, var

list_ops()
T = TensorType((8, 8))
N = SymDim.named("n")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PASSAT_CACHE", str(tmp_path))
    passat.measure._of_folder.cache_clear()
    yield tmp_path
    passat.measure._of_folder.cache_clear()


def operand(type_: Type) -> Expr:
    return Tuple([operand(field) for field in type_.fields]) if isinstance(type_, TupleType) else Var("x", type_)


def ask(model: Measured, name: str, types: Sequence[Type], constants: Sequence[bool] | None = None, **attrs: AnyValue) -> float:
    op = get_op(name)
    bound = op.bind_attrs(attrs)
    result = infer_type(Call(op, [operand(type_) for type_ in types], bound)).checked_type
    if constants is None:
        return model.call(op, types, result, bound)
    return model.call_on(op, types, result, bound, constants)


def counts(model: Measured) -> tuple[int, int, int]:
    return model._counts["measured"], model._counts["remembered"], model._counts["estimated"]


def test_an_operator_is_measured_once(folder: Path) -> None:
    model = Measured()
    first = ask(model, "add", [T, T])
    assert first > 0
    assert ask(model, "add", [T, T]) == first
    assert counts(model) == (1, 0, 0)
    later = Measured()
    assert ask(later, "add", [T, T]) == first
    assert counts(later) == (0, 1, 0)
    assert later.notes() == ["0 operators measured in 0.0 s, 1 from the cache, 0 estimated"]
    assert (folder / FILE).is_file()


def test_operators_attributes_and_types_are_distinguished() -> None:
    model = Measured()
    kinds: list[tuple[str, list[Type], dict[str, AnyValue]]] = [
        ("add", [T, T], {}),
        ("multiply", [T, T], {}),
        ("add", [T, TensorType((8,))], {}),
        ("add", [TensorType((8, 8), "int32")] * 2, {}),
        ("transpose", [TensorType((4, 4, 4))], {"axes": (0, 2, 1)}),
        ("transpose", [TensorType((4, 4, 4))], {"axes": (2, 1, 0)}),
    ]
    for name, types, attrs in kinds:
        assert ask(model, name, types, **attrs) > 0
    assert counts(model) == (6, 0, 0)


def test_a_constant_operand_matters_if_it_is_packed() -> None:
    model = Measured()
    ask(model, "nn.matmul", [T, T], [False, True])
    ask(model, "nn.matmul", [T, T], [False, False])
    ask(model, "nn.matmul", [T, T])
    ask(model, "add", [T, T], [False, True])
    ask(model, "add", [T, T], [False, False])
    assert counts(model) == (3, 0, 0)
    assert isinstance(model, ConstantAware)


@pytest.mark.parametrize(
    ("name", "types", "attrs"),
    [
        ("reshape", [T], {"newshape": (-1,)}),
        ("reshape", [TensorType((N, 8))], {"newshape": (-1,)}),
        ("nn.softmax", [TensorType((N, ANY))], {}),
        ("concatenate", [TupleType([T, T])], {"axis": 0}),
        ("split", [T], {"indices_or_sections": 2, "axis": 0}),
        ("divide", [TensorType((8,), "int32")] * 2, {}),
        ("logical_not", [TensorType((8,), "bool")], {}),
        ("add", [TensorType((8,), "float16")] * 2, {}),
        ("cast", [TensorType((8,), "bfloat16")], {"dtype": "float32"}),
        ("cast", [TensorType((8,))], {"dtype": "bfloat16"}),
        ("nn.conv2d", [TensorType((1, 2, 6, 6)), TensorType((3, 2, 3, 3))], {}),
        ("take", [T, TensorType((3,), "int64")], {"axis": 0}),
        ("add", [TensorType(()), TensorType(())], {}),
        ("add", [TensorType((0, 3)), TensorType((0, 3))], {}),
    ],
)
def test_all_kinds_of_operands(name: str, types: list[Type], attrs: dict[str, AnyValue]) -> None:
    model = Measured()
    assert ask(model, name, types, **attrs) > 0
    assert counts(model) == (1, 0, 0), model.notes()


def test_unmeasurable_operators_are_estimated_for_this_machine() -> None:
    model = Measured()
    large = TensorType((1 << 16, 1 << 16))
    assert ask(model, "add", [large, large]) == pytest.approx(Roofline(model.machine).call(get_op("add"), [large, large], large, Attrs()))
    ask(model, "nn.matmul", [TensorType((1 << 13, 1 << 13))] * 2)
    texts = TensorType((2,), "string")
    model.call(get_op("onnx.StringConcat"), [texts, texts], texts, Attrs(opset=20, outputs="1"))
    model.call(get_op("onnx.my.domain.Thing"), [T], T, Attrs(opset=1, outputs="1", types="Tensor[(8, 8), float32]"))
    assert counts(model) == (0, 0, 4)
    notes = model.notes()
    assert notes[0].endswith("s, 0 from the cache, 4 estimated")
    said = " ".join(notes + [str(reason) for reason in model._reasons])
    assert "add: operands and results take more than 1024 MB" in said
    assert "nn.matmul: one run would take more than 2 s" in said
    assert "onnx.StringConcat: it takes strings" in said
    assert "onnx.my.domain.Thing: " in said


def test_a_bias_is_part_of_the_product_before_it() -> None:
    model = Measured()
    ask(model, "nn.bias_add", [T, TensorType((8,))], axis=1)
    assert counts(model) == (0, 0, 0)


def test_when_the_time_is_over_the_rest_is_estimated(folder: Path) -> None:
    model = Measured(seconds=0)
    assert ask(model, "add", [T, T]) > 0
    assert counts(model) == (0, 0, 1)
    assert "1 estimated: add: the 0 s for measuring are used up" in model.notes()
    ask(Measured(), "multiply", [T, T])
    again = Measured(seconds=0)
    ask(again, "multiply", [T, T])
    assert counts(again) == (0, 1, 0)


def test_counting_begins_anew() -> None:
    model = Measured()
    ask(model, "add", [T, T])
    model.begin()
    assert model.notes() == ["0 operators measured in 0.0 s, 0 from the cache, 0 estimated"]
    for _ in range(2):
        ask(model, "add", [T, T])
    assert model.notes() == ["0 operators measured in 0.0 s, 1 from the cache, 0 estimated"]


def test_operators_skipped_for_time_are_measured_later() -> None:
    model = Measured(seconds=0)
    price = ask(model, "add", [T, T])
    assert ask(model, "add", [T, T]) == price
    model.seconds = 60.0
    assert ask(model, "add", [T, T]) == price
    assert counts(model) == (0, 0, 1)
    model.begin()
    ask(model, "add", [T, T])
    assert counts(model) == (1, 0, 0)


def test_without_a_folder_to_write_it_measures_all_the_same(folder: Path) -> None:
    (folder / "file").touch()
    model = Measured(folder=folder / "file" / "passat")
    ask(model, "add", [T, T])
    assert counts(model) == (1, 0, 0)


def test_models_go_to_other_processes() -> None:
    model = Measured(threads=2, seconds=5.0)
    price = ask(model, "add", [T, T])
    for other in (pickle.loads(pickle.dumps(model)), copy.copy(model)):
        assert (other.threads, other.seconds) == (2, 5.0)
        assert ask(other, "add", [T, T]) == price


def test_unread_copies_of_a_call_run() -> None:
    single = _single(get_op("split"), [T], get_op("split").bind_attrs({"indices_or_sections": 2, "axis": 0}))
    made = _copies(single.model, 3, {"x0": np.ones((8, 8), np.float32)}, set())
    assert [node.op_type for node in made.graph.node].count("Split") == 3
    onnx.checker.check_model(made)
    runner = Runner(made)
    assert [value.tolist() for value in runner.run({"x0": np.ones((8, 8), np.float32)})] == [[4, 8]]
    packed = _copies(single.model, 1, {"x0": np.ones((8, 8), np.float32)}, {"x0"})
    assert [tensor.name for tensor in packed.graph.initializer if tensor.name == "x0"] == ["x0"]
    assert Runner(packed).run({})[0].tolist() == [4, 8]


def test_this_machine_is_measured_once() -> None:
    machine = this_machine()
    assert machine == Machine.of_this_machine() == Measured().machine
    found = cost_model("roofline", "this")
    assert isinstance(found, Roofline)
    assert found.machine == machine
    assert machine_name(1) != machine_name(2)


def test_the_name_means_one_model_for_each_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = measured()
    assert cost_model("measured") is first
    monkeypatch.setenv("PASSAT_CACHE", str(folder / "other"))
    assert measured() is not first


def test_without_onnx_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise VerifyError("not there")

    monkeypatch.setattr(passat.measure, "runtime_version", missing)
    with pytest.raises(CostError, match=r"pip install 'passat\[onnx\]' installs it"):
        Measured()


def test_passes_use_it() -> None:
    from passat.ir.module import IRModule

    x = var("x", (8, 8))
    mod = IRModule.from_expr(func(ops.negative(ops.negative(ops.nn.relu(ops.nn.relu(x))))))
    with PassContext(3, config={"rules.cost": "measured"}):
        after = default_pipeline()(mod)
    assert "negative" not in str(after["main"])
    assert sum(counts(measured())) > 0


def test_optimize_measures_and_reports_it(folder: Path) -> None:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4]) for name in ("x", "y")]
    nodes = [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["b"]), helper.make_node("Exp", ["b"], ["y"])]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    (folder / FILE).write_bytes(b"nonsense" * 1000)
    result = passat.optimize(model, cost="measured")
    report = result.report
    assert [node.op_type for node in result.model.graph.node] == ["Exp"]
    assert (report.cost_model, report.cost_in_seconds) == ("measured", True)
    assert report.cost_notes[-1].endswith(" from the cache, 0 estimated")
    assert "operators measured in" in str(report)
    again = passat.optimize(model, config={"rules.cost": "measured"}).report
    measured_before = int(report.cost_notes[0].split()[0])
    assert measured_before > 0
    assert again.cost_notes == [f"0 operators measured in 0.0 s, {measured_before} from the cache, 0 estimated"]
    own: CostModel = Measured(seconds=0)
    assert passat.optimize(model, cost=own).report.cost_model == "Measured"


MACHINE, RUNTIME = "a machine", "a runtime 1.0"


def cache(folder: Path, machine: str = MACHINE, runtime: str = RUNTIME) -> Measurements:
    return Measurements(machine, runtime, folder)


def filled(folder: Path) -> Path:
    """A cache file with two hundred measurements."""
    times = cache(folder)
    for number in range(200):
        times.put(f"operator {number} {'x' * 100}", number + 0.5)
    return folder / FILE


def test_stored_measurements_are_returned(tmp_path: Path) -> None:
    times = cache(tmp_path / "a" / "b")
    assert times.get("add") is None
    times.put("add", 1.5)
    times.put("add", 2.5)
    assert times.get("add") == 2.5
    again = cache(tmp_path / "a" / "b")
    assert (again.get("add"), len(again)) == (2.5, 1)


def test_other_machines_and_versions_have_measurements_of_their_own(tmp_path: Path) -> None:
    cache(tmp_path).put("add", 1.0)
    assert cache(tmp_path, machine="another").get("add") is None
    assert cache(tmp_path, runtime="a runtime 1.1").get("add") is None
    cache(tmp_path, machine="another").put("add", 2.0)
    assert cache(tmp_path).get("add") == 1.0


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.5, 0.9, 0.999])
def test_a_file_that_was_cut_short_keeps_its_whole_lines(tmp_path: Path, share: float) -> None:
    path = filled(tmp_path)
    os.truncate(path, int(path.stat().st_size * share))
    times = cache(tmp_path)
    assert int(200 * share) - 1 <= len(times) <= int(200 * share)
    times.put("add", 1.0)
    assert (cache(tmp_path).get("add"), len(cache(tmp_path))) == (1.0, len(times))
    assert os.listdir(tmp_path) == [FILE]


@given(place=st.integers(0, 30_000), data=st.binary(min_size=1, max_size=300))
def test_the_cache_survives_any_content_of_its_file(place: int, data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = filled(Path(folder))
        with open(path, "r+b") as file:
            file.seek(place)
            file.write(data)
        times = cache(Path(folder))
        assert len(times) >= 190
        times.put("add", 1.0)
        assert cache(Path(folder)).get("add") == 1.0


def test_files_of_other_kinds_are_ignored(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 100)
    assert len(cache(tmp_path)) == 0
    cache(tmp_path).put("add", 1.0)
    assert cache(tmp_path).get("add") == 1.0


def test_invalid_lines_are_ignored(tmp_path: Path) -> None:
    path = filled(tmp_path)
    rows: list[object] = [
        "a",
        3,
        [],
        {},
        None,
        *([MACHINE, RUNTIME, *row] for row in (["a", "soon"], ["b", None], ["c", -1.0], ["d", True], [4, 1.0], ["e", 1.0, 2.0])),
    ]
    with open(path, "a") as file:
        file.write("".join(f"{json.dumps(row)}\n" for row in rows) + f'["{MACHINE}", "{RUNTIME}", "f", Infinity]\n' + "[" * 100_000)
    times = cache(tmp_path)
    assert len(times) == 200
    assert [times.get(key) for key in "abcdef"] == [None] * 6


def test_a_file_that_became_too_large_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = filled(tmp_path).stat().st_size
    monkeypatch.setattr("passat.measure.LIMIT", size)
    cache(tmp_path).put("add", 1.0)
    assert (len(cache(tmp_path)), cache(tmp_path).get("add")) == (1, 1.0)


def test_a_key_may_hold_anything(tmp_path: Path) -> None:
    for key in ("\ud800", "a\nb", '"'):
        cache(tmp_path).put(key, 1.0)
        assert cache(tmp_path).get(key) == 1.0


USER = """
import sys
from pathlib import Path
from passat.measure import Measurements
times = Measurements("a machine", "a runtime 1.0", Path(sys.argv[1]))
print(flush=True)
sys.stdin.readline()
for number in range(200):
    times.put(f"{sys.argv[2]} {number} {'x' * 200}", 1.0)
"""


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", USER, str(tmp_path)]
    processes = [subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for name in "abc"]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()  # it has imported everything
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.communicate(timeout=60) and process.returncode for process in processes] == [0, 0, 0]
    assert len(cache(tmp_path)) == 600


def test_measurements_of_other_processes_are_seen_before_measuring(tmp_path: Path) -> None:
    ours, others = cache(tmp_path), cache(tmp_path)
    for number in range(3):
        others.put(f"add {number}", 0.5)
        with ours.alone():
            assert ours.get(f"add {number}") == 0.5
        ours.put(f"subtract {number}", 0.25)
    assert len(cache(tmp_path)) == 6


def test_a_folder_that_cannot_be_made_means_no_cache(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    times = cache(tmp_path / "file" / "passat")
    times.put("add", 1.0)
    assert times.get("add") == 1.0


def test_a_folder_in_the_place_of_the_file_means_no_cache(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    times = cache(tmp_path)
    times.put("add", 1.0)
    assert times.get("add") == 1.0
    assert (tmp_path / FILE).is_dir()


def test_without_a_home_there_is_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PASSAT_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)  # a user of a container that it does not know
    monkeypatch.chdir(tmp_path)
    times = Measurements(MACHINE, RUNTIME)
    times.put("add", 1.0)
    assert times.get("add") == 1.0
    assert os.listdir(tmp_path) == []


def test_the_location_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PASSAT_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "passat"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == tmp_path / ".cache" / "passat"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
    assert cache_folder() == tmp_path / "shared" / "passat"
    monkeypatch.setenv("PASSAT_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    Measurements(MACHINE, RUNTIME).put("add", 1.0)
    assert (tmp_path / "own" / FILE).is_file()

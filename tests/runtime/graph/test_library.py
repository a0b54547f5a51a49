"""Files of built modules and of parameters: round trips, and files that are none."""

import contextlib
import json
import re
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import passat
from passat import driver, te
from passat.contrib import graph_executor
from passat.contrib.debugger import debug_executor
from passat.ir.tensor import Array
from passat.runtime.graph import ExecutorFactory, GraphError, Library, ParamsError, load_module, load_param_dict, save_param_dict
from passat.runtime.graph.build import build, build_vm
from passat.runtime.graph.loop_library import LoopLibrary
from tests.runtime.graph.programs import TARGETS, X, expected, layer, weights


@pytest.mark.parametrize("target", TARGETS)
def test_a_file_computes_the_same(target: str, tmp_path: Path) -> None:
    built = build(layer(), target, params=weights())
    built.export_library(tmp_path / "lib.so")
    loaded = load_module(tmp_path / "lib.so")
    assert isinstance(loaded, ExecutorFactory)
    assert loaded.get_lib().implementations() == built.get_lib().implementations()
    executor = loaded["default"]()
    executor.set_input("x", X)
    executor.run()
    np.testing.assert_allclose(executor.get_output(0).numpy(), expected(X), rtol=1e-6)


def test_a_library_alone(tmp_path: Path) -> None:
    built = build(layer(), "numpy")
    built.get_lib().export_library(tmp_path / "lib.tar")
    loaded = load_module(tmp_path / "lib.tar")
    assert isinstance(loaded, Library)
    assert loaded.get_source() == built.get_lib().get_source()


def test_files_are_reproducible(tmp_path: Path) -> None:
    build(layer(), "numpy", params=weights()).export_library(tmp_path / "a")
    build(layer(), "numpy", params=weights()).export_library(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def parts_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize(
    ("part", "content", "message"),
    [
        ("library.json", b"{", "Expecting"),
        ("library.json", b"[]", "its format is not 1"),
        ("library.json", b'{"format": 1, "target": "cuda", "name": ""}', "unsupported target 'cuda'"),
        ("functions.json", b"[]", "it has no 'root' and 'nodes'"),
        ("functions.json", None, "it has no part functions.json"),
        ("params.bin", b"junk", "these are not parameters"),
        ("evil.so", b"", "it has a part 'evil.so'"),
        ("functions.json", b'{"root": 1, "nodes": [{"type_key": ""}, {"type_key": "' + b"0" * 5000 + b'"}]}', "node 1 is a '0{79}, which"),
    ],
)
def test_damaged_files(part: str, content: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    build(layer(), "numpy", params=weights()).export_library(path)
    parts = {**parts_of(path), part: content}
    with zipfile.ZipFile(path, "w") as archive:
        for name, each in parts.items():
            if each is not None:
                archive.writestr(name, each)
    with pytest.raises(GraphError, match=message) as caught:
        load_module(path)
    assert str(path) in str(caught.value)


def test_other_files(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(GraphError, match="is not a library that export_library has written"):
        load_module(tmp_path / "text")
    with pytest.raises(OSError, match="device"):
        load_module("/dev/zero")


def test_an_archive_whose_part_ends_early(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    build(layer(), "numpy").export_library(path)
    content = path.read_bytes()
    head = content.rindex(b"PK\x01\x02")  # the last part is said to be longer than the file
    size = len(content) - 100
    path.write_bytes(content[: head + 20] + size.to_bytes(4, "little") * 2 + content[head + 28 :])
    with pytest.raises(GraphError, match=r"written: (it ends early|Overlapped)"):
        load_module(path)


def test_a_compressed_part_is_rejected(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bomb", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("functions.json", b"0" * 1_000_000)
    with pytest.raises(GraphError, match=r"its part functions\.json is compressed"):
        load_module(tmp_path / "bomb")


def test_parameters() -> None:
    params: dict[str, Array] = {"x": np.ones((10, 2), np.float32), "ü": np.array(3, np.int64), "empty": np.zeros((0, 2), np.bool_)}
    found = load_param_dict(save_param_dict(params))
    assert list(found) == list(params)
    for name, value in params.items():
        np.testing.assert_array_equal(found[name].numpy(), value)
        assert found[name].dtype == str(value.dtype)


def test_parameters_that_have_no_form() -> None:
    with pytest.raises(ParamsError, match="the parameter 's' of the element type string"):
        save_param_dict({"s": np.array(["a"])})


@given(st.data())
def test_damaged_parameters(data: st.DataObject) -> None:
    content = save_param_dict({"x": np.ones((2, 2), np.float32), "y": np.ones(3, np.int8)})
    at = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(ParamsError):
        load_param_dict(content[:at])
    content[at] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(ParamsError):
        load_param_dict(content)


@given(st.data())
def test_damaged_bytes(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "lib")
        build(layer(), "numpy", params=weights()).export_library(path)
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 3))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        with contextlib.suppress(GraphError):
            executor = load_module(path)["default"]()
            executor.set_input("x", X)
            executor.run()


@given(st.data())
def test_damaged_programs(data: st.DataObject) -> None:
    """The parts are damaged, not the archive, which has checksums."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "lib")
        build(layer(), "numpy", params=weights()).export_library(path)
        parts = parts_of(path)
        part = data.draw(st.sampled_from(["functions.json", "graph.json"]))
        numbers = list(re.finditer(rb"\d+|\w+", parts[part]))
        at = data.draw(st.sampled_from(numbers))
        parts[part] = (
            parts[part][: at.start()]
            + data.draw(st.sampled_from([b"0", b"1", b"7", b"99999999999", b"-1", b"x"]))
            + parts[part][at.end() :]
        )
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in parts.items():
                archive.writestr(name, content)
        with contextlib.suppress(GraphError, TypeError):
            executor = load_module(path)["default"]()
            executor.set_input("x", X)
            executor.run()


def test_the_head_of_a_file_is_json(tmp_path: Path) -> None:
    build(layer(), "numpy").export_library(tmp_path / "lib.so")
    about = json.loads(parts_of(tmp_path / "lib.so")["library.json"])
    assert (about["format"], about["target"], about["name"]) == (1, "numpy", "default")


def added_one() -> tuple[te.Schedule, list[te.Tensor]]:
    a = te.placeholder((4,), name="a")
    b = te.compute(a.shape, lambda i: a[i] + 1.0, name="b")
    return te.create_schedule(b.op), [a, b]


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_functions_of_loops_are_written_and_compiled_again(tmp_path: Path, target: str) -> None:
    built = driver.build(*added_one(), target, name="added")
    built.export_library(tmp_path / "loops.so", cc="ignored")
    loaded = load_module(tmp_path / "loops.so")
    out = passat.nd.empty((4,))
    loaded(passat.nd.array(np.arange(4, dtype="float32")), out)
    assert isinstance(loaded, LoopLibrary)
    assert loaded.get_source() == built.get_source()
    assert (out.numpy().tolist(), loaded.type_key) == ([1, 2, 3, 4], target)
    assert loaded["added"] == loaded.entry_func


def test_files_of_loops_are_checked(tmp_path: Path) -> None:
    driver.build(*added_one(), "c", name="added").export_library(tmp_path / "loops.so")
    with zipfile.ZipFile(tmp_path / "loops.so") as archive, zipfile.ZipFile(tmp_path / "other.so", "w") as other:
        for name in archive.namelist():
            other.writestr(name, archive.read(name).replace(b"primfn", b"function"))
    with pytest.raises(GraphError, match="a function of loops in the file cannot be read"):
        load_module(tmp_path / "other.so")


@pytest.mark.parametrize("remote", [False, True])
def test_functions_of_loops_are_nodes_of_graphs(tmp_path: Path, remote: bool) -> None:
    driver.build(*added_one(), "llvm", name="added").export_library(tmp_path / "loops.so")
    with passat.rpc.LocalSession() as session:
        session.upload(tmp_path / "loops.so")
        library = session.load_module("loops.so") if remote else load_module(tmp_path / "loops.so")
        device = session.cpu() if remote else passat.cpu()
        module = graph_executor.create(json.dumps(GRAPH), library, device)
        module.run(x=np.arange(4, dtype="float32"))
        assert module.get_output(0).numpy().tolist() == [1, 2, 3, 4]
        debugged = debug_executor.create(json.dumps(GRAPH), library, device, dump_root=str(tmp_path / "debug"))
        debugged.run(x=np.arange(4, dtype="float32"))
        assert debugged.get_output(0, passat.nd.empty((4,))).numpy().tolist() == [1, 2, 3, 4]
        assert debugged.debug_get_output("add", passat.nd.empty((4,))).numpy().tolist() == [1, 2, 3, 4]
        events = json.loads((tmp_path / "debug/_tvmdbg_device_CPU_0/_tvmdbg_execution_trace.json").read_text())["traceEvents"]
        assert [event["name"] for event in events] == ["x", "x", "add", "add"]


def test_debug_executors_of_factories_take_lists_of_devices(tmp_path: Path) -> None:
    factory = build(layer(), "numpy", weights())
    made = factory["debug_create"]("default", passat.cpu())
    debugged = debug_executor.GraphModuleDebug(made, [passat.cpu()], factory.get_graph_json(), str(tmp_path))
    debugged.run(x=X, number=1)
    np.testing.assert_allclose(debugged.get_output(0).numpy(), expected(X), rtol=1e-6)


def test_paths_that_cannot_be_used_are_sentences(tmp_path: Path) -> None:
    built, vm, loops = build(layer(), "numpy"), build_vm(layer(), "numpy"), driver.build(*added_one(), "llvm", name="added")
    here = re.escape(str(tmp_path))
    for library in (built, built.get_lib(), vm, loops):
        with pytest.raises(
            FileNotFoundError, match=f"^{here}/none/lib.so cannot be written: {here}/none is not a folder; create it first$"
        ):
            library.export_library(tmp_path / "none/lib.so")
        with pytest.raises(OSError, match=f"^{here} cannot be written: it is a folder; name a file in it$"):
            library.export_library(tmp_path)
        with pytest.raises(TypeError, match=r"^a library is read and written by the path of its file, not by None$"):
            library.export_library(None)  # type: ignore[arg-type]  # a user's mistake
    with pytest.raises(IsADirectoryError, match=f"^{here} cannot be read: it is a folder; name a file that export_library has written$"):
        load_module(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"cannot be read: there is no such file; export_library writes one$"):
        load_module(tmp_path / "none.so")
    with pytest.raises(TypeError, match=r"^a library is read and written by the path of its file, not by None$"):
        load_module(None)  # type: ignore[arg-type]  # a user's mistake
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("root", "said"),
    [("in.npz", "^dump_root .*in.npz cannot be written: it is not a folder; name another folder$"), (3, "^dump_root is the path")],
)
def test_a_dump_root_that_cannot_be_used_is_a_sentence(root: "str | int", said: str, tmp_path: Path) -> None:
    (tmp_path / "in.npz").write_bytes(b"")
    given = tmp_path / root if isinstance(root, str) else root
    factory = build(layer(), "numpy", weights())
    with pytest.raises((OSError, TypeError), match=said):
        debug_executor.create(factory.get_graph_json(), factory.get_lib(), passat.cpu(), given)  # type: ignore[arg-type]  # a user's mistake


GRAPH = {
    "nodes": [
        {"op": "null", "name": "x", "inputs": []},
        {
            "op": "tvm_op",
            "name": "add",
            "inputs": [[0, 0, 0]],
            "attrs": {"func_name": "added", "flatten_data": "1", "num_inputs": "1", "num_outputs": "1"},
        },
    ],
    "arg_nodes": [0],
    "node_row_ptr": [0, 1, 2],
    "heads": [[1, 0, 0]],
    "attrs": {"shape": ["list_shape", [[4], [4]]], "dltype": ["list_str", ["float32"] * 2], "storage_id": ["list_int", [0, 1]]},
}
"""A graph whose node calls a function of loops."""

"""Tensor data in files beside the model: it is read in place, copied when the model is saved, and never read from outside the model's
folder."""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from passat.ir.expr import Call, Constant
from passat.ir.onnx import OnnxError, check, data_file, files, from_onnx, load, save, to_onnx
from passat.ir.tensor import Tensor

Parse = Callable[..., ModelProto]
WEIGHT = np.arange(1024, dtype=np.float32).reshape(32, 32)
BIAS = np.linspace(-1, 1, 32, dtype=np.float32)
ENTRIES = {"location": "m.bin", "offset": "4096", "length": str(WEIGHT.nbytes)}


def external(name: str, array: np.ndarray[Any, Any], entries: dict[str, str]) -> TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=array.shape, data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


@pytest.fixture
def source(tmp_path: Path, parse: Parse) -> Path:
    """A model with a large external tensor, a small external tensor, and one in the model."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "m.bin").write_bytes(b"\0" * 4096 + WEIGHT.tobytes() + BIAS.tobytes())
    model = parse("g (float[N, 32] x) => (float[N, 32] y) { h = MatMul(x, w)\n s = Add(h, b)\n y = Mul(s, k) }")
    small = {"location": "m.bin", "offset": str(4096 + WEIGHT.nbytes)}
    model.graph.initializer.extend([external("w", WEIGHT, ENTRIES), external("b", BIAS, small)])
    model.graph.initializer.append(numpy_helper.from_array(BIAS + 2, "k"))
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def values(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The initializers of a model as onnx loads them, which checks the format of the file."""
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}


def constants(path: Path) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    call = load(path)["main"].body
    while isinstance(call, Call):
        found |= {arg.span.outputs[0]: arg.data for arg in call.args if isinstance(arg, Constant) and arg.span is not None}
        call = call.args[0]
    return found


def test_data_is_mapped_not_read(source: Path) -> None:
    tensor = constants(source)["w"]
    array = tensor.numpy()
    np.testing.assert_array_equal(array, WEIGHT)
    assert not array.flags.writeable
    base: Any = array
    while base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)


def test_equal_ranges_have_equal_keys_without_being_read(source: Path) -> None:
    first, second = constants(source)["w"], constants(source)["w"]
    assert first.key() == second.key()
    assert first._array is None


def test_saved_beside_a_data_file_of_its_own(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target" / "out.onnx"
    target.parent.mkdir()
    save(load(source), target)
    shutil.rmtree(source.parent)
    assert sorted(os.listdir(target.parent)) == ["out.onnx", "out.onnx.data"]
    found = values(target)
    np.testing.assert_array_equal(found["w"], WEIGHT)
    np.testing.assert_array_equal(found["b"], BIAS)
    np.testing.assert_array_equal(found["k"], BIAS + 2)
    model = onnx.load(target, load_external_data=False)
    by_name = {tensor.name: tensor for tensor in model.graph.initializer}
    assert by_name["w"].data_location == TensorProto.EXTERNAL
    assert by_name["b"].HasField("raw_data")  # 128 bytes are too few for a file
    onnx.checker.check_model(str(target), full_check=True)


def test_the_result_loads_from_any_folder(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(load(source), tmp_path / "out.onnx")
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("out.onnx", "out.onnx.data"):
        os.rename(tmp_path / name, moved / name)
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(constants(moved / "out.onnx")["w"].numpy(), WEIGHT)
    monkeypatch.chdir(moved)
    save(load("out.onnx"), "again.onnx")
    np.testing.assert_array_equal(values(moved / "again.onnx")["w"], WEIGHT)


def test_a_model_in_memory_keeps_the_locations_of_its_source(source: Path) -> None:
    model = to_onnx(load(source))
    check(model)
    by_name = {tensor.name: tensor for tensor in model.graph.initializer}
    assert by_name["w"] == external("w", WEIGHT, ENTRIES)


def test_a_model_in_memory_is_saved_with_the_folder_of_its_data(source: Path, tmp_path: Path) -> None:
    model = to_onnx(load(source))
    save(model, tmp_path / "out.onnx", folder=source.parent)
    np.testing.assert_array_equal(values(tmp_path / "out.onnx")["w"], WEIGHT)
    assert model.graph.initializer[0].external_data[0].value == "m.bin"  # the model itself is unchanged
    with pytest.raises(OnnxError, match="the model's folder is unknown"):
        save(model, tmp_path / "other.onnx")


def test_a_model_in_memory_is_saved_as_a_file_of_the_same_name_in_another_folder(tmp_path: Path, parse: Parse) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    arrays = {"w": WEIGHT, "v": -WEIGHT, "b": BIAS}
    (folder / "m.onnx.data").write_bytes(b"".join(array.tobytes() for array in reversed(arrays.values())))
    model = parse("g (float[N, 32] x) => (float[N, 32] y) { h = MatMul(x, w)\n s = Add(h, b)\n y = MatMul(s, v) }")
    offset = 0
    for name, array in reversed(arrays.items()):
        model.graph.initializer.insert(0, external(name, array, {"location": "m.onnx.data", "offset": str(offset)}))
        offset += array.nbytes
    target = tmp_path / "m.onnx"
    save(model, str(target), folder=str(folder))
    assert (tmp_path / "m.onnx.data").exists()
    found = values(target)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


def test_a_link_keeps_its_place_and_never_loses_its_data(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "link.onnx").symlink_to("out.onnx")
    save(load(source), target / "link.onnx")
    assert sorted(os.listdir(target)) == ["link.onnx", "out.onnx", "out.onnx.data"]
    np.testing.assert_array_equal(values(target / "link.onnx")["w"], WEIGHT)
    (tmp_path / "link.onnx").symlink_to(target / "new.onnx")
    with pytest.raises(OnnxError, match=r"it is a link to .*new\.onnx, beside which its external data would be; name that file"):
        save(load(source), tmp_path / "link.onnx")
    assert sorted(os.listdir(target)) == ["link.onnx", "out.onnx", "out.onnx.data"]


def test_saving_over_the_model_that_is_read(source: Path) -> None:
    save(load(source), source)
    np.testing.assert_array_equal(values(source)["w"], WEIGHT)
    save(load(source), source)
    np.testing.assert_array_equal(values(source)["w"], WEIGHT)


def test_a_model_that_is_replaced_takes_its_data_file_along(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.onnx"
    for _ in range(3):
        save(load(source), target)
    assert sum(name.startswith("out.onnx") for name in os.listdir(tmp_path)) == 2
    np.testing.assert_array_equal(values(target)["w"], WEIGHT)


def test_repeated_results_beside_their_source_leave_one_data_file(source: Path) -> None:
    target = source.parent / "out.onnx"
    model = onnx.load(source, load_external_data=False)
    for _ in range(3):
        assert files.save_module(model, str(target), folder=str(source.parent)) == []
    assert sorted(os.listdir(source.parent)) == ["m.bin", "m.onnx", "out.onnx", "out.onnx.data"]
    np.testing.assert_array_equal(values(target)["w"], WEIGHT)


def test_data_that_the_model_in_memory_reads_is_left_to_the_caller(source: Path, tmp_path: Path) -> None:
    save(load(source), tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    data, path = str(tmp_path / "m.onnx.data"), str(tmp_path / "m.onnx")
    assert files.save_module(model, path, folder=str(tmp_path)) == [data]
    save(model, tmp_path / "again.onnx", folder=tmp_path)  # the model still has its data
    assert files.remove_former([data], path) == []
    assert sorted(os.listdir(tmp_path)) == ["again.onnx", "again.onnx.data", "m.onnx", "m.onnx.1.data", "source"]


def test_data_that_another_model_needs_is_never_removed(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "m.onnx"
    save(load(source), target)
    shutil.copy(target, tmp_path / "backup")
    assert files.save_module(load(source), str(target)) == [f"{target}.data"]
    np.testing.assert_array_equal(values(tmp_path / "backup")["w"], WEIGHT)
    [said] = files.remove_former([f"{target}.data"], str(target))
    assert said == f"{target}.data, which the former {target} refers to, is left: backup refers to it"
    [said] = files.remove_former([str(source.parent / "m.bin")], str(source))
    assert said.endswith("m.bin, which the former " + str(source) + " refers to, is left: it is not named after that model")
    save(load(source), tmp_path / "my m.onnx")  # the name of its data ends with that of the other
    (tmp_path / "backup").unlink()
    assert files.remove_former([f"{target}.data"], str(target)) == []


def test_the_data_of_a_model_whose_writer_was_killed_is_removed(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "m.onnx"
    code = "import os, sys; from passat.ir.onnx import load, save; os.chmod = os.replace = kill; save(load(sys.argv[1]), sys.argv[2])"
    kill = "import os; move = os.replace; kill = lambda one, two: move(one, two) if two.endswith('data') else os.kill(os.getpid(), 9); "
    subprocess.run([sys.executable, "-c", kill + code, source, target], check=False)
    assert len(os.listdir(tmp_path)) == 3
    assert (tmp_path / "m.onnx.data").exists()
    save(load(source), target)
    assert sorted(os.listdir(tmp_path)) == ["m.onnx", "m.onnx.data", "source"]
    np.testing.assert_array_equal(values(target)["w"], WEIGHT)


def test_a_data_file_of_somebody_else_is_not_written_over(source: Path, tmp_path: Path) -> None:
    (tmp_path / "out.onnx.data").write_bytes(b"precious")
    save(load(source), tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx.data").read_bytes() == b"precious"
    np.testing.assert_array_equal(values(tmp_path / "out.onnx")["w"], WEIGHT)


def test_tied_tensors_are_stored_once(source: Path, tmp_path: Path) -> None:
    model = onnx.load(source, load_external_data=False)
    model.graph.initializer.append(external("v", WEIGHT, ENTRIES))
    model.graph.node[1].input[1] = "v"
    model.graph.node[1].op_type = "MatMul"
    source.write_bytes(model.SerializeToString())
    save(load(source), tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx.data").stat().st_size == WEIGHT.nbytes
    written = values(tmp_path / "out.onnx")
    assert "v" not in written
    np.testing.assert_array_equal(written["w"], WEIGHT)
    assert [node.input[1] for node in onnx.load(tmp_path / "out.onnx", load_external_data=False).graph.node] == ["w", "w", "k"]


def test_new_tensors_and_attributes_go_along(source: Path, tmp_path: Path) -> None:
    model = onnx.load(source, load_external_data=False)
    inside = helper.make_node("Thing", ["y"], ["z"], domain="com.example")
    inside.attribute.add(name="table", type=onnx.AttributeProto.TENSOR, t=external("t", WEIGHT, ENTRIES))
    model.graph.node.append(inside)
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n"]))
    model.opset_import.add(domain="com.example", version=1)
    source.write_bytes(model.SerializeToString())
    module = load(source)
    main = module["main"]
    body: Any = main.body
    module["main"] = main.with_body(type(body)([body[0] @ Constant(WEIGHT * 2), body[1]]))
    save(module, tmp_path / "out.onnx")
    out = onnx.load(tmp_path / "out.onnx")
    assert any(np.array_equal(array, WEIGHT * 2) for array in values(tmp_path / "out.onnx").values())
    assert (tmp_path / "out.onnx.data").stat().st_size == 2 * WEIGHT.nbytes  # the attribute's tensor is the range of w
    thing = next(node for node in out.graph.node if node.domain)
    np.testing.assert_array_equal(numpy_helper.to_array(thing.attribute[0].t), WEIGHT)


def test_data_beyond_the_protobuf_limit_goes_to_a_file(parse: Parse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_file, "INLINE_LIMIT", 4000)
    model = parse("g (float[N, 32] x) => (float[N, 32] y) { y = MatMul(x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(WEIGHT, "w"))
    save(from_onnx(model), tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx.data").stat().st_size == WEIGHT.nbytes
    np.testing.assert_array_equal(values(tmp_path / "out.onnx")["w"], WEIGHT)


def test_a_model_in_memory_that_is_too_large_goes_to_a_file(parse: Parse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "INLINE_LIMIT", 4000)
    model = parse("g (float[N, 32] x) => (float[N, 32] y) { y = MatMul(x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(WEIGHT, "w"))
    save(model, tmp_path / "out.onnx")
    assert model.graph.initializer[0].HasField("raw_data")
    assert (tmp_path / "out.onnx").stat().st_size < 1000
    np.testing.assert_array_equal(values(tmp_path / "out.onnx")["w"], WEIGHT)


def test_large_models_are_checked_without_their_tensors(parse: Parse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_CHECKED_WHOLE", 100)
    model = parse("g (float[N, 32] x) => (float[N, 32] y) { y = MatMul(x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(WEIGHT, "w"))
    check(model)
    model.graph.node[0].input[1] = "ghost"
    with pytest.raises(OnnxError, match="ghost"):
        check(model)


def test_a_failed_write_leaves_nothing(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "m.onnx").write_bytes(b"before")

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "copy_file_range", full, raising=False)
    with pytest.raises(OnnxError, match=r"m\.onnx cannot be written: No space left on device"):
        save(load(source), target / "m.onnx")
    assert os.listdir(target) == ["m.onnx"]
    assert (target / "m.onnx").read_bytes() == b"before"


def test_copying_without_the_kernels_help(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "copy_file_range", raising=False)
    save(load(source), tmp_path / "out.onnx")
    np.testing.assert_array_equal(values(tmp_path / "out.onnx")["w"], WEIGHT)


def test_saved_files_have_ordinary_permissions(source: Path, tmp_path: Path) -> None:
    save(load(source), tmp_path / "out.onnx")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("out.onnx", "out.onnx.data")}
    (tmp_path / "plain").write_bytes(b"")
    assert modes == {stat.S_IMODE((tmp_path / "plain").stat().st_mode)}


BAD: dict[str, tuple[dict[str, str], str]] = {
    "absolute": ({"location": "/etc/passwd"}, "is outside the model's folder"),
    "parent": ({"location": "../m.bin"}, "is outside the model's folder"),
    "parent behind a folder": ({"location": "a/../../m.bin"}, "is outside the model's folder"),
    "drive": ({"location": "C:\\m.bin"}, "is outside the model's folder"),
    "link": ({"location": "link.bin"}, "a symbolic link to outside the model's folder"),
    "linked folder": ({"location": "folder/m.bin"}, "a symbolic link to outside the model's folder"),
    "hard link": ({"location": "hard.bin"}, "which has other hard links, possibly outside the model's folder; replace it by a copy"),
    "missing": ({"location": "none.bin"}, "which does not exist"),
    "a folder": ({"location": "sub"}, "which is not a regular file"),
    "no location": ({"offset": "0"}, "has no file name"),
    "offset": ({"location": "m.bin", "offset": "99999999"}, "but the file has 8320 bytes"),
    "negative offset": ({"location": "m.bin", "offset": "-1"}, "but the file has 8320 bytes"),
    "length": ({"location": "m.bin", "length": "100"}, "with 100 bytes, but its type and shape require 4096"),
    "no number": ({"location": "m.bin", "offset": "x"}, "that is not a number"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_references_are_rejected(name: str, source: Path) -> None:
    entries, message = BAD[name]
    outside = source.parent.parent / "outside"
    outside.mkdir()
    (outside / "m.bin").write_bytes(b"\0" * 9000)
    (source.parent / "link.bin").symlink_to(outside / "m.bin")
    (source.parent / "folder").symlink_to(outside)
    (source.parent / "hard.bin").hardlink_to(outside / "m.bin")
    (source.parent / "sub").mkdir()
    model = onnx.load(source, load_external_data=False)
    model.graph.initializer[0].CopyFrom(external("w", WEIGHT, entries))
    source.write_bytes(model.SerializeToString())
    with pytest.raises(OnnxError) as found:
        load(source)
    text = str(found.value)
    assert text.startswith(f"{source}: ")
    assert "'w'" in text
    assert message in text
    assert "\n" not in text


def test_a_link_that_stays_inside_is_followed(source: Path) -> None:
    (source.parent / "link.bin").symlink_to("m.bin")
    model = onnx.load(source, load_external_data=False)
    model.graph.initializer[0].CopyFrom(external("w", WEIGHT, {**ENTRIES, "location": "link.bin"}))
    source.write_bytes(model.SerializeToString())
    np.testing.assert_array_equal(constants(source)["w"].numpy(), WEIGHT)


@pytest.mark.parametrize("dtype", ["UINT4", "INT4"])
def test_packed_external_tensors(dtype: str, parse: Parse, tmp_path: Path) -> None:
    number = TensorProto.DataType.Value(dtype)
    data = np.tile(np.array([1, 2, 3, 4], np.int8), 1000)
    tensor = helper.make_tensor("w", number, data.shape, data)
    (tmp_path / "m.bin").write_bytes(numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data)
    model = parse("g () => (float[4000] y) { y = Cast<to = 1>(w) }", opset=21, ir=10)
    proto = TensorProto(name="w", data_type=number, dims=data.shape, data_location=TensorProto.EXTERNAL)
    proto.external_data.add(key="location", value="m.bin")
    model.graph.initializer.append(proto)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    tensors = constants(tmp_path / "m.onnx")
    np.testing.assert_array_equal(tensors["w"].numpy().astype(np.int8), data)
    save(load(tmp_path / "m.onnx"), tmp_path / "out.onnx")
    np.testing.assert_array_equal(values(tmp_path / "out.onnx")["w"].astype(np.int8), data)

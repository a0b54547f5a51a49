"""Files are written completely or not at all: unfinished files are removed, files being written are kept."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from passat.ir.onnx import save
from passat.ir.whole_file import UnfinishedFile, remove_unfinished, unfinished_folder, write_whole


def killed(path: Path) -> str:
    """Simulates a process that is killed while it writes a file: its descriptors are closed, and nothing else happens."""
    unfinished = UnfinishedFile(os.fspath(path))
    unfinished.write(b"half")
    assert unfinished.descriptor is not None
    os.close(unfinished.descriptor)
    return os.path.basename(unfinished.name)


def test_a_file_appears_whole(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", b"one")
    write_whole(tmp_path / "a", b"two" * 1000)
    assert (tmp_path / "a").read_bytes() == b"two" * 1000
    assert os.listdir(tmp_path) == ["a"]


def test_a_failed_write_names_the_file_and_keeps_it(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError, match="directory") as caught:
        write_whole(tmp_path / "a", b"")
    assert caught.value.filename == str(tmp_path / "a")
    assert os.listdir(tmp_path) == ["a"]
    with pytest.raises(FileNotFoundError) as missing:
        write_whole(tmp_path / "no" / "a", b"")
    assert missing.value.filename == str(tmp_path / "no" / "a")


def test_leftovers_of_killed_processes_are_removed_by_the_next_write(tmp_path: Path) -> None:
    left = killed(tmp_path / "a")
    (tmp_path / "a.data.12-3.part").touch()
    (tmp_path / "a.7.data.12-3.part").touch()
    others = ["a.part", "a.12.part", "b.12-3.part", "a.12-3.parts", "a.x-3.part"]
    for name in others:
        (tmp_path / name).touch()
    assert left in os.listdir(tmp_path)
    write_whole(tmp_path / "a", b"done")
    assert sorted(os.listdir(tmp_path)) == sorted(["a", *others])


def test_files_being_written_are_kept(tmp_path: Path) -> None:
    first = UnfinishedFile(os.fspath(tmp_path / "a"))
    first.write(b"first")
    write_whole(tmp_path / "a", b"second")
    assert os.path.exists(first.name)
    first.commit()
    first.close()
    assert (tmp_path / "a").read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["a"]


def test_a_link_that_is_called_so_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / "a.12-3.part").symlink_to(tmp_path / "mine")
    remove_unfinished(os.fspath(tmp_path / "a"))
    assert sorted(os.listdir(tmp_path)) == ["a.12-3.part", "mine"]


def test_unfinished_folders_go_too(tmp_path: Path) -> None:
    (tmp_path / "crash.12-3.part").mkdir()
    (tmp_path / "crash.12-3.part" / "file").touch()
    with unfinished_folder(os.fspath(tmp_path / "crash")) as folder:
        Path(folder, "file").write_text("whole")
        remove_unfinished(os.fspath(tmp_path / "crash"))
        os.rename(folder, tmp_path / "crash")
    with pytest.raises(ZeroDivisionError), unfinished_folder(os.fspath(tmp_path / "other")):
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == ["crash"]
    assert (tmp_path / "crash" / "file").read_text() == "whole"


def test_saving_a_model_removes_its_leftovers(tmp_path: Path) -> None:
    os.mkdir(tmp_path / "in")
    weight = np.ones((32, 32), np.float32)
    (tmp_path / "in" / "w").write_bytes(weight.tobytes())
    tensor = numpy_helper.from_array(weight, "w")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w")
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [32, 32]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", infos[:1], infos[1:], [tensor])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    out = tmp_path / "out.onnx"
    killed(out)
    killed(tmp_path / "out.onnx.data")
    save(model, out, folder=tmp_path / "in")
    assert sorted(os.listdir(tmp_path)) == ["in", "out.onnx", "out.onnx.data"]
    onnx.checker.check_model(str(out))

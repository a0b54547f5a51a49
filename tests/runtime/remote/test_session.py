"""Sessions with a server in this process: files, functions, modules, arrays and errors."""

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any as AnyValue

import numpy as np
import pytest

import passat
from passat import relay
from passat.contrib import graph_executor
from passat.ir.global_functions import register_func, remove_global_func
from passat.runtime import Module, cpu
from passat.runtime.remote import LocalSession, RemoteArray, RemoteError, RemoteFunction, RemoteModule, Server, Session


@pytest.fixture
def session() -> Iterator[Session]:
    with LocalSession() as made:
        yield made


@pytest.fixture
def functions() -> Iterator[None]:
    def fail(text: str) -> None:
        raise ValueError(text)

    made: dict[str, Callable[..., AnyValue]] = {
        "echo": lambda x, *_: x,
        "adder": lambda x: lambda y: x + y,
        "fail": fail,
        "zeros": lambda: passat.nd.array(np.zeros(3, "float32")),
        "sum": lambda array: float(array.numpy().sum()),
        "module": lambda: Module({"twice": lambda x: 2 * x}),
        "opaque": object,
        "double": lambda a, out: out.copyfrom(2 * a.numpy()),
    }
    for name, function in made.items():
        register_func(f"test.{name}", function)
    yield
    for name in made:
        remove_global_func(f"test.{name}")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    x, w = relay.var("x", shape=(1, 3)), relay.var("w", shape=(2, 3))
    mod = passat.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w) + relay.const(1.0)))
    path = tmp_path_factory.mktemp("library") / "lib.so"
    relay.build(mod, target="numpy", params={"w": np.ones((2, 3), "float32")}).export_library(path)
    return path


def test_files(session: Session, tmp_path: Path) -> None:
    session.upload(bytearray(b"abc"), "a.bin")
    (tmp_path / "b.bin").write_bytes(b"def")
    session.upload(tmp_path / "b.bin")
    session.upload(str(tmp_path / "b.bin"), "c.bin")
    assert [session.download(name) for name in ("a.bin", "b.bin", "c.bin")] == [bytearray(b"abc"), bytearray(b"def"), bytearray(b"def")]
    session.remove("a.bin")
    session.remove("a.bin")
    for request in (session.download, session.load_module):
        with pytest.raises(RemoteError, match=r"FileNotFoundError: there is no file 'a.bin' in the session's folder; upload it first$"):
            request("a.bin")
    with pytest.raises(ValueError, match="pass the name of the file"):
        session.upload(b"abc")


@pytest.mark.parametrize("name", ["", ".", "..", "../a", "/etc/passwd", "a/b", "a\\b", "a\0", "C:a", "a\n", "x" * 300])
def test_names_do_not_leave_the_folder(session: Session, name: str) -> None:
    for request in (session.download, session.remove, session.load_module, lambda each: session.request("upload", each, b"")):
        with pytest.raises(RemoteError, match="is not the name of a file in the session's folder"):
            request(name)


def test_the_folder_is_private_and_ends_with_the_session() -> None:
    server = Server()
    folder = server.path("a").parent
    with Session(server.answer, server.close) as session:
        session.upload(b"", "a")
        assert os.listdir(folder) == ["a"]
        assert folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()
    with pytest.raises(RemoteError, match="the session is closed"):
        session.download("a")
    session.close()


@pytest.mark.usefixtures("functions")
def test_functions(session: Session) -> None:
    echo = session.get_function("test.echo")
    for value in (1, "xyz", None, 2.5, b"123", (1, ("a", 2)), {"a": (1,)}, True):
        assert echo(value, 2) == value
    assert echo(session.cpu(1)) == cpu(1)
    added = session.get_function("test.adder")(10)
    assert isinstance(added, RemoteFunction)
    assert added(12) == 22
    assert echo(added)(1) == 11
    module = session.get_function("test.module")()
    assert isinstance(module, RemoteModule)
    assert (module["twice"](4), module(5)) == (8, 10)


@pytest.mark.usefixtures("functions")
def test_errors_have_their_texts(session: Session) -> None:
    with pytest.raises(RemoteError, match=r"^ValueError: a text$"):
        session.get_function("test.fail")("a text")
    with pytest.raises(RemoteError, match="Cannot find global function nothing"):
        session.get_function("nothing")
    with pytest.raises(RemoteError, match="a result of the type object cannot be sent"):
        session.get_function("test.opaque")()
    with pytest.raises(RemoteError, match="there is no operation 'close'"):
        session.request("close")
    echo = session.get_function("test.echo")
    for value in (passat.nd.array(np.ones(2)), len, Module({}), relay.const(1.0)):
        with pytest.raises(TypeError, match=r"session|cannot be sent"):
            echo(value)


@pytest.mark.usefixtures("functions")
def test_objects_of_another_session_are_rejected(session: Session) -> None:
    with LocalSession() as other:
        for value in (other.cpu(), passat.nd.array(np.ones(2), other.cpu()), other.get_function("test.echo")):
            with pytest.raises(TypeError, match="belongs to another session"):
                session.get_function("test.echo")(value)
        copied = passat.nd.array(np.ones(2), other.cpu()).copyto(session.cpu())
        assert session.get_function("test.sum")(copied) == 2


@pytest.mark.usefixtures("functions")
def test_arrays(session: Session) -> None:
    data = np.arange(6, dtype="float32").reshape(2, 3)
    array = passat.nd.array(data, session.cpu())
    assert isinstance(array, RemoteArray)
    assert str(array.device).startswith("remote")
    assert (array.shape, array.dtype, len(array)) == ((2, 3), "float32", 2)
    np.testing.assert_array_equal(array.numpy(), data)
    assert session.get_function("test.sum")(array) == 15
    out = passat.nd.empty((2, 3), device=session.cpu())
    session.get_function("test.double")(array, out)
    np.testing.assert_array_equal(out.numpy(), 2 * data)
    out[0] = 7
    out[1] = array[0]
    np.testing.assert_array_equal(out.numpy(), [[7, 7, 7], [0, 1, 2]])
    assert out.copyto(passat.nd.empty((2, 3))) == out
    scalar = passat.nd.array(np.float32(1), session.cpu())
    assert scalar.copyfrom(np.float32(2)).numpy() == 2
    with pytest.raises(ValueError, match="unsupported device cuda"):
        passat.nd.array(data, passat.nd.cuda())
    zeros = session.get_function("test.zeros")()
    assert (zeros.shape, repr(zeros)) == ((3,), "RemoteArray(float32[3])")


def test_objects_without_users_are_forgotten() -> None:
    server = Server()
    session = Session(server.answer, server.close)
    for _ in range(10):
        passat.nd.array(np.ones(4), session.cpu())
    gc.collect()
    session.upload(b"", "a")
    assert not server._objects
    session.close()


def test_modules(session: Session, library: Path, tmp_path: Path) -> None:
    session.upload(library)
    loaded = session.load_module("lib.so")
    module = graph_executor.GraphModule(loaded["default"](session.cpu()))
    x = np.array([[1, 2, 3]], "float32")
    module.set_input("x", x)
    module.run()
    output = module.get_output(0)
    assert isinstance(output, RemoteArray)
    np.testing.assert_array_equal(output.numpy(), [[7, 7]])
    module.run(x=passat.nd.array(2 * x))
    np.testing.assert_array_equal(module.get_output(0, passat.nd.empty((1, 2), device=session.cpu())).numpy(), [[13, 13]])
    assert module.get_input_index("x") >= 0
    assert len(module.benchmark(session.cpu(), repeat=2, number=1).results) == 2
    assert len(module.module.time_evaluator("run", session.cpu(), number=2, repeat=3)().results) == 3
    with pytest.raises(AttributeError, match="no function 'nothing'"):
        module["nothing"]
    with pytest.raises(ValueError, match="at least 1"):
        module.module.time_evaluator("run", number=0)
    with pytest.raises(RemoteError, match="cannot be added"):
        loaded["f"] = len


@pytest.mark.parametrize("content", [b"", b"\x80\x04c__builtin__\nexec\n", b"PK\x03\x04" + bytes(40)])
def test_only_libraries_are_loaded(session: Session, content: bytes) -> None:
    session.upload(content, "a.so")
    with pytest.raises(RemoteError, match="is not a library that export_library has written"):
        session.load_module("a.so")


def test_programs_of_this_process_do_not_run_on_remote_devices(session: Session, library: Path) -> None:
    module = passat.IRModule.from_expr(relay.Function([], relay.const(1.0)))
    with pytest.raises(RuntimeError, match="programs run on the CPU here, not on remote:cpu"):
        relay.build(module, target="numpy", executor="vm")["default"](session.cpu())
    with pytest.raises(ValueError, match="unsupported device remote:cpu"):
        relay.create_executor("graph", module, session.cpu())
    with pytest.raises(RuntimeError, match="graphs run on the CPU here, not on remote:cpu"):
        passat.runtime.load_module(library)["default"](session.cpu())


def test_a_server_that_replaces_another_does_not_know_its_objects() -> None:
    servers = [Server(), Server()]

    def send(request: bytes) -> bytes:
        return servers[0].answer(request)

    session = Session(send)
    array: AnyValue = passat.nd.array(np.ones(2), session.cpu())
    servers.pop(0).close()
    with pytest.raises(RemoteError, match="the server does not have this array"):
        array.numpy()
    servers[0].close()

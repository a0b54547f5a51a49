"""Kernels compute the values of ONNX Runtime, and are rejected in other models."""

import ctypes
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any as AnyValue

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

import passat
from passat.cli.app import app
from passat.ir.tir.function import PrimFunc
from passat.kernel_library import KernelsError, library_of, library_path
from passat.kernels import fusions, left_by_runtime, slower_groups, with_kernels
from passat.report import Timing
from passat.runner import CustomOpsError, custom_operators
from passat.runtime.kernels import CompilerError, NoCompilerError, build_library, compiler, fuse, library_source
from passat.runtime.kernels.emit_c import emit, name_of
from passat.runtime.kernels.fusing import key
from passat.verify import Comparing
from tests.runtime.kernels.running import COMMAND, SPECIAL, assert_same_bits, both, built_as_always, fused, model, own_session, session


@pytest.fixture(autouse=True)
def _libraries_are_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("passat.kernels.build_library", lambda source, command: built_as_always(source, tuple(command)))


WIDE = "g (float[A,B,C] x, float[D,E] y, float[F] z) => (float[G,H,I] r) { s = Add(x, y) r = Mul(s, z) }"
SHAPES = [
    ((2, 3, 4), (3, 4), (4,)), ((2, 3, 4), (1, 4), (1,)), ((2, 3, 1), (3, 4), (4,)), ((2, 1, 4), (3, 1), (1,)), ((1, 1, 1), (1, 1), (1,)),
    ((0, 3, 4), (3, 4), (4,)), ((2, 3, 1), (3, 0), (1,)), ((5, 1, 1), (1, 7), (1,)), ((2, 3, 4), (3, 1), (4,)), ((1, 300, 1), (300, 40000 // 300), (1,)),
]  # fmt: skip


def test_broadcasting_is_of_the_sizes_at_run_time(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    # The shape of s has no names in common with that of r, so only all of the same static shape would be one kernel.
    text = WIDE.replace("{ s", "<float one = {1}> { s").replace("r = Mul(s, z)", "t = Mul(s, one) u = Mul(z, one) v = Neg(u) r = Mul(t, v)")
    feeds = [{n: random.standard_normal(s, np.float32) for n, s in zip("xyz", shapes, strict=True)} for shapes in SHAPES]
    proto = model(text)
    assert fuse(proto, set()) is None
    fixed = [
        text.replace("[A,B,C]", str(list(x)).replace(" ", "")).replace("[D,E]", str(list(y)).replace(" ", "")).replace("[F]", str(list(z)))
        for x, y, z in SHAPES
    ]
    for each, feed in zip(fixed, feeds, strict=True):
        proto = model(each)
        assert_same_bits(session(proto).run(None, feed)[0], own_session(proto, tmp_path, kernels=None).run(None, feed)[0])


def test_values_of_unknown_sizes_within_a_kernel_broadcast(tmp_path: Path) -> None:
    """As in rotary positions of exports with dynamic sizes: only the last result has a known name for its size."""
    text = "g (float[B,S,4] x, float[T,4] c, float[T,4] s) => (float[B,U,4] r) { a = Mul(x, c) n = Neg(x) b = Mul(n, s) d = Add(a, b) r = Abs(d) }"
    random = np.random.default_rng(0)
    feeds: list[dict[str, AnyValue]] = []
    for size, other in ((3, 3), (3, 1), (1, 3), (1, 1), (0, 1)):
        x, c, s = (random.standard_normal(shape, np.float32) for shape in ((2, size, 4), (other, 4), (other, 4)))
        feeds.append({"x": x, "c": c, "s": s})
    proto = model(text)
    plain, own = session(proto), own_session(proto, tmp_path, kernels=None)
    for feed in feeds:
        assert_same_bits(plain.run(None, feed)[0], own.run(None, feed)[0])
    assert fused(proto).nodes == 5


@pytest.mark.parametrize("others", [1, 2, 4])
def test_each_way_of_broadcasting_along_a_row(others: int, tmp_path: Path) -> None:
    names = [f"a{number}" for number in range(others)]
    declared = ", ".join(f"float[P{number},Q{number}] {name}" for number, name in enumerate(names))
    # x has the shape of all results, which is declared, since no size of the others is known
    steps = " ".join(f"t{number + 1} = Add(t{number}, {name})" for number, name in enumerate(names))
    text = f"g (float[N,M] x, {declared}) => (float[N,M] r) <{', '.join(f'float[N,M] t{k}' for k in range(others + 1))}> {{ t0 = Neg(x) {steps} r = Abs(t{others}) }}"
    random = np.random.default_rng(0)
    feeds = []
    for n, m in ((3, 5), (1, 1), (0, 5), (3, 0), (40, 1000), (2, 40_000)):
        for mask in range(1 << others):
            feed = {"x": random.standard_normal((n, m), np.float32)}
            for number, name in enumerate(names):
                feed[name] = random.standard_normal((n, m) if mask >> number & 1 else (n, 1) if number % 2 else (1, 1), np.float32)
            feeds.append(feed)
    for one, other in both(text, tmp_path, feeds, threads=2):
        assert_same_bits(one, other)


def test_shapes_that_do_not_broadcast_are_an_error(tmp_path: Path) -> None:
    proto = model("g (float[N] x, float[M] y) => (float[N] r) <float[N] s> { s = Add(x, y) r = Neg(s) }")
    with pytest.raises(Exception, match="shapes do not broadcast"):
        own_session(proto, tmp_path).run(None, {"x": np.ones(2, np.float32), "y": np.ones(3, np.float32)})


def test_values_that_others_use_are_outputs(tmp_path: Path) -> None:
    text = "g (float[N] x) => (float[N] r, float[N] s) { s = Neg(x) t = Abs(s) u = Sqrt(t) r = Mul(u, t) }"
    for output in (0, 1):
        [(one, other)] = both(text, tmp_path, [{"x": SPECIAL}], output=output)
        assert_same_bits(one, other)
    assert [node.op_type for node in fused(model(text)).model.graph.node] == ["Kernel0"]


def test_a_kernel_has_the_metadata_of_the_node_whose_value_it_computes() -> None:
    proto = model("g (float[N] x) => (float[N] r) { [first] s = Neg(x) [last] r = Abs(s) }")
    for node in proto.graph.node:
        node.metadata_props.add(key="namespace", value=node.name)
    (node,) = fused(proto).model.graph.node
    assert [(entry.key, entry.value) for entry in node.metadata_props] == [("namespace", "last")]


def test_a_value_that_leads_around_a_kernel_stays_outside(tmp_path: Path) -> None:
    """No kernel needs its own output."""
    text = "g (float[N] x) => (float[N] r) { s = Neg(x) t = Abs(s) p = CumSum(t, axis) u = Sqrt(t) r = Mul(u, p) }".replace(
        "{ s", "<int64 axis = {0}> { s"
    )
    [(one, other)] = both(text, tmp_path, [{"x": np.linspace(-3, 3, 20, dtype=np.float32)}], kernels=2)
    assert_same_bits(one, other)


def test_a_kernel_stands_after_what_it_reads(tmp_path: Path) -> None:
    """Its nodes need not be together, and others may read an early value of it."""
    text = (
        "g (float[N] x) => (float[N] r, float[N] q) <int64 axis = {0}> "
        "{ s = Neg(x) t = Abs(s) q = CumSum(t, axis) p = CumSum(x, axis) u = Sqrt(t) r = Mul(u, p) }"
    )
    for output in (0, 1):
        [(one, other)] = both(text, tmp_path, [{"x": np.linspace(-3, 3, 20, dtype=np.float32)}], output=output)
        assert_same_bits(one, other)


def test_what_is_not_left_has_no_kernel() -> None:
    proto = model("g (float[N] x) => (float[N] r) { s = Neg(x) r = Abs(s) }")
    assert fuse(proto, {key(proto.graph.node[0])}) is None


def test_memory_of_the_caller_may_be_misaligned_or_of_negative_strides(tmp_path: Path) -> None:
    proto = model("g (float[N] x) => (float[N] r) { s = Neg(x) r = Exp(s) }")
    own, plain = own_session(proto, tmp_path), session(proto)
    x = np.linspace(-3, 3, 1001, dtype=np.float32)
    misaligned = np.frombuffer(b"!" + x.tobytes(), np.float32, offset=1)
    for given in (misaligned, x[::-1], x[::3]):
        np.testing.assert_allclose(own.run(None, {"x": given})[0], plain.run(None, {"x": np.array(given)})[0], rtol=1e-6)


def test_names_of_a_model_do_not_reach_the_source() -> None:
    proto = model("g (float[N] x) => (float[N] r) { s = Neg(x) r = Abs(s) }")
    for node in proto.graph.node:
        node.name = '"; evil(); //'
    proto.graph.input[0].name = proto.graph.node[0].input[0] = '*/ evil() /*"'
    found = fused(proto)
    assert "evil" not in library_source(found.kernels, found.domain)


def test_the_library_of_another_model_is_rejected(tmp_path: Path) -> None:
    one = fused(model("g (float[N] x) => (float[N] r) { s = Neg(x) r = Abs(s) }"))
    other = fused(model("h (float[N] x) => (float[N] r) { s = Abs(x) r = Neg(s) }"))
    library = tmp_path / "k.so"
    library.write_bytes(built_as_always(library_source(other.kernels, other.domain)))
    with pytest.raises(Exception, match=one.domain):
        session(one.model, library)


def test_an_older_onnx_runtime_is_an_error_that_names_the_version(tmp_path: Path) -> None:
    """It has no table of functions of version 17; that of version 1 begins with the function that makes errors."""
    said: list[bytes] = []

    def status(code: int, text: bytes) -> int:
        said.append(text)
        return 1

    make_status = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)(status)
    table = (ctypes.c_void_p * 1)(ctypes.cast(make_status, ctypes.c_void_p))
    get_api = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(lambda version: ctypes.addressof(table) if version == 1 else None)
    base = (ctypes.c_void_p * 2)(ctypes.cast(get_api, ctypes.c_void_p), None)
    found = fused(model("h (float[N] x) => (float[N] r) { s = Abs(x) r = Neg(s) }"))
    library = tmp_path / "k.so"
    library.write_bytes(built_as_always(library_source(found.kernels, found.domain)))
    register = ctypes.CDLL(str(library)).RegisterCustomOps
    register.restype = ctypes.c_void_p
    assert register(None, base)
    assert said == [b"this library of Passat kernels needs ONNX Runtime 1.17 or later"]


def test_places_beyond_two_to_the_31(tmp_path: Path) -> None:
    """The system keeps no memory for the zeros, which are only read."""
    text = "g (int8[B,N] x) => (int32[B,1] r) <int64[1] a = {1}> { s = Neg(x) t = Cast<to = 6>(s) r = ReduceSum<keepdims = 1>(t, a) }"
    x = np.zeros((1, (1 << 31) + 64), np.int8)
    x[0, [0, -1]] = 3, 5
    [found] = own_session(model(text), tmp_path).run(None, {"x": x})
    assert found.tolist() == [[-8]]


def test_no_compiler_is_one_sentence_with_two_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("passat.runtime.kernels.toolchain.shutil.which", lambda name: None)
    monkeypatch.setattr("passat.runtime.kernels.toolchain.find_spec", lambda name: None)
    with pytest.raises(NoCompilerError, match=r"install one as cc, or pip install 'passat\[kernels\]'"):
        compiler()


def test_a_compiler_that_cc_names_wrongly_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -pipe")
    with pytest.raises(NoCompilerError, match="CC names the C compiler no-such-compiler, which is not found: correct or unset it"):
        compiler()
    monkeypatch.setenv("CC", "gcc '")
    with pytest.raises(NoCompilerError, match="CC is not a command: No closing quotation; correct or unset it"):
        compiler()


def test_the_library_compiles_without_warnings() -> None:
    """Status variables of the TRY macro were once initialized with themselves, which crashed if clang compiled the library."""
    made = fused(model("h (float[N] x) => (float[N] r) { s = Exp(x) r = Neg(s) }"))
    warnings = ["-Wall", "-Wextra", "-Winit-self", "-Wno-unused-parameter", "-Wno-unused-function", "-Werror"]
    assert build_library(library_source(made.kernels, made.domain), [*COMMAND, *warnings])


def test_a_compiler_that_fails_says_its_first_error() -> None:
    with pytest.raises(CompilerError, match="error: "):
        build_library("int f(void) { return 0; }\nnonsense;;\n#error second", [shutil.which("cc") or COMMAND[0], *COMMAND[1:], "-Werror"])


CHAIN = "g (float[N,64] x, float[64] b) => (float[N,64] r) <float h = {0.5}> { s = Mul(x, h) t = Add(s, b) u = Abs(t) v = Sqrt(u) r = Sub(v, s) }"

TWO = (
    "g (float[N,64] x, float[64,64] w) => (float[N,64] r) <float h = {0.5}> "
    "{ s = Mul(x, h) t = Abs(s) p = MatMul(t, w) u = Neg(p) r = Sqrt(u) }"
)


def kernels_win(
    original: object, nodes: int, candidates: Sequence[AnyValue], folder: object, how: object, threads: int
) -> tuple[list[Timing], int | None]:
    return [Timing("the input", 2.0), Timing("with kernels", 1.0)], 0


@pytest.fixture(scope="module")
def written_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model with kernels, written, whichever is faster."""
    folder = tmp_path_factory.mktemp("written")
    onnx.save(model(CHAIN), folder / "in.onnx")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("passat.kernels.race", kernels_win)
        done = CliRunner().invoke(app, ["optimize", str(folder / "in.onnx"), "-o", str(folder / "out.onnx"), "--kernels"])
    assert done.exit_code == 0, done.output
    assert "kernels: the model is 2.00 times as fast" in done.output
    return folder


@pytest.fixture
def written(written_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that model, for a test that changes it or writes it again."""
    monkeypatch.setattr("passat.kernels.race", kernels_win)
    shutil.copytree(written_once, tmp_path, dirs_exist_ok=True)
    return tmp_path / "out.onnx"


def test_run_finds_the_library(written: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    feed: dict[str, AnyValue] = {"x": random.standard_normal((700, 64), np.float32), "b": random.standard_normal(64, np.float32)}
    np.savez(tmp_path / "in.npz", **feed)
    done = CliRunner().invoke(app, ["run", str(written), "--inputs", str(tmp_path / "in.npz"), "-o", str(tmp_path / "out.npz")])
    assert done.exit_code == 0, done.output
    assert "r: float32[700, 64]" in done.output
    with np.load(tmp_path / "out.npz") as found:
        assert_same_bits(session(model(CHAIN)).run(None, feed)[0], found["r"])


def test_run_registers_given_libraries(written: Path, tmp_path: Path) -> None:
    """As for a model with custom operators of the user's, which does not name its library."""
    plain = onnx.load(written)
    del plain.metadata_props[:]
    onnx.save(plain, tmp_path / "plain.onnx")
    command = ["run", str(tmp_path / "plain.onnx"), "--custom-ops"]
    done = CliRunner().invoke(app, [*command, str(library_path(written))])
    assert done.exit_code == 0, done.output
    assert "r: float32[" in done.output
    done = CliRunner().invoke(app, [*command, "no.so"])
    assert (done.exit_code, "no.so" in " ".join(done.output.split())) == (1, True)


def test_other_commands_say_that_the_library_is_needed(written: Path) -> None:
    given = ["--custom-ops", str(library_path(written))]
    done = CliRunner().invoke(app, ["inspect", str(written)])
    assert "the model needs its library of kernels: --custom-ops" in " ".join(done.output.split())
    assert "it is a native kernel of the library beside the model" in " ".join(done.output.split())
    assert "needs its library" not in CliRunner().invoke(app, ["inspect", str(written), *given]).output
    done = CliRunner().invoke(app, ["profile", str(written.with_name("in.onnx")), str(written)])
    assert (done.exit_code, "the model needs its library of kernels" in " ".join(done.output.split())) == (1, True)


def test_a_changed_or_missing_library_is_rejected(written: Path) -> None:
    library = library_path(written)
    assert library_of(written) == [str(library)]
    library.write_bytes(library.read_bytes() + b"x")
    with pytest.raises(KernelsError, match="is not the kernel library"):
        library_of(written)
    library.unlink()
    done = CliRunner().invoke(app, ["run", str(written)])
    assert done.exit_code == 1
    assert "needs its kernel library" in done.output


def test_run_takes_the_library_of_the_model_from_elsewhere(written: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    copy = library_path(written).rename(tmp_path / "elsewhere" / "lib.so")
    done = CliRunner().invoke(app, ["run", str(written), "--custom-ops", str(copy)])
    assert done.exit_code == 0, done.output
    assert "r: float32[" in done.output
    library_path(written).write_bytes(b"another one")
    assert library_of(written, [copy]) == [str(copy)]
    for given in ([], [written]):
        with pytest.raises(KernelsError, match=r"is not the kernel library .*, and --custom-ops names no copy of it"):
            library_of(written, given)
    library_path(written).unlink()
    with pytest.raises(KernelsError, match="which does not exist, and --custom-ops names no copy of it"):
        library_of(written, ["missing.so"])


def test_a_compiler_that_fails_leaves_the_model_without_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("passat.kernels.compiler", lambda: ["false"])
    result = passat.optimize(model(CHAIN), kernels=True)
    assert any(remark.startswith("kernels: none were made: the C compiler false failed") for remark in result.report.remarks)
    result.save(tmp_path / "out.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["out.onnx"]


def test_a_model_without_chains_has_nothing_to_gain() -> None:
    result = passat.optimize(model("g (float[4,4] x) => (float[4,4] r) { r = MatMul(x, x) }"), kernels=True)
    assert any(remark.startswith("kernels: nothing to gain") for remark in result.report.remarks)


def without_compiler() -> list[str]:
    raise NoCompilerError("kernels need a C compiler")


def test_a_model_without_chains_needs_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("passat.kernels.compiler", without_compiler)
    result = passat.optimize(model("g (float[4,4] x) => (float[4,4] r) { r = MatMul(x, x) }"), kernels=True)
    assert any(remark.startswith("kernels: nothing to gain") for remark in result.report.remarks)
    onnx.save(model(CHAIN), tmp_path / "in.onnx")
    done = CliRunner().invoke(app, ["optimize", str(tmp_path / "in.onnx"), "-o", str(tmp_path / "out.onnx"), "--kernels"])
    assert (done.exit_code, "error: kernels need a C compiler" in done.output) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["in.onnx"]


@pytest.mark.parametrize("verify", [True, False])
def test_kernels_alone_change_the_model_and_are_verified(verify: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report once said that the input is returned, so that there is nothing to compare."""
    monkeypatch.setattr("passat.kernels.race", kernels_win)
    monkeypatch.setattr("passat.kernels.slower_groups", lambda *arguments: set())
    result = passat.optimize(model(CHAIN), passes="FoldConstant", kernels=True, verify=verify)
    assert result.report.verification is not None
    assert result.report.verification.equal
    assert not result.report.kept
    text = str(result.report)
    assert "the input is returned" not in text
    assert "kernels: added to the input itself: no pass changed anything" in text
    assert "verified on ONNX Runtime: the same values" in text
    assert str(result) == "<Result: 5 nodes became 1, with kernels, verified>"


@pytest.mark.parametrize("verify", [True, False])
def test_kernels_after_passes_are_compared_with_the_model_without_them(verify: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("passat.kernels.race", kernels_win)
    monkeypatch.setattr("passat.kernels.slower_groups", lambda *arguments: set())
    text = CHAIN.replace("r = Sub(v, s)", "w = Identity(v) r = Sub(w, s)")
    result = passat.optimize(model(text), kernels=True, verify=verify)
    assert (result.report.verification is not None) == verify
    said = " ".join(str(result.report).split())
    assert "kernels: compared with the model without them: the same values" in said
    assert ("verified on ONNX Runtime" if verify else "verification: switched off") in said
    assert str(result) == f"<Result: 6 nodes became 1, with kernels{', verified' if verify else ''}>"


@pytest.mark.parametrize(("text", "said"), [(CHAIN, "the only kernel"), (TWO, "each of the 2 kernels")])
def test_kernels_that_are_all_slower_are_counted(text: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("passat.kernels.slower_groups", lambda proto, kernels, *rest: {tuple(group.nodes) for group in kernels.groups})
    assert with_kernels(model(text), 5, None, Comparing()).said == f"kernels: nothing to gain, ONNX Runtime is as fast as {said}"


def test_kernels_cannot_be_certified() -> None:
    with pytest.raises(ValueError, match="cannot be explained or certified"):
        passat.optimize(model(CHAIN), kernels=True, certificate=True)


def test_a_library_for_another_processor_is_rejected(written: Path) -> None:
    proto = onnx.load(written)
    next(entry for entry in proto.metadata_props if entry.key == "passat.kernels.for").value = "Linux riscv64"
    onnx.save(proto, written)
    with pytest.raises(KernelsError, match="was made for Linux riscv64"):
        library_of(written)


def test_a_model_without_kernels_removes_the_library_of_an_earlier_one(written: Path) -> None:
    assert library_path(written).is_file()
    passat.optimize(model(CHAIN)).save(written)
    assert not library_path(written).is_file()
    library_path(written).write_bytes(b"something else")
    passat.optimize(model(CHAIN)).save(written)
    assert library_path(written).is_file()


def test_a_model_with_kernels_keeps_its_library(written: Path) -> None:
    """Also if it replaces itself, or its library is elsewhere."""
    library = library_path(written).read_bytes()
    passat.optimize(written).save(written)
    assert library_path(written).read_bytes() == library
    again = written.with_name("again.onnx")
    done = CliRunner().invoke(app, ["optimize", str(written), "-o", str(again), "--kernels"])
    assert done.exit_code == 0, done.output
    assert "kernels: none were made: the model has kernels already" in " ".join(done.output.split())
    assert library_of(again) == [str(library_path(again))]
    passat.optimize(onnx.load(written)).save(written)
    assert library_path(written).read_bytes() == library


@pytest.mark.parametrize("slow_threads", [1, 0])
def test_kernels_that_are_slower_than_their_nodes_are_left_out(slow_threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On one thread, or with all."""

    def times(models: Sequence[onnx.ModelProto], folder: object, how: object, threads: int) -> list[dict[str, float]]:
        plain = {node.name: 1.0 for node in models[0].graph.node}
        slow = threads == slow_threads
        return [plain, {node.name: 2.5 if slow and node.op_type == "Kernel1" else 1.0 for node in models[1].graph.node}]

    monkeypatch.setattr("passat.kernels.settings_of_threads", lambda: (1, 0))
    monkeypatch.setattr("passat.kernels.node_times", times)
    monkeypatch.setattr("passat.kernels.race", kernels_win)
    found = with_kernels(model(TWO), 5, None, Comparing())
    assert found.model is not None
    assert [node.op_type for node in found.model.graph.node] == ["Mul", "Abs", "MatMul", "Kernel0"]
    assert "2 nodes became 1 kernel)" in found.said


def test_kernels_must_be_faster_on_one_thread_and_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_thread_wins(
        original: object, nodes: int, candidates: Sequence[AnyValue], folder: object, how: object, threads: int
    ) -> tuple[list[Timing], int | None]:
        return [Timing("the input", 2.0), Timing("with kernels", 1.0 if threads == 1 else 2.5)], 0 if threads == 1 else None

    monkeypatch.setattr("passat.kernels.settings_of_threads", lambda: (1, 0))
    monkeypatch.setattr("passat.kernels.slower_groups", lambda *arguments: set())
    monkeypatch.setattr("passat.kernels.race", one_thread_wins)
    found = with_kernels(model(TWO), 5, None, Comparing())
    assert found.model is None
    assert "nothing to gain, the model takes 2 s with" in found.said
    assert "threads, and 2.5 s with kernels" in found.said


def test_a_kernel_that_does_not_compile_is_dropped_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoiled(function: PrimFunc) -> str:
        return "static void broken(;" if name_of(function).startswith("Kernel1_") else emit(function)

    monkeypatch.setattr("passat.runtime.kernels.library.emit", spoiled)
    monkeypatch.setattr("passat.kernels.slower_groups", lambda *arguments: set())
    monkeypatch.setattr("passat.kernels.race", kernels_win)
    found = with_kernels(model(TWO), 5, None, Comparing())
    assert found.model is not None
    assert "2 nodes became 1 kernel; 1 of 2 kernels dropped, the C compiler" in found.said


def test_a_kernel_with_wrong_values_is_dropped_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoiled(function: PrimFunc) -> str:
        text = emit(function)
        return text.replace("k_abs_float32", "k_neg_float32") if name_of(function).startswith("Kernel1_") else text

    monkeypatch.setattr("passat.runtime.kernels.library.emit", spoiled)
    monkeypatch.setattr("passat.kernels.slower_groups", lambda *arguments: set())
    monkeypatch.setattr("passat.kernels.race", kernels_win)
    found = with_kernels(model(TWO), 5, None, Comparing())
    assert found.model is not None
    assert [node.op_type for node in found.model.graph.node] == ["Mul", "Abs", "MatMul", "Kernel0"]
    assert "1 of 2 kernels dropped, since the results would differ from those of the model: the output 'r'" in found.said


def test_a_kernel_that_prevents_a_fusion_is_dropped_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("passat.kernels.slower_groups", lambda *arguments: set())
    monkeypatch.setattr("passat.kernels.race", kernels_win)

    def left(proto: onnx.ModelProto, folder: str | None) -> AnyValue:
        found = left_by_runtime(proto, folder)
        if not any(node.op_type == "Kernel1" for node in proto.graph.node):
            found["com.microsoft", "Fused", (), ()] = 1
        return found

    monkeypatch.setattr("passat.kernels.left_by_runtime", left)
    found = with_kernels(model(TWO), 5, None, Comparing())
    assert found.model is not None
    assert "2 nodes became 1 kernel; 1 of 2 kernels dropped, since ONNX Runtime would not create Fused" in found.said


def test_kernels_have_declared_shapes_so_that_onnx_runtime_fuses_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime creates BiasGelu only if it knows the shape of its input."""
    monkeypatch.setattr("passat.kernels.slower_groups", lambda *arguments: set())
    monkeypatch.setattr("passat.kernels.race", kernels_win)
    proto = onnx.load(Path(__file__).parents[3] / "examples/models/bert_tiny.onnx")
    assert fusions(left_by_runtime(proto, None))["BiasGelu"] == 2
    found = with_kernels(proto, 1, None, Comparing())
    assert found.model is not None
    assert "dropped" not in found.said


def test_nodes_in_blocked_layouts_are_left_to_onnx_runtime() -> None:
    """It computes the sum and Relu with the second convolution, if the processor has kernels for such layouts."""
    text = "g (float[1,16,8,8] x, float[1,16,8,8] z) => (float[1,16,8,8] r) { c = Conv(x, w) d = Conv(c, w) s = Add(d, c) t = Relu(s) r = Conv(t, w) }"
    proto = model(text)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((16, 16, 1, 1), np.float32), "w"))
    left = left_by_runtime(proto, None)
    if not any(domain.endswith("nchwc") for domain, *_ in left):
        pytest.skip("ONNX Runtime has no blocked layouts on this processor")
    assert fuse(proto, left.keys()) is None
    assert "ReorderInput" not in fusions(left)


def test_each_kernel_is_timed_within_the_model(tmp_path: Path) -> None:
    proto = model(TWO)
    found = fused(proto)
    groups = {tuple(group.nodes) for group in found.groups}
    assert groups == {(0, 1), (3, 4)}
    library = tmp_path / "k.so"
    library.write_bytes(build_library(library_source(found.kernels, found.domain), COMMAND))
    with custom_operators([library]):
        assert slower_groups(proto, found, None, Comparing()) <= groups


def test_a_damaged_library_is_an_error_and_no_crash(tmp_path: Path) -> None:
    """Loading it ends the process."""
    kernels = fused(model("g (float[N] x) => (float[N] r) { s = Neg(x) r = Abs(s) }"))
    library = built_as_always(library_source(kernels.kernels, kernels.domain))
    path = tmp_path / "half.so"
    path.write_bytes(library[: len(library) // 2])
    with pytest.raises(CustomOpsError, match=r"half\.so is damaged, or is no library of custom operators"), custom_operators([path]):
        pass

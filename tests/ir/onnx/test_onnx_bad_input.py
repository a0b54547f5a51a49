"""Messages about bad input are one clear sentence that names the file, the node, the operator and the defect."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper

from passat import optimize
from passat.ir.counting import counted
from passat.ir.expr import Constant, Function, GlobalVar, RefCreate, RefRead, Var, var
from passat.ir.module import IRModule
from passat.ir.onnx import OnnxError, check, from_onnx, load, read_model, save, to_onnx
from passat.ir.traverse import post_order
from passat.runner import Runner
from tests.share import share

Parse = Callable[..., ModelProto]


def message(action: Callable[[], object]) -> str:
    with pytest.raises(OnnxError) as found:
        action()
    text = str(found.value)
    assert "\n" not in text
    return text


def test_no_such_file(tmp_path: Path) -> None:
    assert message(lambda: load(tmp_path / "none.onnx")) == f"{tmp_path}/none.onnx cannot be read: No such file or directory"


def test_a_folder(tmp_path: Path) -> None:
    assert message(lambda: load(tmp_path)) == f"{tmp_path} cannot be read: Is a directory"


@pytest.mark.parametrize("content", [b"hello, this is not a model", b"PK\x03\x04zip", b"\xff" * 100, b"{}"])
def test_not_onnx(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    assert f"{path} is not an ONNX model" in message(lambda: load(path))


def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.touch()
    assert message(lambda: load(path)) == f"{path} is not an ONNX model: it is empty"


def test_truncated(tmp_path: Path, parse: Parse) -> None:
    path = tmp_path / "m.onnx"
    content = parse("g (float[2] x) => (float[2] y) { y = Relu(x) }").SerializeToString()
    path.write_bytes(content[:-10])
    assert message(lambda: load(path)) == f"{path} is not an ONNX model, or is truncated: it does not parse as protobuf"


def test_a_model_without_a_graph(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(ModelProto(ir_version=8).SerializeToString())
    assert message(lambda: read_model(path)) == f"{path} is not an ONNX model: it has no graph"


@pytest.mark.parametrize("version", [99, 0])
def test_an_unknown_opset(version: int, parse: Parse) -> None:
    model = parse("g (float[2] x) => (float[2] y) { y = Relu(x) }", opset=version)
    text = message(lambda: from_onnx(model))
    assert text.startswith(
        f"the model uses version {version} of the ONNX operators; the installed onnx {onnx.__version__} supports versions 1 to "
    )
    assert "export the model for an older version" in text


@pytest.mark.parametrize("version", [1 << 31, 1 << 40, -1, -(1 << 40)])
def test_a_version_of_another_domain_that_is_out_of_range(version: int, parse: Parse) -> None:
    """The onnx package takes 32 bits."""
    model = parse("g (float[2] x) => (float[2] y) { z = com.microsoft.Gelu(x)  y = Relu(z) }", opset=17)
    model.opset_import.add(domain="com.microsoft", version=version)
    assert [node.op_type for node in to_onnx(from_onnx(model)).graph.node] == ["Gelu", "Relu"]


def test_no_ir_version(parse: Parse) -> None:
    model = parse("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    model.ClearField("ir_version")
    assert message(lambda: from_onnx(model)).startswith("the model has no IR version (`model.ir_version`)")


@pytest.mark.parametrize("version", [99, -1])
def test_an_unknown_ir_version(version: int, parse: Parse) -> None:
    model = parse("g (float[2] x) => (float[2] y) { y = Relu(x) }", ir=version)
    assert f"the model has IR version {version}; the installed onnx" in message(lambda: from_onnx(model))


def test_a_cycle(parse: Parse) -> None:
    model = parse("g (float[2] x) => (float[2] y) { a = Add(x, c)\n b = Neg(a)\n c = Relu(b)\n y = Exp(c) }")
    for node, name in zip(model.graph.node, "pqrs", strict=True):
        node.name = name
    assert message(lambda: from_onnx(model)) == (
        "the graph has a cycle: node 'p' (Add) reads from node 'r' (Relu) reads from node 'q' (Neg) reads from node 'p' (Add)"
    )


def test_a_long_cycle_is_shortened(parse: Parse) -> None:
    steps = "\n".join(f" v{i} = Neg(v{(i - 1) % 20})" for i in range(20))
    text = message(lambda: from_onnx(parse(f"g (float[2] x) => (float[2] v0) {{\n{steps}\n}}")))
    assert "... 12 more ..." in text


def test_a_cycle_through_a_subgraph(parse: Parse) -> None:
    model = parse(
        """g (bool c, float[2] x) => (float[2] y) {
            a = If (c) <
                then_branch = yes () => (float[2] p) { p = Neg(b) },
                else_branch = no () => (float[2] q) { q = Neg(x) }
            >
            b = Relu(a)
            y = Exp(b)
        }"""
    )
    assert "the graph has a cycle" in message(lambda: from_onnx(model))


def test_nodes_that_are_not_sorted_are_sorted(parse: Parse) -> None:
    model = parse("g (float[2] x) => (float[2] y) { y = Exp(b)\n b = Neg(a)\n a = Relu(x) }")
    out = to_onnx(from_onnx(model))
    onnx.checker.check_model(out)
    assert [node.op_type for node in out.graph.node] == ["Relu", "Neg", "Exp"]


def test_a_name_that_nothing_makes(parse: Parse) -> None:
    model = parse("g (float[2] x) => (float[2] y) { y = Add(x, ghost) }")
    model.graph.node[0].name = "sum"
    assert message(lambda: from_onnx(model)) == "node 'sum' (Add) reads 'ghost', which is not defined"


def test_a_name_inside_a_subgraph_that_nothing_makes(parse: Parse) -> None:
    model = parse(
        """g (bool c, float[2] x) => (float[2] y) {
            y = If (c) <
                then_branch = yes () => (float[2] p) { p = Neg(ghost) },
                else_branch = no () => (float[2] q) { q = Neg(x) }
            >
        }"""
    )
    assert message(lambda: from_onnx(model)) == "the Neg node that produces 'p' reads 'ghost', which is not defined"


def test_an_output_that_nothing_makes(parse: Parse) -> None:
    model = parse("g (float[2] x) => (float[2] y, float[2] ghost) { y = Relu(x) }")
    assert message(lambda: from_onnx(model)) == "the list of outputs reads 'ghost', which is not defined"


def test_two_values_of_one_name(parse: Parse) -> None:
    model = parse("g (float[2] x) => (float[2] y) { y = Relu(x)\n y = Neg(x) }")
    assert message(lambda: from_onnx(model)) == "the Neg node that produces 'y' produces 'y', which is the name of another value"


def test_two_inputs_of_one_name(parse: Parse) -> None:
    model = parse("g (float[2] x, float[2] x) => (float[2] y) { y = Relu(x) }")
    assert message(lambda: from_onnx(model)) == "two values have the name 'x'"


@pytest.mark.parametrize(
    ("node", "shown"),
    [
        ("MatMul(x, z)", "the MatMul node that produces 'y' does not accept operands of types float32[2, 3], float32[4, 5]: "),
        ("Add(x, z)", "the Add node that produces 'y' does not accept operands of types float32[2, 3], float32[4, 5]: "),
        ("Conv(x, z)", "the Conv node that produces 'y' does not accept operands of types float32[2, 3], float32[4, 5]: "),
        ("Transpose<perm = [0, 1, 2]>(x)", "the Transpose node that produces 'y' does not accept operands of types float32[2, 3]: "),
    ],
)
def test_shapes_that_contradict_each_other(node: str, shown: str, parse: Parse) -> None:
    model = parse(f"g (float[2, 3] x, float[4, 5] z) => (float[N, M] y) {{ y = {node} }}")
    text = message(lambda: from_onnx(model))
    assert text.startswith(shown)
    assert len(text) > len(shown)


def test_an_output_with_another_declared_element_type(parse: Parse) -> None:
    model = parse("g (float[2, 3] x) => (int64[2, 3] y) { y = Relu(x) }")
    text = "'y' is declared as int64[2, 3], but the Relu node that produces 'y' returns float32[2, 3]"
    assert message(lambda: from_onnx(model)) == text


def test_a_domain_that_is_not_imported(parse: Parse) -> None:
    model = parse("g (float[2] x) => (float[2] y) { y = com.example.Thing(x) }")
    assert "of the operator domain 'com.example', which the model does not import" in message(lambda: from_onnx(model))


def test_a_tensor_of_an_unknown_type(parse: Parse) -> None:
    model = parse("g (float[2] x) => (float[2] y) { y = Add(x, w) }")
    model.graph.initializer.append(TensorProto(name="w", data_type=77, dims=[2], raw_data=b"\0\0\0\0"))
    assert message(lambda: from_onnx(model)) == "the tensor 'w' has the unknown element type 77"


def test_errors_of_a_file_begin_with_its_name(tmp_path: Path, parse: Parse) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(parse("g (float[2] x) => (float[2] y) { y = Add(x, ghost) }").SerializeToString())
    assert message(lambda: load(path)).startswith(f"{path}: ")


def test_the_checkers_complaint_is_an_error(parse: Parse, tmp_path: Path) -> None:
    model = parse("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    model.graph.node[0].attribute.append(helper.make_attribute("slope", 1.0))
    assert message(lambda: check(model)).startswith("onnx.checker does not accept the model: ")
    message(lambda: save(model, tmp_path / "m.onnx"))
    assert not list(tmp_path.iterdir())


def test_attributes_of_the_wrong_kind(parse: Parse) -> None:
    model = parse("g (float[1, 1, 4, 4] x) => (float[1, 1, 2, 2] y) { y = MaxPool<kernel_shape = [3, 3]>(x) }")
    model.graph.node[0].attribute[0].CopyFrom(helper.make_attribute("kernel_shape", 3.0))
    text = message(lambda: from_onnx(model))
    assert text.startswith("the MaxPool node that produces 'y' ")
    assert "kernel_shape" in text


def test_a_scan_without_its_number_of_inputs(parse: Parse) -> None:
    model = parse(
        """g (float[2] a, float[3, 2] b) => (float[2] y, float[3, 2] z) {
            y, z = Scan <num_scan_inputs = 1, body = step (float[2] p, float[2] q) => (float[2] r, float[2] s) {
                r = Add(p, q)
                s = Neg(q)
            }> (a, b)
        }"""
    )
    attributes = model.graph.node[0].attribute
    del attributes[next(i for i, attribute in enumerate(attributes) if attribute.name == "num_scan_inputs")]
    assert "requires the attribute num_scan_inputs" in message(lambda: from_onnx(model))


def test_text_that_is_not_utf8(parse: Parse, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    content = parse("g (float[2] x) => (float[2] y) { y = Relu(x) }").SerializeToString()
    path.write_bytes(content.replace(b"Relu", b"R\xfflu"))
    assert "text that is not UTF-8" in message(lambda: load(path))
    undeclared = parse("g (float[2] x) => (y) { y = Relu(x) }").SerializeToString()
    broken = onnx.load_model_from_string(undeclared.replace(b"Relu", b"R\xfflu"))
    assert message(lambda: check(broken)) == (
        r"onnx.checker does not accept the model: the model contains text that is not UTF-8: b'R\xfflu'"
    )


def damaged() -> st.SearchStrategy[bytes]:
    model: ModelProto = helper.make_model(
        onnx.parser.parse_graph(
            "g (float[N, 4] x, bool c) => (float[N, 4] y) { w = Constant<value_floats = [1.0, 2.0, 3.0, 4.0]>()\n a = Add(x, w)\n"
            " s, t = Split<axis = 1>(a)\n u = Concat<axis = 1>(t, s)\n"
            " y = If (c) <then_branch = p () => (float[N, 4] q) { q = Neg(u) }, else_branch = e () => (float[N, 4] f) { f = Relu(a) }> }"
        ),
        ir_version=8,
        opset_imports=[helper.make_opsetid("", 17)],
    )
    whole: bytes = model.SerializeToString()

    def damage(at: int, length: int, new: bytes) -> bytes:
        return whole[:at] + new + whole[at + length :]

    return st.builds(damage, st.integers(0, len(whole)), st.integers(0, 3), st.binary(max_size=3))


@settings(max_examples=share(160, 400), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damaged())
def test_damaged_files_are_read_or_rejected_with_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with contextlib.suppress(OnnxError):
        to_onnx(load(path))


def test_a_folder_that_cannot_be_written_to(parse: Parse, tmp_path: Path) -> None:
    module = from_onnx(parse("g (float[2] x) => (float[2] y) { y = Relu(x) }"))
    path = tmp_path / "none" / "m.onnx"
    assert message(lambda: save(module, path)) == f"{path} cannot be written: the folder {path.parent} does not exist"


def programs() -> dict[str, tuple[Function, str]]:
    x = var("x", shape=(2,))
    y, f = Var("y", x.type_annotation), Var("f")
    return {
        "a reference": (Function([x], RefRead(RefCreate(x))), "a value of kind RefRead cannot be written to ONNX"),
        "a free variable": (Function([x], x + y), "the variable 'y' is not bound"),
        "a function that is not known": (Function([x, f], f(x)), "a call of a value of kind Var cannot be written to ONNX"),
        "a global": (Function([x], GlobalVar("f")(x)), "a call of a value of kind GlobalVar cannot be written to ONNX"),
    }


@pytest.mark.parametrize("name", programs())
def test_programs_that_onnx_cannot_express(name: str) -> None:
    function, text = programs()[name]
    assert text in message(lambda: to_onnx(IRModule({"main": function})))


def test_a_module_without_main() -> None:
    assert message(lambda: to_onnx(IRModule())) == "the module has no function called main"


def test_importing_the_package_does_not_import_onnx() -> None:
    code = "import sys, passat.ir.onnx, passat.ir.op; passat.ir.op.get_op('onnx.Resize'); assert 'onnx' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_onnx_the_error_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['onnx'] = None\n"
        "from passat.ir.onnx import OnnxError, load\n"
        "try: load('m.onnx')\n"
        "except OnnxError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip().endswith("install it with: pip install 'passat[onnx]'")


def sparse(values: Sequence[float], indices: Sequence[int], dims: Sequence[int], index_dims: Sequence[int] = ()) -> ModelProto:
    """A model that adds a sparse initializer to x."""
    proto = onnx.SparseTensorProto(dims=dims)
    proto.values.CopyFrom(helper.make_tensor("w", TensorProto.FLOAT, [len(values)], values))
    proto.indices.CopyFrom(helper.make_tensor("i", TensorProto.INT64, index_dims or [len(indices)], indices))
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", infos[:1], infos[1:], sparse_initializer=[proto])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            sparse([1.0], [6], [2, 3]),
            "the sparse tensor 'w', declared as float32[2, 3], cannot be read: the index 6 is out of range for 6 elements",
        ),
        (sparse([1.0], [-1], [2, 3]), "cannot be read: the index -1 is out of range for 6 elements"),
        (sparse([1.0], [0, 1, 2], [2, 3]), "cannot be read: it has 1 value, but indices of shape [3]"),
        (sparse([1.0], [2, 0], [2, 3], [1, 2]), "cannot be read: invalid entry in coordinates array"),
        (
            sparse([1.0], [0], [2**50, 1, 1]),
            "declared as float32[1125899906842624, 1, 1], cannot be read: not enough memory for its elements",
        ),
        (sparse([1.0], [0], [-2, -3]), "the tensor 'w' has a negative dimension: [-2, -3]"),
    ],
)
def test_a_sparse_tensor_that_is_none(model: ModelProto, said: str) -> None:
    def decode() -> None:
        for node in post_order(from_onnx(model)["main"]):
            if isinstance(node, Constant):
                node.data.numpy()

    assert said in message(decode)


@pytest.mark.parametrize(
    ("tensor", "held"),
    [
        (TensorProto(name="w", dims=[3], data_type=TensorProto.FLOAT, raw_data=b"12345678"), "2"),
        (TensorProto(name="w", dims=[2], data_type=TensorProto.FLOAT, raw_data=b"123456"), "1.5"),
        (TensorProto(name="w", dims=[1 << 31], data_type=TensorProto.BOOL, int32_data=[1, 0]), "2"),
        (TensorProto(name="w", dims=[3], data_type=TensorProto.UINT64, uint64_data=[1]), "1"),
        (TensorProto(name="w", dims=[3], data_type=TensorProto.DOUBLE), "0"),
        (TensorProto(name="w", dims=[2], data_type=TensorProto.STRING, string_data=[b"a"]), "1"),
        (TensorProto(name="w", dims=[1], data_type=TensorProto.COMPLEX64, float_data=[1, 2, 3]), "1.5"),
    ],
)
def test_a_tensor_with_a_wrong_number_of_elements_is_rejected(tensor: TensorProto, held: str) -> None:
    outputs = [helper.make_tensor_value_info("y", tensor.data_type, None)]
    graph = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", [], outputs, [tensor])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    said = message(lambda: from_onnx(model))
    assert "the tensor 'w', declared as " in said
    assert said.endswith(f"cannot be read: it holds {counted(held, 'element')}")


def test_a_tensor_of_negative_dimensions() -> None:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[-1, -4], raw_data=b"\0" * 16)
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", infos[:1], infos[1:], [tensor])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    assert message(lambda: from_onnx(model)) == "the tensor 'w' has a negative dimension: [-1, -4]"


def test_an_initializer_that_nothing_reads_may_be_broken() -> None:
    """ONNX Runtime ignores it."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) <int16[1] c = {1}> { u = Identity (x) y = Relu (u) }'
    )
    model.graph.initializer[0].raw_data = bytes(32)
    model.graph.initializer[0].ClearField("int32_data")
    result = optimize(model)
    assert [node.op_type for node in result.model.graph.node] == ["Relu"]
    assert result.report.warnings == ["the tensor 'c', declared as int16[1], cannot be read: it holds 16 elements; nothing reads it"]


@pytest.mark.parametrize("op_type", ["Conv", "MaxPool", "AveragePool", "LpPool", "ConvTranspose"])
@pytest.mark.parametrize(
    "attribute", ["strides = [1]", "strides = [1, 1, 1]", "dilations = [1]", "kernel_shape = [2]", "kernel_shape = [2, 2, 2]"]
)
def test_windows_with_numbers_for_other_dimensions(op_type: str, attribute: str) -> None:
    """Automatic padding is computed only if there is a number for each spatial dimension."""
    kernel = "" if attribute.startswith("kernel_shape") else ", kernel_shape = [2, 2]"
    inputs = "x, w" if op_type.startswith("Conv") else "x"
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[1, 1, 4, 4] x, float[1, 1, 2, 2] w) => (float y) '
        f'{{ y = {op_type} <auto_pad = "SAME_UPPER", {attribute}{kernel}> ({inputs}) }}'
    )
    with contextlib.suppress(OnnxError):
        from_onnx(model, lenient=True)


def test_an_axis_of_more_than_32_bits() -> None:
    """ONNX's inference, which would crash, is not called."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[3, 4] x, float[4] w) => (float[3, 4] y, float[3, 1] mean)'
        "{ y, mean = LayerNormalization <axis = 2147483648> (x, w, w) }"
    )
    assert "nn.layer_norm" not in from_onnx(model).astext()


@pytest.mark.parametrize("equation", [b"\xff", b">-i", b"i.j->i", b"i....->i"])
def test_an_equation_without_labels(equation: bytes) -> None:
    """ONNX's inference, which would not terminate, is not called."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[3] x) => (float[3] y) { y = Einsum <equation = "...i ->..."> (x) }'
    )
    model.graph.node[0].attribute[0].s = equation
    assert "onnx.Einsum" in from_onnx(model, lenient=True).astext()


@pytest.mark.parametrize("number", [1.0, float("inf")])
def test_paddings_that_are_not_integers(number: float) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[3] x) => (float[j] y) <float[2] p = {0, 0}> { y = Pad (x, p) }'
    )
    model.graph.initializer[0].CopyFrom(helper.make_tensor("p", TensorProto.FLOAT, [2], [number, 0]))
    with pytest.raises(OnnxError, match="pads typestr"):
        from_onnx(model)


@pytest.mark.parametrize("name", [b"xx", b"ww", b"zz", b"Einsum", b"domain", b"title", b"inner"])
def test_names_that_are_not_text(name: bytes) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17, "domain" : 1]> g (float[3, 4] xx, bool c) => (float[3, 4] zz) <float[4] ww = {1, 2, 3, 4}> {
            [title] a = Einsum <equation = "ij,j->ij"> (xx, ww) b = domain.Own (a)
            zz = If (c) <then_branch = t () => (float[3, 4] inner) { inner = Neg (b) }, else_branch = e () => (float[3, 4] u) { u = Abs (b) }>
        }"""
    )
    data = model.SerializeToString()
    assert name in data
    broken = onnx.load_model_from_string(data.replace(name, b"\xff" * len(name)))
    assert message(lambda: from_onnx(broken)).startswith("the model contains text that is not UTF-8: ")


def _takes_integers(operand: onnx.defs.OpSchema.FormalParameter) -> bool:
    """True if an operand is always an integer tensor: a shape, axes, sizes of parts."""
    return set(operand.types) <= {"tensor(int64)", "tensor(int32)"}


_WITH_INTEGERS = [schema for schema in onnx.defs.get_all_schemas() if not schema.domain and any(map(_takes_integers, schema.inputs))]


@pytest.mark.parametrize("schema", _WITH_INTEGERS, ids=lambda schema: schema.name)
def test_a_vector_of_a_hundred_billion_entries_needs_no_memory(schema: onnx.defs.OpSchema) -> None:
    inputs = [
        helper.make_tensor_value_info(f"x{i}", TensorProto.INT64 if whole else TensorProto.FLOAT, [10**11] if whole else [2, 3])
        for i, whole in enumerate(map(_takes_integers, schema.inputs))
    ]
    node = helper.make_node(schema.name, [each.name for each in inputs], ["y"])
    graph = helper.make_graph([node], "endless", inputs, [helper.make_empty_tensor_value_info("y")])
    with contextlib.suppress(OnnxError):
        assert isinstance(from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])), IRModule)


def test_truth_values_that_are_neither_0_nor_1() -> None:
    """Any other byte is true, for Passat as for Xor in ONNX Runtime. NumPy's own Xor produces further such bytes."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 16]> g () => (bool[2] y) <bool[2] v = {1, 0}> { x = Xor(a, b) y = Equal(x, v) }'
    )
    model.graph.initializer.add(name="a", data_type=TensorProto.BOOL, raw_data=b"\xbf")
    model.graph.initializer.add(name="b", data_type=TensorProto.BOOL, raw_data=b"\x00")
    result = optimize(model, verify=False).model
    assert Runner(result).run({})[0].tolist() == Runner(model).run({})[0].tolist() == [True, False]


@pytest.mark.parametrize("raw", [False, True])
def test_more_dimensions_than_numpy_has(raw: bool, parse: Parse) -> None:
    model = parse("g (float[2] x) => (float[2] y) <int64[1] flat = {2}> { a = Add(x, w) y = Reshape(a, flat) }")
    values = b"\0" * 8 if raw else [0, 0]
    model.graph.initializer.add().CopyFrom(helper.make_tensor("w", TensorProto.FLOAT, [1] * 70 + [2], values, raw=raw))
    assert message(lambda: from_onnx(model)) == "the tensor 'w' has 71 dimensions; Passat reads constants of up to 64"


def test_a_computed_constant_of_more_dimensions_than_numpy_has(parse: Parse) -> None:
    shape = ", ".join(["1"] * 70 + ["2"])
    model = parse(
        f"g (float[2] x) => (float[2] y) <int64[1] flat = {{2}}, int64[71] s = {{{shape}}}>"
        "{ zeros = ConstantOfShape(s) a = Add(x, zeros) y = Reshape(a, flat) }"
    )
    assert optimize(model).report.node_count_before == 2  # a ConstantOfShape is no node

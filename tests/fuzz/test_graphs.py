"""The share of fuzzing that is part of every test run: fixed seeds. Each mapped operator is drawn in its versions."""

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from passat.ir.expr import Function, Var
from passat.ir.infer import infer_type
from passat.ir.onnx import from_onnx
from passat.ir.onnx_mapping import READERS
from passat.ir.op import get_op
from passat.ir.shape import ANY
from passat.ir.types import TensorType, TupleType
from tests.fuzz.builder import IR_VERSION, Builder, declaration
from tests.fuzz.graphs import NEWEST, OLDEST, feeds_of, is_as_declared, random_case, runs
from tests.fuzz.judge import examine
from tests.fuzz.kinds import KINDS
from tests.fuzz.operators import draw_node, form, operators
from tests.fuzz.rule_models import sums_nothing
from tests.fuzz.values import FLOAT
from tests.share import share

SHARES = {
    "graphs": (20, [1, 4, 5, 6, 7, 8]),
    "constants": (55, [0, 1, 2]),
    "conversions": (20, [1, 2]),
    "mutations": (20, [1, 4, 5, 7]),
    "rules": (60, [0, 1, 4]),
    "forms": (20, [0, 1, 2, 3]),
    "neighbors": (20, [0, 1, 2]),
}
"""The number of seeds in a block of each kind, and the blocks that are tried at night: about half a minute on one core. Other runs try the
first block of each kind."""


def test_a_seed_is_a_model() -> None:
    one, other = random_case(12), random_case(12)
    assert one is not None
    assert other is not None
    assert one.model == other.model
    assert len(one.model.graph.node) >= 3


@pytest.mark.parametrize("op", sorted(READERS))
def test_every_mapped_operator_is_drawn(op: str) -> None:
    """In each version of the operator, unless ONNX Runtime has no kernel for it."""
    newest = {
        found.version: opset for opset in range(OLDEST, NEWEST + 1) if op in operators(opset) and (found := form(op, opset)) is not None
    }
    assert newest
    for opset in newest.values():
        rejections = set()
        for seed in range(25):
            graph = Builder(np.random.default_rng(seed), opset, most_inputs=0)
            if draw_node(graph, op):
                break
            rejections.add(graph.rejection)
        else:
            assert all("NOT_IMPLEMENTED" in rejection for rejection in rejections), f"{op} in opset {opset}: {rejections}"


def test_shapes_are_those_that_onnx_runtime_makes() -> None:
    """The shapes that the importer infers for a node, in the newest opset."""
    wrong, seen = {}, set()
    for op, seed in itertools.product(operators(NEWEST), range(share(3, 6))):
        graph = Builder(np.random.default_rng(seed), NEWEST, most_inputs=seed % 3)
        made = [value for value in draw_node(graph, op) or [] if not value.is_sequence]
        if not made:
            continue
        results = [onnx.helper.make_tensor_value_info(value.name, value.kind, None) for value in made]
        parts = graph.nodes, "shapes", [declaration(entry) for entry in graph.inputs], results, graph.tensors
        model = onnx.helper.make_model(onnx.helper.make_graph(*parts), opset_imports=graph.imports(), ir_version=IR_VERSION)
        found = from_onnx(model, lenient=True)["main"].body.checked_type
        for type_, value in zip(found.fields if isinstance(found, TupleType) else [found], made, strict=True):
            if isinstance(type_, TensorType):
                seen.add(op)
                agree = len(type_.shape) == value.rank and all(
                    not isinstance(a, int) or a == b for a, b in zip(type_.shape, value.shape, strict=True)
                )
                if not agree:
                    wrong[f"{op} {seed}"] = f"{type_} for {list(value.shape)}"
    assert wrong == {}
    assert len(seen) > 0.8 * len(operators(NEWEST))


@pytest.mark.parametrize(("kind", "block"), [(kind, block) for kind, (_, blocks) in SHARES.items() for block in blocks[: share(1, 6)]])
def test_the_fixed_share(kind: str, block: int) -> None:
    """The same models in every run; `make fuzz` tries others."""
    size, _ = SHARES[kind]
    wrong = {}
    for seed in range(block * size, (block + 1) * size):
        case, settings = KINDS[kind](seed)
        if case is not None:
            wrong[f"{kind} {seed}, {settings}"] = examine(case, settings, twice=seed % 4 == 0)
    assert len(wrong) > size // 2
    assert {name: finding for name, finding in wrong.items() if finding is not None} == {}


def test_no_window_leaves_a_tensor_empty_that_is_reduced_from_the_end() -> None:
    """ONNX Runtime does not reduce empty tensors along negative axes, and a window may turn few elements into none."""
    graph = Builder(np.random.default_rng(0), 18, tame=True, most_inputs=1, symbols={"n": 5, "m": 6})
    graph.input(FLOAT, (1, 3, 5, 6))
    whole = [{name: value.shape for name, value in feed.items()} for feed in feeds_of(graph)]
    graph.never_empty = True
    assert [feed for feed in whole if all(0 not in shape for shape in feed.values())] == [
        {name: value.shape for name, value in feed.items()} for feed in feeds_of(graph)
    ]
    graph.nodes.append(onnx.helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[1, 2]))
    assert len(feeds_of(graph)) == 2 < len(whole)  # those of the sizes that the graph was made with


@pytest.mark.parametrize(
    ("op", "attrs", "shapes", "spared"),
    [
        ("nn.instance_norm", {}, [(2, 1, 0), (1,), (1,)], True),
        ("nn.group_norm", {"num_groups": 1}, [(2, 3, 0), (3,), (3,)], True),
        ("nn.instance_norm", {}, [(2, 1, 3), (1,), (1,)], False),
        ("nn.matmul", {}, [(2, 0), (0, 3)], True),
        ("nn.matmul", {}, [(0, 2), (2, 3)], False),
    ],
)
def test_results_of_onnx_runtime_on_empty_tensors_are_excused(
    op: str, attrs: dict[str, Any], shapes: list[tuple[int, ...]], *, spared: bool
) -> None:
    """Some kernels compute a wrong sum over nothing, both if types show that it is empty and if only the inputs do."""
    feed = {f"x{i}": np.ones(shape, np.float32) for i, shape in enumerate(shapes)}
    for known in (True, False) if spared else (True,):
        params = [Var(f"x{i}", TensorType(shape if known else (ANY,) * len(shape), "float32")) for i, shape in enumerate(shapes)]
        function = infer_type(Function(params, get_op(op)(*params, **attrs)))
        assert isinstance(function, Function)
        assert sums_nothing(function.body, feed) == spared


@pytest.mark.parametrize("op", ["InstanceNormalization", "GroupNormalization", "MeanVarianceNormalization"])
def test_no_mean_is_taken_of_nothing(op: str) -> None:
    graphs = [Builder(np.random.default_rng(seed), 21, most_inputs=1, symbols={"n": 5}) for seed in range(10)]
    drawn = [graph for graph in graphs if draw_node(graph, op)]
    assert drawn
    assert all(0 not in array.shape for graph in drawn for feed in feeds_of(graph) for array in feed.values())


def test_ranks_are_those_that_are_declared() -> None:
    """A graph is made for some inputs; for others an If may take a branch of another rank."""
    choice = "<then_branch = t () => (float[] a) { a = Neg(x) }, else_branch = e () => (float[] b) { b = Unsqueeze<axes = [0]>(x) }>"
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 11]> g (float[2] x, bool c) => (float[n] y) {{ y = If(c) {choice} }}'
    )
    x = np.ones(2, np.float32)
    assert [is_as_declared(model, {"x": x, "c": np.array(chosen)}) for chosen in (True, False)] == [True, False]


def test_sizes_of_one_name_are_one_size() -> None:
    """A computed value may have that size by chance, and another one for other inputs."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13]> g (float[n] x, float[4, 1] w, int64[1] axes) => (float[n] y) { y = Squeeze(w, axes) }'
    )
    feeds = [{"x": np.ones(size, np.float32), "w": np.ones((4, 1), np.float32), "axes": np.array([1])} for size in (4, 3)]
    assert [is_as_declared(model, feed) for feed in feeds] == [True, False]


def test_a_vector_for_a_declared_scalar_does_not_count() -> None:
    graph = helper.make_graph(
        [helper.make_node("Size", ["x"], ["n"])],
        "sizes",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [])],
        [helper.make_tensor_value_info("n", TensorProto.INT64, [])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    assert runs(model, {"x": np.array(1, np.float32)})
    assert not runs(model, {"x": np.ones(5, np.float32)})

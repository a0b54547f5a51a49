"""Models whose results a second run improved, each reduced to a minimum."""

import pytest
from onnx import numpy_helper

from tests.corpus.optimizing import floats, operators, optimize, parse


@pytest.mark.parametrize("rows", ["h = Squeeze(n, first)", "h = Reshape(n, matrix)"])
def test_the_shift_of_a_normalization_passes_a_view_on_its_way_to_a_product(rows: str) -> None:
    """As in classifiers that read the first position, before opset 17."""
    model = parse(
        f"""g (float[6, 1, 4] x) => (float[a, 5] y) <int64[1] first = {{1}}, int64[2] matrix = {{6, 4}}, float eps = {{1e-5}}> {{
            m = ReduceMean<axes = [-1]>(x)
            c = Sub(x, m)
            s = Mul(c, c)
            v = ReduceMean<axes = [-1]>(s)
            e = Add(v, eps)
            r = Sqrt(e)
            d = Div(c, r)
            k = Mul(d, gamma)
            n = Add(k, beta)
            {rows}
            y = Gemm(h, w, b)
        }}""",
        opset=13,
    )
    constants = {"gamma": floats(4), "beta": floats(4, seed=1), "w": floats(4, 5), "b": floats(5)}
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    result, _ = optimize(model)
    assert operators(result)["Add"] == 1
    assert operators(optimize(result)[0]) == operators(result)


@pytest.mark.parametrize(
    ("nodes", "left"),
    [
        ("c = Concat<axis = 1>(x, x)  y = Concat<axis = -1>(c, x)", {"Concat": 1}),
        ("c = Gather<axis = 1>(x, at)  d = Gather<axis = -1>(x, at)  y = Add(c, d)", {"Gather": 1, "Add": 1}),
        ("a, b = Split<axis = 1>(x)  c, d = Split<axis = -1>(x)  y = Add(a, d)", {"Split": 1, "Add": 1}),
    ],
)
def test_an_axis_counts_the_same_from_either_end(nodes: str, left: dict[str, int]) -> None:
    """Nested concatenations stayed, and equal nodes were computed twice: only results count each axis from the front."""
    result, _ = optimize(parse(f"g (float[2, 4] x) => (float[a, b] y) <int64 at = {{3}}> {{ {nodes} }}", opset=13))
    assert operators(result) == left

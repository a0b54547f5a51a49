"""Operators that draw random numbers are neither merged nor folded; training mode is left alone; dropout without an effect is removed."""

import numpy as np
import onnx
import pytest
from onnx import ModelProto

import passat
from passat.ir.onnx import check
from tests.comparing import compare_models
from tests.corpus.optimizing import floats, nodes, operators, optimize, parse

ALL = ["RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial", "Dropout"]


def drawing(op: str) -> ModelProto:
    calls = {
        "RandomNormal": "RandomNormal<shape = [2, 3]>()",
        "RandomUniform": "RandomUniform<shape = [2, 3], seed = 1.0>()",
        "RandomNormalLike": "RandomNormalLike(w)",
        "RandomUniformLike": "RandomUniformLike(w)",
        "Bernoulli": "Bernoulli(w)",
        "Multinomial": "Multinomial<sample_size = 3>(w)",
        "Dropout": "Dropout(w, half, yes)",
    }
    cast = "Cast<to = 1>" if op == "Multinomial" else "Identity"
    return parse(
        f"""g (float[2, 3] x) => (float[2, 3] y, float[2, 3] z)
        <float[2, 3] w = {{0.5, 0.5, 0.5, 0.5, 0.5, 0.5}}, float half = {{0.5}}, bool yes = {{1}}, float zero = {{0.0}}> {{
            a0 = {calls[op]}
            b0 = {calls[op]}
            a = {cast}(a0)
            b = {cast}(b0)
            y0 = Sub(a, b)
            y = Add(y0, zero)
            z = Add(x, a)
        }}"""
    )


@pytest.mark.parametrize("op", ALL)
def test_two_draws_stay_two_draws(op: str) -> None:
    model = drawing(op)
    result = passat.optimize(model, opt_level=3, verify=False)
    check(result.model)
    assert operators(result.model)[op] == 2
    assert operators(result.model)["Sub"] == 1
    assert "Identity" not in operators(result.model, ())


def test_seeds_and_types_of_random_numbers_stay() -> None:
    model = parse(
        "g () => (double[4] y) { r = RandomNormal<shape = [4], dtype = 11, mean = 2.0, scale = 0.5, seed = 3.0>()  a = Neg(r)  y = Neg(a) }"
    )
    out, _ = optimize(model, verify=False)
    (node,) = nodes(out)
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    assert attributes == {"shape": [4], "dtype": 11, "mean": 2.0, "scale": 0.5, "seed": 3.0}


def test_a_draw_that_is_read_twice_is_drawn_once() -> None:
    model = parse("g (float[3] x) => (float[3] y) { r = RandomNormalLike(x)  a = Exp(r)  b = Neg(r)  y = Add(a, b) }")
    out, _ = optimize(model, verify=False)
    assert operators(out) == {"RandomNormalLike": 1, "Exp": 1, "Sub": 1}


def test_dropout_of_inference_vanishes_and_its_mask_with_it() -> None:
    model = parse("g (float[N, 4] x) => (float[N, 4] y) <float half = {0.5}> { a = Relu(x)  d, mask = Dropout(a, half)  y = Exp(d) }")
    out, _ = optimize(model, {"x": floats(3, 4)})
    assert operators(out) == {"Relu": 1, "Exp": 1}


def test_a_mask_of_dropout_that_is_read_stays_right() -> None:
    model = parse("g (float[N, 4] x) => (float[N, 4] y, bool[N, 4] mask) { a = Relu(x)  d, mask = Dropout(a)  y = Exp(d) }")
    optimize(model, {"x": floats(3, 4)})


def test_dropout_whose_mode_is_not_known_stays() -> None:
    model = parse("g (float[N, 4] x, bool training) => (float[N, 4] y) <float half = {0.5}> { d = Dropout(x, half, training)  y = Exp(d) }")
    out, _ = optimize(model, {"x": floats(3, 4), "training": np.array(False)}, verify=False)
    assert operators(out) == {"Dropout": 1, "Exp": 1}


def test_batch_normalization_in_training_mode_is_left_alone() -> None:
    model = parse(
        """g (float[N, 2, 5, 5] x) => (float[N, 3, 3, 3] y, float[3] mean, float[3] var)
        <float[3] s = {1, 2, 3}, float[3] b = {0, 1, 0}, float[3] m = {0, 0, 1}, float[3] v = {1, 2, 1}> {
            c = Conv(x, w)
            y, mean, var = BatchNormalization<training_mode = 1>(c, s, b, m, v)
        }""",
        opset=15,
        ir=8,
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(floats(3, 2, 3, 3), "w"))
    out, _ = optimize(model, {"x": floats(2, 2, 5, 5)})
    assert operators(out) == {"Conv": 1, "BatchNormalization": 1}


@pytest.mark.parametrize("opset", [7, 9, 13])
def test_a_batch_normalization_with_training_outputs_is_in_training_mode(opset: int) -> None:
    model = parse(
        """g (float[N, 2, 5, 5] x) => (float[N, 3, 3, 3] y)
        <float[3] s = {1, 2, 3}, float[3] b = {0, 1, 0}, float[3] m = {0, 0, 1}, float[3] v = {1, 2, 1}> {
            c = Conv(x, w)
            n, mean, var, saved_mean, saved_var = BatchNormalization(c, s, b, m, v)
            n1 = Neg(n)
            y = Neg(n1)
        }""",
        opset=opset,
        ir=8,
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(floats(3, 2, 3, 3), "w"))
    out, _ = optimize(model, {"x": floats(2, 2, 5, 5)})
    assert operators(out) == {"Conv": 1, "BatchNormalization": 1}


DRAWS = {
    "RandomNormal": "RandomNormal <shape = [2, 3]>()",
    "RandomUniform": "RandomUniform <shape = [2, 3]>()",
    "RandomNormalLike": "RandomNormalLike(x)",
    "RandomUniformLike": "RandomUniformLike(x)",
    "Bernoulli": "Bernoulli(halves)",
    "Multinomial": "Multinomial <sample_size = 3, dtype = 6>(halves)",
    "Dropout": "Dropout(ones, half, yes)",
}


def drawing_among_dead(draw: str, body: str, functions: str = "") -> ModelProto:
    """A model of a body with `R` as a placeholder for random operators."""
    weights = """<float[2, 3] halves = {0.5, 0.5, 0.5, 0.5, 0.5, 0.5}, float[2, 3] ones = {1.0, 1.0, 1.0, 1.0, 1.0, 1.0}, float half = {0.5},
        bool yes = {1}>"""
    text = f"g (float[2, 3] x, bool c) => (float[2, 3] y) {weights} {{ {body} }} {functions}"
    imports = '["" : 20, "local" : 1]' if functions else '["" : 20]'
    return onnx.parser.parse_model(f"<ir_version: 9, opset_import: {imports}> {text.replace('R()', draw)}")


PLACES = {
    "before": "z = R() r = R() f = Cast <to = 1>(r) a = Neg(f) y = Neg(a)",
    "after": "r = R() z = R() f = Cast <to = 1>(r) a = Neg(f) y = Neg(a)",
    "between": """r = R() z = R() s = R() f = Cast <to = 1>(r) a = Neg(f) b = Neg(a) d = Neg(z) e = Cast <to = 1>(s) i = Identity(e)
        y = Sub(b, i)""",
    "several": """z = R() r = R() d = R() s = R() t = R() o = R() f = Cast <to = 1>(r) h = Cast <to = 1>(s) k = Cast <to = 1>(t) a = Neg(f)
        b = Neg(a) l = Neg(h) m = Neg(l) p = Sub(b, m) y = Sub(p, k)""",
    "in both branches": """y = If(c) <then_branch = t() => (float[2, 3] u) { z = R() r = R() f = Cast <to = 1>(r) a = Neg(f) u = Neg(a) },
        else_branch = e() => (float[2, 3] v) { r1 = R() z1 = R() f1 = Cast <to = 1>(r1) a1 = Neg(f1) v = Neg(a1) }>""",
    "for a dead branch": """z = If(c) <then_branch = t() => (float[2, 3] u) { z0 = R() u = Cast <to = 1>(z0) },
        else_branch = e() => (float[2, 3] v) { v = Identity(x) }> r = R() f = Cast <to = 1>(r) a = Neg(f) y = Neg(a)""",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("op", ALL)
def test_dead_draws_leave_the_numbers_of_the_live_ones(op: str, place: str) -> None:
    model = drawing_among_dead(DRAWS[op], PLACES[place])
    result = passat.optimize(model)
    assert not result.report.kept
    assert result.report.verification is not None
    assert result.report.verification.equal is True


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("op", ALL)
def test_each_call_of_a_function_draws_its_own_numbers(op: str, place: str) -> None:
    function = f"""<domain: "local", opset_import: ["" : 20]> noise (x, halves, ones, half, yes) => (y) {{ {PLACES[place]} }}"""
    calls = [f"{name} = local.noise(x, halves, ones, half, yes)" for name in ("z", "l", "m", "d")]
    model = drawing_among_dead(DRAWS[op], f"{' '.join(calls)} n = Neg(l) o = Neg(n) y = Sub(o, m)", function.replace("R()", DRAWS[op]))
    result = passat.optimize(model)
    assert not result.report.kept
    assert result.report.verification is not None
    assert result.report.verification.equal is True


def test_an_output_with_the_values_of_another_is_detected() -> None:
    model = parse("g (float[2, 3] x) => (float[2, 3] y, float[2, 3] w) { z = RandomNormalLike(x) y = RandomNormalLike(x) w = Neg(y) }")
    other = parse("g (float[2, 3] x) => (float[2, 3] y, float[2, 3] w) { y = RandomNormalLike(x) z = RandomNormalLike(x) w = Neg(z) }")
    assert compare_models(model, model).equal is True
    assert compare_models(model, other).equal is False

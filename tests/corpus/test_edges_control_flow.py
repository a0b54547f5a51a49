"""If, Loop and Scan: their bodies are optimized, and captured values keep their meaning."""

import numpy as np
import pytest

from tests.corpus.optimizing import floats, operators, optimize, parse


@pytest.mark.parametrize("flag", [True, False])
def test_needless_work_in_branches_vanishes(flag: bool) -> None:
    model = parse(
        """g (float[N, 4] x, bool c) => (float[N, 4] y) <float zero = {0.0}, float[4] one = {1.0, 1.0, 1.0, 1.0}> {
            h = Relu(x)
            y = If (c) <
                then_branch = t () => (float[N, 4] a) { a1 = Add(h, zero)  a2 = Mul(a1, one)  a = Exp(a2) },
                else_branch = e () => (float[N, 4] b) { b1 = Neg(h)  b2 = Neg(b1)  b3 = Identity(b2)  b = Sub(b3, zero) }
            >
        }"""
    )
    out, _ = optimize(model, {"x": floats(3, 4), "c": np.array(flag)})
    assert operators(out) == {"Relu": 1, "If": 1, "Exp": 1}


def test_constants_of_the_outside_fold_inside() -> None:
    model = parse(
        """g (float[N, 4] x, bool c) => (float[N, 4] y) <float two = {2.0}, float three = {3.0}> {
            y = If (c) <
                then_branch = t () => (float[N, 4] a) { six = Mul(two, three)  a = Mul(x, six) },
                else_branch = e () => (float[N, 4] b) { b = Mul(x, two) }
            >
        }"""
    )
    out, _ = optimize(model, {"x": floats(3, 4), "c": np.array(True)})
    assert operators(out) == {"If": 1, "Mul": 2}


def test_a_value_that_branches_capture_may_be_simplified_outside() -> None:
    model = parse(
        """g (float[N, 4] x, bool c) => (float[N, 4] y) <float zero = {0.0}> {
            h = Add(x, zero)
            y = If (c) <
                then_branch = t () => (float[N, 4] a) { a = Add(h, h) },
                else_branch = e () => (float[N, 4] b) { b = Mul(h, h) }
            >
        }"""
    )
    out, _ = optimize(model, {"x": floats(3, 4), "c": np.array(False)})
    assert operators(out) == {"If": 1, "Add": 1, "Mul": 1}


def test_a_branch_may_be_nothing_but_a_captured_value() -> None:
    model = parse(
        """g (float[N, 4] x, bool c) => (float[N, 4] y) <float one = {1.0}> {
            y = If (c) <
                then_branch = t () => (float[N, 4] a) { a = Mul(x, one) },
                else_branch = e () => (float[N, 4] b) { b = Neg(x) }
            >
        }"""
    )
    for flag in (True, False):
        optimize(model, {"x": floats(3, 4), "c": np.array(flag)})


def test_ifs_inside_ifs() -> None:
    model = parse(
        """g (float[4] x, bool c, bool d) => (float[4] y) <float zero = {0.0}> {
            h = Exp(x)
            y = If (c) <
                then_branch = t () => (float[4] a) {
                    k = Add(h, zero)
                    a = If (d) <
                        then_branch = tt () => (float[4] aa) { aa1 = Add(k, h)  aa = Add(aa1, zero) },
                        else_branch = te () => (float[4] ab) { ab = Sub(k, x) }
                    >
                },
                else_branch = e () => (float[4] b) { b = Identity(x) }
            >
        }"""
    )
    feeds = [{"x": floats(4), "c": np.array(c), "d": np.array(d)} for c in (True, False) for d in (True, False)]
    out, _ = optimize(model, *feeds)
    assert operators(out) == {"Exp": 1, "If": 2, "Add": 1, "Sub": 1}


def test_equal_ifs_are_merged() -> None:
    branches = "<then_branch = t () => (float[4] a) { a = Exp(x) }, else_branch = e () => (float[4] b) { b = Neg(x) }>"
    model = parse(f"g (float[4] x, bool c) => (float[4] y) {{ p = If (c) {branches}  q = If (c) {branches}  y = Add(p, q) }}")
    optimize(model, {"x": floats(4), "c": np.array(True)})


def test_a_loop_with_captured_values() -> None:
    model = parse(
        """g (float[4] x, int64 n) => (float[4] y, float[M, 4] steps) <float zero = {0.0}, bool yes = {1}> {
            w = Exp(x)
            y, steps = Loop (n, yes, x) <
                body = b (int64 i, bool c, float[4] v) => (bool d, float[4] u, float[4] s) {
                    d = Identity(c)
                    v0 = Add(v, zero)
                    u0 = Add(v0, w)
                    u = Sub(u0, zero)
                    s1 = Neg(u)
                    s = Neg(s1)
                }
            >
        }"""
    )
    feeds = [{"x": floats(4), "n": np.array(n, np.int64)} for n in (0, 1, 5)]
    out, _ = optimize(model, *feeds, verify=False)
    assert operators(out) == {"Exp": 1, "Loop": 1, "Add": 1}


def test_a_loop_whose_condition_depends_on_the_data() -> None:
    model = parse(
        """g (float[1] x) => (float[1] y) <int64 most = {20}, bool yes = {1}, float[1] bound = {10.0}, float[1] zero = {0.0}> {
            y = Loop (most, yes, x) <
                body = b (int64 i, bool c, float[1] v) => (bool d, float[1] u) {
                    u1 = Add(v, v)
                    u = Add(u1, zero)
                    less = Less(u, bound)
                    d = Squeeze(less)
                }
            >
        }"""
    )
    out, _ = optimize(model, {"x": np.array([0.5], np.float32)}, {"x": np.array([20.0], np.float32)})
    assert operators(out) == {"Loop": 1, "Add": 1, "Less": 1, "Squeeze": 1}


def test_random_numbers_in_a_loop_are_drawn_in_each_iteration() -> None:
    model = parse(
        """g (int64 n) => (float[M, 3] steps) <bool yes = {1}> {
            steps = Loop (n, yes) <
                body = b (int64 i, bool c) => (bool d, float[3] s) { d = Identity(c)  s = RandomNormal<shape = [3]>() }
            >
        }"""
    )
    out, _ = optimize(model, verify=False)
    assert operators(out)["RandomNormal"] == 1
    assert [node.op_type for node in out.graph.node] == ["Loop"]


def test_a_scan_with_captured_values() -> None:
    model = parse(
        """g (float[3] start, float[N, 3] xs) => (float[3] end, float[N, 3] ys) <float[3] one = {1.0, 1.0, 1.0}> {
            w = Abs(start)
            end, ys = Scan <num_scan_inputs = 1,
                body = b (float[3] s, float[3] x) => (float[3] t, float[3] y) {
                    x1 = Mul(x, one)
                    t1 = Add(s, x1)
                    t = Add(t1, w)
                    y = Div(t, one)
                }
            > (start, xs)
        }"""
    )
    out, _ = optimize(model, {"start": floats(3), "xs": floats(5, 3)}, {"start": floats(3), "xs": floats(1, 3)})
    assert operators(out) == {"Abs": 1, "Scan": 1, "Add": 2}


def test_names_inside_a_subgraph_that_are_names_outside_too() -> None:
    model = parse(
        """g (float[4] x, bool c) => (float[4] y) <float zero = {0.0}> {
            h = Add(x, zero)
            k = Exp(h)
            z = If (c) <
                then_branch = t () => (float[4] a) { t1 = Neg(k)  a = Abs(t1) },
                else_branch = e () => (float[4] a2) { t2 = Neg(x)  a2 = Add(t2, zero) }
            >
            t3 = Neg(z)
            y = Neg(t3)
        }"""
    )
    for flag in (True, False):
        optimize(model, {"x": floats(4), "c": np.array(flag)})


def test_work_that_only_one_branch_needs_is_not_moved_into_the_open() -> None:
    model = parse(
        """g (float[4, 4] x, bool c) => (float[4, 4] y) {
            y = If (c) <
                then_branch = t () => (float[4, 4] a) { a = MatMul(x, x) },
                else_branch = e () => (float[4, 4] b) { b1 = MatMul(x, x)  b = Relu(b1) }
            >
        }"""
    )
    out, _ = optimize(model, {"x": floats(4, 4), "c": np.array(True)})
    assert [node.op_type for node in out.graph.node] == ["If"]

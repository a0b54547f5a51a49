"""Models with operators unknown to ONNX Runtime: they are compared in parts, or with the library that has them; otherwise nothing is
written."""

import copy
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, parser
from typer.testing import CliRunner

import passat
from passat import MismatchError, UnverifiedError
from passat.cli.app import app
from passat.ir.onnx.cutting import Cut
from passat.rules import RuleSet, op, rule_pass, tensors
from passat.runner import CustomOpsError, Runner, custom_operators
from passat.verify import Reference
from tests.comparing import compare_models

x = tensors("x")[0]

COMPILER = shutil.which("cc") or shutil.which("gcc")


class Wrong(RuleSet):
    """Wrong for exponentials."""

    exponential = op.exp(op.negative(op.negative(x))) >> op.sin(x)


def parsed(body: str, *, values: str = "", domain: str = "com.acme", signature: str = "(float[n, 4] x) => (float[n, 4] y)") -> ModelProto:
    model: ModelProto = parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18, "{domain}" : 1]> g {signature} <{values}> {{ {body.replace("acme.", f"{domain}.")} }}'
    )
    return model


ORIGINAL = "n = Neg(x) m = Neg(n) a = Exp(m) b = acme.Fused <alpha = 2.0>(a) t = Tanh(b) c = acme.Fused <alpha = 2.0>(t) y = Neg(c)"


def compared(body: str, *, original: str = ORIGINAL, **options: str) -> passat.verify.VerifyReport:
    return compare_models(parsed(original, **options), parsed(body, **options), threads=1)


@pytest.mark.parametrize(
    "right",
    [
        ORIGINAL,
        "a = Exp(x) b = acme.Fused <alpha = 2.0>(a) t = Tanh(b) c = acme.Fused <alpha = 2.0>(t) y = Neg(c)",
        "a = Exp(x) p = acme.Fused <alpha = 2.0>(a) t = Tanh(p) q = acme.Fused <alpha = 2.0>(t) y = Neg(q)",
    ],
)
def test_the_parts_of_right_candidates_are_equal(right: str) -> None:
    found = compared(right)
    assert found.equal is True
    assert found.parts == "cut at 2 nodes unknown to ONNX Runtime (com.acme.Fused)"
    assert [output.name for output in found.outputs] == ["y", "operand 0 of unknown node 0", "operand 0 of unknown node 1"]


def test_parts_that_do_not_run_are_told_from_a_model_that_does_not() -> None:
    """Inputs of the user's own would not help: the operator is missing."""
    body = "b = acme.Fused(x) r = Reshape(b, s) c = Concat <axis = 1> (x, r) y = Neg(c)"
    found = compared(body, original=body, values="int64[2] s = {-1, 148}, float[m, 4] b")
    assert found.equal is None
    assert found.skipped.startswith("ONNX Runtime does not load the original: ")
    assert "; its parts do not run on random inputs: Non-zero status code" in found.skipped
    assert found.skipped.endswith("--custom-ops LIB, or custom_ops=, registers a library that has the operators")


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("Exp(m)", "Sin(m)", "operand 0 of unknown node 0"),
        ("Tanh(b)", "Sin(b)", "operand 0 of unknown node 1"),
        ("Neg(c)", "Abs(c)", "y"),
        ("Tanh(b)", "Tanh(a)", ""),
        ("Neg(c)", "Neg(b)", ""),
        ("y = Neg(c)", "y = Neg(t)", ""),
    ],
)
def test_differences_within_a_part_are_found(old: str, new: str, where: str) -> None:
    found = compared(ORIGINAL.replace(old, new))
    assert found.equal is (False if where else None)
    assert f"the output {where!r}" in found.mismatch if where else "do not correspond" in found.skipped
    assert where or "--custom-ops LIB, or custom_ops=, registers a library" in found.skipped


@pytest.mark.parametrize(
    ("old", "new"),
    [("alpha = 2.0>(a)", "alpha = 3.0>(a)"), ("acme.Fused <alpha = 2.0>(a)", "acme.Other(a)"), ("c = acme.Fused <alpha = 2.0>(t)", "c = Neg(t)")],
)  # fmt: skip
def test_unknown_nodes_that_are_others_are_not_compared(old: str, new: str) -> None:
    found = compared(ORIGINAL.replace(old, new))
    assert found.equal is not True


def test_equal_nodes_are_matched_by_name_or_order() -> None:
    both = "p = acme.Fused(x) n = Neg(x) q = acme.Fused(n) y = Sub(p, q)"
    assert compared(both, original=both).equal is True
    assert compared("n = Neg(x) q = acme.Fused(n) p = acme.Fused(x) y = Sub(p, q)", original=both).equal is True
    assert compared("r = acme.Fused(x) n = Neg(x) s = acme.Fused(n) y = Sub(r, s)", original=both).equal is True
    assert compared("p = acme.Fused(x) n = Neg(x) q = acme.Fused(n) y = Sub(q, p)", original=both).equal is False


def test_results_have_the_types_that_the_model_declares() -> None:
    signature = "(float[n, 4] x) => (float[n] y)"
    body = "b = acme.Reduced(x) c = Cast <to = 1>(b) y = Squeeze(c)"
    values = "int32[n, 1] b"
    found = compare_models(*(parsed(body, values=values, signature=signature) for _ in range(2)), threads=1)
    assert found.equal is True
    cut = Cut(parsed(body, values=values, signature=signature), {("com.acme", "Reduced")})
    assert [(value.name, value.type.tensor_type.elem_type) for value in cut.model.graph.input] == [
        ("x", 1),
        ("result 0 of unknown node 0", 6),
    ]


CHOICE = """b = If (c) <then_branch = t () => (float[n, 4] r) {{ r = acme.Fused <alpha = {alpha}>({read}) }},
    else_branch = e () => (float[n, 4] s) {{ s = {other}(x) }}> a = Exp(x) y = {end}(b)"""


@pytest.mark.parametrize(
    ("changed", "equal"),
    [
        ({}, True),
        ({"end": "Abs"}, False),
        ({"read": "x"}, None),
        ({"alpha": "3.0"}, None),
        ({"other": "Sin"}, None),
    ],
)
def test_a_branch_with_an_unknown_node_must_stay_equal(changed: dict[str, str], equal: bool | None) -> None:
    signature = "(float[n, 4] x, bool c) => (float[n, 4] y)"
    usual = {"alpha": "2.0", "read": "a", "other": "Cos", "end": "Neg"}
    one, other = (parsed(CHOICE.format(**{**usual, **each}), signature=signature) for each in ({}, changed))
    for model in (one, other):
        model.graph.node.sort(key=lambda node: ("Exp", "If").index(node.op_type) if node.op_type in ("Exp", "If") else 2)
    assert compare_models(one, other, threads=1).equal is equal


def test_local_functions_are_looked_into() -> None:
    def with_function(operator: str) -> ModelProto:
        model = parsed("y = acme.Pair(x)")
        inner = parsed(f"e = {operator}(x) f = acme.Fused(e) y = Neg(f)")
        function = onnx.helper.make_function("com.acme", "Pair", ["x"], ["y"], list(inner.graph.node), list(inner.opset_import))
        model.functions.append(function)
        return model

    assert compare_models(with_function("Exp"), with_function("Exp"), threads=1).equal is True
    assert compare_models(with_function("Exp"), with_function("Sin"), threads=1).equal is False


def test_operators_of_onnx_itself_are_not_cut_out() -> None:
    """Passes rewrite them, so the nodes beside a cut would not be the original's."""
    model = parsed("y = Conv(x, x)", signature="(double[1, 1, 3, 3] x) => (double[1, 1, 1, 1] y)")
    assert "Could not find an implementation for Conv" in Reference(model).skipped


def test_a_model_in_parts_is_optimized_and_reported() -> None:
    result = passat.optimize(parsed(ORIGINAL))
    assert [node.op_type for node in result.model.graph.node] == ["Exp", "Fused", "Tanh", "Fused", "Neg"]
    assert "compared in parts: cut at 2 nodes unknown to ONNX Runtime (com.acme.Fused)" in str(result.report)
    with pytest.raises(MismatchError, match=r"the output 'operand 0 of unknown node 0' .*; the difference comes from the pass Wrong"):
        passat.optimize(parsed(ORIGINAL), passes=[rule_pass(Wrong, opt_level=0)])


# ---- nothing can be compared


def unloadable() -> ModelProto:
    """A model that cannot be compared in parts either: ONNX Runtime has no convolution of this type."""
    return parsed("a = Conv(x, x) b = Neg(a) y = Neg(b)", signature="(double[1, 1, 3, 3] x) => (double[1, 1, 1, 1] y)")


def test_nothing_compared_is_nothing_written(tmp_path: Path) -> None:
    onnx.save(unloadable(), tmp_path / "in.onnx")
    out = tmp_path / "out.onnx"
    command = ["optimize", str(tmp_path / "in.onnx"), "-o", str(out)]
    rejected = CliRunner().invoke(app, command)
    assert rejected.exit_code == 1
    said = " ".join(rejected.output.split())
    assert "the optimized model cannot be compared with the original: ONNX Runtime does not load the original" in said
    assert "Could not find an implementation for Conv(11) node" in said
    assert "--allow-unverified, or allow_unverified=True, accepts it unverified; nothing was written" in said
    assert "--inputs" not in said, "it would not help"
    assert not out.exists()
    with pytest.raises(UnverifiedError) as caught:
        passat.optimize(tmp_path / "in.onnx")
    assert caught.value.report.verification is not None
    allowed = CliRunner().invoke(app, [*command, "--allow-unverified"])
    assert allowed.exit_code == 0
    assert "verification: nothing was compared: ONNX Runtime does not load the original" in " ".join(allowed.output.split())
    out.unlink()
    assert CliRunner().invoke(app, [*command, "--no-verify"]).exit_code == 0
    assert out.exists()
    assert passat.optimize(tmp_path / "in.onnx", allow_unverified=True).report.node_count_after == 1
    found = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert found["error"].startswith(f"{tmp_path / 'in.onnx'}: the optimized model cannot be compared")


@pytest.mark.parametrize("option", [["--rtol", "0.1"], ["--atol", "0.1"], ["--allow-unverified"], ["--inputs", "some.npz"]])
def test_options_of_comparison_need_a_comparison(option: list[str], tmp_path: Path) -> None:
    onnx.save(unloadable(), tmp_path / "in.onnx")
    found = CliRunner().invoke(app, ["optimize", str(tmp_path / "in.onnx"), "-o", str(tmp_path / "out.onnx"), "--no-verify", *option])
    assert found.exit_code == 2
    assert f"{option[0]} sets how the result is compared" in " ".join(found.output.split())


# ---- with a library of custom operators

SOURCE = """
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* The few declarations of ONNX Runtime's C API, version 8, that one operator needs: functions go by their places, which never change. */
typedef struct { const void *const *(*get_api)(uint32_t); const char *(*version)(void); } ApiBase;
typedef struct Op {
    uint32_t version;
    void *(*create)(const struct Op *, const void *const *, const void *);
    const char *(*name)(const struct Op *);
    const char *(*provider)(const struct Op *);
    int (*input_type)(const struct Op *, size_t);
    size_t (*input_count)(const struct Op *);
    int (*output_type)(const struct Op *, size_t);
    size_t (*output_count)(const struct Op *);
    void (*compute)(void *, void *);
    void (*destroy)(void *);
    int (*input_kind)(const struct Op *, size_t);
    int (*output_kind)(const struct Op *, size_t);
} Op;
enum { TENSOR_DATA = 51, RANK = 61, DIMS = 62, COUNT = 64, SHAPE = 65, FLOAT_ATTRIBUTE = 85, INPUT = 90, OUTPUT = 91, RELEASE_SHAPE = 99 };
enum { CREATE_DOMAIN = 26, ADD_OP = 27, ADD_DOMAIN = 28 };
static const void *const *api;
#define CALL(place, ...) ((void *(*)())api[place])(__VA_ARGS__)
static void *create(const Op *op, const void *const *given, const void *info) {
    float *alpha = malloc(sizeof(float));
    CALL(FLOAT_ATTRIBUTE, info, "alpha", alpha);
    return alpha;
}
static const char *name(const Op *op) { return "Fused"; }
static const char *provider(const Op *op) { return NULL; }
static int type(const Op *op, size_t place) { return 1; }
static size_t count(const Op *op) { return 1; }
static int kind(const Op *op, size_t place) { return 0; }
static void compute(void *alpha, void *context) {
    const void *x;
    void *y, *shape;
    float *from, *to;
    size_t rank, size;
    int64_t dims[16];
    CALL(INPUT, context, (size_t)0, &x);
    CALL(SHAPE, x, &shape);
    CALL(RANK, shape, &rank);
    CALL(DIMS, shape, dims, rank);
    CALL(COUNT, shape, &size);
    CALL(RELEASE_SHAPE, shape);
    CALL(OUTPUT, context, (size_t)0, dims, rank, &y);
    CALL(TENSOR_DATA, x, &from);
    CALL(TENSOR_DATA, y, &to);
    for (size_t i = 0; i < size; i++) to[i] = *(float *)alpha * from[i];
}
static Op op = {8, create, name, provider, type, count, type, count, compute, free, kind, kind};
void *RegisterCustomOps(void *options, const ApiBase *base) {
    void *domain;
    api = base->get_api(8);
    CALL(CREATE_DOMAIN, "com.acme", &domain);
    CALL(ADD_OP, domain, &op);
    return CALL(ADD_DOMAIN, options, domain);
}
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with com.acme.Fused, which multiplies by alpha."""
    if COMPILER is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("acme")
    (folder / "acme.c").write_text(SOURCE)
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-w", "-o", "libacme.so", "acme.c"], cwd=folder, check=True)
    return folder / "libacme.so"


def test_a_library_makes_the_whole_model_run(library: Path) -> None:
    feed = {"x": np.arange(8, dtype=np.float32).reshape(2, 4) / 8}
    with custom_operators([library]):
        (found,) = Runner(parsed(ORIGINAL), threads=1).run(feed)
        report = compared(ORIGINAL)
    np.testing.assert_allclose(found, -2 * np.tanh(2 * np.exp(feed["x"])), rtol=1e-6)
    assert (report.equal, report.parts) == (True, "")
    assert compared(ORIGINAL).parts, "outside it is unknown again"


def test_optimizing_with_a_library(library: Path, tmp_path: Path) -> None:
    onnx.save(parsed(ORIGINAL), tmp_path / "in.onnx")
    out = tmp_path / "out.onnx"
    command = ["optimize", str(tmp_path / "in.onnx"), "-o", str(out), "--custom-ops", str(library)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "verified on ONNX Runtime" in done.output
    assert "in parts" not in done.output
    timed = CliRunner().invoke(app, [*command, "--choose", "time", "--json"])
    assert json.loads(timed.stdout)["timings"][0]["rounds"] > 0, "the timing uses the library"
    priced = passat.optimize(tmp_path / "in.onnx", cost="measured", custom_ops=[library])
    assert priced.report.verification is not None
    assert priced.report.verification.parts == ""
    with pytest.raises(MismatchError, match=r"the output 'y' .*; the difference comes from the pass Wrong"):
        passat.optimize(parsed(ORIGINAL), passes=[rule_pass(Wrong, opt_level=0)], custom_ops=[library])


def test_bisecting_with_a_library(library: Path, tmp_path: Path) -> None:
    onnx.save(parsed(ORIGINAL), tmp_path / "in.onnx")
    (tmp_path / "wrong.py").write_text(
        "from passat.rules import RuleSet, op, tensors\n\n(x,) = tensors('x')\n\n\n"
        "class Wrong(RuleSet):\n    '''Is wrong.'''\n\n    exponential = op.exp(op.negative(op.negative(x))) >> op.sin(x)\n"
    )
    for command in (["bisect"], ["rules", "bisect"]):
        words = [*command, str(tmp_path / "in.onnx"), "--rules", str(tmp_path / "wrong.py"), "--passes", "Wrong", "--json"]
        found = CliRunner().invoke(app, [*words, "--custom-ops", str(library)])
        assert found.exit_code == 0, found.output
        assert "the output 'y'" in json.loads(found.stdout)["why"]
        crash = CliRunner().invoke(app, [*words, "--custom-ops", str(library), "--check", "crash"])
        assert "is good after all passes" in " ".join(crash.output.split()) or "good with all" in " ".join(crash.output.split()), (
            crash.output
        )


@pytest.mark.parametrize(("content", "said"), [(None, "does not exist"), ("no library", "does not load")])
def test_files_that_are_not_libraries(content: str | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    if content is not None:
        path.write_text(content)
    with pytest.raises(CustomOpsError, match=said):
        passat.optimize(parsed(ORIGINAL), custom_ops=[path])
    onnx.save(parsed(ORIGINAL), tmp_path / "in.onnx")
    found = CliRunner().invoke(app, ["optimize", str(tmp_path / "in.onnx"), "-o", str(tmp_path / "out.onnx"), "--custom-ops", str(path)])
    assert (found.exit_code, (tmp_path / "out.onnx").exists()) == (1, False)
    assert said in " ".join(found.output.split())


def test_a_model_is_not_changed_by_being_cut() -> None:
    model = parsed(ORIGINAL)
    before = copy.deepcopy(model)
    Reference(model, threads=1).check(model)
    assert model == before

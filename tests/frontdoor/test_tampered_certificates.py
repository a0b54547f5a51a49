"""Every field of a real certificate, changed, removed, doubled or exchanged: it is rejected, or makes the same claims about the two
models."""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from typer.testing import CliRunner

import passat
from passat.certificates import IncompleteCertificateError, TrustError, check_certificate
from passat.cli.app import app
from passat.rules.provenance.plain import CertificateError
from passat.rules.provenance.writer import WRITTEN
from tests.share import share

TRUST = ["SlicesToSplit"]
PASSES = "FoldConstant,SimplifyExpr,SlicesToSplit,DynamicToStatic"


PARTS = 5
"""More parts than there are rules for, so that the work of SlicesToSplit is not covered."""


def sliced() -> ModelProto:
    """relu(c * c - (-x)) cut in parts: a rule, a folded constant, and slices that SlicesToSplit turns into a split without rules."""
    cuts = [helper.make_node("Slice", ["r", f"at{i}", f"at{i + 1}", "axis"], [f"part{i}"]) for i in range(PARTS)]
    nodes = [
        helper.make_node("Mul", ["c", "c"], ["cc"]),
        helper.make_node("Neg", ["x"], ["negative"]),
        helper.make_node("Sub", ["cc", "negative"], ["moved"]),
        helper.make_node("Relu", ["moved"], ["r"]),
        *cuts,
        helper.make_node("Max", [f"part{i}" for i in range(PARTS)], ["y"]),
    ]
    shapes = {"x": [2, PARTS], "y": [2, 1]}
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    bounds = {"axis": [1], **{f"at{i}": [i] for i in range(PARTS + 1)}}
    tensors = [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in bounds.items()]
    tensors.append(numpy_helper.from_array(np.arange(1, PARTS + 1, dtype=np.float32), "c"))
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], tensors)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])


BEFORE = sliced()
RESULT = passat.optimize(BEFORE, passes=PASSES, certificate=True, verify=False)
GOOD: dict[str, Any] = json.loads(json.dumps(RESULT.certificate))


def check(data: Any, trust: list[str] = TRUST) -> tuple[list[str], set[str]]:
    """The claims of a certificate: its functions, and the passes that must be trusted."""
    verdict = check_certificate(data, before=BEFORE, after=RESULT.model, trust=trust)
    return verdict.functions, {gap.pass_name for gap in verdict.trusted}


CLAIM = check(GOOD)


def paths(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in a certificate except the certificate itself."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield (*path, key)
        yield from paths(value, (*path, key))


def inside(data: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        data = data[key]
    return data


def others(value: Any) -> list[Any]:
    """Replacements for a value."""
    if isinstance(value, bool):
        return [not value, 7]
    if isinstance(value, int):
        return [0, value + 1, value - 1, len(GOOD["terms"])]
    if isinstance(value, str):
        names = [*GOOD["rules"], *(part["pass"] for part in GOOD["steps"]), "main", "", "negative", "add"]
        return [name for name in dict.fromkeys(names) if name != value]
    return [None, [], {}] if value else [None, 0]


def tampered(path: tuple[Any, ...]) -> Iterator[Any]:
    """The certificate with one change: another value, a removal, or in a list a duplicate or an exchange with the next element."""
    value, key = inside(GOOD, path), path[-1]
    for other in others(value):
        bad = copy.deepcopy(GOOD)
        inside(bad, path[:-1])[key] = other
        yield bad
    bad = copy.deepcopy(GOOD)
    del inside(bad, path[:-1])[key]
    yield bad
    within = inside(GOOD, path[:-1])
    if isinstance(within, list):
        bad = copy.deepcopy(GOOD)
        inside(bad, path[:-1]).insert(key, value)
        yield bad
        if key + 1 < len(within) and within[key] != within[key + 1]:
            bad = copy.deepcopy(GOOD)
            place = inside(bad, path[:-1])
            place[key], place[key + 1] = place[key + 1], place[key]
            yield bad


def test_the_certificate_has_every_kind_of_step() -> None:
    assert {step["rule"].partition(".")[0] for part in GOOD["steps"] for step in part.get("steps", ())} == {"Arithmetic", "ConstantFolding"}
    assert [part["pass"] for part in GOOD["steps"] if "uncovered" in part] == TRUST
    assert (["main"], {"SlicesToSplit"}) == CLAIM


@pytest.mark.parametrize("section", list(GOOD))
def test_every_change_is_rejected_or_proves_the_same(section: str) -> None:
    rejected = 0
    changes = [(path, bad) for path in [(section,), *((section, *rest) for rest in paths(GOOD[section]))] for bad in tampered(path)]
    for path, bad in changes[:: share(4, 1) if len(changes) > 100 else 1]:
        try:
            assert check(bad) == CLAIM, f"{path}: {inside(GOOD, path)!r}"
        except CertificateError:
            rejected += 1
    assert rejected


def forged() -> tuple[Any, ModelProto]:
    """A certificate whose only step is a gap, and the model that it leads to: the least part instead of the largest."""
    wrong = sliced()
    wrong.graph.node[-1].op_type = "Min"
    other = json.loads(json.dumps(passat.optimize(wrong, passes=PASSES, certificate=True, verify=False).certificate))
    place = len(GOOD["terms"])
    numbers: dict[int, int] = {}
    terms = copy.deepcopy(GOOD["terms"])
    for number, row in enumerate(other["terms"]):
        moved = copy.deepcopy(row)
        if row[0] in ("call", "function"):
            moved[3] = [numbers[part] for part in row[3]]
        elif row[0] in ("tuple", "if", "apply"):
            moved[1] = [numbers[part] for part in row[1]]
        elif row[0] == "field":
            moved[2] = [numbers[part] for part in row[2]]
        numbers[number] = terms.index(moved) if moved in terms else len(terms)
        terms += [moved] if numbers[number] == len(terms) else []
    assert len(terms) > place
    last = numbers[other["functions"]["main"][0]]
    first = GOOD["functions"]["main"][0]
    gap = {"pass": "SlicesToSplit", "function": "main", "uncovered": "", "before": first, "after": last}
    return {**GOOD, "terms": terms, "functions": {"main": [first, last]}, "steps": [gap]}, wrong


def test_a_change_that_is_called_uncovered_is_rejected_unless_its_pass_is_trusted(tmp_path: Path) -> None:
    data, wrong = forged()
    with pytest.raises(
        IncompleteCertificateError, match="does not cover SlicesToSplit in the function main; --trust SlicesToSplit accepts it"
    ):
        check_certificate(data, before=BEFORE, after=wrong)
    for name in ("FoldConstant", "SimplifyExpr", "(all)", "Unknown"):
        gap = {**data["steps"][0], "pass": name}
        with pytest.raises(IncompleteCertificateError, match="cannot be trusted instead, only registered passes without rules can"):
            check_certificate({**data, "steps": [gap]}, before=BEFORE, after=wrong)
    Path(tmp_path / "forged.json").write_text(json.dumps(data))
    command = ["explain", "--check", str(tmp_path / "forged.json")]
    assert CliRunner().invoke(app, command).exit_code == 1
    assert CliRunner().invoke(app, [*command, "--trust", "CollapseBatchDims"]).exit_code == 1
    assert CliRunner().invoke(app, [*command, "--trust", "SlicesToSplit"]).exit_code == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Unknown", "unknown pass 'Unknown' in trust"),
        ("FoldConstant", "the pass FoldConstant has rules"),
        ("TargetForms", "the pass TargetForms has rules"),
        ("ConvertLayout", "the pass ConvertLayout has rules"),
        ("(all)", "unknown pass '(all)' in trust"),
    ],
)
def test_only_known_passes_without_rules_can_be_trusted(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(TrustError, match=re.escape(said)):
        check(GOOD, [*TRUST, name])
    Path(tmp_path / "good.json").write_text(json.dumps(GOOD))
    found = CliRunner().invoke(app, ["explain", "--check", str(tmp_path / "good.json"), "--trust", name])
    assert (found.exit_code, said in found.output) == (2, True)


def test_unneeded_trust_is_accepted() -> None:
    assert check(GOOD, [*TRUST, "CollapseBatchDims", WRITTEN]) == CLAIM


def test_a_certificate_that_speaks_of_no_function_proves_nothing() -> None:
    with pytest.raises(IncompleteCertificateError, match="it covers no function"):
        check_certificate({**GOOD, "functions": {}, "steps": []})


def test_the_report_lists_gaps_of_the_certificate() -> None:
    assert "provenance: the certificate does not cover SlicesToSplit in the function main" in str(RESULT.report)


def test_how_many_calls_a_pass_merges_does_not_matter() -> None:
    """At level 4 three products and more are merged, by rules of the library that merge two."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8]) for name in ("x", "y0", "y1", "y2")]
    weights = [numpy_helper.from_array(np.random.default_rng(i).normal(size=(8, 8)).astype(np.float32), f"w{i}") for i in range(3)]
    nodes = [helper.make_node("MatMul", ["x", f"w{i}"], [f"y{i}"]) for i in range(3)]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    result = passat.optimize(model, opt_level=4, cost="nodes", certificate=True)
    assert result.certificate is not None
    assert any(name.startswith("Parallel.products") for name in result.certificate["rules"])
    check_certificate(result.certificate, before=model, after=result.model)


def test_a_function_that_draws_random_numbers_must_not_be_called() -> None:
    rows = [["call", "nn.dropout", {}, [0], "drop"], ["function", {}, 0, [len(GOOD["terms"])]], ["apply", [len(GOOD["terms"]) + 1]]]
    with pytest.raises(CertificateError, match=rf"terms, number {len(GOOD['terms']) + 2}: it has a function or branch with stateful calls"):
        check({**GOOD, "terms": [*GOOD["terms"], *rows]})

"""A fixed share of the audit (`opset_audit.py`): each version of each operator with several versions, in one of the forms. `make audit` runs
all of it."""

from collections.abc import Iterator, Sequence

import onnx
import pytest

from passat.ir.onnx.upgrades import AUDITED
from tests.ir.onnx import opset_audit as audit
from tests.ir.onnx.opset_audit import FORMS, MATHS, Case, Finding
from tests.ir.onnx.opset_samples import all_samples
from tests.share import share

NOT_RUN = {
    **{(name, 22): "ONNX Runtime has no kernel" for name in ("Bernoulli", "GlobalLpPool", "MaxRoiPool", "Multinomial", "RoiAlign")},
    **{(name, 28): "ONNX Runtime has no kernel" for name in ("DequantizeLinear", "QuantizeLinear")},
    **{(f"Optional{rest}", 28): "ONNX Runtime has no kernel" for rest in ("", "GetElement", "HasElement")},
    **{(f"Random{kind}", 22): "ONNX Runtime has no kernel" for kind in ("Normal", "NormalLike", "Uniform", "UniformLike")},
    ("Scan", 8): "has a batch dimension; Passat refuses to raise it",
    ("Scatter", 11): "deprecated",
    ("Upsample", 10): "deprecated",
}
"""Versions without a sample that ONNX Runtime runs, among the versions that it supports at all."""


@pytest.fixture(scope="module", name="good")
def _good() -> dict[tuple[str, int], list[Case]]:
    """The cases that ONNX Runtime runs, by operator and version: up to three of each version."""
    found: dict[tuple[str, int], list[Case]] = {key: [] for key in _versions()}
    samples = all_samples()
    turn = 0
    for op_type in audit.versions():
        cases = audit.cases(sample for sample in samples if sample.op_type == op_type)
        for since, first, last in audit.spans(op_type):
            every = [case for case in cases if first <= case.opset <= last]
            turn += 1
            some = every[turn % max(len(every), 1) :] + every[: turn % max(len(every), 1)]
            for case in some:
                if len(found[op_type, since]) < 3:
                    found[op_type, since] += audit.runnable([case])[0]
    return found


def _versions() -> Iterator[tuple[str, int]]:
    for op_type in audit.versions():
        for since, _, _ in audit.spans(op_type):
            yield op_type, since


def one_each(good: dict[tuple[str, int], list[Case]], kind: str, kinds: Sequence[str]) -> list[Case]:
    """A case of each version. In CI, each kind has another share of the versions."""
    at = kinds.index(kind)
    return [cases[at % len(cases)] for cases in good.values() if cases][share(at, 0) :: share(len(kinds), 1)]


def shown(findings: list[Finding]) -> str:
    return "\n".join(map(str, findings))


def test_every_version_is_held_against_the_runtime(good: dict[tuple[str, int], list[Case]]) -> None:
    assert {key for key, cases in good.items() if not cases} == {key for key in NOT_RUN if key[1] <= audit.runtime_opset()}


def test_no_opset_is_newer_than_the_audit() -> None:
    assert onnx.defs.onnx_opset_version() <= AUDITED, "add samples of the new version, and its changes to the table of upgrades"


@pytest.mark.parametrize("form", FORMS)
def test_read_and_written(form: str, good: dict[tuple[str, int], list[Case]]) -> None:
    findings = [finding for case in one_each(good, form, FORMS) for finding in audit.check_round_trip(case, form)]
    assert not findings, shown(findings)


@pytest.mark.parametrize("form", FORMS)
def test_raised_to_the_next_version_and_to_the_newest(form: str, good: dict[tuple[str, int], list[Case]]) -> None:
    findings = [
        finding
        for case in one_each(good, form, FORMS)
        for target in audit.targets(case)
        for finding in audit.check_raised(case, form, target)
    ]
    wrong = [finding for finding in findings if finding.check != "rejected" or form == "static"]
    assert not wrong, shown(wrong)


@pytest.mark.parametrize("math", MATHS)
def test_folded(math: str, good: dict[tuple[str, int], list[Case]]) -> None:
    chosen = one_each(good, math, MATHS)
    findings = [finding for group in audit.by_opset(chosen) for finding in audit.check_folded(group, math)]
    assert not findings, shown(findings)

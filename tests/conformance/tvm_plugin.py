"""A pytest plugin for the process that runs a file of TVM's: Passat under TVM's names, and the outcome of each test as a line of JSON."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from passat.testing import enabled_targets, parametrize_rows
from tests.conformance.tvm_names import Missing, install

LOG = "PASSAT_CONFORMANCE_LOG"
"""The environment variable that names the file of outcomes."""


def pytest_configure() -> None:
    install()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test of TVM's with parameters `target` and `dev` for all targets, and once for each row of `parameters`, as TVM's own plugin
    does."""
    marked = {name.strip() for mark in metafunc.definition.iter_markers("parametrize") for name in _names(mark.args[0])}
    if {"target", "dev"} <= set(metafunc.fixturenames) and not marked & {"target", "dev"}:
        metafunc.parametrize(("target", "dev"), enabled_targets())
    parametrize_rows(metafunc)


def _names(names: str | Sequence[str]) -> Sequence[str]:
    return names.split(",") if isinstance(names, str) else names


def pytest_collection_finish() -> None:
    Missing.collecting = False


def _note(name: str, outcome: str, reason: str = "") -> None:
    with Path(os.environ[LOG]).open("a") as log:
        print(json.dumps([name, outcome, reason]), file=log)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _note("(the file)", "failed", _reason(report))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    name = report.nodeid.rpartition("::")[2]
    if report.when == "call" or not report.passed:
        if report.when == "teardown":
            return
        as_expected = report.skipped and hasattr(report, "wasxfail")  # the error that the test expects was raised
        _note(name, "passed" if as_expected else report.outcome, _reason(report) if report.failed else "")


def _reason(report: pytest.CollectReport | pytest.TestReport) -> str:
    """The last line of an error and where it was raised."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        return " ".join(str(report.longrepr).split())[-300:]
    return f"{Path(crash.path).name}:{crash.lineno}: {' '.join(crash.message.split())[:300]}"

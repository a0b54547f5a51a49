"""Counts the checks of TVM's tests of integer expressions that hold: `python -m tests.conformance.run_arith CHECKOUT`.

    git clone --depth 1 --branch v0.8.0 https://github.com/apache/tvm
    python -m tests.conformance.run_arith tvm

A test of TVM is a list of checks that an expression simplifies to one exact form; it stops at the first that fails. This command runs all
checks, and counts those that saturation proves, and those for which the simplified form is the expected one. `--plus-one` adds 1 to what is
expected, so that each proof is an error.
"""

import argparse
import importlib.util
import statistics
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any as AnyValue
from typing import Final

from passat.ir.tir.expr import PrimExpr, convert
from passat.ir.tir.ranges import Reduce
from passat.rules.passes.index_analyzer import Analyzer
from tests.conformance.tvm_names import Missing, install

FILES: Final = ("arith_rewrite_simplify", "arith_canonical_simplify")
CHECKERS: Final = ("RewriteChecker", "CanonicalChecker")


@dataclass
class Check:
    """One check: where it is, what kind of expression it has, and what was found."""

    where: str
    kind: str
    proved: bool = False
    same_form: bool = False
    seconds: float = 0.0
    error: str = ""
    shown: str = ""


@dataclass
class Runner:
    """Runs the checks of test files."""

    plus_one: bool = False
    checks: list[Check] = field(default_factory=list)

    def run(self, path: Path) -> None:
        """Runs all tests of a file."""
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        Missing.collecting = False
        for name in CHECKERS:
            if hasattr(module, name):
                getattr(module, name).verify = self._verify_of(path.stem)
        for name, test in list(vars(module).items()):
            if name.startswith("test_"):
                self._run_test(test)

    def _run_test(self, test: AnyValue) -> None:
        try:
            test()
        except Exception as error:  # a part of the test that is not a check, such as a name that Passat lacks
            self.checks.append(Check(test.__name__, "not run", error=f"{type(error).__name__}: {error}"))

    def _verify_of(self, stem: str) -> AnyValue:
        def verify(checker: AnyValue, data: AnyValue, expected: AnyValue) -> None:
            try:
                left, right = convert(data), convert(expected)
            except TypeError as error:  # an unknown dimension, which is not an expression here
                self.checks.append(Check(stem, "other types", error=str(error)))
                return
            check = Check(stem, kind_of(left, right), shown=f"{left} = {right}")
            self.checks.append(check)
            start = time.perf_counter()
            try:
                self._try(checker.analyzer, left, right, check)
            except Exception as error:  # counted as not proved
                check.error = f"{type(error).__name__}: {error}"
            check.seconds = time.perf_counter() - start

        return verify

    def _try(self, analyzer: Analyzer, left: PrimExpr, right: PrimExpr, check: Check) -> None:
        if self.plus_one:
            right = convert(right.equal(convert(False))) if right.dtype == "bool" else right + 1
        check.proved = left.dtype == right.dtype and analyzer.can_prove_equal(left, right)
        if not self.plus_one:
            from passat.ir import structural_equal

            check.same_form = structural_equal(analyzer.simplify(left), right)


def kind_of(left: PrimExpr, right: PrimExpr) -> str:
    """The kind of a check: scalar integers and truth values, or what else it is about."""
    if isinstance(left, Reduce):
        return "reductions"
    if left.lanes != 1 or right.lanes != 1:
        return "vectors"
    return "scalar integers" if left.type.is_index or left.dtype == "bool" else "other types"


def table(checks: Iterable[Check]) -> Iterable[str]:
    """Lines of a Markdown table."""
    yield "| checks | tried | proved equal | same form | median ms | p90 ms |"
    yield "| :-- | --: | --: | --: | --: | --: |"
    by_kind: dict[str, list[Check]] = {}
    for check in checks:
        by_kind.setdefault(check.kind, []).append(check)
    for kind, found in sorted(by_kind.items()):
        times = sorted(check.seconds * 1000 for check in found)
        proved, same = sum(check.proved for check in found), sum(check.same_form for check in found)
        middle, most = statistics.median(times), times[int(len(times) * 0.9)]
        yield f"| {kind} | {len(found)} | {proved} | {same} | {middle:.0f} | {most:.0f} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a checkout of TVM (tag v0.8.0)")
    parser.add_argument("--plus-one", action="store_true", help="add 1 to what is expected: nothing may be proved")
    parser.add_argument("--failures", action="store_true", help="print the scalar checks that are not proved")
    given = parser.parse_args(arguments)
    install()
    warnings.simplefilter("ignore")
    runner = Runner(given.plus_one)
    for name in FILES:
        runner.run(given.checkout / "tests" / "python" / "unittest" / f"test_{name}.py")
    print("\n".join(table(runner.checks)))
    if given.failures:
        for check in runner.checks:
            if check.proved is given.plus_one and check.kind in ("scalar integers", "not run"):
                print(f"{check.where}: {check.shown} {check.error}")
    errors = Counter(check.error for check in runner.checks if check.error)
    for error, count in errors.most_common(5):
        print(f"{count} x {error}")


if __name__ == "__main__":
    main()

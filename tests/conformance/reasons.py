"""The reasons of failing tests of TVM, which `docs/tvm-differences.md` lists by file and test."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parents[2] / "docs" / "tvm-differences.md"
HEADING: Final = "## Tests of TVM that fail, and why"


def listed(text: str) -> set[tuple[str, str]]:
    """Files and tests in the tables below the heading. The first cell names a file or repeats the one above by being empty.

    >>> sorted(listed(f"{HEADING}\\n| `ir_op` | `test_a`, `test_b` | Why. |\\n| | `test_c` | Why. |\\n## Next\\n| `x` | `y` | z |"))
    [('ir_op', 'test_a'), ('ir_op', 'test_b'), ('ir_op', 'test_c')]
    """
    found = set()
    file = ""
    section = text.partition(HEADING)[2].partition("\n## ")[0]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and "`" in cells[1]:
            file = cells[0].strip("`") or file
            found |= {(file, test.strip(" `")) for test in cells[1].split(",")}
    return found


def contradictions(failed: Mapping[str, Iterable[str]], passed: Mapping[str, Iterable[str]], text: str) -> Iterable[str]:
    """Lines about failing tests without a reason, and about reasons of tests that pass. A name without parameters stands for all of them."""
    reasons = listed(text)
    failing = set()
    for file, tests in failed.items():
        for test in tests:
            named = {(file, test), (file, test.partition("[")[0])}
            failing |= named
            if reasons.isdisjoint(named):
                yield f"{file}::{test} fails, and {PAGE.name} has no reason"
    for file, tests in passed.items():
        for test in sorted({name for full in tests for name in (full, full.partition("[")[0])}):
            if (file, test) in reasons - failing:
                yield f"{file}::{test} passes, but {PAGE.name} has a reason why it fails"

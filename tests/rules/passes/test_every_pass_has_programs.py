"""Each pass that is registered by the rules' side has a file here with programs in Relay's text, before and after."""

import re
from pathlib import Path

import pytest

import passat.rules.passes  # noqa: F401  # importing registers the passes of the library
from passat.passmgr import list_passes
from passat.passmgr.registry import PassEntry

FILES = {path.name: path.read_text() for path in Path(__file__).parent.glob("test_*.py") if path != Path(__file__)}
PASSES = [entry for entry in list_passes() if entry.factory.__module__.startswith("passat.rules")]


def spellings(entry: PassEntry) -> str:
    """A regular expression for the ways in which a test names a pass: what makes it, or its name in a pipeline."""
    return rf"\b({re.escape(entry.factory.__name__)}|{re.escape(entry.name)})\b"


@pytest.mark.parametrize("entry", PASSES, ids=lambda entry: entry.name)
def test_it_has_programs_before_and_after(entry: PassEntry) -> None:
    named = [text for text in FILES.values() if re.search(spellings(entry), text)]
    assert named, f"no file of tests/rules/passes names {entry.name}"
    golden = [text for text in named if "tests.rules.passes.golden import" in text]
    assert golden, f"no file of tests/rules/passes has programs before and after {entry.name}: see golden.py"


def test_all_passes_are_looked_at() -> None:
    assert len(PASSES) > 20

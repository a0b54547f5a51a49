"""Messages have the singular of a noun after a count of one: `passat.ir.counting.counted` writes both."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDERS: Final = ("src/passat", "ir", "passmgr", "rules", "runtime")
NOUNS: Final = (
    "applications|arguments|arrays|axes|bits|bytes|candidates|channels|constants|cores|digits|dimensions|e-classes|e-nodes|elements|entries|"
    "expressions|fields|files|functions|groups|inputs|instances|iterations|kernels|lines|matches|models|nodes|operands|outputs|pairs|"
    "parameters|parts|passes|paths|programs|results|roots|rules|statements|steps|tensors|threads|warnings|weights"
)
ADJECTIVES: Final = "batch|equal|input|more|new|other|output|random|removed|similar|spatial|type|zero"
COUNTED: Final = re.compile(rf" (?:(?:{ADJECTIVES}) )?(?:{NOUNS})\b")
AFTER_BRACE: Final = re.compile(rf"}}(?:[\"']\s*f?[\"'])?{COUNTED.pattern}")
PART: Final = re.compile(r"\b(all|of|least|most|than) $")
"""What is before a number that is not one, or of which another number is a part."""
KEYS: Final = {"src/passat/measure.py": "the name of a machine, under which measurements are stored"}


def plurals_of_counts(path: Path) -> Iterator[str]:
    """The places where a text has a count of any value and a noun in the plural."""
    text = path.read_text()
    if not AFTER_BRACE.search(text):  # parsing all files takes seconds
        return
    tree = ast.parse(text, str(path))
    conditional = {id(part) for node in ast.walk(tree) if isinstance(node, ast.IfExp) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr) or id(node) in conditional:
            continue
        before = ""
        for value, after in zip(node.values, node.values[1:], strict=False):
            if isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant) and COUNTED.match(str(after.value)):
                constant = re.fullmatch(r"_?[A-Z_]+", ast.unparse(value.value))
                if not constant and not PART.search(before) and is_number(value.value):
                    yield f"{path}:{value.lineno}: {ast.unparse(value.value)}{str(after.value)[:20]}"
            before = str(value.value) if isinstance(value, ast.Constant) else ""


def is_number(node: ast.expr) -> bool:
    """False for what is a name or a type by its own name."""
    return not re.search(r"name|dtype|where|type_|\bkey\b|\bwhat\b", ast.unparse(node))


def sources() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not any(parent.is_symlink() for parent in path.parents) and path.relative_to(ROOT).as_posix() not in KEYS:
                yield path


def test_counts_and_their_nouns() -> None:
    assert not [place for path in sources() for place in plurals_of_counts(path)]


def test_a_plural_is_found(tmp_path: Path) -> None:
    for text, found in (
        ("f'has {len(x)} operands'", 1),
        ("f'{n} more rules'", 1),
        ("f'{len(x)} of {n} rules'", 0),
        ("f'{name} passes'", 0),
    ):
        path = tmp_path / "made.py"
        path.write_text(text)
        assert len(list(plurals_of_counts(path))) == found, text

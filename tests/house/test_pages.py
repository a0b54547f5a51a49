"""The pages of the documentation are consistent, as far as that can be checked without Sphinx; `make docs` checks the rest."""

import re
from pathlib import Path
from typing import Final

import pytest
from generators import expand

HOME: Final = Path(__file__).resolve().parents[2]
DOCS: Final = HOME / "docs"
PAGES: Final = sorted([HOME / "README.md", HOME / "CONTRIBUTING.md", HOME / "CHANGELOG.md", *DOCS.rglob("*.md")])
LINK: Final = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
CODE: Final = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
TOCTREE: Final = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def expanded() -> dict[Path, str]:
    """All pages with their generated parts."""
    return {page: expand(page.read_text()) for page in PAGES}


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a page and of included pages, as GitHub and MyST create them."""
    text += "".join((DOCS / name).read_text() for name in re.findall(r"^```\{include\} (\S+)$", text, re.MULTILINE))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in HEADING.findall(text)}


def test_links_lead_somewhere(expanded: dict[Path, str]) -> None:
    dead = []
    headings = {page: anchors(text) for page, text in expanded.items()}
    for page, text in expanded.items():
        for name, anchor in LINK.findall(CODE.sub("", text)):
            target = (page.parent / name).resolve() if name else page
            if not target.exists() or (anchor and anchor not in headings.get(target, {anchor})):
                dead.append(f"{page.relative_to(HOME)}: {name}#{anchor}")
    assert dead == []


def test_every_page_is_in_a_table_of_contents_once() -> None:
    found: list[Path] = []
    for page in DOCS.rglob("*.md"):
        for entry in re.findall(r"^(?:.* <)?([\w./*-]+)>?$", "\n".join(TOCTREE.findall(page.read_text())), re.MULTILINE):
            found += page.parent.glob(f"{entry}.md")
    assert sorted(found) == sorted(set(DOCS.rglob("*.md")) - {DOCS / "index.md"})


def test_generated_parts_are_there(expanded: dict[Path, str]) -> None:
    marked = [page for page in PAGES if "<!-- generated: " in page.read_text()]
    assert len(marked) >= 11
    assert all(len(expanded[page]) > len(page.read_text()) for page in marked)


@pytest.mark.parametrize("page", [*PAGES, HOME / "ROADMAP.md", HOME / "benchmarks/README.md"], ids=lambda page: page.name)
def test_tables_are_whole(page: Path) -> None:
    """Each has a header, and all rows have the cells of the header: a blank line or a `|` inside of a cell breaks a table."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        head, *rows = table.splitlines()
        assert rows, head
        assert re.fullmatch(r"\|(?: *:?-+:? *\|)+", rows[0]), head
        assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {len(re.findall(r"(?<!\\)\|", head))}, head

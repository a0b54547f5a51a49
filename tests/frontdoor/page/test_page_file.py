"""Pages as files, and the options of the command line."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
import tomllib
from fnmatch import fnmatch
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import onnx
import pytest
from typer.testing import CliRunner, Result

import passat
from passat.cli.app import app
from tests.frontdoor.page.pages import optimized, small_model

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "models"
RESNET = EXAMPLES / "resnet_tiny.onnx"
RULES = '''
"""Rules of a user."""
from passat.rules import RuleSet, constant, op, tensor
from passat.rules.guards import is_all, same_type

x, c = tensor("x"), constant("c")

class Mine(RuleSet):
    """What I know about my models."""

    zero = (x + c >> x).when(is_all(c, 0), same_type(x, x + c))
    root = op.sqrt(x * x) >> op.abs(x)
'''


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "120"})


class Page(HTMLParser):
    """The parts of a page that matter to a browser: its policy, scripts and styles, and all external references."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.policy = ""
        self.content: dict[str, list[str]] = {"script": [], "style": []}
        self.links: list[str] = []
        self._inside: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag if tag in self.content else None
        if self._inside:
            self.content[tag].append("")
        given = dict(attrs)
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"] or ""
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "action", "data", "srcset")]

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.content[self._inside][-1] += data


@pytest.fixture
def page(tmp_path: Path) -> Page:
    optimized(small_model()).write_report(tmp_path / "page.html")
    return Page((tmp_path / "page.html").read_text("utf-8"))


def test_a_page_needs_nothing_else(page: Page) -> None:
    assert all(link.startswith("#") for link in page.links)
    assert len(page.content["script"]) == 2
    assert not re.search(r"@import|url\(", page.content["style"][0])


def test_the_policy_lets_nothing_run_but_the_script_of_the_page(page: Page) -> None:
    rules = dict(rule.strip().split(" ", 1) for rule in page.policy.split(";"))
    assert rules["default-src"] == "'none'"
    for kind, content in (("script-src", page.content["script"][1]), ("style-src", page.content["style"][0])):
        assert rules[kind] == f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
    assert "unsafe" not in page.policy


def test_the_page_contains_the_data(page: Page) -> None:
    data = json.loads(page.content["script"][0])
    assert data["head"]["nodes"] == [4, 2]


def test_the_scripts_insert_text_only() -> None:
    own = [path for path in files("passat.page").iterdir() if path.name.endswith(".js") and not path.name.endswith(".min.js")]
    scripts = {path.name: path.read_text("utf-8") for path in own}
    assert len(scripts) == 9
    for text in scripts.values():
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function|fetch\(|XMLHttp|WebSocket|import\(", text
        )
        assert max(map(len, text.splitlines())) <= 160
        assert not re.search(r"[ \t]$", text, re.MULTILINE)


def test_the_files_of_the_page_are_packaged() -> None:
    root = Path(__file__).resolve().parents[3]
    project = tomllib.loads((root / "pyproject.toml").read_text())
    packaged = project["tool"]["setuptools"]["package-data"]["passat.page"]
    page = root / "src" / "passat" / "page"
    others = [path.relative_to(page).as_posix() for path in page.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    assert len(others) == 13
    assert all(any(fnmatch(name, pattern) for pattern in packaged) for name in others)
    assert "src/passat/page/*.LICENSE" in project["project"]["license-files"]


def test_the_page_carries_the_license_of_the_library_that_it_holds(page: Page) -> None:
    assert "Copyright (c) 2012-2014 Chris Pettitt" in page.content["script"][1]
    assert "sourceMappingURL" not in page.content["script"][1]


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node.js, which reads the scripts without a browser")
def test_the_scripts_are_javascript(page: Page, tmp_path: Path) -> None:
    script = tmp_path / "script.js"
    script.write_text(page.content["script"][1])
    done = subprocess.run(["node", "--check", str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_page_wants_a_record() -> None:
    result = passat.optimize(small_model(), verify=False)
    with pytest.raises(ValueError, match="record=True"):
        result.write_report("page.html")


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "page.html"
    place.write_text("before")

    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", broken)
    with pytest.raises(OSError, match="No space left"):
        optimized(small_model()).write_report(place)
    assert place.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_page_of_a_model_with_a_sparse_constant(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2, 3] x) => (float[2, 3] y) { s = Constant () y = Mul (x, s) }'
    )
    elements, indices = onnx.helper.make_tensor("s", 1, [2], [5.0, 7.0]), onnx.helper.make_tensor("i", 7, [2], [1, 4])
    sparse = onnx.helper.make_sparse_tensor(elements, indices, [2, 3])
    model.graph.node[0].attribute.append(onnx.helper.make_attribute("sparse_value", sparse))
    passat.optimize(model, record=True).write_report(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().startswith("<!")


def test_the_command_writes_a_page(tmp_path: Path) -> None:
    done = run("optimize", RESNET, "-o", tmp_path / "out.onnx", "--report", tmp_path / "out.html")
    assert done.exit_code == 0, done.output
    data = json.loads(Page((tmp_path / "out.html").read_text("utf-8")).content["script"][0])
    assert data["head"]["output"] == str(tmp_path / "out.onnx")
    assert data["head"]["verification"] == "good"
    assert f"the page is in {tmp_path / 'out.html'}" in done.stdout.replace("\n", "")


def test_statistics_of_rules_on_the_terminal(tmp_path: Path) -> None:
    onnx.save(small_model(), tmp_path / "in.onnx")
    (tmp_path / "mine.py").write_text(RULES)
    arguments = ("optimize", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--rules", tmp_path / "mine.py", "--passes", "Mine")
    told = " ".join(run(*arguments, "--stats").stdout.split())
    assert re.search(r"Mine.root 1 1 0 [\d.]+ [mu]?s 1 50% of the result", told)
    assert re.search(r"Mine.zero 1 2 1 [\d.]+ [mu]?s 0", told)
    assert "Mine.zero 1 is_all(c, 0): the elements of the constant are 1.0, not 0" in told
    assert "because" not in run(*arguments).stdout
    rules = {rule["name"]: rule for rule in json.loads(run(*arguments, "--stats", "--json").stdout)["rules"]}
    assert rules["Mine.zero"]["reasons"] == {"is_all(c, 0): the elements of the constant are 1.0, not 0": 1}
    assert rules["Mine.root"]["share"] == 0.5


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("", "is a folder; --report names the file to write"),
        ("none/page.html", "does not exist"),
        ("out.onnx", "out.onnx, which -o writes; nothing was written"),
    ],
)
def test_a_page_that_cannot_be_written_ends_the_command_before_any_work(tmp_path: Path, place: str, why: str) -> None:
    done = run("optimize", RESNET, "-o", tmp_path / "out.onnx", "--report", tmp_path / place)
    assert done.exit_code == 2
    assert why in " ".join(done.stderr.split())
    assert not (tmp_path / "out.onnx").exists()

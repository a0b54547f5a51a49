"""Imports go one way, and heavy packages are imported only by the modules that need them, on demand."""

import ast
import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

HOME = Path(__file__).resolve().parents[2]
ROOMS = ("ir", "passmgr", "rules", "runtime", "front door")
FOLDERS = {"ir": "ir", "passmgr": "passmgr", "rules": "rules", "runtime": "runtime", "src/passat": "front door"}
LAZY = ("onnx", "onnxruntime", "egglog", "llvmlite", "ortools", "typer", "rich", "networkx")


class Import(NamedTuple):
    """An imported module, the location of the import, and whether it is at module level (and not only for type checkers)."""

    path: str
    line: int
    module: str
    eager: bool
    typing: bool

    @property
    def top(self) -> str:
        return top_of(self.module)

    def __str__(self) -> str:
        return f"{self.path}:{self.line} imports {self.module}"


def sources() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((HOME / folder).rglob("*.py")):
            if not any(
                parent.is_symlink() for parent in path.parents
            ):  # links in src/passat lead to packages, which are visited by themselves
                yield path


def imports_of(path: Path) -> Iterator[Import]:
    name, text = path.relative_to(HOME).as_posix(), path.read_text()
    children = ast.iter_child_nodes if "import_module" in text or "__import__" in text else statements_in
    stack: list[tuple[ast.AST, bool, bool]] = [(ast.parse(text, name), True, False)]
    while stack:
        node, eager, typing = stack.pop()
        if isinstance(node, ast.Import):
            yield from (Import(name, node.lineno, alias.name, eager, typing) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}:{node.lineno} imports relatively"
            assert node.module is not None
            if node.module == "passat":
                yield from (Import(name, node.lineno, f"passat.{alias.name}", eager, typing) for alias in node.names)
            else:
                yield Import(name, node.lineno, node.module, eager, typing)
        elif isinstance(node, ast.Call) and name_of(node.func) in ("import_module", "__import__"):
            named = [arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant)]
            yield from (Import(name, node.lineno, str(value), eager, typing) for value in named)
        inner = eager and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for_types = typing or (isinstance(node, ast.If) and name_of(node.test) == "TYPE_CHECKING")
        stack.extend((child, inner, for_types) for child in children(node))


def statements_in(node: ast.AST) -> Iterator[ast.AST]:
    """The statements and branches directly in a statement."""
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        yield from getattr(node, field, ())


def name_of(node: ast.expr) -> str:
    """The last name of a dotted one; empty for other expressions."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


@functools.cache
def all_imports() -> tuple[Import, ...]:
    return tuple(found for path in sources() for found in imports_of(path))


def room_of_path(path: str) -> str:
    return next(room for folder, room in FOLDERS.items() if path.startswith(folder + "/"))


def room_of_module(module: str) -> str:
    second = module.split(".")[1] if "." in module else ""
    return second if second in ROOMS else "front door"


def test_imports_go_one_way() -> None:
    wrong = [
        str(found)
        for found in all_imports()
        if found.top == "passat" and ROOMS.index(room_of_module(found.module)) > ROOMS.index(room_of_path(found.path))
    ]
    assert not wrong


def test_onnx_runtime_is_imported_without_its_telemetry() -> None:
    """In tests, pytest's own files may import it, since `conftest.py` sets the variable first; programs among the tests may not."""
    folders = ("benchmarks", "docs", "examples", "tests")
    own = (path for path in sources() if path != HOME / "ir" / "onnx_runtime.py")
    others = (path for folder in folders for path in sorted((HOME / folder).rglob("*.py")))
    paths = [*own, *(path for path in others if not path.name.startswith("test_") and path.name != "conftest.py")]
    assert len(paths) > 400
    texts = {path: text for path in paths if "onnxruntime" in (text := path.read_text())}  # parsing all takes seconds
    assert not [path for path, text in texts.items() if "onnxruntime" in map(top_of, imports_anywhere(text))]


def top_of(module: str) -> str:
    return module.partition(".")[0]


def imports_anywhere(text: str) -> Iterator[str]:
    """The modules that a file imports, also within functions."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_a_room_is_imported_under_its_own_name() -> None:
    assert not [str(found) for found in all_imports() if found.top in ("ir", "passmgr", "rules", "runtime", "src")]


def test_no_cycle_of_eager_imports() -> None:
    modules = {module_name(path): path for path in sources()}
    edges: dict[str, set[str]] = {name: set() for name in modules}
    names = {path.relative_to(HOME).as_posix(): name for name, path in modules.items()}
    for found in all_imports():
        if found.eager and not found.typing and found.top == "passat":
            name, target = names[found.path], found.module if found.module in modules else found.module.rpartition(".")[0]
            if target in modules and target != name:
                edges[name].add(target)
    done: set[str] = set()
    while True:
        ready = {name for name in edges if name not in done and edges[name] <= done}
        if not ready:
            break
        done |= ready
    # a package that imports its own modules is a cycle only if they import names from it, which Python itself reports
    cyclic = {name for name in edges if name not in done}
    assert not {name for name in cyclic if edges[name] & cyclic and reaches(name, name, edges)}


def reaches(start: str, goal: str, edges: dict[str, set[str]]) -> bool:
    seen: set[str] = set()
    stack = list(edges[start])
    while stack:
        name = stack.pop()
        if name == goal:
            return True
        if name not in seen:
            seen.add(name)
            stack.extend(edges[name])
    return False


def module_name(path: Path) -> str:
    relative = path.relative_to(HOME / "src" if (HOME / "src") in path.parents else HOME).with_suffix("").as_posix()
    name = relative.removesuffix("/__init__").replace("/", ".")
    return name if name.split(".")[0] == "passat" else f"passat.{name}"


@pytest.mark.parametrize(
    ("package", "allowed"),
    [
        ("egglog", ("rules/engine/egraph.py",)),
        ("onnx", ("ir/onnx/", "src/passat/onnx_backend.py")),
        ("onnxruntime", ("ir/onnx_runtime.py",)),
        ("llvmlite", ("runtime/jit/",)),
        ("typer", ("src/passat/",)),
        ("rich", ("src/passat/",)),
        ("torch", ("src/passat/torch_backend.py", "src/passat/torch_graph.py")),
    ],
)
def test_packages_are_imported_only_where_allowed(package: str, allowed: tuple[str, ...]) -> None:
    found = [each for each in all_imports() if each.top == package and not each.typing]
    assert not [str(each) for each in found if not each.path.startswith(allowed or "nowhere")]


def run_python(code: str, *, cwd: Path | None = None) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV"))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=cwd, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_passat_imports_nothing_heavy() -> None:
    loaded = json.loads(run_python("import json, sys, passat; print(json.dumps(sorted(sys.modules)))"))
    assert not [name for name in loaded if name.partition(".")[0] in (*LAZY, "numpy", "ml_dtypes")]


def test_the_runtime_is_imported_when_something_runs() -> None:
    assert not [str(each) for each in all_imports() if each.top == "onnxruntime" and each.eager]


def test_reading_onnx_does_not_import_the_runtime_or_the_engine() -> None:
    loaded = json.loads(run_python("import json, sys, passat.ir.onnx; print(json.dumps(sorted(sys.modules)))"))
    assert not [name for name in loaded if name.partition(".")[0] in LAZY]


def test_a_users_own_modules_do_not_take_the_place_of_ours(tmp_path: Path) -> None:
    for name in ("rules", "ir", "passmgr", "runtime"):
        (tmp_path / f"{name}.py").write_text("mine = True\n")
    code = "import rules, ir, passat.rules, passat.ir; assert rules.mine and ir.mine; print(passat.rules.__name__, passat.ir.__name__)"
    assert run_python(code, cwd=tmp_path).split() == ["passat.rules", "passat.ir"]

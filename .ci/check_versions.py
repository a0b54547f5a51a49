"""Installs the built sdist and wheel on every Python from 3.11 on that it finds, and runs the first commands of a user.

Takes the folder of the built files and the path of pyproject.toml. Searches interpreters on the PATH and among those of pyenv. Each gets a
separate environment: first without extras, where a command must name a missing one, then with `passat[onnx]`, last with the lowest versions
that pyproject.toml admits.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

VERSIONS: Final = ("3.11", "3.12", "3.13")
HOME: Final = Path(__file__).resolve().parents[1]
MODEL: Final = str(HOME / "examples" / "models" / "bert_tiny.onnx")


def interpreter(version: str) -> str | None:
    """The path of an interpreter of that version that can create environments."""
    roots = [Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"]
    named = [str(path) for root in roots for path in sorted(root.glob(f"{version}.*/bin/python"), reverse=True)]
    for each in (shutil.which(f"python{version}"), *named):
        test = f"import sys, venv, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != {version!r})"
        if each and subprocess.run([each, "-c", test], capture_output=True, check=False).returncode == 0:
            return each
    return None


def run(*command: str, code: int = 0) -> str:
    """The output of a command, which must end with the given exit code."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tempfile.gettempdir())
    if done.returncode != code:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}, not {code}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def check(python: str, version: str, built: Path, pyproject: Path) -> str:
    """Tests one interpreter, and describes the result in a sentence. Keeps its environment for the next run."""
    folder = HOME / "build" / "versions" / version
    own, passat = str(folder / "bin" / "python"), str(folder / "bin" / "passat")
    if not Path(own).exists():
        run(python, "-m", "venv", str(folder))
    pip = [own, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    (sdist,), (wheel,) = built.glob("*.tar.gz"), built.glob("*.whl")
    run(*pip, "uninstall", "--yes", "onnx", "onnxruntime", "passat")
    run(*pip, "install", "--no-compile", str(sdist))
    said = run(passat, "inspect", MODEL, code=1)
    if "pip install 'passat[onnx]'" not in said or "Traceback" in said:
        sys.exit(f"on Python {version} without extras, `passat inspect` says: {said}")
    run(passat, "rules", "list")
    run(*pip, "install", "--no-compile", "--force-reinstall", "--no-deps", str(wheel))
    run(*pip, "install", "--no-compile", f"{wheel}[onnx]")
    modules = run(own, "-I", str(HOME / ".ci" / "check_wheel.py"), str(pyproject)).strip()
    newest = optimized(passat)
    run(*pip, "install", "--no-compile", *lowest(pyproject))
    if optimized(passat) != newest:
        sys.exit(f"on Python {version} with the lowest versions of requirements, `passat optimize` says: {optimized(passat)}")
    run(passat, "--help")
    run(passat, "order")
    run(passat, "rules", "list")
    exact = run(own, "-c", "import sys; print(sys.version.split()[0])").strip()
    return f"Python {exact}: sdist and wheel install; {modules}; {newest}, also with the lowest versions"


def optimized(passat: str) -> str:
    """What the command says about the comparison of a result, without the time."""
    (line,) = [line for line in run(passat, "optimize", MODEL, "--dry-run").splitlines() if line.startswith("verified")]
    return line.rpartition(", in ")[0]


def lowest(pyproject: Path) -> list[str]:
    """The requirements of `passat[onnx]`, each with the lowest version that it admits."""
    project = tomllib.loads(pyproject.read_text())["project"]
    wanted = map(Requirement, (*project["dependencies"], *project["optional-dependencies"]["onnx"]))
    return [f"{each.name}=={bound.version}" for each in wanted for bound in each.specifier if bound.operator == ">="]


def main(built: Path, pyproject: Path) -> None:
    """Ends with exit code 1 if a test fails, or if no interpreter is found."""
    found = {version: interpreter(version) for version in VERSIONS}
    for version, python in found.items():
        print(check(python, version, built, pyproject) if python else f"Python {version}: not found, not tested", flush=True)
    if not any(found.values()):
        sys.exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())

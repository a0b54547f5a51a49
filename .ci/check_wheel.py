"""Imports every module of the installed passat, except those that need an extra that is not installed, and compares its packages with those
that pyproject.toml names.

Runs in an environment with nothing but the built wheel; takes the path of pyproject.toml.
"""

import importlib
import importlib.metadata
import importlib.resources
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path


def main(pyproject: Path) -> None:
    """Ends with a sentence and exit code 1 if the installed package differs from the declared one."""
    project = tomllib.loads(pyproject.read_text())
    declared = set(project["tool"]["setuptools"]["packages"])
    extras = {re.split(r"[^\w-]", each)[0] for group in project["project"]["optional-dependencies"].values() for each in group} - {"passat"}
    import passat

    home = Path(passat.__file__).parent
    if pyproject.resolve().parent in home.parents and "site-packages" not in home.parts:
        sys.exit(f"passat was imported from {home}, not from the wheel")
    packages, modules = {"passat"}, 1
    for module in pkgutil.walk_packages(passat.__path__, "passat."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in extras:
                raise
        modules += 1
        if module.ispkg:
            packages.add(module.name)
    if packages != declared:
        sys.exit(f"the wheel lacks {sorted(declared - packages)} and has unexpected {sorted(packages - declared)}")
    if not importlib.resources.files("passat").joinpath("py.typed").is_file():
        sys.exit("the wheel lacks py.typed: type checkers would not read its types")
    texts = [str(path) for path in importlib.metadata.files("passat") or []]
    if not any(text.endswith("licenses/LICENSE") for text in texts):
        sys.exit("the wheel lacks its license")
    said = subprocess.run([Path(sys.executable).with_name("passat"), "--version"], capture_output=True, text=True, check=True).stdout
    if importlib.metadata.version("passat") not in said:
        sys.exit(f"`passat --version` says {said!r}")
    print(f"the wheel contains {modules} modules in {len(packages)} packages, and each can be imported with its extra")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

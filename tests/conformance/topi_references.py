"""`tvm.topi.testing`: the NumPy functions that TVM's tests compare with, read from the checkout itself.

Its `__init__` imports all files, some of which need SciPy, so each file is imported when one of its names is used.
"""

import ast
import importlib
import os
import sys
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any, Final

CHECKOUT: Final = "PASSAT_CONFORMANCE_CHECKOUT"
"""The environment variable that names the checkout of TVM."""
PACKAGE: Final = "tvm.topi.testing"


def _folder() -> Path:
    return Path(os.environ[CHECKOUT], "python", "tvm", "topi", "testing")


@cache
def _files() -> dict[str, str]:
    """The file of each name of the package."""
    tree = ast.parse((_folder() / "__init__.py").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module]
    return {alias.asname or alias.name: str(node.module) for node in imports for alias in node.names}


def find_reference(name: str) -> Any:
    """A function of the package. Raises AttributeError."""
    if name not in _files():
        raise AttributeError(f"{PACKAGE} has no {name}")
    found = getattr(importlib.import_module(f"{PACKAGE}.{_files()[name]}"), name)
    setattr(sys.modules[PACKAGE], name, found)  # a file may have the name of its function
    return found


def reference_file(module: str) -> ModuleSpec | None:
    """The file of a module in the package; None for other modules."""
    package, _, name = module.rpartition(".")
    path = _folder() / f"{name}.py" if package == PACKAGE and CHECKOUT in os.environ else None
    return spec_from_file_location(module, path) if path is not None and path.is_file() else None

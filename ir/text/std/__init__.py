"""The standard library of Relay programs, in Relay's text format: lists, options, trees, natural numbers, functions over them, and
storage."""

import re
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from passat.ir.module import IRModule


def standard_library(name: str, module: "IRModule") -> "IRModule":
    """Adds the contents of a file of the library to a module. Returns the same module if it has the file's functions already.

    Raises ValueError for an unknown name.
    """
    from passat.ir.text import parse

    folder = files(__package__)
    known = sorted(path.name for path in folder.iterdir() if path.name.endswith(".rly"))
    if name not in known:
        raise ValueError(f"the standard library has no {name!r}; it has: {', '.join(known)}")
    text = folder.joinpath(name).read_text("utf-8")
    functions, types = re.findall(r"^def @(\w+)", text, re.MULTILINE), re.findall(r"^(?:extern )?type (\w+)", text, re.MULTILINE)
    known_types = {variable.name for variable in module.get_global_type_vars()}
    there = known_types.issuperset(types) and all(function in module for function in functions)
    return module if there else parse(text, name, module)

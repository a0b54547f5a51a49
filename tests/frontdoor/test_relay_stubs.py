"""The type stubs of derived functions match the operators' declarations. Run as a program, this file writes them."""

import inspect
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

import pytest

from passat.ir.op import get_op
from passat.relay import derived, derived_nn
from passat.relay.building import Exprs, signature_of

HOME = Path(__file__).resolve().parents[2] / "src" / "passat" / "relay"
WIDTH = 140
STUBS = {"derived": ("", derived.__all__), "derived_nn": ("nn.", derived_nn.__all__)}


def shown(annotation: Any) -> str:
    if annotation in ("Expr", Exprs):
        return "Expr" if annotation == "Expr" else "Exprs"
    if get_origin(annotation) is UnionType or isinstance(annotation, UnionType):
        return " | ".join(map(shown, get_args(annotation)))
    if get_origin(annotation) is tuple:
        return f"Sequence[{shown(get_args(annotation)[0])}]"
    return "None" if annotation is type(None) else str(annotation.__name__)


def parameter_text(parameter: inspect.Parameter) -> str:
    default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}".replace("'", '"')
    return f"{parameter.name}: {shown(parameter.annotation)}{default}"


def function_text(op: str, name: str) -> str:
    """A function's stub in ruff's format."""
    parameters = [parameter_text(parameter) for parameter in signature_of(get_op(op)).parameters.values()]
    line = f"def {name}({', '.join(parameters)}) -> Call: ..."
    if len(line) <= WIDTH:
        return line
    inner = ", ".join(parameters)
    inner = inner if len(inner) <= WIDTH - 4 else ",\n    ".join(parameters) + ","
    return f"def {name}(\n    {inner}\n) -> Call: ..."


def stub(prefix: str, names: list[str]) -> str:
    lines = [function_text(prefix + name, name) for name in names]
    text = "\n".join(lines)
    imports = ["from passat.ir.expr import Call, Expr"]
    if "Exprs" in text:
        imports.append("from passat.relay.building import Exprs")
    if "Sequence[" in text:
        imports[:0] = ["from collections.abc import Sequence", ""]
    listed = "".join(f'    "{name}",\n' for name in names)
    return "\n".join([*imports, "", f"__all__ = [\n{listed}]", "", text, ""])


@pytest.mark.parametrize("module", STUBS)
def test_the_stubs_match_the_functions(module: str) -> None:
    assert (HOME / f"{module}.pyi").read_text() == stub(*STUBS[module]), "python tests/frontdoor/test_relay_stubs.py writes them"


if __name__ == "__main__":
    for module, arguments in STUBS.items():
        (HOME / f"{module}.pyi").write_text(stub(*arguments))

"""The operators of the registry, and the ONNX operators that they are read from."""

import inspect
from typing import Final

from generators.markdown import code, prose, table
from passat.ir.onnx_mapping import READERS
from passat.ir.op import REQUIRED, Op, list_ops

_TRAITS: Final = (
    *("elementwise", "movement", "commutative", "associative", "idempotent", "involution", "even", "odd", "monotonic", "non_negative"),
    *("stateful", "shape_arith"),
)


def operators() -> str:
    """Returns a table of operators for each file under `ir/ops/`."""
    files: dict[str, list[Op]] = {}
    for op in list_ops():
        files.setdefault(op.relation.__module__.rpartition(".")[2], []).append(op)
    parts = [f"There are {sum(map(len, files.values()))} operators."]
    for name in sorted(files):
        parts += [f"## {name.replace('_', ' ').capitalize()}", table(("operator", "meaning", "traits"), map(_row, files[name]))]
    return "\n\n".join([*parts, "## ONNX operators", _onnx()])


def _row(op: Op) -> tuple[str, str, str]:
    operands = [*op.operand_names, *(["..."] if op.variadic else [])]
    attributes = [name if default is REQUIRED else f"{name}={default!r}" for name, default in op.defaults.items()]
    traits = [name for name in _TRAITS if getattr(op, name)]
    traits += [f"{name}={value:g}" for name in ("unit", "zero") if (value := getattr(op, name)) is not None]
    return code(f"{op.name}({', '.join([*operands, *attributes])})"), prose(inspect.cleandoc(op.doc)), ", ".join(map(code, traits))


def _onnx() -> str:
    """Returns the ONNX operators, and operators of other domains, that have a form in Passat."""
    from onnx import defs

    known = {schema.name for schema in defs.get_all_schemas() if schema.domain in ("", "ai.onnx")}
    read = sorted(name for name in READERS if "::" not in name)
    others = sorted(name.replace("::", ".") for name in READERS if "::" in name)
    return "\n\n".join(
        [
            f"Passat reads {len(known.intersection(read))} of the {len(known)} operators of ONNX's own domain into its own, and "
            "keeps the others as opaque nodes, which rules do not match. `passat inspect MODEL` lists the opaque nodes of a model "
            "with the reason for each.",
            f"Read: {', '.join(map(code, read))}.",
            *([f"Read, of other domains: {', '.join(map(code, others))}."] if others else []),
            f"Opaque: {', '.join(map(code, sorted(known.difference(read))))}.",
        ]
    )

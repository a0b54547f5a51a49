"""The options that choose the variant of a model: its opset, the sizes of its inputs, and the outputs to keep."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated
from typing import Any as AnyValue

import typer

from passat.cli.app import USAGE, fail

DimOption = Annotated[
    list[str] | None,
    typer.Option("--dim", metavar="NAME=SIZE", help="Size of a named dimension of the inputs (repeatable)", show_default=False),
]


@dataclass(frozen=True, kw_only=True)
class VariantOptions:
    """The opset of a model, the sizes of its inputs, and its outputs."""

    dim: Annotated[
        list[str] | None,
        typer.Option(
            "--dim",
            metavar="NAME=SIZE",
            help="Size to fix for a named dimension of the inputs (repeatable)",
            show_default=False,
        ),
    ] = None
    input_shape: Annotated[
        list[str] | None,
        typer.Option(
            "--input-shape",
            metavar="NAME=1,3,224,224",
            help="Shape to fix for an input; ? keeps a size (repeatable)",
            show_default=False,
        ),
    ] = None
    outputs: Annotated[
        list[str] | None,
        typer.Option(
            "--outputs",
            metavar="NAMES",
            help="Outputs to keep, separated by commas; nodes that only others need are removed",
            show_default=False,
        ),
    ] = None

    opset: Annotated[
        int | None,
        typer.Option(
            "--opset", min=1, metavar="N", help="Opset to convert the model to first, if it is later than its own", show_default=False
        ),
    ] = None

    @property
    def settings(self) -> dict[str, AnyValue]:
        """The keywords of `passat.optimize`. Ends the command for invalid options."""
        found = {
            "dims": parse_sizes(self.dim or ()),
            "input_shapes": _shapes(self.input_shape or ()),
            "outputs": _names(self.outputs),
            "opset": self.opset,
        }
        return {name: value for name, value in found.items() if value}


def parse_sizes(entries: Sequence[str]) -> dict[str, int]:
    """Sizes given as NAME=SIZE. Ends the command for anything else, or if a name has two sizes."""
    found: dict[str, int] = {}
    for entry in entries:
        name, equals, size = entry.rpartition("=")
        if not equals or not _is_size(size) or not name:
            fail(f"--dim takes NAME=SIZE with a whole number, such as batch=1, not {entry!r}", USAGE)
        if found.setdefault(name, int(size)) != int(size):
            fail(f"--dim gives {name} two sizes, {found[name]} and {int(size)}", USAGE)
    return found


def _shapes(entries: Sequence[str]) -> dict[str, list[int | None]]:
    found: dict[str, list[int | None]] = {}
    for entry in entries:
        name, equals, text = entry.rpartition("=")
        sizes = [size.strip() for size in text.split(",")] if text.strip() else []
        if not equals or not name or not all(size == "?" or _is_size(size) for size in sizes):
            fail(f"--input-shape takes NAME=SIZES with whole numbers or ?, such as image=1,3,224,224, not {entry!r}", USAGE)
        shape = [None if size == "?" else int(size) for size in sizes]
        if found.setdefault(name, shape) != shape:
            fail(f"--input-shape gives the input {name} two shapes", USAGE)
    return found


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _names(entries: Sequence[str] | None) -> list[str]:
    names = [name.strip() for entry in entries or () for name in entry.split(",") if name.strip()]
    if entries and not names:
        fail("--outputs takes the names of outputs, separated by commas", USAGE)
    return names

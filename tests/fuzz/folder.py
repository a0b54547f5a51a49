"""Findings as folders: the model, its inputs, how to optimize it, and the defect. This command checks them again:

python -m tests.fuzz.folder build/fuzz/*/
"""

import json
import sys
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # protobuf ships no types
from onnx import ModelProto

from tests.fuzz.graphs import Case, counted
from tests.fuzz.judge import Finding, Settings, examine


def write(folder: Path, case: Case, finding: Finding, settings: Settings) -> None:
    """Writes a finding, without inputs that are sequences."""
    folder.mkdir(parents=True, exist_ok=True)
    data = case.model.SerializeToString() if case.data is None else case.data
    (folder / "model.onnx").write_bytes(data)
    feed = case.feeds[finding.feed] if case.feeds else {}
    if case.other is not None:
        onnx.save(case.other, folder / "other.onnx")
    arrays: dict[str, Any] = {name: np.asarray(value) for name, value in feed.items() if not isinstance(value, list)}
    np.savez(folder / "inputs.npz", **arrays)
    (folder / "settings.json").write_text(json.dumps(asdict(settings)))
    text = ""
    if case.feeds:
        with suppress(Exception):  # mutated models may not be printable
            text = onnx.printer.to_text(case.model)
    (folder / "README.txt").write_text(f"{case.name}, {settings}\n{finding.kind}: {finding.sentence}\n{finding.where}\n\n{text}\n")


def read(folder: Path) -> tuple[Case, Settings]:
    """The model of a finding, with its inputs and the settings of its optimization."""
    given = json.loads((folder / "settings.json").read_text())
    settings = Settings(**{**given, "disabled": tuple(given["disabled"])})
    with np.load(folder / "inputs.npz") as inputs:
        feed = dict(inputs)
    data = (folder / "model.onnx").read_bytes()
    try:
        model = onnx.load_model_from_string(data)
    except DecodeError:
        return Case(folder.name, ModelProto(), (), data), settings
    other = onnx.load(folder / "other.onnx") if (folder / "other.onnx").exists() else None
    return replace(counted(folder.name, model, (feed,)) or Case(folder.name, model, (), data), other=other), settings


def main() -> int:
    """Prints the findings in some folders that still occur; returns 1 if any does."""
    left = 0
    for name in sys.argv[1:]:
        case, settings = read(Path(name))
        finding = examine(case, settings, twice=True)
        left += finding is not None
        print(f"{name}: {'gone' if finding is None else f'{finding.kind}: {finding.sentence}'} ({settings})")
    return int(left > 0)


if __name__ == "__main__":
    sys.exit(main())

"""The files of libraries: uncompressed ZIP archives of known parts."""

import io
import json
import os
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from passat.ir.bounded_read import decode_json
from passat.ir.whole_file import write_whole
from passat.runtime.devices import Target
from passat.runtime.graph.graph_error import GraphError

FORMAT: Final = 1
LARGEST: Final = 1 << 33
"""Maximum size of a file in bytes."""
_ABOUT: Final = "library.json"
FUNCTIONS, GRAPH, PARAMS, PROGRAM, LOOPS = "functions.json", "graph.json", "params.bin", "program.json", "loops.json"
_PARTS: Final = frozenset((_ABOUT, FUNCTIONS, GRAPH, PARAMS, PROGRAM, LOOPS))
_STAMP: Final = (1980, 1, 1, 0, 0, 0)


def write_archive(
    file_name: "str | os.PathLike[str]", target: Target, functions: Iterable[str], name: str, parts: Mapping[str, bytes]
) -> None:
    """Writes the parts of a library of these functions to a file atomically. Raises OSError."""
    about = {"format": FORMAT, "target": str(target), "name": name, "functions": sorted(functions)}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for part, content in {_ABOUT: json.dumps(about, indent=2).encode(), **parts}.items():
            archive.writestr(zipfile.ZipInfo(part, _STAMP), content)
    write_whole(Path(file_name), buffer.getvalue())


def read_archive(content: bytes) -> tuple[Target, str, dict[str, bytes]]:
    """The target, the name and the parts of a library. Raises GraphError for other archives, and the errors of `zipfile` and JSON."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts: dict[str, bytes] = {}
        for info in archive.infolist():
            if info.filename not in _PARTS or info.filename in parts:
                raise GraphError(f"it has a part {info.filename!r:.60}")
            if info.compress_type != zipfile.ZIP_STORED or info.file_size > len(content):
                raise GraphError(f"its part {info.filename} is compressed")
            parts[info.filename] = archive.read(info)
    if _ABOUT not in parts:
        raise GraphError(f"it has no part {_ABOUT}")
    about = decode_json(parts[_ABOUT])
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise GraphError(f"its format is not {FORMAT}; this version of Passat reads no other")
    if not isinstance(about.get("target"), str) or not isinstance(about.get("name"), str):
        raise GraphError(f"its part {_ABOUT} names no target")
    return Target(about["target"]).for_building(), about["name"], parts

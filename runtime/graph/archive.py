"""The files of libraries: uncompressed ZIP archives of known parts."""

import contextlib
import io
import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
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
    """Writes the parts of a library of these functions to a file atomically. Raises OSError, and TypeError for what is not a path."""
    about = {"format": FORMAT, "target": str(target), "name": name, "functions": sorted(functions)}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for part, content in {_ABOUT: json.dumps(about, indent=2).encode(), **parts}.items():
            archive.writestr(zipfile.ZipInfo(part, _STAMP), content)
    with named(file_name, "written") as path:
        write_whole(path, buffer.getvalue())


@contextlib.contextmanager
def named(file_name: "str | os.PathLike[str]", done: str) -> Iterator[Path]:
    """The path of a library that is read or written in this context. Raises TypeError for what is not a path, and the errors of the file
    system as sentences that name the path and the way out."""
    if not isinstance(file_name, (str, os.PathLike)):
        raise TypeError(f"a library is read and written by the path of its file, not by {file_name!r}")
    try:
        yield Path(file_name)
    except OSError as error:
        raise type(error)(f"{os.fspath(file_name)} cannot be {done}: {_why(error, Path(file_name), done)}") from error


def _why(error: OSError, path: Path, done: str) -> str:
    if path.is_dir():
        return f"it is a folder; name a file {'in it' if done == 'written' else 'that export_library has written'}"
    if done == "written" and not path.parent.is_dir():
        return f"{path.parent} is not a folder; create it first"
    if isinstance(error, FileNotFoundError):
        return "there is no such file; export_library writes one"
    return str(error.strerror)


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

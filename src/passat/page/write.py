"""Pages as files: style, script and data put into one HTML file that asks nothing of any network."""

import base64
import hashlib
import os
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Final

from passat.ir.collector import collector_paused
from passat.ir.whole_file import write_whole
from passat.page.document import document
from passat.page.record import Record
from passat.page.texts import script_json, shown
from passat.report import Report

_SCRIPTS: Final = ("elements.js", "drawing.js", "canvas.js", "graphs.js", "tables.js", "rounds.js", "egraph.js", "page.js")
"""In the order in which they run: each uses what those before it define."""


def write_page(path: str | os.PathLike[str], report: Report, record: Record) -> None:
    """Writes the page of an optimisation, whole or not at all. Raises OSError."""
    with collector_paused():
        write_whole(Path(path), page_text(report, record).encode())


def page_text(report: Report, record: Record) -> str:
    """The page as HTML.

    Its policy forbids all connections and all scripts but the one that it holds, which goes by its hash: what a model has in its names
    cannot run, wherever it might come to stand.
    """
    style = _read("page.css")
    script = "".join(f"{_read(name)}\n" for name in _SCRIPTS)
    source = os.path.basename(report.source) or report.source
    parts = {
        "policy": f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'; "
        "form-action 'none'",
        "title": escape(shown(source, 120)),
        "style": style,
        "data": script_json(document(report, record)),
        "script": script,
    }
    pieces = _read("page.html").split("@@")
    return "".join(parts[piece] if at % 2 else piece for at, piece in enumerate(pieces))


def _read(name: str) -> str:
    return files("passat.page").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"

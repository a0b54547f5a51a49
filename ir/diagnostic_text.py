"""Renders diagnostics as text: the message, the location, and the line of text or the expression.

The size of the output is bounded: long lines are cut around the location and long lists of diagnostics are summarized. Unprintable
characters are escaped, so that names from a file cannot control a terminal.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from passat.ir.diagnostics import SENTENCES, Diagnostic, DiagnosticLevel
from passat.ir.expr import Span
from passat.ir.source import SourceName

MESSAGE: Final = 1000
"""Maximum length of a message."""
WIDTH: Final = 120
"""Maximum length of a line."""
_NOTES: Final = 8
_BEFORE: Final = 40
_WORDS: Final = {
    DiagnosticLevel.BUG: ("bug", "\x1b[1;31m"),
    DiagnosticLevel.ERROR: ("error", "\x1b[1;31m"),
    DiagnosticLevel.WARNING: ("warning", "\x1b[1;33m"),
    DiagnosticLevel.NOTE: ("note", "\x1b[1;36m"),
    DiagnosticLevel.HELP: ("help", "\x1b[1;32m"),
}
_FRAME: Final = "\x1b[1;34m"
_BOLD: Final = "\x1b[1m"
_PLAIN: Final = "\x1b[0m"


def render_diagnostics(diagnostics: Sequence[Diagnostic], color: bool = False, trail: Iterable[str] = ()) -> str:
    """Renders diagnostics, separated by empty lines. `trail` are sentences about all of them, such as the pass that was running.

    >>> name = SourceName("file.relay", "%0 = add(%x, %y);")
    >>> print(render_diagnostics([Diagnostic(DiagnosticLevel.ERROR, Span(name, 1, 1, 6, 17), "shapes do not broadcast")]))
    error: shapes do not broadcast
     --> file.relay:1:6
      |
    1 | %0 = add(%x, %y);
      |      ^^^^^^^^^^^
    """
    parts = [_Text(color).diagnostic(diagnostic) for diagnostic in diagnostics[:SENTENCES]]
    if len(diagnostics) > SENTENCES:
        parts.append(f"... and {len(diagnostics) - SENTENCES} more")
    about = [cut(sentence, MESSAGE) for sentence in trail]
    if about:
        parts.append("\n".join(about[:_NOTES]))
    return "\n\n".join(parts)


def cut(text: str, width: int = WIDTH) -> str:
    """Returns one printable line of at most `width` characters, with dots in place of the rest.

    >>> cut("a\\tb\\n\\x1b[0m")
    'a b \\\\x1b[0m'
    """
    shown = text if len(text) <= width else text[: width - 3] + "..."
    if not shown.isprintable():
        shown = "".join(char if char.isprintable() else " " if char in "\t\n" else ascii(char)[1:-1] for char in shown)
    return shown if len(shown) <= width else shown[: width - 3] + "..."


class _Text:
    """Renders one diagnostic."""

    def __init__(self, color: bool) -> None:
        self._color = color

    def _painted(self, text: str, paint: str) -> str:
        return f"{paint}{text}{_PLAIN}" if self._color else text

    def diagnostic(self, diagnostic: Diagnostic) -> str:
        word, paint = _WORDS[diagnostic.level]
        lines = [self._painted(word, paint) + self._painted(f": {cut(diagnostic.message, MESSAGE)}", _BOLD)]
        span = diagnostic.span
        width = 1
        if span is not None:
            width = len(str(span.line))
            where = _where(span)
            if where:
                lines.append(f"{' ' * width}{self._painted('-->', _FRAME)} {where}")
        quoted = self._quoted(span, paint) if span is not None else []
        bar = self._painted("|", _FRAME)
        if quoted:
            lines += quoted
        elif diagnostic.excerpt:
            lines.append(f"{' ' * width} {bar}")
            lines += [f"{' ' * width} {bar} {cut(line)}" for line in diagnostic.excerpt[:_NOTES]]
        sign = self._painted("=", _FRAME)
        notes = [("note", note) for note in diagnostic.notes[:_NOTES]]
        if diagnostic.help:
            notes.append(("help", diagnostic.help))
        lines += [f"{' ' * width} {sign} {self._painted(kind, _BOLD)}: {cut(note, MESSAGE)}" for kind, note in notes]
        return "\n".join(lines)

    def _quoted(self, span: Span, paint: str) -> list[str]:
        """The source line with the location underlined; empty if the text is not known."""
        name = span.source_name
        if not span.line or not isinstance(name, SourceName) or not name.text:
            return []
        line = name.line(span.line).replace("\r", " ").replace("\t", " ")
        start = min(max(span.column - 1, 0), len(line))
        ends_here = span.end_line in (0, span.line)
        end = max(span.end_column - 1 if ends_here else len(line.rstrip()), start + 1)
        first = start - _BEFORE if len(line) > WIDTH and start > WIDTH // 2 else 0
        shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line[first : first + WIDTH])
        before, after = "..." if first else "", "..." if first + WIDTH < len(line) else ""
        marks = "^" * (min(end, first + WIDTH) - start)
        gutter = " " * len(str(span.line))
        bar = self._painted("|", _FRAME)
        lines = [
            f"{gutter} {bar}",
            f"{self._painted(str(span.line), _FRAME)} {bar} {before}{shown}{after}",
            f"{gutter} {bar} {' ' * (len(before) + start - first)}{self._painted(marks or '^', paint)}",
        ]
        if not ends_here:
            lines.append(f"{gutter} {bar} ... to line {span.end_line}")
        return lines


def _where(span: Span) -> str:
    """The location of a span: line and column of a text, or the node of an ONNX model."""
    if span.line:
        return f"{cut(span.source_name)}:{span.line}:{span.column}"
    outputs = ", ".join(f'"{cut(name, 60)}"' for name in span.outputs[:3] if name) + (" ..." if len(span.outputs) > 3 else "")
    if not span.source_name:
        return f"the producer of {outputs}" if outputs else ""
    return f'node "{cut(span.source_name)}"' + (f", which produces {outputs}" if outputs else "")

"""The lexer of Relay's text format, and the parse error.

White space, `//` comments and nested `/* */` comments separate tokens. Names are letters, digits and `_`, joined by dots for operators and
types, and by slashes for variables. Other names are quoted after their sigil: `%"input:0"`.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from passat.ir.diagnostics import Diagnostic, DiagnosticError, DiagnosticLevel
from passat.ir.expr import Span
from passat.ir.source import SourceName

WORD: Final = r"[A-Za-z_][A-Za-z0-9_]*"
PLAIN_NAME: Final = re.compile(rf"{WORD}(?:\.{WORD})*")
"""A dotted name, of an operator, type, dimension or attribute."""
PLAIN_VARIABLE: Final = re.compile(rf"/?{WORD}(?:/[A-Za-z0-9_]+)*")
"""A name that needs no quotes after `%` or `@`."""

_QUOTED: Final = r'"(?:[^"\\\n]++|\\.)*+"'
_TOKEN: Final = re.compile(
    rf"""([ \t\r\n]*+)(?:
      (?P<comment>//[^\n]*|/\*(?:[^*/]++|\*(?!/)|/(?!\*))*+\*/)
    | %(?P<graph>[0-9]+)
    | %(?P<local>{PLAIN_VARIABLE.pattern}|{_QUOTED})
    | @(?P<global>{PLAIN_VARIABLE.pattern}|{_QUOTED})
    | (?P<bytes>b{_QUOTED})
    | (?P<string>{_QUOTED})
    | (?P<meta>meta\[[^\]\s]*\]\[[0-9]+\])
    | (?P<name>{PLAIN_NAME.pattern})
    | (?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?(?:[A-Za-z][A-Za-z0-9]*)?)
    | \#\[version\s*=\s*"(?P<version>[^"\n]*)"\]
    | (?P<metadata>\#\[metadata\])
    | (?P<nested>/\*)
    | (?P<symbol>=>|->|==|!=|<=|>=|[-+*/<>=(){{}}\[\],;:.?])
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_SPACE: Final = re.compile(r"[ \t\r\n]")
_LINE_END: Final = re.compile(r"\n")
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")


MAX_ERRORS: Final = 20
"""Maximum number of errors before parsing stops."""


class ParseError(DiagnosticError, ValueError):
    """A text is not in Relay's format. The message names the location, what was expected and what was found.

    `source_name`, `line` and `column` are the location of the first error; `diagnostics` lists all errors.
    """

    def __init__(self, message: str, source_name: str, line: int, column: int, width: int = 1) -> None:
        span = Span(source_name, line, line, column, column + width)
        super().__init__(f"{source_name}:{line}:{column}: {message}", [Diagnostic(DiagnosticLevel.ERROR, span, message)])
        self.source_name = source_name
        self.line = line
        self.column = column
        self.is_counted = False
        """Whether the error is recorded and propagates only up to the next recovery point."""

    @staticmethod
    def of(errors: "Sequence[ParseError]") -> "ParseError":
        """Combines errors in one text: the first one, with the diagnostics of all in order."""
        ordered = sorted(errors, key=lambda error: (error.line, error.column))
        first = ordered[0]
        first.diagnostics = tuple(diagnostic for error in ordered for diagnostic in error.diagnostics)
        return first


class Tokens:
    """The tokens of a text, with a cursor.

    * The `kind` of a token is its class (`local`, `graph`, `global`, `name`, `number`, `string`, `bytes`, `meta`, `version`, `metadata`,
      `end`), or the symbol itself. `text` is its content, without sigils and quotes.
    * Lexing stops at `#[metadata]`; `rest` is the text after it.
    * The tokens end with two `end` tokens, so that lookahead is always possible.

    Raises ParseError for invalid tokens, with all of their locations.
    """

    __slots__ = ("_errors", "_lines", "_source", "at", "ends", "kinds", "rest", "source_name", "starts", "texts")

    def __init__(self, source: str, source_name: str) -> None:
        self._source = source
        self.source_name = SourceName(source_name, source)
        self._lines = self.source_name.starts()
        self._errors: list[ParseError] = []
        self.kinds: list[str] = []
        self.texts: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.at = 0
        end = self._lex()
        if self._errors:
            raise ParseError.of(self._errors)
        self.rest = source[end:]
        if self.rest:
            self.source_name.text = source[:end]  # errors quote the text before the metadata section, so the constants can be released

    def _lex(self) -> int:
        source, match = self._source, _TOKEN.match
        add_kind, add_text, add_start, add_end = self.kinds.append, self.texts.append, self.starts.append, self.ends.append
        position = 0
        while True:
            found = match(source, position)
            if found is None:
                start = len(source) - len(source[position:].lstrip(" \t\r\n"))
                what = "this string is not closed" if source[start] == '"' else f"unexpected character {source[start]!r}"
                position = self._behind_error(self.error_at(start, what), start)
                continue
            kind = found.lastgroup or ""
            start, position = found.end(1), found.end()
            if kind == "comment":
                continue
            if kind == "nested":
                try:
                    position = self._behind_comment(start)
                except ParseError as error:
                    position = self._behind_error(error, len(source))
                continue
            text = found[kind]
            if kind == "symbol":
                kind = text
            elif text.endswith('"') and kind in _WITH_STRINGS:
                try:
                    text = self._unquote(kind, text, start)
                except ParseError as error:
                    self._behind_error(error, start)
            add_kind(kind)
            add_text(text)
            add_start(start)
            add_end(position)
            if kind in ("end", "metadata"):
                self.kinds.append("end")  # so that lookahead by one token is always possible
                return position

    def _behind_error(self, error: ParseError, start: int) -> int:
        """Records an error and returns the offset where lexing resumes: the next white space, or the end of the line for a string."""
        self._errors.append(error)
        if len(self._errors) >= MAX_ERRORS:
            raise ParseError.of(self._errors)
        found = (_LINE_END if self._source[start : start + 1] == '"' else _SPACE).search(self._source, start)
        return len(self._source) if found is None else found.start()

    def _behind_comment(self, start: int) -> int:
        depth, position = 1, start + 2
        while depth:
            edge = _COMMENT_EDGE.search(self._source, position)
            if edge is None:
                raise self.error_at(start, "this comment is not closed")
            depth += 1 if edge[0] == "/*" else -1
            position = edge.end()
        return position

    def _unquote(self, kind: str, text: str, start: int) -> str:
        try:
            if kind == "bytes":
                return re.sub(r"\\(x[0-9a-fA-F]{2}|.)", _byte, text[2:-1])
            found = json.loads(text)
        except ValueError:
            raise self.error_at(start, f"{text} has an invalid escape sequence; use JSON escapes") from None
        assert isinstance(found, str)
        return found

    @property
    def kind(self) -> str:
        """The kind of the next token."""
        return self.kinds[self.at]

    @property
    def text(self) -> str:
        """The text of the next token."""
        return self.texts[self.at]

    def take(self) -> str:
        """Consumes the next token and returns its text."""
        self.at += 1
        return self.texts[self.at - 1]

    def accept(self, kind: str) -> bool:
        """Consumes the next token if it is of that kind."""
        if self.kinds[self.at] == kind:
            self.at += 1
            return True
        return False

    def accept_word(self, word: str) -> bool:
        """Consumes the next token if it is that word."""
        if self.kinds[self.at] == "name" and self.texts[self.at] == word:
            self.at += 1
            return True
        return False

    def expect(self, kind: str, purpose: str) -> str:
        """Consumes a token of a required kind and returns its text. `purpose` describes it in the error. Raises ParseError for a different
        kind."""
        if self.kinds[self.at] != kind:
            wanted = _WORDS.get(kind, f"'{kind}'")
            raise self.error(f"expected {wanted} {purpose}, found {self.shown()}")
        self.at += 1
        return self.texts[self.at - 1]

    def expect_name(self, purpose: str) -> str:
        """Consumes a name, which may be quoted. Raises ParseError if there is none."""
        return self.take() if self.kind == "string" else self.expect("name", purpose)

    def shown(self) -> str:
        """The next token as quoted in an error message."""
        if self.kind == "end":
            return "the end of the text"
        shown = self._source[self.starts[self.at] : self.ends[self.at]]
        return f"'{shown if len(shown) <= 60 else shown[:57] + '...'}'"

    def error(self, message: str) -> ParseError:
        """Returns an error at the next token."""
        return self.error_at(self.starts[self.at], message)

    def error_at(self, offset: int, message: str) -> ParseError:
        """Returns an error at an offset, about the token that starts there."""
        line, column = self.source_name.place(offset)
        token = bisect_right(self.starts, offset) - 1
        width = max(self.ends[token] - offset, 1) if token >= 0 and self.starts[token] == offset and token < len(self.ends) else 1
        return ParseError(message, self.source_name, line, column, width)

    def span(self, at: int, behind: int = 0) -> Span:
        """Returns the span from token `at` up to the last consumed token, or up to token `behind`, exclusive."""
        lines = self._lines
        start, end = self.starts[at], self.ends[(behind or self.at) - 1]
        line = last = bisect_right(lines, start)
        if line < len(lines) and lines[line] <= end:
            last = bisect_right(lines, end)
        return Span(self.source_name, line, last, start - lines[line - 1] + 1, end - lines[last - 1] + 1)


_WITH_STRINGS: Final = frozenset({"local", "global", "bytes", "string"})
_WORDS: Final = {
    "name": "a name",
    "local": "a variable %name",
    "global": "a function name @name",
    "string": "a string",
    "number": "a number",
    "end": "the end of the text",
}


def _byte(escape: re.Match[str]) -> str:
    return chr(int(escape[1][1:], 16)) if len(escape[1]) == 3 else escape[1]

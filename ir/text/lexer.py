"""Tokens of Relay's text format, and the error that every part of reading it raises.

White space, `//` comments and nested `/* */` comments separate tokens. Names are letters, digits and `_`, joined by dots in the names of
operators and types and by slashes in those of variables; any other name is written in quotes after its sigil: `%"input:0"`.
"""

import json
import re
from bisect import bisect_right
from typing import Final

from passat.ir.expr import Span

WORD: Final = r"[A-Za-z_][A-Za-z0-9_]*"
PLAIN_NAME: Final = re.compile(rf"{WORD}(?:\.{WORD})*")
"""A dotted name: of operators, types, dimensions and attributes."""
PLAIN_VARIABLE: Final = re.compile(rf"/?{WORD}(?:/[A-Za-z0-9_]+)*")
"""What may follow `%` or `@` without quotes."""

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
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")


class ParseError(ValueError):
    """A text that is not in Relay's format. The message says where, what was expected and what stands there."""

    def __init__(self, message: str, source_name: str, line: int, column: int) -> None:
        super().__init__(f"{source_name}:{line}:{column}: {message}")
        self.source_name = source_name
        self.line = line
        self.column = column


class Tokens:
    """The tokens of a text, with the one to be read next.

    `kind` of a token is the name of its class (`local`, `graph`, `global`, `name`, `number`, `string`, `bytes`, `meta`, `version`,
    `metadata`, `end`), of symbols the symbol itself; `text` is what it says, without sigils and quotes. Lexing stops at `#[metadata]`;
    `rest` is what stands behind that. Behind the last token stands another `end`. Raises ParseError for what is no token.
    """

    __slots__ = ("_lines", "_source", "at", "ends", "kinds", "rest", "source_name", "starts", "texts")

    def __init__(self, source: str, source_name: str) -> None:
        self._source = source
        self._lines: list[int] | None = None
        self.source_name = source_name
        self.kinds: list[str] = []
        self.texts: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.at = 0
        self.rest = source[self._lex() :]

    def _lex(self) -> int:
        source, match = self._source, _TOKEN.match
        add_kind, add_text, add_start, add_end = self.kinds.append, self.texts.append, self.starts.append, self.ends.append
        position = 0
        while True:
            found = match(source, position)
            if found is None:
                start = len(source) - len(source[position:].lstrip(" \t\r\n"))
                raise self.error_at(start, "this string is not closed" if source[start] == '"' else f"{source[start]!r} begins no token")
            kind = found.lastgroup or ""
            start, position = found.end(1), found.end()
            if kind == "comment":
                continue
            if kind == "nested":
                position = self._behind_comment(start)
                continue
            text = found[kind]
            if kind == "symbol":
                kind = text
            elif text.endswith('"') and kind in _WITH_STRINGS:
                text = self._unquote(kind, text, start)
            add_kind(kind)
            add_text(text)
            add_start(start)
            add_end(position)
            if kind in ("end", "metadata"):
                self.kinds.append("end")  # so that there is always a token behind the next one
                return position

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
            raise self.error_at(start, f"the escapes in {text} are not those of JSON") from None
        assert isinstance(found, str)
        return found

    @property
    def kind(self) -> str:
        """The kind of the next token."""
        return self.kinds[self.at]

    @property
    def text(self) -> str:
        """What the next token says."""
        return self.texts[self.at]

    def take(self) -> str:
        """What the next token says; it counts as read."""
        self.at += 1
        return self.texts[self.at - 1]

    def accept(self, kind: str) -> bool:
        """Reads the next token where it is of that kind."""
        if self.kinds[self.at] == kind:
            self.at += 1
            return True
        return False

    def accept_word(self, word: str) -> bool:
        """Reads the next token where it is that word."""
        if self.kinds[self.at] == "name" and self.texts[self.at] == word:
            self.at += 1
            return True
        return False

    def expect(self, kind: str, purpose: str) -> str:
        """Reads a token that must be of that kind; `purpose` says what for. Raises ParseError where it is not."""
        if self.kinds[self.at] != kind:
            wanted = _WORDS.get(kind, f"'{kind}'")
            raise self.error(f"expected {wanted} {purpose}, found {self.shown()}")
        self.at += 1
        return self.texts[self.at - 1]

    def expect_name(self, purpose: str) -> str:
        """Reads a name, which may be in quotes. Raises ParseError where there is none."""
        return self.take() if self.kind == "string" else self.expect("name", purpose)

    def shown(self) -> str:
        """The next token as an error message quotes it."""
        if self.kind == "end":
            return "the end of the text"
        shown = self._source[self.starts[self.at] : self.ends[self.at]]
        return f"'{shown if len(shown) <= 60 else shown[:57] + '...'}'"

    def error(self, message: str) -> ParseError:
        """An error at the next token."""
        return self.error_at(self.starts[self.at], message)

    def error_at(self, offset: int, message: str) -> ParseError:
        """An error at an offset of the text."""
        line, column = self.place(offset)
        return ParseError(message, self.source_name, line, column)

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1."""
        if self._lines is None:
            self._lines = [0, *(found.end() for found in re.finditer("\n", self._source))]
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1

    def span(self, at: int) -> Span:
        """Where token number `at` stands."""
        return Span(self.source_name, *self.place(self.starts[at]))


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

"""The tokens of the text of the loop IR, and what is read from them alone: names of element types, numbers and values as JSON."""

import json
import re
from collections.abc import Callable
from typing import Any as AnyValue
from typing import Final, NamedTuple, NoReturn

from passat.ir.tir.types import TirError, canonical

TOKEN: Final = re.compile(
    r"""(?P<space>\s+)|(?P<load>\((?P<loaded>[a-z]+\d*(x\d+)?)\*\))|(?P<number>\d+(\.\d+)?(e[-+]?\d+)?(?P<suffix>(i|u|f|bf)\d+)?)
    |(?P<name>@?[A-Za-z_][\w.]*)|(?P<string>"([^"\\]|\\.)*")|(?P<symbol>->|&&|\|\||[=!<>]=|[-+*/%<>=!(){}\[\],:])""",
    re.VERBOSE | re.ASCII,
)
"""A token, or space between tokens."""
_DEEPEST: Final = 100
"""Maximum depth of nested expressions and blocks; sums of any length are read without nesting."""


class TirParseError(TirError):
    """Text that is not a program of loops; the message names the line and column."""


class Token(NamedTuple):
    """A token: the group of `TOKEN` that matched, its text, and where it is."""

    kind: str
    text: str
    position: int


class Tokens:
    """A text that is read from left to right, a token at a time. Errors name the place of the next token."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"a program of loops is read from a str, not from a {type(text).__name__}")
        self._text = text
        self._position = self._depth = 0
        self._next: Token | None = None

    def whole(self, read: Callable[[], AnyValue]) -> AnyValue:
        """Reads the whole text."""
        try:
            made = read()
        except TirParseError:
            raise
        except TirError as error:
            self.fail(str(error))
        if self.peek.kind != "end":
            self.fail(f"expected the end of the text, found {self.peek.text!r}")
        return made

    def fail(self, message: str) -> NoReturn:
        """Raises an error at the next token."""
        try:
            position = self.peek.position
        except TirParseError:
            position = self._position
        line = self._text.count("\n", 0, position) + 1
        column = position - self._text.rfind("\n", 0, position)
        raise TirParseError(f"line {line}, column {column}: {message}") from None

    @property
    def peek(self) -> Token:
        """The next token."""
        while self._next is None:
            if self._position == len(self._text):
                self._next = Token("end", "the end of the text", self._position)
                break
            found = TOKEN.match(self._text, self._position)
            if found is None:
                line = self._text.count("\n", 0, self._position) + 1
                column = self._position - self._text.rfind("\n", 0, self._position)
                raise TirParseError(f"line {line}, column {column}: unexpected character {self._text[self._position]!r}")
            if found["space"] is None:
                self._next = Token(str(found.lastgroup if found["load"] is None else "load"), found[0], self._position)
            self._position = found.end()
        return self._next

    def take(self) -> Token:
        """Takes the next token."""
        token = self.peek
        self._next = None
        return token

    def return_to(self, token: Token) -> None:
        """Makes a token that was taken the next one again."""
        self._next, self._position = token, token.position + len(token.text)

    def accept(self, text: str) -> bool:
        """Takes the next token if it is `text`."""
        if self.peek.text == text and self.peek.kind != "string":
            self.take()
            return True
        return False

    def expect(self, *texts: str) -> None:
        """Takes tokens, which must be `texts`."""
        for text in texts:
            if not self.accept(text):
                self.fail(f"expected {text!r}, found {self.peek.text!r}")

    def nested(self, read: Callable[[], AnyValue]) -> AnyValue:
        """Reads one level deeper."""
        self._depth += 1
        if self._depth > _DEEPEST:
            self.fail(f"the program is nested more than {_DEEPEST} levels deep")
        made = read()
        self._depth -= 1
        return made

    def literal(self) -> AnyValue:
        """A value of an attribute, as JSON."""
        start = self.peek.position
        try:
            value, self._position = json.JSONDecoder().raw_decode(self._text, start)
        except (ValueError, RecursionError):
            self.fail(f"expected a value as JSON has it, found {self.peek.text!r}")
        self._next = None
        return value

    def string(self) -> str:
        """A text in quotes."""
        if self.peek.kind != "string":
            self.fail(f"expected a string, found {self.peek.text!r}")
        return str(self.literal())

    def integer(self) -> int:
        """An integer, which may be negative."""
        negative = self.accept("-")
        if self.peek.kind != "number" or not self.peek.text.isdigit():
            self.fail(f"expected an integer, found {self.peek.text!r}")
        return self.read_digits(self.take()) * (-1 if negative else 1)

    def read_digits(self, token: Token, suffix: str = "") -> int:
        """The value of the digits of a token, before its `suffix`."""
        digits = token.text.removesuffix(suffix)
        try:
            return int(digits)
        except ValueError:  # Python converts only some thousand digits
            self.return_to(token)
            self.fail(f"the integer has too many digits: {len(digits)}")

    def dtype(self) -> str:
        """The name of an element type."""
        if self.peek.kind != "name":
            self.fail(f"expected an element type, found {self.peek.text!r}")
        name = self.peek.text
        canonical(name)
        self.take()
        return name

    def items(self, read: Callable[[], AnyValue], closing: str = "]") -> list[AnyValue]:
        """Items separated by commas, up to a closing bracket."""
        found: list[AnyValue] = []
        while not self.accept(closing):
            if found:
                self.expect(",")
            found.append(read())
        return found

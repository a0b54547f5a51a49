"""Dimensions and shapes as users and models write them: `2*batch + 1`, `[2, "n"]`."""

import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any as AnyValue
from typing import Final

from passat.ir.shape import LARGEST_SIZE, Any, Dim, Shape, SymDim, as_dim, divide, extreme, names_in

_LONGEST: Final = 4096
"""Longer texts are names: models may have any text, and reading it takes up to quadratic time."""
_DIGITS: Final = 19
"""Texts with numbers of more digits are names."""
_EXPRESSION: Final = re.compile(r"\s*([0-9]+|//|[A-Za-z_][\w.]*(?:-[A-Za-z_][\w.]*)*|[-+*(),])")
_HYPHENATED: Final = re.compile(r" ?([0-9]+(?= |$)|[A-Za-z_][\w.]*(?:-[\w.]+)*|[-+])")
_SPACED: Final = re.compile(r"-?[\w.]+(-[\w.]+)*( [-+] [\w.]+(-[\w.]+)*)*")
"""Sums and differences with spaces around their signs, as exporters write them. Their names may have hyphens before numbers, too."""


def parse_dim(text: str) -> Dim:
    """Parses a dimension: an expression over names, as printed. Any other text becomes a name verbatim.

    >>> parse_dim("2*batch + 1"), parse_dim("7"), parse_dim("4*((n + 1)//2)"), parse_dim("floor(x)")
    (2*batch + 1, 7, 4*((n + 1)//2), floor(x))

    A minus without spaces is a hyphen in a name, except before a number in a text with other operators than spaced signs.

    >>> from passat.ir.shape import names_in
    >>> [names_in(parse_dim(text)) for text in ("seq-len", "2*seq-len", "seq - len", "audio-1", "2*n-1")]
    [['seq-len'], ['seq-len'], ['len', 'seq'], ['audio-1'], ['n']]
    """
    tokens = _tokens(text)
    try:
        value, rest = _sum(tokens)
    except (IndexError, ValueError, RecursionError):
        return SymDim.named(text)
    return SymDim.named(text) if rest or isinstance(value, Any) else value


def declared_dim(text: str) -> int | SymDim:
    """A size as models declare it: the text of a number that no size has, since it is negative or beyond 64 bits, is a name.

    >>> declared_dim("n - 3"), declared_dim("-3"), declared_dim("3")
    (n - 3, -3, 3)
    >>> isinstance(declared_dim("-3"), SymDim), isinstance(declared_dim("99999999999*99999999999"), SymDim)
    (True, True)
    """
    dim = parse_dim(text)
    return SymDim.named(text) if isinstance(dim, Any) or (isinstance(dim, int) and not 0 <= dim <= LARGEST_SIZE) else dim


def is_name(text: str) -> bool:
    """Whether a model that declares this text as a size names a dimension: the text is neither a number nor an expression.

    >>> is_name("n"), is_name("n - 3"), is_name("3")
    (True, False, False)
    """
    return names_in(declared_dim(text)) == [text]


def given_shape(sizes: AnyValue) -> Shape:
    """A shape as users give it: a sequence of integers of any type, names, expressions over names, and `Any()`.

    Raises TypeError for other values, and ValueError for negative sizes.

    >>> given_shape([2, "n"])
    (2, n)
    """
    if isinstance(sizes, str):
        raise TypeError(f"shape must be a list of dimensions, not the text {sizes!r}; write shape=({', '.join(sizes.split(','))},)")
    if not isinstance(sizes, Iterable) or isinstance(sizes, (bytes, bytearray, Mapping, AbstractSet)):
        raise TypeError(f"shape must be a list of dimensions, not {sizes!r}")
    return tuple(map(_given_dim, sizes))


def _given_dim(dim: AnyValue) -> Dim:
    if isinstance(dim, str):
        if not dim:
            raise ValueError("the name of a dimension must not be empty")
        dim = parse_dim(dim)
    dim = as_dim(dim)
    if isinstance(dim, (Any, SymDim)):
        return dim
    try:
        size = operator.index(dim)
    except TypeError:
        raise TypeError(f"a dimension must be an integer, a name or Any(), not {dim!r}") from None
    if size < 0:
        raise ValueError(f"a dimension must not be negative, but is {size}; use Any() for an unknown size")
    return size


def _tokens(text: str) -> Sequence[str]:
    """The tokens of an expression; none if the text is too long, or a part of it is no token."""
    if len(text) > _LONGEST:
        return ()
    tokens: list[str] = []
    position = 0
    expression = _HYPHENATED if "-" in text and _SPACED.fullmatch(text) else _EXPRESSION
    while position < len(text):
        found = expression.match(text, position)
        if found is None:
            return ()
        tokens.append(found[1])
        position = found.end()
    return tokens


def _sum(tokens: Sequence[str]) -> tuple[Dim, Sequence[str]]:
    total, rest = _product(tokens)
    while rest and rest[0] in ("+", "-"):
        term, following = _product(rest[1:])
        total = total + term if rest[0] == "+" else total - term
        rest = following
    return total, rest


def _product(tokens: Sequence[str]) -> tuple[Dim, Sequence[str]]:
    total, rest = _factor(tokens)
    while rest and rest[0] in ("*", "//"):
        factor, following = _factor(rest[1:])
        total = total * factor if rest[0] == "*" else divide(total, factor)
        rest = following
    return total, rest


def _factor(tokens: Sequence[str]) -> tuple[Dim, Sequence[str]]:
    head, rest = tokens[0], tokens[1:]
    if head.isdigit():
        if len(head) > _DIGITS:
            raise ValueError("the number is too large for a size")
        return int(head), rest
    if head == "-":
        value, rest = _factor(rest)
        return -value, rest
    if head == "(":
        value, rest = _sum(rest)
        if rest[0] != ")":
            raise ValueError("unbalanced brackets")
        return value, rest[1:]
    if head in ("min", "max") and rest and rest[0] == "(":
        first, rest = _sum(rest[1:])
        if rest[0] != ",":
            raise ValueError("min and max take two sizes")
        second, rest = _sum(rest[1:])
        if rest[0] != ")":
            raise ValueError("unbalanced brackets")
        return extreme("min" if head == "min" else "max", first, second), rest[1:]
    if not (head[0].isalpha() or head[0] == "_"):
        raise ValueError(head)
    return SymDim.named(head), rest

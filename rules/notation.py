"""The text of guards and computed attributes: calls of functions, `is_float(x)`, and operators as they are written, `x.ndim > 2 * a`."""

from collections.abc import Callable, Sequence
from typing import Any as AnyValue
from typing import Final, NamedTuple, TypeVar

COMPARISON: Final = 0
SUM: Final = 1
PRODUCT: Final = 2
NEGATIVE: Final = 3
POWER: Final = 4
PART: Final = 5


class _Notation(NamedTuple):
    """The text of a call with its arguments as `{}`, the precedence of the text, and the least precedence of each argument that needs no
    parentheses."""

    text: str
    precedence: int
    needed: tuple[int, ...]


_NOTATIONS: Final[dict[object, _Notation]] = {}
_Function = TypeVar("_Function", bound=Callable[..., object])


def notation(text: str, precedence: int, *needed: int) -> Callable[[_Function], _Function]:
    """Shows calls of the function as this text. Pass on the function itself, below `@guard` or `@computed`."""

    def note(function: _Function) -> _Function:
        _NOTATIONS[function] = _Notation(text, precedence, needed)
        return function

    return note


def is_written(function: Callable[..., object]) -> bool:
    """True if calls of the function are shown by an operator, so that its name does not occur."""
    return function in _NOTATIONS


def call_text(function: Callable[..., object], args: Sequence[AnyValue]) -> str:
    """The text of a guard or a computed attribute."""
    found = _NOTATIONS.get(function)
    if found is None or len(args) != len(found.needed):
        return f"{function.__name__}({', '.join(map(repr, args))})"
    return found.text.format(*[_part(arg, least) for arg, least in zip(args, found.needed, strict=True)])


def _part(arg: AnyValue, least: int) -> str:
    return f"({arg!r})" if _precedence(arg) < least else repr(arg)


def _precedence(arg: AnyValue) -> int:
    if isinstance(arg, (int, float)):
        return NEGATIVE if arg < 0 else PART
    function = getattr(arg, "function", None) if hasattr(type(arg), "function") else None
    return _NOTATIONS[function].precedence if function in _NOTATIONS else PART

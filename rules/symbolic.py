"""Python operations on terms of the rule language, and their text. Arithmetic and comparisons of attributes are done for each match; tests,
loops and conversions are rejected, since they would be evaluated once, where the rule is written.

Messages say what to write instead. Otherwise Python would silently accept some of it (`.when(a and b)` is `.when(b)`), and raise errors
that name no pattern for the rest.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, TypeVar
from typing import Any as AnyValue

from passat.ir.similar_names import did_you_mean

if TYPE_CHECKING:
    from passat.rules.guards import Guard
    from passat.rules.pattern import Computed

_PARTS_OF_A_TYPE: Final = ("shape", "ndim", "dtype", "type", "size", "rank", "value", "T")
_GUARD: Final = "a guard is a function of the match: @guard def square(x): return x.type.shape == x.type.shape[::-1], then .when(square(x))"


class Symbolic:
    """A value that is known when a rule matches, not when it is written."""

    __slots__ = ()
    kind = "a pattern"
    comparison = f"compare x.ndim, x.shape[0] or x.dtype, or apply an operator such as op.greater(x, y); {_GUARD}"
    """The alternative to a comparison or a test."""

    def reject(self, what: str, instead: str) -> NoReturn:
        """Raises RuleError."""
        from passat.rules.pattern import RuleError  # needs this module

        raise RuleError(f"{self!r} is {self.kind}, and has no {what}: {instead}")

    def __iter__(self) -> Iterator[AnyValue]:
        self.reject("known length", "take its parts with pattern[i]")

    def __format__(self, form: str) -> str:
        if form:
            self.reject(f"format {form!r}", "its repr shows the source form")
        return repr(self)

    if not TYPE_CHECKING:  # type checkers know the attributes

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(name)
            raise _missing(self, name)


def _missing(term: Symbolic, name: str) -> Exception:
    """The error for an attribute that a term lacks."""
    from passat.rules.rule import Rule

    if name in vars(Rule):
        return missing_attribute(f".{name}(...) belongs to the rule, not to its right side: write (left >> right).{name}(...)")
    near = did_you_mean(name, (known for known in ("shape", "ndim", "dtype") if hasattr(type(term), known))).removeprefix("; ")
    if name in _PARTS_OF_A_TYPE:
        instead = _GUARD
    elif isinstance(term, AttributeTerm):
        instead = f"if it stands for all attributes of a call (attrs={term!r}), write {term!r}[{name!r}]"
    else:
        instead = near or "operators are applied as op.NAME(x), such as op.nn.relu(x)"
    return missing_attribute(f"{term!r} is {term.kind}, and has no .{name}: {instead}")


def missing_attribute(sentence: str) -> Exception:
    """An error of the rule language that is an AttributeError, too, for `hasattr`."""
    from passat.rules.pattern import RuleError

    class MissingAttributeError(RuleError, AttributeError):
        pass

    MissingAttributeError.__qualname__ = MissingAttributeError.__name__ = "RuleError"
    return MissingAttributeError(sentence)


def _rejecting(what: str, instead: str = "") -> Callable[..., AnyValue]:
    def rejected(self: Symbolic, *_: object) -> NoReturn:
        self.reject(what, instead or self.comparison)

    return rejected


_INSTEAD: Final = {
    "<<": "write rules from left to right: left >> right",
    ">>": "a rule has a left and a right side, both patterns: left >> right",
    "&": "to require several guards, list them: .when(a, b); for the operator write op.logical_and(x, y)",
    "|": "write one guard that tests both; for the operator write op.logical_or(x, y)",
}
_NAMED: Final = "apply an operator by its name: op.NAME(x, y)"
_BINARY: Final = {
    **{"add": "+", "sub": "-", "mul": "*", "truediv": "/", "matmul": "@", "floordiv": "//", "mod": "%", "pow": "**", "divmod": "divmod"},
    **{"and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>"},
}
_UNARY: Final = {"neg": "-", "pos": "+", "invert": "~", "abs": "abs"}
_COMPARISONS: Final = {"bool": "truth value (if, and, or, not)", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

for _name, _symbol in _BINARY.items():
    for _prefix in ("", "r"):
        setattr(Symbolic, f"__{_prefix}{_name}__", _rejecting(f"operator {_symbol}", _INSTEAD.get(_symbol, _NAMED)))
for _name, _symbol in _UNARY.items():
    setattr(Symbolic, f"__{_name}__", _rejecting(f"operator {_symbol}", _NAMED))
for _name, _symbol in _COMPARISONS.items():
    setattr(Symbolic, f"__{_name}__", _rejecting(f"{'comparison ' * (_name != 'bool')}{_symbol}"))
for _name in ("int", "float", "complex", "index", "round"):
    setattr(
        Symbolic,
        f"__{_name}__",
        _rejecting(f"number ({_name})", "its value is known only in a match: use a guard or a @computed function"),
    )


for _name, _what, _instead in (
    ("len", "length", "take its parts with pattern[i], and count in a guard"),
    ("contains", "elements (in)", _GUARD),
    ("call", "call", "operators are applied as op.NAME(x)"),
    ("getitem", "items", "take parts of values in a guard or a @computed function"),
):
    setattr(Symbolic, f"__{_name}__", _rejecting(_what, _instead))


class OperatorTerm(Symbolic):
    """An operator that is not yet known (`passat.rules.holes`)."""

    __slots__ = ()
    name: str


_Operator = Callable[["AttributeTerm", object], "Computed"]


def _comparison(name: str, symbol: str) -> Callable[["AttributeTerm", object], "Guard"]:
    """A comparison as a method of attributes."""
    return lambda self, other: _compared(name, self, symbol, other)


def _arithmetic(name: str) -> tuple[_Operator, _Operator]:
    """An operation as a method of the left and of the right operand."""
    return (lambda self, other: _computed(name, self, other)), (lambda self, other: _computed(name, other, self))


class AttributeTerm(Symbolic):
    """The value of an attribute. Arithmetic on it is evaluated for each match, and comparisons are guards
    (`passat.rules.attribute_arithmetic`)."""

    __slots__ = ()
    kind = "an attribute"
    comparison = "compare it in a guard, such as .when(a > 0, a != 3)"

    def __eq__(self, other: object) -> AnyValue:
        """The guard `a == b`; for the attribute itself, and for values that no attribute has, a bool. Inside Passat, attributes are
        compared by identity, or by `repr`."""
        if other is self or not (other is None or isinstance(other, (Symbolic, int, float, str, tuple, list))):
            return other is self
        return _compared("equals", self, "==", other)

    def __ne__(self, other: object) -> AnyValue:
        """The guard `a != b`, like `==`."""
        if other is self or not (other is None or isinstance(other, (Symbolic, int, float, str, tuple, list))):
            return other is not self
        return _compared("differs", self, "!=", other)

    __hash__ = object.__hash__

    __lt__ = _comparison("less", "<")
    __le__ = _comparison("less_equal", "<=")
    __gt__ = _comparison("greater", ">")
    __ge__ = _comparison("greater_equal", ">=")
    __add__, __radd__ = _arithmetic("sum_of")
    __sub__, __rsub__ = _arithmetic("difference")
    __mul__, __rmul__ = _arithmetic("product")
    __truediv__, __rtruediv__ = _arithmetic("quotient")
    __floordiv__, __rfloordiv__ = _arithmetic("floor_quotient")
    __mod__, __rmod__ = _arithmetic("remainder")
    __pow__, __rpow__ = _arithmetic("power")

    def __neg__(self) -> "Computed":
        return _computed("difference", 0, self)

    def __abs__(self) -> "Computed":
        return _computed("magnitude", self)

    def __getitem__(self, key: object) -> "Computed":
        return _computed("item", self, key)


def _computed(name: str, *args: object) -> "Computed":
    """An attribute computed from others and from numbers. Raises RuleError for anything else."""
    from passat.rules import attribute_arithmetic  # needs this module
    from passat.rules.pattern import RuleError

    for arg in args:
        if not isinstance(arg, (AttributeTerm, int, float)) and not (name == "item" and isinstance(arg, str)):
            own = next(one for one in args if isinstance(one, AttributeTerm))
            raise RuleError(
                f"{own!r} is an attribute, but {arg!r} is neither one nor a number; number({own!r}) makes a constant of an attribute, for "
                "right sides"
            )
    made: Computed = getattr(attribute_arithmetic, name)(*args)
    return made


def _compared(name: str, own: AttributeTerm, symbol: str, other: object) -> "Guard":
    """A comparison of an attribute with another one or a value. Raises RuleError for patterns and guards and, except for == and !=, for
    values other than numbers."""
    from passat.rules import attribute_arithmetic  # needs this module
    from passat.rules.pattern import RuleError

    ordered = symbol not in ("==", "!=")
    if isinstance(other, Symbolic) and not isinstance(other, AttributeTerm):
        raise RuleError(
            f"{own!r} is an attribute, but {other!r} is {other.kind}: compare attributes, or x.ndim, x.shape[0], x.dtype of a tensor x"
        )
    if ordered and (isinstance(other, bool) or not isinstance(other, (AttributeTerm, int, float))):
        raise RuleError(f"{own!r} {symbol} {other!r}: {other!r} is neither an attribute nor a number; == and != compare other values")
    if not ordered and (reason := attribute_arithmetic.never_equals(own, other)):
        raise RuleError(f"{own!r} {symbol} {other!r}: {reason}, which never equals {other!r}")
    made: Guard = getattr(attribute_arithmetic, name)(own, other)
    return made


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
    """True if calls of the function are shown by an operator, `x.ndim > 2 * a`, so that its name does not occur."""
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

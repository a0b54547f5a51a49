"""Dimensions of tensors: integers, the unknown `Any`, and symbolic expressions over named sizes.

A symbolic dimension is a polynomial with integer coefficients over *atoms*. An atom is a name (`batch`) or an inexact quotient (`(seq +
1)//2`). Equal polynomials are equal dimensions, so `2*(n + 1)` equals `n + n + 2`.
"""

import functools
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any as AnyValue
from typing import Final, TypeAlias, final

Monomial: TypeAlias = tuple[str, ...]


@final
class Any:
    """The unknown dimension, a singleton; Relay prints it as `?`. Two unknown dimensions need not be equal."""

    __slots__ = ()
    _instance: "Any | None" = None

    def __new__(cls) -> "Any":
        """Returns the singleton."""
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __repr__(self) -> str:
        return "?"

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return (Any, ())

    def _absorb(self, _other: object) -> "Any":
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _absorb

    def __neg__(self) -> "Any":
        return self


ANY: Final = Any()


@final
class SymDim:
    """A symbolic size: a name or an expression over names. Arithmetic with a constant result returns `int`.

    >>> n = SymDim.named("n")
    >>> 2 * (n + 1) - n
    n + 2
    >>> (4 * n) // 2
    2*n
    >>> (n + 1) // 2
    (n + 1)//2
    >>> n - n
    0
    """

    __slots__ = ("_hash", "terms")
    terms: tuple[tuple[Monomial, int], ...]

    def __init__(self, terms: Iterable[tuple[Monomial, int]]) -> None:
        self.terms = tuple(sorted(terms))
        self._hash = hash(self.terms)

    @classmethod
    def named(cls, name: str) -> "SymDim":
        """Returns the dimension called `name`."""
        return cls([((name,), 1)])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SymDim):
            return self.terms == other.terms
        dim = as_dim(other)
        return dim is not other and self == dim

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type, tuple[tuple[tuple[Monomial, int], ...]]]:
        return (SymDim, (self.terms,))

    def __repr__(self) -> str:
        parts: list[str] = []
        for monomial, coefficient in sorted(self.terms, key=lambda term: (-len(term[0]), term[0])):
            factors = list(monomial) if abs(coefficient) == 1 and monomial else [str(abs(coefficient)), *monomial]
            sign = ("-" if coefficient < 0 else "") if not parts else (" - " if coefficient < 0 else " + ")
            if len(factors) > 1 or sign == "-":  # 2*(n//3) is not (2*n)//3, and -(n//3) is not (-n)//3
                factors = [f"({name})" if "//" in name and not name.startswith(("min(", "max(")) else name for name in factors]
            parts.append(sign + "*".join(factors))
        return "".join(parts)

    def __add__(self, other: "Dim") -> "Dim":
        if isinstance(other, Any):
            return other
        total = dict(self.terms)
        for monomial, coefficient in _terms(other):
            total[monomial] = total.get(monomial, 0) + coefficient
        return _normal(total)

    __radd__ = __add__

    def __neg__(self) -> "Dim":
        return SymDim((monomial, -coefficient) for monomial, coefficient in self.terms)

    def __sub__(self, other: "Dim") -> "Dim":
        return self + (-other)

    def __rsub__(self, other: "Dim") -> "Dim":
        return -self + other

    def __mul__(self, other: "Dim") -> "Dim":
        if isinstance(other, Any):
            return other
        total: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in _terms(other):
                monomial = tuple(sorted(left + right))
                total[monomial] = total.get(monomial, 0) + a * b
        return _normal(total)

    __rmul__ = __mul__

    def __floordiv__(self, other: "Dim") -> "Dim":
        return divide(self, other)

    def __rfloordiv__(self, other: "Dim") -> "Dim":
        return divide(other, self)

    def __mod__(self, other: "Dim") -> "Dim":
        return self - (self // other) * other

    def __rmod__(self, other: "Dim") -> "Dim":
        return other - (other // self) * self


Dim: TypeAlias = int | Any | SymDim
Shape: TypeAlias = tuple[Dim, ...]


def as_dim(value: AnyValue) -> AnyValue:
    """The dimension that an expression of the loop IR denotes, such as `n + 1`; other values are unchanged."""
    convert = getattr(value, "as_dim", None)
    return value if convert is None else convert()


def _terms(dim: int | SymDim) -> Iterable[tuple[Monomial, int]]:
    if isinstance(dim, SymDim):
        return dim.terms
    return [((), int(dim))] if dim else []


def _normal(terms: Mapping[Monomial, int]) -> "Dim":
    kept = [(monomial, coefficient) for monomial, coefficient in terms.items() if coefficient]
    if not kept:
        return 0
    for monomial, coefficient in kept:
        if monomial and monomial[0].startswith("max(0, ") and len(kept) > 1 and len(monomial) == 1:
            whole = _whole(monomial[0], (names[0] for names, other in kept if len(names) == 1 and other == coefficient))
            if whole is not None:
                rest = {names: other for names, other in kept if names not in (monomial, (whole[0],))}
                return _normal(rest) + coefficient * whole[1]
    return kept[0][1] if len(kept) == 1 and not kept[0][0] else SymDim(kept)


def divide(dividend: Dim, divisor: Dim) -> Dim:
    """Floor division of sizes: a polynomial if the division is exact, an atom otherwise; `Any` for unknown or zero divisors.

    >>> n = SymDim.named("n")
    >>> divide(7, 2), divide(6 * n, 3), divide(5, 0)
    (3, 2*n, ?)

    Quotients by a positive integer have a normal form, so that sizes that are computed in different ways are equal: whole multiples of the
    divisor are outside, quotients of quotients are one, and the first factor is positive.

    >>> divide(2 * n + 1, 2), divide(n - 2, 2) + 1, divide(divide(n + 1, 2) + 1, 2), -divide(-n, 2)
    (n, n//2, (n + 3)//4, (n + 1)//2)
    """
    if isinstance(dividend, Any) or isinstance(divisor, Any) or divisor == 0:
        return ANY
    if not isinstance(dividend, SymDim) and not isinstance(divisor, SymDim):
        return int(dividend) // int(divisor)
    if dividend == divisor:
        return 1
    if not isinstance(dividend, SymDim) and dividend == 0:
        return 0
    by = list(_terms(divisor))
    if len(by) == 1 and isinstance(dividend, SymDim):
        (names, factor) = by[0]
        quotient: dict[Monomial, int] = {}
        for monomial, coefficient in dividend.terms:
            rest = list(monomial)
            if coefficient % factor or any(rest.count(name) < names.count(name) for name in names):
                break
            for name in names:
                rest.remove(name)
            quotient[tuple(rest)] = coefficient // factor
        else:
            return _normal(quotient)
        if not names and factor > 1:
            return _quotient(dividend, factor)
    return SymDim.named(f"{_bracketed(dividend)}//{_bracketed(divisor)}")


def _quotient(dividend: SymDim, divisor: int) -> Dim:
    """The normal form of an inexact quotient by an integer above 1."""
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    constant = 0
    for monomial, coefficient in dividend.terms:
        if not monomial:
            whole[monomial], constant = divmod(coefficient, divisor)
        elif coefficient % divisor:  # n + n//2 is not the form of (3*n)//2: in a chain of such sizes, each would have the one before twice
            rest[monomial] = coefficient
        else:
            whole[monomial] = coefficient // divisor
    outside = _normal(whole)
    if not rest:
        return outside
    if rest[min(rest)] < 0:  # the floor of -x/d is minus the ceiling of x/d
        return outside - divide(divisor - 1 - constant - SymDim(rest.items()), divisor)
    common = math.gcd(divisor, *rest.values())
    if common > 1:  # the floor of (2*x + 1)/4 is that of x/2
        fewer = SymDim((monomial, coefficient // common) for monomial, coefficient in rest.items())
        return outside + divide(fewer + constant // common, divisor // common)
    inner = _parts(next(iter(rest))) if list(rest.values()) == [1] else None
    if inner is not None:
        return outside + divide(inner[0] + inner[1] * constant, inner[1] * divisor)
    return outside + SymDim.named(f"{_bracketed(SymDim(rest.items()) + constant)}//{divisor}")


@functools.lru_cache(10_000)
def _parts(monomial: Monomial) -> tuple[SymDim, int] | None:
    """Dividend and divisor of a quotient by a positive integer; None for other monomials."""
    dividend, slashes, text = monomial[0].rpartition("//")
    if len(monomial) > 1 or not slashes or dividend.startswith(("min(", "max(")):
        return None
    found, divisor = _parsed(dividend, SymDim.named), _parsed(text, SymDim.named)
    if not isinstance(found, SymDim) or not isinstance(divisor, int) or divisor <= 0:
        return None
    return (found, divisor) if monomial[0] == f"{_bracketed(found)}//{divisor}" else None  # a name may end like a quotient


def _whole(positive_part: str, atoms: Iterable[str]) -> tuple[str, Dim] | None:
    """The atom `min(a, b)` among some whose sum with the atom `max(0, a - b)` is `a`, and `a`. Two parts of an axis have such sizes."""
    for atom in atoms:
        parts, difference = (_operands(atom), _operands(positive_part)) if atom.startswith("min(") else (None, None)
        if parts is not None and difference is not None and difference[1] in (parts[0] - parts[1], parts[1] - parts[0]):
            return atom, parts[0] if difference[1] == parts[0] - parts[1] else parts[1]
    return None


@functools.lru_cache(10_000)
def _operands(atom: str) -> tuple[Dim, Dim] | None:
    """The operands of a minimum or maximum."""
    tokens = _tokens(atom)
    if tokens is None or tokens[:1] not in (("min",), ("max",)):
        return None
    try:
        first, rest = _sum(tokens[2:], SymDim.named)
        second, rest = _sum(rest[1:], SymDim.named)
    except (IndexError, ValueError, RecursionError):
        return None
    return (first, second) if rest == (")",) else None  # a name may begin like one


def _bracketed(dim: Dim) -> str:
    text = repr(dim)
    return text if re.fullmatch(r"\w+", text) else f"({text})"


_EXPRESSION = re.compile(r"\s*(\d+|//|[A-Za-z_][\w.]*|[-+*(),])")
_Leaf: TypeAlias = Callable[[str], Dim]


def parse_dim(text: str) -> Dim:
    """Parses a dimension: an expression over names, as printed. Any other text becomes a name verbatim.

    >>> parse_dim("2*batch + 1"), parse_dim("7"), parse_dim("4*((n + 1)//2)"), parse_dim("floor(x)")
    (2*batch + 1, 7, 4*((n + 1)//2), floor(x))
    """
    found = _parsed(text, SymDim.named)
    return SymDim.named(text) if found is None or isinstance(found, Any) else found


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
        return parse_dim(dim)
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


def replace_names(text: str, sizes: Mapping[str, int]) -> Dim:
    """Parses a dimension and substitutes sizes for some of its names.

    >>> replace_names("2*batch + n", {"batch": 3}), replace_names("floor(x)", {"floor(x)": 4})
    (n + 6, 4)
    """
    if text in sizes:
        return sizes[text]
    found = _parsed(text, lambda name: sizes[name] if name in sizes else SymDim.named(name))
    return SymDim.named(text) if found is None or isinstance(found, Any) else found


def names_of_text(text: str) -> list[str]:
    """Returns the names in the text of a dimension, without duplicates. Text that is not an expression is itself a name.

    >>> names_of_text("2*(n + m)//n"), names_of_text("7"), names_of_text("floor(x)")
    (['n', 'm'], [], ['floor(x)'])
    """
    found: dict[str, None] = {}

    def keep(name: str) -> Dim:
        found[name] = None
        return SymDim.named(name)

    return [text] if _parsed(text, keep) is None else list(found)


def _parsed(text: str, leaf: _Leaf) -> Dim | None:
    """Evaluates an expression, with `leaf` mapping names to values. Returns None if the text is not an expression."""
    tokens = _tokens(text)
    if tokens is None:
        return None
    try:
        value, rest = _sum(tokens, leaf)
    except (IndexError, ValueError, RecursionError):
        return None
    return None if rest else value


@functools.lru_cache(10_000)
def _tokens(text: str) -> tuple[str, ...] | None:
    tokens: list[str] = []
    position = 0
    while position < len(text):
        found = _EXPRESSION.match(text, position)
        if found is None:
            return None
        tokens.append(found[1])
        position = found.end()
    return tuple(tokens)


def _sum(tokens: Sequence[str], leaf: _Leaf) -> tuple[Dim, Sequence[str]]:
    total, rest = _product(tokens, leaf)
    while rest and rest[0] in ("+", "-"):
        term, following = _product(rest[1:], leaf)
        total = total + term if rest[0] == "+" else total - term
        rest = following
    return total, rest


def _product(tokens: Sequence[str], leaf: _Leaf) -> tuple[Dim, Sequence[str]]:
    total, rest = _factor(tokens, leaf)
    while rest and rest[0] in ("*", "//"):
        factor, following = _factor(rest[1:], leaf)
        total = total * factor if rest[0] == "*" else divide(total, factor)
        rest = following
    return total, rest


def _factor(tokens: Sequence[str], leaf: _Leaf) -> tuple[Dim, Sequence[str]]:
    head, rest = tokens[0], tokens[1:]
    if head.isdigit():
        return int(head), rest
    if head == "-":
        value, rest = _factor(rest, leaf)
        return -value, rest
    if head == "(":
        value, rest = _sum(rest, leaf)
        if rest[0] != ")":
            raise ValueError("unbalanced brackets")
        return value, rest[1:]
    if head in ("min", "max") and rest and rest[0] == "(":
        first, rest = _sum(rest[1:], leaf)
        if rest[0] != ",":
            raise ValueError("min and max take two sizes")
        second, rest = _sum(rest[1:], leaf)
        if rest[0] != ")":
            raise ValueError("unbalanced brackets")
        return _extreme(head, first, second), rest[1:]
    if not (head[0].isalpha() or head[0] == "_"):
        raise ValueError(head)
    return leaf(head), rest


def _extreme(which: str, a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b) if which == "min" else max(a, b)
    first, second = sorted((repr(a), repr(b))) if which == "min" else (repr(a), repr(b))  # as `passat.ir.bounds.smaller` names it
    return SymDim.named(f"{which}({first}, {second})")


def names_in(dim: Dim) -> list[str]:
    """Returns the names in a dimension, in the order of its terms.

    >>> names_in(parse_dim("2*n + m + 1")), names_in(3)
    (['m', 'n'], [])
    """
    return [name for monomial, _ in dim.terms for name in monomial] if isinstance(dim, SymDim) else []


def is_static(shape: Shape) -> bool:
    """Whether every dimension is an integer."""
    for dim in shape:  # noqa: SIM110  # `all` over a generator takes three times as long
        if type(dim) is not int:
            return False
    return True


def product(shape: Iterable[Dim]) -> Dim:
    """The number of elements of a shape.

    >>> product((2, SymDim.named("n"), 3))
    6*n
    """
    total: Dim = 1
    for dim in shape:
        total = total * dim
    return total


LARGEST_SIZE: Final = 2**63 - 1
"""Upper limit on the number of elements of a tensor; runtimes count elements in 64 bits."""


def static_size(shape: Shape, assumed: int = 64) -> int:
    """The number of elements of a shape, at most `LARGEST_SIZE`. Symbolic and unknown dimensions count as `assumed`; for cost models."""
    return min(math.prod(dim if isinstance(dim, int) else assumed_size(dim, assumed) for dim in shape), LARGEST_SIZE)


def assumed_size(dim: Dim, assumed: int = 64) -> int:
    """Evaluates a dimension with `assumed` for each name. Returns `assumed` if the result would be zero or negative.

    >>> n = SymDim.named("n")
    >>> [assumed_size(dim) for dim in (3, n + 1, n - 89)]
    [3, 65, 64]
    """
    size = evaluate_dim(dim, {}, assumed)
    return size if size > 0 or isinstance(dim, int) else assumed


def evaluate_dim(dim: Dim, sizes: Mapping[str, int], assumed: int = 64) -> int:
    """Evaluates a dimension with the given sizes for its names. Names without a size, and `Any`, count as `assumed`.

    >>> n = SymDim.named("n")
    >>> evaluate_dim(2 * n + (n + 1) // 2, {"n": 6})
    15
    """
    if isinstance(dim, Any):
        return assumed
    if not isinstance(dim, SymDim):
        return dim
    return sum(c * math.prod(_size(name, sizes, assumed) for name in monomial) for monomial, c in dim.terms)


def _size(name: str, sizes: Mapping[str, int], assumed: int) -> int:
    known = sizes.get(name)
    if known is not None:
        return known
    if "//" not in name and not name.startswith(("min(", "max(")):
        return assumed
    value = _parsed(name, lambda part: sizes.get(part, assumed))
    return value if isinstance(value, int) else assumed


def same_dim(a: Dim, b: Dim) -> bool:
    """Whether two dimensions are provably equal. `Any` is never provably equal to another dimension."""
    return a == b and not isinstance(a, Any)


def same_dims(a: Shape, b: Shape) -> bool:
    """Whether two shapes are provably equal."""
    return a == b and ANY not in a


def may_equal(a: Dim, b: Dim) -> bool:
    """Whether two dimensions can be equal. Only two different integers cannot."""
    return not (type(a) is int and type(b) is int) or a == b


def broadcast(a: Shape, b: Shape) -> Shape:
    """Returns the result shape of NumPy broadcasting. Raises ValueError if the shapes do not broadcast.

    A symbolic or unknown dimension against an integer other than 1 must equal that integer (or 1) at run time, so the integer wins.
    Likewise `n` wins over `min(n, 512)`, such as the size of a slice of a table with 512 rows.

    >>> broadcast((3, 1), (4,))
    (3, 4)
    >>> broadcast((SymDim.named("min(512, n)"), 1), (SymDim.named("n"), 4))
    (n, 4)
    """
    if a == b and ANY not in a:
        return a
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    result = list(longer)
    offset = len(longer) - len(shorter)
    for i, other in enumerate(shorter):
        dim = longer[offset + i]
        if dim == other and not isinstance(dim, Any):
            continue
        if dim == 1 and type(dim) is int:
            result[offset + i] = other
        elif other == 1 and type(other) is int:
            continue
        elif type(dim) is int and type(other) is int:
            raise ValueError(f"shapes {a} and {b} do not broadcast: {dim} against {other}")
        elif type(other) is int:
            result[offset + i] = other
        elif type(dim) is not int:
            result[offset + i] = other if _is_minimum(dim, other) else dim if _is_minimum(other, dim) else ANY
    return tuple(result)


def _is_minimum(dim: Dim, of: Dim) -> bool:
    """Whether `dim` is the minimum of `of` and a positive integer, as named by `passat.ir.bounds.smaller`."""
    if not isinstance(dim, SymDim) or not isinstance(of, SymDim) or len(dim.terms) != 1 or dim.terms[0][1] != 1:
        return False
    name, size = dim.terms[0][0], repr(of)
    if len(name) != 1 or not name[0].startswith("min("):
        return False
    limit = name[0][4:-1].removeprefix(f"{size}, ").removesuffix(f", {size}")
    return limit.isdigit() and int(limit) > 0


def show_shape(shape: Shape) -> str:
    """Prints a shape as Relay does: `(1, ?, batch)`, with a trailing comma for a single dimension."""
    return f"({', '.join(map(repr, shape))}{',' if len(shape) == 1 else ''})"

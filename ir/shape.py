"""Dimensions of tensors: integers, the unknown `Any`, and symbolic expressions over named sizes.

A symbolic dimension is a polynomial with integer coefficients over *atoms*. An atom is a name (`batch`), an inexact quotient (`(seq +
1)//2`), or a minimum or maximum (`min(512, seq)`). Equal polynomials are equal dimensions, so `2*(n + 1)` equals `n + n + 2`.
"""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any as AnyValue
from typing import Final, Literal, TypeAlias, final

Monomial: TypeAlias = tuple[str, ...]
"""A product of atoms: names, and quotients and extremes, which are strings too."""


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
MOST_TERMS: Final = 256
"""Products of sizes with more terms, or with terms of more factors, are unknown: `(a + b)*(c + d)*...` and repeated squares grow
exponentially with their length."""
LONGEST_ATOM: Final = 512
"""Quotients and extremes of others with longer texts are unknown: each holds its operands, so that texts could double from node to node."""


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
                factors = [f"({atom})" if isinstance(atom, Quotient) else atom for atom in factors]
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
                if len(monomial) > MOST_TERMS:
                    return ANY
                total[monomial] = total.get(monomial, 0) + a * b
            if len(total) > MOST_TERMS:
                return ANY
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


@final
class Quotient(str):
    """An inexact quotient of sizes, rounded down. It is an atom: a string, the text of the expression."""

    __slots__ = ("dividend", "divisor")
    dividend: int | SymDim
    divisor: int | SymDim

    def __new__(cls, dividend: int | SymDim, divisor: int | SymDim) -> "Quotient":
        """The quotient as an atom; `divide` gives the dimension in its normal form."""
        made = super().__new__(cls, f"{_bracketed(dividend)}//{_bracketed(divisor)}")
        made.dividend, made.divisor = dividend, divisor
        return made

    def __reduce__(self) -> tuple[type, tuple[int | SymDim, int | SymDim]]:
        return (Quotient, (self.dividend, self.divisor))


@final
class Extreme(str):
    """The minimum or maximum of two sizes, an atom: a string, the text of the expression.

    >>> Extreme("min", SymDim.named("n"), 4), Extreme("max", 0, SymDim.named("n") - 2)
    ('min(4, n)', 'max(0, n - 2)')
    """

    __slots__ = ("operands", "which")
    which: Literal["min", "max"]
    operands: tuple[int | SymDim, int | SymDim]

    def __new__(cls, which: Literal["min", "max"], a: int | SymDim, b: int | SymDim) -> "Extreme":
        """Either order of the operands gives the same atom."""
        first, second = sorted((a, b), key=lambda operand: (isinstance(operand, SymDim), repr(operand)))
        made = super().__new__(cls, f"{which}({first}, {second})")
        made.which, made.operands = which, (first, second)
        return made

    def __reduce__(self) -> tuple[type, tuple[Literal["min", "max"], int | SymDim, int | SymDim]]:
        return (Extreme, (self.which, *self.operands))


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
    joined = _joined(kept) if len(kept) > 1 else None
    if joined is not None:
        return joined
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
    return _bounded(Quotient(dividend, divisor))


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
    atoms = next(iter(rest)) if list(rest.values()) == [1] else ()
    inner = atoms[0] if len(atoms) == 1 else None
    if isinstance(inner, Quotient) and isinstance(inner.divisor, int) and inner.divisor > 0:
        return outside + divide(inner.dividend + inner.divisor * constant, inner.divisor * divisor)
    return outside + _bounded(Quotient(known_dim(SymDim(rest.items()) + constant), divisor))


def _bounded(atom: "Quotient | Extreme") -> Dim:
    """The dimension that an atom is, unknown if its text is too long and has other atoms in it."""
    parts = [part for part in _operands(atom) if isinstance(part, SymDim)] if len(atom) > LONGEST_ATOM else []
    nested = any(isinstance(inner, (Quotient, Extreme)) for part in parts for monomial, _ in part.terms for inner in monomial)
    return ANY if nested else SymDim.named(atom)


def known_dim(dim: Dim) -> int | SymDim:
    """The result of arithmetic on known dimensions, which is a known one."""
    assert not isinstance(dim, Any)
    return dim


def _joined(terms: list[tuple[Monomial, int]]) -> Dim | None:
    """The sum of some terms if it has `min(a, b)` and `max(0, a - b)`, whose sum is `a`. Two parts of an axis have such sizes."""
    extremes = [(names[0], coefficient) for names, coefficient in terms if len(names) == 1 and isinstance(names[0], Extreme)]
    excesses = [(atom, coefficient) for atom, coefficient in extremes if atom.which == "max" and atom.operands[0] == 0]
    if not excesses:
        return None
    wholes: dict[tuple[Dim, int], tuple[str, Dim]] = {}
    for atom, coefficient in extremes:
        if atom.which == "min":
            a, b = atom.operands
            wholes.setdefault((a - b, coefficient), (atom, a))
            wholes.setdefault((b - a, coefficient), (atom, b))
    for excess, coefficient in excesses:
        if (excess.operands[1], coefficient) in wholes:
            minimum, whole = wholes[excess.operands[1], coefficient]
            return _normal({names: other for names, other in terms if names not in ((excess,), (minimum,))}) + coefficient * whole
    return None


def _bracketed(dim: Dim) -> str:
    text = repr(dim)
    return text if re.fullmatch(r"\w+", text) else f"({text})"


def extreme(which: Literal["min", "max"], a: Dim, b: Dim) -> Dim:
    """The minimum or maximum of two dimensions: an atom, unless both are numbers.

    >>> extreme("min", 3, 4), extreme("max", SymDim.named("n"), 4)
    (3, max(4, n))
    """
    if isinstance(a, Any) or isinstance(b, Any):
        return ANY
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b) if which == "min" else max(a, b)
    return _bounded(Extreme(which, a, b))


def names_in(dim: Dim) -> list[str]:
    """The names in a dimension, without duplicates.

    >>> n, m = SymDim.named("n"), SymDim.named("m")
    >>> names_in(2 * n + m + 1), names_in((n * m + 1) // n), names_in(3)
    (['m', 'n'], ['m', 'n'], [])
    """
    found: dict[str, None] = {}
    pending = [dim]
    while pending:
        part = pending.pop()
        for atom in (atom for monomial, _ in part.terms for atom in monomial) if isinstance(part, SymDim) else ():
            if isinstance(atom, (Quotient, Extreme)):
                pending += reversed(_operands(atom))
            else:
                found[atom] = None
    return list(found)


def _operands(atom: Quotient | Extreme) -> tuple[int | SymDim, int | SymDim]:
    return (atom.dividend, atom.divisor) if isinstance(atom, Quotient) else atom.operands


def replace_names(dim: Dim, sizes: Mapping[str, Dim]) -> Dim:
    """Substitutes sizes for some names of a dimension. `Any` if a divisor becomes 0.

    >>> n, m = SymDim.named("n"), SymDim.named("m")
    >>> replace_names(2 * m + n // 2, {"m": 3, "n": 5}), replace_names(2 * m + n // 2, {"n": 6 * m})
    (8, 5*m)
    """
    if not isinstance(dim, SymDim):
        return dim
    total: Dim = 0
    for monomial, coefficient in dim.terms:
        total = total + product([coefficient, *(_replaced(atom, sizes) for atom in monomial)])
    return total


def _replaced(atom: str, sizes: Mapping[str, Dim]) -> Dim:
    if isinstance(atom, (Quotient, Extreme)):
        a, b = (replace_names(part, sizes) for part in _operands(atom))
        return divide(a, b) if isinstance(atom, Quotient) else extreme(atom.which, a, b)
    return sizes[atom] if atom in sizes else SymDim.named(atom)


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
    return sum(c * math.prod(_size(atom, sizes, assumed) for atom in monomial) for monomial, c in dim.terms)


def _size(atom: str, sizes: Mapping[str, int], assumed: int) -> int:
    if not isinstance(atom, (Quotient, Extreme)):
        return sizes.get(atom, assumed)
    a, b = (evaluate_dim(part, sizes, assumed) for part in _operands(atom))
    if isinstance(atom, Quotient):
        return a // b if b else assumed
    return min(a, b) if atom.which == "min" else max(a, b)


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
    >>> n = SymDim.named("n")
    >>> broadcast((extreme("min", n, 512), 1), (n, 4))
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
    """Whether `dim` is the minimum of `of` and a positive integer."""
    if not isinstance(dim, SymDim) or len(dim.terms) != 1 or dim.terms[0][1] != 1 or len(dim.terms[0][0]) != 1:
        return False
    atom = dim.terms[0][0][0]
    if not isinstance(atom, Extreme) or atom.which != "min" or of not in atom.operands:
        return False
    return any(isinstance(limit, int) and limit > 0 for limit in atom.operands)


def show_shape(shape: Shape) -> str:
    """Prints a shape as Relay does: `(1, ?, batch)`, with a trailing comma for a single dimension."""
    return f"({', '.join(map(repr, shape))}{',' if len(shape) == 1 else ''})"

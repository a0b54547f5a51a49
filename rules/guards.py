"""Guards and computed attributes: named Python functions over types, constants and attributes of a match.

A guard returns True, or the reason why it rejects the match. A computed attribute returns its value or raises `Reject(reason)`. For each
term that a rule passes, the function gets a `Term`: its type, its constant value if it has one, and its known elements. A guard that random
instances rarely satisfy has a strategy that generates samples (`passat.rules.samples`).
"""

import enum
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any as AnyValue
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.bounds import at_least
from passat.ir.counting import counted
from passat.ir.dtypes import FLOATS, INTEGERS
from passat.ir.op import KnownValue, Op
from passat.ir.shape import same_dim, same_dims
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, Type, lacks_sizes, leaves
from passat.rules.analysis import Analysis, Fact
from passat.rules.pattern import Computed, RuleError
from passat.rules.symbolic import PART, Symbolic, call_text, notation

UNEXPLAINED: Final = "does not hold"
"""The reason of a guard that gives none."""


class Check(enum.Enum):
    """The check that rejects a match. Values are the names in reports of checks, for rejections by no guard or computed attribute."""

    FUNCTION = "a guard or a computed attribute"
    """A guard or a computed attribute, for reasons of its own."""
    CONSTANT = "a constant"
    """A guard or a computed attribute that needs the value of a constant."""
    PATTERN = "the pattern"
    """The left side: its attributes, numbers and types."""
    NUMBER = "a number of the right side"
    """The element type cannot represent a number of the right side."""
    ILL_TYPED = "the right side is ill-typed"
    """The right side has no type."""
    TYPES = "the sides have different types"
    """The sides have different types."""
    ABSENT = "the right side does not exist"
    """The right side of a joining rule is not part of the program."""
    GROUP = "too few calls to merge"
    """A multi-pattern rule found too few calls."""


class Reject(Exception):
    """Raised by a guard or computed attribute that does not apply to a match, with the reason. `check` is the kind of rejection; the engine
    sets `by`, the guard or the computed attribute whose function rejected the match."""

    def __init__(self, reason: str, check: Check = Check.FUNCTION, by: "Guard | Computed | None" = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.check = check
        self.by = by

    def __str__(self) -> str:
        return f"{self.by!r}: {self.reason}" if isinstance(self.by, Guard) else self.reason


class Term:
    """An expression as guards see it: type, constant value, and elements known before run time."""

    __slots__ = ("_known", "constant", "type_")

    def __init__(self, type_: Type, constant: Tensor | None = None, known: KnownValue | None = None) -> None:
        self.type_ = type_
        self.constant = constant
        self._known = known

    def __repr__(self) -> str:
        return f"<{'constant' if self.constant is not None else 'term'} of type {self.type_!r}>"

    @property
    def type(self) -> TensorType:
        """The type of a tensor. Rejects other types."""
        if not isinstance(self.type_, TensorType):
            raise Reject(f"{self.type_!r} is not a tensor type")
        return self.type_

    @property
    def known_value(self) -> KnownValue | None:
        """The elements known before run time (`passat.ir.infer.known_value`)."""
        return self._known

    @property
    def known(self) -> list[AnyValue] | None:
        """The elements of a small integer tensor as dimensions in row-major order, as far as known."""
        value = self.known_value
        return list(value.reshape(-1)) if isinstance(value, np.ndarray) else None

    def fact(self, analysis: Analysis[Fact]) -> Fact | None:
        """The fact that an analysis has for the tensor, or None."""
        return analysis.known(self.type, self.constant)

    @property
    def cls(self) -> int:
        """The e-class of the term. Rejects terms outside of an e-graph."""
        raise Reject("the term is not in an e-graph")

    def of_class(self, cls: int) -> "Term":
        """The term of another e-class, which a fact names. Rejects terms outside of an e-graph."""
        raise Reject("the term is not in an e-graph")

    def calls(self, name: str) -> "list[tuple[Term, ...]]":
        """The operands of the calls of an operator in the e-class, oldest first."""
        return []

    def value(self) -> Tensor:
        """The constant value. Rejects other terms."""
        if self.constant is None:
            raise Reject("is not a constant", Check.CONSTANT)
        return self.constant


class Applied(NamedTuple):
    """A call of an operator in a `Tree`."""

    op: Op
    operands: "tuple[Tree, ...]"
    attrs: Attrs = EMPTY_ATTRS


Tree: TypeAlias = Applied | Tensor | Term
"""An expression that a `@computed` function makes for a right side (`passat.rules.pattern.expression`): calls, constants and terms of the
match."""


class Guard(Symbolic):
    """A guard of a rule: a named function applied to holes, terms and plain values."""

    __slots__ = ("_text", "args", "function")
    kind = "a guard"
    comparison = (
        "to require several guards, list them: .when(a, b), and .when(1 < a, a < 3) for 1 < a < 3; for anything else write one guard"
    )

    def __init__(self, function: Callable[..., bool | str], args: Sequence[AnyValue]) -> None:
        self.function = function
        self.args = tuple(args)
        self._text: str | None = None

    def __repr__(self) -> str:
        if self._text is None:  # each rejection shows its guard
            self._text = call_text(self.function, self.args)
        return self._text

    def rejection(self, answer: object, rule: str) -> str:
        """The reason for the rejection, or the empty string if the guard holds. Raises RuleError for an answer that is neither bool nor
        str."""
        if answer is True:
            return ""
        if isinstance(answer, str):
            return answer or UNEXPLAINED
        if isinstance(answer, (bool, np.bool_)):
            return "" if answer else UNEXPLAINED
        raise RuleError(
            f"the rule {rule}: the guard {self!r} returned {answer!r}; it must return True, or the reason for the rejection as a string"
        )


def guard(function: Callable[..., bool | str]) -> Callable[..., Guard]:
    """Makes a guard from a function that returns True or the reason for the rejection (False gives its name as the reason).

    `passat.rules.samples.strategy_for` sets how `passat rules check` generates samples that satisfy it.
    """

    @functools.wraps(function)
    def make(*args: AnyValue, **named: AnyValue) -> Guard:
        _check_positional(function, named)
        return Guard(function, args)

    return make


def _check_positional(function: Callable[..., AnyValue], named: Mapping[str, AnyValue]) -> None:
    """Raises RuleError for arguments that are given by name."""
    for name, value in named.items():
        raise RuleError(f"{function.__name__}({name}={value!r}): the arguments of guards and @computed functions are given by position")


def computed(function: Callable[..., AnyValue]) -> Callable[..., Computed]:
    """Makes a computed attribute from a function that returns the attribute's value or raises Reject."""

    @functools.wraps(function)
    def make(*args: AnyValue, **named: AnyValue) -> Computed:
        _check_positional(function, named)
        return Computed(function, args)

    return make


def elements_are(c: Term, value: float | None) -> bool | str:
    """True if every element of the constant is `value`; otherwise what they are."""
    element = c.value().uniform()
    if element is None:
        return "the elements of the constant differ"
    return bool(element == value) or f"the elements of the constant are {element}, not {value}"


@guard
def is_all(c: Term, value: float) -> bool | str:
    """Every element of the constant is `value`."""
    return elements_are(c, value)


@guard
def is_uniform(c: Term) -> bool | str:
    """All elements of the constant are equal."""
    return c.value().uniform() is not None or "the elements of the constant differ"


@guard
def is_constant(x: Term) -> bool | str:
    """The term is a constant."""
    return x.constant is not None or "is not a constant"


@guard
def knows_all_elements(x: Term) -> bool | str:
    """All elements of a small integer or bool tensor are known before run time."""
    elements = x.known
    if elements is None:
        return f"the elements of {x.type_!r} are unknown before run time"
    unknown = [element for element in elements if type(element) not in (int, bool)]
    return not unknown or f"the element {unknown[0]!r} is known only at run time"


@guard
def same_type(x: Term, y: Term) -> bool | str:
    """Both terms certainly have the same type."""
    if x.type_ != y.type_:
        return f"the types differ: {x.type_!r} and {y.type_!r}"
    return _is_certain(x.type_) or f"the type {x.type_!r} is unknown, or has an unknown dimension"


def _is_certain(type_: Type) -> bool:
    """True if two values of this type certainly have the same shape and element type."""
    return not lacks_sizes(type_) and all(isinstance(part, TensorType) for part in leaves(type_))


@guard
def keeps_type(x: Term, whole: Term) -> bool | str:
    """`whole`, an elementwise result on the tensor and constants, has the type of the tensor. Sizes may be unknown: a constant that
    enlarges the tensor sets a known size, so that the types differ."""
    return x.type == whole.type or f"the types differ: {x.type!r} and {whole.type!r}"


@guard
def same_dtype(x: Term, y: Term) -> bool | str:
    """Both tensors have the same element type."""
    return x.type.dtype == y.type.dtype or f"the element types differ: {x.type.dtype} and {y.type.dtype}"


@guard
def is_float(x: Term) -> bool | str:
    """The elements are floating-point numbers."""
    return x.type.dtype in FLOATS or f"the elements are {x.type.dtype}, not floating-point numbers"


@guard
def has_dtype(x: Term, dtype: str) -> bool | str:
    """The tensor has the element type."""
    return x.type.dtype == dtype or f"the elements are {x.type.dtype}, not {dtype}"


@guard
def has_rank(x: Term, rank: int) -> bool | str:
    """The tensor has the rank."""
    return x.type.ndim == rank or f"the rank of the tensor is {x.type.ndim}, not {rank}"


@guard
def is_identity(axes: Sequence[int] | None, x: Term | None = None) -> bool | str:
    """The permutation keeps every axis. None reverses the axes of `x`."""
    if axes is None:
        axes = tuple(reversed(range(x.type.ndim))) if x is not None else (1, 0)
    rank = len(axes)
    return all(a % rank == i for i, a in enumerate(axes)) or f"axes={tuple(axes)} moves an axis"


@computed
def compose(first: Sequence[int] | None, then: Sequence[int] | None, x: Term | None = None) -> tuple[int, ...]:
    """The composition of two permutations, `first` before `then`. None reverses the axes (of `x` if both are None).

    >>> compose((1, 2, 0), (1, 2, 0)).function((1, 2, 0), (1, 2, 0))
    (2, 0, 1)
    """
    given = first if first is not None else then
    if given is None and x is None:
        raise Reject("the rank is unknown: both permutations are None")
    rank = x.type.ndim if given is None and x is not None else len(given or ())
    a, b = (tuple(reversed(range(rank))) if axes is None else tuple(axis % rank for axis in axes) for axes in (first, then))
    return tuple(a[axis] for axis in b)


@computed
def shape_of(x: Term) -> tuple[int, ...]:
    """The shape of a tensor, which must be static."""
    type_ = x.type
    if not type_.is_static:
        raise Reject(f"{type_!r} is not static")
    return tuple(int(dim) for dim in type_.shape)  # type: ignore[arg-type]  # static: all are integers


@computed
@notation("{}.dtype", PART, PART)
def dtype_of(x: Term) -> str:
    """The element type of a tensor."""
    return x.type.dtype


@computed
def scalar_of(c: Term) -> float:
    """The value of a uniform constant."""
    element = c.value().uniform()
    if element is None:
        raise Reject("the elements of the constant differ")
    return float(element)


@guard
def same_shape(x: Term, y: Term) -> bool | str:
    """Both tensors certainly have the same shape."""
    return same_dims(x.type.shape, y.type.shape) or f"the shapes differ: {x.type!r} and {y.type!r}"


@guard
def same_rank(x: Term, y: Term) -> bool | str:
    """Both tensors have the same rank."""
    return x.type.ndim == y.type.ndim or f"the ranks differ: {x.type.ndim} and {y.type.ndim}"


@guard
def same_size(x: Term, y: Term, axis: int) -> bool | str:
    """Both tensors certainly have the same size along the axis."""
    if not all(-term.type.ndim <= axis < term.type.ndim for term in (x, y)):
        return f"{x.type!r} or {y.type!r} has no axis {axis}"
    a, b = x.type.shape[axis], y.type.shape[axis]
    return same_dim(a, b) or f"along axis {axis} the sizes are {a!r} and {b!r}"


@guard
def is_integer(x: Term) -> bool | str:
    """The elements are integers."""
    return x.type.dtype in INTEGERS or f"the elements are {x.type.dtype}, not integers"


@guard
def is_not_empty(x: Term) -> bool | str:
    """The tensor is certainly nonempty."""
    return all(at_least(dim, 1) for dim in x.type.shape) or f"{x.type!r} may be empty"


@guard
def is_not_negative(c: Term) -> bool | str:
    """All elements of the constant are finite and nonnegative."""
    found = _elements(c)
    return bool(np.all((found >= 0) & (found < np.inf))) or "an element of the constant is negative, infinite or NaN"


@guard
def is_positive(c: Term) -> bool | str:
    """All elements of the constant are finite and positive."""
    found = _elements(c)
    return bool(np.all((found > 0) & (found < np.inf))) or "an element of the constant is zero, negative, infinite or NaN"


@guard
def has_no_zero(c: Term) -> bool | str:
    """No element of the constant is zero."""
    return bool(np.all(c.value().numpy() != 0)) or "an element of the constant is 0"


def calls_with_constants(x: Term, *names: str) -> list[tuple[Term, ...]]:
    """The operands of the calls of some operators in the e-class of a term that have a constant operand."""
    return [parts for name in names for parts in x.calls(name) if any(part.constant is not None for part in parts)]


@guard
def is_finite(c: Term) -> bool | str:
    """All elements of the constant are finite."""
    return bool(np.all(np.isfinite(_elements(c)))) or "an element of the constant is infinite or NaN"


def _elements(c: Term) -> npt.NDArray[np.float64]:
    array = c.value().numpy()
    if array.dtype.kind == "c":
        raise Reject("the elements are complex numbers")
    return array.astype(np.float64)


@guard
def is_ungrouped(attrs: Attrs) -> bool | str:
    """The convolution has one group."""
    return attrs.groups == 1 or f"the convolution has {counted(attrs.groups, 'group')}"


@guard
def is_channels_first(attrs: Attrs) -> bool | str:
    """Channels are axis 1 of the data of a convolution or pooling, and the first axes of its weight."""
    data = attrs.get("data_layout", attrs.get("layout", ""))
    weight = attrs.get("kernel_layout", "OI")
    return (data.startswith("NC") and weight[:2] in ("OI", "IO")) or f"the layouts are {data} and {weight}"


@guard
def is_usual_convolution(attrs: Attrs) -> bool | str:
    """The convolution has one group, and its channels are axis 1."""
    usual = attrs.get("data_layout", "NC").startswith("NC") and attrs.get("kernel_layout", "OI")[:2] in ("OI", "IO")
    return (
        attrs.get("groups", 1) == 1 and usual
    ) or f"the convolution has {counted(attrs.get('groups', 1), 'group')}, and data laid out as {attrs.get('data_layout')}"


@guard
def is_unpadded(attrs: Attrs) -> bool | str:
    """The convolution or pooling does not pad."""
    return not np.any(np.asarray(attrs.padding)) or f"the padding is {attrs.padding}"


@guard
def has_unit_strides(attrs: Attrs) -> bool | str:
    """All strides are 1."""
    return bool(np.all(np.asarray(attrs.strides) == 1)) or f"the strides are {attrs.strides}"


@guard
def is_axis(axis: int | None, which: int, x: Term) -> bool | str:
    """The axis, possibly negative, equals the given one."""
    rank = x.type.ndim
    if not isinstance(axis, int) or not -rank <= which < rank:
        return f"{x.type!r} has no axis {which}"
    return axis % rank == which % rank or f"axis {axis} of {x.type!r} is not axis {which}"

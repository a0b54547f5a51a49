"""The kinds of dataflow patterns. Patterns are compared by identity: a pattern that occurs twice matches the same expression."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any as AnyValue

from passat.ir.expr import Constant, Expr
from passat.ir.op import get_op
from passat.ir.types import Type
from passat.ir.walks import parts_first

__all__ = [
    "AltPattern",
    "AttrPattern",
    "CallPattern",
    "ConstantPattern",
    "DFPattern",
    "DataTypePattern",
    "DominatorPattern",
    "ExprPattern",
    "FunctionPattern",
    "IfPattern",
    "LetPattern",
    "ShapePattern",
    "TupleGetItemPattern",
    "TuplePattern",
    "TypePattern",
    "VarPattern",
    "WildcardPattern",
    "dominates",
    "has_attr",
    "has_dtype",
    "has_shape",
    "has_type",
    "is_constant",
    "is_expr",
    "is_if",
    "is_let",
    "is_op",
    "is_tuple",
    "is_tuple_get_item",
    "is_var",
    "wildcard",
]


class DFPattern:
    """Base class of patterns. Calling a pattern with operand patterns builds a call pattern; `+ - * /` match Relay's operators, `|` builds
    an alternative."""

    def __init__(self, *parts: "DFPattern") -> None:
        self.parts = parts
        """The subpatterns, in the order in which partitioning lists their matches."""

    def __call__(self, *args: "DFPattern | None") -> "CallPattern":
        """A call of this pattern; `pattern(None)` matches any operands."""
        return CallPattern(self, None if args == (None,) else [arg for arg in args if arg is not None])

    def __or__(self, other: "DFPattern") -> "AltPattern":
        return AltPattern(self, other)

    def __add__(self, other: "DFPattern") -> "CallPattern":
        return is_op("add")(self, other)

    def __sub__(self, other: "DFPattern") -> "CallPattern":
        return is_op("subtract")(self, other)

    def __mul__(self, other: "DFPattern") -> "CallPattern":
        return is_op("multiply")(self, other)

    def __truediv__(self, other: "DFPattern") -> "CallPattern":
        return is_op("divide")(self, other)

    def has_attr(self, attrs: Mapping[str, AnyValue]) -> "AttrPattern":
        """Requires that the operator, call or function has these attributes."""
        return AttrPattern(self, attrs)

    def has_type(self, ttype: Type) -> "TypePattern":
        """Requires that the expression has this type."""
        return TypePattern(self, ttype)

    def has_dtype(self, dtype: str) -> "DataTypePattern":
        """Requires that the expression is a tensor of this element type."""
        return DataTypePattern(self, dtype)

    def has_shape(self, shape: Sequence[AnyValue]) -> "ShapePattern":
        """Requires that the expression is a tensor of this shape."""
        return ShapePattern(self, shape)

    def dominates(self, parent: "DFPattern", path: "DFPattern | None" = None) -> "DominatorPattern":
        """This pattern as the dominator of `parent`: all paths from `parent` lead to it, by calls that match `path` (by default any
        calls)."""
        return DominatorPattern(parent, wildcard() if path is None else path, self)

    def optional(self, option_constructor: "Callable[[DFPattern], DFPattern]") -> "AltPattern":
        """This pattern, or the pattern that the function builds from it."""
        return AltPattern(self, option_constructor(self))

    def match(self, expr: Expr) -> bool:
        """Whether the pattern matches the expression."""
        from passat.ir.dataflow.matcher import match  # avoids a circular import

        return match(self, expr)

    def partition(
        self, expr: Expr, attrs: Mapping[str, AnyValue] | None = None, check: Callable[[Expr], bool] = lambda match: True
    ) -> Expr:
        """Replaces each match by a call of a new function (`rewriting.partition`)."""
        from passat.ir.dataflow.rewriting import partition  # avoids a circular import

        return partition(self, expr, attrs, check)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.parts))})"


class ExprPattern(DFPattern):
    """Matches expressions that are structurally equal to the given one, usually an operator."""

    def __init__(self, expr: Expr) -> None:
        super().__init__()
        self.expr = expr

    def __repr__(self) -> str:
        return f"ExprPattern({self.expr!r})"


class VarPattern(DFPattern):
    """Matches a variable, optionally with a name."""

    def __init__(self, name_hint: str = "") -> None:
        super().__init__()
        self.name = name_hint

    def __repr__(self) -> str:
        return f"VarPattern({self.name!r})"


class ConstantPattern(DFPattern):
    """Matches a constant."""


class WildcardPattern(DFPattern):
    """Matches anything, or the pattern that it is redirected to."""

    def redirect_to(self, pat: DFPattern) -> None:
        """Redirects this wildcard to `pat`, which may contain the wildcard; matches chains of any length."""
        self.parts = (pat,)

    def __repr__(self) -> str:
        return "WildcardPattern()"


class CallPattern(DFPattern):
    """Matches a call. Operands of commutative operators match in both orders, and a product over a divisor in both groupings."""

    def __init__(self, op: DFPattern, args: Sequence[DFPattern] | None) -> None:
        super().__init__(op, *(args or ()))
        self.op = op
        self.args = None if args is None else tuple(args)


class FunctionPattern(DFPattern):
    """Matches a function; without `params`, with any number of parameters."""

    def __init__(self, params: Sequence[DFPattern] | None, body: DFPattern) -> None:
        super().__init__(*(params or ()), body)
        self.params = None if params is None else tuple(params)
        self.body = body


class TuplePattern(DFPattern):
    """Matches a tuple; without `fields`, with any number of fields."""

    def __init__(self, fields: Iterable[DFPattern] | None) -> None:
        super().__init__(*(fields or ()))
        self.fields = None if fields is None else tuple(fields)

    def __getitem__(self, index: int) -> DFPattern:
        return self.parts[index]

    def __len__(self) -> int:
        return len(self.parts)


class TupleGetItemPattern(DFPattern):
    """Matches a field of a tuple; without `index`, any field."""

    def __init__(self, tuple_value: DFPattern, index: int | None = None) -> None:
        super().__init__(tuple_value)
        self.tuple = tuple_value
        self.index = index


class IfPattern(DFPattern):
    """Matches an if."""

    def __init__(self, cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern) -> None:
        super().__init__(cond, true_branch, false_branch)
        self.cond = cond
        self.true_branch = true_branch
        self.false_branch = false_branch


class LetPattern(DFPattern):
    """Matches a let."""

    def __init__(self, var: DFPattern, value: DFPattern, body: DFPattern) -> None:
        super().__init__(var, value, body)
        self.var = var
        self.value = value
        self.body = body


class AltPattern(DFPattern):
    """Matches either of two patterns; tries the left one first."""

    def __init__(self, left: DFPattern, right: DFPattern) -> None:
        super().__init__(left, right)
        self.left = left
        self.right = right


class TypePattern(DFPattern):
    """Matches a pattern and a type."""

    def __init__(self, pattern: DFPattern, ttype: Type) -> None:
        super().__init__(pattern)
        self.pattern = pattern
        self.type = ttype


class DataTypePattern(DFPattern):
    """Matches a pattern and the element type of a tensor."""

    def __init__(self, pattern: DFPattern, dtype: str) -> None:
        super().__init__(pattern)
        self.pattern = pattern
        self.dtype = dtype


class ShapePattern(DFPattern):
    """Matches a pattern and the shape of a tensor."""

    def __init__(self, pattern: DFPattern, shape: Sequence[AnyValue]) -> None:
        super().__init__(pattern)
        self.pattern = pattern
        self.shape = tuple(shape)


class AttrPattern(DFPattern):
    """Matches a pattern and attributes: `TOpPattern` for operators, any attributes for calls and functions."""

    def __init__(self, pattern: DFPattern, attrs: Mapping[str, AnyValue]) -> None:
        super().__init__(pattern)
        self.pattern = pattern
        self.attrs = dict(attrs)


class DominatorPattern(DFPattern):
    """Matches a `child` that all paths from one `parent` lead to, by any number of expressions that match `path`."""

    def __init__(self, parent: DFPattern, path: DFPattern, child: DFPattern) -> None:
        super().__init__(parent, path, child)
        self.parent = parent
        self.path = path
        self.child = child


def is_var(name: str = "") -> VarPattern:
    """Matches a variable, optionally with a name."""
    return VarPattern(name)


def is_constant() -> ConstantPattern:
    """Matches a constant."""
    return ConstantPattern()


def is_expr(expr: Expr) -> ExprPattern:
    """Matches expressions that are structurally equal to this one."""
    return ExprPattern(expr)


def is_op(op_name: str) -> ExprPattern:
    """Matches an operator by its Relay name. Raises the error of `relay.op.get` for an unknown name.

    >>> is_op("add")(wildcard(), is_constant())
    CallPattern(ExprPattern(add), WildcardPattern(), ConstantPattern())
    """
    return ExprPattern(get_op(op_name))


def is_tuple(fields: Iterable[DFPattern] | None) -> TuplePattern:
    """Matches a tuple of these fields, or any tuple if `fields` is None."""
    return TuplePattern(fields)


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> TupleGetItemPattern:
    """Matches a field of a tuple, optionally with an index."""
    return TupleGetItemPattern(tuple_value, index)


def is_if(cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern) -> IfPattern:
    """Matches an if."""
    return IfPattern(cond, true_branch, false_branch)


def is_let(var: DFPattern, value: DFPattern, body: DFPattern) -> LetPattern:
    """Matches a let."""
    return LetPattern(var, value, body)


def wildcard() -> WildcardPattern:
    """Matches anything."""
    return WildcardPattern()


def has_type(ttype: Type, pattern: DFPattern | None = None) -> TypePattern:
    """Matches an expression of this type (and the pattern)."""
    return TypePattern(pattern or wildcard(), ttype)


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    """Matches a tensor of this element type (and the pattern)."""
    return DataTypePattern(pattern or wildcard(), dtype)


def has_shape(shape: Sequence[AnyValue], pattern: DFPattern | None = None) -> ShapePattern:
    """Matches a tensor of this shape (and the pattern)."""
    return ShapePattern(pattern or wildcard(), shape)


def has_attr(attrs: Mapping[str, AnyValue], pattern: DFPattern | None = None) -> AttrPattern:
    """Matches an expression with these attributes (and the pattern)."""
    return AttrPattern(pattern or wildcard(), attrs)


def dominates(parent: DFPattern, path: DFPattern, child: DFPattern) -> DominatorPattern:
    """Matches a child that all paths from one parent lead to, by expressions that match `path`."""
    return DominatorPattern(parent, path, child)


def pattern_order(root: DFPattern) -> list[DFPattern]:
    """A pattern and its subpatterns without duplicates, in post-order."""
    return list(parts_first([root], lambda pattern: pattern.parts))


def embeds(pattern: DFPattern, found: Mapping[DFPattern, object]) -> bool:
    """Whether the pattern describes a matched constant explicitly, rather than by a wildcard. `found` maps patterns to matched
    expressions."""
    while isinstance(pattern, AltPattern):
        pattern = pattern.left if pattern.left in found else pattern.right
    return isinstance(pattern, ConstantPattern) or (isinstance(pattern, ExprPattern) and isinstance(pattern.expr, Constant))

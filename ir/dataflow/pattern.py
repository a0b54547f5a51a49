"""What a dataflow pattern is made of. Patterns are compared by identity: one that occurs twice stands for one expression."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any as AnyValue

from passat.ir.expr import Constant, Expr
from passat.ir.op import get_op
from passat.ir.types import Type

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
    """A pattern. Called with patterns of operands it is the pattern of a call; `+ - * /` are those of Relay's operators, `|` is either."""

    def __init__(self, *parts: "DFPattern") -> None:
        self.parts = parts
        """The patterns that this one is made of, in the order in which partitioning lists what they match."""

    def __call__(self, *args: "DFPattern | None") -> "CallPattern":
        """A call of what this pattern matches; `pattern(None)` has any number of operands of any kind."""
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
        """The pattern, where the operator, call or function has these attributes."""
        return AttrPattern(self, attrs)

    def has_type(self, ttype: Type) -> "TypePattern":
        """The pattern, where the expression has this type."""
        return TypePattern(self, ttype)

    def has_dtype(self, dtype: str) -> "DataTypePattern":
        """The pattern, where the expression is a tensor of this element type."""
        return DataTypePattern(self, dtype)

    def has_shape(self, shape: Sequence[AnyValue]) -> "ShapePattern":
        """The pattern, where the expression is a tensor of this shape."""
        return ShapePattern(self, shape)

    def dominates(self, parent: "DFPattern", path: "DFPattern | None" = None) -> "DominatorPattern":
        """This pattern as the child that all paths from `parent` lead to, by calls that match `path` (any calls by default)."""
        return DominatorPattern(parent, wildcard() if path is None else path, self)

    def optional(self, option_constructor: "Callable[[DFPattern], DFPattern]") -> "AltPattern":
        """This pattern, or what the function makes of it."""
        return AltPattern(self, option_constructor(self))

    def match(self, expr: Expr) -> bool:
        """Whether the pattern stands at the expression."""
        from passat.ir.dataflow.matcher import match  # imports this module

        return match(self, expr)

    def partition(
        self, expr: Expr, attrs: Mapping[str, AnyValue] | None = None, check: Callable[[Expr], bool] = lambda match: True
    ) -> Expr:
        """The expression with a call of a new function in the place of each match (`rewriting.partition`)."""
        from passat.ir.dataflow.rewriting import partition  # imports this module

        return partition(self, expr, attrs, check)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.parts))})"


class ExprPattern(DFPattern):
    """An expression that is structurally equal to this one, an operator above all."""

    def __init__(self, expr: Expr) -> None:
        super().__init__()
        self.expr = expr

    def __repr__(self) -> str:
        return f"ExprPattern({self.expr!r})"


class VarPattern(DFPattern):
    """A variable; with a name only those of that name."""

    def __init__(self, name_hint: str = "") -> None:
        super().__init__()
        self.name = name_hint

    def __repr__(self) -> str:
        return f"VarPattern({self.name!r})"


class ConstantPattern(DFPattern):
    """A constant."""


class WildcardPattern(DFPattern):
    """Anything, or what it is redirected to."""

    def redirect_to(self, pat: DFPattern) -> None:
        """Makes this match what `pat` matches, which may contain this: for patterns of chains of any length."""
        self.parts = (pat,)

    def __repr__(self) -> str:
        return "WildcardPattern()"


class CallPattern(DFPattern):
    """A call. Operands of commutative operators match in both orders, and a product over a divisor in both groupings."""

    def __init__(self, op: DFPattern, args: Sequence[DFPattern] | None) -> None:
        super().__init__(op, *(args or ()))
        self.op = op
        self.args = None if args is None else tuple(args)


class FunctionPattern(DFPattern):
    """A function; without `params` one of any number of parameters."""

    def __init__(self, params: Sequence[DFPattern] | None, body: DFPattern) -> None:
        super().__init__(*(params or ()), body)
        self.params = None if params is None else tuple(params)
        self.body = body


class TuplePattern(DFPattern):
    """A tuple; without `fields` one of any number of fields."""

    def __init__(self, fields: Iterable[DFPattern] | None) -> None:
        super().__init__(*(fields or ()))
        self.fields = None if fields is None else tuple(fields)

    def __getitem__(self, index: int) -> DFPattern:
        return self.parts[index]

    def __len__(self) -> int:
        return len(self.parts)


class TupleGetItemPattern(DFPattern):
    """A field of a tuple; without `index` any field."""

    def __init__(self, tuple_value: DFPattern, index: int | None = None) -> None:
        super().__init__(tuple_value)
        self.tuple = tuple_value
        self.index = index


class IfPattern(DFPattern):
    """A choice between two branches."""

    def __init__(self, cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern) -> None:
        super().__init__(cond, true_branch, false_branch)
        self.cond = cond
        self.true_branch = true_branch
        self.false_branch = false_branch


class LetPattern(DFPattern):
    """A variable, its value, and what is computed with it."""

    def __init__(self, var: DFPattern, value: DFPattern, body: DFPattern) -> None:
        super().__init__(var, value, body)
        self.var = var
        self.value = value
        self.body = body


class AltPattern(DFPattern):
    """What one of two patterns matches, the left one being tried first."""

    def __init__(self, left: DFPattern, right: DFPattern) -> None:
        super().__init__(left, right)
        self.left = left
        self.right = right


class TypePattern(DFPattern):
    """What a pattern matches and has a type."""

    def __init__(self, pattern: DFPattern, ttype: Type) -> None:
        super().__init__(pattern)
        self.pattern = pattern
        self.type = ttype


class DataTypePattern(DFPattern):
    """What a pattern matches and is a tensor of an element type."""

    def __init__(self, pattern: DFPattern, dtype: str) -> None:
        super().__init__(pattern)
        self.pattern = pattern
        self.dtype = dtype


class ShapePattern(DFPattern):
    """What a pattern matches and is a tensor of a shape."""

    def __init__(self, pattern: DFPattern, shape: Sequence[AnyValue]) -> None:
        super().__init__(pattern)
        self.pattern = pattern
        self.shape = tuple(shape)


class AttrPattern(DFPattern):
    """What a pattern matches and has attributes: of an operator `TOpPattern`, of calls and functions any."""

    def __init__(self, pattern: DFPattern, attrs: Mapping[str, AnyValue]) -> None:
        super().__init__(pattern)
        self.pattern = pattern
        self.attrs = dict(attrs)


class DominatorPattern(DFPattern):
    """A `child` that all paths from one `parent` lead to, each by any number of expressions that match `path`."""

    def __init__(self, parent: DFPattern, path: DFPattern, child: DFPattern) -> None:
        super().__init__(parent, path, child)
        self.parent = parent
        self.path = path
        self.child = child


def is_var(name: str = "") -> VarPattern:
    """A variable, of that name if one is given."""
    return VarPattern(name)


def is_constant() -> ConstantPattern:
    """A constant."""
    return ConstantPattern()


def is_expr(expr: Expr) -> ExprPattern:
    """An expression that is structurally equal to this one."""
    return ExprPattern(expr)


def is_op(op_name: str) -> ExprPattern:
    """An operator, by its name in Relay. Raises what `relay.op.get` raises for a name that there is not.

    >>> is_op("add")(wildcard(), is_constant())
    CallPattern(ExprPattern(add), WildcardPattern(), ConstantPattern())
    """
    return ExprPattern(get_op(op_name))


def is_tuple(fields: Iterable[DFPattern] | None) -> TuplePattern:
    """A tuple of these fields, or of any where `fields` is None."""
    return TuplePattern(fields)


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> TupleGetItemPattern:
    """A field of a tuple, of that index if one is given."""
    return TupleGetItemPattern(tuple_value, index)


def is_if(cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern) -> IfPattern:
    """A choice."""
    return IfPattern(cond, true_branch, false_branch)


def is_let(var: DFPattern, value: DFPattern, body: DFPattern) -> LetPattern:
    """A binding."""
    return LetPattern(var, value, body)


def wildcard() -> WildcardPattern:
    """Anything."""
    return WildcardPattern()


def has_type(ttype: Type, pattern: DFPattern | None = None) -> TypePattern:
    """What has this type (and matches the pattern)."""
    return TypePattern(pattern or wildcard(), ttype)


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    """What is a tensor of this element type (and matches the pattern)."""
    return DataTypePattern(pattern or wildcard(), dtype)


def has_shape(shape: Sequence[AnyValue], pattern: DFPattern | None = None) -> ShapePattern:
    """What is a tensor of this shape (and matches the pattern)."""
    return ShapePattern(pattern or wildcard(), shape)


def has_attr(attrs: Mapping[str, AnyValue], pattern: DFPattern | None = None) -> AttrPattern:
    """What has these attributes (and matches the pattern)."""
    return AttrPattern(pattern or wildcard(), attrs)


def dominates(parent: DFPattern, path: DFPattern, child: DFPattern) -> DominatorPattern:
    """A child that all paths from one parent lead to, by expressions that match `path`."""
    return DominatorPattern(parent, path, child)


def pattern_order(root: DFPattern) -> list[DFPattern]:
    """A pattern and those inside it, each once, parts before wholes."""
    order: list[DFPattern] = []
    seen: set[DFPattern] = set()
    stack: list[tuple[DFPattern, bool]] = [(root, False)]
    while stack:
        pattern, entered = stack.pop()
        if entered:
            order.append(pattern)
        elif pattern not in seen:
            seen.add(pattern)
            stack.append((pattern, True))
            stack += [(part, False) for part in reversed(pattern.parts)]
    return order


def embeds(pattern: DFPattern, found: Mapping[DFPattern, object]) -> bool:
    """Whether a constant that the pattern matched is named by it, rather than let in as anything. `found` has the patterns that matched."""
    while isinstance(pattern, AltPattern):
        pattern = pattern.left if pattern.left in found else pattern.right
    return isinstance(pattern, ConstantPattern) or (isinstance(pattern, ExprPattern) and isinstance(pattern.expr, Constant))

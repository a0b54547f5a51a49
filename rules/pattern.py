"""Patterns: the terms of rules. Data only; nothing here matches or rewrites.

`tensors("x y")`, `constant("c")` and `attributes("p q")` make holes; arithmetic and `op.<operator>(...)` make terms over them;
`left >> right` makes a rule.
"""

from collections.abc import Callable, Mapping, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Self, TypeAlias
from typing import Any as AnyValue

import numpy as np

from passat.ir.custom_ops import declared_op
from passat.ir.long_words import short_repr
from passat.ir.onnx.opaque import PREFIX, OpaqueOp, escape, opaque_name
from passat.ir.onnx_mapping import READERS
from passat.ir.op import REQUIRED, Op, find_op, get_op, list_ops
from passat.ir.ops.emitting import shortest
from passat.ir.passat_error import PassatError
from passat.passmgr.options import convert
from passat.rules.symbolic import AttributeTerm, Symbolic, call_text

if TYPE_CHECKING:
    from passat.rules.rule import Rule


class RuleError(PassatError, ValueError):
    """An invalid rule: an unbound hole, an unknown operator or attribute, or sides of different types. Raised when the rule is made.

    `source` is the file and line of the rule, if it was made before the error was found. `rule` is its name, and `pass_name` the pass
    that has it, if a function of the rule raised in a pass."""

    exit_code = 1
    source = ""
    rule = ""
    pass_name = ""


class AttrHole(AttributeTerm):
    """A hole for the value of an attribute, or (as `attrs=a`) for all attributes of a call (`passat.ir.attrs.Attrs`)."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def is_open(self) -> bool:
        """True for `...`, which matches any attributes."""
        return self.name.startswith("...")

    def __repr__(self) -> str:
        return "..." if self.is_open else self.name


class Computed(AttributeTerm):
    """An attribute computed from a match by a named function (`passat.rules.guards.computed`)."""

    __slots__ = ("args", "function")

    def __init__(self, function: "AnyValue", args: Sequence[AnyValue]) -> None:
        self.function = function
        self.args = tuple(args)

    def __repr__(self) -> str:
        return call_text(self.function, self.args)


class CaseValue(AttributeTerm):
    """A value that depends on the case of a rule (`passat.rules.holes`), for an attribute or a guard."""

    __slots__ = ("hole", "values")

    def __init__(self, hole: Symbolic, values: Mapping[str, AnyValue]) -> None:
        self.hole = hole
        self.values = dict(values)

    def __repr__(self) -> str:
        return f"{self.hole!r}({', '.join(f'{name}={value!r}' for name, value in self.values.items())})"


_Operator: TypeAlias = 'Callable[["Pattern", "TermLike"], "PCall"]'


def _operator(name: str) -> tuple[_Operator, _Operator]:
    """An operator as a method of the left and of the right operand."""
    return (lambda self, other: PCall(get_op(name), (self, other))), (lambda self, other: PCall(get_op(name), (other, self)))


class Pattern(Symbolic):
    """The base class of terms. Terms with the same `key` are equal. `holes` caches the result of `_holes`."""

    __slots__ = ("holes", "key")
    key: tuple[AnyValue, ...]
    holes: tuple[frozenset[str], frozenset[str], frozenset[str], frozenset[str]] | None

    def __new__(cls, *_: AnyValue, **__: AnyValue) -> Self:
        """A pattern whose holes are not yet known."""
        made = super().__new__(cls)
        made.holes = None
        return made

    @property
    def shape(self) -> "Computed":
        """The sizes of the tensor, for guards and for attributes of right sides, which must be known: `x.shape[0]`."""
        from passat.rules.attribute_arithmetic import sizes  # needs this module

        return sizes(self)

    @property
    def ndim(self) -> "Computed":
        """The number of dimensions of the tensor, for guards and for attributes of right sides."""
        from passat.rules.attribute_arithmetic import rank  # needs this module

        return rank(self)

    @property
    def dtype(self) -> "Computed":
        """The element type of the tensor, for guards and for attributes of right sides."""
        from passat.rules.guards import dtype_of  # needs this module

        return dtype_of(self)

    __add__, __radd__ = _operator("add")
    __sub__, __rsub__ = _operator("subtract")
    __mul__, __rmul__ = _operator("multiply")
    __truediv__, __rtruediv__ = _operator("divide")
    __matmul__, __rmatmul__ = _operator("nn.matmul")
    __pow__, __rpow__ = _operator("power")

    def __neg__(self) -> "PCall":
        return PCall(get_op("negative"), (self,))

    def __abs__(self) -> "PCall":
        return PCall(get_op("abs"), (self,))

    def __getitem__(self, index: "int | PVar | CaseValue") -> "PGet":
        return PGet(self, index)

    def __eq__(self, other: object) -> bool:
        """Raises RuleError for another term, a rule, a number or a string. Inside Passat, terms are compared by identity, or by `key`."""
        from passat.rules.rule import Rule

        if other is self or not isinstance(other, (Symbolic, Rule, int, float, str)):
            return other is self
        if not isinstance(other, Rule):
            self.reject("comparison ==", self.comparison.replace("op.greater", "op.equal"))
        return other == self

    __hash__ = object.__hash__

    def __rshift__(self, right: "TermLike") -> "Rule":
        from passat.rules.rule import Rule

        return Rule(self, term(right))


class PVar(Pattern):
    """A hole for any expression."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name
        self.key = ("var", name)

    def __repr__(self) -> str:
        return self.name


class PConst(Pattern):
    """A hole for a constant."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name
        self.key = ("const", name)

    def __repr__(self) -> str:
        return self.name


class PLiteral(Pattern):
    """A number. On the left side it matches a constant whose elements all equal it; on the right it is a scalar constant of the left side's
    element type."""

    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        try:
            float(value)
        except OverflowError:
            raise RuleError(f"{short_repr(value)} cannot occur in a pattern: no element type can represent it") from None
        self.value = value
        self.key = ("literal", type(value).__name__, value)

    def __repr__(self) -> str:
        return repr(self.value)


class PNumber(Pattern):
    """On the right side: a scalar constant of the left side's element type, with a computed value."""

    __slots__ = ("value",)

    def __init__(self, value: Computed | AttrHole | CaseValue) -> None:
        self.value = value
        self.key = ("number", repr(value))

    def of_value(self, value: AnyValue) -> "PNumber":
        """The same kind of term with another value."""
        return type(self)(value)

    def __repr__(self) -> str:
        return repr(self.value)


class PValue(PNumber):
    """On the right side: a computed constant, or a tuple of constants, of the left side's type."""

    __slots__ = ()

    def __init__(self, value: Computed) -> None:
        super().__init__(value)
        self.key = ("value", repr(value))


class PExpression(PValue):
    """On the right side: calls of the named operators, computed from a match (`passat.rules.guards.Tree`)."""

    __slots__ = ("operators",)

    def __init__(self, value: Computed, operators: Sequence[Op]) -> None:
        super().__init__(value)
        self.operators = tuple(operators)
        self.key = ("expression", repr(value))

    def of_value(self, value: AnyValue) -> "PExpression":
        """The same kind of term with another value."""
        return PExpression(value, self.operators)


class PCall(Pattern):
    """An operator applied to terms. Attributes that are not named have the operator's defaults, on either side. `attrs=a` binds all of
    them; `...` after the operands of a left side matches any attributes."""

    __slots__ = ("args", "attrs", "op")

    def __init__(self, op: Op, args: Sequence["TermLike | EllipsisType"], attrs: Mapping[str, AnyValue] | None = None) -> None:
        self.op = op
        self.args = tuple([term(arg) for arg in args if not isinstance(arg, EllipsisType)])
        self.attrs = dict(attrs or {}) if not isinstance(op, OpaqueOp) else {escape(name): value for name, value in (attrs or {}).items()}
        if len(self.args) < len(args):  # `... in args` would compare terms
            if args[-1] is not ... or len(self.args) < len(args) - 1 or "attrs" in self.attrs:
                raise RuleError(f"{op.name}: `...` may occur once, after the operands; it stands for all attributes that are not named")
            self.attrs["attrs"] = AttrHole(f"...{op.name}{self.args!r}{self.attrs!r}")
        elif "attrs" not in self.attrs:
            given = self.attrs.keys()
            self.attrs |= {name: value for name, value in op.defaults.items() if name not in given and value is not REQUIRED}
        if not op.variadic and len(self.args) != op.arity:
            raise RuleError(f"{op.name} takes {op.operand_count} ({', '.join(op.operand_names)}), but the pattern gives {len(self.args)}")
        for name, value in self.attrs.items():
            if name == "attrs":
                if not isinstance(value, AttributeTerm):
                    raise RuleError(f"{op.name}(attrs=...) takes a hole or a computed mapping for all attributes, not {value!r}")
            elif isinstance(value, Pattern):
                of_constant = f", or scalar_of({value!r}) (passat.rules.guards) for its number" if isinstance(value, PConst) else ""
                raise RuleError(f"{op.name}({name}=...) is an attribute: write attribute({name!r}) for a hole{of_constant}, not {value!r}")
            elif isinstance(value, Symbolic) and not isinstance(value, AttributeTerm):
                raise RuleError(f"{op.name}({name}=...) is an attribute: write a value or attribute({name!r}); {value!r} is {value.kind}")
            elif name not in op.attr_params and not isinstance(op, OpaqueOp):
                raise RuleError(f"{op.name} has no attribute {name!r}; it has: {', '.join(op.attr_params) or 'none'}")
            elif isinstance(op, Op) and not has_symbol(value):
                try:
                    self.attrs[name] = as_declared(op, name, value)
                except TypeError as error:
                    raise RuleError(f"{op.name}({name}={value!r}): {error}") from None
        attrs_key = tuple(sorted([(name, repr(value)) for name, value in self.attrs.items()])) if self.attrs else ()
        self.key = ("call", op.name, tuple([arg.key for arg in self.args]), attrs_key)

    def __repr__(self) -> str:
        symbol = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "nn.matmul": "@"}.get(self.op.name)
        attrs = {name: value for name, value in self.attrs.items() if not self._is_default(name, value)}
        if symbol and not attrs and len(self.args) == 2:
            return f"({self.args[0]!r} {symbol} {self.args[1]!r})"
        whole = attrs.get("attrs")
        rest = [] if not isinstance(whole, AttrHole) or not whole.is_open else [attrs.pop("attrs")]
        parts = [*map(repr, (*self.args, *rest)), *(f"{name}={value!r}" for name, value in attrs.items())]
        return f"{self.op.name}({', '.join(parts)})"

    def _is_default(self, name: str, value: AnyValue) -> bool:
        default = self.op.defaults.get(name, REQUIRED)
        return type(value) is type(default) and bool(value == default)

    @property
    def unnamed(self) -> list[str]:
        """The attributes that have neither a default nor a value here."""
        if "attrs" in self.attrs:
            return []
        ops = [self.op] if isinstance(self.op, Op) else self.op.operators()  # an operator, or a hole for one
        missing = [name for name in ops[0].attr_params if name in self.op.attr_params and name not in self.attrs]
        return [name for name in missing if any(found.defaults[name] is REQUIRED for found in ops)]


def as_declared(op: Op, name: str, value: AnyValue) -> AnyValue:
    """The value of an attribute in the type that the operator declares; NumPy's numbers become Python's. Raises TypeError for others."""
    parameter = op.attr_params.get(name)
    if parameter is None or type(value) is parameter.annotation:
        return value
    if isinstance(value, (np.generic, np.ndarray)):
        value = shortest(value) if isinstance(value, np.float32) else value.tolist()  # type: ignore[arg-type]  # a number
    try:
        return convert(value, parameter.annotation)
    except OverflowError:
        raise TypeError("the number is too large") from None


def has_symbol(value: AnyValue) -> bool:
    """True for holes and what is computed from them, and for sequences with some."""
    return isinstance(value, Symbolic) or (isinstance(value, (tuple, list)) and any(map(has_symbol, value)))


class PCase(Pattern):
    """A term that depends on the case of a rule (`passat.rules.holes`)."""

    __slots__ = ("hole", "values")

    def __init__(self, hole: Symbolic, values: Mapping[str, "TermLike"]) -> None:
        self.hole = hole
        self.values = {name: term(value) for name, value in values.items()}
        self.key = ("case", repr(hole), tuple((name, value.key) for name, value in self.values.items()))

    def __repr__(self) -> str:
        return f"{self.hole!r}({', '.join(f'{name}={value!r}' for name, value in self.values.items())})"


class PTuple(Pattern):
    """A tuple of terms; a Python tuple or list in a pattern means the same."""

    __slots__ = ("fields",)

    def __init__(self, fields: Sequence["TermLike"]) -> None:
        self.fields = tuple(term(field) for field in fields)
        self.key = ("tuple", *(field.key for field in self.fields))

    def __repr__(self) -> str:
        return f"({', '.join(map(repr, self.fields))}{',' if len(self.fields) == 1 else ''})"


class PGet(Pattern):
    """A field of a tuple-valued term. With `behind`, a hole for operands (`tensors_of`), the field follows these operands; with `case`, the
    index depends on the case. `index` is -1 until it is known."""

    __slots__ = ("behind", "case", "index", "of")

    def __init__(self, of: Pattern, index: "int | PVar | CaseValue") -> None:
        if isinstance(index, bool) or not isinstance(index, (int, PVar, CaseValue)) or (isinstance(index, int) and index < 0):
            raise RuleError(f"{of!r}[{index!r}]: fields are counted from 0; parts of a tensor are op.strided_slice(...)")
        self.of = of
        self.index = index if isinstance(index, int) else -1
        self.behind = index if isinstance(index, PVar) else None
        self.case = index if isinstance(index, CaseValue) else None
        self.key = ("get", of.key, index if isinstance(index, int) else repr(index))

    def __repr__(self) -> str:
        return f"{self.of!r}[{self._place()}]"

    def _place(self) -> str:
        if self.behind is not None:
            return f"len({self.behind.name})"
        return repr(self.index if self.case is None else self.case)


TermLike: TypeAlias = Pattern | int | float | tuple["TermLike", ...] | list["TermLike"]


def term(value: TermLike) -> Pattern:
    """Converts a value to a pattern: a number to a literal, a tuple or list of terms to a tuple."""
    if isinstance(value, Pattern):
        return value
    if isinstance(value, (tuple, list)):
        return PTuple(value)
    if isinstance(value, (bool, int, float)):
        return PLiteral(value)
    if isinstance(value, AttributeTerm):
        raise RuleError(f"{value!r} is an attribute, not a tensor; on a right side, number({value!r}) makes a constant of it")
    if isinstance(value, Symbolic) and callable(value):
        raise RuleError(f"{value!r} is {value.kind}: write {value!r}(...)")
    raise RuleError(f"{value!r} cannot occur in a pattern; use tensors(), constant(), op.<operator>(...) or a number")


def tensors(names: str) -> tuple[PVar, ...]:
    """Holes for any expressions: `x, y = tensors("x y")`."""
    return tuple(PVar(name) for name in _names(names))


def tensor(name: str) -> PVar:
    """One hole for any expression."""
    return PVar(hole_name(name))


def constant(name: str) -> PConst:
    """A hole for a constant."""
    return PConst(hole_name(name))


def constants(names: str) -> tuple[PConst, ...]:
    """Holes for constants."""
    return tuple(PConst(name) for name in _names(names))


def number(value: Computed | AttrHole | CaseValue) -> PNumber:
    """A scalar constant for right sides, computed or from an attribute. Raises RuleError for anything else."""
    if not isinstance(value, AttributeTerm):
        raise RuleError(f"number(...) takes an attribute or the result of a @computed function, not {value!r}")
    return PNumber(value)


def value(computed: Computed) -> PValue:
    """A computed constant for right sides: a tensor or a tuple of tensors. Raises RuleError for anything else."""
    if not isinstance(computed, Computed):
        raise RuleError(f"value(...) takes the result of a @computed function, not {computed!r}")
    return PValue(computed)


def expression(computed: Computed, *operators: str) -> PExpression:
    """Calls for right sides that a `@computed` function makes, of any number of operands: a tree of the named operators, constants and
    terms (`passat.rules.guards.Tree`). Raises RuleError for anything else."""
    if not isinstance(computed, Computed):
        raise RuleError(f"expression(...) takes the result of a @computed function, not {computed!r}")
    return PExpression(computed, [find_operator(name) for name in operators])


def attributes(names: str) -> tuple[AttrHole, ...]:
    """Holes for attributes: `p, q = attributes("p q")`."""
    return tuple(AttrHole(name) for name in _names(names))


def attribute(name: str) -> AttrHole:
    """One hole for an attribute."""
    return AttrHole(hole_name(name))


def _names(names: str) -> list[str]:
    if not isinstance(names, str) or not names.split():
        raise RuleError(f"holes are named in one string, such as 'x y', not {names!r}")
    found = [hole_name(name) for name in names.split()]
    if len(set(found)) < len(found):
        raise RuleError(f"{names!r} names a hole twice: holes of the same name are one hole")
    return found


def hole_name(name: str) -> str:
    """The name of a hole. Raises RuleError for anything but a word."""
    if not isinstance(name, str) or not name.isidentifier():
        raise RuleError(f"the name of a hole is a word, such as 'x', not {name!r}")
    return name


class OpNames(Symbolic):
    """The namespace `op`: `op.transpose(x, axes=p)`, `op.nn.conv2d(x, w, attrs=a)`, `op.com.mycompany.FusedThing(x, alpha=2.0)`. Unknown
    operators raise immediately, except capitalized names of domains other than ONNX's own."""

    __slots__ = ("_prefix",)
    kind = "an operator that is not applied"
    comparison = "write op.NAME(...)"

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> "OpNames":
        if name.startswith("__"):
            raise AttributeError(name)
        return OpNames(f"{self._prefix}.{name}" if self._prefix else name)

    def __call__(self, *args: "TermLike | EllipsisType", **attrs: AnyValue) -> PCall:
        """The operator applied to terms. Raises RuleError for an unknown operator."""
        return PCall(find_operator(self._prefix), args, attrs)

    def __repr__(self) -> str:
        return f"op.{self._prefix}" if self._prefix else "op"


op = OpNames()


def find_operator(name: str) -> Op:
    """The operator that a pattern names: a declared one, or an undeclared one by domain and type. Raises RuleError."""
    found = declared_op(name) or find_op(name)
    domain, _, op_type = name.removeprefix(PREFIX).rpartition(".")
    if isinstance(found, OpaqueOp) or (found is None and op_type[:1].isupper() and domain.partition(".")[0] not in _namespaces()):
        if f"{domain}::{op_type}" in READERS:
            raise RuleError(f"nodes of {domain}.{op_type} are imported as calls of a declared operator: write its name")
        return get_op(opaque_name(domain, op_type))
    try:
        return found or get_op(name)
    except KeyError as error:
        raise RuleError(str(error.args[0])) from None


def _namespaces() -> set[str]:
    """The prefixes of Passat's own operators, including the empty one."""
    return {"", *(op.name.partition(".")[0] for op in list_ops() if "." in op.name and not isinstance(op, OpaqueOp))}


def is_undeclared(node: Pattern) -> bool:
    """True for an undeclared ONNX operator. A right side may only repeat it, or be the left side with other operands."""
    return isinstance(node, PCall) and isinstance(node.op, OpaqueOp)

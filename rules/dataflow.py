"""Converts callbacks of dataflow patterns to rules: a second way to write a rule, for users with existing Relay passes.

A rule can be checked and explained, and is matched in an e-graph; the rewriting of `passat.ir.dataflow` visits expressions instead. The
callback runs once, on placeholders: a hole stands for the match of a wildcard or a constant, an attribute hole for an attribute.
"""

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any as AnyValue
from typing import Final

from passat.ir.attrs import Attrs
from passat.ir.dataflow.pattern import (
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataTypePattern,
    DFPattern,
    ExprPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    WildcardPattern,
)
from passat.ir.dataflow.rewriting import DFPatternCallback
from passat.ir.expr import Call, Constant, Expr, NotInferredError, Tuple, TupleGetItem, Var
from passat.ir.op import Op
from passat.ir.traverse import post_order
from passat.ir.walks import reachable
from passat.rules.guards import Guard, Reject, Term, computed, guard, has_dtype
from passat.rules.pattern import AttrHole, Computed, Pattern, PCall, PConst, PGet, PLiteral, PTuple, PVar, RuleError
from passat.rules.rule import Rule
from passat.rules.subterms import attr_holes, pattern_parts

MOST_WAYS: Final = 64
"""Maximum number of combinations of alternatives in a pattern."""


@guard
def has_shape(x: Term, shape: tuple[int, ...]) -> bool | str:
    """The tensor has the shape."""
    return tuple(x.type.shape) == tuple(shape) or f"the shape is {x.type.shape}, not {shape}"


@computed
def item(c: Term) -> float | bool:
    """The element of a constant that has only one."""
    value = c.value()
    if value.size != 1:
        raise Reject("does not have exactly one element")
    element: float | bool = value.uniform().item()
    return element


class _Elements:
    """The `data` of a constant's placeholder: `data.numpy().item()` becomes a computed attribute of the rule."""

    def __init__(self, term: Pattern) -> None:
        self._term = term

    def numpy(self) -> "_Elements":
        """The elements, which `item` reads."""
        return self

    asnumpy = numpy

    def item(self) -> Computed:
        """The only element."""
        return item(self._term)


class _ConstantHole(Var):
    """The placeholder of a constant."""

    data: _Elements


def rules_of(callback: DFPatternCallback) -> tuple[Rule, ...]:
    """The rules equivalent to a callback: one for each combination of the pattern's alternatives.

    Raises RuleError for a pattern that no left side can express (variables, functions, If, Let, dominators). Also raises it for a callback
    that depends on more than the structure of a match, such as types or elements of a constant; such a rule needs a guard.

    >>> from passat.ir.dataflow.pattern import is_op, wildcard
    >>> class Twice(DFPatternCallback):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.x = wildcard()
    ...         self.pattern = is_op("abs")(self.x) | is_op("nn.relu")(self.x)
    ...         self.pattern = is_op("abs")(self.pattern)
    ...     def callback(self, pre, post, node_map):
    ...         return post.args[0]
    >>> rules_of(Twice())
    (abs(abs(x)) -> abs(x), abs(nn.relu(x)) -> nn.relu(x))
    """
    if not isinstance(callback.pattern, DFPattern):
        raise RuleError(f"{type(callback).__name__} has no pattern; set self.pattern in __init__")
    made = {rule.lhs.key: rule for rule in (_Way(callback, chosen).rule() for chosen in _ways(callback.pattern))}
    return tuple(made.values())


def _ways(pattern: DFPattern) -> Iterator[Mapping[DFPattern, DFPattern]]:
    """Every choice of a left or right side for the alternatives in the pattern."""
    pending: list[dict[DFPattern, DFPattern]] = [{}]
    count = 0
    while pending:
        chosen = pending.pop()
        open_ = next((part for part in _chosen_parts(pattern, chosen) if isinstance(part, AltPattern) and part not in chosen), None)
        if open_ is not None:
            pending += [{**chosen, open_: open_.right}, {**chosen, open_: open_.left}]
            continue
        count += 1
        if count > MOST_WAYS:
            raise RuleError(f"the pattern has more than {MOST_WAYS} combinations of alternatives; write rules with operator(...) instead")
        yield chosen


def _chosen_parts(pattern: DFPattern, chosen: Mapping[DFPattern, DFPattern]) -> Iterator[DFPattern]:
    """A pattern and its parts, without the alternatives that were not chosen."""
    return reachable([pattern], lambda part: [chosen[part]] if part in chosen else () if isinstance(part, AltPattern) else part.parts)


class _Way:
    """A callback with one choice of its pattern's alternatives."""

    def __init__(self, callback: DFPatternCallback, chosen: Mapping[DFPattern, DFPattern]) -> None:
        self._callback = callback
        self._chosen = chosen
        self._terms: dict[DFPattern, Pattern | Op] = {}
        self._exprs: dict[int, tuple[Pattern, Expr]] = {}
        """The placeholders of terms, by id of the term."""
        self._asked: list[tuple[Pattern, Callable[..., Guard], AnyValue]] = []
        self._numbers = itertools.count()
        self._names = {part: name for name, part in vars(callback).items() if isinstance(part, DFPattern)}
        self._begun: set[DFPattern] = set()

    def rule(self) -> Rule:
        """The rule. Raises RuleError if there is none."""
        assert self._callback.pattern is not None
        left = self._term(self._callback.pattern)
        if isinstance(left, Op):
            raise self._error("the pattern is an operator that is not applied")
        root = self._expr(left)
        matched = {pattern: [self._expr(term)] for pattern, term in self._terms.items()}
        try:
            made = self._callback.callback(root, root, matched)
        except RuleError as error:
            raise self._error(str(error)) from error
        except NotInferredError as error:
            told = "the callback reads types, which differ from match to match"
            raise self._error(f"{told}; write a rule with a guard instead, or use has_dtype and has_shape in the pattern") from error
        except Exception as error:  # any error of a user's function on placeholders
            told = f"{type(error).__name__}: {error}"
            cause = f"the callback depends on more than the structure of a match ({told})"
            raise self._error(f"{cause}; write a rule with a guard instead") from error
        right = self._right(made)
        code = type(self._callback).callback.__code__
        source = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
        used = attr_holes(right)
        guards = tuple([test(_without(term, used), value) for term, test, value in self._asked])
        return Rule(_without(left, used), right, guards, source=source)

    def _error(self, text: str) -> RuleError:
        return RuleError(f"{type(self._callback).__name__} cannot become a rule: {text}")

    # ---- the left side

    def _term(self, pattern: DFPattern) -> Pattern | Op:
        if pattern not in self._terms:
            if pattern in self._begun:
                raise self._error("the pattern contains itself; to match a chain, write a rule for one step, which is applied repeatedly")
            self._begun.add(pattern)
            self._terms[pattern] = self._made(pattern)
        return self._terms[pattern]

    def _made(self, pattern: DFPattern) -> Pattern | Op:
        if pattern in self._chosen:
            return self._term(self._chosen[pattern])
        if isinstance(pattern, WildcardPattern):
            return self._term(pattern.parts[0]) if pattern.parts else PVar(self._name(pattern, "x"))
        if isinstance(pattern, ConstantPattern):
            return PConst(self._name(pattern, "c"))
        if isinstance(pattern, ExprPattern):
            return pattern.expr if isinstance(pattern.expr, Op) else self._number(pattern.expr)
        if isinstance(pattern, CallPattern) and pattern.args is not None:
            return self._call(pattern, {})
        if isinstance(pattern, AttrPattern):
            return self._with_attrs(pattern)
        if isinstance(pattern, TuplePattern) and pattern.fields is not None:
            return PTuple([self._operand(field) for field in pattern.fields])
        if isinstance(pattern, TupleGetItemPattern) and pattern.index is not None:
            return PGet(self._operand(pattern.tuple), pattern.index)
        if isinstance(pattern, DataTypePattern):
            return self._guarded(pattern.pattern, has_dtype, pattern.dtype)
        if isinstance(pattern, ShapePattern):
            return self._guarded(pattern.pattern, has_shape, pattern.shape)
        kind = type(pattern).__name__
        open_ = isinstance(pattern, (CallPattern, TuplePattern, TupleGetItemPattern))
        raise self._error(f"{kind} {'of any parts' if open_ else ''}".rstrip() + " has no counterpart on the left side of a rule")

    def _name(self, pattern: DFPattern, kind: str) -> str:
        """The name of a hole: that of the callback's attribute, or a number."""
        return self._names.get(pattern) or f"{kind}{next(self._numbers)}"

    def _operand(self, pattern: DFPattern) -> Pattern:
        term = self._term(pattern)
        if isinstance(term, Op):
            raise self._error(f"the operator {term.name} is not applied")
        return term

    def _guarded(self, pattern: DFPattern, test: Callable[..., Guard], value: AnyValue) -> Pattern:
        term = self._operand(pattern)
        self._asked.append((term, test, value))
        return term

    def _with_attrs(self, pattern: AttrPattern) -> Pattern | Op:
        inner = self._chosen.get(pattern.pattern, pattern.pattern)
        if isinstance(inner, CallPattern) and inner.args is not None:
            term = self._call(inner, pattern.attrs)
            self._terms[inner] = term
            return term
        of = self._term(inner)
        if not isinstance(of, Op):
            raise self._error(f"attributes of {of!r}, which is not a call")
        if any(not of.has_attr(name) or of.get_attr(name) != value for name, value in pattern.attrs.items()):
            raise self._error(f"{of.name} does not have the attributes {pattern.attrs}")
        return of

    def _call(self, pattern: CallPattern, given: Mapping[str, AnyValue]) -> Pattern:
        of = self._term(pattern.op)
        if not isinstance(of, Op):
            raise self._error("a call of something other than an operator")
        number = next(self._numbers) if of.attr_params.keys() - given.keys() else 0
        holes = {name: AttrHole(f"{name}_{number}") for name in of.attr_params if name not in given}
        return PCall(of, [self._operand(arg) for arg in pattern.args or ()], {**given, **holes})

    # ---- the arguments and the result of the callback

    def _expr(self, term: Pattern | Op) -> Expr:
        if isinstance(term, Op):
            return term
        if id(term) not in self._exprs:
            parts = [self._expr(part) for part in pattern_parts(term)]
            made: Expr
            if isinstance(term, PCall):
                made = Call(term.op, parts, Attrs(term.attrs))
            elif isinstance(term, PTuple):
                made = Tuple(parts)
            elif isinstance(term, PGet):
                made = TupleGetItem(parts[0], term.index)
            elif isinstance(term, PConst):
                made = _ConstantHole(term.name)
                made.data = _Elements(term)
            else:
                made = Var(repr(term))
            self._exprs[id(term)] = term, made
        return self._exprs[id(term)][1]

    def _right(self, root: object) -> Pattern:
        if not isinstance(root, Expr):
            raise self._error(f"the callback returns {root!r}, not an expression")
        known = {id(expr): term for term, expr in self._exprs.values()}
        terms: dict[int, Pattern] = {}
        for node in post_order(root, into=lambda node: id(node) not in known):
            if isinstance(node, Op):
                continue
            terms[id(node)] = known[id(node)] if id(node) in known else self._new(node, terms)
        return terms[id(root)]

    def _new(self, node: Expr, terms: Mapping[int, Pattern]) -> Pattern:
        if isinstance(node, Call) and isinstance(node.op, Op):
            return PCall(node.op, [terms[id(arg)] for arg in node.args], dict(node.attrs))
        if isinstance(node, Tuple):
            return PTuple([terms[id(field)] for field in node.fields])
        if isinstance(node, TupleGetItem):
            return PGet(terms[id(node.tuple_value)], node.index)
        return self._number(node)

    def _number(self, node: Expr) -> Pattern:
        if isinstance(node, Constant) and (element := node.data.uniform()) is not None and not node.data.shape:
            return PLiteral(element.item())
        what = f"a constant of shape {node.data.shape}" if isinstance(node, Constant) else type(node).__name__
        raise self._error(f"{what} cannot occur in a rule; write it with numbers and operators")


def _without(term: Pattern, used: frozenset[str]) -> Pattern:
    """A left side with `...` for attributes that nothing uses."""
    parts = [_without(part, used) for part in pattern_parts(term)]
    if isinstance(term, PCall):
        kept = {name: value for name, value in term.attrs.items() if not isinstance(value, AttrHole) or value.name in used}
        return PCall(term.op, parts if len(kept) == len(term.attrs) else [*parts, ...], kept)
    if isinstance(term, PTuple):
        return PTuple(parts)
    return PGet(parts[0], term.index) if isinstance(term, PGet) else term

"""Instances of rules: matches the left side against a term, checks the guards, and builds the right side.

The left side is matched syntactically; the closure decides equality. Guards and computed values have the meaning of the rule language
(`passat.rules.substitution`).
"""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any as AnyValue

from passat.ir.evaluate import Value
from passat.ir.expr import Call, Constant, Expr
from passat.ir.folding import folded_value
from passat.ir.infer import known_value
from passat.ir.op import get_op
from passat.ir.tensor import Tensor
from passat.rules.analysis import Analysis, ENode, Fact, Facts
from passat.rules.expansion import fitted
from passat.rules.guards import Term
from passat.rules.pattern import Pattern, PCall, PConst, PGet, PLiteral, PTuple, PVar
from passat.rules.provenance.plain import CertificateError
from passat.rules.provenance.terms import CALL, CONST, FIELD, TUPLE, operands_of
from passat.rules.rule import EAGER, Rule
from passat.rules.substitution import CallTerm, Environment, Substitution, bind_attrs, bound_keys
from passat.rules.subterms import pattern_parts

if TYPE_CHECKING:
    from passat.rules.provenance.checker import Checker

ANY_GROWTH = 1 << 62
"""Correctness does not depend on how much folding enlarges a program."""


class _Placed(Term):
    """The term bound to a part of a left side, or named by a fact: a class, as an equal expression."""

    __slots__ = ("_checker", "_cls")

    def __init__(self, checker: "Checker", cls: int, expr: Expr) -> None:
        super().__init__(expr.checked_type, expr.data if isinstance(expr, Constant) else None, known_value(expr))
        self._checker = checker
        self._cls = cls

    def fact(self, analysis: Analysis[Fact]) -> Fact | None:
        """The fact that an analysis has for the tensor."""
        return self._checker.fact(analysis, self._cls)

    @property
    def cls(self) -> int:
        """The class."""
        return self._checker.find(self._cls)

    def of_class(self, cls: int) -> Term:
        """The term of another class."""
        return _Placed(self._checker, cls, self._checker.closure.best(cls))

    def calls(self, name: str) -> list[tuple[Term, ...]]:
        """The operands of the calls of an operator in the class."""
        nodes = self._checker.e_nodes(self.cls)
        return [tuple(map(self.of_class, node.operands)) for node in nodes if node.op is not None and node.op.name == name]


class _Alone(_Placed):
    """The term itself, without what is known of equal terms: rules may require that terms differ, and a fact of an earlier term may say
    less."""

    __slots__ = ("_term",)

    def __init__(self, checker: "Checker", term: int, expr: Expr) -> None:
        super().__init__(checker, checker.cls(term), expr)
        self._term = term

    @property
    def cls(self) -> int:
        """A number of the term that is no class."""
        return -1 - self._term

    def fact(self, analysis: Analysis[Fact]) -> Fact | None:
        """The fact that follows from the operands of a call."""
        row, own = self._checker.rows[self._term], self._checker.own(self._term)
        if row[0] != CALL or not isinstance(own, Call):
            return super().fact(analysis)
        node = ENode(get_op(row[1]), own.attrs, -1, [self._checker.cls(part) for part in operands_of(row)])
        found: Fact | None = Facts(analysis, self._checker).of_node(node, own.checked_type)
        return found

    def calls(self, name: str) -> list[tuple[Term, ...]]:
        """No calls."""
        return []


class Instance(Substitution):
    """A rule at a term. Guards use the facts proved about all terms equal to a part or, if `plain`, only those of the term itself. Both are
    sound, and rules may require that something is unknown. Raises CertificateError if the left side does not match."""

    def __init__(self, checker: "Checker", rule: Rule, term: int, opset: int, *, plain: bool) -> None:
        super().__init__()
        checker.cls(term)
        self.rule = self._chosen(checker.rows, rule, term) if rule.kind == EAGER else rule
        self.checker = checker
        self.root = term
        self.opset = opset
        self.plain = plain
        self.places: dict[tuple[AnyValue, ...], int] = {}
        self._match(self.rule.lhs, term)

    @staticmethod
    def _chosen(rows: Sequence[AnyValue], rule: Rule, term: int) -> Rule:
        """An eager rule with its holes for operators and operands filled to fit a term."""
        row, found = rows[term], None
        if row[0] == CALL:
            found = fitted(rule, get_op(row[1]), len(row[3]))
        elif row[0] == FIELD:
            whole = rows[row[2][0]]
            found = fitted(rule, None, 1, row[1], len(whole[1]) if whole[0] == TUPLE else None)
        if found is None:
            raise CertificateError(f"the left side does not match: this is not {rule.lhs!r}")
        return found

    # ---- the left side

    def _match(self, node: Pattern, term: int) -> None:
        checker, row = self.checker, self.checker.rows[term]
        if checker.cls(self.places.setdefault(node.key, term)) != checker.cls(term):
            raise CertificateError(f"the left side does not match: {node!r} is bound to two different terms")
        parts, given = pattern_parts(node), operands_of(row)
        if isinstance(node, PVar):
            return
        if isinstance(node, (PConst, PLiteral)):
            value = self._constant(term)
            if value is None:
                raise CertificateError(f"the left side does not match: {node!r} is not a constant")
            element = value.uniform() if isinstance(value, Tensor) else None
            if isinstance(node, PLiteral) and (element is None or element != node.value):
                raise CertificateError(f"the left side does not match: the constant is {element}, not {node!r}")
            return
        if isinstance(node, PCall):
            own = checker.own(term)
            fits = isinstance(own, Call) and own.op is node.op and bind_attrs(node, own.attrs, self.attrs)
        else:
            fits = row[0] == TUPLE if isinstance(node, PTuple) else isinstance(node, PGet) and row[:2] == [FIELD, node.index]
        if not fits or len(parts) != len(given):
            raise CertificateError(f"the left side does not match: this is not {node!r}")
        for part, operand in zip(parts, given, strict=True):
            self._match(part, operand)

    def _constant(self, term: int) -> Value | None:
        """The value of a term that is a constant, or a tuple of constants."""
        row = self.checker.rows[term]
        if row[0] == CONST:
            own = self.checker.own(term)
            return own.data if isinstance(own, Constant) else None
        fields = [self._constant(part) for part in operands_of(row)] if row[0] == TUPLE else [None]
        return None if None in fields else tuple([field for field in fields if field is not None])

    # ---- values

    def _expr(self, term: int) -> Expr:
        return self.checker.own(term) if self.plain else self.checker.best(term)

    def bound(self, pattern: Pattern) -> Term | None:
        """The term bound to a part of the left side; None for any other pattern."""
        term = self.places.get(pattern.key)
        if term is None:
            return None
        expr = self._expr(term)
        type_, known = expr.checked_type, known_value(expr)
        call = self.checker.own(term)
        if self.rule.kind == EAGER and term == self.root and isinstance(call, Call):
            op, attrs = get_op(self.checker.rows[term][1]), call.attrs
            values = [self._constant(part) for part in operands_of(self.checker.rows[term])]
            whole = [value for value in values if value is not None]
            environment = Environment(ANY_GROWTH, self.opset)
            facts = functools.partial(self.checker.fact, cls=self.checker.cls(term))
            return CallTerm(op, values, attrs, type_, known, environment, lambda: folded_value(op, whole, attrs, type_, self.opset), facts)
        return _Alone(self.checker, term, expr) if self.plain else _Placed(self.checker, self.checker.cls(term), expr)

    def place(self, pattern: Pattern) -> int:
        """The class bound to a hole."""
        return self.checker.cls(self.places[pattern.key])

    def check_guards(self) -> None:
        """Raises CertificateError if a guard does not hold."""
        for guard in self.rule.guards:
            if reason := guard.rejection(self.ask(guard), self.rule.name):
                raise CertificateError(f"the guard {guard!r} rejects: {reason}")

    def right(self) -> int:
        """The class of the right side."""
        made = {key: self.checker.cls(self.places[key]) for key in bound_keys(self.rule)}
        return self.build(self.checker, self.rule.rhs, made, self._expr(self.root).checked_type)

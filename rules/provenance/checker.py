"""The certificate checker: proves each step independently, and concludes that the last program equals the first.

A step claims that some terms are instances of a rule's left side, and names the terms of the right side. The checker verifies this: it
matches the left side against the term, evaluates guards, builds the right side, and computes folded values. All equations go into one
congruence closure, in which both programs must finally be equal.

The trusted base, besides this file: instances of rules (`instance.py`), laws of If, Loop and Scan and types of their parameters
(`regions.py`), the format of certificates (`terms.py`) and the decoding of constants, attributes and types (`plain.py`); the rules and
the meaning of their guards and computed values (`passat.rules.substitution`, `expansion`, `analysis`); types, kernels and traits of
operators, and shape arithmetic (`passat.ir`), with ONNX Runtime for values that kernels do not compute bit for bit. Neither the engine nor
egglog is trusted.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from math import inf
from typing import Any as AnyValue

import numpy as np

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.evaluate import EvaluateError, Value
from passat.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem, Var
from passat.ir.infer import InferError, infer_type, known_value
from passat.ir.op import Op, OpTypeError
from passat.ir.shape import ANY
from passat.ir.tensor import Tensor
from passat.ir.traverse import children, with_children
from passat.ir.types import IncompleteType, Type, compatible, refine
from passat.rules.analysis import OPAQUE, Analysis, ENode, Fact, Facts
from passat.rules.guards import Reject
from passat.rules.multi_pattern import MultiRule
from passat.rules.pattern import PExpression, PValue, RuleError
from passat.rules.provenance.instance import Instance
from passat.rules.provenance.plain import CertificateError, Uncovered, attrs_of, constant_key, digest_key, plain_tensor
from passat.rules.provenance.regions import Regions, passes
from passat.rules.provenance.terms import CALL, CONST, FIELD, FUNCTION, GLOBAL, TUPLE, check_form, draws, label_and_maker, operands_of
from passat.rules.provenance.verdict import Gap, Verdict
from passat.rules.rule import Rule
from passat.rules.substitution import agree, build_together

Node = tuple[Hashable, tuple[int, ...]]
"""The label of a term, and the classes of its operands."""


class Closure:
    """A congruence closure over numbered classes. `commutes` marks labels whose two operands commute."""

    def __init__(self, commutes: Callable[[Hashable], bool]) -> None:
        self._commutes = commutes
        self._up: list[int] = []
        self._best: list[Expr] = []
        self._users: list[list[Node]] = []
        self._members: list[list[Node]] = []
        self._nodes: dict[Node, tuple[int, Expr]] = {}
        self._sizes: dict[Hashable, int] = {}

    def find(self, cls: int) -> int:
        """The canonical class of a class."""
        while self._up[cls] != cls:
            self._up[cls] = self._up[self._up[cls]]
            cls = self._up[cls]
        return cls

    def best(self, cls: int) -> Expr:
        """The expression that represents a class."""
        return self._best[self.find(cls)]

    def members(self, cls: int) -> Sequence[Node]:
        """The nodes of a class, oldest first."""
        return self._members[self.find(cls)]

    def _key(self, label: Hashable, operands: Sequence[int]) -> Node:
        classes = tuple(map(self.find, operands))
        return label, tuple(sorted(classes)) if len(classes) == 2 and self._commutes(label) else classes

    def has(self, label: Hashable, operands: Sequence[int]) -> bool:
        """Whether a node is known."""
        return self._key(label, operands) in self._nodes

    def add(self, label: Hashable, operands: Sequence[int], make: Callable[[Sequence[Expr]], Expr]) -> tuple[int, Expr]:
        """The class of a node, and the node as an expression, created by `make` if it is new. Raises InferError for an ill-typed node."""
        node = self._key(label, operands)
        if node not in self._nodes:
            expr, cls = infer_type(make(list(map(self.best, operands)))), len(self._up)
            self._up.append(cls)
            self._best.append(expr)
            self._users.append([])
            self._members.append([node])
            self._nodes[node] = cls, expr
            for each in dict.fromkeys(node[1]):
                self._users[each].append(node)
            sizes = known_value(expr)
            if isinstance(sizes, np.ndarray) and ANY not in (elements := sizes.reshape(-1).tolist()):
                self.unite(cls, self._sizes.setdefault((expr.checked_type, *elements), cls))
        cls, expr = self._nodes[node]
        return self.find(cls), expr

    def unite(self, a: int, b: int) -> None:
        """Unites two classes, and the classes that become congruent."""
        pending = [(a, b)]
        while pending:
            first, second = sorted(map(self.find, pending.pop()))
            if first == second:
                continue
            self._up[second] = first
            old, new = self._best[first], self._best[second]
            best = self._best[first] = _better(new, old)
            learned = [node for each, expr in ((first, old), (second, new)) if best is not expr for node in self._users[each]]
            self._members[first] += self._members[second]
            moved, self._users[second] = self._users[second], []
            for node in moved:
                again, known = self._key(*node), self._nodes[node]
                pending.append((self._nodes.setdefault(again, known)[0], known[0]))
                self._users[first].append(again)
            self._sharpen(learned)

    def _sharpen(self, users: list[Node]) -> None:
        """Infers types again for nodes whose operands have a more precise type now, and for the users of these nodes."""
        while users:
            cls, expr = self._nodes[users[-1]]
            cls, made = self.find(cls), _remade(expr, list(map(self.best, users.pop()[1])))
            old = self._best[cls]
            if made is not None and (best := _better(made, old)) is not old:
                self._best[cls] = best
                users += self._users[cls]


def _remade(expr: Expr, operands: Sequence[Expr]) -> Expr | None:
    """An expression with equal operands in place of its own; None for functions, and if the types of the operands contradict each other."""
    if not isinstance(expr, (Call, Tuple, TupleGetItem)):
        return None
    parts = [expr.op, *operands] if isinstance(expr, Call) else operands
    try:
        return infer_type(with_children(expr, parts)) if len(parts) == len(children(expr)) else None
    except InferError:
        return None


def _better(new: Expr, old: Expr) -> Expr:
    """The one of two equal expressions with the more precise type or more known elements; the old one if they are equally precise. If each
    type has sizes that the other lacks, a copy of the new one with all of them."""
    if isinstance(old, Constant) or isinstance(new, Constant):
        return old if isinstance(old, Constant) else new
    a, b = old.checked_type, new.checked_type
    if a == b:
        return new if _unknown_elements(new) < _unknown_elements(old) else old
    if not compatible(a, b):
        return old
    both = refine(a, b)
    return old if both == a else new if both == b else copy(new).assume_type(both)


def _unknown_elements(expr: Expr) -> float:
    """The number of unknown elements of a small integer tensor; infinity for any other value."""
    known = known_value(expr)
    return known.reshape(-1).tolist().count(ANY) if isinstance(known, np.ndarray) else inf


class Checker:
    """Checks one certificate. `rules` are the available rules by name, one per direction; `constants` are contents by digest; `trust` names
    passes whose uncovered steps are accepted."""

    def __init__(self, data: AnyValue, rules: Mapping[str, Rule], constants: Mapping[str, Tensor], trust: Collection[str] = ()) -> None:
        check_form(data)
        self.data = data
        self.rows = list(data["terms"])
        self._check_draws()
        first = [pair[0] for pair in data["functions"].values()]
        self.regions = Regions(self.rows, first, lambda term: self.constant(self.cls(term)))
        self.closure = Closure(lambda label: isinstance(label, tuple) and label[0] == CALL and label[1].commutative)
        self.verdict = Verdict()
        self._rules = rules
        self._constants = dict(constants)
        self._trust = frozenset(trust)
        self._classes: dict[int, tuple[int, Expr]] = {}
        for name, text in data["rules"].items():
            if name not in rules:
                raise CertificateError(
                    f"unknown rule {name}; if it is your own, give its rule file to the checker, too (--rules FILE.py, or rules=)"
                )
            if rules[name].claim != text:
                raise CertificateError(f"the rule {name} differs: here it is {rules[name].claim}; the certificate has {text}")

    def _check_draws(self) -> None:
        """Raises CertificateError for a function that draws random numbers and is called."""
        drawing = set[int]()
        for number, row in enumerate(self.rows):
            try:
                if draws(row, self.rows, drawing):
                    drawing.add(number)
            except Uncovered as reason:
                raise CertificateError(f"terms, number {number}: it has {reason}") from None

    def run(self) -> Verdict:
        """Checks all steps. Raises CertificateError that names the first invalid step; gaps are in the verdict."""
        parts, verdict = self.data["steps"], self.verdict
        for number, part in enumerate(parts, 1):
            where = f"{part['pass']}, part {number}"
            if "uncovered" in part:
                gap = Gap(part["pass"], part["function"], part["uncovered"])
                (verdict.trusted if gap.pass_name in self._trust else verdict.uncovered).append(gap)
                self._prove(where, self._assume, part["before"], part["after"])
                continue
            for place, step in enumerate(part["steps"], 1):
                self._prove(f"{where}, step {place} ({step['rule']})", self._apply, step, part["opset"])
            if not self._prove(f"{where}, the end", self._equal, part["before"], part["after"]):
                raise CertificateError(f"{where}, the end: the extracted program does not follow from the input")
        for name, (before, after) in self.data["functions"].items():
            if self._prove("the end", self._equal, before, after):
                verdict.functions.append(name)
            elif not any(part["function"] == name and None in (part["before"], part["after"]) for part in parts):
                raise CertificateError(f"the end: the last program of the function {name} does not follow from the first one")
        return verdict

    @staticmethod
    def _prove(where: str, claim: AnyValue, *arguments: AnyValue) -> AnyValue:
        try:
            return claim(*arguments)
        except (Reject, InferError, OpTypeError, EvaluateError, RuleError, CertificateError) as error:
            raise CertificateError(f"{where}: {error}") from None
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
            raise CertificateError(f"{where}: it cannot be replayed: {type(error).__name__}: {error}") from None

    def _equal(self, before: int | None, after: int | None) -> bool:
        if before is None or after is None or before == after:
            return before is not None and before == after
        if self.cls(before) != self.cls(after):
            undecided, self.regions.undecided = self.regions.undecided, []
            self._follow_laws(*undecided)
        return self.cls(before) == self.cls(after)

    def _assume(self, before: int | None, after: int | None) -> None:
        """Assumes that two functions of the same parameters are equal."""
        if before is None or after is None:
            return
        old, new = self.rows[before], self.rows[after]
        if old[0] == new[0] == FUNCTION and old[:3] == new[:3] and old[3][:-1] == new[3][:-1]:
            self.closure.unite(self.cls(old[3][-1]), self.cls(new[3][-1]))

    # ---- steps

    def _apply(self, step: Mapping[str, AnyValue], opset: int) -> None:
        """Proves the equations of a step, and adds them. Uses all facts proved about the terms; if that fails, only the facts that the
        terms have by themselves."""
        if step["rule"] not in self.data["rules"]:
            raise CertificateError("the certificate does not name the rule")
        try:
            made = self._made(step, opset, plain=False)
        except (Reject, InferError, OpTypeError, CertificateError):
            made = self._made(step, opset, plain=True)
        for left, right in zip(step["left"], made, strict=True):
            self.closure.unite(self.cls(left), right)
        right_side = self._rules[step["rule"]].rhs
        if isinstance(right_side, PValue) and not isinstance(right_side, PExpression):
            self.verdict.folds += 1
        else:
            self.verdict.unions += len(made)

    def _made(self, step: Mapping[str, AnyValue], opset: int, *, plain: bool) -> list[int]:
        rule = self._rules[step["rule"]]
        group = [Instance(self, rule, term, opset, plain=plain) for term in step["left"]]
        for each in group:
            each.check_guards()
        if isinstance(rule, MultiRule):
            for each in group[1:]:
                if each.attrs != group[0].attrs or any(each.place(hole) != group[0].place(hole) for hole in rule.left.shared):
                    raise CertificateError("the terms do not share the holes that the rule shares")
            made = build_together(rule, group, [self.best(each.root).checked_type for each in group], self)
        elif len(group) == 1:
            made = [group[0].right()]
        else:
            raise CertificateError(f"the rule has one root, the step has {len(group)}")
        for each, right, said in zip(group, made, step["right"], strict=True):
            left_type, right_type = self.best(each.root).checked_type, self.closure.best(right).checked_type
            if not agree(each.rule, left_type, right_type):
                raise CertificateError(f"the right side has type {right_type!r}, the left side {left_type!r}")
            if self.closure.find(right) != self.cls(said):
                raise CertificateError("the right side differs from the step")
        return made

    # ---- terms

    def cls(self, term: int) -> int:
        """The class of a term."""
        return self.closure.find(self._load(term)[0])

    def own(self, term: int) -> Expr:
        """The term itself as an expression."""
        return self._load(term)[1]

    def best(self, term: int) -> Expr:
        """The expression with the most known elements among those equal to a term."""
        return self.closure.best(self._load(term)[0])

    def _load(self, term: int) -> tuple[int, Expr]:
        loaded, stack = self._classes, [] if term in self._classes else [term]
        while stack:
            top = stack[-1]
            missing = [part for part in self._needs(top) if part not in loaded]
            stack += reversed(missing)
            if not missing:
                stack.pop()
                if top not in loaded:
                    loaded[top] = self._add(top)
                    if isinstance(loaded[top][1], Call):
                        self._follow_laws(top)
        return loaded[term]

    def _follow_laws(self, *terms: int) -> None:
        """Unites terms that are equal by the laws of regions, except those of another type, or without one."""
        for one, other, anyway in (pair for term in terms for pair in self.regions.equal(term)):
            with suppress(InferError, OpTypeError, CertificateError):
                right = self.best(other).checked_type
                if compatible(self.best(one).checked_type, right) if anyway else self.own(one).checked_type == right:
                    self.closure.unite(self.cls(one), self.cls(other))

    def _needs(self, term: int) -> Sequence[int]:
        """The operands of a term; for a function name, its first program if that comes earlier, since it has the type."""
        row = self.rows[term]
        if row[0] != GLOBAL:
            return operands_of(row)
        first = self.data["functions"].get(row[1], [None])[0]
        return [first] if first is not None and first < term else []

    def _add(self, term: int) -> tuple[int, Expr]:
        """The class of a term, and the term as an expression: an unknown value if a call passes values that its bodies do not take."""
        row, parts = self.rows[term], self._needs(term)
        first = [self._classes[part][1] for part in parts]
        label, make = label_and_maker(row, first, self._constants)
        classes = [] if row[0] == GLOBAL else [self._classes[part][0] for part in parts]
        known = row[0] != CALL or "bodies" not in row[2] or term in self.regions.believed or self.closure.has(label, classes)
        if not known and not passes(row, attrs_of(row[2]), self.rows, lambda part: self.best(part).checked_type):
            return self.closure.add(("unknown", term), [], lambda _: Var("unknown", IncompleteType()))
        return self.closure.add(label, classes, make)

    def type_of(self, cls: int) -> Type:
        """The type of a class."""
        return self.closure.best(cls).checked_type

    def fact(self, analysis: Analysis[Fact], cls: int) -> Fact | None:
        """The fact that an analysis has for a class."""
        found: Fact | None = Facts(analysis, self).of(cls)
        return found

    def find(self, cls: int) -> int:
        """The canonical class of a class."""
        return self.closure.find(cls)

    def constant(self, cls: int) -> Value | None:
        """The value of a constant class."""
        best = self.closure.best(cls)
        return best.data if isinstance(best, Constant) else None

    def e_nodes(self, cls: int) -> Iterator[ENode]:
        """The nodes of a class, in the form for analyses."""
        for label, parts in self.closure.members(cls):
            operands = tuple(map(self.find, parts))
            if label == TUPLE:
                yield ENode(None, EMPTY_ATTRS, -1, operands)
            elif isinstance(label, tuple) and label[0] in (CALL, FIELD):
                op, attrs, field = (*label[1:3], -1) if label[0] == CALL else (None, EMPTY_ATTRS, label[1])
                yield ENode(op, attrs, field, operands)
            else:
                yield OPAQUE

    def oldest(self, cls: int) -> ENode:
        """The oldest node of a class."""
        return next(self.e_nodes(cls))

    def add_call(self, op: Op, operands: Sequence[int], attrs: Attrs) -> int:
        """The class of a call on a right side."""
        if op.stateful:
            raise CertificateError("a rule that creates a stateful call cannot be replayed")
        return self.closure.add((CALL, op, attrs), operands, lambda parts: Call(op, parts, attrs))[0]

    def add_tuple(self, operands: Sequence[int]) -> int:
        """The class of a tuple on a right side."""
        return self.closure.add(TUPLE, operands, Tuple)[0]

    def add_field(self, operand: int, index: int) -> int:
        """The class of a projection on a right side."""
        return self.closure.add((FIELD, index), [operand], lambda parts: TupleGetItem(parts[0], index))[0]

    def add_value(self, value: Value) -> int:
        """The class of a computed constant, or of a tuple of constants."""
        if isinstance(value, tuple):
            return self.add_tuple([self.add_value(part) for part in value])
        data = plain_tensor(value)
        if "sha256" in data:  # computed values can be referenced
            self._constants.setdefault(digest_key(data), value)
        return self.closure.add((CONST, constant_key(data)), (), lambda _: Constant(value))[0]

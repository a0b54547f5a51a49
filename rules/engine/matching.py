"""Compiles left sides and guards for the engine: queries for egglog, and the decision in Python on each match."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any as AnyValue

from passat.ir.attrs import Attrs
from passat.ir.infer import InferError
from passat.ir.op import OpTypeError
from passat.ir.tensor import Tensor
from passat.ir.types import lacks_sizes
from passat.rules.engine.bindings import Bindings
from passat.rules.engine.egraph import Query
from passat.rules.engine.graph import Graph, NewNode
from passat.rules.engine.right_side import RightSide
from passat.rules.engine.symbols import CALL, CONST_SYMBOL, Symbol, symbol
from passat.rules.engine.variant import HOLES, Place, Placed, Variant, find_places, symbol_of
from passat.rules.guards import Check, Guard, Reject
from passat.rules.pattern import AttrHole, Computed, Pattern, PCall, PConst, PExpression, PGet, PLiteral, PValue, PVar, RuleError
from passat.rules.rule import EAGER, JOINING, Rule
from passat.rules.substitution import agree, bound_keys, is_large_cycle
from passat.rules.subterms import named_patterns, pattern_parts, subterms


class Matcher:
    """One direction of a rule, with its commutative variants: its query and its decision.

    A match is a row: the e-class of the root, the e-classes of the holes and of the inner terms that guards name, and the payloads of calls
    and projections. Everything but the symbols is computed lazily, since most rules do not apply to a given program.
    """

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.name = rule.name
        self.root = symbol_of(rule.lhs)
        self.symbols = frozenset([symbol_of(node) for node in subterms(rule.lhs) if not isinstance(node, PVar)])
        self._known_slots: dict[int, tuple[Pattern, int]] = {}
        self._known_columns: dict[int, tuple[Guard | Computed, Sequence[tuple[int, AnyValue]]]] = {}

    @cached_property
    def makes(self) -> frozenset[Symbol]:
        """The symbols that the right side may create."""
        found = {symbol_of(node) for node in subterms(self.rule.rhs) if not isinstance(node, PVar)} | {CONST_SYMBOL}
        if isinstance(self.rule.rhs, PExpression):
            found.update(symbol(CALL, op, op.arity) for op in self.rule.rhs.operators)
        return frozenset(found)

    @cached_property
    def follows_facts(self) -> bool:
        """True if the right side is computed from facts, so that a match is decided again when they change."""
        return isinstance(self.rule.rhs, PExpression)

    @cached_property
    def class_keys(self) -> list[tuple[AnyValue, ...]]:
        """The terms whose e-classes are the first columns of a row."""
        return list(dict.fromkeys(bound_keys(self.rule)))

    @cached_property
    def variants(self) -> list[Variant]:
        """The left side with the operands of a commutative root in each order."""
        root = [id(node) for node in self._commuting if node is self.rule.lhs]
        return [self._variant(frozenset(swapped)) for swapped in ([], *([root] if root else []))]

    def placed(self, graph: Graph, row: Sequence[int], members: Mapping[int, Sequence[int]] = MappingProxyType({})) -> Placed:
        """The position of a match in the program. E-classes not in `members` have one node. If the nodes can no longer be found, the root
        alone."""
        places = find_places(graph, self.rule.lhs, row[0], *self.bound(row), members) or [Place(self.rule.lhs, row[0], graph.find(row[0]))]
        nodes = tuple([place.node for place in places if not isinstance(place.part, HOLES)])
        return Placed(tuple(row), tuple(places), nodes)

    def bound(self, row: Sequence[int]) -> tuple[dict[tuple[AnyValue, ...], int], dict[int, int]]:
        """The e-classes of a row by the keys of the parts of the left side, and its payloads by the identity of the calls."""
        columns = dict(zip(self.class_keys, row, strict=False))
        return columns, dict(zip(map(id, self._calls), row[len(columns) :], strict=True))

    @cached_property
    def _terms(self) -> list[Pattern]:
        return list(subterms(self.rule.lhs))

    @cached_property
    def _calls(self) -> list[PCall | PGet]:
        return [node for node in self._terms if isinstance(node, (PCall, PGet)) and symbol_of(node).has_payload]

    @cached_property
    def _slots(self) -> dict[tuple[AnyValue, ...], int]:
        return {key: i for i, key in enumerate(self.class_keys)}

    def slot(self, pattern: Pattern) -> int:
        """The column of the e-class bound to a part of the left side; -1 for any other pattern. Remembered by the identity of patterns,
        which are kept, since their keys are nested tuples and hashed anew each time."""
        known = self._known_slots.get(id(pattern))
        if known is None:
            known = self._known_slots[id(pattern)] = (pattern, self._slots.get(pattern.key, -1))
        return known[1]

    def columns(self, call: Guard | Computed) -> Sequence[tuple[int, AnyValue]]:
        """The arguments of a guard or computed attribute, each with its column, which is -1 if it is not a bound part of the left side.
        Remembered like slots."""
        known = self._known_columns.get(id(call))
        if known is None:
            root = self.rule.lhs.key if self.rule.kind == EAGER else None  # the left side of an eager rule may not have a node yet
            columns = [(self.slot(arg) if isinstance(arg, Pattern) and arg.key != root else -1, arg) for arg in call.args]
            known = self._known_columns[id(call)] = (call, columns)
        return known[1]

    @cached_property
    def _literals(self) -> list[PLiteral]:
        return [node for node in self._terms if isinstance(node, PLiteral)]

    @cached_property
    def _constant_columns(self) -> list[int]:
        """The columns of constants, unless the right side is computed. Where a constant is only found during saturation, the types of
        its users may lack its sizes."""
        if isinstance(self.rule.rhs, PValue):
            return []
        return [self.slot(node) for node in self._terms if isinstance(node, (PConst, PLiteral))]

    @cached_property
    def _doubtful(self) -> list[tuple[int, Symbol, tuple[int, ...]]]:
        """The calls of a large left side with cycles, for which egglog also returns rows that are not matches: their columns, symbols, and
        the columns of their operands."""
        if not is_large_cycle(self.rule.lhs):
            return []
        slots, calls = self._slots, {node.key: node for node in self._terms if pattern_parts(node)}
        return [(slots[key], symbol_of(node), tuple([slots[part.key] for part in pattern_parts(node)])) for key, node in calls.items()]

    @cached_property
    def _right(self) -> RightSide:
        return RightSide(self.rule, self._slots, any(node is self.rule.lhs for node in self._commuting))

    # ---- queries

    @cached_property
    def _commuting(self) -> list[PCall]:
        """The terms that become another pattern when their operands are swapped."""
        used = Counter(node.key for node in self._terms) + Counter(node.key for node in named_patterns(self.rule))
        return [node for node in self._terms if isinstance(node, PCall) and node.op.commutative and _asymmetric(node, used)]

    @cached_property
    def _inner(self) -> list[PCall]:
        return [node for node in self._commuting if node is not self.rule.lhs]

    @cached_property
    def either_way(self) -> frozenset[Symbol]:
        """The symbols below the root whose operands match in either order."""
        return frozenset(map(symbol_of, self._inner))

    def _variant(self, swapped: frozenset[int]) -> Variant:
        """The left side with some terms swapped; those below the root match in either order."""
        free = set(map(id, self._inner))
        atoms: list[str] = []
        edges: set[tuple[Symbol, int, Symbol]] = set()
        numbers: set[tuple[Symbol, int, float]] = set()
        names: dict[tuple[AnyValue, ...], int] = {self.rule.lhs.key: 0}
        payloads: dict[object, str] = {}
        places: dict[int, int] = {}
        steps: list[tuple[int, int, int, Symbol | None]] = []
        unary: list[str] = []
        stack = [self.rule.lhs]
        while stack:
            node = stack.pop()
            name = places[id(node)] = names[node.key]
            if isinstance(node, PVar):
                continue
            head = symbol_of(node)
            parts = list(pattern_parts(node))
            if id(node) in swapped:
                parts.reverse()
            for i, part in enumerate(parts):
                child = names.setdefault(part.key, len(names))
                expected = None if isinstance(part, PVar) else symbol_of(part)
                steps.append((name, i, child, expected))
                if expected is not None:
                    edges.update((head, place, expected) for place in ((0, 1) if id(node) in free else (i,)))
                if isinstance(part, PLiteral):
                    numbers.add((head, i, part.value))
            payload = ""
            if head.has_payload:
                # Equal literals are in one e-class, and rows do not contain the payloads of constants: one atom serves all.
                alike = node.key if isinstance(node, (PConst, PLiteral)) else id(node)
                payload = payloads.setdefault(alike, f"p{len(payloads)}")
            terms = " ".join([*(f"e{names[part.key]}" for part in parts), payload]).rstrip()
            atoms.append(f"(any_{head.name} e{name} {terms})" if id(node) in free else f"(= e{name} ({head.name} {terms}))")
            if len(parts) == 1:
                unary.append(atoms[-1])
            stack.extend(parts)
        classes = tuple(names[key] for key in self.class_keys)
        query = Query(
            tuple(dict.fromkeys([*unary[:1], *atoms])),  # egglog's join begins there, and few nodes have one operand
            tuple(f"e{name}" for name in classes),
            tuple(payloads[id(node)] for node in self._calls),
        )
        root = [self._slots[part.key] for part in pattern_parts(self.rule.lhs)] if self.rule.reducing else []
        if id(self.rule.lhs) in swapped:
            root.reverse()
        of_calls = tuple(places[id(node)] for node in self._calls)
        commuting = tuple(places[id(node)] for node in self._inner)
        return Variant(query, frozenset(edges), frozenset(numbers), tuple(steps), len(names), classes, of_calls, tuple(root), commuting)

    @cached_property
    def _attributes(self) -> tuple[list[tuple[int, str, AnyValue]], list[tuple[int, str, str]]]:
        """The payload columns that must hold given values, and those that bind holes; '' stands for all attributes."""
        checks: list[tuple[int, str, AnyValue]] = []
        binds: list[tuple[int, str, str]] = []
        for i, node in enumerate(self._calls):
            column = len(self.class_keys) + i
            if isinstance(node, PGet):
                checks.append((column, "", node.index))
                continue
            for name, value in node.attrs.items():
                if isinstance(value, AttrHole):
                    binds.append((column, "" if name == "attrs" else name, value.name))
                else:
                    checks.append((column, name, tuple(value) if isinstance(value, list) else value))
        return checks, binds

    # ---- the decision

    def decide(self, graph: Graph, row: Sequence[int], new: NewNode | None = None) -> tuple[int, int]:
        """The e-class of the root (-1 for a `new` node), and the node that the right side becomes. Raises Reject with the reason."""
        try:
            match = self.bind(graph, row, new)
            built = self._right.existing(match) if self.rule.kind == JOINING else self._right.make(match)
        except Reject:
            raise
        except (OpTypeError, InferError) as error:
            raise Reject(f"ill-typed: {error}", Check.ILL_TYPED) from None
        except Exception as error:
            error.add_note(f"in the rule {self.name} ({self.rule.source})")
            if isinstance(error, RuleError):
                error.rule = self.name
            raise
        root = -1 if new is not None else graph.find(row[0])
        wanted_type, made = match.root_type, graph.types[graph.find(built)]
        if not agree(self.rule, wanted_type, made):
            raise Reject(f"the right side has type {made!r}, the left side {wanted_type!r}", Check.TYPES)
        if lacks_sizes(made) and any(lacks_sizes(graph.types[graph.find(row[column])]) for column in self._constant_columns):
            raise Reject(f"the right side has type {made!r}, and a constant has sizes that types lack", Check.TYPES)
        if new is None:
            graph.remember_form(root, built)
        return root, built

    def bind(self, graph: Graph, row: Sequence[int], new: NewNode | None = None) -> Bindings:
        """The bindings of a row if attributes, literals and guards agree. Raises Reject with the reason."""
        match = Bindings(self, graph, row, new)
        for cls, head, operands in self._doubtful if new is None else ():
            if not graph.has_node(row[cls], head, [row[operand] for operand in operands]):
                raise Reject("the row is not a match", Check.PATTERN)
        checks, binds = self._attributes
        for column, name, wanted in checks:
            given = row[column] if name == "" else _attribute(graph.attrs[row[column]], name)
            if given != wanted:
                raise Reject(f"{name or 'the field'} is {given!r}, not {wanted!r}", Check.PATTERN)
        for column, name, hole in binds:
            attrs = graph.attrs[row[column]]
            value = attrs if name == "" else _attribute(attrs, name)
            if match.attrs.setdefault(hole, value) != value:
                raise Reject(f"the attribute {hole} has two values: {match.attrs[hole]!r} and {value!r}", Check.PATTERN)
        for literal in self._literals:
            constant = graph.constant_of(row[self.slot(literal)])
            element = constant.uniform() if isinstance(constant, Tensor) else None
            if element is None or element != literal.value:
                raise Reject(f"the constant is {'not uniform' if element is None else element}, not {literal.value}", Check.PATTERN)
        for guard in self.rule.guards:
            try:
                answer = match.ask(guard, decides=True)
            except Reject as rejection:
                rejection.by = guard  # also if an attribute computed for it has no value
                raise
            if answer is not True and (reason := guard.rejection(answer, f"{self.name} ({self.rule.source})")):
                raise Reject(reason, by=guard)
        return match

    def retired(self, variant: Variant, row: Sequence[int]) -> tuple[int, ...] | None:
        """The node that a reducing rule retires where a variant matched: its operands, and its payload if it has one. It no longer matches,
        but may still be extracted."""
        if not self.rule.reducing:
            return None
        payload = (row[len(self.class_keys)],) if self.root.has_payload else ()
        return (*[row[slot] for slot in variant.root], *payload)


def _attribute(attrs: Attrs, name: str) -> AnyValue:
    """The value of an attribute. Rejects a missing one, as nodes of undeclared operators may have."""
    try:
        return attrs[name]
    except KeyError:
        raise Reject(f"the attribute {name} is absent", Check.PATTERN) from None


def _asymmetric(node: PCall, used: Mapping[AnyValue, int]) -> bool:
    """True if swapping the operands gives another pattern. Swapping two holes does if one of them also occurs elsewhere on the left or in a
    guard."""
    left, right = node.args
    holes = isinstance(left, PVar) and isinstance(right, PVar)
    return left.key != right.key and not (holes and used[left.key] == used[right.key] == 1)

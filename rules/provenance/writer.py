"""Writes certificates: saturations as lists of equations that `passat.rules.provenance.checker` proves one by one.

Nodes and e-classes of the trace become terms (`passat.rules.provenance.terms`), and each rule application becomes the instance of its left
side and its result. Eager rules are placed where they were applied, as far as node numbers show.
"""

import contextlib
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any as AnyValue
from typing import Final

from passat.ir.evaluate import Value
from passat.ir.expr import BaseFunc, Expr, Function, If, Match
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.traverse import bodies, children
from passat.rules.engine.directions import Directions, Stage, expanded
from passat.rules.engine.eager import Eager
from passat.rules.engine.graph import Decision, Graph, operands_of
from passat.rules.engine.grouping import Grouper
from passat.rules.engine.limits import Limits
from passat.rules.engine.matching import Matcher
from passat.rules.engine.saturate import Saturator
from passat.rules.engine.symbols import CALL, CONST, GET, LEAF, TUPLE
from passat.rules.engine.trace import Application, Run, Steps
from passat.rules.library import rule_sets
from passat.rules.library.folding import ConstantFolding, DynamicToStatic, TupleProjection
from passat.rules.passes.target import RAISING
from passat.rules.pattern import Pattern, PCall, PConst, PGet, PLiteral, PVar
from passat.rules.provenance import terms as kinds
from passat.rules.provenance.checker import Checker
from passat.rules.provenance.equivalent_forms import EquivalentForms
from passat.rules.provenance.moved_selections import MovedSelections
from passat.rules.provenance.pass_trace import PassEvent
from passat.rules.provenance.plain import CertificateError, Plain, Uncovered
from passat.rules.provenance.regions import with_filled_bodies
from passat.rules.provenance.stacked_rows import StackedRows
from passat.rules.provenance.terms import FORMAT, VERSION, Terms, is_declared, reached
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSetMeta
from passat.rules.subterms import pattern_parts


def rules_by_name(sets: Iterable[RuleSetMeta] = ()) -> dict[str, Rule]:
    """The rules of the library and of some sets, one per direction."""
    return {**_library(), **_by_name(sets)}


@functools.cache
def _library() -> dict[str, Rule]:
    return _by_name([EquivalentForms, StackedRows, MovedSelections, *rule_sets().values()])


def _as_known(rule: Rule) -> Rule:
    """The rule of the library that a pass restricts by further guards (`RuleSet.when`): the checker knows that one. Otherwise the rule."""
    known = _library().get(rule.name)
    if known is None or len(known.guards) >= len(rule.guards):
        return rule
    return known if known.when(*rule.guards[len(known.guards) :]).claim == rule.claim else rule


def _by_name(sets: Iterable[RuleSetMeta]) -> dict[str, Rule]:
    return {each.name: each for rules in sets for rule in rules for each in expanded(rule)}


WRITTEN: Final = "(written and read again)"
"""The pseudo pass for the round trip through a file."""
WHOLE: Final = "(all)"
"""The pseudo function for programs that certificates do not cover at all."""
MOST_STEPS: Final = 200_000
"""Maximum number of steps of a certificate."""


class Writer:
    """Collects the certificate of one optimization."""

    def __init__(self) -> None:
        self.terms = Terms()
        self.rules: dict[str, str] = {}
        self.steps: list[dict[str, AnyValue]] = []
        self.reasons: dict[str, str] = {}
        """The reasons why functions are not covered."""
        self.count = 0
        self.first: dict[str, int | None] = {}
        """The first programs."""

    def write(
        self, before: IRModule, pass_events: Sequence[PassEvent], runs: Sequence[Run], after: IRModule, reread: IRModule | None = None
    ) -> dict[str, AnyValue]:
        """The certificate. If `after` was written to a file, `reread` is the program read from it, which may have another form. Raises
        CertificateError if it would have too many steps."""
        functions = self.first = self._programs(before)
        for each in pass_events:
            old, new = self._programs(each.before), self._programs(each.after)
            if old == new and not any(number is None and each.before[name] is not each.after[name] for name, number in old.items()):
                continue
            sound = set[str]()
            for run in runs[each.first : each.end]:
                why = self._run(run)
                if why:
                    sound.add(why)
            if each.first == each.end and self._closed(each, old, new):
                continue
            if each.first == each.end or sound or None in (*old.values(), *new.values()):
                self._uncovered(each.name, old, new, "; ".join(sorted(sound) or sorted(set(self.reasons.values()))))
        last = self._programs(after)
        if reread is not None:
            self.terms.begin()
            self.terms.declares = False
            written, last = last, self._programs(reread)
            if written != last:
                self._reread(after, reread, written, last)
        names = sorted({*functions, *last})
        said = {step["function"] for step in self.steps if "uncovered" in step}
        for name in names:
            if None in (functions.get(name), last.get(name)) and name not in said:
                self._uncovered(WHOLE, {name: functions.get(name)}, {name: last.get(name)}, self.reasons.get(name, ""))
        return {
            FORMAT: VERSION,
            "rules": dict(sorted(self.rules.items())),
            "terms": self.terms.rows,
            "functions": {name: [functions.get(name), last.get(name)] for name in names},
            "steps": self.steps,
        }

    def _programs(self, module: IRModule) -> dict[str, int | None]:
        """The functions of a module as terms; None for uncovered ones."""
        found: dict[str, int | None] = {}
        for var, function in module.functions.items():
            try:
                found[var.name_hint] = self.terms.encode(function)
            except Uncovered as reason:
                found[var.name_hint] = None
                self.reasons[var.name_hint] = str(reason)
        return found

    def _closed(self, each: PassEvent, old: Mapping[str, int | None], new: Mapping[str, int | None]) -> bool:
        """Adds the proof that a pass without rules preserved all functions. Returns whether one was found."""
        if old.keys() != new.keys() or None in (*old.values(), *new.values()):
            return False
        return all(old[name] == new[name] or self._close(each.name, name, each.before[name], each.after[name]) for name in old)

    def _uncovered(self, name: str, old: Mapping[str, int | None], new: Mapping[str, int | None], why: str) -> None:
        for function in sorted({*old, *new}):
            if old.get(function) != new.get(function) or old.get(function) is None:
                self.steps.append(
                    {"pass": name, "function": function, "uncovered": why, "before": old.get(function), "after": new.get(function)}
                )

    def _reread(self, after: IRModule, reread: IRModule, old: Mapping[str, int | None], new: Mapping[str, int | None]) -> None:
        """Adds the proof that a program equals the one read from its file."""
        for name, before in old.items():
            last = new.get(name)
            if before != last and None not in (before, last) and not self._close(WRITTEN, name, after[name], reread[name]):
                self._uncovered(WRITTEN, {name: before}, {name: last}, "the program read from the file has another form")

    def _close(self, pass_name: str, name: str, old: BaseFunc, new: BaseFunc) -> bool:
        """Adds a proof, found afterwards, that two functions are equal. Returns whether there is one."""
        if not isinstance(old, Function) or not isinstance(new, Function):
            return False
        for stage in _closing():
            known = dict(self.rules)
            with contextlib.suppress(Uncovered):
                part = {"pass": pass_name, "function": name, **self._equated(old.body, new.body, stage)}
                if self._holds([part]) or (self._declares(part["before"]) and self._holds([*self.steps, part])):
                    self.steps.append(part)
                    return True
            self.rules = known
        return False

    def _declares(self, program: int) -> bool:
        """Whether a program has declared types."""
        return any(is_declared(self.terms.rows[term]) for term in reached(self.terms.rows, [program]))

    def _holds(self, steps: list[dict[str, AnyValue]]) -> bool:
        """Whether some steps prove what they claim. Without the steps before them, only the first programs declare types."""
        first = {name: [number, number] for name, number in self.first.items() if number is not None}
        shown = {FORMAT: VERSION, "rules": self.rules, "terms": self.terms.rows, "functions": first, "steps": steps}
        try:
            Checker(shown, rules_by_name(), self.terms.constants).run()
        except CertificateError:
            return False
        return True

    def _equated(self, one: Expr, other: Expr, stage: Stage) -> dict[str, AnyValue]:
        """A possible proof that two programs are equal: both in one graph, with their subgraphs, saturated with the rules of a stage."""
        graph = Graph(Eager((*ConstantFolding, *TupleProjection, *DynamicToStatic)))
        for program in (one, other):
            filled = infer_type(with_filled_bodies(program))
            for body in (filled, *bodies(filled)):
                graph.load(body)
        steps = Steps()
        Saturator(graph, [stage], Limits(), steps=steps).run()
        ends = {"before": self.terms.encode(one), "after": self.terms.encode(other)}
        return {"opset": graph.environment.opset, **ends, "steps": self._steps(graph, steps.applications)}

    def _run(self, run: Run) -> str:
        """Adds the steps of a saturation. Returns the part that is not covered, or ''."""
        if run.result is run.body:
            return ""
        try:
            before, after = self.terms.encode(run.body), self.terms.encode(run.result)
            steps = self._steps(run.graph, run.applications)
        except Uncovered as reason:
            return str(reason)
        self.count += len(steps)
        if self.count > MOST_STEPS:
            raise CertificateError(f"the certificate would have more than {MOST_STEPS} steps; lower rules.matches to reduce them")
        head = {"pass": run.pass_name, "function": run.function, "opset": run.graph.environment.opset}
        self.steps.append({**head, "before": before, "after": after, "steps": steps})
        return ""

    def _steps(self, graph: Graph, applications: Sequence[Application]) -> list[Plain]:
        """The rule applications on a graph in order, including eager ones when nodes were added."""
        nodes, steps, done = _Nodes(graph, self.terms), list[Plain](), 0
        eager = [decision for decision in graph.decisions if decision.new is not None]
        rules = {rule.name: rule for rule in (*TupleProjection, *(graph.eager.rules if graph.eager is not None else ()))}

        def follow(size: int) -> int:
            count = done
            while count < len(eager) and eager[count].size <= size:
                steps.append(self._step(rules[eager[count].rule], [nodes.eager(eager[count])], [nodes.term(eager[count].made)]))
                count += 1
            return count

        for application in applications:
            done = follow(application.made.stop)
            matcher = application.matcher.matcher if isinstance(application.matcher, Grouper) else application.matcher
            lefts = [nodes.instance(matcher, placed.row) for placed in application.matched]
            steps.append(self._step(application.matcher.rule, lefts, [nodes.term(made) for _, made in application.unions]))
        done = follow(len(graph))
        return steps

    def _step(self, rule: Rule, lefts: list[int], rights: list[int]) -> Plain:
        if rule.name not in self.rules:
            self.rules[rule.name] = _as_known(rule).claim
        return {"rule": rule.name, "left": lefts, "right": rights}


@functools.cache
def _closing() -> list[Stage]:
    """The rules for the forms that a program may take in its file, and in passes without rules; then also those for CollapseBatchDims, or
    those for HoistSelections."""
    respellings = [Directions(rule) for rules in (EquivalentForms, *RAISING) for rule in rules]
    return [Stage((*respellings, *map(Directions, rules))) for rules in ((), StackedRows, MovedSelections)]


class _Nodes:
    """The nodes of a graph as terms."""

    def __init__(self, graph: Graph, terms: Terms) -> None:
        self.graph = graph
        self.terms = terms
        self._numbers: dict[int, int] = {}
        self._tags = {graph.payloads[graph.ids[id(call)]]: call for call in graph.stateful}

    def term(self, node: int) -> int:
        """The term of a node as it was created."""
        numbers, operands = self._numbers, self.graph.operands
        stack = [node]
        while stack:
            top = stack[-1]
            missing = [part for part in operands[top] if part not in numbers]
            if top in numbers or not missing:
                stack.pop()
                if top not in numbers:
                    numbers[top] = self._row(top, [numbers[part] for part in operands[top]])
            else:
                stack += missing
        return numbers[node]

    def _row(self, node: int, operands: list[int]) -> int:
        graph, terms = self.graph, self.terms
        symbol, payload = graph.symbols[node], graph.payloads[node]
        if symbol.kind == CALL:
            assert symbol.op is not None
            return terms.call(symbol.op, graph.attrs[payload], operands, self._tags.get(payload))
        if symbol.kind == TUPLE:
            return terms.add([kinds.TUPLE, operands])
        if symbol.kind == GET:
            return terms.add([kinds.FIELD, payload, operands])
        if symbol.kind == CONST:
            return terms.constant(graph.tensors[payload])
        leaf = graph.leaves[payload]
        if symbol.kind == LEAF:
            return terms.encode(leaf)
        return self._region(leaf, operands)

    def _region(self, region: Expr, operands: list[int]) -> int:
        if isinstance(region, Match):
            raise Uncovered("a match of data types")
        inner = [self.terms.encode(part) for part in children(region)[len(operands_of(region)) :]]
        return self.terms.add([kinds.IF if isinstance(region, If) else kinds.APPLY, [*operands, *inner]])

    def eager(self, decision: Decision) -> int:
        """The term that an eager rule was applied to; operands that were constant by then are stored by value."""
        new = decision.new
        assert new is not None
        values = zip(new.operands, decision.values, strict=True)
        parts = [self.term(operand) if value is None else self.value(value) for operand, value in values]
        if new.head.op is not None:
            return self.terms.call(new.head.op, self.graph.attrs[new.payload], parts)
        return self.terms.add([kinds.FIELD, new.payload, parts])

    def instance(self, matcher: Matcher, row: Sequence[int]) -> int:
        """The instance of a rule's left side for a match."""
        columns, payloads = matcher.bound(row)

        def build(node: Pattern) -> int:
            if isinstance(node, PVar):
                return self.term(columns[node.key])
            value = self._constant(columns[node.key]) if isinstance(node, (PConst, PLiteral)) else None
            if value is not None:
                return self.value(value)
            parts = list(map(build, pattern_parts(node)))
            if isinstance(node, PCall):
                payload = payloads.get(id(node), 0)
                return self.terms.call(node.op, self.graph.attrs[payload], parts, self._tags.get(payload))
            return self.terms.add([kinds.FIELD, node.index, parts] if isinstance(node, PGet) else [kinds.TUPLE, parts])

        return build(matcher.rule.lhs)

    def _constant(self, cls: int) -> Value | None:
        """The value of an e-class at that time: after a union it may have a zero of the other sign."""
        found = self.graph.constants.get(cls)
        return self.graph.constant_of(cls) if found is None else found

    def value(self, value: Value) -> int:
        """The term of a constant, or of a tuple of constants."""
        if isinstance(value, tuple):
            return self.terms.add([kinds.TUPLE, [self.value(part) for part in value]])
        return self.terms.constant(value)

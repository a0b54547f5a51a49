"""Certificates: what saturations did, as a list of equations that `passat.rules.provenance.checker` proves one by one.

Nodes and classes are those of the journal; here they become terms (`passat.rules.provenance.terms`), and each application of a rule the
substitution with which it was applied. What folding did while a program was loaded is compared from the program and the graph.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.expr import BaseFunc, Call, Expr, Function, If, Match, Tuple, TupleGetItem
from passat.ir.infer import known_value
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.shape import ANY
from passat.ir.traverse import children, post_order
from passat.ir.types import TensorType
from passat.rules.engine.eager import Eager
from passat.rules.engine.graph import CALL, CONST, GET, LEAF, TUPLE, Graph, outer_parts
from passat.rules.engine.grouping import Grouper
from passat.rules.engine.journal import Application, Run, Steps
from passat.rules.engine.limits import Limits
from passat.rules.engine.matching import Matcher
from passat.rules.engine.saturate import Saturator
from passat.rules.engine.stage import Stage
from passat.rules.library.folding import ConstantFolding, TupleProjection
from passat.rules.pattern import PCall, PConst, PLiteral, PVar, subterms
from passat.rules.provenance import terms as kinds
from passat.rules.provenance.checker import Checker
from passat.rules.provenance.form import FORMAT, VERSION, rule_text
from passat.rules.provenance.plain import CertificateError, Plain, Uncovered
from passat.rules.provenance.terms import Terms
from passat.rules.provenance.trail import Passed
from passat.rules.provenance.written import Written

WRITTEN: Final = "(written and read again)"
"""Under what stands what became of the program in its file."""
WHOLE: Final = "(all)"
"""Under what stands a program that certificates do not speak of, whatever passes do."""
MOST_STEPS: Final = 200_000
"""A certificate of more steps is not written."""


class Writer:
    """Collects the certificate of one optimisation."""

    def __init__(self) -> None:
        self.terms = Terms()
        self.rules: dict[str, str] = {}
        self.steps: list[dict[str, AnyValue]] = []
        self.reasons: dict[str, str] = {}
        """Why functions are not covered."""
        self.count = 0

    def write(
        self, before: IRModule, passed: Sequence[Passed], runs: Sequence[Run], after: IRModule, reread: IRModule | None = None
    ) -> dict[str, AnyValue]:
        """The certificate. Where `after` was written to a file, `reread` is what is read from it again, which may be in other words.
        Raises CertificateError where it would have too many steps."""
        functions = self._programs(before)
        for each in passed:
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
        """The functions of a module as terms; None for those that are not covered."""
        found: dict[str, int | None] = {}
        for var, function in module.functions.items():
            try:
                found[var.name_hint] = self.terms.encode(function)
            except Uncovered as reason:
                found[var.name_hint] = None
                self.reasons[var.name_hint] = str(reason)
        return found

    def _closed(self, each: Passed, old: Mapping[str, int | None], new: Mapping[str, int | None]) -> bool:
        """Adds what shows that a pass without rules kept all functions equal. Returns whether that could be found."""
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
        """Adds what shows that a program is what was read from its file again."""
        for name, before in old.items():
            last = new.get(name)
            if before != last and None not in (before, last) and not self._close(WRITTEN, name, after[name], reread[name]):
                self._uncovered(WRITTEN, {name: before}, {name: last}, "what is read from the file is in other words")

    def _close(self, pass_name: str, name: str, old: BaseFunc, new: BaseFunc) -> bool:
        """Adds a part that shows that two functions are equal, found after the fact. Returns whether there is one."""
        if not isinstance(old, Function) or not isinstance(new, Function):
            return False
        try:
            part = {"pass": pass_name, "function": name, **self._equated(old.body, new.body)}
            texts = {rule.name: rule_text(rule) for rule in Written}
            shown = {FORMAT: VERSION, "rules": texts, "terms": self.terms.rows, "functions": {}, "steps": [part]}
            Checker(shown, {rule.name: rule for rule in Written}, self.terms.constants).run()
        except (Uncovered, CertificateError):
            return False
        self.steps.append(part)
        return True

    def _equated(self, one: Expr, other: Expr) -> dict[str, AnyValue]:
        """What may show that two programs are equal: both in one graph, saturated with what writing and reading changes."""
        graph = Graph(Eager((*ConstantFolding, *TupleProjection)))
        graph.load(one)
        graph.load(other)
        nodes, steps = _Nodes(graph, self.terms), Steps()
        loaded = [*nodes.loading(one), *nodes.loading(other), *self._sizes(one, other)]
        Saturator(graph, [Stage(tuple(map(Matcher, Written)))], Limits(), steps=steps).run()
        applied = [self._application(nodes, each) for each in steps.applications]
        return {
            "growth": graph.environment.max_growth,
            "together": True,
            "before": self.terms.encode(one),
            "after": self.terms.encode(other),
            "steps": [*loaded, *applied],
        }

    def _sizes(self, one: Expr, other: Expr) -> list[Plain]:
        """Steps that say which sizes of two programs are the same: what is known of them is."""
        first: dict[tuple[object, ...], int] = {}
        steps: list[Plain] = []
        for expr in dict.fromkeys([*post_order(one, parts_of=_own), *post_order(other, parts_of=_own)]):
            type_ = expr._checked_type
            value = known_value(expr) if isinstance(expr, Call) and isinstance(type_, TensorType) and type_.is_static else None
            if not isinstance(value, np.ndarray):
                continue
            dims = value.reshape(-1).tolist()
            if ANY in dims or all(isinstance(dim, int) for dim in dims):
                continue
            term = self.terms.encode(expr)
            known = first.setdefault((type_, *dims), term)
            if known != term:
                steps.append({"sizes": known, "to": term})
        return steps

    def _run(self, run: Run) -> str:
        """Adds what a saturation did; returns what of it is not covered."""
        if run.result is run.body:
            return ""
        settings: dict[str, int] = {}
        if run.graph.eager is not None and run.graph.eager.about_calls:
            settings = {"growth": run.graph.environment.max_growth, "opset": run.graph.environment.opset}
        try:
            nodes = _Nodes(run.graph, self.terms)
            before = self.terms.encode(run.body)
            steps = [*nodes.loading(run.body), *(self._application(nodes, each) for each in run.applications)]
            after = self.terms.encode(run.result)
        except Uncovered as reason:
            return str(reason)
        self.count += len(steps)
        if self.count > MOST_STEPS:
            raise CertificateError(f"the certificate would have more than {MOST_STEPS} steps; a lower rules.matches makes fewer")
        head = {"pass": run.pass_name, "function": run.function, **settings}
        self.steps.append({**head, "before": before, "after": after, "steps": steps})
        return ""

    def _application(self, nodes: "_Nodes", application: Application) -> Plain:
        matcher = application.matcher
        self.rules[application.rule] = rule_text(matcher.rule)
        if isinstance(matcher, Grouper):
            matches = [nodes.match(matcher.matcher, row) for row in application.rows]
        else:
            matches = [nodes.match(matcher, row) for row in application.rows]
        unions = [[nodes.term(root), nodes.term(made)] for root, made in application.unions]
        return {"rule": application.rule, "matches": matches, "unions": unions}


class _Nodes:
    """The nodes of a graph as terms."""

    def __init__(self, graph: Graph, terms: Terms) -> None:
        self.graph = graph
        self.terms = terms
        self._numbers: dict[int, int] = {}
        self._tags = {graph.payloads[graph.ids[id(call)]]: call for call in graph.stateful}

    def term(self, node: int) -> int:
        """The term of a node as it was made."""
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
        inner = [self.terms.encode(part) for part in children(region)[len(outer_parts(region)) :]]
        return self.terms.add([kinds.IF if isinstance(region, If) else kinds.APPLY, [*operands, *inner]])

    def loading(self, body: Expr) -> Iterable[Plain]:
        """What became of parts of a program as it was loaded: folded, or made static, and by which rule."""
        graph, terms, ids = self.graph, self.terms, self.graph.ids
        rules = {id(each.place): each.rule for each in graph.decisions if not each.refusal}
        said: set[int] = set()
        for expr in post_order(body, parts_of=lambda node: [part for part in _own(node) if id(part) in ids]):
            node = ids[id(expr)]
            if isinstance(expr, Call) and isinstance(expr.op, Op):
                plain = terms.call(expr.op, expr.attrs, [self.term(ids[id(arg)]) for arg in expr.args], expr)
            elif isinstance(expr, TupleGetItem):
                plain = terms.add([kinds.FIELD, expr.index, [self.term(ids[id(expr.tuple_value)])]])
            else:
                continue
            found = self.term(node)
            if (
                found == plain
                or plain in said
                or (isinstance(expr, TupleGetItem) and graph.symbols[ids[id(expr.tuple_value)]].kind == TUPLE)
            ):
                continue
            said.add(plain)
            what = "fold" if graph.symbols[node].kind == CONST else "static"
            yield {what: plain, "to": found, "by": rules.get(id(expr), "")}

    def match(self, matcher: Matcher, row: Sequence[int]) -> Plain:
        """What a match binds: a term for each hole and number, and the attributes of the calls of the pattern that have any."""
        columns = {key: row[i] for i, key in enumerate(matcher.class_keys)}
        holes = {
            repr(node): self.term(columns[node.key]) for node in subterms(matcher.rule.lhs) if isinstance(node, (PVar, PConst, PLiteral))
        }
        payloads = dict(zip(map(id, matcher._calls), row[len(matcher.class_keys) :], strict=True))
        calls = []
        for node in subterms(matcher.rule.lhs):
            if isinstance(node, PCall):
                payload = payloads.get(id(node), 0)
                call: dict[str, AnyValue] = {"attrs": self.terms.attrs(self.graph.attrs[payload])}
                if node.op.stateful:
                    call["tag"] = self.terms.tag(self._tags.get(payload))
                calls.append(call)
        return {"at": self.term(row[0]), "holes": holes, "calls": calls}


def _own(expr: Expr) -> Sequence[Expr]:
    """The parts of an expression in the same body."""
    if isinstance(expr, (If, Match)) or (isinstance(expr, Call) and not isinstance(expr.op, Op)):
        return outer_parts(expr)
    if isinstance(expr, Call):
        return expr.args
    return children(expr) if isinstance(expr, (Tuple, TupleGetItem)) else ()

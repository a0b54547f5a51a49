"""Provenance of nodes: traces each expression of a result back through the passes to nodes of the input.

The runs of a trace record the node of each new expression, and the rule application that created it. The nodes that the rule matched have
traces in turn, in the same saturation or in the input program.
"""

from collections.abc import Iterable, Sequence, Set
from functools import cached_property
from typing import NamedTuple

from passat.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem
from passat.ir.traverse import post_order
from passat.rules.engine.graph import operands_of
from passat.rules.engine.symbols import CONST
from passat.rules.engine.trace import Application, Run
from passat.rules.pattern import PConst, PLiteral
from passat.rules.provenance.pass_trace import PassEvent, Proof, counterparts, expressions, is_only_rebuilt, is_selected, only_readers

FOLDED = "computed from constants"
STATIC = "made static"
REWRITTEN = "rewritten"
SELECTED = "only the selected positions are computed"


class Event(NamedTuple):
    """An event: the pass, the rule (or `FOLDED`, `STATIC`, `REWRITTEN`, `SELECTED`), and the names of the input nodes at which it
    happened."""

    pass_name: str
    rule: str
    at: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.pass_name}: {self.rule}{' at ' if self.at else ''}{', '.join(self.at)}"


class NodeTrace(NamedTuple):
    """The events that led to an expression, each with its position in time, and the input nodes that the expression was made from."""

    sources: tuple[str, ...] = ()
    dated: tuple[tuple[tuple[int, int], Event], ...] = ()

    @property
    def events(self) -> tuple[Event, ...]:
        """The events in order."""
        return tuple(dict.fromkeys(step for _, step in sorted(self.dated)))


def merged(node_traces: Iterable[NodeTrace], steps: Iterable[tuple[tuple[int, int], Event]] = (), sources: Iterable[str] = ()) -> NodeTrace:
    """Several traces as one, with additional events and sources."""
    names: dict[str, None] = {}
    taken: dict[tuple[tuple[int, int], Event], None] = {}
    for node_trace in node_traces:
        names.update(dict.fromkeys(node_trace.sources))
        taken.update(dict.fromkeys(node_trace.dated))
    names.update(dict.fromkeys(source for source in sources if source))
    taken.update(dict.fromkeys(steps))
    return NodeTrace(tuple(names), tuple(taken))


def names_of(expr: Expr | None) -> tuple[str, ...]:
    """The names of an expression in the ONNX file: of its node and its outputs."""
    if isinstance(expr, TupleGetItem) and expr.span is None:
        expr = expr.tuple_value
    span = None if expr is None else expr.span
    return () if span is None else tuple(filter(None, (span.source_name, *span.outputs)))


def name_of(expr: Expr | None) -> str:
    """The name of an expression: of its node, otherwise of its first output; empty if it has none."""
    return next(iter(names_of(expr)), "")


_Key = Expr | tuple[int, int]
"""An expression, or a node of a run, as two numbers."""
_Dated = tuple[tuple[int, int], Event]
_Needs = tuple[list[_Key], list[_Dated], list[str]]
"""The parts of a trace: other traces, events, and names of input nodes."""


class NodeTraces:
    """The traces of all expressions that passes created."""

    def __init__(self, runs: Sequence[Run], pass_events: Sequence[PassEvent]) -> None:
        self.runs = runs
        self._made: dict[Expr, tuple[int, int]] = {}
        """For an expression that a run created, the run and the node."""
        self._elsewhere: dict[Expr, _Dated] = {}
        self._rebuilt: dict[Expr, Expr] = {}
        self._bodies: dict[Expr, tuple[Expr, int | None]] = {}
        """For the body of a function, its previous body, and the run that changed it; None for a walk."""
        self._indexes: dict[int, Index] = {}
        self._known: dict[_Key, NodeTrace] = {}
        for each in pass_events:
            for number in range(each.first, each.end):
                self._collect(number)
            if each.after is not each.before:
                self._compare(each)

    def of(self, expr: Expr) -> NodeTrace:
        """The trace of an expression of the result."""
        return self._solve(expr)

    def changed(self, expr: Expr) -> bool:
        """True if an expression of the result is not from the input."""
        while expr not in self._elsewhere and expr in self._rebuilt:
            expr = self._rebuilt[expr]
        return expr in self._made or expr in self._elsewhere

    def maker(self, expr: Expr) -> tuple[str, str]:
        """The rule that made an expression; without a rule, the last pass that made or rewrote it. Both are empty for an expression of the
        input. An expression that passes only rebuilt has the rule of the first one."""
        by = ""
        while True:
            if expr in self._made:
                number, node = self._made[expr]
                run = self.runs[number]
                before = run.graph.origins[node]
                if node in run.provenance:
                    return run.provenance[node][0], ""
            else:
                by = by or (self._elsewhere[expr][1].pass_name if expr in self._elsewhere else "")
                before = self._rebuilt.get(expr)
            if before is None or before is expr:
                return "", by
            expr = before

    def of_result(self, body: Expr, place: int) -> NodeTrace:
        """The trace of a result of a body: of its replacement for the original expression."""
        needs: list[_Key] = []
        dated: list[_Dated] = []
        seen: set[Expr] = set()
        while body in self._bodies and body not in seen:
            seen.add(body)
            body, number = self._bodies[body]
            if number is not None:
                more, steps = self._index(number).result(place)
                needs += more
                dated += steps
        first = body.fields[place] if isinstance(body, Tuple) else body
        return merged([self._solve(need) for need in needs], dated, [name_of(first)])

    def rules(self) -> set[str]:
        """The names of all rules on which the results of saturations depend."""
        changed = [number for number, run in enumerate(self.runs) if run.choice is not None and run.result is not run.body]
        return {self.runs[number].applications[place].rule for number in changed for place in self._index(number).used}

    # ---- new expressions and their nodes

    def _collect(self, number: int) -> None:
        """Records the node of each expression that a run created."""
        run = self.runs[number]
        if run.choice is None or run.result is run.body:
            return
        graph = run.graph
        self._bodies.setdefault(run.result, (run.body, number))
        for expr, cls in run.extracted():
            node = run.choice.get(cls)
            if node is not None and id(expr) not in graph.ids and len(operands_of(expr)) == len(graph.operands[node]):
                self._made.setdefault(expr, (number, node))

    def _compare(self, each: PassEvent) -> None:
        """Records the expressions that a pass created without rules, and those that it only rebuilt as a consequence."""
        old = set(expressions(each.before))
        walked = counterparts(each.before, each.after) if each.first == each.end else {}
        readers = only_readers(each.before) if each.first == each.end else {}
        functions = {var.name_hint: function for var, function in each.before.functions.items()}
        for var, function in each.after.functions.items():
            earlier = functions.get(var.name_hint)
            if isinstance(function, Function) and isinstance(earlier, Function) and function.body is not earlier.body:
                self._bodies.setdefault(function.body, (earlier.body, None))
        for expr in expressions(each.after):
            if expr in old or expr in self._made:
                continue
            origin = walked.get(expr) or next((readers[part] for part in operands_of(expr) if part in readers), None)
            if origin is not None:
                self._rebuilt.setdefault(expr, origin)
            if not isinstance(expr, Call):
                continue
            selected = expr in walked and is_selected(each.name, expr, walked[expr])
            if selected or not (expr in walked and is_only_rebuilt(expr, walked)):
                event = Event(each.name, SELECTED if selected else REWRITTEN, names_of(expr)[:1])
                self._elsewhere.setdefault(expr, ((each.end, 0), event))

    # ---- traces

    def _solve(self, wanted: _Key) -> NodeTrace:
        known = self._known
        stack = [wanted]
        begun: dict[_Key, _Needs] = {}
        while stack:
            key = stack[-1]
            if key in known:
                stack.pop()
            elif key in begun:
                stack.pop()
                needs, steps, sources = begun[key]
                known[key] = merged([known[need] for need in needs if need in known], steps, sources)
            else:
                begun[key] = self._needs(key)
                stack += [need for need in begun[key][0] if need not in known and need not in begun]
        return known[wanted]

    def _needs(self, key: _Key) -> _Needs:
        """The parts of a trace: other traces, events, and names of input nodes."""
        if isinstance(key, tuple):
            return self._index(key[0]).needs(key[1])
        if key in self._made:
            number, node = self._made[key]
            return self._index(number).expression(node)
        name = name_of(key)
        names = [name] if name else []
        before: list[_Key] = [self._rebuilt[key]] if key in self._rebuilt else []
        if key in self._elsewhere:
            return before, [self._elsewhere[key]], names
        return before, [], [] if before else names

    def _index(self, number: int) -> "Index":
        found = self._indexes.get(number)
        if found is None:
            found = self._indexes[number] = Index(number, self.runs[number])
        return found


class Index:
    """The origins of the nodes of one run."""

    def __init__(self, number: int, run: Run) -> None:
        self.number = number
        self.run = run
        self.graph = run.graph
        self._makers: dict[int, int] = {}
        self._applications: dict[int, _Needs] = {}
        for place, application in enumerate(run.applications):
            for node in application.made:
                self._makers.setdefault(node, place)
        self._eager = {self._folded(each.place): each.rule for each in self.graph.decisions if not each.rejection}
        self._loaded_from: dict[int, Expr] = {}
        for expr in post_order(run.body, parts_of=lambda node: [part for part in operands_of(node) if id(part) in self.graph.ids]):
            self._loaded_from.setdefault(self.graph.ids[id(expr)], expr)

    def needs(self, node: int) -> _Needs:
        """The parts of the trace of a node, or of the application at position ~node."""
        graph = self.graph
        if node < 0:
            return self._applied(~node)
        if node in self._makers:
            return self._applied(self._makers[node])
        if node in graph.places:
            place = graph.places[node]
            return [place], [self._loaded(STATIC, place)], []
        loaded = self._loaded_from.get(node)
        if graph.symbols[node].kind == CONST and not isinstance(loaded, Constant):
            return ([], [], []) if loaded is None else ([], [self._loaded(FOLDED, loaded)], [name_of(loaded)])
        origin = loaded if loaded is not None else graph.origins[node]
        return ([] if origin is None else [origin]), [], []

    def expression(self, node: int) -> _Needs:
        """The parts of the trace of a new expression: those of its node, and those of operand replacements."""
        known, dated, sources = self.needs(node)
        needs, steps, names = [*known], [*dated], [*sources]
        graph = self.graph
        for part in operands_of(self._loaded_from[node]) if node in self._loaded_from else ():
            made = graph.ids[id(part)]
            if graph.symbols[made].kind == CONST and not isinstance(part, Constant) and made in graph.operands[node]:
                steps.append(self._loaded(FOLDED, part))
                names.append(name_of(part))
        for operand in graph.operands[node]:
            chosen = self.chosen(operand)
            if chosen != operand:
                more, said = self.replaced(operand, chosen, set() if graph.symbols[chosen].kind == CONST else self._behind(chosen))
                needs += more
                steps += said
        return [need for need in dict.fromkeys(needs) if need != (self.number, node)], steps, names

    @cached_property
    def proof(self) -> Proof:
        """The proof of which applications made nodes equal."""
        return Proof(self.graph, self.run.applications)

    @cached_property
    def used(self) -> set[int]:
        """The applications on which the equality of result and input depends."""
        parts = [self.run.root, *(operand for node in (self.run.choice or {}).values() for operand in self.graph.operands[node])]
        pending = self.proof.applications([(part, self.chosen(part)) for part in parts])
        found: set[int] = set()
        while pending:
            found |= pending
            pending = self.proof.applications([pair for place in pending for pair in self._rests_on(self.run.applications[place])]) - found
        return found

    @cached_property
    def _extracted(self) -> dict[int, int]:
        """The extracted node of each e-class: equal nodes are shared, even without rules."""
        graph, equal, found = self.graph, dict[object, int](), dict[int, int]()
        for cls, node in (self.run.choice or {}).items():
            key = graph.symbols[node], graph.payloads[node], tuple([found[graph.find(part)] for part in graph.operands[node]])
            found[cls] = equal.setdefault(key, node)
        return found

    def chosen(self, node: int) -> int:
        """The extracted node in place of a node."""
        return self._extracted.get(self.graph.find(node), node)

    def repeats(self, place: int) -> bool:
        """True if an application repeats used applications of the same rule."""
        application = self.run.applications[place]
        others = self.proof.applications(application.unions)
        return others <= self.used and any(self.run.applications[other].rule == application.rule for other in others)

    def replaced(self, one: int, other: int, but: Set[int] = frozenset()) -> tuple[list[_Key], list[_Dated]]:
        """The parts of the trace of one node replaced by another of its e-class; `but` are applications that are already listed
        elsewhere."""
        applied = [self._applied(place) for place in sorted(self.proof.applications([(one, other)]) - but)]
        return [key for needs, _, _ in applied for key in needs], [dated for _, steps, _ in applied for dated in steps]

    def becoming(self, node: int, expr: Expr) -> list[Event]:
        """The events by which the extracted node replaced the node of an input expression."""
        chosen = self.chosen(node)
        dated = self.replaced(node, chosen)[1] if chosen != node else []
        if self.graph.symbols[chosen].kind == CONST and not isinstance(expr, Constant):
            dated = [self._loaded(FOLDED, expr), *dated]
        elif node in self.graph.places:
            dated = [self._loaded(STATIC, expr), *dated]
        return list(dict.fromkeys(event for _, event in sorted(dated)))

    def _behind(self, node: int) -> set[int]:
        """The applications that created a node, and their matches."""
        found: set[int] = set()
        stack = [node]
        while stack:
            place = self._makers.get(stack.pop())
            if place is not None and place not in found:
                found.add(place)
                stack += [part for placed in self.run.applications[place].matched for part in placed.nodes]
        return found

    def result(self, place: int) -> tuple[list[_Key], list[_Dated]]:
        """The parts of the trace of a replacement: of a result of the body by the extracted one."""
        body, graph = self.run.body, self.graph
        field = body.fields[place] if isinstance(body, Tuple) else body
        node = graph.ids[id(field)]
        needs, dated = self.replaced(node, self.chosen(node))
        if graph.symbols[self.chosen(node)].kind == CONST and not isinstance(field, Constant):
            more, said, _ = self.needs(self.chosen(node))
            return needs + more, dated + said
        return needs, dated

    def _applied(self, place: int) -> _Needs:
        """The parts of the trace of an application: those of the matched nodes, and the reasons why these were in place."""
        if place in self._applications:
            return self._applications[place]
        application, graph = self.run.applications[place], self.graph
        at: dict[str, None] = {}
        nodes: dict[int, None] = {}
        for placed in application.matched:
            nodes.update(dict.fromkeys(placed.nodes))
            # The root if it was in the input program, otherwise the matched nodes that were.
            for node in (placed.row[0], graph.find(placed.row[0]), *placed.nodes):
                name = name_of(self._loaded_from[node]) if node in self._loaded_from else ""
                if name:
                    at[name] = None
                    break
        step = Event(self.run.pass_of(application.rule), application.rule, tuple(at))
        rests = self.proof.applications(self._rests_on(application)) - {place}
        keys: list[_Key] = [(self.number, node) for node in [*nodes, *(~other for other in sorted(rests))]]
        self._applications[place] = keys, [((self.number, 1 + place), step)], []
        return self._applications[place]

    def _folded(self, expr: Expr | None) -> tuple[object, ...]:
        """The key of an expression to which an eager rule was applied; of equal ones, the same."""
        node = self.graph.ids.get(id(expr))
        return (id(expr),) if node is None or not isinstance(expr, Call) else (expr.op, node)

    def _loaded(self, what: str, expr: Expr) -> _Dated:
        """The event of loading an expression: the eager rule that was applied, otherwise `what`."""
        name = name_of(expr)
        rule = self._eager.get(self._folded(expr), what)
        return (self.number, 0), Event(self.run.pass_of(rule), rule, (name,) if name else ())

    def _rests_on(self, application: Application) -> list[tuple[int, int]]:
        """The nodes that are equal at the matches of an application: the one in the program, and the one that the left side matched. In the
        place of a constant or number, the latter is the constant that the e-class became."""
        places = [place for placed in application.matched for place in placed.places]
        constants = [pair for place in places if isinstance(place.part, (PConst, PLiteral)) for pair in self.proof.known(place.given)]
        return [*((place.given, place.node) for place in places), *constants]

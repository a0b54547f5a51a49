"""Where the parts of a result come from: from each expression back through the passes to those of the input.

The runs of a trace know the node that each new expression was made of, and which application of a rule made that node. What the rule
matched has a node_trace in turn: in the same saturation, or in the program that went in.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import cached_property
from typing import NamedTuple

from passat.ir.expr import Call, Constant, Expr, Function, If, Match, Tuple, TupleGetItem
from passat.ir.op import Op
from passat.ir.traverse import post_order
from passat.rules.engine.graph import CONST, outer_parts
from passat.rules.engine.trace import Run
from passat.rules.engine.variant import Placed
from passat.rules.provenance.pass_trace import PassEvent, Proof, counterparts, is_only_rebuilt, operands

FOLDED = "computed from constants"
STATIC = "made static"
REWRITTEN = "rewritten"


class Event(NamedTuple):
    """What was done: in which pass, which rule (or `FOLDED`, `STATIC`, `REWRITTEN`), and the names of the nodes of the input at which."""

    pass_name: str
    rule: str
    at: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.pass_name}: {self.rule}{' at ' if self.at else ''}{', '.join(self.at)}"


class NodeTrace(NamedTuple):
    """The steps that led to an expression, each with its place in the order in which they happened, and the nodes of the input that the
    expression was made of."""

    sources: tuple[str, ...] = ()
    dated: tuple[tuple[tuple[int, int], Event], ...] = ()

    @property
    def events(self) -> tuple[Event, ...]:
        """The steps in order."""
        return tuple(dict.fromkeys(step for _, step in sorted(self.dated)))


def merged(node_traces: Iterable[NodeTrace], steps: Iterable[tuple[tuple[int, int], Event]] = (), sources: Iterable[str] = ()) -> NodeTrace:
    """Several node_traces as one, with further steps and sources."""
    names: dict[str, None] = {}
    taken: dict[tuple[tuple[int, int], Event], None] = {}
    for node_trace in node_traces:
        names.update(dict.fromkeys(node_trace.sources))
        taken.update(dict.fromkeys(node_trace.dated))
    names.update(dict.fromkeys(source for source in sources if source))
    taken.update(dict.fromkeys(steps))
    return NodeTrace(tuple(names), tuple(taken))


def name_of(expr: Expr) -> str:
    """What an expression is called in the input: the name of its node there, or of its result; empty where it has none."""
    if isinstance(expr, TupleGetItem) and expr.span is None:
        expr = expr.tuple_value
    span = expr.span
    return "" if span is None else span.source_name or next((name for name in span.outputs if name), "")


_Key = tuple[int, int]
"""A node of a run, by their numbers; an expression is (-1, its identity)."""
_EXPR = -1
_Dated = tuple[tuple[int, int], Event]
_Needs = tuple[list[_Key], list[_Dated], list[str]]
"""Other node_traces, further steps, and names of the input."""


class NodeTraces:
    """The node_traces of all expressions that passes have made."""

    def __init__(self, runs: Sequence[Run], pass_events: Sequence[PassEvent]) -> None:
        self.runs = runs
        self._made: dict[int, tuple[Expr, int, int]] = {}
        self._elsewhere: dict[int, tuple[Expr, int, str]] = {}
        self._rebuilt: dict[int, Expr] = {}
        self._bodies: dict[int, tuple[Expr, int | None]] = {}
        """For the body of a function what it was before, and the run that changed it; None where a walk did."""
        self._indexes: dict[int, Index] = {}
        self._known: dict[_Key, NodeTrace] = {}
        self._exprs: dict[int, Expr] = {}
        for each in pass_events:
            for number in range(each.first, each.end):
                self._collect(number)
            if each.after is not each.before:
                self._compare(each)

    def of(self, expr: Expr) -> NodeTrace:
        """The node_trace of an expression of the result."""
        return self._solve((_EXPR, self._keep(expr)))

    def changed(self, expr: Expr) -> bool:
        """Whether an expression of the result is not one of the input."""
        while id(expr) not in self._elsewhere and id(expr) in self._rebuilt:
            expr = self._rebuilt[id(expr)]
        return id(expr) in self._made or id(expr) in self._elsewhere

    def of_result(self, body: Expr, place: int) -> NodeTrace:
        """The node_trace of what stands in a place of the results of a body: of what was put there for what stood there."""
        needs: list[_Key] = []
        dated: list[_Dated] = []
        seen: set[int] = set()
        while id(body) in self._bodies and id(body) not in seen:
            seen.add(id(body))
            before, number = self._bodies[id(body)]
            if number is not None:
                more, steps = self._index(number).result(place, self._keep)
                needs += more
                dated += steps
            body = before
        first = body.fields[place] if isinstance(body, Tuple) else body
        return merged([self._solve(need) for need in needs], dated, [name_of(first)])

    def rules(self) -> set[str]:
        """The names of all rules by which the results of saturations are equal to what went in."""
        changed = [number for number, run in enumerate(self.runs) if run.choice is not None and run.result is not run.body]
        return {self.runs[number].applications[place].rule for number in changed for place in self._index(number).used}

    # ---- what was made where

    def _collect(self, number: int) -> None:
        """Finds the node of each expression that a run has made."""
        run = self.runs[number]
        if run.choice is None or run.result is run.body:
            return
        graph = run.graph
        self._bodies.setdefault(id(run.result), (run.body, number))
        stack: list[tuple[Expr, int]] = [(run.result, graph.find(run.root))]
        seen: set[int] = set()
        while stack:
            expr, cls = stack.pop()
            if id(expr) in seen:
                continue
            seen.add(id(expr))
            node = run.choice.get(cls)
            parts = _parts(expr)
            if node is None or id(expr) in graph.ids or len(parts) != len(graph.operands[node]):
                continue
            self._made.setdefault(id(expr), (expr, number, node))
            stack += [(part, graph.find(operand)) for part, operand in zip(parts, graph.operands[node], strict=True)]

    def _compare(self, each: PassEvent) -> None:
        """Finds what a pass has made otherwise than by rules, and what it has only built anew because of that."""
        old: set[int] = set()
        for function in each.before.functions.values():
            old.update(map(id, post_order(function)))
        walked = counterparts(each.before, each.after) if each.first == each.end else {}
        functions = {var.name_hint: function for var, function in each.before.functions.items()}
        for var, function in each.after.functions.items():
            earlier = functions.get(var.name_hint)
            if isinstance(function, Function) and isinstance(earlier, Function) and function.body is not earlier.body:
                self._bodies.setdefault(id(function.body), (earlier.body, None))
        for function in each.after.functions.values():
            for expr in post_order(function):
                if id(expr) in old or id(expr) in self._made:
                    continue
                if id(expr) in walked:
                    self._rebuilt.setdefault(self._keep(expr), walked[id(expr)])
                if isinstance(expr, Call) and not (id(expr) in walked and is_only_rebuilt(expr, walked)):
                    self._elsewhere.setdefault(id(expr), (expr, each.end, each.name))

    def _keep(self, expr: Expr) -> int:
        self._exprs[id(expr)] = expr
        return id(expr)

    # ---- node_traces

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
        """What a node_trace consists of: other node_traces, further steps, and names of the input."""
        run, which = key
        if run != _EXPR:
            return self._index(run).needs(which, self._keep)
        expr = self._exprs[which]
        if which in self._made:
            _, number, node = self._made[which]
            return self._index(number).expression(node, self._keep)
        name = name_of(expr)
        names = [name] if name else []
        before = [(_EXPR, self._keep(self._rebuilt[which]))] if which in self._rebuilt else []
        if which in self._elsewhere:
            at, pass_name = self._elsewhere[which][1:]
            return before, [((at, 0), Event(pass_name, REWRITTEN, tuple(names)))], names
        return before, [], [] if before else names

    def _index(self, number: int) -> "Index":
        found = self._indexes.get(number)
        if found is None:
            found = self._indexes[number] = Index(number, self.runs[number])
        return found


class Index:
    """What made the nodes of one run."""

    def __init__(self, number: int, run: Run) -> None:
        self.number = number
        self.run = run
        self.graph = run.graph
        self._makers: dict[int, int] = {}
        self._applications: dict[int, _Needs] = {}
        for place, application in enumerate(run.applications):
            for node in application.made:
                self._makers.setdefault(node, place)
        self._eager = {id(each.place): each.rule for each in self.graph.decisions if not each.refusal}
        self._loaded_from: dict[int, Expr] = {}
        for expr in post_order(run.body, parts_of=lambda node: [part for part in _parts(node) if id(part) in self.graph.ids]):
            self._loaded_from.setdefault(self.graph.ids[id(expr)], expr)

    def needs(self, node: int, keep: Callable[[Expr], int]) -> _Needs:
        """Of what the node_trace of a node consists, or that of the application in the place ~node."""
        graph = self.graph
        if node < 0:
            return self._applied(~node)
        if node in self._makers:
            return self._applied(self._makers[node])
        if node in graph.places:
            place = graph.places[node]
            return [(_EXPR, keep(place))], [self._loaded(STATIC, place)], []
        loaded = self._loaded_from.get(node)
        if graph.symbols[node].kind == CONST and not isinstance(loaded, Constant):
            return ([], [], []) if loaded is None else ([], [self._loaded(FOLDED, loaded)], [name_of(loaded)])
        origin = loaded if loaded is not None else graph.origins[node]
        return ([] if origin is None else [(_EXPR, keep(origin))]), [], []

    def expression(self, node: int, keep: Callable[[Expr], int]) -> _Needs:
        """Of what the node_trace of a new expression consists: of its node's, and of what replaced its operands by others that were there
        before."""
        known, dated, sources = self.needs(node, keep)
        needs, steps, names = [*known], [*dated], [*sources]
        graph = self.graph
        for part in _parts(self._loaded_from[node]) if node in self._loaded_from else ():
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
        """Which applications made nodes equal."""
        return Proof(self.graph, self.run.applications)

    @cached_property
    def used(self) -> set[int]:
        """The applications by which the result is equal to what went in."""
        parts = [self.run.root, *(operand for node in (self.run.choice or {}).values() for operand in self.graph.operands[node])]
        pending = self.proof.applications([(part, self.chosen(part)) for part in parts])
        found: set[int] = set()
        while pending:
            found |= pending
            matches = [placed for place in pending for placed in self.run.applications[place].matched]
            pending = self.proof.applications([pair for placed in matches for pair in self._rests_on(placed)]) - found
        return found

    def _rests_on(self, placed: Placed) -> Iterator[tuple[int, int]]:
        """The nodes that were equal where a match lies: what stood there, and what the left side matched."""
        graph, variant = self.graph, placed.variant
        holes, at = dict(zip(variant.classes, placed.row, strict=False)), {0: placed.nodes[0]}
        yield placed.row[0], placed.nodes[0]
        for whole, i, part, expected in variant.steps:
            operand = next(iter(graph.operands[at[whole]][i : i + 1]), -1)
            found = [node for node in placed.nodes if graph.symbols[node] is expected and graph.find(node) == graph.find(operand)]
            if operand < 0 or not (found or part in holes or expected is None):
                return  # the nodes were not found, only the root
            at[part] = found[0] if found else holes.get(part, operand)
            yield operand, at[part]

    @cached_property
    def _stands(self) -> dict[int, int]:
        """The node that stands in the result for each class: equal nodes become one there, also where no rule is about them."""
        graph, equal, found = self.graph, dict[object, int](), dict[int, int]()
        for cls, node in (self.run.choice or {}).items():
            key = graph.symbols[node], graph.payloads[node], tuple([found[graph.find(part)] for part in graph.operands[node]])
            found[cls] = equal.setdefault(key, node)
        return found

    def chosen(self, node: int) -> int:
        """What stands in the result where a node stood."""
        return self._stands.get(self.graph.find(node), node)

    def repeats(self, place: int) -> bool:
        """Whether an application says what used ones of the same rule have said."""
        application = self.run.applications[place]
        others = self.proof.applications(application.unions)
        return others <= self.used and any(self.run.applications[other].rule == application.rule for other in others)

    def replaced(self, one: int, other: int, but: Set[int] = frozenset()) -> tuple[list[_Key], list[_Dated]]:
        """The parts of the trace of one node replaced by another one of its e-class; `but` are applications that are already listed
        elsewhere."""
        applied = [self._applied(place) for place in sorted(self.proof.applications([(one, other)]) - but)]
        return [key for needs, _, _ in applied for key in needs], [dated for _, steps, _ in applied for dated in steps]

    def _behind(self, node: int) -> set[int]:
        """The applications that made a node, and what they matched."""
        found: set[int] = set()
        stack = [node]
        while stack:
            place = self._makers.get(stack.pop())
            if place is not None and place not in found:
                found.add(place)
                stack += [part for placed in self.run.applications[place].matched for part in placed.nodes]
        return found

    def result(self, place: int, keep: Callable[[Expr], int]) -> tuple[list[_Key], list[_Dated]]:
        """Of what the node_trace of a replacement consists: of a result of the body by what was taken out in its place."""
        body, graph = self.run.body, self.graph
        field = body.fields[place] if isinstance(body, Tuple) else body
        node = graph.ids[id(field)]
        needs, dated = self.replaced(node, self.chosen(node))
        if graph.symbols[self.chosen(node)].kind == CONST and not isinstance(field, Constant):
            more, said, _ = self.needs(self.chosen(node), keep)
            return needs + more, dated + said
        return needs, dated

    def _applied(self, place: int) -> _Needs:
        """Of what the node_trace of an application consists: of those of the nodes that it matched, and of what made these stand there."""
        if place in self._applications:
            return self._applications[place]
        application, graph = self.run.applications[place], self.graph
        at: dict[str, None] = {}
        nodes: dict[int, None] = {}
        for placed in application.matched:
            nodes.update(dict.fromkeys(placed.nodes))
            # The root where it stood in the program that went in; else what was matched that stood there.
            for node in (placed.row[0], graph.find(placed.row[0]), *placed.nodes):
                name = name_of(self._loaded_from[node]) if node in self._loaded_from else ""
                if name:
                    at[name] = None
                    break
        step = Event(self.run.pass_of(application.rule), application.rule, tuple(at))
        rests = self.proof.applications([pair for placed in application.matched for pair in self._rests_on(placed)]) - {place}
        keys = [(self.number, node) for node in [*nodes, *(~other for other in sorted(rests))]]
        self._applications[place] = keys, [((self.number, 1 + place), step)], []
        return self._applications[place]

    def _loaded(self, what: str, expr: Expr) -> _Dated:
        """What happened to an expression as the program was loaded: the eager rule that was applied, else `what`."""
        name = name_of(expr)
        rule = self._eager.get(id(expr), what)
        return (self.number, 0), Event(self.run.pass_of(rule), rule, (name,) if name else ())


def _parts(expr: Expr) -> Sequence[Expr]:
    """The parts of an expression in the dataflow around it."""
    if isinstance(expr, (If, Match)) or (isinstance(expr, Call) and not isinstance(expr.op, Op)):
        return outer_parts(expr)
    return operands(expr)

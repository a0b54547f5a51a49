"""Where the parts of a result come from: from each expression back through the passes to those of the input.

The runs of a journal know the node that each new expression was made of, and which application of a rule made that node. What the rule
matched has a history in turn: in the same saturation, or in the program that went in.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from passat.ir.expr import Call, Constant, Expr, If, Match, TupleGetItem
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.traverse import post_order
from passat.rules.engine.graph import CONST, outer_parts
from passat.rules.engine.journal import Run
from passat.rules.provenance.trail import Passed
from passat.rules.provenance.walks import counterparts, is_only_rebuilt, operands

FOLDED = "computed from constants"
STATIC = "made static"
REWRITTEN = "rewritten"


class Step(NamedTuple):
    """What was done: in which pass, which rule (or `FOLDED`, `STATIC`, `REWRITTEN`), and the names of the nodes of the input at which."""

    pass_name: str
    rule: str
    at: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.pass_name}: {self.rule}{' at ' if self.at else ''}{', '.join(self.at)}"


class History(NamedTuple):
    """The steps that led to an expression, each with its place in the order in which they happened, and the nodes of the input that the
    expression was made of."""

    sources: tuple[str, ...] = ()
    dated: tuple[tuple[tuple[int, int], Step], ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps in order."""
        return tuple(dict.fromkeys(step for _, step in sorted(self.dated)))


def merged(histories: Iterable[History], steps: Iterable[tuple[tuple[int, int], Step]] = (), sources: Iterable[str] = ()) -> History:
    """Several histories as one, with further steps and sources."""
    names: dict[str, None] = {}
    taken: dict[tuple[tuple[int, int], Step], None] = {}
    for history in histories:
        names.update(dict.fromkeys(history.sources))
        taken.update(dict.fromkeys(history.dated))
    names.update(dict.fromkeys(source for source in sources if source))
    taken.update(dict.fromkeys(steps))
    return History(tuple(names), tuple(taken))


def name_of(expr: Expr) -> str:
    """What an expression is called in the input: the name of its node there, or of its result; empty where it has none."""
    if isinstance(expr, TupleGetItem) and expr.span is None:
        expr = expr.tuple_value
    span = expr.span
    return "" if span is None else span.source_name or next((name for name in span.outputs if name), "")


_Key = tuple[int, int]
"""A node of a run, by their numbers; an expression is (-1, its identity)."""
_EXPR = -1
_Dated = tuple[tuple[int, int], Step]
_Needs = tuple[list[_Key], list[_Dated], list[str]]
"""Other histories, further steps, and names of the input."""


class Histories:
    """The histories of all expressions that passes have made."""

    def __init__(self, runs: Sequence[Run], passed: Sequence[Passed]) -> None:
        self.runs = runs
        self._made: dict[int, tuple[Expr, int, int]] = {}
        self._elsewhere: dict[int, tuple[Expr, int, str]] = {}
        self._rebuilt: dict[int, Expr] = {}
        self._indexes: dict[int, _Index] = {}
        self._known: dict[_Key, History] = {}
        self._exprs: dict[int, Expr] = {}
        for each in passed:
            for number in range(each.first, each.end):
                self._collect(number)
            if each.after is not each.before:
                self._compare(each)

    def of(self, expr: Expr) -> History:
        """The history of an expression of the result."""
        return self._solve((_EXPR, self._keep(expr)))

    def changed(self, expr: Expr) -> bool:
        """Whether an expression of the result is not one of the input."""
        while id(expr) not in self._elsewhere and id(expr) in self._rebuilt:
            expr = self._rebuilt[id(expr)]
        return id(expr) in self._made or id(expr) in self._elsewhere

    def rules(self, result: IRModule) -> set[str]:
        """The names of all rules, and of what else led to a result, the replacement of whole bodies included."""
        keys = [(_EXPR, self._keep(expr)) for function in result.functions.values() for expr in post_order(function)]
        found: set[str] = set()
        for number, run in enumerate(self.runs):
            if run.choice is not None and run.result is not run.body:
                needs, steps = self._index(number).replaced(run.root, run.choice.get(run.graph.find(run.root), run.root))
                keys += needs
                found.update(step.rule for _, step in steps)
        seen: set[_Key] = set()
        while keys:
            key = keys.pop()
            if key not in seen:
                seen.add(key)
                more, steps, _ = self._needs(key)
                keys += more
                found.update(step.rule for _, step in steps)
        return found

    # ---- what was made where

    def _collect(self, number: int) -> None:
        """Finds the node of each expression that a run has made."""
        run = self.runs[number]
        if run.choice is None or run.result is run.body:
            return
        graph = run.graph
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

    def _compare(self, each: Passed) -> None:
        """Finds what a pass has made otherwise than by rules, and what it has only built anew because of that."""
        old: set[int] = set()
        for function in each.before.functions.values():
            old.update(map(id, post_order(function)))
        walked = counterparts(each.before, each.after) if each.first == each.end else {}
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

    # ---- histories

    def _solve(self, wanted: _Key) -> History:
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
        """What a history consists of: other histories, further steps, and names of the input."""
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
            return before, [((at, 0), Step(pass_name, REWRITTEN, tuple(names)))], names
        return before, [], [] if before else names

    def _index(self, number: int) -> "_Index":
        found = self._indexes.get(number)
        if found is None:
            found = self._indexes[number] = _Index(number, self.runs[number])
        return found


class _Index:
    """What made the nodes of one run."""

    def __init__(self, number: int, run: Run) -> None:
        self.number = number
        self.run = run
        self.graph = run.graph
        self._makers: dict[int, int] = {}
        self._edges: dict[int, list[tuple[int, int]]] = {}
        self._applications: dict[int, _Needs] = {}
        for place, application in enumerate(run.applications):
            for node in application.made:
                self._makers.setdefault(node, place)
            for root, made in application.unions:
                self._edges.setdefault(root, []).append((made, place))
                self._edges.setdefault(made, []).append((root, place))
        self._eager = {id(each.place): each.rule for each in self.graph.decisions if not each.refusal}
        self._loaded_from: dict[int, Expr] = {}
        for expr in post_order(run.body, parts_of=lambda node: [part for part in _parts(node) if id(part) in self.graph.ids]):
            self._loaded_from.setdefault(self.graph.ids[id(expr)], expr)

    def needs(self, node: int, keep: Callable[[Expr], int]) -> _Needs:
        """Of what the history of a node consists."""
        graph = self.graph
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
        """Of what the history of a new expression consists: of its node's, and of what replaced its operands by others that were there
        before."""
        known, dated, sources = self.needs(node, keep)
        needs, steps, names = [*known], [*dated], [*sources]
        assert self.run.choice is not None
        graph = self.graph
        for part in _parts(self._loaded_from[node]) if node in self._loaded_from else ():
            made = graph.ids[id(part)]
            if graph.symbols[made].kind == CONST and not isinstance(part, Constant) and made in graph.operands[node]:
                steps.append(self._loaded(FOLDED, part))
                names.append(name_of(part))
        for operand in graph.operands[node]:
            chosen = self.run.choice.get(graph.find(operand), operand)
            if chosen != operand and (chosen < self.run.initial or graph.symbols[chosen].kind == CONST):
                more, said = self.replaced(operand, chosen)
                needs += more
                steps += said
        return [need for need in dict.fromkeys(needs) if need != (self.number, node)], steps, names

    def replaced(self, one: int, other: int) -> tuple[list[_Key], list[_Dated]]:
        """Of what the history of a replacement consists: of one node by another one of its class."""
        applied = [self._applied(place) for place in self._between(one, other)] if one != other else []
        return [key for needs, _, _ in applied for key in needs], [dated for _, steps, _ in applied for dated in steps]

    def _between(self, one: int, other: int) -> list[int]:
        """The applications that made two nodes of a class equal; where congruence did, the first one at the one node."""
        edges = self._edges
        ways: dict[int, tuple[int, int] | None] = {one: None}
        queue = [one]
        for node in queue:
            for there, place in edges.get(node, ()):
                if there not in ways:
                    ways[there] = (node, place)
                    queue.append(there)
            if other in ways:
                break
        if other not in ways:
            return [place for _, place in edges.get(one, ())[:1]]
        path: list[int] = []
        way = ways[other]
        while way is not None:
            path.append(way[1])
            way = ways[way[0]]
        return path[::-1]

    def _applied(self, place: int) -> _Needs:
        """Of what the history of an application consists: of those of the nodes that it matched."""
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
        step = Step(self.run.pass_of(application.rule), application.rule, tuple(at))
        self._applications[place] = [(self.number, node) for node in nodes], [((self.number, 1 + place), step)], []
        return self._applications[place]

    def _loaded(self, what: str, expr: Expr) -> _Dated:
        """What happened to an expression as the program was loaded: the eager rule that was applied, else `what`."""
        name = name_of(expr)
        rule = self._eager.get(id(expr), what)
        return (self.number, 0), Step(self.run.pass_of(rule), rule, (name,) if name else ())


def _parts(expr: Expr) -> Sequence[Expr]:
    """The parts of an expression in the dataflow around it."""
    if isinstance(expr, (If, Match)) or (isinstance(expr, Call) and not isinstance(expr.op, Op)):
        return outer_parts(expr)
    return operands(expr)

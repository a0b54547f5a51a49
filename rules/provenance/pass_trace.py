"""Traces passes, with the module before and after each: which expressions a walk only rebuilt because their operands changed, and which
rule applications made nodes of a saturated graph equal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from passat.ir.analysis import is_call_of
from passat.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.traverse import post_order
from passat.passmgr import PassInfo, StageInfo
from passat.passmgr.instruments import RunInstrument
from passat.rules.engine.graph import Decision, Graph, operands_of
from passat.rules.engine.symbols import CONST, TUPLE
from passat.rules.engine.trace import Application, Trace
from passat.rules.passes.selections import SELECTING


class PassEvent(NamedTuple):
    """A pass that ran by itself, not as a pipeline of others, or a stage; the number of runs in the trace before and after it, and the name
    of the pass, or those of the passes of the stage that ran."""

    name: str
    before: IRModule
    after: IRModule
    first: int
    end: int
    parts: tuple[str, ...]


class PassTrace(RunInstrument[tuple[IRModule, int, int]]):
    """Records the passes that run, in order; `trace` records their saturations."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self.trace = trace
        self.events: list[PassEvent] = []

    def begin(self, mod: IRModule, info: PassInfo) -> tuple[IRModule, int, int]:
        """Remembers the start of a pass."""
        return mod, len(self.events), len(self.trace.runs)

    def end(self, run: tuple[IRModule, int, int], mod: IRModule, info: PassInfo, error: BaseException | None) -> None:
        """Records the result of a pass, unless it raised or consists of recorded passes; those of a stage count as one."""
        before, count, first = run
        if error is not None:
            return
        parts: tuple[str, ...] = (info.name,)
        if isinstance(info, StageInfo):
            parts = tuple([each.name for each in self.events[count:]])
            del self.events[count:]
        if len(self.events) == count:
            self.events.append(PassEvent(info.name, before, mod, first, len(self.trace.runs), parts))

    def since(self, run: int) -> list[PassEvent]:
        """The recorded passes from a run on, with runs counted from there."""
        return [each._replace(first=each.first - run, end=each.end - run) for each in self.events]


def expressions(module: IRModule) -> Iterator[Expr]:
    """The expressions of a module, function by function, operands first."""
    for function in module.functions.values():
        yield from post_order(function)


def counterparts(before: IRModule, after: IRModule) -> dict[Expr, Expr]:
    """Maps new expressions of a module to their counterparts in the previous module; rewritten ones have none."""
    old = set(expressions(before))
    named: dict[object, Expr] = {}
    for expr in expressions(before):
        if (name := identity_of(expr)) is not None:
            named.setdefault(name, expr)
    pending = [(expr, named[identity_of(expr)]) for expr in expressions(after) if expr not in old and identity_of(expr) in named]
    bodies = {var.name_hint: function for var, function in before.functions.items()}
    for var, function in after.functions.items():
        earlier = bodies.get(var.name_hint)
        if isinstance(function, Function) and isinstance(earlier, Function):
            pending.insert(0, (function.body, earlier.body))  # processed last, since names are more reliable
    found: dict[Expr, Expr] = {}
    while pending:
        new, other = pending.pop()
        if new in old or new in found or not _is_same_step(new, other):
            continue
        found[new] = other
        pending += zip(operands_of(new), operands_of(other), strict=True)
    return found


def only_readers(module: IRModule) -> dict[Expr, Call]:
    """The call that reads a constant, for constants with one reader: a walk may replace the call by one without a name."""
    found: dict[Expr, list[Call]] = {}
    for expr in expressions(module):
        if isinstance(expr, Call) and isinstance(expr.op, Op):
            for part in expr.args:
                if isinstance(part, Constant):
                    found.setdefault(part, []).append(expr)
    return {constant: calls[0] for constant, calls in found.items() if len(calls) == 1}


def is_only_rebuilt(new: Expr, found: Mapping[Expr, Expr]) -> bool:
    """True if an expression has the operands of its counterpart, possibly rebuilt; `found` has all counterparts."""
    return all(found.get(part, part) is other for part, other in zip(operands_of(new), operands_of(found[new]), strict=True))


def is_selected(pass_name: str, new: Expr, old: Expr) -> bool:
    """True if a pass computes the counterpart of an expression, which is no selection itself, for the positions only that the program
    selects."""
    selects = is_call_of(new, *SELECTING)
    return pass_name == "HoistSelections" and not selects and new.checked_type != old.checked_type


def identity_of(expr: Expr) -> object:
    """The identity of an expression that a pass rebuilt with other operands; None if it has none."""
    if isinstance(expr, Call) and expr.span is not None and expr.span.outputs:
        return (expr.op, expr.attrs, expr.span)
    return None


def _is_same_step(new: Expr, old: Expr) -> bool:
    if type(new) is not type(old) or len(operands_of(new)) != len(operands_of(old)):
        return False
    if isinstance(new, Call) and isinstance(old, Call):
        return isinstance(new.op, Op) and new.op is old.op and new.attrs == old.attrs and new.span == old.span
    if isinstance(new, TupleGetItem) and isinstance(old, TupleGetItem):
        return new.index == old.index
    return isinstance(new, Tuple)


_CONGRUENT: Final = -1
"""The nodes differ only in equal operands (congruence)."""
_OTHER: Final = -2
"""The nodes are equal for another reason."""
_EAGER: Final = -3
"""Of reasons up to this one, `_EAGER - reason` is the position of the decision of an eager rule on a node whose operands became known."""


class Proof:
    """Replays the unions of a saturation in order, with their congruences and the decisions of eager rules on existing nodes. Each union
    joins two trees of nodes by an edge, so there is one path between two nodes of an e-class, and an edge depends only on older edges."""

    def __init__(self, graph: Graph, applications: Sequence[Application]) -> None:
        self._graph = graph
        self._classes = list(range(len(graph)))
        self._sizes = [1] * len(graph)
        self._up: dict[int, tuple[int, int]] = {}
        """For each non-root node, its parent, and the position of the application or another reason why the two are equal."""
        self._eager: dict[int, list[tuple[int, int]]] = {}
        """For each decision of an eager rule that united two nodes, the pairs of nodes whose equality it rests on."""
        self._users: dict[int, list[int]] = {}
        self._alike: dict[tuple[object, ...], int] = {}
        for node, operands in enumerate(graph.operands):
            self._alike[self._key(node)] = node
            for operand in dict.fromkeys(operands):
                self._users.setdefault(operand, []).append(node)
        eager = [each for each in enumerate(graph.decisions) if each[1].new is not None]
        done = 0
        for place, application in enumerate(applications):
            # A decision as old as an application that made no node may follow from it.
            while done < len(eager) and eager[done][1].size < application.made.start + bool(application.made):
                self._decide(*eager[done])
                done += 1
            for root, made in application.unions:
                self._unite(root, made, place)
        for number, decision in eager[done:]:
            self._decide(number, decision)
        for cls, nodes in graph.members.items():
            for node in nodes:
                self._unite(cls, node, _OTHER)

    def applications(self, pairs: Iterable[tuple[int, int]]) -> set[int]:
        """The positions of the applications that make the nodes of each pair equal."""
        found: set[int] = set()
        seen: set[int] = set()
        stack = list(pairs)
        while stack:
            for node in self._path(*stack.pop()):
                if node in seen:
                    continue
                seen.add(node)
                above, why = self._up[node]
                if why >= 0:
                    found.add(why)
                elif why == _CONGRUENT:
                    stack += zip(self._graph.operands[node], self._graph.operands[above], strict=True)
                elif why <= _EAGER:
                    stack += self._eager[_EAGER - why]
        return found

    def _decide(self, number: int, decision: Decision) -> None:
        """Unites the node that an eager rule decided on with its replacement, if the node exists: it has been decided on again."""
        new = decision.new
        assert new is not None
        node = self._alike.get((new.head, new.payload, tuple(map(self._find, new.operands))))
        if node is not None:
            self._eager[number] = [*zip(self._graph.operands[node], new.operands, strict=True), *chain(*map(self.known, new.operands))]
            self._unite(node, decision.made, _EAGER - number)

    def known(self, operand: int) -> list[tuple[int, int]]:
        """The pairs of nodes whose equality makes an operand known: of the operand, or of fields, and of constants."""
        graph = self._graph
        nodes = graph.members.get(graph.find(operand), (operand,))
        known = [node for node in nodes if graph.symbols[node].kind == CONST]
        fields = [node for node in nodes if graph.symbols[node].kind == TUPLE]
        if known or not fields:
            return [(operand, node) for node in known[:1]]
        return [(operand, fields[0]), *(pair for field in graph.operands[fields[0]] for pair in self.known(field))]

    def _path(self, one: int, other: int) -> list[int]:
        """The nodes below the edges of the path between two nodes; empty if they are not equal."""
        first, second = self._ancestors(one), self._ancestors(other)
        if first[-1] != second[-1]:
            return []
        while first and second and first[-1] == second[-1]:
            first.pop()
            second.pop()
        return first + second

    def _ancestors(self, node: int) -> list[int]:
        """The node and its ancestors."""
        found = [node]
        while node in self._up:
            node = self._up[node][0]
            found.append(node)
        return found

    def _find(self, node: int) -> int:
        classes = self._classes
        while classes[node] != node:
            classes[node] = classes[classes[node]]
            node = classes[node]
        return node

    def _key(self, node: int) -> tuple[object, ...]:
        graph = self._graph
        return graph.symbols[node], graph.payloads[node], tuple(map(self._find, graph.operands[node]))

    def _unite(self, one: int, other: int, why: int) -> None:
        pending = [(one, other, why)]
        while pending:
            below, above, why = pending.pop()
            gone, kept = self._find(below), self._find(above)
            if gone == kept:
                continue
            if self._sizes[gone] > self._sizes[kept]:
                below, above, gone, kept = above, below, kept, gone
            edge = above, why
            while below in self._up:  # the smaller tree now hangs from this node
                following, self._up[below] = self._up[below], edge
                edge, below = (below, following[1]), following[0]
            self._up[below] = edge
            self._classes[gone] = kept
            self._sizes[kept] += self._sizes[gone]
            users = self._users.pop(gone, [])
            pending += [(node, self._alike.setdefault(self._key(node), node), _CONGRUENT) for node in users]
            self._users.setdefault(kept, []).extend(users)

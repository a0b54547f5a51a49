"""Two-phase saturation: egglog matches, Python decides, TSV rows apply (design 4.2)."""

import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from passat.ir.tensor import Tensor
from passat.rules.engine.backoff import Backoff
from passat.rules.engine.egraph import EGraphs
from passat.rules.engine.graph import Graph, Symbol
from passat.rules.engine.grouping import Grouper
from passat.rules.engine.limits import Budget, LimitReached, Limits
from passat.rules.engine.matching import Matcher, Refusal

_REASONS = 5
"""At most this many different reasons of refusal are kept per rule."""
_EGRAPHS: Final = EGraphs()


@dataclass
class RuleStatistics:
    """What one rule did: matches decided, those refused with the reasons (the first few, counted), unions made."""

    matches: int = 0
    refused: int = 0
    unions: int = 0
    seconds: float = 0.0
    reasons: dict[str, int] = field(default_factory=dict)

    def refuse(self, reason: str) -> None:
        """Counts a refusal."""
        self.refused += 1
        if reason in self.reasons or len(self.reasons) < _REASONS:
            self.reasons[reason] = self.reasons.get(reason, 0) + 1


@dataclass
class Saturation:
    """What a saturation did: rounds run, why it stopped (`saturated`, or a limit), and statistics per rule."""

    rounds: int = 0
    stopped: str = "saturated"
    nodes: int = 0
    rules: dict[str, RuleStatistics] = field(default_factory=dict)

    def of(self, rule: str) -> RuleStatistics:
        """The statistics of a rule."""
        return self.rules.setdefault(rule, RuleStatistics())

    @property
    def unions(self) -> int:
        """Unions made by all rules."""
        return sum(statistics.unions for statistics in self.rules.values())


class Saturator:
    """Saturates a graph with matchers, under limits. `members` then tells the nodes of each class that has more than one, and
    `provenance` the rule and the root class that each new node comes from; `together` lists for each application of a rule with several
    roots the roots, and the nodes that may take their places together."""

    def __init__(self, graph: Graph, matchers: Sequence[Matcher], limits: Limits, groupers: Sequence[Grouper] = ()) -> None:
        self.graph = graph
        self.matchers = matchers
        self.groupers = groupers
        self.together: list[list[tuple[int, int]]] = []
        self.result = Saturation()
        self.members: dict[int, list[int]] = {}
        self.provenance: dict[int, tuple[str, int]] = {}
        self._budget = Budget(limits)
        self._limits = limits
        self._loaded = 0
        self._initial = len(graph)
        self._queries = [(matcher, variant) for matcher in matchers for variant in matcher.variants]
        self._asked: list[tuple[int, int]] = []
        self._lease = ExitStack()
        self._started = False
        self._refused: dict[tuple[int, tuple[int, ...]], None] = {}
        self._seen: set[tuple[int, tuple[int, ...]]] = set()
        self._retired: dict[str, list[str]] = {}
        self._retired_next: dict[str, list[str]] = {}
        self._pending: Sequence[tuple[int, int]] = ()
        self._walked = 0
        self._backoff = Backoff(max(limits.rule_matches, self._initial))
        self._chased: list[tuple[int, tuple[int, ...]]] = []
        self._edges: set[tuple[Symbol, int, Symbol]] = set()

    def run(self) -> Saturation:
        """Runs rounds until nothing new is found or a limit is reached. Raises EngineError where egglog fails.

        A program comes in with one node in each class, so its own matches are found by walking it; egglog is asked only once there
        are classes of several nodes, that is, where some rule applies to the program at all.
        """
        with self._lease:
            try:
                self._budget.check(0)
                unions = self._decide(self._search(), set()) + self._group()
                if unions:
                    self.result.rounds += 1
                    unions = self._chase(unions)
                    self._start()
                    self._rounds(unions)
            except LimitReached as limit:
                self.result.stopped = str(limit)
        self.result.nodes = len(self.graph)
        return self.result

    def _search(self, *, reducing: bool = False) -> list[list[tuple[int, ...]]]:
        """The matches whose roots are nodes that have not been walked yet, taking every class for its smallest node; of all rules, or of
        the reducing ones."""
        graph = self.graph
        start, self._walked = self._walked, len(graph)
        nodes: dict[Symbol, list[int]] = {}
        for node in range(start, len(graph)):
            nodes.setdefault(graph.symbols[node], []).append(node)
        if not any(matcher.root in nodes for matcher in self.matchers):
            return [[] for _ in self._queries]
        self._edges |= graph.edges(start)
        return [
            variant.search(graph, nodes[matcher.root])
            if matcher.root in nodes and variant.edges <= self._edges and (matcher.rule.reducing or not reducing)
            else []
            for matcher, variant in self._queries
        ]

    def _chase(self, unions: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Follows the reducing rules from the nodes that rules have just made to those that these lead to: a scale on its way through ten
        operators takes one round of egglog's so, and not ten. Returns the unions with those added.

        What is matched here is retired a round later: nobody has looked at it yet from above.
        """
        retired, self._retired = self._retired, {}
        for _ in range(self._limits.rounds):
            tables = self._search(reducing=True)
            if not any(tables):
                break
            self._chased += [(number, row) for number, rows in enumerate(tables) for row in rows]
            unions = self._decide(tables, set(), unions)
        self._retired, self._retired_next = retired, self._retired
        return unions

    def _group(self) -> list[tuple[int, int]]:
        """Applies the rules with several roots, once and to the program as it came in, and returns the unions."""
        graph, unions = self.graph, []
        for grouper in self.groupers:
            statistics = self.result.of(grouper.name)
            start = time.perf_counter()
            for group in grouper.groups(graph, self._initial, statistics):
                size = len(graph)
                try:
                    made = grouper.build(graph, group)
                except Refusal as refusal:
                    statistics.refuse(str(refusal))
                    continue
                self.provenance.update((node, (grouper.name, group[0][0])) for node in range(size, len(graph)))
                self.together.append(made)
                statistics.unions += len(made)
                unions += made
                try:
                    self._budget.check(len(graph) - self._initial)
                except LimitReached as limit:
                    self.result.stopped = str(limit)
                    return unions
            statistics.seconds += time.perf_counter() - start
        return unions

    def _remember_chased(self) -> None:
        """Knows the matches of the chase again by the names that their classes have got since."""
        find = self.graph.find
        for number, row in self._chased:
            classes = len(self._queries[number][0].class_keys)
            self._seen.add((number, (*map(find, row[:classes]), *row[classes:])))
        self._chased = []

    def _rounds(self, unions: Sequence[tuple[int, int]]) -> None:
        while self.result.rounds < self._limits.rounds:
            self._load_new(unions)
            self._foresee()
            moved, found = self._egraph.step()
            self.result.rounds += 1
            tables: list[list[tuple[int, ...]]] = [[] for _ in self._queries]
            for number, known_as in self._asked:
                tables[number] = found[known_as]
            learnt = self._follow(moved)
            self._budget.check_memory()
            self._remember_chased()
            unions = self._decide(tables, learnt)
            while not unions and self._backoff.waits:
                due = self._backoff.release()
                unions = self._decide([due.get(number, []) for number in range(len(self._queries))], set())
            if not unions:
                return
            unions = self._chase(unions)
        self._load_new(unions)
        self._follow(self._egraph.merges())
        self.result.stopped = f"rounds: more than {self._limits.rounds}"

    def _foresee(self) -> None:
        """Raises LimitReached where the next round would find more matches than are left to decide: egglog cannot be stopped inside
        a round, and a class of a thousand nodes matches a thousand times below each of its users. Only asked once the graph has grown."""
        graph = self.graph
        if len(graph) < 2 * self._initial + 10_000:
            return
        find = graph.find
        inside: dict[tuple[int, Symbol], int] = {}
        roots: dict[Symbol, list[int]] = {}
        for node, symbol in enumerate(graph.symbols):
            key = (find(node), symbol)
            inside[key] = inside.get(key, 0) + 1
            roots.setdefault(symbol, []).append(node)
        expected = 0
        for number, _ in self._asked:
            matcher, variant = self._queries[number]
            below = [(i, symbol) for whole, i, _, symbol in variant.steps if whole == 0 and symbol is not None]
            if not below:
                continue
            for node in roots.get(matcher.root, ()):
                ways = 1
                for i, symbol in below:
                    ways *= inside.get((find(graph.operands[node][i]), symbol), 0)
                expected += ways
            if expected > self._limits.matches:
                self._follow(self._egraph.merges())
                raise LimitReached(f"matches: the next round would find more than {self._limits.matches}")

    # ---- egglog's side

    def _start(self) -> None:
        """Gets an e-graph. Only what can match needs to be defined there: rules whose operators occur or can come to be."""
        self._budget.watch_memory()
        self._egraph = self._lease.enter_context(_EGRAPHS.lend(tuple(self.matchers)))
        self._started = True
        present = set(self.graph.symbols)
        while True:
            possible = [matcher for matcher in self.matchers if matcher.symbols <= present]
            wider = present.union(*(matcher.makes for matcher in possible))
            if wider == present:
                break
            present = wider
        self._visible = set().union(*(matcher.symbols for matcher in possible))
        for symbol in sorted(self._visible, key=lambda symbol: symbol.name):
            self._egraph.declare(symbol.name, symbol.arity, symbol.has_payload)
        for matcher in possible:
            if matcher.rule.reducing:
                self._egraph.declare_retiring(matcher.root.name, matcher.root.arity, matcher.root.has_payload)
        chosen = set(possible)
        for number, (matcher, variant) in enumerate(self._queries):
            if matcher in chosen:
                self._asked.append((number, self._egraph.add_query(variant.query)))
        self._egraph.begin()

    def _load_new(self, unions: Iterable[tuple[int, int]]) -> None:
        graph, visible = self.graph, self._visible
        rows: dict[str, list[str]] = {symbol.name: [] for symbol in visible}
        table = {
            symbol: (rows[symbol.name].append, "\t".join(["%d"] * (1 + symbol.arity + symbol.has_payload)), symbol.has_payload)
            for symbol in visible
        }
        bare: list[str] = []
        symbols, payloads, operands = graph.symbols, graph.payloads, graph.operands
        for node in range(self._loaded, len(graph)):
            found = table.get(symbols[node])
            if found is None:
                bare.append(str(node))
                continue
            add, row, has_payload = found
            add(row % (node, *operands[node], payloads[node]) if has_payload else row % (node, *operands[node]))
        self._loaded = len(graph)
        retired, self._retired, self._retired_next = self._retired, self._retired_next, {}
        self._egraph.load({"bare": bare, **rows, **retired}, unions)

    # ---- Python's side

    def _follow(self, moved: Iterable[tuple[int, ...]]) -> set[int]:
        """Merges classes as egglog has, and folds what has become constant by it. Returns classes that have learnt something."""
        graph, learnt = self.graph, set()
        for node, key in moved:
            before = (graph.find(node), graph.find(key))
            knew = [cls in graph.constants for cls in before]
            united = graph.unite(node, key)
            if united is not None:
                kept, gone = united
                self.members[kept] = self.members.pop(kept, [kept]) + self.members.pop(gone, [gone])
                if any(knew) and not all(knew):
                    learnt.add(kept)
        if learnt and graph.folder is not None:
            learnt |= self._fold_users(learnt)
        return learnt

    def _fold_users(self, learnt: set[int]) -> set[int]:
        """Folds the calls that use classes which have become constant, and in turn their users."""
        graph = self.graph
        users: dict[int, list[int]] = {}
        for node, operands in enumerate(graph.operands):
            for operand in operands:
                users.setdefault(graph.find(operand), []).append(node)
        folded: set[int] = set()
        pending: list[tuple[int, int]] = []
        work = list(learnt)
        while work:
            for user in users.get(work.pop(), ()):
                cls = graph.find(user)
                if cls in graph.constants:
                    continue
                value = graph.fold(user)
                if value is None:
                    continue
                graph.constants[cls] = value
                folded.add(cls)
                work.append(cls)
                if isinstance(value, Tensor):
                    pending.append((cls, graph.add_constant(value)))
        self._pending = pending
        return folded

    def _decide(
        self, tables: Sequence[Sequence[tuple[int, ...]]], learnt: set[int], earlier: Iterable[tuple[int, int]] = ()
    ) -> list[tuple[int, int]]:
        """Looks at matches; returns the unions to make, after those decided on earlier that have not been made yet."""
        graph, budget, seen = self.graph, self._budget, self._seen
        unions = [*earlier, *self._pending]
        self._pending = ()
        again: dict[int, set[tuple[int, ...]]] = {}
        if learnt:
            for number, row in list(self._refused):
                if any(graph.find(cls) in learnt for cls in row[: len(self._queries[number][0].class_keys)]):
                    del self._refused[number, row]
                    again.setdefault(number, set()).add(row)
        for number, ((matcher, variant), rows) in enumerate(zip(self._queries, tables, strict=True)):
            if not matcher.rule.reducing:
                rows = self._backoff.due(number, self.result.rounds, rows)  # noqa: PLW2901  # what there is to do for this query
            if not rows and number not in again:
                continue
            statistics = self.result.of(matcher.name)
            start = time.perf_counter()
            for row in (*sorted(again.get(number, ())), *rows):
                if (number, row) in seen and row not in again.get(number, ()):
                    continue
                seen.add((number, row))
                budget.matches += 1
                statistics.matches += 1
                if not budget.matches & 255:
                    try:
                        budget.check(len(graph) - self._initial)
                    except LimitReached as limit:
                        self._stop(unions, limit)
                size = len(graph)
                try:
                    root, built = matcher.decide(graph, row)
                except Refusal as refusal:
                    statistics.refuse(str(refusal))
                    self._refused[number, row] = None
                    continue
                for node in range(size, len(graph)):
                    self.provenance[node] = (matcher.name, root)
                if graph.find(built) != root:
                    statistics.unions += 1
                    unions.append((root, built))
                retired = matcher.retired(variant, row)
                if retired is not None:
                    self._retired.setdefault(f"retire_{matcher.root.name}", []).append("\t".join(map(str, retired)))
            statistics.seconds += time.perf_counter() - start
        try:
            budget.check(len(graph) - self._initial)
        except LimitReached as limit:
            self._stop(unions, limit)
        return unions

    def _stop(self, unions: Sequence[tuple[int, int]], limit: LimitReached) -> None:
        """Applies what has been decided so far, so that the best so far can be taken out, and passes the limit on."""
        if not self._started:
            self._start()
        self._load_new(unions)
        self._follow(self._egraph.merges())
        raise limit

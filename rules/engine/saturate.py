"""Two-phase saturation: egglog matches, Python decides on the matches, and egglog loads the results as TSV tables."""

import itertools
import time
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NoReturn

from passat.rules.engine.directions import Directions, Stage, reachable
from passat.rules.engine.edges import Edges
from passat.rules.engine.egraph import EngineError, Query
from passat.rules.engine.graph import TUPLE, Graph, Symbol
from passat.rules.engine.limits import Backoff, Budget, LimitReached, Limits, Shares, Stop, StopReason
from passat.rules.engine.matching import Matcher
from passat.rules.engine.mirror import Asked, Mirror, Retired, excessive, foresee, may_explode
from passat.rules.engine.report import Round, RuleStatistics, Saturation
from passat.rules.engine.trace import Application, Steps
from passat.rules.engine.variant import Placed
from passat.rules.guards import Reject

Tables = dict[int, list[tuple[int, ...]]]
"""Matches by query number."""

_CHECKED: Final = 256
"""Number of matches between checks of the limits."""
_FOLDED: Final = 50
"""Weight of a match whose result an eager rule replaced, in matches: folding a constant takes about as long. Products of constants in
different orders differ by rounding, so each order folds a new constant."""
_FOLDED_OF_SHARE: Final = 3
"""Its weight in the share of a rule. It is smaller, since a chain of constants needs one such match for each link."""


class Saturator:
    """Saturates a graph in stages, under limits. Afterwards, `members` has the nodes of each e-class with more than one, and `provenance`
    the rule and the root e-class of each new node. For each application of a multi-pattern rule, and each common part of sums and products,
    `together` lists the roots and the nodes that may replace them jointly. `steps` records each application and rejection. `initial` is the
    number of nodes at the start.

    Processes matches in program order, so equal graphs give equal results.
    """

    def __init__(self, graph: Graph, stages: Sequence[Stage], limits: Limits, *, steps: Steps | None = None) -> None:
        self.graph = graph
        self.stages = stages
        self.together: list[list[tuple[int, int]]] = []
        self.result = Saturation()
        self.members = graph.members
        self.provenance: dict[int, tuple[str, int]] = {}
        self.steps = steps
        self._budget = Budget(limits)
        self._limits = limits
        self.initial = len(graph)
        self._queries = _queries_of(graph, stages)
        self._edges = Edges(graph)
        self._mirror = Mirror(graph, self._queries, self._edges)
        self._shares = Shares(limits.share(self.initial))
        self.result.ended = self._shares.ended
        self._phase: Sequence[int] = ()
        self._active: Sequence[int] = ()
        """The queries of the active stages."""
        self._by_root: Mapping[Symbol, Sequence[int]] = {}
        """The active queries by the symbol of the root."""
        self._rejected: dict[tuple[int, tuple[int, ...]], None] = {}
        self._dependent: dict[tuple[int, tuple[int, ...]], None] = {}
        """The matches that are decided again when a fact changes, because the right side is computed from facts."""
        self._seen: set[tuple[int, tuple[int, ...]]] = set()
        self._retired: Retired = {}
        self._retired_next: Retired = {}
        self._pending: Sequence[tuple[int, int]] = ()
        self._decided: Sequence[tuple[int, int]] = ()
        self._walked = 0
        self._merged = 0
        self._noted = (0, 0)
        self._followed: list[tuple[int, tuple[int, ...]]] = []
        self._newest: dict[int, int] = {}
        """The newest node that a reducing rule made for an e-class."""
        self._combined: set[int] = set()
        """The e-classes for which a reducing rule combined constants."""
        self._made_for: dict[int, int] = {}
        """The e-classes of such nodes, with which they may not be united yet."""
        self._united: dict[int, list[int]] = {}
        """The nodes of e-classes that are about to be united with such nodes, for the trace."""

    def run(self) -> Saturation:
        """Runs the stages, each until it is saturated or reaches a limit. If egglog fails, keeps the decisions made so far."""
        try:
            self._budget.check(0)
            for phase in self._phases():
                self._run_phase(phase)
        except LimitReached as limit:
            self.result.stopped = limit.stop
        except EngineError as error:
            self._mirror.abandon()
            self._follow(self._decided)
            self.result.stopped = Stop(StopReason.FAILED, str(error))
        self._mirror.close()
        if self.graph.common_parts is not None:
            self.together += self.graph.common_parts.together()
        if self.steps is None:
            self.graph.release()
        self.result.nodes = len(self.graph)
        return self.result

    def _phases(self) -> list[list[int]]:
        """The numbers of the stages, grouped by those that run together."""
        phases: list[list[int]] = []
        for number, stage in enumerate(self.stages):
            if stage.beside and phases:
                phases[-1].append(number)
            else:
                phases.append([number])
        return phases

    def _activate(self, numbers: Sequence[int], rounds: int) -> bool:
        """Activates the stages that have more than `rounds` iterations; False if there are none."""
        phase = [number for number in numbers if rounds < (self.stages[number].rounds or self._limits.rounds + 1)]
        if phase != self._phase:
            self._phase = phase
            by_root: dict[Symbol, list[int]] = {}
            for query, (matcher, _, stage) in enumerate(self._queries):
                if stage in phase:
                    by_root.setdefault(matcher.root, []).append(query)
            self._by_root, self._active = by_root, sorted(itertools.chain(*by_root.values()))
        return bool(phase)

    def _run_phase(self, numbers: Sequence[int]) -> None:
        """Runs stages together, each until it is saturated or for its number of iterations.

        An input program has one node per e-class, so a walk in Python finds all matches. egglog runs only once an e-class has several
        nodes, that is, after a rule has fired.
        """
        self._activate(numbers, 0)
        self._backoff = Backoff(max(self._limits.rule_matches, self.initial))
        self._shares.renew()
        unions: list[tuple[int, int]] = []
        start = time.perf_counter()
        if not self._mirror.begun:
            self._walked = 0
            unions = self._decide(self._search(), set(), walked=True)
            while not unions and self._backoff.waiting:
                unions = self._decide(self._backoff.release(), set())
        for number in numbers:
            self._group(self.stages[number], unions)
        if unions:
            self.result.rounds += 1
            unions = self._follow_reducing(unions)
            self._note(start)
        if unions and not self._mirror.begun:
            self._begin(unions)
        if self._mirror.begun:
            self._rounds(numbers, unions)

    def _note(self, start: float) -> None:
        """Records the state of the e-graph after an iteration that began at `start`."""
        nodes, (matches, unions) = len(self.graph), self._noted
        self._noted = (self._budget.matches, self._budget.unions)
        made = (self._noted[0] - matches, self._noted[1] - unions)
        self.result.history.append(Round(nodes, nodes - self._merged, *made, time.perf_counter() - start))

    def _search(self, *, reducing: bool = False) -> Tables:
        """The matches of all rules, or of the reducing ones, rooted at nodes not yet visited. The smallest node of an e-class represents
        it, and for reducing rules also the newest one."""
        graph, tables = self.graph, {}
        start, self._walked = self._walked, len(graph)
        nodes: dict[Symbol, list[int]] = {}
        for node in range(start, len(graph)):
            nodes.setdefault(graph.symbols[node], []).append(node)
        self._edges.extend()
        for root, made in nodes.items():
            renewed = [node for node in made if self._is_renewed(node)] if reducing else []
            found: dict[Query, list[tuple[int, ...]]] = {}
            for number in self._by_root.get(root, ()):
                matcher, variant, _ = self._queries[number]
                if self._edges.allow(root, variant) and (matcher.rule.reducing or not reducing):
                    rows = found.get(variant.query)
                    if rows is None:
                        rows = found[variant.query] = variant.search(graph, made)
                        if renewed:
                            rows += variant.again(graph, renewed, self._newest)
                    if rows:
                        tables[number] = rows
        return tables

    def _follow_reducing(self, unions: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Greedy worklist rewriting: applies reducing rules to the nodes that rules have just created, and to what these produce. A scale
        thus crosses ten operators in one egglog iteration instead of ten. Returns the unions, extended.

        Nodes matched here are retired an iteration later, since rules rooted above have not matched them yet. Without greedy rewriting, two
        Llama exports of hidden size 192 and 256 cost 0.5 % more, even with 20 iterations of LinearAlgebra. They take 0.98 to 1.02 of the
        time.
        """
        retired, self._retired = self._retired, {}
        if not self._mirror.begun:
            self._sweep(unions)
        for _ in range(self._limits.rounds):
            tables = self._search(reducing=True)
            if not tables:
                break
            self._followed += [(number, row) for number, rows in tables.items() for row in rows]
            unions = self._decide(tables, set(), unions, walked=True)
        self._retired, self._retired_next = retired, self._retired
        return unions

    def _sweep(self, unions: list[tuple[int, int]]) -> None:
        """Applies reducing rules to what they made where they combined constants, and then to the users of that, in program order. So a
        chain that takes several rules a link, such as products with biases, shrinks from its start on. Otherwise each link would be merged
        with each link before it. Chains of one rule a link need this no more (`_apply_renewed`)."""
        graph, combined = self.graph, self._combined
        if not combined or not any(self._is_stuck(node) for node in self._users_of_combined()):
            return
        made: dict[int, list[int]] = {}
        for node, (_, root) in self.provenance.items():
            made.setdefault(root, []).append(node)
        for node in self._users_of_combined():
            size = len(graph)
            if self._is_stuck(node):
                self._reduce([node], unions)
            elif node not in combined:
                continue
            pending = [*made.get(node, ()), *range(size, len(graph))]
            for _ in range(self._limits.rounds):
                if not pending:
                    break
                size = len(graph)
                self._reduce(pending, unions)
                pending = list(range(size, len(graph)))

    def _users_of_combined(self) -> Iterator[int]:
        """The nodes of the program for which a reducing rule has combined constants, or for an operand."""
        combined, operands = self._combined, self.graph.operands
        return (node for node in range(self.initial) if node in combined or not combined.isdisjoint(operands[node]))

    def _is_stuck(self, node: int) -> bool:
        """True if no reducing rule matched a node, although some have its symbol."""
        queries, root = self._queries, self.graph.symbols[node]
        return node not in self._newest and any(queries[number][0].rule.reducing for number in self._by_root.get(root, ()))

    def _reduce(self, nodes: Iterable[int], unions: list[tuple[int, int]]) -> None:
        """Applies the reducing rules that match at some nodes, if e-classes below are represented by their newest nodes."""
        graph = self.graph
        for node in nodes:
            for number in self._by_root.get(graph.symbols[node], ()):
                matcher, variant, _ = self._queries[number]
                if matcher.rule.reducing:
                    for row in variant.again(graph, (node,), self._newest):
                        if (number, row) not in self._seen:
                            self._followed.append((number, row))
                            self._apply(number, row, self.result.of(matcher.name), unions)
            self._check(len(graph), unions)

    def _group(self, stage: Stage, unions: list[tuple[int, int]]) -> None:
        """Applies the multi-pattern rules once, to the input program, and extends the unions."""
        graph = self.graph
        for grouper in stage.groupers:
            statistics = self.result.of(grouper.name)
            start = time.perf_counter()
            for group in grouper.groups(graph, self.initial, statistics):
                size = len(graph)
                try:
                    made = grouper.build(graph, group)
                except Reject as rejection:
                    statistics.reject(rejection)
                    continue
                self._spend(len(made), unions)
                self._check(size, unions)
                nodes = range(size, len(graph))
                self.provenance.update((node, (grouper.name, group[0][0])) for node in nodes)
                self.together.append(made)
                statistics.unions += len(made)
                unions += made
                if self.steps is not None:
                    matched = tuple([grouper.matcher.placed(graph, match.row) for _, match in group])
                    self.steps.applications.append(Application(grouper.name, grouper, matched, tuple(made), nodes, self.result.rounds))
            statistics.seconds += time.perf_counter() - start

    def _remember_followed(self) -> None:
        """Records the followed matches as seen, under the current names of their e-classes."""
        find = self.graph.find
        for number, row in self._followed:
            classes = len(self._queries[number][0].class_keys)
            self._seen.add((number, (*map(find, row[:classes]), *row[classes:])))
        self._followed = []

    def _rounds(self, numbers: Sequence[int], unions: Sequence[tuple[int, int]]) -> None:
        begun = self.result.rounds - bool(unions)
        while (done := self.result.rounds - begun) < self._limits.rounds and self._activate(numbers, done):
            start = time.perf_counter()
            self._load(unions)
            learned = set()
            if may_explode(self.graph, self.initial):
                learned = self._follow(self._mirror.step()[0])
                if self._foresees_too_many():
                    self._end_excessive()
            tables, learned = self._match(learned)
            self.result.rounds += 1
            self._budget.check_memory()
            self._remember_followed()
            unions = self._decide(tables, learned)
            while not unions and self._backoff.waiting:
                unions = self._decide(self._backoff.release(), set())
            if unions:
                unions = self._follow_reducing(unions)
            self._note(start)
            if not unions:
                self._note_cut(number for number in numbers if number not in self._phase)
                return
        self._note_cut(numbers)
        self._load(unions)
        self._follow(self._mirror.step()[0])
        if done >= self._limits.rounds:
            self.result.stopped = Stop(StopReason.ROUNDS, f"more than {self._limits.rounds}")

    def _note_cut(self, numbers: Iterable[int]) -> None:
        """Records the stages that reached their limit of iterations, for the trace."""
        if self.steps is not None:
            self.steps.cut.update(numbers)

    # ---- egglog's side

    def _match(self, learned: set[int]) -> tuple[Tables, set[int]]:
        """The new matches, and the e-classes whose facts changed, with those `learned` before. Merges make more queries possible: these are
        asked last."""
        first = self._asked()
        moved, tables = self._mirror.step(first)
        learned |= self._follow(moved)
        asked = set(first)
        more = [number for number in self._asked() if number not in asked]
        return {**tables, **self._mirror.step(more)[1]} if more else tables, learned

    def _foresees_too_many(self) -> bool:
        """True if the next iteration would find more matches than the limit."""
        return foresee(self.graph, self._queries, self._asked(), self._limits.matches)

    def _end_excessive(self) -> None:
        """Ends the rules with queries that would each find more than a share, since egglog cannot stop within an iteration."""
        for number in excessive(self.graph, self._queries, self._asked(), self._shares.share):
            self._shares.end(self._queries[number][0].name)
        if self._foresees_too_many():
            raise LimitReached(StopReason.MATCHES, f"the next iteration would find more than {self._limits.matches}")

    def _asked(self) -> list[int]:
        """The active queries that can match, without those of rules that have ended."""
        asked, queries, over = self._mirror.asked(self._active), self._queries, self._shares.over
        return [number for number in asked if queries[number][0].name not in over] if over else asked

    def _begin(self, unions: Sequence[tuple[int, int]]) -> None:
        self._decided = unions
        self._budget.watch_memory()
        self._mirror.begin(min(self._phase, default=0))

    def _load(self, unions: Sequence[tuple[int, int]]) -> None:
        """Makes egglog perform unions; `_follow` mirrors them."""
        self._decided = unions
        retired, self._retired, self._retired_next = self._retired, self._retired_next, {}
        self._united.clear()
        self._mirror.load(unions, retired)

    def _check(self, nodes: int, unions: Sequence[tuple[int, int]]) -> None:
        """Stops with the decisions so far if a limit is reached at this number of nodes."""
        try:
            self._budget.check(nodes - self.initial)
        except LimitReached as limit:
            self._stop(unions, limit)

    def _spend(self, count: int, unions: Sequence[tuple[int, int]]) -> None:
        """Counts unions before they are made; stops with the decisions so far if they exceed the limit."""
        try:
            self._budget.spend(count)
        except LimitReached as limit:
            self._stop(unions, limit)

    def _stop(self, unions: Sequence[tuple[int, int]], limit: LimitReached) -> NoReturn:
        """Applies the decisions so far, so that the best program can be extracted, and re-raises the limit."""
        if not self._mirror.begun:
            self._begin(unions)
        self._load(unions)
        self._follow(self._mirror.step()[0])
        raise limit

    # ---- Python's side

    def _follow(self, moved: Iterable[tuple[int, ...]]) -> set[int]:
        """Merges e-classes as egglog did, and folds new constants. Returns the e-classes whose facts changed."""
        graph, learned = self.graph, set()
        unions: list[tuple[int, int]] = []
        self._decided = ()
        self._edges.extend()
        for node, key in moved:
            before = sorted((graph.find(node), graph.find(key)))
            knew = [cls in graph.constants for cls in before]
            if before[0] != before[1]:
                self._edges.unite(*before)
            united = graph.unite(node, key)
            if united is not None:
                self._merged += 1
                unions.append(united)
                if any(knew) and not all(knew):
                    learned.add(united[0])
        if learned and graph.eager is not None and graph.eager.about_calls:
            learned |= self._update_users(learned)
        if any(analysis.names_classes for analysis in graph.facts):
            learned |= {kept for kept, _ in unions}
        return learned.union(*[facts.update(unions, learned) for facts in graph.facts.values()])

    def _update_users(self, learned: set[int]) -> set[int]:
        """Applies eager rules to users of e-classes that became constant, and in turn to their users."""
        graph = self.graph
        users: dict[int, list[int]] = {}
        for node, operands in enumerate(graph.operands):
            for operand in operands:
                users.setdefault(graph.find(operand), []).append(node)
        folded: set[int] = set()
        pending: list[tuple[int, int]] = []
        work = list(learned)
        while work:
            for user in users.get(work.pop(), ()):
                cls = graph.find(user)
                if cls in graph.constants:
                    continue
                if graph.symbols[user].kind == TUPLE:
                    known = graph.learn_tuple(user)
                else:
                    made = graph.make_again(user)
                    known = made >= 0 and graph.find(made) in graph.constants
                    if known:
                        graph.constants[cls] = graph.constants[graph.find(made)]
                    if made >= 0 and graph.find(made) != cls:
                        pending.append((cls, made))
                if known:
                    folded.add(cls)
                    work.append(cls)
        self._pending = pending
        return folded

    def _decide(
        self, tables: Tables, learned: set[int], earlier: Iterable[tuple[int, int]] = (), *, walked: bool = False
    ) -> list[tuple[int, int]]:
        """Processes matches, which a walk or egglog found; returns the unions to make, after `earlier` ones that are still pending."""
        graph, budget, seen, steps = self.graph, self._budget, self._seen, self.steps
        unions = [*earlier, *self._pending]
        self._pending = ()
        again: dict[int, set[tuple[int, ...]]] = {}
        due = budget.matches + _CHECKED
        if learned:
            for number, row in [*self._rejected, *self._dependent]:
                if any(graph.find(cls) in learned for cls in row[: len(self._queries[number][0].class_keys)]):
                    self._rejected.pop((number, row), None)
                    self._dependent.pop((number, row), None)
                    again.setdefault(number, set()).add(row)
        for number in [number for number in self._active if number in tables or number in again or number in self._backoff.waiting]:
            matcher, _, stage = self._queries[number]
            rows: Sequence[tuple[int, ...]] = tables.get(number, ())
            if not matcher.rule.reducing or matcher.rule.matches:
                rows = self._backoff.due(number, self.result.rounds, rows, matcher.rule.matches or self.stages[stage].rule_matches)
                if steps is not None and not rows and tables.get(number):
                    steps.banned.add(matcher.name)
            if not rows and number not in again:
                continue
            statistics, retried = self.result.of(matcher.name), again.get(number, ())
            start = time.perf_counter()
            for row in (*sorted(retried), *rows):
                key = (number, row)
                if key in seen and row not in retried:
                    continue
                if budget.matches >= due:
                    due = budget.matches + _CHECKED
                    self._check(len(graph), unions)
                renewed = walked and matcher.rule.reducing and self._is_renewed(row[0])
                if not (renewed and self._apply_renewed(number, row, statistics, unions)):
                    self._apply(number, row, statistics, unions)
            statistics.seconds += time.perf_counter() - start
        self._check(len(graph), unions)
        return unions

    def _is_renewed(self, node: int) -> bool:
        """True if a reducing rule has made a node for an operand."""
        return not self._newest.keys().isdisjoint(self.graph.operands[node])

    def _apply_renewed(self, number: int, row: tuple[int, ...], statistics: RuleStatistics, unions: list[tuple[int, int]]) -> bool:
        """Decides the matches that a walk finds at the same root through the newest nodes of e-classes. Returns True if the rule applies to
        one of them, which replaces the given match. A chain thus shrinks from its start on; otherwise each link would be merged with each
        link before it."""
        rows = self._queries[number][1].again(self.graph, row[:1], self._newest)
        if row in rows:
            return False
        self._followed += [(number, each) for each in rows]
        applied = [(number, each) in self._seen or self._apply(number, each, statistics, unions) for each in rows]
        return any(applied)

    def _apply(self, number: int, row: tuple[int, ...], statistics: RuleStatistics, unions: list[tuple[int, int]]) -> bool:
        """Decides a match, and extends the unions. Returns True if the rule applies."""
        graph, budget, steps, key = self.graph, self._budget, self.steps, (number, row)
        matcher, variant, _ = self._queries[number]
        self._seen.add(key)
        if not self._shares.take(matcher.name):
            return False
        budget.matches += 1
        statistics.matches += 1
        size, applied = len(graph.symbols), graph.applied
        try:
            root, built = matcher.decide(graph, row)
        except Reject as rejection:
            statistics.reject(rejection)
            self._rejected[key] = None
            if steps is not None:
                steps.reject(matcher, row, str(rejection), self.result.rounds)
            return False
        if graph.applied > applied:
            budget.matches += _FOLDED * (graph.applied - applied)
            self._shares.spend(matcher.name, _FOLDED_OF_SHARE * (graph.applied - applied))
        if matcher.follows_facts:
            self._dependent[key] = None
        if graph.find(built) != root:
            self._spend(1, unions)
            statistics.unions += 1
            unions.append((root, built))
            if steps is not None:
                made = range(size, len(graph))
                placed = self._placed(matcher, row)
                steps.applications.append(Application(matcher.name, matcher, (placed,), ((root, built),), made, self.result.rounds))
        for node in range(size, len(graph)):
            self.provenance[node] = (matcher.name, root)
        retired = matcher.retired(variant, row)
        if retired is not None and not self._is_itself(matcher.root, retired, built):
            self._retired.setdefault(matcher.root, []).append(retired)
            if steps is not None:
                steps.retired.setdefault(self._placed(matcher, row).nodes[0], matcher.name)
            if built > root:
                self._renew(root, built)
                if graph.applied > applied:
                    self._combined |= {root, self._made_for[built]}
        return True

    def _is_itself(self, head: Symbol, node: Sequence[int], made: int) -> bool:
        """True if a node, given by its operands and payload, is what a rule made for it: nothing replaces it, so it must still match."""
        payload = node[-1] if head.has_payload else 0
        return self.graph.key(made) == (head, payload, tuple(map(self.graph.find, node[: head.arity])))

    def _placed(self, matcher: Matcher, row: tuple[int, ...]) -> Placed:
        """The position of a match in the program, for the trace."""
        members = ChainMap(self._united, self.members)
        return matcher.placed(self.graph, row, members)

    def _renew(self, root: int, built: int) -> None:
        """Remembers the node that a reducing rule made for an e-class, or for another new node of it."""
        cls = self._made_for.setdefault(built, self._made_for.get(root, root))
        for each in {cls, root}:
            self._newest[each] = built
            if self.steps is not None:
                self._united[each] = [*self._united.get(each, self.members.get(each, [each])), built]


def _queries_of(graph: Graph, stages: Sequence[Stage]) -> list[Asked]:
    """The queries for a program: those of rules that may match, in the order of stages and rules. Multi-pattern rules may create any
    operator of their right sides."""
    present = set(graph.symbols)
    possible: Mapping[Directions, Sequence[Matcher]]
    if any(grouper.symbols <= present for stage in stages for grouper in stage.groupers):
        possible = {each: each.matchers for stage in stages for each in stage.rules}
    else:
        possible = reachable(present, stages, () if graph.eager is None else graph.eager.makes)
    return [
        (matcher, variant, number)
        for number, stage in enumerate(stages)
        for each in stage.rules
        for matcher in possible.get(each, ())
        for variant in matcher.variants
    ]

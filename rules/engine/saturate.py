"""Two-phase saturation: egglog matches, Python decides on the matches, and egglog loads the results as TSV tables."""

import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from passat.rules.engine.directions import Stage, queries_of
from passat.rules.engine.edges import Edges
from passat.rules.engine.egraph import EngineError, Query
from passat.rules.engine.foresight import excessive, foresee, may_explode
from passat.rules.engine.graph import Graph
from passat.rules.engine.limits import Backoff, Budget, LimitReached, Limits, Shares, Stop, StopReason
from passat.rules.engine.matching import Matcher
from passat.rules.engine.mirror import Matches, Mirror
from passat.rules.engine.renewals import Renewals
from passat.rules.engine.report import Round, RuleStatistics, Saturation
from passat.rules.engine.symbols import Symbol
from passat.rules.engine.trace import Application, Steps
from passat.rules.engine.variant import Placed
from passat.rules.guards import Reject

_CHECKED: Final = 256
"""Number of matches between checks of the limits."""
_FOLDED: Final = 50
"""Weight of a match whose result an eager rule replaced, in matches: folding a constant takes about as long. Products of constants in
different orders differ by rounding, so each order folds a new constant."""
_FOLDED_OF_SHARE: Final = 3
"""Its weight in the share of a rule. It is smaller, since a chain of constants needs one such match for each link."""


class Saturator:
    """Saturates a graph in stages, under limits.

    Stages that run together are a phase. A phase begins with a walk over the program, if no rule has fired before. After that, each
    iteration gives egglog the unions decided so far (`_load`), gets new matches from it (`_match`), decides them (`_decide`), and applies
    reducing rules to what they made (`_follow_reducing`). Matches are decided in program order, so equal graphs give equal results.
    """

    def __init__(self, graph: Graph, stages: Sequence[Stage], limits: Limits, *, steps: Steps | None = None) -> None:
        self.graph = graph
        self.stages = stages
        self.initial = len(graph)
        """The number of nodes of the program."""
        self.result = Saturation()
        self.provenance: dict[int, tuple[str, int]] = {}
        """The rule and the root e-class of each new node."""
        self.together: list[list[tuple[int, int]]] = []
        """For each application of a multi-pattern rule, and each common part of sums and products: the roots and the nodes that may replace
        them jointly."""
        self.steps = steps
        """Records each application and rejection, if the run is traced."""

        self._limits = limits
        self._budget = Budget(limits)
        self._shares = Shares(limits.share(self.initial))
        self.result.ended = self._shares.ended

        self._queries = queries_of(graph, stages)
        self._edges = Edges(graph)
        self._mirror = Mirror(graph, self._queries, self._edges)
        self._active_stages: Sequence[int] = ()
        """The stages of the phase that have iterations left."""
        self._active: Sequence[int] = ()
        """Their queries."""
        self._by_root: Mapping[Symbol, Sequence[int]] = {}
        """Their queries by the symbol of the root."""

        self._unions: list[tuple[int, int]] = []
        """The unions decided since egglog was last loaded."""
        self._learned: set[int] = set()
        """The e-classes whose facts changed since matches were last decided."""
        self._seen: set[tuple[int, tuple[int, ...]]] = set()
        """The matches decided, by query."""
        self._open: set[tuple[int, tuple[int, ...]]] = set()
        """Those that are decided again when a fact changes: the rule rejected them, or computes its right side from facts."""
        self._followed: list[tuple[int, tuple[int, ...]]] = []
        """The matches that walks through new nodes found since egglog's last iteration, which finds them again."""
        self._renewals = Renewals(graph, traced=steps is not None)
        self._walked = 0
        """The number of nodes at which walks have matched."""

    def run(self) -> Saturation:
        """Runs the stages, each until it is saturated or reaches a limit. If egglog fails, keeps the decisions made so far."""
        try:
            self._run_phases()
        except EngineError as error:
            self._mirror.abandon(self._unions)
            self.result.stopped = Stop(StopReason.FAILED, str(error))
        self._mirror.close()
        if self.graph.common_parts is not None:
            self.together += self.graph.common_parts.together()
        if self.steps is None:
            self.graph.release()
        self.result.nodes = len(self.graph)
        return self.result

    def _run_phases(self) -> None:
        """Runs the phases. At a limit, makes the unions decided so far, from which the best program is extracted."""
        try:
            self._budget.check(0)
            for phase in self._phases():
                self._run_phase(phase)
        except LimitReached as limit:
            self.result.stopped = limit.stop
            if self._unions or self._mirror.begun:
                self._settle()

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
        stages = [number for number in numbers if rounds < (self.stages[number].rounds or self._limits.rounds + 1)]
        if stages != self._active_stages:
            self._active_stages = stages
            by_root: dict[Symbol, list[int]] = {}
            for number, query in enumerate(self._queries):
                if query.stage in stages:
                    by_root.setdefault(query.matcher.root, []).append(number)
            self._by_root, self._active = by_root, sorted(itertools.chain(*by_root.values()))
        return bool(stages)

    def _run_phase(self, numbers: Sequence[int]) -> None:
        """Runs stages together, each until it is saturated or for its number of iterations.

        An input program has one node per e-class, so a walk in Python finds all matches. egglog runs only once an e-class has several
        nodes, that is, after a rule has fired.
        """
        start, before, applied = time.perf_counter(), self.result.rounds, self._budget.unions
        self._activate(numbers, 0)
        self._backoff = Backoff(max(self._limits.rule_matches, self.initial))
        self._shares.renew()
        if not self._mirror.begun:
            self._walked = 0
            self._decide(self._walk(), walked=True)
        for number in numbers:
            self._group(self.stages[number])
        if self._budget.unions > applied:
            self.result.rounds += 1
            self._follow_reducing()
            self._note(start)
        if self._unions or self._mirror.begun:
            self._iterate(numbers, before)

    def _iterate(self, numbers: Sequence[int], before: int) -> None:
        """Runs the iterations of a phase, before which `before` were run."""
        while (done := self.result.rounds - before) < self._limits.rounds and self._activate(numbers, done):
            start = time.perf_counter()
            self._load()
            matches = self._match()
            self.result.rounds += 1
            self._budget.check_memory()
            self._remember_followed()
            self._decide(matches)
            if self._unions:
                self._follow_reducing()
            self._note(start)
            if not self._unions:
                self._note_cut(number for number in numbers if number not in self._active_stages)
                return
        self._note_cut(numbers)
        self._settle()
        if done >= self._limits.rounds:
            self.result.stopped = Stop(StopReason.ROUNDS, f"more than {self._limits.rounds}")

    def _note(self, start: float) -> None:
        """Records the state of the e-graph after an iteration that began at `start`."""
        nodes, history, budget = len(self.graph), self.result.history, self._budget
        matches = budget.matches - sum(each.matches for each in history)
        unions = budget.unions - sum(each.unions for each in history)
        history.append(Round(nodes, nodes - self._mirror.merged, matches, unions, time.perf_counter() - start))

    def _note_cut(self, numbers: Iterable[int]) -> None:
        """Records the stages that reached their limit of iterations, for the trace."""
        if self.steps is not None:
            self.steps.cut.update(numbers)

    # ---- matches

    def _load(self) -> None:
        """Gives egglog the unions decided so far and the nodes to retire, for its next iteration."""
        if not self._mirror.begun:
            self._budget.watch_memory()
            self._mirror.begin(min(self._active_stages, default=0))
        unions, self._unions = self._unions, []
        self._mirror.load(unions, self._renewals.next_retired())

    def _settle(self) -> None:
        """Makes the unions decided so far without matching, and those that follow from eager rules: users of what became constant."""
        while True:
            self._load()
            self._step()
            if not self._unions:
                return

    def _step(self, asked: Sequence[int] = ()) -> Matches:
        """An iteration of egglog: merges e-classes, and returns the new matches of some queries."""
        step = self._mirror.step(asked)
        self._learned |= step.learned
        self._unions += step.unions
        return step.matches

    def _match(self) -> Matches:
        """The new matches of egglog. Merges make more queries possible: these are asked last."""
        if may_explode(self.graph, self.initial):
            self._step()
            self._end_excessive()
        first = self._asked()
        matches = self._step(first)
        asked = set(first)
        more = [number for number in self._asked() if number not in asked]
        return {**matches, **self._step(more)} if more else matches

    def _asked(self) -> list[int]:
        """The active queries that can match, without those of rules that have ended."""
        asked, queries, over = self._mirror.asked(self._active), self._queries, self._shares.over
        return [number for number in asked if queries[number].matcher.name not in over] if over else asked

    def _end_excessive(self) -> None:
        """If the next iteration would find more matches than the limit, ends the rules with queries that would each find more than a share,
        since egglog cannot stop within an iteration."""
        if self._foresees_too_many():
            for query in excessive(self.graph, map(self._queries.__getitem__, self._asked()), self._shares.share):
                self._shares.end(query.matcher.name)
            if self._foresees_too_many():
                raise LimitReached(StopReason.MATCHES, f"the next iteration would find more than {self._limits.matches}")

    def _foresees_too_many(self) -> bool:
        """True if the next iteration would find more matches than the limit."""
        return foresee(self.graph, map(self._queries.__getitem__, self._asked()), self._limits.matches)

    def _walk(self, *, reducing: bool = False) -> Matches:
        """The matches of all rules, or of the reducing ones, rooted at nodes not yet visited. The smallest node of an e-class represents
        it, and for reducing rules also the newest one."""
        graph, matches = self.graph, Matches()
        start, self._walked = self._walked, len(graph)
        nodes: dict[Symbol, list[int]] = {}
        for node in range(start, len(graph)):
            nodes.setdefault(graph.symbols[node], []).append(node)
        self._edges.extend()
        for root, made in nodes.items():
            renewed = list(filter(self._renewals.is_renewed, made)) if reducing else []
            found: dict[Query, list[tuple[int, ...]]] = {}
            for number in self._by_root.get(root, ()):
                matcher, variant, _ = self._queries[number]
                if self._edges.allow(root, variant) and (matcher.rule.reducing or not reducing):
                    rows = found.get(variant.query)
                    if rows is None:
                        rows = found[variant.query] = variant.search(graph, made)
                        if renewed:
                            rows += self._renewals.matches(variant, renewed)
                    if rows:
                        matches[number] = rows
        return matches

    # ---- reducing rules

    def _follow_reducing(self) -> None:
        """Greedy worklist rewriting: applies reducing rules to the nodes that rules have just created, and to what these produce. A scale
        thus crosses ten operators in one egglog iteration instead of ten.

        Nodes matched here are retired an iteration later, since rules rooted above have not matched them yet. Without greedy rewriting, two
        Llama exports of hidden size 192 and 256 cost 0.5 % more, even with 20 iterations of LinearAlgebra. They take 0.98 to 1.02 of the
        time.
        """
        with self._renewals.postponed():
            if not self._mirror.begun:
                self._sweep()
            for _ in range(self._limits.rounds):
                matches = self._walk(reducing=True)
                if not matches:
                    break
                self._followed += [(number, row) for number, rows in matches.items() for row in rows]
                self._decide(matches, walked=True)

    def _sweep(self) -> None:
        """Applies reducing rules to what they made where they combined constants, and then to the users of that, in program order. So a
        chain that takes several rules a link, such as products with biases, shrinks from its start on. Otherwise each link would be merged
        with each link before it. Chains of one rule a link need this no more (`_apply_renewed`)."""
        graph, renewals = self.graph, self._renewals
        if not any(map(self._is_stuck, renewals.users_of_combined(self.initial))):
            return
        made: dict[int, list[int]] = {}
        for node, (_, root) in self.provenance.items():
            made.setdefault(root, []).append(node)
        for node in renewals.users_of_combined(self.initial):
            size = len(graph)
            if self._is_stuck(node):
                self._reduce([node])
            elif node not in renewals.combined:
                continue
            pending = [*made.get(node, ()), *range(size, len(graph))]
            for _ in range(self._limits.rounds):
                if not pending:
                    break
                size = len(graph)
                self._reduce(pending)
                pending = list(range(size, len(graph)))

    def _is_stuck(self, node: int) -> bool:
        """True if no reducing rule matched a node, although some have its symbol."""
        queries, root = self._queries, self.graph.symbols[node]
        return node not in self._renewals.newest and any(queries[number].matcher.rule.reducing for number in self._by_root.get(root, ()))

    def _reduce(self, nodes: Iterable[int]) -> None:
        """Applies the reducing rules that match at some nodes, if e-classes below are represented by their newest nodes."""
        for node in nodes:
            for number in self._by_root.get(self.graph.symbols[node], ()):
                matcher, variant, _ = self._queries[number]
                if matcher.rule.reducing:
                    for row in self._renewals.matches(variant, (node,)):
                        if (number, row) not in self._seen:
                            self._followed.append((number, row))
                            self._apply(number, row, self.result.of(matcher.name))
            self._check()

    def _remember_followed(self) -> None:
        """Records the followed matches as seen, under the current names of their e-classes."""
        find = self.graph.find
        for number, row in self._followed:
            classes = len(self._queries[number].matcher.class_keys)
            self._seen.add((number, (*map(find, row[:classes]), *row[classes:])))
        self._followed = []

    # ---- decisions

    def _check(self) -> None:
        """Raises LimitReached if there are too many nodes or matches, or the time is up."""
        self._budget.check(len(self.graph) - self.initial)

    def _group(self, stage: Stage) -> None:
        """Applies the multi-pattern rules once, to the input program."""
        graph = self.graph
        for grouper in stage.groupers:
            statistics = self.result.of(grouper.name)
            start = time.perf_counter()
            for group in grouper.groups(graph, self.initial, statistics):
                self._check()
                size = len(graph)
                try:
                    made = grouper.build(graph, group)
                except Reject as rejection:
                    statistics.reject(rejection)
                    continue
                self._budget.spend(len(made))
                nodes = range(size, len(graph))
                self.provenance.update((node, (grouper.name, group[0][0])) for node in nodes)
                self.together.append(made)
                statistics.unions += len(made)
                self._unions += made
                if self.steps is not None:
                    matched = tuple([grouper.matcher.placed(graph, match.row) for _, match in group])
                    self.steps.applications.append(Application(grouper.name, grouper, matched, tuple(made), nodes, self.result.rounds))
            statistics.seconds += time.perf_counter() - start

    def _decide(self, matches: Matches, *, walked: bool = False) -> None:
        """Decides matches, which a walk or egglog found. If no rule applies, decides those that were deferred."""
        self._decide_due(matches, walked=walked)
        while not self._unions and self._backoff.waiting:
            self._decide_due(self._backoff.release())

    def _decide_due(self, matches: Matches, *, walked: bool = False) -> None:
        """Decides matches, those that were deferred and are due, and those whose facts changed."""
        budget, seen, steps, again = self._budget, self._seen, self.steps, self._reopened()
        due = budget.matches + _CHECKED
        for number in [number for number in self._active if number in matches or number in again or number in self._backoff.waiting]:
            matcher, _, stage = self._queries[number]
            rows: Sequence[tuple[int, ...]] = matches.get(number, ())
            if not matcher.rule.reducing or matcher.rule.matches:
                rows = self._backoff.due(number, self.result.rounds, rows, matcher.rule.matches or self.stages[stage].rule_matches)
                if steps is not None and not rows and matches.get(number):
                    steps.banned.add(matcher.name)
            if not rows and number not in again:
                continue
            statistics, retried = self.result.of(matcher.name), again.get(number, ())
            start = time.perf_counter()
            for row in (*sorted(retried), *rows):
                if (number, row) in seen and row not in retried:
                    continue
                if budget.matches >= due:
                    due = budget.matches + _CHECKED
                    self._check()
                renewed = walked and matcher.rule.reducing and self._renewals.is_renewed(row[0])
                if not (renewed and self._apply_renewed(number, row, statistics)):
                    self._apply(number, row, statistics)
            statistics.seconds += time.perf_counter() - start
        self._check()

    def _reopened(self) -> dict[int, set[tuple[int, ...]]]:
        """The matches to decide again, since a fact about one of their e-classes has changed."""
        again: dict[int, set[tuple[int, ...]]] = {}
        learned, self._learned = self._learned, set()
        for number, row in list(self._open) if learned else ():
            if any(self.graph.find(cls) in learned for cls in row[: len(self._queries[number].matcher.class_keys)]):
                self._open.remove((number, row))
                again.setdefault(number, set()).add(row)
        return again

    def _apply_renewed(self, number: int, row: tuple[int, ...], statistics: RuleStatistics) -> bool:
        """Decides the matches that a walk finds at the same root through the newest nodes of e-classes. Returns True if the rule applies to
        one of them, which replaces the given match. A chain thus shrinks from its start on; otherwise each link would be merged with each
        link before it."""
        rows = self._renewals.matches(self._queries[number].variant, row[:1])
        if row in rows:
            return False
        self._followed += [(number, each) for each in rows]
        applied = [(number, each) in self._seen or self._apply(number, each, statistics) for each in rows]
        return any(applied)

    def _apply(self, number: int, row: tuple[int, ...], statistics: RuleStatistics) -> bool:
        """Decides a match. Returns True if the rule applies."""
        graph, budget, steps, key = self.graph, self._budget, self.steps, (number, row)
        matcher, variant, _ = self._queries[number]
        self._seen.add(key)
        if not self._shares.take(matcher.name):
            return False
        budget.matches += 1
        statistics.matches += 1
        size, applied = len(graph), graph.applied
        try:
            root, built = matcher.decide(graph, row)
        except Reject as rejection:
            statistics.reject(rejection)
            self._open.add(key)
            if steps is not None:
                steps.reject(matcher, row, str(rejection), self.result.rounds)
            return False
        folded = graph.applied - applied
        if folded:
            budget.matches += _FOLDED * folded
            self._shares.spend(matcher.name, _FOLDED_OF_SHARE * folded)
        if matcher.follows_facts:
            self._open.add(key)
        if graph.find(built) != root:
            budget.spend(1)
            statistics.unions += 1
            self._unions.append((root, built))
            if steps is not None:
                placed, made = self._placed(matcher, row), range(size, len(graph))
                steps.applications.append(Application(matcher.name, matcher, (placed,), ((root, built),), made, self.result.rounds))
        for node in range(size, len(graph)):
            self.provenance[node] = (matcher.name, root)
        retired = matcher.retired(variant, row)
        if retired is not None and not self._is_itself(matcher.root, retired, built):
            self._renewals.retire(matcher.root, retired)
            if steps is not None:
                steps.retired.setdefault(self._placed(matcher, row).nodes[0], matcher.name)
            if built > root:
                self._renewals.renew(root, built, combines=folded > 0)
        return True

    def _is_itself(self, head: Symbol, node: Sequence[int], made: int) -> bool:
        """True if a node, given by its operands and payload, is what a rule made for it: nothing replaces it, so it must still match."""
        payload = node[-1] if head.has_payload else 0
        return self.graph.key(made) == (head, payload, tuple(map(self.graph.find, node[: head.arity])))

    def _placed(self, matcher: Matcher, row: tuple[int, ...]) -> Placed:
        """The position of a match in the program, for the trace."""
        return matcher.placed(self.graph, row, self._renewals.members())

"""Collects findings about one rule from the saturations of a pipeline."""

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from passat.ir.counting import counted
from passat.ir.long_words import listed
from passat.rules.engine.directions import Stage
from passat.rules.engine.grouping import Grouper
from passat.rules.engine.limits import INTERRUPTED, SATURATED, StopReason
from passat.rules.engine.matching import Matcher
from passat.rules.engine.report import Saturation, Skipped
from passat.rules.engine.trace import Application, Run
from passat.rules.extraction.extract import unwritable
from passat.rules.guards import Reject
from passat.rules.why_not.align import Aligner, Alignment, nearness
from passat.rules.why_not.answer import Finding, Kind, bare, near_miss, ordinal, times, why_apart
from passat.rules.why_not.view import View
from passat.rules.why_not.watch import Priced, Ran, RunTrace, extra_costs, views_of_module

_KEPT: Final = 50
"""Number of near misses kept per saturation beyond those requested, since several may be at one node."""


class Asked(NamedTuple):
    """The query: which rule, at which node (None: anywhere), how many near misses, how to show costs, the match budget of a rule per
    iteration, and the remarks of passes."""

    rule: Matcher | Grouper
    node: str | None
    nearest: int
    money: Callable[[float], str]
    budget: int
    remarks: Mapping[str, Sequence[str]]


class Collector:
    """Collects findings about a rule, one saturation after the other."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self._found: dict[tuple[Kind, str], dict[str, set[str]]] = {}
        self._costs: dict[tuple[Kind, str], Priced] = {}
        self._near: list[tuple[View, Alignment, str]] = []
        self._apart: dict[str, Finding] = {}
        self._runs: dict[str, list[str]] = {}
        self._left: str | None = None
        self._gone: set[str] = set()

    def add_pass(self, ran: Ran, run: int = 1, runs: int = 1) -> None:
        """Adds findings about the rule in a pass, or in one of its runs. If the engine ruled out matches in advance, there was no
        saturation, and the pass's input is examined."""
        with np.errstate(all="ignore"):  # as in the engine
            self._add_pass(ran, run, runs)

    def _add_pass(self, ran: Ran, run: int, runs: int) -> None:
        label = ran.name if runs == 1 else f"the {ordinal(run - 1)} run of {ran.name}"
        self._runs.setdefault(ran.name, []).append(label)
        remarks = self.asked.remarks.get(ran.name, ())
        self._left = next((remark for remark in remarks if isinstance(remark, Skipped)), None)
        present = [run_trace for run_trace in ran.runs if rule_in(run_trace.run, self.asked.rule.name) is not None]
        for run_trace in present:
            self._add(run_trace, label)
        seen = {run_trace.run.function for run_trace in present}
        for name, views in views_of_module(ran.before).items():
            if name not in seen:
                for view in views:
                    self._look_near(view, label, None)

    def _add(self, run_trace: RunTrace, pass_name: str) -> None:
        run, view, name = run_trace.run, run_trace.view, self.asked.rule.name
        applied = [i for i, application in enumerate(run.applications) if application.rule == name]
        if applied:
            self._applied(run_trace, pass_name, applied)
        fired = {run.graph.find(root) for i in applied for root, _ in run.applications[i].unions}
        roots = {run_trace.matched[i][0] for i in applied}

        def has_fired(root: int) -> bool:
            """Whether the rule fired at a node of the e-class; for a query about one node, at this very node."""
            return run.graph.find(root) in fired and (self.asked.node is None or view.is_made(root) or root in roots)

        agree: dict[int, bool] = {}
        aligner = Aligner(self.asked.rule, view) if isinstance(self.asked.rule, Matcher) else None
        for one in run.rejected.get(name, ()):
            nodes = one.matcher.placed(run.graph, one.row, run.graph.members).nodes
            if has_fired(nodes[0]):
                continue
            if nodes[0] not in agree:
                laid = None if aligner is None else aligner.at(nodes[0])
                agree[nodes[0]] = laid is None or not laid.failures
            # A mismatched attribute or number makes a near miss, although the engine checks it late.
            if agree[nodes[0]] and self._is_asked(view, nodes):
                self._note(Kind.REJECTED, one.reason, view.place(nodes[0]), pass_name)
        self._look_near(view, pass_name, run_trace, has_fired)

    # ---- matches that were applied

    def _applied(self, run_trace: RunTrace, pass_name: str, applied: Sequence[int]) -> None:
        run, view = run_trace.run, run_trace.view
        left = run.result is run.body and run.choice is not None and any(node in run.provenance for node in run.choice.values())
        not_taken: list[tuple[Application, Sequence[str]]] = []
        taken = {run_trace.matched[i][0] for i in applied if run_trace.taken[i]}
        for i in applied:
            application, nodes = run.applications[i], run_trace.matched[i]
            if not self._is_asked(view, nodes):
                continue
            several = isinstance(application.matcher, Grouper)
            if not several and nodes[0] in taken and not run_trace.taken[i]:  # it matched with the operands in another order, too
                continue
            places = [view.place(root) for root in (nodes if several else nodes[:1])]
            if run_trace.taken[i]:
                said = self._left or "unchanged"
                for place in places:
                    self._note(*(Kind.LEFT, said) if left else (Kind.TAKEN, ""), place, pass_name)
            elif not several and run.graph.key(application.unions[0][1]) == run.graph.key(nodes[0]):
                self._note(Kind.COSTLIER, "other rules made it equal to the original", places[0], pass_name)
            else:
                not_taken.append((application, places))
        if run.choice is None:  # of lowering rules
            for _, stood in not_taken:
                for place in stood:
                    self._note(Kind.COSTLIER, "the results of the rules depend on the calls that they match", place, pass_name)
        elif not_taken:
            costs = extra_costs(run, [application for application, _ in not_taken])
            for (application, stood), priced in zip(not_taken, costs, strict=True):
                text = self._why_not_taken(run_trace, application, priced)
                for place in stood:
                    self._note(Kind.COSTLIER, text, place, pass_name)
                if priced is not None:
                    self._costs[Kind.COSTLIER, text] = priced

    def _why_not_taken(self, run_trace: RunTrace, application: Application, priced: Priced | None) -> str:
        run = run_trace.run
        nodes = dict.fromkeys([*application.made, *(made for _, made in application.unions)])
        if missing := next(filter(None, (unwritable(run.graph, node) for node in nodes if node >= run.initial)), ""):
            return missing
        if priced is not None:
            extra, cost = priced
            money = self.asked.money
            if extra <= 1e-9 * cost:
                if instead := self._instead(run_trace, application):
                    return f"the program costs the same with it ({money(cost)}), and the result of {instead} is kept"
                return f"the program costs the same with it ({money(cost)}), so the original is kept"
            return f"the program costs {money(cost)}, and would cost {money(extra)} more with it"
        if run.choice is not None and any(run.graph.find(root) in run.choice for root, _ in application.unions):
            by = listed(run_trace.made_cyclic(application))
            return "it would make the program cyclic" + (f": {by} made it equal to a part of its result" if by else "")
        above = run_trace.rewritten_above(application)
        text = "that node is no longer part of the program" + (f": {above[0]} rewrote {run_trace.view.place(above[1])}" if above else "")
        self._gone.add(text)
        return text

    def _instead(self, run_trace: RunTrace, application: Application) -> str:
        """The rules whose results were extracted in place of that of an application."""
        graph = run_trace.run.graph
        classes = {graph.find(root) for root, _ in application.unions}
        applied = zip(run_trace.run.applications, run_trace.taken, strict=True)
        return listed([one.rule for one, used in applied if used and any(graph.find(root) in classes for root, _ in one.unions)])

    # ---- unapplied matches and near misses

    def _look_near(
        self, view: View, pass_name: str, run_trace: RunTrace | None, has_fired: Callable[[int], bool] = lambda _: False
    ) -> None:
        rule, node = self.asked.rule, self.asked.node
        if isinstance(rule, Grouper) and run_trace is not None:  # multi-pattern rules match only the input program
            graph = run_trace.run.graph.anew()
            graph.load(run_trace.run.body)
            view = View(graph)
        aligner = Aligner(rule.matcher if isinstance(rule, Grouper) else rule, view)
        found = aligner.nearest()
        if node is not None:
            named = [each for each in range(len(view.graph)) if view.is_live(each) and view.is_any([each], node)]
            here = [one for each in named if (one := aligner.at(each)) is not None]
            found = [one for one in found if self._is_asked(view, one.nodes)]
            found += [one for one in here if all(one.root != other.root for other in found)]
        if isinstance(rule, Matcher):
            complete = [one for one in found if not one.failures and not has_fired(one.root)]
            if run_trace is not None:
                self._add_complete(run_trace, pass_name, rule, complete)
            elif self._left is not None:
                for one in complete:
                    self._note(Kind.LEFT, self._left, view.place(one.root), pass_name)
        self._near += [(view, one, pass_name) for one in found if one.failures][: _KEPT + self.asked.nearest]
        for finding in why_apart(rule, view, pass_name, node) if isinstance(rule, Grouper) else ():  # last, since it adds nodes
            known = self._apart.get(finding.text, finding)
            self._apart[finding.text] = known._replace(passes=tuple(dict.fromkeys((*known.passes, pass_name))))

    def _add_complete(self, run_trace: RunTrace, pass_name: str, rule: Matcher, found: Sequence[Alignment]) -> None:
        """Records matches that the engine did not process, or that changed nothing."""
        run, view, graph = run_trace.run, run_trace.view, run_trace.run.graph

        def same(row: Sequence[int]) -> tuple[int, ...]:
            count = len(rule.class_keys)
            return (*map(graph.find, row[:count]), *row[count:])

        rejected = {same(one.row) for one in run.rejected.get(rule.name, ())}
        made: dict[int, list[str]] = {}
        for each in run.applications:
            for cls, _ in each.unions:
                made.setdefault(graph.find(cls), []).append(each.rule)
        for one in found:
            row = one.row(rule)
            if same(row) in rejected:
                continue
            place = view.place(one.root)
            try:
                root, built = rule.decide(graph, row)
            except Reject as rejection:
                self._note(Kind.REJECTED, str(rejection), place, pass_name)
                continue
            if graph.find(built) == root:
                by = listed(made.get(root, []))
                self._note(Kind.NOTHING_NEW, f"{by} created it" if by else "it was in the program from the start", place, pass_name)
            elif rule.name in run.saturation.ended:
                self._note(Kind.CUT, f"it {run.saturation.ended[rule.name]}", place, pass_name)
            elif run.saturation.stopped != SATURATED:
                self._note(Kind.CUT, self._limit(run, rule), place, pass_name)
            else:
                self._note(*self._overlooked(run_trace, rule, one), place, pass_name)

    def _limit(self, run: Run, rule: Matcher) -> str:
        stage = _stage_of(run, rule)
        budget = rule.rule.matches or stage.rule_matches or max(self.asked.budget, run.initial)
        stopped = stopped_text(run.saturation)
        if rule.name in run.banned:
            return (
                f"it exceeded its budget of {counted(budget, 'match')} in an iteration, was banned (back-off), "
                f"and {stopped} before it ran again"
            )
        return f"{stopped} before it was processed"

    def _overlooked(self, run_trace: RunTrace, rule: Matcher, one: Alignment) -> tuple[Kind, str]:
        """Why the engine missed a match although it ran to the end."""
        run = run_trace.run
        node = next((node for node in one.nodes if node in run.retired), None)
        if node is not None:
            by = run.retired[node]
            rewrote = any(each.rule == by and node in nodes for each, nodes in zip(run.applications, run_trace.matched, strict=True))
            return Kind.RETIRED, f"{by} {'rewrote' if rewrote else 'matched'} it first{'' if rewrote else ', where its result already was'}"
        last = max(number for number, stage in enumerate(run.stages) if any(each.name == rule.name for each in stage.matchers))
        if last in run.cut:
            rounds = run.stages[last].rounds
            return Kind.CUT, f"its phase ended after {'one iteration' if rounds == 1 else f'{rounds} iterations'}, before it was processed"
        if any(not stage.beside for stage in run.stages[last + 1 :]):
            makers = listed([run.provenance[node][0] for node in one.nodes if node in run.provenance])
            return Kind.CUT, f"its phase had ended when {makers or 'a later one'} made what it matches"
        return Kind.CUT, "the search missed it, which is a defect of Passat; please report it"

    # ---- results

    def _is_asked(self, view: View, nodes: Sequence[int]) -> bool:
        return self.asked.node is None or view.is_any(nodes, self.asked.node)

    def _note(self, kind: Kind, reason: str, place: str, pass_name: str) -> None:
        places = self._found.setdefault((kind, reason), {})
        places.setdefault(place, set()).add(pass_name)

    def findings(self) -> list[Finding]:
        """All findings except those about passes that did not run; the near misses if there is no match."""
        found = []
        fired = any(kind is Kind.TAKEN for kind, _ in self._found)
        for (kind, reason), places in self._found.items():
            if fired and self.asked.node is None and kind is Kind.COSTLIER and reason in self._gone:
                continue  # intermediate results of rules
            passes = self._passes({name for names in places.values() for name in names})
            where = f"at {listed(list(places))} (in {listed(passes)})"
            extra, cost = self._costs.get((kind, reason), (None, None))
            text = SENTENCES[kind].format(where=where, reason=reason, times=times(len(places)))
            found.append(Finding(kind, text, bare(places), tuple(passes), len(places), extra, cost))
        if not any(finding.kind in (Kind.TAKEN, Kind.COSTLIER) for finding in found):
            found += [each._replace(passes=tuple(self._passes(each.passes))) for each in self._apart.values()]
        if not found:
            found = self._nearest()
        return sorted(found, key=lambda finding: list(Kind).index(finding.kind))

    def _passes(self, labels: Container[str]) -> list[str]:
        """The passes with findings; for a pass that ran several times, only the runs with findings, unless all have some."""
        found: list[str] = []
        for name, runs in self._runs.items():
            these = [label for label in runs if label in labels]
            found += [name] if len(these) == len(runs) else these
        return found

    def _nearest(self) -> list[Finding]:
        near: dict[str, Finding] = {}
        self._near.sort(key=lambda near: nearness(near[0], near[1]))
        for view, one, pass_name in self._near:
            text = near_miss(view, one)
            place = view.place(one.root)
            if text in near:
                near[text] = near[text]._replace(passes=(*near[text].passes, pass_name))
            elif all(bare([place]) != other.nodes for other in near.values()) and len(near) < self.asked.nearest:
                near[text] = Finding(Kind.NEAR, text, bare([place]), (pass_name,), agreed=one.agreed, parts=one.parts)
        return [finding._replace(passes=tuple(self._passes(finding.passes))) for finding in near.values()]


SENTENCES: Final = {
    Kind.TAKEN: "it fired {times}, and its result was extracted: {where}",
    Kind.COSTLIER: "it fired {where}, but its result was not extracted: {reason}",
    Kind.LEFT: "it matches {where}, but the function was {reason}",
    Kind.REJECTED: "it matches {where} and is rejected: {reason}",
    Kind.CUT: "it matches {where}, but {reason}",
    Kind.RETIRED: "it matches {where}, but {reason}, and matches of reducing rules are not matched again",
    Kind.NOTHING_NEW: "it matches {where}, but its right side already exists: {reason}",
}


def rule_in(run: Run, name: str) -> Matcher | Grouper | None:
    """The rule of that name in a saturation; None if it was not active."""
    matchers = [each for stage in run.stages for each in stage.matchers]
    groupers = [each for stage in run.stages for each in stage.groupers]
    return next((each for each in matchers if each.name == name), None) or next((each for each in groupers if each.name == name), None)


def _stage_of(run: Run, rule: Matcher) -> Stage:
    """The stage in which a saturation runs a rule."""
    return next(stage for stage in run.stages if any(each.name == rule.name for each in stage.matchers))


def stopped_text(saturation: Saturation) -> str:
    """How an incomplete saturation stopped."""
    stop = saturation.stopped
    if stop.reason is StopReason.FAILED:
        return f"the engine failed ({stop})"
    return f"saturation {'was ' if stop == INTERRUPTED else ''}{stop}"

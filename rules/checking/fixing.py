"""Proposes the weakest guard over holes and terms that fixes a rule."""

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any as AnyValue
from typing import Final

import numpy as np
import numpy.typing as npt

from passat.ir.op import REQUIRED, Op
from passat.ir.tensor import Array
from passat.rules import guards as library
from passat.rules.attribute_arithmetic import equals
from passat.rules.checking.trial import WRONG, Trial, Trier, Verdict
from passat.rules.checking.trying import Checked, tried, triers
from passat.rules.engine.bindings import Bindings
from passat.rules.expansion import with_parts
from passat.rules.guards import Guard, Reject, guard
from passat.rules.multi_pattern import Each, MultiRule
from passat.rules.pattern import AttrHole, Pattern, PCall, PConst, PGet, PVar
from passat.rules.rule import FINITE, KEPT, LIBERTIES, Liberty, Rule
from passat.rules.subterms import subterms

Match = tuple[Bindings, ...]
_INSTANCES: Final = 100
"""Number of instances of each kind that guards are compared on."""
_ROUNDS: Final = 8
"""Number of guards that are tried on new instances before giving up."""
_ENOUGH: Final = 3
"""Number of counterexamples after which a guard is dropped."""
_AGAIN: Final = 2
"""Rounds of validation, each on twice as many instances as a check, that a guard must pass."""
_OF_TWO: Final = 0.6
"""Weight of the instances that two guards accept, relative to a single guard."""
_OF_TERMS: Final = 0.8
"""Weight of the instances that a guard over terms accepts, relative to one over holes."""
_SHARE: Final = 0.1
"""Minimum share of correct instances that a guard must accept."""
_NOTE: Final = "to be stated"


@guard
def _names(*terms: AnyValue) -> bool | str:
    """Always holds; binds the terms that it names."""
    return True


def fix(checked: Checked, seed: int, instances: int) -> str:
    """The fix, as source text: `.when(same_shape(x, y))`; empty if none is found.

    First tries a weaker claim about values, and attributes that the left side leaves open; then guards, for the rule and for these forms of
    it.
    """
    forms, known = list(_forms(checked.rule)), [checked]
    for text, rule in forms[1:]:
        if not _still_wrong(rule, checked) and _is_sound(rule, seed, instances):
            return text
    for liberty in LIBERTIES:
        found = []
        for text, rule in forms:
            if rule.liberty == liberty:
                if rule is not checked.rule:
                    known.append(tried(rule, seed, instances))
                guards = _guards_for(rule, known, seed, instances)
                found += [(len(guards), text, guards)] if guards else []
        if found:
            _, text, guards = min(found, key=lambda entry: entry[0])
            joint = "" if not text or text.startswith(".") else ", and "
            return f"{text}{joint}.when({', '.join(_source(guard, checked.rule) for guard in guards)})"
    return ""


def _source(guard: Guard, rule: Rule) -> str:
    """A guard as a rule file writes it: `op.` before the operators, which texts of patterns omit."""
    names = {call.op.name for call in subterms(rule.lhs) if isinstance(call, PCall) and isinstance(call.op, Op)}
    return re.sub(rf"(?<![\w.])({'|'.join(map(re.escape, names))})\(", r"op.\1(", repr(guard)) if names else repr(guard)


def _guards_for(rule: Rule, known: list[Checked], seed: int, instances: int) -> tuple[Guard, ...]:
    """The guards that fix a rule. Counterexamples to the best candidates become evidence for the next attempt, and for other forms of the
    rule: `known` has the instances of all attempts so far."""
    evidence = _Evidence(rule)
    for checked in known:
        evidence.add(checked)
    for _ in range(_ROUNDS):
        guards = evidence.best()
        if not guards:
            return ()
        for more in range(_AGAIN):
            again = tried(rule.when(*guards), seed + more, 2 * instances, enough=_ENOUGH)
            if again.wrong or again.raised or again.report.compared < min(instances, 20):
                break
        else:
            return guards
        if not again.wrong:
            return ()
        known.append(again)
        evidence.add(again)
    return ()


def _forms(rule: Rule) -> Iterator[tuple[str, Rule]]:
    """The rule and its forms with weaker claims about values or stated attributes, smallest changes first, each as source text."""
    closed = next((call for call in subterms(rule.lhs) if _is_open(call)), None)
    for liberty in LIBERTIES[LIBERTIES.index(rule.liberty) :]:
        loose = loosened(rule, liberty)
        more = _written(liberty) if loose is not rule else ""
        yield more, loose
        if isinstance(closed, PCall):
            text = f"{closed.op.name} without `...` on the left side"
            yield f"{text}{', and ' if more else ''}{more}", _with_defaults(loose, closed)


def _is_open(node: Pattern) -> bool:
    """True if a term of the left side applies an operator with any attributes."""
    whole = node.attrs.get("attrs") if isinstance(node, PCall) else None
    return isinstance(whole, AttrHole) and whole.is_open and REQUIRED not in node.op.defaults.values()  # type: ignore[attr-defined]  # a call


def _written(liberty: Liberty) -> str:
    math, nonfinite = liberty
    if math == FINITE:
        return ".finite(...)"
    return f".inexact(..., nonfinite={nonfinite!r})" if nonfinite != KEPT else ".inexact(...)"


def loosened(rule: Rule, liberty: Liberty) -> Rule:
    """The rule with a weaker claim about values."""
    if rule.liberty == liberty:
        return rule
    return rule.finite(_NOTE) if liberty[0] == FINITE else rule.inexact(_NOTE, nonfinite=liberty[1])


def _still_wrong(rule: Rule, checked: Checked) -> bool:
    """True if a form of the rule with the same left side still fails on one of its counterexamples."""
    again = {trier.pattern.key: trier for trier in triers(rule)}
    return any(
        again[trier.pattern.key].try_case(trial.case).verdict in WRONG for trier, trial in checked.wrong if trier.pattern.key in again
    )


def _is_sound(rule: Rule, seed: int, instances: int) -> bool:
    again = tried(rule, seed + 1, instances, enough=1)
    return not again.wrong and not again.raised and again.report.compared >= min(instances, 20)


def _with_defaults(rule: Rule, call: PCall) -> Rule:
    """The rule with default attributes only for the operator of a call."""
    said: dict[str, AnyValue] = {name: getattr(rule, name) for name in ("math", "note", "nonfinite", "name", "source")}
    left = _closed(rule.lhs, call)
    if isinstance(rule, MultiRule):
        return MultiRule(Each(left, rule.left.shared), rule.right, rule.guards, **said)
    return Rule(left, rule.rhs, rule.guards, back=rule.back, kind=rule.kind, **said)


def _closed(node: AnyValue, like: PCall) -> AnyValue:
    """The pattern with default attributes wherever the operator is applied with any attributes."""
    if isinstance(node, PCall) and node.op is like.op and _is_open(node):
        node = PCall(node.op, node.args)
    return with_parts(node, lambda part: _closed(part, like))


class _Evidence:
    """Matches at which the sides agree or disagree, and the guards that hold at each."""

    def __init__(self, rule: Rule) -> None:
        self.guards = list(_guards(rule))
        self.probes = {trier.pattern.key: trier for trier in _probes(rule)}
        self.good = self.wrong = self._table(())
        self.has_empty = False

    def add(self, checked: Checked) -> None:
        """Adds matches of the instances of the rule, of another form of it, or of one with guards."""
        good, wrong = self._matches(checked)
        self.good = np.hstack([self.good, self._table(good)])
        self.wrong = np.hstack([self.wrong, self._table(wrong)])
        self.has_empty |= any(not array.size for _, trial in checked.wrong for array in _arrays(trial))

    def _table(self, matches: Sequence[Match]) -> "npt.NDArray[np.bool_]":
        return np.array([_holding(self.guards, match) for match in matches], bool).reshape(len(matches), len(self.guards)).T

    def _matches(self, checked: Checked) -> tuple[list[Match], list[Match]]:
        """The bindings of matches at which the sides agree, and of those at which they do not."""
        good: list[Match] = []
        wrong: list[Match] = []
        for trier, trial in (*checked.agreeing[:_INSTANCES], *checked.wrong[:_INSTANCES]):
            probe = self.probes.get(trier.pattern.key)
            for rewrite, verdict, _, _ in probe.try_matches(trial.case)[1] if probe else ():
                if verdict is Verdict.AGREES:
                    good.append(rewrite.matches)
                elif verdict in WRONG:
                    wrong.append(rewrite.matches)
        return good, wrong

    def best(self) -> tuple[Guard, ...]:
        """The guard that rejects all wrong matches and the fewest correct ones; two guards if they keep many more."""
        least = max(_SHARE * self.good.shape[1], 2)
        if not self.wrong.shape[1]:
            return ()
        places = np.flatnonzero((self.good.sum(1) >= least) & (self.wrong.sum(1) < self.wrong.shape[1])).tolist()
        if not self.has_empty:  # the guard also rejects unknown sizes, which is not its purpose
            places = [i for i in places if self.guards[i].function.__name__ != "is_not_empty"]
        alone = [i for i in places if not self.wrong[i].any()]
        found = [(-self._plain(i) * float(self.good[i].sum()), [i]) for i in alone]
        # "Integers do not round" is never the intended guard.
        some = [i for i in places if i not in alone and self.guards[i].function.__name__ != "is_integer"]
        for i, j in combinations(some, 2):
            accepted = float((self.good[i] & self.good[j]).sum())
            if accepted >= least and not (self.wrong[i] & self.wrong[j]).any():
                found.append((-_OF_TWO * self._plain(i) * self._plain(j) * accepted, [i, j]))
        return tuple(self.guards[i] for i in min(found)[1]) if found else ()

    def _plain(self, i: int) -> float:
        return _OF_TERMS if any(isinstance(arg, (PCall, PGet)) for arg in self.guards[i].args) else 1.0


def _arrays(trial: Trial) -> list[Array]:
    """The operands and the results of an instance."""
    return [*(tensor.numpy() for tensor in trial.case.tensors), *trial.left_value]


def _probes(rule: Rule) -> Iterator[Trier]:
    """The triers of a rule, which record the bindings of all of its terms."""
    for trier in triers(rule):
        yield Trier(trier.rule.when(_names(*_terms(trier.rule.lhs))), trier.roots, keep=True)


def _holding(guards: Sequence[Guard], match: Match) -> list[bool]:
    """The guards that hold at a match. Bindings of shared terms are computed once."""
    looked_up: dict[tuple[int, int], AnyValue] = {}

    def value(place: int, arg: AnyValue) -> AnyValue:
        key = place, id(arg)
        if key not in looked_up:
            looked_up[key] = match[place].value(arg)
        return looked_up[key]

    def holds(guard: Guard) -> bool:
        try:
            return all(guard.function(*(value(place, arg) for arg in guard.args)) is True for place in range(len(match)))
        except (Reject, LookupError, TypeError, ValueError, AttributeError):
            return False

    return list(map(holds, guards))


# ---- guards


def _terms(pattern: Pattern) -> list[Pattern]:
    """The distinct terms of a pattern that have a type, holes first."""
    found = {node.key: node for node in subterms(pattern) if isinstance(node, (PVar, PConst, PCall, PGet))}
    return sorted(found.values(), key=lambda node: not isinstance(node, (PVar, PConst)))


def _guards(rule: Rule) -> Iterator[Guard]:
    """Candidate guards over the terms and attributes of the left side, simplest first."""
    terms = _terms(rule.lhs)
    yield from _attribute_guards(rule)
    for i, x in enumerate(terms):
        for y in terms[i + 1 :]:
            yield from (guard(x, y) for guard in (library.same_rank, library.same_dtype, library.same_shape, library.same_type))
            yield from (library.same_size(x, y, axis) for axis in (0, 1, -1))
    for x in terms:
        yield from (guard(x) for guard in (library.is_float, library.is_integer, library.is_not_empty, library.is_constant))
        yield from (library.has_rank(x, rank) for rank in (1, 2, 3, 4))
        if isinstance(x, (PVar, PConst)):
            guards = (library.is_not_negative, library.is_positive, library.has_no_zero, library.is_uniform, library.is_finite)
            yield from (guard(x) for guard in guards)


def _attribute_guards(rule: Rule) -> Iterator[Guard]:
    single: dict[str, AttrHole] = {}
    whole: dict[str, AttrHole] = {}
    for call in subterms(rule.lhs):
        for name, value in call.attrs.items() if isinstance(call, PCall) else ():
            if not isinstance(value, AttrHole):
                continue
            assert isinstance(call, PCall)
            if name == "attrs":
                whole[value.name] = value
                for parameter, guard in _OF_ATTRIBUTES.items():
                    if parameter in call.op.attr_params:
                        yield guard(value)
                continue
            single[value.name] = value
            if name == "axis" and call.args:
                yield from (library.is_axis(value, axis, call) for axis in (0, 1, -1))
            elif name == "axes" and call.args:
                yield library.is_identity(value, call)
            yield from (equals(value, plain) for plain in (0, 1, -1, True, False, None))
    for holes in (list(single.values()), list(whole.values())):
        for i, a in enumerate(holes):
            yield from (equals(a, b) for b in holes[i + 1 :])


_OF_ATTRIBUTES: Final = {
    "groups": library.is_ungrouped,
    "dilation": library.is_usual_convolution,
    "data_layout": library.is_channels_first,
    "layout": library.is_channels_first,
    "padding": library.is_unpadded,
    "strides": library.has_unit_strides,
}

"""Draws and tries many instances of one rule, and counts the results."""

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from passat.ir.op import list_ops
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType
from passat.rules.checking.case import Case, Unfit
from passat.rules.checking.draw import SamplingHints, draw, varied
from passat.rules.checking.report import Finding, RuleReport, count
from passat.rules.checking.sampler import ENDLESS, EXTREME, PLAIN, Odd, Sampler
from passat.rules.checking.trial import COMPARED, WRONG, Inner, Trial, Trier, Verdict
from passat.rules.guards import UNEXPLAINED, Check, Reject
from passat.rules.multi_pattern import MultiRule
from passat.rules.pattern import PVar
from passat.rules.rule import Rule
from passat.rules.subterms import subterms, tensor_holes

_WAYS: Final = 100
"""Maximum number of tried directions of a rule with holes for operators and operands, evenly spaced."""
_SHARE: Final = 10
"""Minimum number of instances per direction where directions share the total."""
_DRAWS: Final = 60
"""Maximum number of draws per wanted instance; a quarter of it while none is accepted."""
_HOPE: Final = 100
"""Minimum number of wanted instances that the limit on draws assumes while none is accepted. Directions for many operators, which may never
be accepted, share it in proportion to the instances wanted of each."""
_ALONE: Final = 16
_SAME: Final = 20
"""Where directions share the hope, one is given up if the same check rejects this many instances for the same reason, as a guard that only
looks at the operator does."""
_READILY: Final = 8
"""If fewer than one in this many draws is accepted, the guards' strategies are used."""
_SELDOM: Final = 25
"""If fewer than one in this many draws is accepted, every other instance is an accepted one with other elements."""
_REMEMBERED: Final = 100
"""Number of recorded ill-typed draws."""
_DETAILS: Final = re.compile(r"Tensor\[[^\]]*\]|\b(u?int|b?float|complex|bool)\w*|[\d,()\s]+")
"""The varying parts of reasons of one kind."""


class Checked:
    """A checked rule: the report, and trials of each kind for further analysis."""

    def __init__(self, rule: Rule, seed: int) -> None:
        self.rule = rule
        self.report = RuleReport(
            name=rule.name, rule=repr(rule), guards=[repr(c) for c in rule.guards], math=rule.math, source=rule.source, seed=seed
        )
        self.agreeing: list[tuple[Trier, Trial]] = []
        self.wrong: list[tuple[Trier, Trial]] = []
        self.raised: tuple[Trier, Trial] | None = None
        self.type_errors: dict[str, tuple[int, str]] = {}
        self.rejections: dict[str, Reject] = {}

    def find(self, kind: str, text: str, *, rejects: bool = True) -> None:
        """Records a finding."""
        self.report.findings.append(Finding(kind, text, rejects))


def tried(rule: Rule, seed: int, instances: int, enough: int | None = None) -> Checked:
    """Checks a rule on `instances` random instances of each direction, and stops early once `enough` of them are wrong. The directions of a
    rule with holes share the instances."""
    checked = Checked(rule, seed)
    ways, shared = triers(rule), isinstance(rule, MultiRule) or bool(rule.holes())
    for number, trier in enumerate(ways):
        share = _share(instances, len(ways)) if shared else instances
        shares_hope = rule.holes().operators and not rule.holes().cases
        hope = min(max(instances * _HOPE // len(ways), _SHARE), _HOPE) if shares_hope else _HOPE
        try_many(checked, trier, share, hope, generator_for(rule, seed, number), enough, gives_up=bool(shares_hope))
        if checked.raised:
            return checked
    _try_inner_calls(checked, ways, seed, instances, enough)
    return checked


def _try_inner_calls(checked: Checked, ways: Sequence[Trier], seed: int, instances: int, enough: int | None) -> None:
    """Tries calls in place of the holes of a rule whose guards ask an analysis of a user for facts: only calls show whether its `make` is
    right. (The facts of inputs follow from their types, those of constants from their elements.)"""
    found = _spaced([Trier(way.rule, way.roots, inner=inner) for way in ways for inner in _inner_calls(way)])
    for number, trier in enumerate(found, len(ways)):
        share = _share(instances, len(found))
        try_many(checked, trier, share, _SHARE, generator_for(checked.rule, seed, number), enough, gives_up=True)
        if checked.raised:
            return


def _share(instances: int, ways: int) -> int:
    """The number of instances of each of some directions that share a total."""
    return max(-(-instances // ways), min(instances, _SHARE))


def _spaced(ways: list[Trier]) -> list[Trier]:
    """Not all of many directions, but evenly spaced ones."""
    return ways[:: -(-len(ways) // _WAYS) or 1]


def _inner_calls(way: Trier) -> Iterator[Inner]:
    """The calls to try in place of holes: of holes that guards name, and of operators that an analysis reads."""
    asked = [analysis for analysis in way.asked if not type(analysis).__module__.startswith("passat.")]
    named = {name for guard in way.guards for name in tensor_holes(guard.args)}
    holes = [node.name for node in subterms(way.pattern) if isinstance(node, PVar) and node.name in named]
    for op in list_ops() if asked and holes else ():
        if any(analysis.reads(op) for analysis in asked) and not op.variadic and op.results is None:
            yield from (Inner(hole, op) for hole in holes)


def triers(rule: Rule) -> list[Trier]:
    """The triers of a rule: one per direction, but not of all if there are many; for a multi-pattern rule, with two and three roots."""
    if isinstance(rule, MultiRule):
        ways = [Trier(direction, roots) for direction in rule.directions() for roots in (2, 3)]
    else:
        ways = list(map(Trier, rule.directions()))
    return _spaced(ways) if rule.holes() else ways


def generator_for(rule: Rule, seed: int, number: int) -> np.random.Generator:
    """The random generator for one direction of a rule."""
    return np.random.default_rng([abs(seed), zlib.crc32(rule.name.encode()), number])


def oddness(trier: Trier, turn: int) -> Odd:
    """The kind of elements of an instance: every other one has all special values that the rule must handle."""
    if trier.finite or turn % 2 == 0:
        return PLAIN
    return EXTREME if trier.exact else ENDLESS


def try_many(
    checked: Checked, trier: Trier, wanted: int, hope: int, generator: np.random.Generator, enough: int | None, *, gives_up: bool = False
) -> None:
    """Draws and tries instances until enough are accepted, the draws are exhausted, or the rule is clearly wrong; with `gives_up`, also
    until many are rejected for one reason."""
    report = checked.report
    enough = max(wanted // 8, 5) if enough is None else enough
    hints = SamplingHints(trier.pattern, trier.guards, [trier.rule.rhs])
    if trier.inner is not None:
        hints.want_constants()  # most facts follow from those of constants
    sampler = Sampler(generator)
    broadcasts = _Broadcasts(checked, trier, sampler)
    found: list[Case] = []
    accepted = 0
    reasons: Counter[str] = Counter()
    for turn in range(max(wanted, hope // 4) * _DRAWS):
        if accepted >= wanted or len(checked.wrong) >= enough or (not accepted and turn * 4 > max(wanted, hope) * _DRAWS):
            break
        if gives_up and len(reasons) == 1 and not accepted and reasons.total() >= _SAME:
            break
        if turn == _ALONE:
            hints.asking = accepted * _READILY < turn
        report.drawn += 1
        odd = oddness(trier, turn)
        try:
            if found and accepted * _SELDOM < turn and turn > _SELDOM * 10 and turn % 2:
                case, dtype = varied(sampler.pick(found), hints, sampler, odd), ""
            else:
                case, dtype = draw(hints, sampler, odd=odd, unknown=turn % 4 == 3)
        except Unfit as unfit:
            _ill_typed(checked, str(unfit))
            continue
        trial = trier.try_case(case)
        if trial.verdict is Verdict.RAISES:
            checked.raised = trier, trial
            return
        if trial.needs_constant:
            hints.want_constants()
        compared = trial.verdict in COMPARED
        if dtype:
            hints.note(dtype, checks_passed(trier.rule, trial))
            if compared:
                found.append(case)
        accepted += compared
        explained = not trial.rejections or trial.rejections[0].reason != UNEXPLAINED
        reasons[trial.reason if explained else f"instance {turn}"] += 1
        _count(checked, trier, trial)
        if trial.verdict is Verdict.AGREES:
            broadcasts.try_one(case)


def _ill_typed(checked: Checked, reason: str) -> None:
    checked.report.ill_typed += 1
    kind = _DETAILS.sub("", reason)
    if kind in checked.type_errors or len(checked.type_errors) < _REMEMBERED:
        number, first = checked.type_errors.get(kind, (0, " ".join(reason.split())))
        checked.type_errors[kind] = number + 1, first


def _count(checked: Checked, trier: Trier, trial: Trial) -> None:
    report, verdict = checked.report, trial.verdict
    if verdict is Verdict.UNFIT:
        _ill_typed(checked, trial.reason)
    elif verdict in (Verdict.REJECTED, Verdict.UNMATCHED):
        rejection = trial.rejections[0] if trial.rejections else None
        by = trial.reason if rejection is None else rejecter(rejection)
        count(report.rejected, by)
        if rejection is not None:
            checked.rejections[by] = rejection
    else:
        report.accepted += 1
        if verdict in (Verdict.UNDEFINED, Verdict.UNCOMPARED):
            count(report.not_compared, _kind_of(trial))
            return
        report.compared += 1
        (checked.agreeing if verdict is Verdict.AGREES else checked.wrong).append((trier, trial))


def checks_passed(rule: Rule, trial: Trial) -> int:
    """The number of checks that an instance passed: of its types, of the left side, of each guard, of the right side."""
    if trial.verdict in (Verdict.UNFIT, Verdict.UNMATCHED):
        return int(trial.verdict is Verdict.UNMATCHED)
    guards = rule.guards
    if trial.verdict is not Verdict.REJECTED:
        return 3 + len(guards)
    rejection = trial.rejections[0]
    if rejection.by is None and rejection.check is Check.PATTERN:
        return 1
    return 2 + next((i for i, guard in enumerate(guards) if guard is rejection.by), len(guards))


def rejecter(rejection: Reject) -> str:
    """What rejected an instance: the guard or the computed attribute as it is written, or another check of the engine."""
    return rejection.check.value if rejection.by is None else repr(rejection.by)


def _kind_of(trial: Trial) -> str:
    text = trial.reason.split(":")[0]
    return f"the left side has no value: {text}" if trial.verdict is Verdict.UNDEFINED else text


_BROADCAST: Final = 0.5
"""Probability of making an instance from an accepted one."""
_PATIENCE: Final = 40
"""Number of instances of which at least one must be compared, or no more are made: operators do not broadcast, or guards see to it."""


class _Broadcasts:
    """Tries instances in which an input broadcasts along an axis whose size is unknown, which neither types nor guards show, or has fewer
    axes than the others: `y - (y - x)` has more elements than `x` if `x` turns out to have size 1. Random sizes seldom do this, so such
    instances are made from accepted ones, until it turns out that none is accepted."""

    def __init__(self, checked: Checked, trier: Trier, sampler: Sampler) -> None:
        self._checked = checked
        self._trier = trier
        self._sampler = sampler
        self._made = self._compared = 0

    def try_one(self, case: Case) -> None:
        """By chance, tries an instance made from an accepted one. It counts only if it is wrong, since it is not independent."""
        ends = self._made >= _PATIENCE * (1 + self._compared)
        other = None if ends or not self._sampler.chance(_BROADCAST) else narrowed(case, self._sampler)
        if other is not None:
            trial = self._trier.try_case(other)
            self._made += 1
            self._compared += trial.verdict in COMPARED
            if trial.verdict in WRONG:
                self._checked.report.drawn += 1
                _count(self._checked, self._trier, trial)


def narrowed(case: Case, sampler: Sampler) -> Case | None:
    """The case with one input whose size along an axis, or along all axes, is 1 but unknown, or without its first axis; None if all sizes
    are 1 or fixed. The sizes of the other inputs may be unknown, too: where one is known, the size of the result is."""
    open_ = {
        name: [axis for axis, dim in enumerate(value.shape) if dim > 1]
        for name, value in case.inputs.items()
        if isinstance(value, Tensor) and name not in case.asked
    }
    names = [name for name, axes in open_.items() if axes]
    if not names:
        return None
    name = sampler.pick(names)
    value = case.inputs[name]
    assert isinstance(value, Tensor)
    if 0 in open_[name] and sampler.chance(0.25):
        array = value.numpy()[0]
        kept = {(each, axis): size for (each, axis), size in case.unknown.items() if each != name}
        moved = {(each, axis - 1): size for (each, axis), size in case.unknown.items() if each == name and axis}
        unknown = {**kept, **moved}
    else:
        axes = open_[name] if sampler.chance(0.2) else [sampler.pick(open_[name])]
        array = value.numpy()[tuple(slice(1) if axis in axes else slice(None) for axis in range(value.ndim))]
        others = {(each, axis): "?" for each, sizes in open_.items() if each != name for axis in sizes} if sampler.chance(0.5) else {}
        unnamed = sampler.chance(0.5)
        unknown = {**case.unknown, **others, **{(name, axis): "?" if unnamed else f"{name}{axis}" for axis in axes}}
    return case._replace(
        types={**case.types, name: TensorType(array.shape, value.dtype)},
        inputs={**case.inputs, name: Tensor.dense(array, value.dtype)},
        unknown=unknown,
        computed={},
    )

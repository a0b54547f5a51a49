"""Tries one instance: applies the rule by the engine's own matching, and compares the values of both sides."""

import enum
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any as AnyValue
from typing import Final, NamedTuple

import numpy as np

from passat.ir.evaluate import EvaluateError, MisdeclaredError, Value, tensors_in
from passat.ir.expr import Expr, Var
from passat.ir.infer import InferError, infer_type
from passat.ir.op import Op, OpTypeError
from passat.ir.tensor import Array
from passat.ir.types import TensorType, TupleType, compatible
from passat.rules.analysis import Analysis
from passat.rules.checking.case import (
    Case,
    Evaluation,
    Program,
    TooLargeError,
    Unfit,
    build,
    difference,
    is_float,
    limit_of,
    rounding,
)
from passat.rules.engine.bindings import Bindings
from passat.rules.engine.graph import Graph
from passat.rules.engine.grouping import Grouper
from passat.rules.engine.matching import Matcher
from passat.rules.engine.rebuild import rebuild
from passat.rules.engine.report import RuleStatistics
from passat.rules.engine.symbols import TUPLE, symbol
from passat.rules.expansion import with_parts
from passat.rules.guards import Check, Guard, Reject
from passat.rules.multi_pattern import MultiRule
from passat.rules.pattern import Pattern, PCall, PConst, PTuple, PValue, PVar
from passat.rules.rule import EAGER, EXACT, EXPLORING, FINITE, JOINING, Rule


class Verdict(enum.Enum):
    """The result of an instance."""

    UNFIT = "ill-typed"
    UNMATCHED = "not matched"
    REJECTED = "rejected"
    UNDEFINED = "left side undefined"
    UNCOMPARED = "not compared"
    AGREES = "agrees"
    DISAGREES = "disagrees"
    BREAKS = "breaks"
    MISDECLARED = "the kernel contradicts the type relation"
    RAISES = "raises"


WRONG: Final = frozenset({Verdict.DISAGREES, Verdict.BREAKS, Verdict.MISDECLARED})
COMPARED: Final = WRONG | {Verdict.AGREES}


class Rewrite(NamedTuple):
    """The replacement of a program, and the bindings of the holes per root, if requested."""

    body: Expr
    matches: tuple[Bindings, ...]


@dataclass
class Trial:
    """An instance with its result. `reason` explains it; `rejections` are those of the engine, `error` is the exception
    of a guard, `right` is the replacement."""

    verdict: Verdict
    case: Case
    reason: str = ""
    rejections: list[Reject] = field(default_factory=list)
    program: Program | None = None
    right: Expr | None = None
    left_value: list[Array] = field(default_factory=list)
    right_value: list[Array] = field(default_factory=list)
    error: Exception | None = None

    @property
    def needs_constant(self) -> bool:
        """True if the instance was rejected because an operand is not a constant."""
        return self.verdict is Verdict.REJECTED and self.rejections[0].check is Check.CONSTANT


class Inner(NamedTuple):
    """A call in place of a hole: of which hole and which operator."""

    hole: str
    op: Op


class Trier:
    """One direction of a rule, ready to try. `pattern` is the source of instances; for a multi-pattern rule, a tuple of `roots` roots. With
    `keep`, rewrites record the bindings. With `inner`, a call is drawn in place of a hole. `asked` has the analyses that guards asked."""

    def __init__(self, rule: Rule, roots: int = 2, *, inner: Inner | None = None, keep: bool = False) -> None:
        self.rule = rule
        self.roots = roots
        self.inner = inner
        self.keep = keep
        self.asked: set[Analysis[AnyValue]] = set()
        self.exact = rule.math == EXACT
        # ONNX Runtime folds constants, by kernels that treat infinities and NaN in their own ways. It does the same at run time.
        self.folds = rule.kind == EAGER and isinstance(rule.rhs, PValue) and not self.exact
        self.finite = rule.math == FINITE or self.folds
        self.pattern: Pattern = rule.lhs
        self.guards = rule.guards
        if isinstance(rule, MultiRule):
            self.pattern, self.guards = several(rule, roots)
        if inner is not None:
            self.pattern, self.guards = _with_inner(self.pattern, self.guards, inner)
        self._grouper = Grouper(rule) if isinstance(rule, MultiRule) else None
        # A joining rule must hold wherever its left side matches, even if its right side does not exist yet.
        anywhere = rule.of_kind(EXPLORING) if rule.kind == JOINING else rule
        self._matcher = Matcher(anywhere) if self._grouper is None else self._grouper.matcher

    def rewrites(self, program: Program) -> tuple[list[Rewrite], list[Reject], bool]:
        """The replacements of the whole program, one per match; the rejections; whether the left side matched at all."""
        graph = Graph()
        root = graph.load(program.body)
        made: list[Rewrite] = []
        rejections: list[Reject] = []
        search = self._alone if self._grouper is None else self._together
        with np.errstate(all="ignore"):  # as in the engine
            matched = search(graph, root, made, rejections)
        self.asked |= graph.facts.keys()
        return made, rejections, matched

    def _alone(self, graph: Graph, root: int, made: list[Rewrite], rejections: list[Reject]) -> bool:
        """Applies a rule with one pattern to the root."""
        matched = False
        if graph.symbols[root] is self._matcher.root:
            for variant in self._matcher.variants:
                for row in variant.search(graph, [root]):
                    matched = True
                    try:
                        _, built = self._matcher.decide(graph, row)
                    except Reject as rejection:
                        rejections.append(_untraced(rejection))
                    else:
                        bound = (self._matcher.bind(graph, row),) if self.keep else ()
                        made.append(Rewrite(expression_of(graph, built), bound))
        return matched

    def _together(self, graph: Graph, root: int, made: list[Rewrite], rejections: list[Reject]) -> bool:
        """Applies a multi-pattern rule to the tuple of its roots."""
        assert self._grouper is not None
        roots = graph.operands[root]
        noted = _Noted(rejections=rejections)
        for group in self._grouper.groups(graph, len(graph), noted):
            if {node for node, _ in group} != set(roots):
                continue
            try:
                built = dict(self._grouper.build(graph, group))
            except Reject as rejection:
                rejections.append(_untraced(rejection))
                continue
            whole = graph.make(symbol(TUPLE, None, len(roots)), 0, tuple(built[node] for node in roots))
            made.append(Rewrite(expression_of(graph, whole), tuple(match for _, match in group)))
        return noted.matches > 0

    def try_case(self, case: Case) -> Trial:
        """Builds, rewrites and compares; the first match at which the sides differ counts."""
        trial, judged = self.try_matches(case)
        for rewrite, verdict, reason, right in judged:
            if verdict is not Verdict.AGREES:
                trial.verdict, trial.reason, trial.right, trial.right_value = verdict, reason, rewrite.body, right
                if verdict is not Verdict.UNCOMPARED:
                    break
            elif trial.right is None:
                trial.right, trial.right_value = rewrite.body, right
        return trial

    def try_matches(self, case: Case) -> tuple[Trial, Iterator[tuple[Rewrite, Verdict, str, list[Array]]]]:
        """Evaluates the left side of an instance, then yields the verdict, the reason and the right side's value for each match."""
        try:
            program = build(self.pattern, case)
        except Unfit as unfit:
            return Trial(Verdict.UNFIT, case, str(unfit)), iter(())
        try:
            rewrites, rejections, matched = self.rewrites(program)
        except Exception as error:  # guards are user code and may raise anything
            said = " ".join(str(error).split())
            return Trial(Verdict.RAISES, case, f"{type(error).__name__}{': ' if said else ''}{said}", program=program, error=error), iter(
                ()
            )
        if not rewrites:
            reason = str(rejections[0]) if rejections else "the left side does not match its own instance"
            return Trial(Verdict.REJECTED if matched else Verdict.UNMATCHED, case, reason, rejections, program), iter(())
        if case.unknown:  # kernels may broadcast where an operator does not
            try:
                build(self.pattern, case._replace(unknown={}, computed={}))
            except Unfit as unfit:
                return Trial(Verdict.UNFIT, case, str(unfit)), iter(())
        evaluation = Evaluation(_operands(case, program))
        try:
            left = evaluation(program.body)
        except EvaluateError as error:
            return Trial(Verdict.UNDEFINED, case, str(error), rejections, program), iter(())
        trial = Trial(Verdict.AGREES, case, "", rejections, program, None, left)
        return trial, ((rewrite, *self._judge(trial, rewrite.body, evaluation)) for rewrite in rewrites)

    def _judge(self, trial: Trial, body: Expr, evaluation: Evaluation) -> tuple[Verdict, str, list[Array]]:
        assert trial.program is not None
        try:
            made = infer_type(body).checked_type
        except (InferError, OpTypeError) as error:
            return Verdict.BREAKS, f"the right side is ill-typed: {error}", []
        if not compatible(made, trial.program.body.checked_type):
            return Verdict.BREAKS, f"the right side has type {made!r}, the left side {trial.program.body.checked_type!r}", []
        try:
            right = evaluation(body)
        except TooLargeError as error:
            return Verdict.UNCOMPARED, str(error), []
        except MisdeclaredError as error:
            return Verdict.MISDECLARED, " ".join(str(error).split()), []
        except EvaluateError as error:
            return Verdict.BREAKS, f"the left side has a value, but the right side has none: {' '.join(str(error).split())}", []
        verdict, reason = self._compare(trial, body, evaluation, right)
        return verdict, reason, right

    def _compare(self, trial: Trial, body: Expr, evaluation: Evaluation, right: list[Array]) -> tuple[Verdict, str]:
        left, program = trial.left_value, trial.program
        assert program is not None
        if self.exact:
            wrong = difference(right, left)
            return (Verdict.DISAGREES, wrong) if wrong else (Verdict.AGREES, "")
        if self.finite and not (all_finite(trial.case) and any(np.any(_finite(part)) for part in left)):
            return Verdict.UNCOMPARED, "the left side has no finite value"
        magnitude = max(evaluation.magnitude(), evaluation.runtime_magnitude(program.body) if self.folds else 0.0)
        # For some float64 functions (Gelu) ONNX Runtime uses float32 constants.
        bounds = [rounding(part.astype(np.float32) if self.folds and part.dtype == np.float64 else part, magnitude) for part in left]
        if not difference(right, left, bounds, finite=self.finite, nonfinite=self.rule.nonfinite):
            return Verdict.AGREES, ""
        return self._compare_widely(trial, body, right, bounds)

    def _compare_widely(self, trial: Trial, body: Expr, right: list[Array], bounds: Sequence[float]) -> tuple[Verdict, str]:
        """Compares in float64, which shows whether a difference beyond rounding is a rounding loss of the left side itself, or an
        intermediate overflow."""
        left, program = trial.left_value, trial.program
        assert program is not None
        wide = Evaluation(_operands(trial.case, program), wide=True)
        try:
            truth, other = wide(program.body), wide(body)
        except EvaluateError:
            truth = other = left
        types = [term.checked_type for term in program.terms.values()]
        floats = [type_.dtype for type_ in types if isinstance(type_, TensorType) and type_.dtype.startswith(("float", "bfloat"))]
        if floats and wide.magnitude() > min(map(limit_of, floats)) / 256:
            return Verdict.UNCOMPARED, "intermediate values are close to the limits of their element type"
        if any(is_float(part) and np.any(np.isinf(part) & np.isfinite(exact)) for part, exact in zip(left, truth, strict=True)):
            return Verdict.UNCOMPARED, "an intermediate value of the left side underflows"  # such as log(exp(-200))
        loss = [_loss(part, exact) for part, exact in zip(left, truth, strict=True)]
        wider = [bound + 16 * lost for bound, lost in zip(bounds, loss, strict=True)]
        wrong = difference(right, left, wider, finite=self.finite, nonfinite=self.rule.nonfinite)
        if wrong is None:
            return Verdict.AGREES, ""
        if (
            any(not is_float(part) for part in left)
            and floats
            and not difference(other, truth, [rounding(t, wide.magnitude()) for t in truth])
        ):
            return Verdict.UNCOMPARED, "integer results depend on rounding"
        return Verdict.DISAGREES, wrong


@dataclass
class _Noted(RuleStatistics):
    """The statistics of a multi-pattern rule while its matches are searched."""

    rejections: list[Reject] = field(default_factory=list)

    def reject(self, rejection: Reject) -> None:
        """Records a rejection."""
        self.rejections.append(_untraced(rejection))


def _untraced(rejection: Reject) -> Reject:
    """The rejection without its traceback, which keeps the graph of the instance alive."""
    return Reject(rejection.reason, rejection.check, rejection.by)


def expression_of(graph: Graph, node: int) -> Expr:
    """The expression of a node of a graph in which each e-class has one node."""
    return rebuild(graph, {number: number for number in range(len(graph))}, node)


def _operands(case: Case, program: Program) -> dict[Var, Value]:
    """The values of the variables of a program."""
    return {program.params[name]: value for name, value in case.inputs.items() if name in program.params}


def _finite(array: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.isfinite(array.astype(np.float64)) if is_float(array) and array.dtype.kind != "c" else np.ones(array.shape, bool)


def all_finite(case: Case) -> bool:
    """True if all inputs and constants are finite, except constants that a guard determines."""
    values: list[Value] = [value for name, value in case.constants.items() if name not in case.asked]
    return all(bool(np.all(_finite(tensor.numpy()))) for tensor in tensors_in((*values, *case.inputs.values())))


def _loss(found: Array, exact: Array) -> float:
    """The error of a result."""
    if not is_float(found) or found.dtype.kind == "c" or found.shape != exact.shape:
        return 0.0
    with np.errstate(all="ignore"):
        off = np.abs(found.astype(np.float64) - exact)
    return float(np.max(off, initial=0.0, where=np.isfinite(off)))


def several(rule: MultiRule, roots: int) -> tuple[PTuple, tuple[Guard, ...]]:
    """Several roots of a rule as a tuple, and the guards of each: shared holes are the same, other holes are numbered."""
    shared = {hole.name for hole in rule.left.shared}

    def numbered(value: AnyValue, number: int) -> AnyValue:
        return _filled(value, lambda hole: hole if hole.name in shared else type(hole)(f"{hole.name}{number}"))

    numbers = range(1, roots + 1)
    guards = tuple(numbered(guard, number) for number in numbers for guard in rule.guards)
    return PTuple([numbered(rule.lhs, number) for number in numbers]), guards


def _with_inner(pattern: Pattern, guards: Sequence[Guard], inner: Inner) -> tuple[Pattern, tuple[Guard, ...]]:
    """A pattern with a call in place of a hole, and the guards of the hole for each operand of the call: they only guide the draws."""
    op, annotated = inner.op, inspect.signature(inner.op.relation).parameters
    operands = [
        PTuple([PVar(f"{inner.hole}_{i}") for i in range(2)]) if annotated[name].annotation is TupleType else PVar(f"{inner.hole}_{name}")
        for name in op.operand_names
    ]

    def filled(value: AnyValue, by: Pattern) -> AnyValue:
        return _filled(value, lambda hole: by if hole.name == inner.hole else hole)

    holes = [part for operand in operands for part in (operand.fields if isinstance(operand, PTuple) else (operand,))]
    of_operands = tuple(filled(guard, by) for by in holes for guard in guards)
    return filled(pattern, PCall(op, [*operands, ...] if op.attr_params else operands)), of_operands


def _filled(value: AnyValue, by: Callable[[PVar | PConst], Pattern]) -> AnyValue:
    """A pattern, or an argument of a guard, with other terms in place of its holes."""
    return by(value) if isinstance(value, (PVar, PConst)) else with_parts(value, lambda part: _filled(part, by))

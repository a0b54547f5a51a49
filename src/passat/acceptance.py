"""Accepts a result: `onnx.checker` does, and the values are those of the original. Finds what explains a difference: a wrong pass, or what
rules may do to numbers."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from passat.bisection import READ_AND_WRITTEN, find_guilty
from passat.ir.long_words import listed
from passat.ir.onnx.errors import CheckerError
from passat.job import Given, Job, Made, Outcome
from passat.pipelines import is_own
from passat.report import MismatchError, UnverifiedError
from passat.rules.rule import EXACT, KEPT, REASSOCIATE, Rule
from passat.rules.rule_pass import RulePass
from passat.runner import VerifyError, loads
from passat.verify import Reference, VerifyReport


def is_accepted(job: Job, given: Given, outcome: Outcome) -> bool:
    """True if `onnx.checker` accepts the result; not called for the input itself unless it is verified.

    If it rejects the input too, ONNX Runtime decides. Raises OnnxError.
    """
    from passat.ir.onnx.files import check_model

    source, model = given.source, outcome.model
    if model is source.proto and not job.wanted.verify:
        return False
    job.tell("checking the result")
    try:
        check_model(model)
    except CheckerError as error:
        if (model is not source.proto and source.is_accepted) or not loads(source.runnable, source.folder):
            raise error.about(source.name) from error
        job.report.warnings.append(f"ONNX Runtime loads the input, but {error}")
        return False
    return True


def verify(job: Job, given: Given, made: Made, outcome: Outcome, reference: Reference | None = None) -> None:
    """Compares the result with the input, unless they are the same; a `reference` has run the input before.

    Raises OnnxError, VerifyError, InputsError, MismatchError, UnverifiedError if a comparison is required but impossible, and
    LooseRulesError if what passes may do to numbers explains the difference.
    """
    report, source = job.report, given.source
    if outcome.model is source.proto:
        return
    with report.clock("verify"):
        job.tell("comparing with the original on ONNX Runtime")
        try:
            reference = reference or given.reference(job.how)
        except VerifyError as error:
            raise VerifyError(f"{error}; --no-verify, or verify=False, skips the comparison") from None
        report.verification = reference.check(outcome.model)
        if report.verification.equal is False:

            @functools.cache
            def guilty() -> str:
                job.tell("looking for the pass that changed the values")
                return find_guilty(reference, made.pipeline, given.module, outcome.context.with_instruments([job.vetoes.again()]))

            # Nothing else has tested a pass or a rule of the user's, so it is accused before rules that may explain the difference.
            steps = list(made.pipeline.plan(made.context).walk())
            own = {step.name for step in steps if step.runs and is_own(step.pass_)} | _own_rule_passes(job, made)
            if not own or guilty() not in own:
                fused, inexact = report.verification.differs_when_fused, _inexact_rules(job, made)
                if fused and inexact:
                    raise LooseRulesError(reference, _found(_FUSED, inexact, "may cause, since they move scales"), inexact)
                if not fused and (loose := _loose_rules(job, made)):
                    raise LooseRulesError(reference, _found("other values", loose, "may cause where values are infinite or NaN"), loose)
                if any(output.reason for output in report.verification.outputs) and inexact:
                    raise LooseRulesError(reference, _found("other values", inexact, "may cause by rounding or the sign of 0"), inexact)
                if job.context.get_config("rules.math") != EXACT and reference.differs_from_itself(report.verification):
                    raise LooseRulesError(reference, _SENSITIVE, math=EXACT)
            report.verification = replace(report.verification, guilty=guilty())
            has_rules = any(step.name == guilty() for step in steps if isinstance(step.pass_, RulePass))
            raise MismatchError(f"{source.prefix}{_accusation(report.verification, job.wanted.opset, has_rules=has_rules)}", report)
        if report.verification.equal is None and not job.wanted.allow_unverified:
            if report.verification.outputs and (inexact := _inexact_rules(job, made)):
                raise LooseRulesError(reference, _found("an output that rounding alone changes", inexact, "may change as well"), inexact)
            raise UnverifiedError(
                f"{source.prefix}the optimized model cannot be compared with the original: {report.verification.skipped}; "
                "--allow-unverified, or allow_unverified=True, accepts it unverified",
                report,
            )
        if report.verification.equal and (unrun := reference.unrun(outcome.model)):
            report.warnings.append(
                f"no input of the comparison runs the {unrun}; --inputs FILE.npz, or inputs=, compares on your own inputs"
            )


_SENSITIVE: Final = (
    "the comparison found other values, but rounding decides them, since the original differs from itself as much when ONNX Runtime "
    "optimizes it: the result is optimized with rules.math=exact"
)
_FUSED: Final = "other values where ONNX Runtime fuses DequantizeLinear with what reads it"


class LooseRulesError(Exception):
    """The result differs from the original, or cannot be judged, and what the passes may do to numbers explains it. `sentence` says what
    was found, and what follows: the result is optimized without some rules, or with another `rules.math`. `reference` has the values of the
    original."""

    def __init__(self, reference: Reference, sentence: str, rules: Sequence[str] = (), math: str | None = None) -> None:
        super().__init__(sentence)
        self.reference = reference
        self.sentence = sentence
        self.rules = rules
        self.math = math


def _found(found: str, rules: Sequence[str], may: str) -> str:
    """What the comparison found, which rules may explain by what they declare."""
    return f"the comparison found {found}, which {listed(rules, 3)} {may}: the result is optimized without"


def _loose_rules(job: Job, made: Made) -> list[str]:
    """The rules that fired and may change infinite or NaN results."""
    return sorted({rule.name for _, _, rule in _fired(job, made) if rule.nonfinite != KEPT})


def _own_rule_passes(job: Job, made: Made) -> set[str]:
    """The names of the rule passes in which rules of the user fired, none of which may change infinite or NaN results."""
    own: dict[str, list[Rule]] = {}
    for step, of_library, rule in _fired(job, made):
        if not of_library:
            own.setdefault(step, []).append(rule)
    return {step for step, rules in own.items() if all(rule.nonfinite == KEPT for rule in rules)}


def _inexact_rules(job: Job, made: Made) -> list[str]:
    """The inexact rules of the library that fired. What they change is harmless by itself, but the model may make it large: 1 / -0.0 is
    -inf. Rules of users are accused instead, since nothing else has tested them."""
    return sorted({rule.name for _, of_library, rule in _fired(job, made) if of_library and rule.math == REASSOCIATE})


def _fired(job: Job, made: Made) -> list[tuple[str, bool, Rule]]:
    """The rules that fired, of all passes, each with the name of a pass that has it, and whether it is of the library."""
    names = {rule.name for rule in job.report.rules if rule.fired}
    steps = made.pipeline.plan(made.context).walk()
    sets = [(step.name, rules) for step in steps if isinstance(step.pass_, RulePass) for rules in step.pass_.sets]
    return [(step, rules.base.__module__.startswith("passat."), rule) for step, rules in sets for rule in rules if rule.name in names]


def _accusation(report: VerifyReport, opset: int | None, *, has_rules: bool) -> str:
    if opset is not None and "Could not find an implementation" in report.mismatch:
        return f"in opset {opset} the model does not run: {report.mismatch}; this ONNX Runtime may have kernels for an earlier opset only"
    if not report.guilty:
        where = "no single pass shows the difference when the pipeline runs again"
    elif report.guilty == READ_AND_WRITTEN:
        where = "reading and writing the model alone changes its values, which is a bug in Passat"
    else:
        where = f"the difference comes from the pass {report.guilty}{', and `passat rules bisect` finds its rule' if has_rules else ''}"
    return f"the optimized model computes other values than the original: {report.mismatch}; {where}"

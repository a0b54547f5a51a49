"""Bisects the rules of an optimization: finds the smallest set of rules that makes a model bad, and their first bad application.

Rules are excluded with `rules.disabled`, applications with `rules.unions`, which allows the first n in all passes together. The first n
applications are the same for every limit of at least n, so a logarithmic number of runs suffices.
"""

import json
import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any as AnyValue
from typing import NoReturn

from passat.bisection import AS_GIVEN, open_subject, times
from passat.ir.counting import counted
from passat.ir.equality import structural_equal
from passat.ir.expr import Function
from passat.ir.long_words import listed
from passat.ir.module import IRModule
from passat.ir.text.printer import pretty_print
from passat.model_checks import MARGIN
from passat.passmgr import AlreadyTrueError, BisectError, FlappingError, NeverTrueError
from passat.passmgr.debugging.bisect import CannotTellError
from passat.passmgr.debugging.reproducer import context_data
from passat.pipelines import Passes
from passat.rule_search import Outcome, Questions, RuleRuns, first_application, smallest_set
from passat.rulefile import file_of
from passat.rules import RuleSet
from passat.rules.engine.trace import Application, Run, Trace
from passat.rules.matched import Matched, matched_part
from passat.rules.rule import Rule, equation_of
from passat.rules.why_not.view import View
from passat.settings import DEFAULT_LEVEL, Variant, telling
from passat.verify import AS_USUAL, Comparing


@dataclass(frozen=True, eq=False)
class GuiltyApplication:
    """The rule application that makes a model bad. `number` counts from 1 among the `total` applications of the guilty rules (None if the
    full run does not finish). `candidates` has several numbers if the check cannot distinguish them.

    The other fields are unknown if the pass raises: the rule, the pass, the function, the position by node name, the names of all matched
    nodes, and the matched part before and after.
    """

    number: int
    total: int | None
    candidates: tuple[int, ...]
    rule: str = ""
    pass_name: str = ""
    function: str = ""
    place: str = ""
    nodes: tuple[str, ...] = ()
    matched: Matched | None = None
    run: Run | None = None
    application: Application | None = None

    def to_dict(self) -> dict[str, AnyValue]:
        """The application as plain data."""
        sides = (None, None) if self.matched is None else (_text(self.matched.before), _text(self.matched.after))
        return {
            "number": self.number,
            "total": self.total,
            "candidates": list(self.candidates),
            "rule": self.rule or None,
            "pass": self.pass_name or None,
            "function": self.function or None,
            "place": self.place or None,
            "nodes": list(self.nodes),
            "before": sides[0],
            "after": sides[1],
        }

    def __str__(self) -> str:
        if len(self.candidates) > 1:
            among = listed(list(map(str, self.candidates)), len(self.candidates))
            first = f"one of the applications {among}: the check cannot tell between them; of the last one"
        else:
            first = f"application {self.number}" + (f" of {self.total}" if self.total is not None else "")
        if not self.rule:
            return f"{first}, after which a pass raises"
        lines = [f"{first}: {self.rule}, in {self.pass_name}, function @{self.function}, at {self.place}"]
        if self.matched is not None:
            for title, side in (("matched", self.matched.before), ("replaced by", self.matched.after)):
                lines += [f"{title}:", *(f"  {line}" for line in _text(side).splitlines())]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class RuleBisection:
    """The result of bisecting rules: the rules, their application that makes the model bad, and the modules one application before it
    (`before`) and with it (`after`; None with an `error` if a pass raises). `application` is None if the model is bad before any.
    `candidates` is the number of rules considered: those that `fired`, or all if unknown."""

    source: str
    check: str
    rules: tuple[Rule, ...]
    candidates: int
    fired: bool
    application: GuiltyApplication | None
    why: str
    error: Exception | None
    before: IRModule
    after: IRModule | None
    calls: int
    runs: RuleRuns
    passes: Passes
    sets: tuple[type[RuleSet], ...]
    how: Comparing
    margin: float
    variant: Variant

    @property
    def names(self) -> list[str]:
        """The names of the rules."""
        return list(dict.fromkeys(equation_of(rule.name) for rule in self.rules))

    @property
    def config(self) -> dict[str, AnyValue]:
        """The options that reproduce the bad model with the guilty rules alone."""
        unions = {} if self.application is None else {"rules.unions": self.application.number}
        return {"rules.disabled": self.runs.disabled(self.names), **unions}

    @property
    def command(self) -> str | None:
        """A command that reproduces the bad model with the guilty rules alone; None if passes or options have no text form."""
        settings = context_data(self.runs.settings)
        if settings["config_left_out"] or not (self.passes is None or isinstance(self.passes, str)):
            return None
        words = ["passat", "optimize", self.source, "-o", "bad.onnx", "--no-verify", *_options(self.variant)]
        words += [word for file in rule_files(self.sets) for word in ("--rules", file)]
        words += [] if self.passes is None else ["--passes", self.passes]
        words += [] if settings["opt_level"] == DEFAULT_LEVEL else ["-O", str(settings["opt_level"])]
        for option in ("disable", "require"):
            words += [word for name in settings[f"{option}d_pass"] for word in (f"--{option}", name)]
        config = {**settings["config"], **self.config}
        words += [word for key, value in config.items() for word in ("--config", f"{key}={json.dumps(value, separators=(',', ':'))}")]
        return shlex.join(words)

    def to_dict(self) -> dict[str, AnyValue]:
        """The result as plain data for JSON."""
        return {
            "source": self.source,
            "check": self.check,
            "rules": [{"name": rule.name, "rule": repr(rule), "source": rule.source} for rule in self.rules],
            "candidates": self.candidates,
            "application": None if self.application is None else self.application.to_dict(),
            "why": self.why,
            "crashed": self.error is not None,
            "config": self.config,
            "command": self.command,
            "calls": self.calls,
            "runs": self.runs.count,
        }

    def __str__(self) -> str:
        names, of = self.names, f"of {self.candidates} that fired" if self.fired else f"of {self.candidates}"
        if len(names) == 1:
            lines = [f"the rule {names[0]} makes it bad, {of}"]
        else:
            lines = [f"the rules {listed(names, len(names))} together make it bad, and no subset does, {of}"]
        for name in names:
            first, *others = (rule for rule in self.rules if equation_of(rule.name) == name)
            lines.append(f"  {first!r}  [{first.source}]" + (f", and {counted(len(others), 'similar form')}" if others else ""))
        if self.application is None:
            lines.append(f"it is bad before any application: {self.why}")
        else:
            lines += [str(self.application), f"after it: {self.why}"]
        return "\n".join([*lines, f"(the passes ran {times(self.runs.count)}, the check {times(self.calls)})"])


def bisect_rules(
    model: str | os.PathLike[str],
    check: str,
    *,
    passes: Passes = None,
    rules: Sequence[type[RuleSet]] = (),
    how: Comparing = AS_USUAL,
    margin: float | None = None,
    variant: Variant = AS_GIVEN,
    progress: Callable[[str], None] | None = None,
) -> RuleBisection:
    """The smallest set of rules, and its first application, that make a model bad, in log2(rules) + log2(applications) runs for one rule.

    Arguments and checks are those of `passat.bisection.bisect_model`. It finds one change from good to bad; if there are several, for
    example because one wrong rule hides another, any of them.

    Raises AlreadyTrueError if the model is bad without rules, NeverTrueError if it is good with all, FlappingError for an unstable check,
    BisectError, CheckError for a check that cannot run, OnnxError, PipelineError, RuleError, SpecializeError, VerifyError.
    """
    tell = telling(progress)
    source, module, settings, pipeline, looked_at = open_subject(model, check, passes, rules, how, margin, variant, tell)
    runs = RuleRuns(pipeline, module, settings)
    asked = Questions(runs, looked_at, crashes=check == "crash", tell=tell)
    candidates, fired = _candidates(asked, source)
    names = smallest_set(candidates, asked)
    total = asked.answer(names)[1].applications
    found = first_application(total, lambda number: asked(names, number))
    low, high = found if found is not None else (0, 0)
    before, _, _ = _confirmed(asked, names if found is not None else (), low, expected=False)
    trace = Trace()
    after, why, error = _confirmed(asked, names, high, expected=True, trace=trace)
    assert before is not None
    application = None
    if found is not None:
        application = _describe(GuiltyApplication(high, total, tuple(range(low + 1, high + 1))), trace, raised=error is not None)
    guilty = tuple(rule for rule in runs.rules.values() if equation_of(rule.name) in names)
    if len({equation_of(rule.name) for rule in guilty}) == 1 and application is not None and application.rule:
        guilty = tuple(rule for rule in guilty if rule.name == application.rule)
    return RuleBisection(
        *(source, check, guilty, len(candidates), fired, application, why, error, before, after),
        *(asked.calls, runs, passes, tuple(rules), how, MARGIN if margin is None else margin, variant),
    )


def _options(variant: Variant) -> list[str]:
    """The options of the command line for a variant of a model."""
    words = [word for name, size in (variant.dims or {}).items() for word in ("--dim", f"{name}={size}")]
    for name, shape in (variant.input_shapes or {}).items():
        words += ["--input-shape", f"{name}={','.join('?' if size is None else str(size) for size in shape)}"]
    words += ["--outputs", ",".join(variant.outputs)] if variant.outputs else []
    return words if variant.opset is None else [*words, "--opset", str(variant.opset)]


def _candidates(asked: Questions, source: str) -> tuple[list[str], bool]:
    """Rules that are bad together, and good when removed: those that fired, or all if unknown; and which of the two it is. Raises
    BisectError if there are none."""
    check, runs = asked.check, asked.runs
    answer, outcome = asked.answer(None)
    if answer is None:
        raise CannotTellError(f"the check cannot decide whether the rules make {source} bad: {check.unclear}", "the result")
    if not answer:
        _not_bad(asked, source, outcome)
    if asked((), 0) is None:
        raise CannotTellError(f"the check cannot tell whether {source} is bad without any rule: {check.unclear}", "the input")
    if asked((), 0):
        why = asked.answer((), 0)[1].accused or check.why
        raise AlreadyTrueError(f"{source} is bad without rules, too, so no rule is to blame; `passat bisect` finds the pass: {why}")
    fired = list(dict.fromkeys(map(equation_of, outcome.fired)))
    known = bool(fired) and outcome.error is None and bool(asked(fired))
    return (fired, True) if known else (runs.names(), False)


def _not_bad(asked: Questions, source: str, outcome: Outcome) -> NoReturn:
    """Raises BisectError: the model is good with all rules, at least without regions."""
    bad, otherwise = asked.answer(None, None)
    if bad:
        if _same(outcome.module, otherwise.module):
            raise FlappingError("the check is not stable: it called the same model good first, then bad")
        raise BisectError(
            f"{source} is bad only if large functions are cut into regions, so single applications cannot be distinguished; "
            "try another --config rules.region_nodes"
        )
    count = len({equation_of(name) for name in outcome.fired})
    which = f"{count} {'rule' if count == 1 else 'rules'} fired" if count else "no rule fired"
    raise NeverTrueError(f"{source} is good with all rules, so no rule is to blame ({which})")


def _confirmed(
    asked: Questions, names: Sequence[str], unions: int, *, expected: bool, trace: Trace | None = None
) -> tuple[IRModule | None, str, Exception | None]:
    """The module of the deciding run, repeated and checked again; why it is bad, and the exception of a pass. Raises FlappingError if the
    answer changes."""
    known = asked.answer(names, unions)[1].module
    answer, outcome = asked.again(names, unions, trace)
    if answer is expected:
        why = asked.check.why if answer and outcome.error is None else ""
        return outcome.module, outcome.accused or why, outcome.error
    words = {True: "bad", False: "good", None: "undecidable"}
    said = f"{words[expected]} first, then {words[answer]}"
    if _same(known, outcome.module):
        raise FlappingError(f"the check is not stable: it called the same model {said}")
    raise FlappingError(f"two runs of the optimization differ, for example because of a time limit: the result was {said}")


def _same(one: IRModule | None, other: IRModule | None) -> bool:
    return one is not None and other is not None and structural_equal(one, other)


def _describe(found: GuiltyApplication, trace: Trace, *, raised: bool) -> GuiltyApplication:
    """Describes the last application of a trace."""
    runs = [run for run in trace.runs if run.applications]
    if raised or not runs:
        return found
    run = runs[-1]
    last = run.applications[-1]
    view = View(run.graph, run.provenance)
    matched = matched_part(run, last)
    nodes = (last.matched[0].row[0],) if matched is None else matched.nodes
    names = [name for node in nodes if (name := view.name(node))]
    return GuiltyApplication(
        *(found.number, found.total, found.candidates, last.rule, run.pass_of(last.rule), run.function, view.place(last.matched[0].row[0])),
        *(tuple(dict.fromkeys(names)), matched, run, last),
    )


def _text(function: Function) -> str:
    """A function as text, with references for constants."""
    return pretty_print(function).partition("\n\n/*")[0]


def rule_files(sets: Sequence[type[RuleSet]]) -> list[str]:
    """The files of rule sets, as relative paths if below the current folder."""
    files = dict.fromkeys(file_of(one) or "FILE.py" for one in sets)
    return [os.path.relpath(file) if file.startswith(os.getcwd() + os.sep) else file for file in files]

"""Reports of checks, as plain data and as text: the holes of an instance, and both sides in Relay's text format with their values."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any as AnyValue
from typing import Final, Literal

from passat.ir.counting import counted
from passat.ir.evaluate import Value
from passat.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem, Var
from passat.ir.op import REQUIRED, Op
from passat.ir.tensor import Array, Tensor
from passat.rules.checking.case import Case, Program, declared
from passat.rules.checking.trial import Trial


@dataclass
class Finding:
    """A problem with a rule, in one sentence. `kind` is one of `value`, `breaks`, `raises`, `types`, `invalid`, `never matches`, `never
    holds`, `undefined`, `loops`, `few`, `subsumed`, `enlarges`; a finding that does not fail the rule is a warning."""

    kind: str
    text: str
    rejects: bool = True


@dataclass
class Counterexample:
    """The smallest counterexample found, line by line, and the difference between the sides."""

    lines: list[str]
    reason: str


@dataclass
class RuleReport:
    """The result for one rule. `rejected` counts instances by the guard or computed attribute that rejected them, `not_compared` by the
    reason."""

    name: str
    rule: str
    guards: list[str]
    math: str
    source: str
    seed: int
    drawn: int = 0
    ill_typed: int = 0
    accepted: int = 0
    compared: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    not_compared: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    counterexample: Counterexample | None = None
    fixed_by: str = ""
    reproduce: str = ""

    @property
    def verdict(self) -> Literal["sound", "rejected", "unchecked"]:
        """`sound` without findings against the rule, `unchecked` if nothing could be compared."""
        if any(finding.rejects for finding in self.findings):
            return "rejected"
        return "sound" if self.compared else "unchecked"

    @property
    def ok(self) -> bool:
        """True if the rule passed."""
        return self.verdict == "sound"

    def data(self) -> dict[str, AnyValue]:
        """The report for JSON."""
        return {"verdict": self.verdict, **asdict(self)}


def count(counts: dict[str, int], key: str) -> None:
    """Increments a counter."""
    counts[key] = counts.get(key, 0) + 1


_SHOWN: Final = 16
"""Maximum number of elements of a tensor that are shown."""
_SHOWN_CHECKS: Final = 8
"""Number of checks whose rejections are shown; a rule for many operators has a guard for each."""
_SUFFIXES: Final = {"float32": "f", "float64": "f64", "float16": "f16", "int32": "", "int64": "i64", "bool": ""}


def instance_lines(trial: Trial) -> list[str]:
    """A trial, one line per hole and side."""
    case, program = trial.case, trial.program
    lines = [f"{name}: {_declared(case, name)} = {_value(value)}" for name, value in case.inputs.items()]
    lines += [
        f"{name}: constant {case.types[name]!r} = {_value(value)}"
        for name, value in case.constants.items()
        if _is_hole(name) and name not in case.computed
    ]
    if program is None:
        return lines
    names = _names(case, program)
    sides = [("left", text(program.body, names), trial.left_value)]
    if trial.right is not None:
        sides.append(("right", text(trial.right, names), trial.right_value))
    for side, shown, arrays in sides:
        values = ", ".join(map(_array, arrays))
        lines.append(f"{side:6}{shown}{f' = {values}' if arrays else ''}")
    return lines


def _is_hole(name: str) -> bool:
    return name.isidentifier() and name not in ("True", "False")


def _declared(case: Case, name: str) -> str:
    shown = declared(case, name)
    return f"{shown!r}" if shown == case.types[name] else f"{shown!r}, here {case.types[name]!r}"


def _names(case: Case, program: Program) -> Mapping[int, str]:
    """The constants of the case by identity."""
    return {id(expr): key[1] for key, expr in program.terms.items() if key[0] in ("var", "const") and key[1] in case.constants}


def text(expr: Expr, names: Mapping[int, str]) -> str:
    """An expression on one line, with non-default attributes."""
    if id(expr) in names:
        return names[id(expr)]
    if isinstance(expr, Var):
        return f"%{expr.name_hint}"
    if isinstance(expr, Constant):
        return _constant(expr.data)
    if isinstance(expr, Tuple):
        return f"({', '.join(text(field, names) for field in expr.fields)}{',' if len(expr.fields) == 1 else ''})"
    if isinstance(expr, TupleGetItem):
        return f"{text(expr.tuple_value, names)}.{expr.index}"
    assert isinstance(expr, Call)
    assert isinstance(expr.op, Op)
    given = [f"{name}={_attribute(value)}" for name, value in expr.attrs.items() if value != expr.op.defaults.get(name, REQUIRED)]
    return f"{expr.op.name}({', '.join([*(text(arg, names) for arg in expr.args), *given])})"


def _attribute(value: AnyValue) -> str:
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_attribute, value))}]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _constant(tensor: Tensor) -> str:
    element = tensor.uniform()
    if element is not None and not tensor.shape:
        return f"{_element(element)}{_SUFFIXES.get(tensor.dtype, tensor.dtype)}"
    return _value(tensor)


def _value(value: Value) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_value, value))}{',' if len(value) == 1 else ''})"
    element = value.uniform()
    if element is not None and value.size > 1:
        return f"{_element(element)} throughout"
    return _array(value.numpy())


def _array(array: Array) -> str:
    if array.size > _SHOWN:
        some = ", ".join(map(_element, array.reshape(-1)[:_SHOWN]))
        return f"{array.dtype}{list(array.shape)}[{some}, ...]"
    if not array.size:
        return f"empty {list(array.shape)}"
    return _nested(array)


def _nested(array: Array) -> str:
    return f"[{', '.join(map(_nested, array))}]" if array.ndim else _element(array[()])


def _element(value: AnyValue) -> str:
    """A number with the digits that distinguish it from its neighbors: whole floats without a decimal point, -0.0 preserved."""
    text = str(value).removesuffix(".0")
    return "-0.0" if text == "-0" else text


def reports_text(reports: Sequence[RuleReport], *, verbose: bool = False) -> str:
    """The findings by rule (with `verbose`, all rules), and a summary."""
    lines: list[str] = []
    for report in reports:
        if verbose or report.findings or not report.ok:
            lines += [*rule_lines(report), ""]
    return "\n".join([*lines, summary(reports)])


def rule_lines(report: RuleReport) -> list[str]:
    """One rule: its text, how it was tried, findings, the smallest counterexample, and the proposed fix."""
    lines = [f"{report.name}: {report.verdict}", f"    {report.rule}    ({report.source})"]
    if report.guards:
        lines.append(f"    where {' and '.join(report.guards)}")
    lines.append(f"    {_tried(report)}")
    lines += [f"    not compared, {number}: {reason}" for reason, number in _most(report.not_compared)]
    for finding in report.findings:
        lines.append(f"  {'!' if finding.rejects else '?'} {finding.text}")
        if report.counterexample and finding is report.findings[0]:
            lines += [f"      {line}" for line in report.counterexample.lines]
            lines += [f"    fixed by {report.fixed_by}"] if report.fixed_by else []
            lines.append(f"    repeat with --rule {report.name} --seed {report.seed}")
    return lines


def _tried(report: RuleReport) -> str:
    said = [f"{counted(report.drawn, 'instance')} drawn", f"{report.compared} compared"]
    if report.ill_typed:
        said.append(f"{report.ill_typed} ill-typed")
    most = _most(report.rejected)
    said += [f"{number} rejected: {reason}" for reason, number in most[:_SHOWN_CHECKS]]
    rest = [number for _, number in most[_SHOWN_CHECKS:]]
    said += [f"{sum(rest)} rejected by {len(rest)} other checks"] if rest else []
    return ", ".join(said)


def _most(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))


def summary(reports: Sequence[RuleReport]) -> str:
    """A summary of all rules in one sentence."""
    rules = counted(len(reports), "rule")
    compared = sum(report.compared for report in reports)
    parts = [f"{rules} checked on {counted(compared, 'instance')}"]
    for verdict in ("sound", "rejected", "unchecked"):
        number = sum(report.verdict == verdict for report in reports)
        if number:
            parts.append(f"{number} {verdict}")
    warnings = sum(not finding.rejects for report in reports for finding in report.findings)
    if warnings:
        parts.append(counted(warnings, "warning"))
    return ", ".join(parts)

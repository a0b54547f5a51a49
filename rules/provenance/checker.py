"""The checker of certificates: proves each step by itself, and with them that the last program equals the first.

It knows the rules, the operators' types and kernels, and congruence closure (`passat.rules.provenance.closure`); it uses nothing of the
engine that found the steps, nor egglog. What a certificate says is never believed: a substitution is put into both sides of the rule,
conditions are asked again about types and constants inferred here, folded constants are computed again.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any as AnyValue

from passat.ir.expr import Expr, Function, GlobalVar, Var
from passat.ir.infer import infer_type
from passat.ir.tensor import Tensor
from passat.ir.types import Type
from passat.rules.provenance.form import check_form, rule_text
from passat.rules.provenance.plain import CertificateError, attrs_of, type_of_plain
from passat.rules.provenance.saturated import Saturated, expression
from passat.rules.provenance.terms import FUNCTION, GLOBAL, VAR, operands_of
from passat.rules.rule import Rule


@dataclass(frozen=True)
class Gap:
    """A step that a certificate does not cover: the pass, the function that it changed, and why."""

    pass_name: str
    function: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.pass_name} in the function {self.function}{f': {self.reason}' if self.reason else ''}"


def gaps_of(data: Mapping[str, AnyValue]) -> list[Gap]:
    """The steps that a certificate does not cover."""
    return [Gap(part["pass"], part["function"], part["uncovered"]) for part in data["steps"] if "uncovered" in part]


@dataclass
class Verdict:
    """What a certificate proves.

    `functions` are the functions whose last program equals the first, provided that each gap is harmless. `trusted` are the gaps that the
    user accepts, `uncovered` the others: where there are any, the certificate is not `complete` and proves nothing. `unions` and `folds`
    count the equations and computed constants that were replayed.
    """

    unions: int = 0
    folds: int = 0
    functions: list[str] = field(default_factory=list)
    uncovered: list[Gap] = field(default_factory=list)
    trusted: list[Gap] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every step is proved or trusted, and something is claimed at all."""
        return bool(self.functions) and not self.uncovered

    def __str__(self) -> str:
        of = "" if self.functions == ["main"] else f" of {', '.join(self.functions)}"
        names = dict.fromkeys(gap.pass_name for gap in (*self.trusted, *self.uncovered))
        trusted = f" if {', '.join(names)} can be trusted" if names else ""
        steps = f"{self.unions} applications of rules and {self.folds} folded constants"
        head = f"it holds{trusted}: {steps} lead from the first program{of} to the last"
        gaps = [*(f"trusted, not checked: pass {gap}" for gap in self.trusted), *(f"not covered: pass {gap}" for gap in self.uncovered)]
        return "\n".join([head, *gaps])


class Checker:
    """Checks one certificate. `rules` are the rules at hand, by name, each direction by itself; `constants` are contents by digest; `trust`
    names passes whose uncovered steps are accepted."""

    def __init__(self, data: AnyValue, rules: Mapping[str, Rule], constants: Mapping[str, Tensor], trust: Collection[str] = ()) -> None:
        check_form(data)
        self._trust = frozenset(trust)
        self.data = data
        self.rows = data["terms"]
        self.rules = rules
        self.constants = dict(constants)
        self.types: dict[int, Type] = {}
        """What has been found of the types of terms beyond what follows from their parts."""
        self.verdict = Verdict()
        self._plain: dict[int, Expr] = {}
        self._proven: dict[int, int] = {}
        for name, text in data["rules"].items():
            known = rules.get(name)
            if known is None:
                raise CertificateError(f"the rule {name} is not known here; rules of your own have to be given again")
            if rule_text(known) != text:
                raise CertificateError(f"the rule {name} is another one here: {rule_text(known)}; the certificate has {text}")

    def run(self) -> Verdict:
        """Checks all steps. Raises CertificateError that names the first step that does not hold; gaps are in the verdict."""
        parts = self.data["steps"]
        for gap in gaps_of(self.data):
            (self.verdict.trusted if gap.pass_name in self._trust else self.verdict.uncovered).append(gap)
        for number, part in enumerate(parts, 1):
            if "uncovered" not in part:
                Saturated(self, part, f"{part['pass']}, part {number}").run()
            if part["before"] is not None and part["after"] is not None:
                self._equate(part["before"], part["after"])
        for name, (before, after) in self.data["functions"].items():
            gaps = [(part["before"], part["after"]) for part in parts if "uncovered" in part and part["function"] == name]
            trusted = any(None in gap for gap in gaps)  # where both programs are known, the others still have to lead from one to the next
            if before is not None and after is not None and self.same(before) == self.same(after):
                self.verdict.functions.append(name)
            elif not trusted:
                raise CertificateError(f"the end: the last program of the function {name} does not follow from the first one")
        return self.verdict

    def _equate(self, before: int, after: int) -> None:
        """Makes programs one that have been shown to be equal, or that are taken to be; of functions of the same parameters the bodies."""
        old, new = self.rows[before], self.rows[after]
        if old[0] == new[0] == FUNCTION:
            if old[:2] != new[:2] or operands_of(old)[:-1] != operands_of(new)[:-1]:
                return
            before, after = operands_of(old)[-1], operands_of(new)[-1]
        self._proven[self.same(after)] = self.same(before)

    def same(self, term: int) -> AnyValue:
        """What is the same for programs that have been shown to be equal; functions are equal where their bodies are."""
        row = self.rows[term]
        if row[0] == FUNCTION:
            *params, body = operands_of(row)
            return ("function", repr(row[1]), tuple(params), self.same(body))
        while term in self._proven and self._proven[term] != term:
            term = self._proven[term]
        return term

    def plain(self, term: int) -> Expr:
        """The expression of a term as it stands, with its type."""
        stack = [term]
        while stack:
            top = stack[-1]
            missing = [part for part in operands_of(self.rows[top]) if part not in self._plain]
            if top in self._plain or not missing:
                stack.pop()
                if top not in self._plain:
                    self._plain[top] = self._expression(top)
            else:
                stack += missing
        return self._plain[term]

    def _expression(self, term: int) -> Expr:
        row = self.rows[term]
        if row[0] == VAR:
            return Var(row[1], type_of_plain(row[3]))
        if row[0] == GLOBAL:
            made = GlobalVar(row[1])
            first = self.data["functions"].get(row[1], [None])[0]
            if first is not None and first < term:  # a function that calls itself comes after its name
                made._checked_type = self.plain(first).checked_type
            return made
        if row[0] == FUNCTION:
            *params, body = [self._plain[part] for part in operands_of(row)]
            return infer_type(Function([param for param in params if isinstance(param, Var)], body, attrs=attrs_of(row[1])))
        return infer_type(expression(row, [self._plain[part] for part in operands_of(row)], self.constants))

"""The form of certificates: which version, what stands where, and how a rule is named in them."""

from typing import Any as AnyValue
from typing import Final

from passat.rules.provenance.plain import CertificateError
from passat.rules.provenance.terms import APPLY, CALL, CONST, FIELD, FUNCTION, GLOBAL, IF, TUPLE, VAR, operands_of
from passat.rules.rule import KEPT, Rule

FORMAT: Final = "passat certificate"
VERSION: Final = 1

_ROWS: Final[dict[str, tuple[type, ...]]] = {
    CALL: (str, dict, list),
    CONST: (dict,),
    VAR: (str, int),
    TUPLE: (list,),
    FIELD: (int, list),
    FUNCTION: (dict, int, list),
    IF: (list,),
    APPLY: (list,),
    GLOBAL: (str,),
}
"""What the terms of each kind hold. A variable's type, and the tag of a stateful call, are looked at by themselves."""
_WORDS: Final = {str: "a text", int: "an integer", list: "a list", dict: "an object", bool: "true or false"}


def rule_text(rule: Rule) -> str:
    """A rule in words, with its conditions: a certificate holds for the rules that it was made with."""
    when = f" when {', '.join(map(repr, rule.conditions))}" if rule.conditions else ""
    freely = f", {rule.nonfinite}" if rule.nonfinite != KEPT else ""
    return f"{rule!r}{when} [{rule.math}{freely}]"


def check_form(data: AnyValue) -> None:
    """Raises CertificateError, naming the place, for what has not the form of a certificate."""
    if not isinstance(data, dict) or FORMAT not in data:
        raise CertificateError("this is no certificate of Passat's")
    if data[FORMAT] != VERSION:
        raise CertificateError(f"the certificate is of version {data[FORMAT]!r}; this Passat reads version {VERSION}")
    for name, kind in (("rules", dict), ("terms", list), ("functions", dict), ("steps", list)):
        expect(data, name, kind, "the certificate")
    for name in data["rules"]:
        expect(data["rules"], name, str, "rules")
    rows = data["terms"]
    for number, row in enumerate(rows):
        _check_row(row, number)
    for name, pair in data["functions"].items():
        if not isinstance(pair, list) or len(pair) != 2:
            raise CertificateError(f"functions: {name} needs the numbers of two terms, not {pair!r}")
        for term in pair:
            _check_term(term, len(rows), f"functions: {name}", optional=True)
    for number, part in enumerate(data["steps"], 1):
        _check_part(part, number, len(rows))


def expect(data: AnyValue, name: AnyValue, kind: type, where: str) -> AnyValue:
    """A member of an object or list, where it is of a kind. Raises CertificateError."""
    try:
        value = data[name]
    except (LookupError, TypeError):
        raise CertificateError(f"{where}: {name!r} is missing") from None
    if type(value) is not kind:
        raise CertificateError(f"{where}: {name!r} has to be {_WORDS[kind]}, it is {value!r}")
    return value


def _check_row(row: AnyValue, number: int) -> None:
    where = f"terms, number {number}"
    if not isinstance(row, list) or not row or not isinstance(row[0], str) or row[0] not in _ROWS:
        raise CertificateError(f"{where}: {row!r} is no term")
    for place, kind in enumerate(_ROWS[row[0]], 1):
        expect(row, place, kind, where)
    extra = len(row) - 1 - len(_ROWS[row[0]])
    if extra != (1 if row[0] == VAR else 0) and not (row[0] == CALL and extra == 1 and isinstance(row[4], str)):
        raise CertificateError(f"{where}: {row!r} is no term")
    for part in operands_of(row):
        _check_term(part, number, where)
    count = len(operands_of(row))
    if (row[0] == FIELD and count != 1) or (row[0] == IF and count != 3) or (row[0] == APPLY and not count):
        raise CertificateError(f"{where}: {row!r} has the wrong number of parts")
    if row[0] == FUNCTION and row[2] != count - 1:
        raise CertificateError(f"{where}: {row!r} has the wrong number of parts")


def _check_term(term: AnyValue, count: int, where: str, *, optional: bool = False) -> None:
    if optional and term is None:
        return
    if type(term) is not int or not 0 <= term < count:
        raise CertificateError(f"{where}: {term!r} is not the number of a term before")


def _check_part(part: AnyValue, number: int, count: int) -> None:
    where = f"part {number}"
    if not isinstance(part, dict):
        raise CertificateError(f"{where} has to be an object, it is {part!r}")
    where = f"{expect(part, 'pass', str, where)}, part {number}"
    expect(part, "function", str, where)
    covered = "uncovered" not in part
    for name in ("before", "after"):
        if name not in part:
            raise CertificateError(f"{where}: {name!r} is missing")
        _check_term(part[name], count, f"{where}, {name}", optional=not covered)
    if not covered:
        expect(part, "uncovered", str, where)
        return
    if "together" in part:
        expect(part, "together", bool, where)
    for name in ("growth", "opset"):
        if part.get(name) is not None:
            expect(part, name, int, where)
    for place, step in enumerate(expect(part, "steps", list, where), 1):
        _check_step(step, f"{where}, step {place}", count)


def _check_step(step: AnyValue, where: str, count: int) -> None:
    if not isinstance(step, dict):
        raise CertificateError(f"{where} has to be an object, it is {step!r}")
    what = next((name for name in ("fold", "static", "sizes", "rule") if name in step), None)
    if what is None:
        raise CertificateError(f"{where}: it is neither a rule nor anything else that is known")
    if what != "rule":
        for name in (what, "to"):
            _check_term(step.get(name), count, f"{where}, {name}")
        if "by" in step:
            expect(step, "by", str, where)
        return
    where = f"{where} ({expect(step, 'rule', str, where)})"
    for match in expect(step, "matches", list, where):
        if not isinstance(match, dict):
            raise CertificateError(f"{where}: a match has to be an object, it is {match!r}")
        _check_term(match.get("at"), count, f"{where}, at")
        for name, term in expect(match, "holes", dict, where).items():
            _check_term(term, count, f"{where}, {name}")
        for call in expect(match, "calls", list, where):
            expect(call, "attrs", dict, where)
    for union in expect(step, "unions", list, where):
        if not isinstance(union, list) or len(union) != 2:
            raise CertificateError(f"{where}: a union is of two terms, not {union!r}")
        for term in union:
            _check_term(term, count, f"{where}, unions")

"""The form of certificates: which version, and what stands where."""

from typing import Any as AnyValue
from typing import Final

from passat.rules.provenance.plain import CertificateError
from passat.rules.provenance.terms import APPLY, CALL, CONST, FIELD, FUNCTION, GLOBAL, IF, TUPLE, VAR, operands_of

FORMAT: Final = "passat certificate"
VERSION: Final = 2

_TERM, _TERM_OR_NULL = "the number of a term before", "the number of a term before, or null"
_WORDS: Final = {str: "a text", int: "an integer", list: "a list", dict: "an object"}
_WHOLE: Final = {"rules": {...: str}, "terms": list, "functions": {...: [_TERM_OR_NULL]}, "steps": [dict]}
_STEP: Final = {"rule": str, "left": [_TERM], "right": [_TERM]}
_PART: Final = {"pass": str, "function": str, "opset": int, "before": _TERM, "after": _TERM, "steps": [_STEP]}
_GAP: Final = {"pass": str, "function": str, "uncovered": str, "before": _TERM_OR_NULL, "after": _TERM_OR_NULL}
_ROWS: Final[dict[str, tuple[AnyValue, ...]]] = {
    CALL: (str, str, dict, [_TERM]),
    CONST: (str, dict),
    VAR: (str, str, int, object),
    TUPLE: (str, [_TERM]),
    FIELD: (str, int, [_TERM]),
    FUNCTION: (str, dict, int, [_TERM]),
    IF: (str, [_TERM]),
    APPLY: (str, [_TERM]),
    GLOBAL: (str, str),
}
"""What the terms of each kind hold; the call of a stateful operator its tag as well."""


def check_form(data: AnyValue) -> None:
    """Raises CertificateError, naming the place, for what has not the form of a certificate."""
    if not isinstance(data, dict) or FORMAT not in data:
        raise CertificateError("this is no certificate of Passat's")
    if data[FORMAT] != VERSION:
        raise CertificateError(f"the certificate is of version {data[FORMAT]!r}; this Passat reads version {VERSION}")
    count = len(data["terms"]) if isinstance(data.get("terms"), list) else 0
    _check(data, _WHOLE, "the certificate", count)
    for name, pair in data["functions"].items():
        if len(pair) != 2:
            raise CertificateError(f"functions, {name}: needs the numbers of two terms, not {pair!r}")
    for number, row in enumerate(data["terms"]):
        form = _ROWS.get(row[0]) if isinstance(row, list) and row and isinstance(row[0], str) else None
        form = (*form, str) if form is not None and row[0] == CALL and len(row) == 5 else form
        _check(row, form, f"terms[{number}]", number)
        parts = len(operands_of(row))
        if (row[0] == FIELD and parts != 1) or (row[0] == IF and parts != 3) or parts < {APPLY: 1, FUNCTION: 1}.get(row[0], 0):
            raise CertificateError(f"terms[{number}]: {row!r} has the wrong number of parts")
    for number, part in enumerate(data["steps"], 1):
        _check(part, _GAP if "uncovered" in part else _PART, f"{part.get('pass')}, part {number}", count)


def _check(value: AnyValue, form: AnyValue, where: str, count: int) -> None:
    if form in (_TERM, _TERM_OR_NULL):
        if not (type(value) is int and 0 <= value < count) and not (value is None and form is _TERM_OR_NULL):
            raise CertificateError(f"{where}: {value!r} is not {form}")
    elif form is None or (isinstance(form, tuple) and len(value) != len(form)):
        raise CertificateError(f"{where}: {value!r} is no term")
    elif isinstance(form, tuple):
        for place, inner in enumerate(form):
            _check(value[place], inner, f"{where}[{place}]", count)
    elif form is not object and type(value) is not (kind := form if isinstance(form, type) else type(form)):
        raise CertificateError(f"{where} has to be {_WORDS[kind]}, it is {value!r}")
    elif isinstance(form, list):
        for place, each in enumerate(value, 1):
            _check(each, form[0], f"{where}, {place}", count)
    elif isinstance(form, dict):
        for name, inner in (dict.fromkeys(value, form[...]) if ... in form else form).items():
            if name not in value:
                raise CertificateError(f"{where}: {name!r} is missing")
            _check(value[name], inner, f"{where}, {name}", count)

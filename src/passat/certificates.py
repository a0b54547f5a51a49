"""Certificates of optimizations: written to files, and checked against their models."""

import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from typing import Any as AnyValue

from passat.ir.argument_checks import FILE, PATH, kind, sequence
from passat.ir.bounded_read import decode_json, read_bounded
from passat.ir.collector import collector_paused
from passat.ir.module import IRModule
from passat.ir.onnx import from_onnx
from passat.ir.passat_error import PassatError
from passat.ir.whole_file import write_whole
from passat.passmgr import UnknownPassError, get_entry
from passat.pipelines import check_rule_sets
from passat.rules import RulePass
from passat.rules.planned_rules import leaves
from passat.rules.provenance.checker import Checker
from passat.rules.provenance.plain import CertificateError, Uncovered
from passat.rules.provenance.terms import Terms, check_form
from passat.rules.provenance.verdict import Verdict
from passat.rules.provenance.writer import WRITTEN, rules_by_name
from passat.rules.rule_set import RuleSet

if TYPE_CHECKING:
    from onnx import ModelProto

    Model = ModelProto | str | os.PathLike[str]

LIMIT: Final = 1 << 30
"""Maximum size of a certificate file in bytes."""
Certificate = Mapping[str, AnyValue]


class TrustError(PassatError, ValueError):
    """A name in `trust` that is unknown, or of a pass with rules, whose steps a certificate must show."""

    exit_code = 2


class IncompleteCertificateError(CertificateError):
    """A certificate that is valid but has uncovered steps. `verdict` lists them."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        super().__init__(_incomplete(verdict))


def check_certificate(
    certificate: Certificate | str | os.PathLike[str],
    *,
    before: "Model | None" = None,
    after: "Model | None" = None,
    rules: Sequence[type[RuleSet]] = (),
    trust: Sequence[str] = (),
) -> Verdict:
    """Checks a certificate, or a certificate file, step by step, with a checker that shares only the rules with the engine.

    `before` and `after` are the models that it should be about; without them, it proves a statement about the programs in it. `rules` are
    the user's own rule sets that took part; those of plug-ins are known. `trust` names passes without rules whose steps are accepted
    without proof.

    Raises CertificateError that names the first invalid step, IncompleteCertificateError for uncovered steps, TrustError, and OnnxError for
    unreadable models.
    """
    kind((*PATH, Mapping), "a certificate, or the path of its file")("certificate", certificate)
    sequence(str, "a list of names of passes")("trust", trust)
    check_rule_sets(rules)
    trusted, sets = _check_trust(trust), tuple(rules)
    with collector_paused():  # all created objects live until the end
        data = certificate if isinstance(certificate, Mapping) else read_certificate(certificate)
        check_form(data)
        constants: dict[str, AnyValue] = {}
        for model, place, what in ((before, 0, "begins with"), (after, 1, "ends with")):
            if model is not None:
                constants.update(_compare(data, from_onnx(model, lenient=True), place, what))
        known = rules_by_name(sets)
        if not data["rules"].keys() <= known.keys():
            from passat.catalog import plugin_sets  # makes all passes

            known = {**rules_by_name(plugin_sets().values()), **known}
        verdict = Checker(data, known, constants, trusted).run()
    if not verdict.complete:
        raise IncompleteCertificateError(verdict)
    return verdict


def _check_trust(names: Iterable[str]) -> set[str]:
    """The names of trusted passes as they appear in certificates. Raises TrustError."""
    found: set[str] = set()
    for name in names:
        if name == WRITTEN:
            found.add(name)
            continue
        try:
            entry = get_entry(name)
        except UnknownPassError:
            raise TrustError(f"unknown pass {name!r} in trust; `passat passes` lists the passes") from None
        if not _may_be_trusted(entry.name):
            raise TrustError(f"the pass {entry.name} has rules, so the certificate must contain its steps; it cannot be trusted instead")
        found.add(entry.make({}).info.name)
    return found


def _may_be_trusted(name: str) -> bool:
    """True if a pass can be trusted: it is registered and has no rules. The round trip through a file also qualifies."""
    if name == WRITTEN:
        return True
    try:
        entry = get_entry(name)
    except UnknownPassError:
        return False
    made = entry.default()
    return made is not None and not any(isinstance(each, RulePass) for each in leaves(made))


def _incomplete(verdict: Verdict) -> str:
    """The uncovered steps, and how to accept them."""
    if not verdict.uncovered:
        return "the certificate is empty: it covers no function"
    names = dict.fromkeys(gap.pass_name for gap in verdict.uncovered)
    able = [name for name in names if _may_be_trusted(name)]
    lost = [name for name in names if name not in able]
    gaps = ", ".join(map(str, verdict.uncovered))
    if lost:
        end = f"{', '.join(lost)} cannot be trusted instead, only registered passes without rules can"
    else:
        end = f"{' '.join(f'--trust {shlex.quote(name)}' for name in able)} accepts {'it' if len(verdict.uncovered) == 1 else 'them'}"
    return f"the certificate is incomplete: it does not cover {gaps}; {end}"


def read_certificate(path: str | os.PathLike[str]) -> Certificate:
    """The certificate in a file. Raises CertificateError."""
    FILE("path", path)
    name = os.fsdecode(path)
    try:
        data = decode_json(read_bounded(name, LIMIT))
    except OSError as error:
        raise CertificateError(f"{name} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise CertificateError(f"{name} is not a complete certificate: {error}") from None
    if not isinstance(data, dict):
        raise CertificateError(f"{name} is not a certificate")
    return data


def write_certificate(certificate: Certificate, path: str | os.PathLike[str]) -> None:
    """Writes a certificate to a file atomically."""
    kind(Mapping, "a certificate")("certificate", certificate)
    FILE("path", path)
    write_whole(Path(path), json.dumps(certificate).encode())


def _compare(data: Certificate, module: IRModule, place: int, what: str) -> Mapping[str, AnyValue]:
    """The constants of a model by digest. Raises CertificateError if the certificate belongs to another model."""
    terms = Terms()
    for number, row in enumerate(data["terms"]):
        try:
            known = terms.add(row) != number
        except Uncovered as reason:
            raise CertificateError(f"terms, number {number}: it has {reason}") from None
        if known:
            raise CertificateError(f"terms, number {number}: the term is a duplicate")
    terms.declares = not place  # what the last model declares says nothing about its values
    stated = {name: pair[place] for name, pair in data["functions"].items() if pair[place] is not None}
    if not stated.keys() <= {var.name_hint for var in module.functions}:
        raise CertificateError(f"this is not the model that the certificate {what}")
    for var, function in module.functions.items():
        name = var.name_hint
        try:
            found = terms.encode(function)
        except Uncovered as reason:
            raise CertificateError(f"the model has {reason}, which certificates do not cover") from None
        if found != stated.get(name):
            raise CertificateError(f"this is not the model that the certificate {what}")
    return terms.constants

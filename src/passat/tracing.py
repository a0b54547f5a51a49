"""What an optimisation writes down on its way when it is to be explained, certified, or shown as a page afterwards."""

from typing import TYPE_CHECKING

from passat.certificates import Certificate
from passat.explaining import annotate, nodes_of
from passat.ir.collector import collector_paused
from passat.ir.module import IRModule
from passat.ir.onnx import from_onnx
from passat.page.record import Record
from passat.report import PROVENANCE, Report
from passat.rules.engine.journal import Journal
from passat.rules.provenance.explanation import Explanation
from passat.rules.provenance.histories import Histories
from passat.rules.provenance.trail import Trail
from passat.rules.provenance.verdict import gaps_of
from passat.rules.provenance.writer import Writer

if TYPE_CHECKING:
    from onnx import ModelProto


class Tracing:
    """A journal of what rules do, a trail of the passes, and the values that each call of the result is written as; what is made of these.
    The runs of the pipeline are those of the journal from `begin` to `end`; later ones made candidates."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.trail = Trail(journal)
        self.begin = self.end = len(journal.runs)
        self.written: dict[int, list[str]] = {}
        self.explanation: Explanation | None = None
        self.certificate: Certificate | None = None
        self.record: Record | None = None

    def annotate(self, result: "ModelProto", original: "ModelProto", after: IRModule, report: Report) -> None:
        """Writes into the result where its nodes come from, unless it is the input itself; it keeps what it says of itself then."""
        if not report.kept:
            histories = Histories(self.journal.runs, self.trail.passed)
            remark = annotate(result, original, after, self.written, histories)
            report.remarks += [f"{PROVENANCE}{remark}"] if remark else []
        self.explanation = Explanation(tuple(nodes_of(result)))

    def certify(self, result: "ModelProto", folder: str | None, before: IRModule, after: IRModule, report: Report) -> None:
        """Makes the certificate: that what is read from the result is what went in. The report says what it does not cover."""
        with collector_paused():
            self.certificate = certificate = self._certificate(result, folder, before, after, kept=bool(report.kept))
        gaps = [str(gap) for gap in gaps_of(certificate)]
        report.remarks += [f"{PROVENANCE}the certificate does not cover {', '.join(gaps)}"] if gaps else []

    def _certificate(self, result: "ModelProto", folder: str | None, before: IRModule, after: IRModule, *, kept: bool) -> Certificate:
        passed = [] if kept else self.trail.passed
        return Writer().write(before, passed, self.journal.runs, before if kept else after, from_onnx(result, folder=folder, lenient=True))

"""What `passat.optimize` returns."""

import os
from typing import TYPE_CHECKING

from passat.ir.onnx import save
from passat.report import Report
from passat.source import about

if TYPE_CHECKING:
    from onnx import ModelProto

    from passat.certificates import Certificate
    from passat.page.record import Record
    from passat.rules.provenance.explanation import Explanation
    from passat.tracing import Tracing


class Result:
    """An optimised model, and the report of how it came about.

    `model` is the ModelProto; where the input was a file with external data, it refers to that data still, and `save` copies it.
    """

    def __init__(
        self, model: "ModelProto", report: Report, folder: str | None, tracing: "Tracing | None" = None, *, accepted: bool = True
    ) -> None:
        self.model = model
        self.report = report
        self._tracing = tracing
        self._folder = folder
        self._accepted = accepted

    @property
    def record(self) -> "Record | None":
        """What `write_report` needs beside the report, where that was asked for."""
        return None if self._tracing is None else self._tracing.record

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model through a temporary file that is moved into place; `onnx.checker` is asked, unless it accepted
        neither the input nor this model, or this is the input and nothing was verified.

        Raises OnnxError, and writes nothing then.
        """
        with self.report.clock("save"), about(self.report.source, os.fspath(path)):
            save(self.model, path, folder=self._folder, check=self._accepted)
        self.report.output = os.fspath(path)

    def explain(self, node: str | None = None) -> "Explanation":
        """Where the nodes come from: all of them, or those of a name. Raises ExplainError for an unknown name, and where `optimize` was
        not asked with `explain=True`."""
        if self._tracing is None or self._tracing.explanation is None:
            from passat.rules.provenance.explanation import ExplainError

            raise ExplainError("ask for it beforehand: optimize(..., explain=True)")
        return self._tracing.explanation if node is None else self._tracing.explanation.of(node)

    @property
    def certificate(self) -> "Certificate":
        """The certificate (`passat.certificates`), plain data for JSON. Raises CertificateError where `optimize` was not asked with
        `certificate=True`."""
        if self._tracing is None or self._tracing.certificate is None:
            from passat.rules.provenance.plain import CertificateError

            raise CertificateError("ask for it beforehand: optimize(..., certificate=True)")
        return self._tracing.certificate

    def write_report(self, path: str | os.PathLike[str]) -> None:
        """Writes what happened as one HTML page that needs nothing else: the program before and after, rules, e-graphs, times, order.

        Raises ValueError where `optimize` was not called with `record=True`, OSError where the file cannot be written.
        """
        if self.record is None:
            raise ValueError("nothing was recorded that a page could show: optimize(..., record=True)")
        from passat.page.write import write_page

        write_page(path, self.report, self.record)

    def __repr__(self) -> str:
        report = self.report
        verified = report.verification is not None and report.verification.equal
        return f"<Result: {report.node_count_before} nodes became {report.node_count_after}{', verified' if verified else ''}>"

"""Collects warnings and contradictions found during import, so that all are reported together."""

from collections.abc import Iterable
from dataclasses import replace

from passat.ir.diagnostics import Diagnostic, DiagnosticLevel
from passat.ir.expr import Span
from passat.ir.infer_error import MAX_ERRORS
from passat.ir.onnx.errors import ContradictionError


class Findings:
    """Collects warnings and contradictions. With `lenient` (`from_onnx`), contradictions are warnings, otherwise errors."""

    def __init__(self, warnings: list[Diagnostic], *, lenient: bool) -> None:
        self._warnings = warnings
        self._lenient = lenient
        self._contradictions: list[ContradictionError] = []

    def warn(self, sentence: str, span: Span | None) -> None:
        """Records a flaw of the model that does not keep it from running."""
        self._warnings.append(Diagnostic(DiagnosticLevel.WARNING, span, sentence))

    def contradiction(self, sentence: str, span: Span | None, excerpt: Iterable[str] = ()) -> None:
        """Records a flaw that keeps the model from running. Import continues to find more, up to a limit."""
        self._contradictions.append(ContradictionError(sentence, span, excerpt))
        if len(self._contradictions) >= MAX_ERRORS and not self._lenient:
            self.settle()

    def mark(self) -> tuple[int, int]:
        """Returns the current position."""
        return len(self._contradictions), len(self._warnings)

    def forget(self, mark: tuple[int, int]) -> None:
        """Drops findings since a position, before the same part is imported again."""
        del self._contradictions[mark[0] :], self._warnings[mark[1] :]

    def settle(self, *others: Diagnostic) -> None:
        """Raises the first contradiction, with the diagnostics of all findings. Does nothing without contradictions."""
        if not self._contradictions:
            return
        first = self._contradictions[0]
        found = [diagnostic for error in self._contradictions for diagnostic in error.diagnostics]
        if self._lenient:
            self._warnings += (replace(diagnostic, level=DiagnosticLevel.WARNING) for diagnostic in found)
            return
        first.diagnostics = (*found, *others)
        raise first

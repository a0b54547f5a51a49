"""What is found wrong with a model while it is read: warnings, and contradictions, which are collected so that all are told at once."""

from collections.abc import Iterable
from dataclasses import replace

from passat.ir.diagnostics import Diagnostic, DiagnosticLevel
from passat.ir.expr import Span
from passat.ir.infer_error import MAX_ERRORS
from passat.ir.onnx.errors import ContradictionError


class Findings:
    """Collects into a list of warnings; contradictions are warnings too where reading is lenient (`from_onnx`), else errors."""

    def __init__(self, warnings: list[Diagnostic], *, lenient: bool) -> None:
        self._warnings = warnings
        self._lenient = lenient
        self._contradictions: list[ContradictionError] = []

    def warn(self, sentence: str, span: Span | None) -> None:
        """Notes what is wrong with the model, and does not keep it from running."""
        self._warnings.append(Diagnostic(DiagnosticLevel.WARNING, span, sentence))

    def contradiction(self, sentence: str, span: Span | None, excerpt: Iterable[str] = ()) -> None:
        """Notes what cannot be run. Reading goes on, to see whether there is more; up to a limit."""
        self._contradictions.append(ContradictionError(sentence, span, excerpt))
        if len(self._contradictions) >= MAX_ERRORS and not self._lenient:
            self.settle()

    def mark(self) -> tuple[int, int]:
        """How much was found so far."""
        return len(self._contradictions), len(self._warnings)

    def forget(self, mark: tuple[int, int]) -> None:
        """Takes back what was found since then: that part is read once more."""
        del self._contradictions[mark[0] :], self._warnings[mark[1] :]

    def settle(self, *others: Diagnostic) -> None:
        """Raises the first contradiction, with the diagnostics of all and of what else is wrong; nothing where there was none."""
        if not self._contradictions:
            return
        first = self._contradictions[0]
        found = [diagnostic for error in self._contradictions for diagnostic in error.diagnostics]
        if self._lenient:
            self._warnings += (replace(diagnostic, level=DiagnosticLevel.WARNING) for diagnostic in found)
            return
        first.diagnostics = (*found, *others)
        raise first

"""The errors of ONNX import and export, and the check for a missing onnx package."""

import importlib
from collections.abc import Iterable

from passat.ir.diagnostics import Diagnostic, DiagnosticError, DiagnosticLevel
from passat.ir.expr import Span


class OnnxError(DiagnosticError, ValueError):
    """A model cannot be imported or exported. The message is one sentence on one line.

    If a model contradicts itself in several places, the message has a sentence for each, and `diagnostics` their locations.
    """

    exit_code = 1

    def __init__(self, message: str, diagnostics: Iterable[Diagnostic] = ()) -> None:
        super().__init__(" ".join(message.split()), diagnostics)

    def about(self, source: str) -> "OnnxError":
        """Returns this error with the name of the model as a prefix."""
        return OnnxError(f"{source}: {self.args[0]}", self.diagnostics)


class ContradictionError(OnnxError):
    """A part of a model contradicts another part; the rest can still be imported.

    ONNX Runtime may load such a model; `lenient=True` imports it. `span` is the location; `excerpt` shows the code
    (`passat.ir.diagnostics.Diagnostic`).
    """

    def __init__(self, message: str, span: Span | None = None, excerpt: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.diagnostics = (Diagnostic(DiagnosticLevel.ERROR, span, str(self.args[0]), excerpt=tuple(excerpt)),)


class OpsetError(OnnxError):
    """A program has a call that cannot be expressed in the opset of its model."""


class CheckerError(OnnxError):
    """`onnx.checker` rejects a model."""


def require_text(*texts: object) -> None:
    """Raises OnnxError if protobuf returns bytes for text of a model, as it does for invalid UTF-8."""
    if not set(map(type, texts)) <= {str}:  # hot path: every name of a model is checked here
        found = next(text for text in texts if not isinstance(text, str))
        raise OnnxError(f"the model contains text that is not UTF-8: {found!r}")


def require_onnx() -> None:
    """Imports the onnx package. Raises OnnxError with installation instructions if it is missing."""
    try:
        importlib.import_module("onnx")
    except ImportError as error:
        raise_interrupt(error)
        raise OnnxError("reading and writing ONNX models requires the onnx package; install it with: pip install 'passat[onnx]'") from None


def raise_interrupt(error: BaseException) -> None:
    """Raises KeyboardInterrupt, or its subclass for SIGTERM, again if the import of a compiled module converted it to an ImportError."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, KeyboardInterrupt):
            raise type(cause)(*cause.args) from error
        cause = cause.__cause__ or cause.__context__

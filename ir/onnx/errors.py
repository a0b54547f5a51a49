"""The one error of reading and writing ONNX, and the sentence for a missing onnx package."""

import importlib
from collections.abc import Iterable

from passat.ir.diagnostics import Diagnostic, DiagnosticError, DiagnosticLevel
from passat.ir.expr import Span


class OnnxError(DiagnosticError, ValueError):
    """A model that cannot be read or written. The message is one sentence, on one line, for the person whose file it is.

    Where a model contradicts itself in several places there is a sentence for each, and `diagnostics` says what they are about.
    """

    exit_code = 1

    def __init__(self, message: str, diagnostics: Iterable[Diagnostic] = ()) -> None:
        super().__init__(" ".join(message.split()), diagnostics)

    def about(self, source: str) -> "OnnxError":
        """This error with the name of the model before its sentence."""
        return OnnxError(f"{source}: {self.args[0]}", self.diagnostics)


class ContradictionError(OnnxError):
    """Something in a model does not fit what it stands with; what else the model says can be read all the same.

    ONNX Runtime may load such a model: then it is read with `lenient=True`.

    `span` says where; `excerpt` shows what it is about (`passat.ir.diagnostics.Diagnostic`).
    """

    def __init__(self, message: str, span: Span | None = None, excerpt: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.diagnostics = (Diagnostic(DiagnosticLevel.ERROR, span, str(self.args[0]), excerpt=tuple(excerpt)),)


class OpsetError(OnnxError):
    """A program has a call that the opset of its model has no form for."""


class CheckerError(OnnxError):
    """`onnx.checker` does not accept a model."""


def require_text(*texts: object) -> None:
    """Raises OnnxError where protobuf gives bytes for text of a model, as it does for what is not UTF-8."""
    if not set(map(type, texts)) <= {str}:  # every name of a model comes through here
        found = next(text for text in texts if not isinstance(text, str))
        raise OnnxError(f"the model holds text that is not UTF-8: {found!r}")


def require_onnx() -> None:
    """Imports the onnx package. Raises OnnxError that says how to install it."""
    try:
        importlib.import_module("onnx")
    except ImportError as error:
        raise_interrupt(error)
        raise OnnxError("reading and writing ONNX models needs the onnx package; install it with: pip install 'passat[onnx]'") from None


def raise_interrupt(error: BaseException) -> None:
    """Raises KeyboardInterrupt again, or what derives from it for SIGTERM, where it came while a compiled module was imported, which turns
    it into an ImportError."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, KeyboardInterrupt):
            raise type(cause)(*cause.args) from error
        cause = cause.__cause__ or cause.__context__

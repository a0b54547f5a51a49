"""The one error of reading and writing ONNX, and the sentence for a missing onnx package."""

import importlib


class OnnxError(ValueError):
    """A model that cannot be read or written. The message is one sentence, on one line, for the person whose file it is."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


def require_onnx() -> None:
    """Imports the onnx package. Raises OnnxError that says how to install it."""
    try:
        importlib.import_module("onnx")
    except ImportError as error:
        raise_interrupt(error)
        raise OnnxError("reading and writing ONNX models needs the onnx package; install it with: pip install 'passat[onnx]'") from None


def raise_interrupt(error: BaseException) -> None:
    """Raises KeyboardInterrupt again where it came while a compiled module was imported, which turns it into an ImportError."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        cause = cause.__cause__ or cause.__context__

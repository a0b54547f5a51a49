"""`tvm.error`: the exceptions that scripts catch."""

from passat.ir.diagnostics import DiagnosticError
from passat.ir.op import OpTypeError
from passat.ir.text import ParseError

__all__ = ["DiagnosticError", "OpTypeError", "ParseError", "TVMError"]

TVMError = RuntimeError
"""The base of errors for invalid programs and unknown passes, such as DiagnosticError and UnknownPassError."""

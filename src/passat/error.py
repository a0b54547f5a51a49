"""`tvm.error`: what scripts catch."""

from passat.ir.diagnostics import DiagnosticError
from passat.ir.op import OpTypeError
from passat.ir.text import ParseError

__all__ = ["DiagnosticError", "OpTypeError", "ParseError", "TVMError"]

TVMError = RuntimeError
"""What is raised where a program is wrong or a pass is unknown: DiagnosticError and UnknownPassError are such."""

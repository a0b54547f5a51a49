"""The operators, grouped by kind. Importing this package declares them all."""

from passat.ir.ops import elementwise

__all__ = ["elementwise"]

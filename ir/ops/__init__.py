"""The operators, grouped by kind. Importing this package declares them all."""

from passat.ir.ops import activation, along_axis, arithmetic, cast, comparison, reduction, unary

__all__ = ["activation", "along_axis", "arithmetic", "cast", "comparison", "reduction", "unary"]

"""Passat's gradients of operators. Importing this module registers them."""

from passat.ir.gradients import elementwise, movement, normalizations, products, reductions, scatters, windows

__all__ = ["elementwise", "movement", "normalizations", "products", "reductions", "scatters", "windows"]

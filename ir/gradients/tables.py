"""Passat's gradients of operators. Importing this module registers them."""

from passat.ir.gradients import elementwise, movement, products, reductions, windows

__all__ = ["elementwise", "movement", "products", "reductions", "windows"]

"""`tvm.tir.stmt_functor`: walks over statements and expressions."""

from passat.ir.tir.functor import ir_transform, post_order_visit, substitute

__all__ = ["ir_transform", "post_order_visit", "substitute"]

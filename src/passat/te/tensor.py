"""`tvm.te.tensor`: tensors and the operations that make them."""

from passat.ir.te.tensor import ComputeOp, ExternOp, Operation, PlaceholderOp, Tensor, TensorSlice

__all__ = ["ComputeOp", "ExternOp", "Operation", "PlaceholderOp", "Tensor", "TensorSlice"]

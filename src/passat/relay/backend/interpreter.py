"""`tvm.relay.backend.interpreter`: values, and executors of expressions."""

from passat.runtime import ConstructorValue, Executor, Interpreter, RefValue, TensorValue, TupleValue

__all__ = ["ConstructorValue", "Executor", "Interpreter", "RefValue", "TensorValue", "TupleValue"]

"""`tvm.relay.backend.interpreter`: values, and executors of expressions."""

from passat.relay.expr import const
from passat.runtime import ConstructorValue, Executor, Interpreter, RefValue, TensorValue, TupleValue

__all__ = ["ConstructorValue", "Executor", "Interpreter", "RefValue", "TensorValue", "TupleValue", "Value"]


class Value:
    """The base class of values before TVM 0.7; here it only makes them."""

    @staticmethod
    def from_scalar(value: float, dtype: str | None = None) -> TensorValue:
        """A number as an array without dimensions, with the element type of `relay.const` by default.

        >>> Value.from_scalar(1).dtype, Value.from_scalar(2.5, "float64").dtype
        ('int32', 'float64')
        """
        return TensorValue(const(value, dtype).data)

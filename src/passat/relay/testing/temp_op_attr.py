"""A temporary attribute of an operator, for tests."""

from typing import Any as AnyValue
from typing import Self

from passat.ir.op import get_op


class TempOpAttr:
    """A context manager that sets an attribute of an operator."""

    def __init__(self, op_name: str, attr_key: str, attr_value: AnyValue) -> None:
        self.op = get_op(op_name)
        self.attr_key = attr_key
        self.attr_value = attr_value
        self._before: tuple[int, AnyValue] | None = None

    def __enter__(self) -> Self:
        self._before = self.op.registered.get(self.attr_key)
        self.op.reset_attr(self.attr_key)
        self.op.set_attr(self.attr_key, self.attr_value)
        return self

    def __exit__(self, *raised: object) -> None:
        self.op.reset_attr(self.attr_key)
        if self._before is not None:
            self.op.set_attr(self.attr_key, self._before[1], self._before[0])

"""Functions of the loop IR."""

from collections.abc import Iterable, Mapping
from typing import Any as AnyValue
from typing import Self

from passat.ir import prim_func
from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.expr import Span
from passat.ir.tir.buffer import Buffer
from passat.ir.tir.equality import difference, digest
from passat.ir.tir.expr import ExprOp, Var, convert
from passat.ir.tir.node import Node
from passat.ir.tir.stmt import Stmt
from passat.ir.types import FuncType, TensorType, TupleType


class PrimFunc(prim_func.PrimFunc):
    """A function of numbers and pointers whose body is a statement. `buffer_map` gives the buffers that pointers among the parameters
    point to; a buffer among the parameters is a new pointer to it.

    >>> from passat.ir.tir.function import PrimFunc
    >>> from passat.ir.tir.stmt import Evaluate
    >>> n = Var("n")
    >>> print(PrimFunc([n], Evaluate(n + 1)))
    primfn(n: int32) {
      evaluate((n + 1))
    }
    """

    __slots__ = ("buffer_map",)
    params: tuple[Var, ...]  # type: ignore[assignment]  # variables of the loop IR instead of Relay's
    body: Stmt

    def __init__(
        self,
        params: Iterable[Var | Buffer | ExprOp],
        body: Stmt,
        ret_type: object = None,
        buffer_map: Mapping[Var, Buffer] | None = None,
        attrs: Attrs | Mapping[str, AnyValue] | None = None,
        span: Span | None = None,
    ) -> None:
        self.buffer_map = dict(buffer_map or {})
        made = []
        for param in params:
            if isinstance(param, Buffer):
                var = Var(param.name, "handle")
                self.buffer_map[var] = param
            else:
                var = convert(param)  # type: ignore[assignment]  # checked below
            if not isinstance(var, Var):
                raise TypeError(f"the parameters of a function are variables and buffers, not a {type(var).__name__}")
            made.append(var)
        self.params, self.body = tuple(made), body
        self.ret_type = None
        self.attrs = attrs if isinstance(attrs, Attrs) else Attrs(attrs) if attrs else EMPTY_ATTRS
        self.span = span
        self._checked_type = FuncType([TensorType((), param.dtype) for param in self.params], TupleType([]))

    def with_attr(self, name: str | Mapping[str, AnyValue], value: AnyValue = None) -> Self:
        """A function with an attribute set, or several of them given as a map."""
        made = self
        for key, each in name.items() if isinstance(name, Mapping) else [(name, value)]:
            made = super(PrimFunc, made).with_attr(key, each)
        return made

    def with_buffers(self, body: Stmt, buffer_map: Mapping[Var, Buffer]) -> Self:
        """A function with another body and other buffers of its parameters."""
        made = self.with_body(body)
        if made is self:
            return self
        made.buffer_map = dict(buffer_map)
        return made

    def text(self) -> str:
        """The function as text, which `passat.ir.tir.parser.parse_function` reads."""
        from passat.ir.tir.printer import show

        return show(self)

    def body_difference(self, other: prim_func.PrimFunc) -> str | None:
        """Describes the first difference in parameters, buffers and body, up to the names of variables; None if they are equal."""
        return difference(_Content(self), _Content(other)) if isinstance(other, PrimFunc) else f"a {type(other).__name__}"

    def body_hash(self) -> int:
        """A hash of the parameters, buffers and body."""
        return digest(_Content(self))

    def astext(self, *_: AnyValue, **__: AnyValue) -> str:
        """The function as text."""
        return self.text()

    __str__ = __repr__ = text


class _Content(Node):
    """The content of a function, for comparison: its parameters, the buffers of each, and its body."""

    __slots__ = ("body", "buffers", "params")
    FIELDS = ("params", "buffers", "body")
    DEFINES = frozenset({"params"})

    def __init__(self, function: PrimFunc) -> None:
        self.params, self.body = function.params, function.body
        self.buffers = tuple(function.buffer_map.get(param) for param in function.params)

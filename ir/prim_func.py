"""Functions of other back ends, such as kernels, which a module carries and Passat does not optimize."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any as AnyValue
from typing import Self

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.expr import BaseFunc, Span, Var
from passat.ir.types import FuncType, IncompleteType, Type


class PrimFunc(BaseFunc):
    """A function whose body belongs to another back end: source text, a handle, or another IR.

    Passat knows its name, its parameters, its attributes and, if given, its result type; the body is opaque. Function passes skip
    it; `PrimFuncPass` processes it. Derive a class for each kind of body; printed modules show the class name. Two functions are
    structurally equal if their classes, annotations, attributes and bodies (by `==`) are.

    >>> from passat.ir.expr import var
    >>> kernel = PrimFunc([var("x", shape=(4,))], "y = 2 * x", attrs={"global_symbol": "double"})
    >>> kernel
    primfn @double(%x: Tensor[(4), float32])
    >>> kernel.name, kernel.checked_type
    ('double', fn (Tensor[(4,), float32]) -> _)
    """

    __slots__ = ("body",)

    def __init__(
        self,
        params: Iterable[Var],
        body: object = None,
        ret_type: Type | None = None,
        attrs: Attrs | Mapping[str, AnyValue] | None = None,
        span: Span | None = None,
    ) -> None:
        self.params = tuple(params)
        self.body = body
        self.ret_type = ret_type
        self.attrs = attrs if isinstance(attrs, Attrs) else Attrs(attrs) if attrs else EMPTY_ATTRS
        self.span = span
        unknown = IncompleteType()
        self._checked_type = FuncType([param.type_annotation or unknown for param in self.params], ret_type or unknown)

    @property
    def name(self) -> str:
        """The name in the back end: the attribute `global_symbol`, as in TVM; empty if there is none."""
        return str(self.attrs.get("global_symbol", ""))

    def with_body(self, body: object) -> Self:
        """Returns a function of the same class with another body, or itself if the body is unchanged."""
        if body is self.body:
            return self
        changed = copy.copy(self)
        changed.body = body
        return changed

    def with_attr(self, name: str, value: AnyValue) -> Self:
        """Returns a function of the same class with an attribute set."""
        changed = copy.copy(self)
        changed.attrs = Attrs(self.attrs, **{name: value})
        return changed

    def text(self) -> str | None:
        """The function as text if its back end prints it; None otherwise."""
        return None

    def body_difference(self, other: "PrimFunc") -> str | None:
        """Describes how the body of another function of this class differs; None if it is equal."""
        return None if self.body == other.body else f"{self!r} against {other!r}"

    def body_hash(self) -> int:
        """A hash that functions with equal bodies share."""
        return 0

    def __repr__(self) -> str:
        from passat.ir.text.printer import show_prim_func

        return show_prim_func(self, self.name)

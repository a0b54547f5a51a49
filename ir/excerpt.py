"""Prints one expression and its operands in Relay's notation, for error messages. Never prints the whole program."""

import contextlib
from collections.abc import Callable
from typing import Any as AnyValue
from typing import Final

from passat.ir.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from passat.ir.op import Op
from passat.ir.types import Type

_OPERANDS: Final = 6
_ATTRIBUTES: Final = 8
_NAME: Final = 60
_TYPE: Final = 80


def excerpt(expr: Expr) -> tuple[str, ...]:
    """Returns the expression on one line, followed by a line for each named operand with its type and origin.

    Operands have their ONNX names if they come from an ONNX file. Long lists of operands or attributes are abbreviated.

    >>> from passat.ir.expr import const, var
    >>> from passat.ir.infer import infer_type
    >>> x = var("x", shape=(2, "n"))
    >>> print("\\n".join(excerpt(infer_type(x + (-x)))))
    add(%x, %0)
      %x: Tensor[(2, n), float32]
      %0: Tensor[(2, n), float32], of negative
    """
    return _Excerpt().lines(expr)


class _Excerpt:
    def __init__(self) -> None:
        self._names: dict[Expr, str] = {}
        self._taken: set[str] = set()

    def lines(self, expr: Expr) -> tuple[str, ...]:
        head = _FORMS.get(type(expr), _Excerpt._leaf)(self, expr)
        own = _own_name(expr)
        found = [f"%{own} = {head}" if own else head]
        for part, name in list(self._names.items()):  # printing a callee adds to the names
            origin = ""
            if isinstance(part, Call):
                named = isinstance(part.op, (Op, GlobalVar, Constructor, Var))
                origin = f", of {self._leaf(part.op) if named else 'a function'}"
            elif isinstance(part, Constant):
                origin = ", a constant"
            if part.span is not None and part.span.source_name and not isinstance(part, Var):
                at = f":{part.span.line}:{part.span.column}" if part.span.line else ""
                origin += f" in {_cut(part.span.source_name, _NAME)}{at}"
            found.append(f"  {name}: {_type(part._checked_type)}{origin}")
        return tuple(found)

    def _leaf(self, expr: Expr) -> str:
        """Prints an operand inline, or gives it a name if it is too long."""
        from passat.ir.text.literals import show_scalar, show_variable

        if isinstance(expr, Op):
            return _cut(expr.name, _NAME)
        if isinstance(expr, GlobalVar):
            return f"@{show_variable(_cut(expr.name_hint, _NAME))}"
        if isinstance(expr, Constructor):
            return _cut(expr.name_hint, _NAME)
        if isinstance(expr, Constant):
            with contextlib.suppress(Exception):  # the value may be read from a file, which can fail in any way
                scalar = show_scalar(expr.data)
                if scalar is not None:
                    return _cut(scalar, _NAME)
        if isinstance(expr, Tuple) and not expr.fields:
            return "()"
        name = self._names.get(expr)
        if name is None:
            hint = show_variable(_cut(expr.name_hint, _NAME)) if isinstance(expr, Var) else _own_name(expr)
            if not hint or f"%{hint}" in self._taken:
                hint = str(sum(taken[1:].isdigit() for taken in self._taken))
            name = self._names[expr] = f"%{hint}"
            self._taken.add(name)
        return name

    def _listed(self, parts: tuple[Expr, ...]) -> list[str]:
        shown = [self._leaf(part) for part in parts[:_OPERANDS]]
        return shown if len(parts) <= _OPERANDS else [*shown, f"... {len(parts) - _OPERANDS} more"]

    def _call(self, call: AnyValue) -> str:
        parts = self._listed(call.args)
        items = list(call.attrs.items())
        defaults = call.op.defaults if isinstance(call.op, Op) else {}
        told = [f"{_cut(name, _NAME)}={_value(value)}" for name, value in items[:64] if not _is_default(defaults, name, value)]
        parts += told[:_ATTRIBUTES] + (["..."] if len(told) > _ATTRIBUTES else [])
        return f"{self._leaf(call.op)}({', '.join(parts)})"

    def _tuple(self, node: AnyValue) -> str:
        return f"({', '.join(self._listed(node.fields))}{',' if len(node.fields) == 1 else ''})"

    def _field(self, node: AnyValue) -> str:
        return f"{self._leaf(node.tuple_value)}.{node.index}"

    def _function(self, node: AnyValue) -> str:
        returned = f" -> {_type(node.ret_type)}" if node.ret_type is not None else ""
        return f"fn ({', '.join(self._listed(node.params))}){returned} {{ {self._leaf(node.body)} }}"

    def _if(self, node: AnyValue) -> str:
        return f"if ({self._leaf(node.cond)}) {{ {self._leaf(node.true_branch)} }} else {{ {self._leaf(node.false_branch)} }}"

    def _let(self, node: AnyValue) -> str:
        declared = f": {_type(node.var.type_annotation)}" if node.var.type_annotation is not None else ""
        return f"let {self._leaf(node.var)}{declared} = {self._leaf(node.value)}; ..."

    def _match(self, node: AnyValue) -> str:
        arms = self._listed(tuple(clause.rhs for clause in node.clauses))
        return f"match ({self._leaf(node.data)}) {{ {', '.join(f'... => {arm}' for arm in arms)} }}"

    def _ref(self, node: AnyValue) -> str:
        return f"ref({self._leaf(node.value)})"

    def _ref_read(self, node: AnyValue) -> str:
        return f"ref_read({self._leaf(node.ref)})"

    def _ref_write(self, node: AnyValue) -> str:
        return f"ref_write({self._leaf(node.ref)}, {self._leaf(node.value)})"


_FORMS: Final[dict[type[AnyValue], Callable[[_Excerpt, AnyValue], str]]] = {
    Call: _Excerpt._call,
    Tuple: _Excerpt._tuple,
    TupleGetItem: _Excerpt._field,
    Function: _Excerpt._function,
    If: _Excerpt._if,
    Let: _Excerpt._let,
    Match: _Excerpt._match,
    RefCreate: _Excerpt._ref,
    RefRead: _Excerpt._ref_read,
    RefWrite: _Excerpt._ref_write,
}


def _own_name(expr: Expr) -> str:
    """The ONNX name of a value, as printed after `%`; empty if there is none."""
    from passat.ir.text.literals import show_variable

    span = expr.span
    if span is None or len(span.outputs) != 1 or not span.outputs[0]:
        return ""
    return show_variable(_cut(span.outputs[0], _NAME))


def _type(type_: Type | None) -> str:
    from passat.ir.text.types import show_type

    if type_ is None:
        return "of unknown type"
    return _cut(show_type(type_, 2 * _TYPE), _TYPE)


def _is_default(defaults: dict[str, AnyValue], name: str, value: AnyValue) -> bool:
    default = defaults.get(name, defaults)
    return value is default or (isinstance(value, (bool, int, float, str)) and type(value) is type(default) and value == default)


def _value(value: AnyValue, depth: int = 0) -> str:
    """Prints the value of an attribute. Long values are cut before printing, because they may contain whole graphs."""
    from passat.ir.text.attributes import show_value
    from passat.ir.text.metadata import Metadata

    if isinstance(value, (tuple, list)):
        shown = [_value(element, depth + 1) for element in value[:_OPERANDS]] if depth < 3 else ["..."]
        return f"[{', '.join(shown)}{', ...' if depth < 3 and len(value) > _OPERANDS else ''}]"
    if isinstance(value, (str, bytes)) and len(value) > _NAME:
        return show_value(value[:_NAME], Metadata()) + "..."
    return _cut(show_value(value, Metadata()), _NAME)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."

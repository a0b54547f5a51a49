"""Instances as people read them: what the holes are, and both sides in the text of Relay with their values."""

from collections.abc import Mapping
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.evaluate import Value
from passat.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem, Var
from passat.ir.op import Op
from passat.ir.tensor import Array, Tensor
from passat.rules.checking.case import Case, Program, declared
from passat.rules.checking.trial import Trial

_SHOWN: Final = 16
"""Elements of a tensor that are written out."""
_SUFFIXES: Final = {"float32": "f", "float64": "f64", "float16": "f16", "int32": "", "int64": "i64", "bool": ""}


def instance_lines(trial: Trial) -> list[str]:
    """A trial, one line for each hole and each side."""
    case, program = trial.case, trial.program
    lines = [f"{name}: {_declared(case, name)} = {_value(value)}" for name, value in case.inputs.items()]
    lines += [
        f"{name}: constant {case.types[name]!r} = {_value(value)}"
        for name, value in case.constants.items()
        if _is_hole(name) and name not in case.computed
    ]
    if program is None:
        return lines
    names = _names(case, program)
    sides = [("left", text(program.body, names), trial.left_value)]
    if trial.right is not None:
        sides.append(("right", text(trial.right, names), trial.right_value))
    for side, shown, arrays in sides:
        values = ", ".join(map(_array, arrays))
        lines.append(f"{side:6}{shown}{f' = {values}' if arrays else ''}")
    return lines


def _is_hole(name: str) -> bool:
    return name.isidentifier() and name not in ("True", "False")


def _declared(case: Case, name: str) -> str:
    shown = declared(case, name)
    return f"{shown!r}" if shown == case.types[name] else f"{shown!r}, here {case.types[name]!r}"


def _names(case: Case, program: Program) -> Mapping[int, str]:
    """The constants of the case by identity."""
    return {id(expr): key[1] for key, expr in program.terms.items() if key[0] in ("var", "const") and key[1] in case.constants}


def text(expr: Expr, names: Mapping[int, str]) -> str:
    """An expression on one line, attributes that are not the defaults included."""
    if id(expr) in names:
        return names[id(expr)]
    if isinstance(expr, Var):
        return f"%{expr.name_hint}"
    if isinstance(expr, Constant):
        return _constant(expr.data)
    if isinstance(expr, Tuple):
        return f"({', '.join(text(field, names) for field in expr.fields)}{',' if len(expr.fields) == 1 else ''})"
    if isinstance(expr, TupleGetItem):
        return f"{text(expr.tuple_value, names)}.{expr.index}"
    assert isinstance(expr, Call)
    assert isinstance(expr.op, Op)
    given = [f"{name}={_attribute(value)}" for name, value in expr.attrs.items() if value != expr.op.defaults[name]]
    return f"{expr.op.name}({', '.join([*(text(arg, names) for arg in expr.args), *given])})"


def _attribute(value: AnyValue) -> str:
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_attribute, value))}]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _constant(tensor: Tensor) -> str:
    element = tensor.uniform()
    if element is not None and not tensor.shape:
        return f"{_element(element)}{_SUFFIXES.get(tensor.dtype, tensor.dtype)}"
    return _value(tensor)


def _value(value: Value) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_value, value))}{',' if len(value) == 1 else ''})"
    element = value.uniform()
    if element is not None and value.size > 1:
        return f"{_element(element)} throughout"
    return _array(value.numpy())


def _array(array: Array) -> str:
    if array.size > _SHOWN:
        some = ", ".join(map(_element, array.reshape(-1)[:_SHOWN].tolist()))
        return f"{array.dtype}{list(array.shape)}[{some}, ...]"
    if not array.size:
        return f"empty {list(array.shape)}"
    return _nested(array.tolist() if array.dtype.kind in "biuf" and array.dtype.itemsize != 2 else _plain(array))


def _plain(array: Array) -> AnyValue:
    return array.tolist() if array.dtype.kind == "c" else array.astype(np.float64).tolist()


def _nested(value: AnyValue) -> str:
    return f"[{', '.join(map(_nested, value))}]" if isinstance(value, list) else _element(value)


def _element(value: AnyValue) -> str:
    """A number, short: whole floats without a point, -0.0 as it is."""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (complex, np.complexfloating)):
        return f"{value:.6g}"
    number = float(value)
    if number == 0 and np.signbit(number):
        return "-0.0"
    return str(int(value)) if isinstance(value, (int, np.integer)) else f"{number:.6g}"

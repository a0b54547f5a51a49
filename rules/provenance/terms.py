"""Programs as terms: a table of all parts of all programs, each once, as plain data with operands first; and the versioned format of
certificates, which contain such a table."""

import json
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any as AnyValue
from typing import Final

from passat.ir.attrs import Attrs
from passat.ir.expr import Call, Constant, Expr, Function, GlobalVar, If, Let, Tuple, TupleGetItem, Var
from passat.ir.onnx.opaque import PREFIX
from passat.ir.op import Op, get_op
from passat.ir.tensor import Tensor
from passat.ir.traverse import children
from passat.rules.provenance.plain import (
    CertificateError,
    Plain,
    Uncovered,
    attrs_of,
    constant_key,
    digest_key,
    plain_attrs,
    plain_tensor,
    plain_type,
    tensor_of,
    type_of_plain,
)

CALL: Final = "call"
CONST: Final = "const"
VAR: Final = "var"
TUPLE: Final = "tuple"
FIELD: Final = "field"
FUNCTION: Final = "function"
IF: Final = "if"
APPLY: Final = "apply"
GLOBAL: Final = "global"


class Terms:
    """The table. `rows` are the terms as lists: the kind, its own data, the numbers of its operands. `constants` are those stored by
    digest."""

    def __init__(self) -> None:
        self.rows: list[list[AnyValue]] = []
        self.constants: dict[str, Tensor] = {}
        self._numbers: dict[str, int] = {}
        self._known: dict[int, tuple[Expr, int]] = {}
        self._variables: dict[tuple[str, str], list[Var]] = {}
        self._places: dict[int, tuple[Var, str, int]] = {}
        self._tensors: dict[int, tuple[Tensor, Plain]] = {}
        self._attrs: dict[int, tuple[Attrs, Plain]] = {}
        self._stateful: dict[int, Call] = {}
        self._drawing: set[int] = set()
        self.declares = True
        """Whether new calls keep the types that a model declares for their results."""

    def begin(self) -> None:
        """Starts another module, whose variables are those of the same names."""
        self._variables.clear()

    def add(self, row: list[AnyValue]) -> int:
        """The number of a term. Records sources of random numbers, and raises Uncovered where they are called."""
        key = json.dumps(row, sort_keys=True)
        found = self._numbers.get(key)
        if found is None:
            if draws(row, self.rows, self._drawing):
                self._drawing.add(len(self.rows))
            found = self._numbers[key] = len(self.rows)
            self.rows.append(row)
        return found

    def call(self, op: Op, attrs: Attrs, operands: Sequence[int], expr: Expr | None = None) -> int:
        """The number of an operator call; `expr` distinguishes stateful calls. Raises Uncovered."""
        row = [CALL, op.name, self.attrs(attrs), list(operands), *([self.tag(expr)] if op.stateful else [])]
        return self.add(row if self.declares else without_declaration(row))

    def attrs(self, attrs: Attrs) -> Plain:
        """Attributes as plain data."""
        found = self._attrs.get(id(attrs))
        if found is None:
            found = self._attrs[id(attrs)] = (attrs, plain_attrs(attrs))
        return found[1]

    def constant(self, tensor: Tensor) -> int:
        """The number of a constant."""
        found = self._tensors.get(id(tensor))
        if found is None:
            data = plain_tensor(tensor)
            if "sha256" in data:
                self.constants.setdefault(digest_key(data), tensor)
            found = self._tensors[id(tensor)] = (tensor, data)
        return self.add([CONST, found[1]])

    def tag(self, expr: Expr | None) -> str:
        """The tag that distinguishes a stateful call from similar ones: the name of its result in the file. Raises Uncovered without a
        name."""
        if expr is None or expr.span is None or not any(expr.span.outputs):
            raise Uncovered("a stateful call without a name")
        return next(name for name in expr.span.outputs if name)

    def encode(self, root: Expr) -> int:
        """The number of a program: a function of a module, or an expression in an encoded one. Raises Uncovered."""
        if isinstance(root, Function) and id(root) not in self._known:
            self._place(root)
        known, bound = self._known, dict[int, Expr]()
        self._stateful.clear()
        stack: list[tuple[Expr, bool]] = [(root, False)]
        while stack:
            expr, ready = stack.pop()
            if id(expr) in known:
                continue
            if not ready:
                if isinstance(expr, Let):
                    if isinstance(expr.value, Function):
                        raise Uncovered("a function that a let binds")
                    bound[id(expr.var)] = expr.value
                    # The value first, since the body may reference the variable.
                    stack += [(expr, True), (expr.body, False), (expr.var, False)]
                    continue
                stack.append((expr, True))
                stack += [(part, False) for part in reversed(list(_parts(expr, bound)))]
                continue
            known[id(expr)] = (expr, self._row(expr, bound))
        return known[id(root)][1]

    def _place(self, root: Function) -> None:
        """Numbers the parameters of nested functions."""
        stack: list[tuple[Expr, int]] = [(root, 0)]
        seen: set[int] = set()
        while stack:
            expr, depth = stack.pop()
            if id(expr) in seen:
                continue
            seen.add(id(expr))
            if isinstance(expr, Function):
                for place, param in enumerate(expr.params if depth else ()):
                    self._places.setdefault(id(param), (param, f"#{depth}", place))
                depth += 1
            stack += [(part, depth) for part in children(expr)]

    def _row(self, expr: Expr, bound: dict[int, Expr]) -> int:
        of = self._of
        if isinstance(expr, Call) and isinstance(expr.op, Op):
            number = self.call(expr.op, expr.attrs, [of(arg) for arg in expr.args], expr)
            if expr.op.stateful and self._stateful.setdefault(number, expr) is not expr:
                raise Uncovered("two stateful calls of one name")
            return number
        if isinstance(expr, Constant):
            return self.constant(expr.data)
        if isinstance(expr, Tuple):
            return self.add([TUPLE, [of(field) for field in expr.fields]])
        if isinstance(expr, TupleGetItem):
            return self.add([FIELD, expr.index, [of(expr.tuple_value)]])
        if isinstance(expr, Let):
            return of(expr.body)
        if isinstance(expr, Var):
            return of(bound[id(expr)]) if id(expr) in bound else self.variable(expr)
        if isinstance(expr, GlobalVar):
            return self.add([GLOBAL, expr.name_hint])
        if isinstance(expr, Function):
            params = [of(param) for param in expr.params]
            # names, and other data that does not affect the result
            attrs = {name: value for name, value in expr.attrs.items() if name != "onnx"}
            return self.add([FUNCTION, plain_attrs(attrs), len(params), [*params, of(expr.body)]])
        if isinstance(expr, If):
            return self.add([IF, [of(part) for part in children(expr)]])
        if isinstance(expr, Call):
            return self.add([APPLY, [of(expr.op), *(of(arg) for arg in expr.args)]])
        raise Uncovered(f"an expression of kind {type(expr).__name__}")

    def variable(self, var: Var) -> int:
        """The number of a variable: by position, or by name, type, and index among variables of this name."""
        type_ = plain_type(var.type_annotation or var._checked_type)
        if id(var) in self._places:
            return self.add([VAR, *self._places[id(var)][1:], type_])
        same = self._variables.setdefault((var.name_hint, json.dumps(type_)), [])
        if not any(other is var for other in same):
            same.append(var)
        return self.add([VAR, var.name_hint, next(i for i, other in enumerate(same) if other is var), type_])

    def _of(self, expr: Expr) -> int:
        return self._known[id(expr)][1]


def _parts(expr: Expr, bound: dict[int, Expr]) -> Iterator[Expr]:
    if isinstance(expr, Var):
        if id(expr) in bound:
            yield bound[id(expr)]
    elif isinstance(expr, Call) and isinstance(expr.op, Op):
        yield from expr.args
    elif isinstance(expr, (Call, Tuple, TupleGetItem, Function, If)):
        yield from children(expr)


def operands_of(row: Sequence[AnyValue]) -> Sequence[int]:
    """The operand numbers of a term."""
    kind = row[0]
    parts: Sequence[int] = row[3] if kind in (CALL, FUNCTION) else row[2] if kind == FIELD else row[1] if kind in (TUPLE, IF, APPLY) else ()
    return parts


def with_operands(row: Sequence[AnyValue], operands: Sequence[int]) -> list[AnyValue]:
    """The term with other operands."""
    place = {CALL: 3, FUNCTION: 3, FIELD: 2}.get(row[0], 1)
    return [*row[:place], list(operands), *row[place + 1 :]]


def draws(row: Sequence[AnyValue], rows: Sequence[Sequence[AnyValue]], drawing: Collection[int]) -> bool:
    """Whether a term draws random numbers; `drawing` are the terms before it that do. A function that draws random numbers must not be
    called: two equal calls of it are not equal. Raises Uncovered."""
    parts = operands_of(row)
    found = [part for part in parts if part in drawing]
    if row[0] in (CALL, APPLY, IF) and any(rows[part][0] == FUNCTION or (row[0] == IF and part != parts[0]) for part in found):
        raise Uncovered("a function or branch with stateful calls in it")
    return bool(found) or (row[0] == CALL and len(row) > 4)


def is_declared(row: Sequence[AnyValue]) -> bool:
    """Whether a term is an opaque call with declared types."""
    return row[0] == CALL and row[1].startswith(PREFIX) and "types" in row[2]


def without_declaration(row: list[AnyValue]) -> list[AnyValue]:
    """An opaque call without declared types; any other term as it is."""
    return [*row[:2], {name: value for name, value in row[2].items() if name != "types"}, *row[3:]] if is_declared(row) else row


def reached(rows: Sequence[Sequence[AnyValue]], roots: Iterable[int | None]) -> set[int]:
    """The terms of some programs."""
    found: set[int] = set()
    stack = [root for root in roots if root is not None]
    while stack:
        top = stack.pop()
        if top not in found:
            found.add(top)
            stack += operands_of(rows[top])
    return found


def label_and_maker(
    row: Sequence[AnyValue], parts: Sequence[Expr], constants: Mapping[str, Tensor]
) -> tuple[Hashable, Callable[[Sequence[Expr]], Expr]]:
    """The label of a term among terms with the same operands, and a function that builds the expression from its operands; `parts` are the
    operand terms or, for a function name, that function. Raises CertificateError."""
    kind = row[0]
    if kind == CALL:
        op, attrs = _op(row[1]), attrs_of(row[2])
        return (CALL, op, attrs, *row[4:]), lambda made: Call(op, made, attrs)
    if kind == TUPLE:
        return TUPLE, Tuple
    if kind == FIELD:
        return (FIELD, row[1]), lambda made: TupleGetItem(made[0], row[1])
    if kind == IF:
        return IF, lambda made: If(*made)
    if kind == APPLY:
        return APPLY, lambda made: Call(made[0], made[1:])
    if kind == CONST:
        return (CONST, constant_key(row[1])), lambda _: Constant(tensor_of(row[1], constants))
    label = (kind, json.dumps(row[1:3] if kind == FUNCTION else row[1:], sort_keys=True))
    if kind == VAR:
        return label, lambda _: Var(row[1], type_of_plain(row[3]))
    if kind == FUNCTION:
        variables = [param for param in parts[:-1] if isinstance(param, Var)]
        return label, lambda made: Function(variables, made[-1])
    name = GlobalVar(row[1]).assume_type(parts[0].checked_type if parts else None)
    return label, lambda _: name


def _op(name: str) -> Op:
    try:
        return get_op(name)
    except KeyError as error:
        raise CertificateError(str(error.args[0])) from None


FORMAT: Final = "passat certificate"
VERSION: Final = 2

_TERM, _TERM_OR_NULL = "the number of a term before", "the number of a term before, or null"
_WORDS: Final = {str: "a string", int: "an integer", list: "a list", dict: "an object"}
_WHOLE: Final = {"rules": {...: str}, "terms": list, "functions": {...: [_TERM_OR_NULL]}, "steps": [dict]}
_STEP: Final = {"rule": str, "left": [_TERM], "right": [_TERM]}
_PART: Final = {"pass": str, "function": str, "opset": int, "before": _TERM, "after": _TERM, "steps": [_STEP]}
_GAP: Final = {"pass": str, "function": str, "uncovered": str, "before": _TERM_OR_NULL, "after": _TERM_OR_NULL}
_ROWS: Final[dict[str, tuple[AnyValue, ...]]] = {
    CALL: (str, str, dict, [_TERM]),
    CONST: (str, dict),
    VAR: (str, str, int, object),
    TUPLE: (str, [_TERM]),
    FIELD: (str, int, [_TERM]),
    FUNCTION: (str, dict, int, [_TERM]),
    IF: (str, [_TERM]),
    APPLY: (str, [_TERM]),
    GLOBAL: (str, str),
}
"""The fields of each kind of term; calls of stateful operators also have a tag."""


def check_form(data: AnyValue) -> None:
    """Raises CertificateError, naming the position, for malformed certificates."""
    if not isinstance(data, dict) or FORMAT not in data:
        raise CertificateError("this is not a Passat certificate")
    if data[FORMAT] != VERSION:
        raise CertificateError(f"the certificate has version {data[FORMAT]!r}; this version of Passat reads {VERSION}")
    count = len(data["terms"]) if isinstance(data.get("terms"), list) else 0
    _check(data, _WHOLE, "the certificate", count)
    for name, pair in data["functions"].items():
        if len(pair) != 2:
            raise CertificateError(f"functions, {name}: needs the numbers of two terms, not {pair!r}")
    for number, row in enumerate(data["terms"]):
        form = _ROWS.get(row[0]) if isinstance(row, list) and row and isinstance(row[0], str) else None
        form = (*form, str) if form is not None and row[0] == CALL and len(row) == 5 else form
        _check(row, form, f"terms[{number}]", number)
        parts = len(operands_of(row))
        if (row[0] == FIELD and parts != 1) or (row[0] == IF and parts != 3) or parts < {APPLY: 1, FUNCTION: 1}.get(row[0], 0):
            raise CertificateError(f"terms[{number}]: {row!r} has the wrong number of parts")
    for number, part in enumerate(data["steps"], 1):
        _check(part, _GAP if "uncovered" in part else _PART, f"{part.get('pass')}, part {number}", count)


def _check(value: AnyValue, form: AnyValue, where: str, count: int) -> None:
    if form in (_TERM, _TERM_OR_NULL):
        if not (type(value) is int and 0 <= value < count) and not (value is None and form is _TERM_OR_NULL):
            raise CertificateError(f"{where}: {value!r} is not {form}")
    elif form is None or (isinstance(form, tuple) and len(value) != len(form)):
        raise CertificateError(f"{where}: {value!r} is not a term")
    elif isinstance(form, tuple):
        for place, inner in enumerate(form):
            _check(value[place], inner, f"{where}[{place}]", count)
    elif form is not object and type(value) is not (kind := form if isinstance(form, type) else type(form)):
        raise CertificateError(f"{where} must be {_WORDS[kind]}, but it is {value!r}")
    elif isinstance(form, list):
        for place, each in enumerate(value, 1):
            _check(each, form[0], f"{where}, {place}", count)
    elif isinstance(form, dict):
        for name, inner in (dict.fromkeys(value, form[...]) if ... in form else form).items():
            if name not in value:
                raise CertificateError(f"{where}: {name!r} is missing")
            _check(value[name], inner, f"{where}, {name}", count)

"""The laws of opaque calls, and of If, Loop and Scan among them, by which the checker compares them.

* Captured values: an If, Loop or Scan equals the same call whose bodies contain the values that they capture in place of parameters, if no
  function in a body, or around it, binds a variable of a value. So neither the order of captured values matters, nor do values that no body
  reads.
* Taken branch: an If without captured values and declared types, on a constant condition, equals the result of the branch that it takes.
* Declared types: an opaque call equals the same call without declared types, also without those in its bodies, if it is a term of a first
  program outside of all bodies and branches, and its free variables are parameters of first programs that no other function binds. A body
  may not run, and its parameters are those of other bodies too, so a declaration in it holds only for the call as a whole.
* Redundant types: any opaque call equals the same call without declared types if both have the same type.

To the checker, a call with declared types is its value if that has these types, and any value of these types otherwise.

What is proven of a body of If, Loop or Scan holds for values of the types that its parameters have (`passes`). In the first programs calls
pass such values, as declared types hold there.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any as AnyValue

from passat.ir.attrs import Attrs
from passat.ir.evaluate import Value
from passat.ir.expr import Call, Expr, Function
from passat.ir.onnx.opaque import PREFIX
from passat.ir.op import Op
from passat.ir.shape import ANY
from passat.ir.tensor import Tensor
from passat.ir.traverse import children, rewrite
from passat.ir.types import IncompleteType, TensorType, TupleType, Type
from passat.rules.provenance.terms import (
    CALL,
    FIELD,
    FUNCTION,
    IF,
    TUPLE,
    VAR,
    is_declared,
    operands_of,
    reached,
    with_operands,
    without_declaration,
)

Row = list[AnyValue]


class Regions:
    """Applies the laws to terms, and appends the equal terms to the table. Part of the trusted base. `first` are the first programs,
    `constant` is the value of a term if it is known."""

    def __init__(self, rows: list[Row], first: Iterable[int | None], constant: Callable[[int], Value | None]) -> None:
        self.rows = rows
        self.undecided: list[int] = []
        """The calls of If whose condition has not been a constant so far."""
        self._constant = constant
        self._free: list[frozenset[int]] = []
        self._plain: dict[int, int] = {}
        opaque = any(row[0] == CALL and row[1].startswith(PREFIX) for row in rows)
        self.believed = self._outside(first) if opaque else set()
        """The terms whose declared types hold, also those of the parameters of bodies."""

    def equal(self, term: int) -> list[tuple[int, int, bool]]:
        """Pairs of equal terms, by a law for an opaque call, and whether they are equal even if their types differ; none for any other
        term, and if names clash."""
        row = self.rows[term]
        if row[0] != CALL or not row[1].startswith(PREFIX):
            return []
        plain = self._without_types(term, row)
        pairs = [(term, plain, term in self.believed)] if plain != term else []
        pairs += [(*pair, True) for pair in (self._of_region(term, row) if "bodies" in row[2] else ())]
        if term in self.believed:
            self.believed.update(other for one, other, _ in pairs if one == term)
        return pairs

    def _outside(self, first: Iterable[int | None]) -> set[int]:
        """The terms of the first programs outside of bodies and branches whose free variables are parameters of these programs alone."""
        rows = self.rows
        functions = [row for row in (rows[root] for root in first if root is not None) if row[0] == FUNCTION]
        inner = {part for row in rows for part in operands_of(row) if rows[part][0] == FUNCTION}
        bound = {param for function in inner for param in rows[function][3][:-1]}
        params = {param for row in functions for param in row[3][:-1]} - bound
        found, stack = set[int](), [row[3][-1] for row in functions]
        while stack:
            top = stack.pop()
            if top not in found:
                found.add(top)
                parts = operands_of(rows[top])
                stack += parts[:1] if rows[top][0] == IF else [part for part in parts if rows[part][0] != FUNCTION]
        return {term for term in found if self._free_in(term) <= params}

    def _without_types(self, term: int, row: Row) -> int:
        """An opaque call without declared types and, if they hold, without those in its bodies."""
        operands = row[3]
        if term in self.believed:
            plain = self._plain
            functions = [part for part in operands if self.rows[part][0] == FUNCTION]
            for number in sorted(reached(self.rows, functions) - plain.keys()):  # operands first
                inner = self.rows[number]
                plain[number] = self._changed(number, inner, [plain[part] for part in operands_of(inner)])
            operands = [plain[part] if self.rows[part][0] == FUNCTION else part for part in operands]
        return self._changed(term, row, operands)

    def _changed(self, term: int, row: Row, operands: Sequence[int]) -> int:
        """A term with other operands and without declared types."""
        same = list(operands) == list(operands_of(row))
        return term if same and not is_declared(row) else self._add(with_operands(without_declaration(row), operands))

    def _of_region(self, term: int, row: Row) -> list[tuple[int, int]]:
        operands, counts = row[3], row[2]["captured"]
        first = len(operands) - sum(counts)
        start = first - len(counts)
        if min(counts, default=0) < 0 or start < 0:
            return []
        if first < len(operands):
            made, values = list(operands[:start]), iter(operands[first:])
            for function, count in zip(operands[start:first], counts, strict=True):
                filled = self._filled(function, [next(values) for _ in range(count)])
                if filled is None:
                    return []
                made.append(filled)
            return [(term, self._add([CALL, row[1], {**row[2], "captured": [0] * len(counts)}, made, *row[4:]]))]
        return self._taken(term) if row[1] == "onnx.If" and not is_declared(row) else []

    def _taken(self, term: int) -> list[tuple[int, int]]:
        """An If that captures nothing, or its fields, with the results of the branch that it takes."""
        row = self.rows[term]
        condition = self._constant(row[3][0])
        if not isinstance(condition, Tensor) or condition.size != 1:
            self.undecided.append(term)
            return []
        taken = row[2]["bodies"].index("then_branch" if condition.numpy().item() else "else_branch")
        kind, *_, parts = self.rows[row[3][1 + taken]]
        if kind != FUNCTION or len(parts) != 1:
            return []
        outputs, result = row[2]["outputs"], self.rows[parts[0]]
        if result[0] != TUPLE:
            return [(term, parts[0])] if outputs == "1" else []
        fields = [field for field, there in zip(result[1], outputs, strict=False) if there == "1"]
        if len(fields) == 1:
            return [(term, fields[0])]
        return [(self._add([FIELD, place, [term]]), field) for place, field in enumerate(fields)]

    def _filled(self, function: int, values: Sequence[int]) -> int | None:
        """A function whose last parameters are replaced by values."""
        kind, *_, parts = row = self.rows[function]
        if kind != FUNCTION or len(values) >= len(parts):
            return None
        params, own = parts[:-1], parts[: len(parts) - 1 - len(values)]
        if len({param for param in params if self.rows[param][0] == VAR}) < len(params):
            return None
        body = self._with_values(parts[-1], dict(zip(params[len(own) :], values, strict=True)), own)
        return None if body is None else self._add([kind, row[1], len(own), [*own, body]])

    def _with_values(self, root: int, bound: Mapping[int, int], own: Sequence[int]) -> int | None:
        """A term with values in place of variables; None if a function in it, or the one around it, binds a variable of that name."""
        names = frozenset(bound).union(*(self._free_in(value) for value in bound.values()))
        done, stack = dict(bound), [root]
        while stack:
            top = stack[-1]
            row, parts = self.rows[top], operands_of(self.rows[top])
            if top in done or self._free_in(top).isdisjoint(bound):
                done.setdefault(top, top)
            elif row[0] == FUNCTION and not names.isdisjoint(parts[:-1]):
                return None
            elif missing := [part for part in parts if part not in done]:
                stack += missing
                continue
            else:
                done[top] = self._add(with_operands(row, [done[part] for part in parts]))
            stack.pop()
        return done[root] if names.isdisjoint(own) else None

    def _free_in(self, term: int) -> frozenset[int]:
        """The free variables of a term."""
        free = self._free
        for number in range(len(free), term + 1):
            row, parts = self.rows[number], operands_of(self.rows[number])
            found = frozenset[int]().union(*{free[part] for part in parts})
            free.append(frozenset({number}) if row[0] == VAR else found.difference(parts[:-1]) if row[0] == FUNCTION else found)
        return free[term]

    def _add(self, row: Row) -> int:
        """Appends a term."""
        self.rows.append(row)
        return len(self.rows) - 1


def with_filled_bodies(root: Expr) -> Expr:
    """The expression by the first law, applied to all calls that do not capture a random value: such a value is not computed in a body."""
    return _with_filled_bodies(root, {}, set())


def _with_filled_bodies(root: Expr, values: Mapping[Expr, Expr], drawn: set[Expr]) -> Expr:
    """The expression with values in place of variables. `drawn` are the new expressions that draw random numbers."""

    def filled(node: Expr, new: Expr) -> Expr:
        if node in values:
            return values[node]
        if isinstance(new, Call) and "bodies" in new.attrs:
            new = _with_values(new, drawn)
        if not drawn.isdisjoint(children(new)) or (isinstance(new, Call) and isinstance(new.op, Op) and new.op.stateful):
            drawn.add(new)
        return new

    return rewrite(root, filled, into=lambda part: not isinstance(part, Function))


def _with_values(call: Call, drawn: set[Expr]) -> Call:
    counts: Sequence[int] = call.attrs["captured"]
    first = len(call.args) - sum(counts)
    start, values = first - len(counts), call.args[first:]
    made = list(call.args[:start])
    for function, count in zip(call.args[start:first], counts, strict=True):
        if not isinstance(function, Function) or not drawn.isdisjoint(values):
            return call
        own = function.params[: len(function.params) - count]
        body = _with_filled_bodies(function.body, dict(zip(function.params[len(own) :], values[:count], strict=True)), drawn)
        made.append(Function(own, body, None, function.type_params, function.attrs, function.span))
        values = values[count:]
    return Call(call.op, made, Attrs({**call.attrs, "captured": (0,) * len(counts)}), span=call.span)


TypeOf = Callable[[int], Type]


def fits(value: Type, param: Type) -> bool:
    """Whether every value of one type has the other one."""
    if value == param or isinstance(param, IncompleteType):
        return True
    if not isinstance(value, TensorType) or not isinstance(param, TensorType):
        return False
    pairs = zip(value.shape, param.shape, strict=False)
    return value.dtype == param.dtype and len(value.shape) == len(param.shape) and all(b in (ANY, a) for a, b in pairs)


def passes(row: Sequence[AnyValue], attrs: Mapping[str, AnyValue], rows: Sequence[Sequence[AnyValue]], of: TypeOf) -> bool:
    """Whether a call in a table of terms passes to each parameter what its type says. `of` is the type of a term."""
    operands: Sequence[int] = row[3]
    counts = attrs["captured"]
    first = len(operands) - sum(counts)
    start = first - len(counts)
    if min(counts, default=0) < 0 or start < 0:
        return False
    captured = iter(operands[first:])
    for function, count in zip(operands[start:first], counts, strict=True):
        if rows[function][0] != FUNCTION:
            return False
        *params, body = operands_of(rows[function])
        given = [next(captured) for _ in range(count)]
        own = [of(param) for param in params[: len(params) - count]]
        if len(params) < count or not all(fits(of(value), of(param)) for value, param in zip(given, params[len(own) :], strict=True)):
            return False
        passed = _passed(row[1], attrs, list(map(of, operands[:start])), own, of(body)) if own else []
        if passed is None or not all(fits(value, param) for value, param in passed):
            return False
    return True


def _passed(
    op: str, attrs: Mapping[str, AnyValue], given: Sequence[Type], own: Sequence[Type], body: Type
) -> list[tuple[Type, Type]] | None:
    """Types of values and of the parameters, except captured ones, that receive them: at the start, and from one iteration to the next.
    None if it is not known which values the parameters receive."""
    results = body.fields if isinstance(body, TupleType) else [body]
    if op == "onnx.Loop" and len(own) >= 2:
        count = len(own) - 2
        before = [TensorType((), "int64"), TensorType((), "bool"), *given[len(given) - count :]]
        after = results[1 : 1 + count]
    elif op == "onnx.Scan" and attrs["opset"] >= 9 and len(own) == len(given):
        count = len(own) - attrs["num_scan_inputs"]
        axes = attrs.get("scan_input_axes", [0] * len(given[count:]))
        before = [*given[:count], *(_row(type_, axis) for type_, axis in zip(given[count:], axes, strict=True))]
        after = results[:count]
    else:
        return None
    states = own[2:] if op == "onnx.Loop" else own[:count]
    return [*zip(before, own, strict=True), *zip(after, states, strict=True)]


def _row(type_: Type, axis: int) -> Type:
    """The type of a tensor without an axis."""
    if not isinstance(type_, TensorType) or not -len(type_.shape) <= axis < len(type_.shape):
        return IncompleteType()
    return TensorType([size for place, size in enumerate(type_.shape) if place != axis % len(type_.shape)], type_.dtype)

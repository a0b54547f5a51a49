"""The laws of If, Loop and Scan by which the checker compares them: such a call equals

* the same call whose bodies contain the values that they capture in place of parameters, so that neither the order of captured values nor
  those that no body reads matter;
* for an If on a constant condition, the result of the branch that it takes.

And an opaque call of a first program equals the call without declared types, which the last program need not declare.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any as AnyValue

from passat.ir.attrs import Attrs
from passat.ir.evaluate import Value
from passat.ir.expr import Call, Expr, Function
from passat.ir.onnx.opaque import PREFIX
from passat.ir.op import Op
from passat.ir.tensor import Tensor
from passat.ir.traverse import children, post_order, with_children
from passat.rules.provenance.terms import CALL, FIELD, FUNCTION, TUPLE, VAR, operands_of, reached, with_operands, without_declaration

Row = list[AnyValue]


class Regions:
    """Applies the laws to terms, and appends the equal terms to the table. Part of the trusted base: a variable of a body must not have the
    name of a variable in a captured value. `first` are the first programs, `constant` is the value of a term if it is known."""

    def __init__(self, rows: list[Row], first: Iterable[int | None], constant: Callable[[int], Value | None]) -> None:
        self.rows = rows
        self._believed = reached(rows, first)
        """The terms whose declared types hold: those of the first programs, also with captured values filled in."""
        self.undecided: list[int] = []
        """The calls of If whose condition has not been a constant so far."""
        self._constant = constant
        self._free: list[frozenset[int]] = []

    def equal(self, term: int) -> list[tuple[int, int]]:
        """Pairs of equal terms, by a law for an opaque call; none for any other term, and if names clash."""
        row = self.rows[term]
        if row[0] != CALL or not row[1].startswith(PREFIX):
            return []
        plain = [(term, self._add(without_declaration(row)))] if "types" in row[2] and term in self._believed else []
        return plain + (self._of_region(term, row) if "bodies" in row[2] else [])

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
            return [(term, self._add([CALL, row[1], {**row[2], "captured": [0] * len(counts)}, made, *row[4:]], term))]
        return self._taken(term) if row[1] == "onnx.If" else []

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
                done[top] = self._add(with_operands(row, [done[part] for part in parts]), top)
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

    def _add(self, row: Row, of: int = -1) -> int:
        """Appends a term. `of` is the one of which it is an instance."""
        self.rows.append(row)
        if of in self._believed:
            self._believed.add(len(self.rows) - 1)
        return len(self.rows) - 1


def with_filled_bodies(root: Expr) -> Expr:
    """The expression by the first law, applied to all calls that do not capture a random value: such a value is not computed in a body."""
    return _with_filled_bodies(root, {}, set())


def _with_filled_bodies(root: Expr, values: Mapping[Expr, Expr], drawn: set[Expr]) -> Expr:
    """The expression with values in place of variables. `drawn` are the new expressions that draw random numbers."""
    done = dict(values)
    for node in post_order(root, into=lambda part: not isinstance(part, Function)):
        if node in done:
            continue
        new = node if isinstance(node, Function) else with_children(node, [done[part] for part in children(node)])
        if isinstance(new, Call) and "bodies" in new.attrs:
            new = _with_values(new, drawn)
        if not drawn.isdisjoint(children(new)) or (isinstance(new, Call) and isinstance(new.op, Op) and new.op.stateful):
            drawn.add(new)
        done[node] = new
    return done[root]


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

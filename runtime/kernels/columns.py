"""Lowers the computation of a kernel that reduces along axes before the last: many columns at a time, so that memory is read along rows.

What has one element for each column is in arrays, with a loop over the columns within each other loop.
"""

from collections.abc import Iterable, Set
from typing import Final

from passat.ir.tir.arithmetic import Add, Mul
from passat.ir.tir.expr import IntImm, PrimExpr, Var
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.stmt import Allocate, For, ForKind, LetStmt, Stmt, Store, stmt_seq
from passat.ir.tir.values import Load, true
from passat.runtime.kernels.lower import ELEMENT, ELEMENTS, ROWS, Lowering, Program, element_type, load, pointer, start, store, variables

LANES: Final = 128
"""The number of columns at a time."""
_C: Final = Var("c", "int64")
WIDTH: Final = Var("w", "int64")
"""The stride of outputs along the reduced axis."""


class Columns(Lowering):
    """Lowers a program to a function of columns."""

    def __init__(self, program: Program) -> None:
        super().__init__(program, None)
        self.arrays = {step.var.name: pointer(f"n_{step.var.name}", step.var.dtype) for step in program.steps if not step.wide}
        self.sums = {name: pointer(variable.name, element_type(variable)) for name, variable in self.sums.items()}

    def function(self, name: str) -> PrimFunc:
        """The function of columns: inputs, their strides along the reduced axis, outputs, the number of columns, that of elements in each,
        and the stride of outputs along the reduced axis."""
        parts: list[Stmt] = []
        for level in range(max(self.level.values()) + 1):
            parts += self._at_level(level)
        for output, buffer in self.outputs.items():
            if not self.steps[output].wide:
                parts.append(_each_column(store(buffer, _C, Load(self.steps[output].var.dtype, self.arrays[output], _C))))
        body = stmt_seq(parts)
        for array in (*self.sums.values(), *self.arrays.values()):
            body = Allocate(array, element_type(array), [LANES], true(), body)
        params = (*self.buffers, *self.strides, *self.outer, *self.outputs.values(), ROWS, ELEMENTS, WIDTH, *self.of_outer())
        return PrimFunc(params, body, attrs={"global_symbol": name, "tir.noalias": True})

    def _at_level(self, level: int) -> Iterable[Stmt]:
        """The numbers of columns that are known at a level, and the loop over their elements."""
        numbers = [step for step in self.program.steps if not step.wide and self.level[step.var.name] == level]
        if numbers:
            body = stmt_seq([Store(self.arrays[step.var.name], step.var, _C) for step in numbers])
            names = {step.var.name for step in numbers}
            needed: set[str] = set()
            for step in reversed(numbers):
                body = LetStmt(step.var, self._finished(step) if step.kind else step.value, body)
                needed.update(() if step.kind else (var.name for var in variables(step.value)))
            yield _each_column(self._bound(needed - names, body, at_start=True))
        reductions, element, needed = self._of_elements(level)
        for step in reductions:
            yield _each_column(Store(self.sums[step.var.name], start(step), _C))
        if element is not None:
            elements = self._elements(level, needed, element)
            columns = _each_column(self._bound(self._numbers_in(level, needed), elements))
            yield self._each_outer(For(ELEMENT, 0, ELEMENTS, ForKind.SERIAL, columns))

    def _numbers_in(self, level: int, needed: Set[str]) -> Set[str]:
        """The numbers of columns that the values of an element need."""
        names = set(needed)
        for step in reversed(self.program.steps):
            if step.var.name in names and step.wide and not self._is_stored(step, level):
                names.update(var.name for var in variables(step.value))
        return {name for name in names if name in self.arrays}

    def _bound(self, names: Iterable[str], body: Stmt, *, at_start: bool = False) -> Stmt:
        """A statement with the numbers of a column, or the inputs that they are computed from."""
        for name in sorted(names):
            if name in self.arrays:
                var = self.steps[name].var
                body = LetStmt(var, Load(var.dtype, self.arrays[name], _C), body)
            else:
                body = LetStmt(self.inputs[name], self._loaded(name, at_start=at_start), body)
        return body

    def _place(self) -> PrimExpr:
        return self._at_outer(Add(Mul(ELEMENT, WIDTH), _C))

    def _loaded(self, name: str, *, at_start: bool = False) -> PrimExpr:
        number = int(name.removeprefix("x"))
        index: PrimExpr = IntImm("int64", 0) if at_start else self._at_outer(Mul(ELEMENT, self.strides[number]), number)
        return load(self.buffers[number], Add(index, _C) if self.program.inputs[number][1] else index)

    def _sum_place(self) -> PrimExpr:
        return _C


def _each_column(body: Stmt) -> Stmt:
    return For(_C, 0, ROWS, ForKind.SERIAL, body)

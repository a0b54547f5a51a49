"""Lowers the computation of a kernel on rows to loops: one function for each combination of inputs that are broadcast along a row.

Rows are along the axes that are reduced, which are the last ones (`columns` is for others). A loop over the row computes the values that a
reduction needs; the next loop computes them again, unless they are expensive and an output has room for them.
"""

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from typing import Final

from passat.ir.tir.arithmetic import Add, Max, Mul
from passat.ir.tir.expr import Call, Cast, IntImm, PrimExpr, Var, const
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.functor import post_order
from passat.ir.tir.stmt import Allocate, For, ForKind, LetStmt, Stmt, Store, stmt_seq
from passat.ir.tir.types import PointerType, PrimType
from passat.ir.tir.values import Load, true
from passat.runtime.kernels.emit_c import REASSOCIATE
from passat.runtime.kernels.functions import FUNCTIONS, call
from passat.runtime.kernels.operators import REDUCTIONS

EXPENSIVE: Final = frozenset(FUNCTIONS[name] for name in ("cos", "erf", "exp", "log", "pow", "sigmoid", "sin", "tanh"))
"""Functions that take as long as many others."""

ELEMENT, ROW, ROWS, ELEMENTS = (Var(name, "int64") for name in "ijmn")
OUTER, OUTERS, STEP = (Var(name, "int64") for name in "kpq")
"""Of a second group of reduced axes: its number, their count, and the stride of outputs between them."""


@dataclass(frozen=True)
class Step:
    """A value: one for each element of a row (`wide`), or one for each row, which may be the reduction `kind` of a value."""

    var: Var
    value: PrimExpr
    wide: bool
    kind: str = ""


@dataclass(frozen=True)
class Program:
    """The computation of a kernel. Inputs are the variables `x0`, `x1` ..., with the type of each and whether it advances along the row
    (None if that is not known). Outputs are steps, with the type of each."""

    inputs: tuple[tuple[str, bool | None], ...]
    steps: tuple[Step, ...]
    outputs: tuple[tuple[str, str], ...]
    columns: bool = False
    """Whether the axis that is reduced is not the last; then whether an input advances is that along the last axis."""
    outer: bool = False
    """Whether a second axis is reduced, before the first."""

    @property
    def reduces(self) -> bool:
        """True if there are reductions, so that a row must not be split."""
        return any(step.kind for step in self.steps)

    @property
    def has_halves(self) -> bool:
        """True if the function gets float32 in place of float16, converted in blocks."""
        return not self.reduces and "float16" in (*(dtype for dtype, _ in self.inputs), *(dtype for _, dtype in self.outputs))

    def of_singles(self) -> "Program":
        """The same computation of float32 in place of float16."""
        singles = {"float16": "float32"}
        inputs = tuple((singles.get(dtype, dtype), along) for dtype, along in self.inputs)
        return replace(self, inputs=inputs, outputs=tuple((name, singles.get(dtype, dtype)) for name, dtype in self.outputs))


def pointer(name: str, dtype: str, scope: str = "global") -> Var:
    """A variable that points to elements of a type."""
    return Var(name, PointerType(PrimType(dtype), scope))


def variables(expr: PrimExpr) -> Iterator[Var]:
    """The variables in an expression."""
    return (part for part in post_order(expr) if isinstance(part, Var))


def _names(expr: PrimExpr) -> Iterator[str]:
    return (var.name for var in variables(expr))


def _is_expensive(expr: PrimExpr) -> bool:
    return any(isinstance(part, Call) and part.op in EXPENSIVE for part in post_order(expr))


class Lowering:
    """Lowers a program to a function of rows."""

    def __init__(self, program: Program, mask: int | None) -> None:
        self.program = program
        self.buffers = [pointer(f"b{number}", kind) for number, (kind, _) in enumerate(program.inputs)]
        self.between = [Var(f"r{number}", "int64") for number in range(len(self.buffers))]
        self.strides = [Var(f"s{number}", "int64") for number in range(len(self.buffers))] if mask is None else []
        self.outer = [Var(f"o{number}", "int64") for number in range(len(self.buffers))] if program.outer else []
        self.mask = mask
        self.outputs = {name: pointer(f"y{number}", kind) for number, (name, kind) in enumerate(program.outputs)}
        self.steps = {step.var.name: step for step in program.steps}
        self.inputs = {var.name: var for step in program.steps for var in variables(step.value) if var.name not in self.steps}
        self.sums = {step.var.name: pointer(f"a_{step.var.name}", _sum_type(step), "local") for step in program.steps if step.kind}
        self.level: dict[str, int] = {}
        for step in program.steps:
            before = max((self.level.get(name, 0) for name in _names(step.value)), default=0)
            self.level[step.var.name] = before + bool(step.kind)
        self.kept = self._kept()

    def _kept(self) -> dict[str, tuple[Var, int]]:
        """Expensive values that are stored in an output, and the last level at which they are available."""
        last = max(self.level.values())
        free = [name for name, buffer in self.outputs.items() if self.steps[name].wide and self.level[name] > 0]
        kept = {
            name: (buffer, last) for name, buffer in self.outputs.items() if self.steps[name].wide and element_type(buffer) != "float16"
        }
        for step in self.program.steps:
            if not step.wide or step.var.name in kept or self.level[step.var.name] == last or not self._is_costly(step):
                continue
            for name in free:
                if element_type(self.outputs[name]) == step.var.dtype and self.level[name] > self.level[step.var.name]:
                    kept[step.var.name] = self.outputs[name], self.level[name]
                    free.remove(name)
                    break
        return kept

    def _is_costly(self, step: Step) -> bool:
        """True for an expensive value that a later loop needs."""
        if not _is_expensive(step.value):
            return False
        needs = {step.var.name}
        for other in self.program.steps:
            if other.wide and not needs.isdisjoint(_names(other.value)):
                needs.add(other.var.name)
        readers = (other for other in self.program.steps if not needs.isdisjoint(_names(other.value)))
        return any(self.level[other.var.name] - bool(other.kind) > self.level[step.var.name] for other in readers)

    def function(self, name: str) -> PrimFunc:
        """The function of rows: inputs, their strides between rows and along them, outputs, and the numbers of rows and of elements."""
        levels = max(self.level.values())
        row = stmt_seq([store(buffer, ROW, self.steps[name].var) for name, buffer in self.outputs.items() if not self.steps[name].wide])
        for level in range(levels, -1, -1):
            row = self._from_level(level, row)
        params = (*self.buffers, *self.between, *self.strides, *self.outer, *self.outputs.values(), ROWS, ELEMENTS, *self.of_outer())
        loop = For(ROW, 0, ROWS, ForKind.SERIAL, self._row_inputs(row))
        return PrimFunc(params, loop, attrs={"global_symbol": name, "tir.noalias": True})

    def of_outer(self) -> tuple[Var, ...]:
        """The parameters of a second axis that is reduced."""
        return (OUTERS, STEP) if self.program.outer else ()

    def _each_outer(self, body: Stmt) -> Stmt:
        return For(OUTER, 0, OUTERS, ForKind.SERIAL, body) if self.program.outer else body

    def _from_level(self, level: int, rest: Stmt) -> Stmt:
        """The numbers of a row that are known at a level, its loop, and what follows."""
        reductions, body, needed = self._of_elements(level)
        after = rest
        if body is not None:
            elements = self._elements(level, needed, body)
            loop = For(ELEMENT, 0, ELEMENTS, ForKind.SERIAL, elements, annotations={REASSOCIATE: True} if reductions else None)
            after = stmt_seq(self._each_outer(loop), rest)
        for step in reversed(reductions):
            variable = self.sums[step.var.name]
            after = Allocate(variable, element_type(variable), [1], true(), stmt_seq(Store(variable, start(step), 0), after))
        for step in reversed([step for step in self.program.steps if not step.wide and self.level[step.var.name] == level]):
            after = LetStmt(step.var, self._finished(step) if step.kind else step.value, after)
        return after

    def _of_elements(self, level: int) -> tuple[list[Step], Stmt | None, set[str]]:
        """The reductions of elements at a level, the statement for each element, and the values that it needs."""
        reductions = [step for step in self.program.steps if step.kind and self.level[step.var.name] == level + 1]
        body: list[Stmt] = []
        needed: set[str] = set()
        for name, (buffer, _) in self.kept.items():
            if self.level[name] == level:
                body.append(store(buffer, self._place(), self.steps[name].var))
                needed.add(name)
        for name, buffer in self.outputs.items():
            if self.steps[name].wide and name not in self.kept and self.level[name] == level:
                body.append(store(buffer, self._place(), self.steps[name].var))
                needed.add(name)
        for step in reductions:
            body.append(self._accumulated(step))
            needed.update(_names(step.value))
        return reductions, stmt_seq(body) if body else None, needed

    def _row_inputs(self, body: Stmt) -> Stmt:
        """Names the inputs that numbers of a row are computed from."""
        numbers = (step for step in self.program.steps if not step.wide and not step.kind)
        for name in dict.fromkeys(name for step in numbers for name in _names(step.value) if name not in self.steps):
            body = LetStmt(self.inputs[name], self._loaded(name, at_start=True), body)
        return body

    def _elements(self, level: int, needed: Set[str], body: Stmt) -> Stmt:
        """The values of an element that are needed at a level, and a statement."""
        wanted: list[Step] = []
        names = set(needed)
        for step in reversed(self.program.steps):
            if step.var.name in names and step.wide:
                wanted.append(step)
                if not self._is_stored(step, level):
                    names.update(_names(step.value))
        for step in wanted:
            value = load(self.kept[step.var.name][0], self._place()) if self._is_stored(step, level) else step.value
            body = LetStmt(step.var, value, body)
        for name in sorted(name for name in names if name not in self.steps):
            body = LetStmt(self.inputs[name], self._loaded(name), body)
        return body

    def _is_stored(self, step: Step, level: int) -> bool:
        return step.var.name in self.kept and self.level[step.var.name] < level <= self.kept[step.var.name][1]

    def _place(self) -> PrimExpr:
        return self._at_outer(Add(Mul(ROW, ELEMENTS), ELEMENT))

    def _at_outer(self, place: PrimExpr, number: int | None = None) -> PrimExpr:
        """A place in an input, or in outputs, at the current number of a second axis that is reduced."""
        if not self.program.outer:
            return place
        return Add(Mul(OUTER, STEP if number is None else self.outer[number]), place)

    def _sum_place(self) -> PrimExpr:
        return IntImm("int64", 0)

    def _loaded(self, name: str, *, at_start: bool = False) -> PrimExpr:
        number = int(name.removeprefix("x"))
        index: PrimExpr = Mul(ROW, self.between[number])
        if not at_start and self.mask is None:
            index = Add(index, Mul(ELEMENT, self.strides[number]))
        elif not at_start and self.mask is not None and self.mask >> number & 1:
            index = Add(index, ELEMENT)
        return load(self.buffers[number], index if at_start else self._at_outer(index, number))

    def _accumulated(self, step: Step) -> Stmt:
        value, variable = step.value, self.sums[step.var.name]
        if step.kind in ("ReduceL2", "ReduceSumSquare"):
            value = Mul(value, value)
        if step.kind == "ReduceMin":
            value = _reversed(value)
        if _is_order(step) and step.var.type.is_float:
            value = call("order", value)
        return Store(variable, (Max if _is_order(step) else Add)(load(variable, self._sum_place()), value), self._sum_place())

    def _finished(self, step: Step) -> PrimExpr:
        value = load(self.sums[step.var.name], self._sum_place())
        if step.kind == "ReduceMean":
            count = Mul(ELEMENTS, OUTERS) if self.program.outer else ELEMENTS
            return call("div", value, Cast(step.var.dtype, Max(count, IntImm("int64", 1))))
        if step.kind == "ReduceL2":
            return call("sqrt", value)
        if _is_order(step) and step.var.type.is_float:
            value = call("of_order", value)
        return _reversed(value) if step.kind == "ReduceMin" else value


def element_type(variable: Var) -> str:
    """The type of the elements that a variable points to."""
    assert isinstance(variable.type_annotation, PointerType)
    return variable.type_annotation.element_type.dtype


def load(buffer: Var, index: PrimExpr | int) -> PrimExpr:
    """An element; of float16, as float32."""
    loaded = Load(element_type(buffer), buffer, index)
    return Cast("float32", loaded) if loaded.dtype == "float16" else loaded


def store(buffer: Var, index: PrimExpr, value: PrimExpr) -> Stmt:
    """Writes an element; of float16, from float32."""
    return Store(buffer, Cast("float16", value) if element_type(buffer) == "float16" else value, index)


def _is_order(step: Step) -> bool:
    return REDUCTIONS[step.kind] != "add"


def _sum_type(step: Step) -> str:
    kind = step.var.dtype
    return {"float32": "int32", "float64": "int64"}.get(kind, kind) if _is_order(step) else kind


def start(step: Step) -> PrimExpr:
    """The value of a reduction of no elements."""
    kind = step.var.dtype
    if not _is_order(step):
        return const(0, kind)
    if kind in ("float32", "float64"):  # no elements: the least float, like ONNX Runtime
        return call("order", const(float("-inf"), kind))
    return const({"int32": -(1 << 31), "int64": -(1 << 63)}[kind], kind)


def _reversed(value: PrimExpr) -> PrimExpr:
    """A number in the reversed order; that of no integer overflows."""
    return call("neg", value) if value.type.is_float else call("sub", const(-1, value.dtype), value)

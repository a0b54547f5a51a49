"""Lowers the computation of a kernel on rows to loops: one function for each combination of inputs that are broadcast along a row.

Rows are along the last axis. A loop over the row computes the values that a reduction needs; the next loop computes them again, unless they
are expensive and an output has room for them.
"""

import itertools
from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Final

from passat.ir.tir import Accumulate, Buffer, Call, Cast, Const, Expr, For, Let, Load, Local, LoopFunc, Seq, Stmt, Store, Var
from passat.runtime.kernels.operators import REDUCTIONS

MOST_VARIED: Final = 2
"""Maximum number of inputs of unknown broadcasting for a function per combination. Beyond it there is one function without broadcasting,
and a general one."""
_EXPENSIVE: Final = frozenset(("erf", "exp", "log", "sigmoid", "tanh"))

_I, _J, _M, _N = Var("i"), Var("j"), Var("m"), Var("n")


@dataclass(frozen=True)
class Step:
    """A value: one for each element of a row (`wide`), or one for each row, which may be the reduction `kind` of a value."""

    var: Var
    value: Expr
    wide: bool
    kind: str = ""


@dataclass(frozen=True)
class Program:
    """The computation of a kernel. Inputs are the variables `x0`, `x1` ..., with the type of each and whether it advances along the row
    (None if that is not known). Outputs are steps, with the type of each."""

    inputs: tuple[tuple[str, bool | None], ...]
    steps: tuple[Step, ...]
    outputs: tuple[tuple[str, str], ...]

    @property
    def reduces(self) -> bool:
        """True if there are reductions, so that a row must not be split."""
        return any(step.kind for step in self.steps)


def variants(name: str, program: Program) -> list[tuple[int | None, LoopFunc]]:
    """The functions of a kernel, each with the mask of the inputs that advance along the row; None for any, with strides as arguments."""
    unknown = [number for number, (_, along) in enumerate(program.inputs) if along is None]
    known = sum(1 << number for number, (_, along) in enumerate(program.inputs) if along)
    if len(unknown) > MOST_VARIED:
        masks = [known + sum(1 << number for number in unknown)]
    else:
        masks = [known + sum(each) for each in itertools.product(*((1 << number, 0) for number in unknown))]
    return [(mask, _Lowering(program, mask).function(f"{name}_{'any' if mask is None else mask}")) for mask in (*masks, None)]


def variables(expr: Expr) -> Iterator[str]:
    """The names of the variables in an expression."""
    return (part.name for part in _parts(expr) if isinstance(part, Var))


def _is_expensive(expr: Expr) -> bool:
    return any(isinstance(part, Call) and part.name in _EXPENSIVE for part in _parts(expr))


def _parts(expr: Expr) -> Iterator[Expr]:
    """An expression, and all that it is computed from."""
    waiting = [expr]
    while waiting:
        one = waiting.pop()
        yield one
        if isinstance(one, Call):
            waiting.extend(one.args)
        elif isinstance(one, Cast):
            waiting.append(one.value)


class _Lowering:
    def __init__(self, program: Program, mask: int | None) -> None:
        self.program = program
        self.buffers = [Buffer(f"b{number}", kind) for number, (kind, _) in enumerate(program.inputs)]
        self.between = [Var(f"r{number}") for number in range(len(self.buffers))]
        self.strides = [Var(f"s{number}") for number in range(len(self.buffers))] if mask is None else []
        self.mask = mask
        self.outputs = {name: Buffer(f"y{number}", kind) for number, (name, kind) in enumerate(program.outputs)}
        self.steps = {step.var.name: step for step in program.steps}
        self.level: dict[str, int] = {}
        for step in program.steps:
            before = max((self.level.get(name, 0) for name in variables(step.value)), default=0)
            self.level[step.var.name] = before + bool(step.kind)
        self.kept = self._kept()

    def _kept(self) -> dict[str, tuple[Buffer, int]]:
        """Expensive values that are stored in an output, and the last level at which they are available."""
        last = max(self.level.values())
        free = [name for name, buffer in self.outputs.items() if self.steps[name].wide and self.level[name] > 0]
        kept = {name: (buffer, last) for name, buffer in self.outputs.items() if self.steps[name].wide and buffer.dtype != "float16"}
        for step in self.program.steps:
            if not step.wide or step.var.name in kept or self.level[step.var.name] == last or not self._is_costly(step):
                continue
            for name in free:
                if self.outputs[name].dtype == step.var.dtype and self.level[name] > self.level[step.var.name]:
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
            if other.wide and not needs.isdisjoint(variables(other.value)):
                needs.add(other.var.name)
        readers = (other for other in self.program.steps if not needs.isdisjoint(variables(other.value)))
        return any(self.level[other.var.name] - bool(other.kind) > self.level[step.var.name] for other in readers)

    def function(self, name: str) -> LoopFunc:
        """The function of rows: inputs, their strides between rows and along them, outputs, and the numbers of rows and of elements."""
        levels = max(self.level.values())
        row: Stmt = Seq([Store(self.outputs[output], _J, self.steps[output].var) for output in self.outputs if not self.steps[output].wide])
        for level in range(levels, -1, -1):
            row = self._from_level(level, row)
        params: tuple[Buffer | Var, ...] = (*self.buffers, *self.between, *self.strides, *self.outputs.values(), _M, _N)
        return LoopFunc(name, params, For(_J, _M, self._row_inputs(row)), tuple(self.outputs.values()))

    def _from_level(self, level: int, rest: Stmt) -> Stmt:
        """The numbers of a row that are known at a level, its loop, and what follows."""
        reductions = [step for step in self.program.steps if step.kind and self.level[step.var.name] == level + 1]
        body: list[Stmt] = []
        needed: set[str] = set()
        for name, (buffer, _) in self.kept.items():
            if self.level[name] == level:
                body.append(Store(buffer, self._place(), self.steps[name].var))
                needed.add(name)
        for name, buffer in self.outputs.items():
            if self.steps[name].wide and name not in self.kept and self.level[name] == level:
                body.append(Store(buffer, self._place(), self.steps[name].var))
                needed.add(name)
        for step in reductions:
            body.append(_accumulated(step))
            needed.update(variables(step.value))
        after = rest
        if body:
            after = Seq([For(_I, _N, self._elements(level, needed, Seq(body))), rest])
        for step in reversed(reductions):
            start = _start(step)
            after = Local(_sum(step), start, after)
        for step in reversed([step for step in self.program.steps if not step.wide and self.level[step.var.name] == level]):
            after = Let(step.var, _finished(step) if step.kind else step.value, after)
        return after

    def _row_inputs(self, body: Stmt) -> Stmt:
        """Names the inputs that numbers of a row are computed from."""
        numbers = (step for step in self.program.steps if not step.wide and not step.kind)
        for name in dict.fromkeys(name for step in numbers for name in variables(step.value) if name not in self.steps):
            element = self._loaded(name, at_start=True)
            body = Let(Var(name, element.dtype), element, body)
        return body

    def _elements(self, level: int, needed: Set[str], body: Stmt) -> Stmt:
        """The values of an element that are needed at a level, and a statement."""
        wanted: list[Step] = []
        names = set(needed)
        for step in reversed(self.program.steps):
            if step.var.name in names and step.wide:
                wanted.append(step)
                if not self._is_stored(step, level):
                    names.update(variables(step.value))
        for step in wanted:
            value = Load(self.kept[step.var.name][0], self._place()) if self._is_stored(step, level) else step.value
            body = Let(step.var, value, body)
        for name in sorted(name for name in names if name not in self.steps):
            element = self._loaded(name)
            body = Let(Var(name, element.dtype), element, body)
        return body

    def _is_stored(self, step: Step, level: int) -> bool:
        return step.var.name in self.kept and self.level[step.var.name] < level <= self.kept[step.var.name][1]

    def _place(self) -> Expr:
        return Call("add", (Call("mul", (_J, _N)), _I))

    def _loaded(self, name: str, *, at_start: bool = False) -> Load:
        number = int(name.removeprefix("x"))
        index: Expr = Call("mul", (_J, self.between[number]))
        if not at_start and self.mask is None:
            index = Call("add", (index, Call("mul", (_I, self.strides[number]))))
        elif not at_start and self.mask is not None and self.mask >> number & 1:
            index = Call("add", (index, _I))
        return Load(self.buffers[number], index)


def _is_order(step: Step) -> bool:
    return REDUCTIONS[step.kind] != "add"


def _sum(step: Step) -> Var:
    kind = step.var.dtype
    return Var(f"a_{step.var.name}", {"float32": "int32", "float64": "int64"}.get(kind, kind) if _is_order(step) else kind)


def _start(step: Step) -> Expr:
    kind = step.var.dtype
    if not _is_order(step):
        return Const(0, kind)
    if kind in ("float32", "float64"):  # no elements: the least float, like ONNX Runtime
        return Call("order", (Const(float("-inf"), kind),))
    least = {"int32": -(1 << 31), "int64": -(1 << 63)}[kind]
    return Const(least, kind)


def _accumulated(step: Step) -> Accumulate:
    value = step.value
    if step.kind in ("ReduceL2", "ReduceSumSquare"):
        value = Call("mul", (value, value))
    if step.kind == "ReduceMin":
        value = _reversed(value)
    if _is_order(step) and step.var.dtype in ("float32", "float64"):
        value = Call("order", (value,))
    return Accumulate(_sum(step), REDUCTIONS[step.kind], value)


def _finished(step: Step) -> Expr:
    kind, found = step.var.dtype, _sum(step)
    if step.kind == "ReduceMean":
        return Call("div", (found, Cast(Call("max", (_N, Const(1, "int64"))), kind)))
    if step.kind == "ReduceL2":
        return Call("sqrt", (found,))
    value: Expr = found
    if _is_order(step) and kind in ("float32", "float64"):
        value = Call("of_order", (value,))
    return _reversed(value) if step.kind == "ReduceMin" else value


def _reversed(value: Expr) -> Expr:
    """A number in the reversed order; that of no integer overflows."""
    return Call("neg", (value,)) if value.dtype in ("float32", "float64") else Call("sub", (Const(-1, value.dtype), value))

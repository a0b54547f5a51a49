"""LLVM IR of the statements of the loop IR. The kinds of loops are hints: LLVM vectorizes and unrolls serial loops itself."""

from collections.abc import Callable
from typing import Any as AnyValue
from typing import Final

import llvmlite.ir as ll

from passat.ir.tir.arithmetic import Add
from passat.ir.tir.expr import Call, IntImm, PrimExpr, StringImm, Var, const
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Prefetch,
    SeqStmt,
    Stmt,
    Store,
    While,
)
from passat.ir.tir.types import DataType
from passat.runtime.jit.callbacks import FAILED, ArrayArgument, Callbacks
from passat.runtime.jit.expressions import I8, I32, I64, POINTER, Expressions, UnsupportedError, is_contiguous, is_true, llvm_type
from passat.runtime.kernels.emit_c import REASSOCIATE

_ON_STACK: Final = 1 << 14
"""The size in bytes up to which memory of a constant size is on the stack."""


def emit(function: PrimFunc, module: ll.Module, callbacks: Callbacks) -> list[str]:
    """Adds a function of pointers and numbers to an LLVM module. It returns 0, the number of the assertion that does not hold, or `FAILED`.

    Returns the messages of the assertions.
    """
    made = ll.Function(module, ll.FunctionType(I32, [llvm_type(var.dtype) for var in function.params]), function.name)
    builder = ll.IRBuilder(made.append_basic_block())
    emitter = Statements(module, builder, callbacks)
    emitter.values.update(zip(function.params, made.args, strict=True))
    if function.attrs.get("tir.noalias"):
        for arg in made.args:
            if isinstance(arg.type, ll.PointerType):
                arg.add_attribute("noalias")
    emitter.stmt(function.body)
    emitter.builder.ret(ll.Constant(I32, 0))
    return emitter.assertions


class Statements(Expressions):
    """Emits statements."""

    def __init__(self, module: ll.Module, builder: ll.IRBuilder, callbacks: Callbacks) -> None:
        super().__init__(module, builder)
        self._callbacks = callbacks
        self.assertions: list[str] = []
        self._memory: list[AnyValue] = []
        self._regroups = False

    def stmt(self, node: Stmt) -> None:
        """Emits a statement."""
        form = _FORMS.get(type(node))
        if form is None:
            raise UnsupportedError(f"statements of the kind {type(node).__name__} are not compiled")
        form(self, node)

    def _sequence(self, node: SeqStmt) -> None:
        for part in node.seq:
            self.stmt(part)

    def _let_stmt(self, node: LetStmt) -> None:
        self.values[node.var] = self.expr(node.value)
        self.stmt(node.body)

    def _attribute(self, node: AttrStmt) -> None:
        if node.attr_key in ("thread_extent", "virtual_thread"):
            raise UnsupportedError("loops on threads are not compiled for the CPU; use parallel")
        self.stmt(node.body)

    def _assertion(self, node: AssertStmt) -> None:
        self.assertions.append(str(getattr(node.message, "value", node.message)))
        code = len(self.assertions)
        self._leave_if(self.builder.not_(self.expr(node.condition)), code)
        self.stmt(node.body)

    def _leave_if(self, condition: AnyValue, status: int) -> None:
        """Returns from the function with a status if a condition holds."""
        with self.builder.if_then(condition, likely=False):
            for memory in self._memory:
                self._free(memory)
            self.builder.ret(ll.Constant(I32, status))

    def call_packed(self, node: Call) -> AnyValue:
        """A call of a registered Python function with numbers and arrays."""
        builder, (name, *args) = self.builder, node.args
        if not isinstance(name, StringImm):
            raise UnsupportedError("a call of a registered function names it by a string")
        kinds: list[str | ArrayArgument] = []
        slots: list[AnyValue] = []
        for arg in args:
            if isinstance(arg, Call) and arg.op.name == "tir.tvm_stack_make_array":
                data, shape, strides, _, zero, offset = arg.args
                if not isinstance(data, Var) or not isinstance(shape, Call) or isinstance(strides, Call):
                    raise UnsupportedError(f"arrays that are passed to {name.value} are contiguous buffers")
                kinds.append(ArrayArgument(zero.dtype, len(shape.args)))
                start = self.address(self.pointer(data), zero.type, self.expr(offset), offset.type)
                slots.append(builder.ptrtoint(start, I64))
                slots += [self.cast(self.expr(size), size.type, DataType("int", 64)) for size in shape.args]
            else:
                kinds.append("float" if arg.type.is_float else "int")
                value = self.expr(arg)
                if arg.type.is_float:
                    value = builder.bitcast(self.cast(value, arg.type, DataType("float", 64)), I64)
                slots.append(value if arg.type.is_float else self.cast(value, arg.type, DataType("int", 64)))
        with builder.goto_entry_block():
            memory = builder.alloca(I64, size=ll.Constant(I64, max(len(slots), 1)))
            memory.type = POINTER
        for place, slot in enumerate(slots):
            builder.store(slot, builder.gep(memory, [ll.Constant(I64, place)], source_etype=I64))
        symbol = self._function(self._callbacks.symbol(name.value, kinds), ll.FunctionType(I32, [POINTER]))
        status = builder.call(symbol, [memory])
        self._leave_if(builder.icmp_signed("!=", status, ll.Constant(I32, 0)), FAILED)
        return self.cast(builder.load(memory, typ=I64), DataType("int", 64), node.type)

    def _for(self, node: For) -> None:
        if node.kind == ForKind.THREAD_BINDING:
            raise UnsupportedError("loops on threads are not compiled for the CPU; use parallel")
        builder = self.builder
        first, extent = self.expr(node.min), self.expr(node.extent)
        zero = ll.Constant(extent.type, 0)
        before = builder.block
        head, body, after = (builder.append_basic_block() for _ in range(3))
        builder.branch(head)
        builder.position_at_end(head)
        counter = builder.phi(extent.type)
        counter.add_incoming(zero, before)
        compare = builder.icmp_signed if node.loop_var.type.kind == "int" else builder.icmp_unsigned
        builder.cbranch(compare("<", counter, extent), body, after)
        builder.position_at_end(body)
        self.values[node.loop_var] = builder.add(first, counter)
        outer, self._regroups = self._regroups, bool(node.annotations.get(REASSOCIATE))
        self.stmt(node.body)
        self._regroups = outer
        counter.add_incoming(builder.add(counter, ll.Constant(extent.type, 1), flags=("nsw",)), builder.block)
        builder.branch(head)
        builder.position_at_end(after)

    def _while(self, node: While) -> None:
        builder = self.builder
        head, body, after = (builder.append_basic_block() for _ in range(3))
        builder.branch(head)
        builder.position_at_end(head)
        builder.cbranch(self.expr(node.condition), body, after)
        builder.position_at_end(body)
        self.stmt(node.body)
        builder.branch(head)
        builder.position_at_end(after)

    def _if(self, node: IfThenElse) -> None:
        builder = self.builder
        then_block, else_block, after = (builder.append_basic_block() for _ in range(3))
        builder.cbranch(self.expr(node.condition), then_block, else_block)
        for block, case in ((then_block, node.then_case), (else_block, node.else_case)):
            builder.position_at_end(block)
            if case is not None:
                self.stmt(case)
            builder.branch(after)
        builder.position_at_end(after)

    def _store(self, node: Store) -> None:
        self.write(self.pointer(node.buffer_var), node.value, node.index, node.predicate)

    def write(self, pointer: AnyValue, value: PrimExpr, index: PrimExpr, predicate: PrimExpr) -> None:
        """Writes elements of memory."""
        builder, type_ = self.builder, value.type
        element = type_.with_lanes(1)
        made = self._regrouped(value) if self._regroups and isinstance(value, Add) and type_.is_float else self.expr(value)
        if type_.is_bool:
            made = builder.zext(made, llvm_type(str(type_), memory=True))
        if type_.lanes > 1 and is_true(predicate) and is_contiguous(index):
            start = self.address(pointer, element, self.expr(index.base), index.base.type)
            builder.store(made, start).align = element.itemsize
            return
        places = self.lanes_of(self.expr(index), type_.lanes)
        conditions = [None] * type_.lanes if is_true(predicate) else self.lanes_of(self.expr(predicate), type_.lanes)
        for lane, place, condition in zip(self.lanes_of(made, type_.lanes), places, conditions, strict=True):
            if condition is None:
                builder.store(lane, self.address(pointer, element, place, index.type)).align = element.itemsize
            else:
                with builder.if_then(condition):
                    builder.store(lane, self.address(pointer, element, place, index.type)).align = element.itemsize

    def _regrouped(self, value: Add) -> AnyValue:
        """A sum that LLVM may compute in any order."""
        return self.builder.fadd(self.expr(value.a), self.expr(value.b), flags=("reassoc", "nsz"))

    def _evaluate(self, node: Evaluate) -> None:
        if not isinstance(node.value, IntImm):
            self.expr(node.value)

    def _allocate(self, node: Allocate) -> None:
        """Memory on the stack if it is small, and otherwise on the heap."""
        type_, var, body = DataType.of(node.dtype), node.buffer_var, node.body
        total: PrimExpr = const(type_.itemsize * type_.lanes, "int64")
        for extent in node.extents:
            total = total * extent.astype("int64")
        if isinstance(total, IntImm) and total.value <= _ON_STACK:
            with self.builder.goto_entry_block():
                memory = self.builder.alloca(I8, size=ll.Constant(I64, max(total.value, 1)))
                memory.align, memory.type = 64, POINTER  # llvmlite gives it a typed pointer, which LLVM no longer has
            self.values[var] = memory
            self.stmt(body)
            return
        memory = self.builder.call(self._function("malloc", ll.FunctionType(POINTER, [I64])), [self.expr(total)])
        self.values[var] = memory
        self._memory.append(memory)
        self.stmt(body)
        self._free(self._memory.pop())

    def _free(self, memory: AnyValue) -> None:
        self.builder.call(self._function("free", ll.FunctionType(ll.VoidType(), [POINTER])), [memory])


_FORMS: Final[dict[type, Callable[[Statements, AnyValue], None]]] = {
    SeqStmt: Statements._sequence,
    LetStmt: Statements._let_stmt,
    AttrStmt: Statements._attribute,
    AssertStmt: Statements._assertion,
    For: Statements._for,
    While: Statements._while,
    IfThenElse: Statements._if,
    Store: Statements._store,
    Allocate: Statements._allocate,
    Evaluate: Statements._evaluate,
    Prefetch: lambda _self, _node: None,
}

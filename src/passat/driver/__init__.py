"""`tvm.driver`: lowers schedules and compiles functions of loops."""

from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any as AnyValue
from typing import Final, TypeAlias

from passat.ir.expr import Function, GlobalVar
from passat.ir.module import IRModule
from passat.ir.te.lower import schedule_to_module
from passat.ir.te.schedule import Schedule
from passat.ir.te.tensor import Tensor
from passat.ir.tir.buffer import Buffer
from passat.ir.tir.expr import Var
from passat.ir.tir.function import PrimFunc
from passat.passmgr.context import PassContext
from passat.passmgr.loops.lowering import VECTORIZE, Lower
from passat.relay.build_module import build as build_relay
from passat.runtime.devices import Target
from passat.runtime.graph.loop_library import LoopLibrary

__all__ = ["build", "lower", "schedule_to_module"]

Argument: TypeAlias = Tensor | Buffer | Var
_build_relay: Callable[..., AnyValue] = build_relay


def lower(
    inp: Schedule | PrimFunc | IRModule,
    args: Sequence[Argument] | None = None,
    name: str = "main",
    binds: Mapping[Tensor, Buffer] | None = None,
    simple_mode: bool = False,
) -> IRModule:
    """The module with the function of a schedule, or with a function, after the passes of `passat.passmgr.loops.lowering`.

    Accesses of buffers become accesses of memory, loops marked `vectorize` and `unroll` vectors and statements, and indices are simplified.
    Loops with bounds that are not constant are split where a condition in them is decided, except in the simple mode.

    >>> from passat import te
    >>> x = te.placeholder((4,), name="x")
    >>> y = te.compute((4,), lambda i: x[i] * 2, name="y")
    >>> print(lower(te.create_schedule(y.op), [x, y])["main"].body)
    for (i: int32, 0, 4) {
      y: Pointer(global float32)[i] = ((float32*)x: Pointer(global float32)[i]*2.0f32)
    }
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a function is a str, not a {type(name).__name__}")
    if isinstance(inp, Schedule):
        if not isinstance(args, (Sequence, NoneType)) or isinstance(args, str):
            raise TypeError(f"the arguments of a function are a list of tensors, buffers and variables, not a {type(args).__name__}")
        inp = schedule_to_module(inp, args or [], name, binds)
    elif isinstance(inp, PrimFunc):
        inp = IRModule({GlobalVar(name): inp.with_attr("global_symbol", inp.name or name)})
    if not isinstance(inp, IRModule):
        raise ValueError(f"a schedule, a function of loops or a module is lowered, not a {type(inp).__name__}")
    return Lower(simple_mode)(inp)


def build(
    inputs: AnyValue,
    args: AnyValue = None,
    target: AnyValue = None,
    target_host: AnyValue = None,
    name: str = "main",
    binds: Mapping[Tensor, Buffer] | None = None,
    **options: AnyValue,
) -> AnyValue:
    """Compiles a schedule, a function of loops or a module of them for `llvm` or `c`; `relay.build` gets the functions of Relay."""
    if not isinstance(inputs, (Schedule, PrimFunc)) and not (
        isinstance(inputs, IRModule) and any(isinstance(function, PrimFunc) for function in inputs.functions.values())
    ):
        if not isinstance(inputs, (Function, IRModule)):
            raise TypeError(f"a schedule, a function or a module is built, not a {type(inputs).__name__}")
        given = options if target is None else {"target": target, **options}
        return _build_relay(inputs, *([] if args is None else [args]), **given)
    chosen = Target(target or Target.current() or "llvm")
    with PassContext(inherit=True, config={VECTORIZE: True} if chosen.kind in _WITHOUT_VECTORS else None):
        lowered = lower(inputs, args, name, binds)
    functions: dict[str, PrimFunc] = {}
    for var, function in lowered.functions.items():
        if not isinstance(function, PrimFunc):
            raise ValueError(f"@{var.name_hint} is not a function of loops; relay.build compiles functions of Relay")
        functions[function.name or var.name_hint] = function
    return LoopLibrary(functions, chosen)


_WITHOUT_VECTORS: Final = ("c",)
"""Targets for which loops marked `vectorize` are serial: the C compiler vectorizes them itself."""

"""Passes for the tests of workers: in a module that workers can import, and of every kind that travels."""

import os
import signal
import sys
import time
from dataclasses import dataclass

from passat.ir.expr import Call, Expr, Function, GlobalVar, const, var
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import get_op
from passat.passmgr import FunctionPass, PassContext, PassInfo, function_pass, register_option, register_pass

register_option("test.sharing", int, 7, "What the pass reports.")


def chains(count: int, length: int = 3) -> IRModule:
    """A module of functions f0, f1 ..., each a chain of additions; every third calls its predecessor."""
    module = IRModule()
    before: GlobalVar | None = None
    for i in range(count):
        x = var("x", shape=(4,))
        body: Expr = x if before is None or i % 3 else Call(before, [x])
        for j in range(length):
            body = body + const(float(j))
        before = GlobalVar(f"f{i}")
        module[before] = Function([x], body)
    return module


def index(func: Function, mod: IRModule) -> int:
    """The place of a function in its module: functions are the module's own objects in workers too."""
    return next(place for place, other in enumerate(mod.functions.values()) if other is func)


@function_pass(opt_level=0)
def double_even(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    """Doubles the result of every second function, and leaves the others; talks about it."""
    place = index(func, mod)
    ctx.record("double_even", "seen", place + 0.1)
    ctx.remark("double_even", f"saw {place} at level {PassContext.current().opt_level}")
    if place % 2:
        return func
    return func.with_body(func.body + func.body)


@function_pass(opt_level=0, name="Types")
def infer_each(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    """Infers types in place, and those of a new function around the old body."""
    infer_type(func)
    made = func.with_body(get_op("negative")(func.body))
    infer_type(made)
    return made


@function_pass(opt_level=0)
def report_config(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    """Puts what the context says into attributes."""
    attrs = [ctx.get_config("test.sharing"), ctx.opt_level, "workers" if "passmgr.workers" in ctx.config else "", ctx.executor is None]
    return func.with_attr("said", (*attrs, *ctx.required_pass, *ctx.disabled_pass, PassContext.current() is ctx, len(ctx.instruments)))


@function_pass(opt_level=0)
def mark_process(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    """Puts the process into an attribute."""
    return func.with_attr("process", os.getpid())


@function_pass(opt_level=0)
def raise_at_three(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    """Raises for the functions from the fourth on, each its own."""
    place = index(func, mod)
    ctx.record("raise_at_three", "seen")
    if place >= 3:
        error = KeyError(f"function {place}")
        error.add_note("noted in the pass")
        raise error
    return func.with_attr("place", place)


class Awkward(Exception):
    """An exception that pickle cannot make again."""

    def __init__(self, place: int, *, why: str) -> None:
        super().__init__(f"{why} at {place}")


@function_pass(opt_level=0)
def raise_awkwardly(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    """Raises what cannot be pickled."""
    ctx.record("raise_awkwardly", "seen")
    place = index(func, mod)
    if place == 2:
        raise Awkward(place, why="awkward")
    return func


@function_pass(opt_level=0)
def make_unpicklable(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    """Makes something that cannot be handed back."""
    return func.with_attr("made", lambda: None)


@function_pass(opt_level=0)
def wrong_result(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    """Returns no function."""
    return None  # type: ignore[return-value]  # the mistake


@function_pass(opt_level=0)
def add_function(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    """Adds a function, which it must not."""
    mod.functions[GlobalVar("new")] = func
    return func


@function_pass(opt_level=0)
def die_in_workers(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    """Kills the process where that is a worker."""
    if os.getpid() != ctx.get_config("test.sharing"):
        os.kill(os.getpid(), signal.SIGKILL)
    return func.with_attr("done", 1)


@function_pass(opt_level=0)
def leave(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    """Ends the program."""
    sys.exit(3)


@function_pass(opt_level=0)
def sleep(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    """Takes longer than anybody waits."""
    time.sleep(600)
    return func


@dataclass(frozen=True, repr=False)
class Scale(FunctionPass):
    """A pass with an option, which is pickled as it is."""

    by: float = 2.0
    info = PassInfo(1, "Scale")

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return func.with_body(func.body * const(self.by))


@function_pass(opt_level=1)
class Decorated:
    """A decorated class."""

    def __init__(self, by: float = 3.0) -> None:
        self.by = by

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return func.with_body(func.body * const(self.by))


@register_pass("test.transform.Made")
def made(by: float = 4.0) -> FunctionPass:
    """A registered function that makes a pass which cannot be pickled."""

    def scale(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return func.with_body(func.body * const(by))

    return function_pass(scale, opt_level=1, name="Made")


@function_pass(opt_level=0)
def die_at_two(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    """Kills the process at the third function, where that is a worker."""
    if index(func, mod) == 2 and os.getpid() != ctx.get_config("test.sharing"):
        os.kill(os.getpid(), signal.SIGKILL)
    return func.with_attr("done", 1)

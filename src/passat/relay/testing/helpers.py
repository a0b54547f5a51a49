"""Helpers that tests of passes share: types, passes on expressions, natural numbers, gradients compared with differences, random values."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from passat.ir.expr import Call, Constructor, Expr, Function
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.tensor import Array
from passat.ir.traverse import post_order
from passat.ir.types import FuncType, TensorType
from passat.passmgr import InferType, Pass
from passat.relay.prelude import Prelude
from passat.relay.transform import gradient
from passat.runtime import ConstructorValue, Device, NDArray, Target, array, cpu, create_executor

__all__ = ["check_grad", "count", "count_ops", "make_nat_expr", "make_nat_value", "rand", "run_infer_type", "run_opt_pass"]


def run_infer_type(expr: Expr) -> Expr:
    """The expression with types inferred; a function without a declared result gets the inferred one."""
    found = run_opt_pass(expr, InferType())
    type_ = found._checked_type
    if isinstance(found, Function) and found.ret_type is None and isinstance(type_, FuncType):
        declared = Function(found.params, found.body, type_.ret_type, found.type_params, found.attrs, found.span)
        return run_opt_pass(declared, InferType())
    return found


def run_opt_pass(expr: Expr, opt_pass: Pass, import_prelude: bool = False) -> Expr:
    """The result of a pass on an expression: a function for a function, otherwise the body of a function of its free variables.

    `import_prelude` adds the standard library to the module.
    """
    if not isinstance(opt_pass, Pass):
        raise TypeError(f"opt_pass must be a pass, not {opt_pass!r}")
    module = IRModule.from_expr(expr)
    if import_prelude:
        module.import_from_std("prelude.rly")
    entry = opt_pass(module)["main"]
    return entry if isinstance(expr, Function) else entry.body


def count(prelude: Prelude, n: ConstructorValue) -> int:
    """Converts a value of the type `nat` to a number."""
    number = 0
    while n.fields:
        number, n = number + 1, n.fields[0]
    return number


def make_nat_value(prelude: Prelude, n: int) -> ConstructorValue:
    """A number as a value of the type `nat`."""
    zero, succ = _of_nat(prelude)
    value = ConstructorValue(zero.tag, (), zero)
    for _ in range(n):
        value = ConstructorValue(succ.tag, (value,), succ)
    return value


def make_nat_expr(prelude: Prelude, n: int) -> Expr:
    """A number as an expression of the type `nat`."""
    zero, succ = _of_nat(prelude)
    expr: Expr = zero()
    for _ in range(n):
        expr = succ(expr)
    return expr


def _of_nat(prelude: Prelude) -> list[Constructor]:
    return [part for part in prelude.get_type("nat") if isinstance(part, Constructor)]


def check_grad(
    func: Function,
    inputs: Sequence[Array] | None = None,
    test_inputs: Sequence[Array] | None = None,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    scale: float | None = None,
    mean: float = 0,
    mode: str = "higher_order",
    target_devices: Sequence[tuple[str | Target, Device]] | None = None,
    executor_kind: str = "debug",
) -> None:
    """Compares the gradients of a function with central differences of the sum of its result, with step `eps`.

    The inputs are normally distributed with deviation `scale` (ten steps by default) around `mean`, unless they are given. Compares only
    the gradients of `test_inputs`, which are some of the inputs. Raises AssertionError if they differ.
    """
    forward = run_infer_type(func)
    assert isinstance(forward, Function)  # made from one
    backward = run_infer_type(gradient(forward, mode=mode))
    given = (
        list(inputs)
        if inputs is not None
        else [_np_randn_from_type(param.checked_type, eps * 10 if scale is None else scale, mean) for param in forward.params]
    )
    tested = given if test_inputs is None else list(test_inputs)
    places = [next(i for i, value in enumerate(given) if value is wanted) for wanted in tested]
    for target, device in target_devices or [("llvm", cpu())]:
        executor = create_executor(executor_kind, device=device, target=target)
        run, found = executor.evaluate(forward), executor.evaluate(backward)(*given)[1]
        for place in places:
            value, approximate = given[place], np.zeros(given[place].shape)
            for index in np.ndindex(*value.shape):
                sums = []
                for step in (eps, -eps):
                    moved = list(given)
                    moved[place] = value.copy()
                    moved[place][index] += step
                    sums.append(run(*moved).numpy().astype("float64"))
                approximate[index] = np.sum((sums[0] - sums[1]) / (2 * eps))
            np.testing.assert_allclose(found[place].numpy().astype("float64"), approximate, atol=atol, rtol=rtol)


def _np_randn_from_type(t: object, scale: float = 1, mean: float = 0) -> Array:
    if not isinstance(t, TensorType):
        raise TypeError(f"parameters are tensors, not {t}; pass inputs")
    return np.asarray(mean + scale * np.random.randn(*t.concrete_shape)).astype(t.dtype)


def rand(dtype: str, *shape: int) -> NDArray:
    """An array of random numbers between 0 and 1."""
    return array(np.random.rand(*shape).astype(dtype))


def count_ops(expr: Expr) -> Counter[str]:
    """The number of calls of each operator in an expression."""
    return Counter(node.op.name for node in post_order(expr) if isinstance(node, Call) and isinstance(node.op, Op))

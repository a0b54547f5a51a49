"""FoldConstant against TVM's: time per folded scalar addition.

    python -m venv TVM && TVM/bin/pip install apache-tvm==0.27.0
    python benchmarks/fold_constant.py --tvm TVM/bin/python

The program is a chain of additions of scalar constants, all different. Passat runs the operator's NumPy kernel; TVM's
`relax.transform.FoldConstant` compiles a function for each call and runs that. Only the pass is timed, on a program that is already built
and typed. Runs alternate between the two. Without TVM, only Passat's time is shown.
"""

import argparse
import statistics
import time
from typing import Final

import numpy as np
import tvm_process

from passat.ir.expr import Call, Constant, Expr, Function, const
from passat.ir.infer import infer_module
from passat.ir.module import IRModule
from passat.ir.op import get_op
from passat.rules.passes.simplify import fold_constant

THEIRS: Final = """
import numpy as np
from tvm import relax

def program(size):
    builder = relax.BlockBuilder()
    with builder.function("main", []):
        with builder.dataflow():
            value = relax.const(np.float32(1))
            for i in range(size):
                value = builder.emit(relax.op.add(value, relax.const(np.float32(i))))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return builder.get()

for line in sys.stdin:
    size = int(line)
    module, fold = program(size), relax.transform.FoldConstant()
    start = time.perf_counter()
    folded = fold(module)
    seconds = time.perf_counter() - start
    result = folded["main"].body
    value = result.body if isinstance(result, relax.SeqExpr) else result
    print(json.dumps([seconds, float(value.value.numpy())]), flush=True)
"""
"""The program for the interpreter with TVM: for each input line it folds that many additions, and prints seconds and sum."""


def ours(size: int) -> tuple[float, float]:
    """Passat's seconds for folding a number of additions, and their sum."""
    value: Expr = const(np.float32(1))
    for i in range(size):
        value = Call(get_op("add"), [value, const(np.float32(i))])
    module = infer_module(IRModule({"main": Function([], value)}))
    fold = fold_constant()
    start = time.perf_counter()
    folded = fold(module)
    seconds = time.perf_counter() - start
    body = folded["main"].body
    assert isinstance(body, Constant), "everything is constant"
    return seconds, float(body.data.numpy())


def main() -> None:
    """Read the command line, measure, print the times."""
    parser = argparse.ArgumentParser(description="Compare FoldConstant with that of TVM.")
    tvm_process.add_option(parser)
    parser.add_argument("--additions", type=int, default=100, help="in a program")
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    size = options.additions
    tvm = tvm_process.Tvm(options.tvm, THEIRS)
    if tvm.version is None:
        print(f"{options.tvm} has no TVM that runs; only Passat is measured")
    here: list[float] = []
    there: list[float] = []
    for counted in range(options.runs + 1):
        seconds, total = ours(size)
        if counted:
            here.append(seconds / size)
        if tvm.version is not None:
            seconds, other = tvm.ask(str(size))
            assert total == other, "both add up to the same"
            if counted:
                there.append(seconds / size)
    mine = statistics.median(here)
    print(f"Passat: {1e6 * mine:.1f} us for each of {size} additions")
    if tvm.version is not None:
        theirs = statistics.median(there)
        print(f"TVM {tvm.version}: {1e6 * theirs:,.0f} us, {theirs / mine:,.0f} times as long")


if __name__ == "__main__":
    main()

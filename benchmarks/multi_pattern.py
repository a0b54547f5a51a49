"""Rules with several roots: time against the number of calls, twelve products for each input.

    python benchmarks/multi_pattern.py --sizes 500 1000 2000 4000 8000

Twelve products with different constants read each input; one rule merges the twelve. The time is that of the whole pass, from a typed
function to the extracted one. The last column is the time per call, which is constant for linear growth.
"""

import argparse
import statistics
import time

import numpy as np

from passat.ir.expr import Constant, Function, Tuple, Var
from passat.ir.infer import infer_module
from passat.ir.module import IRModule
from passat.ir.op import get_op
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType
from passat.passmgr import PassContext
from passat.rules import RuleSet, each, joined, parts, rule_pass, tensors
from passat.rules.library.folding import ConstantFolding

x, w = tensors("x w")
PRODUCTS = 12


class Products(RuleSet):
    """Products of one matrix with several."""

    matmul = (each(x @ w, sharing=x) >> parts(x @ joined(w, axis=-1), axis=-1)).inexact("sums in blocks of another size")


def program(calls: int) -> IRModule:
    """A module with about the given number of products."""
    weights = [Constant(Tensor.dense(np.random.default_rng(i).normal(size=(8, 8)), "float32")) for i in range(PRODUCTS)]
    inputs = [Var(f"x{i}", TensorType((4, 8), "float32")) for i in range(calls // PRODUCTS)]
    products = [get_op("nn.matmul")(source, weight) for source in inputs for weight in weights]
    return infer_module(IRModule({"main": Function(inputs, Tuple(products))}))


def main() -> None:
    """Read the command line, measure, print the table."""
    parser = argparse.ArgumentParser(description="Time rules with several roots.")
    parser.add_argument("--sizes", type=int, nargs="*", default=[500, 1000, 2000, 4000, 8000])
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    print("| calls | groups | ms | us for each call |\n| --: | --: | --: | --: |")
    for size in options.sizes:
        module, run, seconds = program(size), rule_pass(Products, ConstantFolding), []
        for counted in range(options.runs + 1):
            with PassContext(config={"rules.cost": "nodes"}) as ctx:
                start = time.perf_counter()
                run(module)
                if counted:
                    seconds.append(time.perf_counter() - start)
        fired = ctx.statistics.counters["Products"]["fired:Products.matmul"]
        taken = statistics.median(seconds)
        print(f"| {size:,} | {int(fired) // PRODUCTS:,} | {1000 * taken:.1f} | {1e6 * taken / size:.1f} |")


if __name__ == "__main__":
    main()

"""Times of operations on programs without passes: equality, hash, visit, mutation, text and JSON, against apache-tvm 0.27.

    python -m venv TVM && TVM/bin/pip install apache-tvm==0.27.0 apache-tvm-ffi==0.1.14.post0
    python benchmarks/relay.py --tvm TVM/bin/python

TVM 0.27 has Relax instead of Relay: its program is a block of bindings `v = add(v, x)`, and Passat's is the same additions, nested.
Both mutators run a Python method for each call. Runs alternate between the two; the figures are medians of CPU time. Each size has its own
process with TVM; `-` means that TVM does not do it, or that its process ended. It parses at most `--parsed` additions, in about a
millisecond each. With apache-tvm-ffi 0.1.15, its `save_json` ends the process.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any, Final

import tvm_process

from passat.ir.equality import structural_equal
from passat.ir.expr import Call, Expr, Function, Var
from passat.ir.functor import ExprMutator
from passat.ir.graph_json import load_json, save_json
from passat.ir.hashing import structural_hash
from passat.ir.infer import infer_module
from passat.ir.module import IRModule
from passat.ir.op import get_op
from passat.ir.text import astext, parse
from passat.ir.traverse import post_order_visit
from passat.ir.types import TensorType

MEASURES: Final = ("equal", "hash", "visit", "mutate", "print", "parse", "save", "load")

THEIRS: Final = """
import tvm_ffi
from tvm import relax

def program(size):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([2], "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for i in range(size):
                value = builder.emit(relax.op.add(value, x))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return builder.get()

@relax.expr_functor.mutator
class Mutator(relax.PyExprMutator):
    def visit_call_(self, call):
        return self.visit_expr_post_order(call)

made = {}
for line in sys.stdin:
    measure, size, parsed = line.split()
    size = int(size)
    if "module" not in made:
        made["module"], made["other"] = program(size), program(size)
    module = made["module"]
    seen = []
    run = {
        "equal": lambda: tvm_ffi.structural_equal(module, made["other"]),
        "hash": lambda: tvm_ffi.structural_hash(module),
        "visit": lambda: relax.analysis.post_order_visit(module["main"], seen.append),
        "mutate": lambda: Mutator().visit_expr(module["main"]),
        "print": lambda: module.script(),
        "parse": lambda: tvm.script.from_source(made["print"]),
        "save": lambda: tvm.ir.save_json(module),
        "load": lambda: tvm.ir.load_json(made["save"]),
    }[measure]
    try:
        if measure == "parse" and size > int(parsed):
            raise ValueError
        start = time.process_time()
        made[measure] = run()
        print(json.dumps(time.process_time() - start), flush=True)
    except Exception:
        print("null", flush=True)
"""
"""The program for the interpreter with TVM: for each input line it takes a measurement on a program of a size, and prints seconds or
null."""


class Calls(ExprMutator):
    """A mutator with a method for calls, which changes nothing."""

    def visit_call(self, call: Call) -> Expr:
        """Visits the parts."""
        return super().visit_call(call)


def program(size: int) -> IRModule:
    """A module whose main function adds `x` a number of times."""
    x = Var("x", TensorType((2,), "float32"))
    value: Expr = x
    add = get_op("add")
    for _ in range(size):
        value = Call(add, [value, x])
    return infer_module(IRModule({"main": Function([x], value)}))


class Ours:
    """Passat's measures on programs of one size."""

    def __init__(self, size: int) -> None:
        self.module, self.other = program(size), program(size)
        self.made: dict[str, Any] = {}
        main = self.module["main"]
        self._runs: dict[str, Callable[[], Any]] = {
            "equal": lambda: structural_equal(self.module, self.other),
            "hash": lambda: structural_hash(self.module),
            "visit": lambda: post_order_visit(main.body, [].append),  # a function keeps its nodes
            "mutate": lambda: Calls().visit(main),
            "print": lambda: astext(self.module),
            "parse": lambda: parse(self.made["print"]),
            "save": lambda: save_json(self.module),
            "load": lambda: load_json(self.made["save"]),
        }

    def seconds(self, measure: str) -> float:
        """CPU time of one run."""
        start = time.process_time()
        self.made[measure] = self._runs[measure]()
        return time.process_time() - start


def ask(tvm: tvm_process.Tvm, measure: str, size: int, parsed: int) -> float | None:
    """TVM's seconds; None if it has none, or if its process ended."""
    try:
        answer = tvm.ask(f"{measure} {size} {parsed}")
    except (json.JSONDecodeError, OSError):
        return None
    return None if answer is None else float(answer)


def main() -> None:
    """Read the command line, measure, print the table."""
    parser = argparse.ArgumentParser(description="Compare equality, hashes, visits, text and JSON with those of TVM.")
    tvm_process.add_option(parser)
    parser.add_argument("--sizes", type=int, nargs="*", default=[1_000, 10_000, 100_000], help="numbers of additions")
    parser.add_argument("--parsed", type=int, default=1_000, help="most additions that TVM parses")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    print("| additions | | Passat, us each | TVM, us each | TVM / Passat |\n| --: | :-- | --: | --: | --: |")
    for size in options.sizes:
        ours = Ours(size)
        tvm = tvm_process.Tvm(options.tvm, THEIRS)
        for measure in MEASURES:
            here, there = [], []
            for _ in range(options.runs):
                here.append(ours.seconds(measure))
                theirs = None if tvm.version is None else ask(tvm, measure, size, options.parsed)
                if theirs is not None:
                    there.append(theirs)
            mine = 1e6 * statistics.median(here) / size
            other = 1e6 * statistics.median(there) / size if there else None
            print(f"| {size:,} | {measure} | {mine:.2f} | {'-' if other is None else f'{other:.2f}'} |", end="")
            print(f" {'-' if other is None else f'{other / mine:.2f}'} |", flush=True)
        tvm.process.kill()


if __name__ == "__main__":
    main()

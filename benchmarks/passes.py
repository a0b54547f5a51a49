"""The cost of the pass manager itself, compared with TVM's: passes that do nothing, pipelines of them, instruments, contexts.

    python -m venv TVM && TVM/bin/pip install apache-tvm==0.27.0
    python benchmarks/passes.py --tvm TVM/bin/python

Both run passes that are written in Python and return their input. Runs alternate between the two; the table has medians in microseconds,
and the ratio of TVM's time to Passat's. Without TVM only Passat is measured.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Final

import tvm_process

from passat.ir.expr import Function, Var
from passat.ir.infer import infer_module
from passat.ir.module import IRModule
from passat.ir.types import TensorType
from passat.passmgr import PassContext, PassInfo, PassInstrument, Sequential, function_pass, module_pass

FUNCTIONS: Final = 200
PASSES: Final = 100
ENTRIES: Final = 100

CASES: Final = {
    "a function pass, for each function": f"function pass|{FUNCTIONS}",
    "a module pass, called by itself": "module pass|1",
    "a Sequential, for each pass": f"sequential 0|{PASSES}",
    "... with 1 instrument": f"sequential 1|{PASSES}",
    "... with 5 instruments": f"sequential 5|{PASSES}",
    "a context, made, entered and left": f"context|{ENTRIES}",
    "a context, entered and left again": f"entered|{ENTRIES}",
}
"""The measurements, with their names and numbers in the programs."""

THEIRS: Final = f"""
from contextlib import ExitStack
from tvm import relax
PassContext, Sequential = tvm.transform.PassContext, tvm.transform.Sequential

def program(count):
    builder = relax.BlockBuilder()
    for i in range(count):
        x = relax.Var("x", relax.TensorType((2, 2), "float32"))
        with builder.function(f"f{{i}}", [x]):
            builder.emit_func_output(x)
    return builder.get()

@tvm.transform.module_pass(opt_level=0)
def nothing(mod, ctx):
    return mod

@relax.transform.function_pass(opt_level=0)
def nothing_for_each(func, mod, ctx):
    return func

@tvm.instrument.pass_instrument
class Watcher:
    def run_before_pass(self, mod, info):
        pass
    def run_after_pass(self, mod, info):
        pass

module, empty = program({FUNCTIONS}), tvm.IRModule({{}})
sequential, again = Sequential([nothing] * {PASSES}), PassContext()

def contexts():
    for _ in range({ENTRIES}):
        with PassContext():
            pass

def entries():
    for _ in range({ENTRIES}):
        with again:
            pass

CASES = {{
    "function pass": lambda: nothing_for_each(module),
    "module pass": lambda: nothing(empty),
    "sequential 0": lambda: sequential(empty),
    "sequential 1": lambda: sequential(empty),
    "sequential 5": lambda: sequential(empty),
    "context": contexts,
    "entered": entries,
}}

for line in sys.stdin:
    name = line.strip()
    case = CASES[name]
    with ExitStack() as stack:
        if name in ("sequential 1", "sequential 5"):
            stack.enter_context(PassContext(instruments=[Watcher() for _ in range(int(name[-1]))]))
        start = time.perf_counter()
        case()
        seconds = time.perf_counter() - start
    print(json.dumps(seconds), flush=True)
"""
"""The program for the interpreter with TVM: it runs the case that each line names, and answers with the seconds."""


@module_pass(opt_level=0)
def nothing(mod: IRModule, _: PassContext) -> IRModule:
    """A module pass that does nothing."""
    return mod


@function_pass(opt_level=0)
def nothing_for_each(func: Function, _: IRModule, __: PassContext) -> Function:
    """A function pass that does nothing."""
    return func


class Watcher(PassInstrument):
    """An instrument that is called for every pass."""

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Called when a pass begins."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Called when a pass has ended."""


class Ours:
    """The cases in Passat."""

    def __init__(self) -> None:
        x = [Var("x", TensorType((2, 2), "float32")) for _ in range(FUNCTIONS)]
        module = infer_module(IRModule({f"f{i}": Function([var], var) for i, var in enumerate(x)}))
        empty = IRModule({})
        sequential, again = Sequential([nothing] * PASSES), PassContext()

        def contexts() -> None:
            for _ in range(ENTRIES):
                with PassContext():
                    pass

        def entries() -> None:
            for _ in range(ENTRIES):
                with again:
                    pass

        self._cases: dict[str, Callable[[], object]] = {
            "function pass": lambda: nothing_for_each(module),
            "module pass": lambda: nothing(empty),
            "sequential 0": lambda: sequential(empty),
            "sequential 1": lambda: sequential(empty),
            "sequential 5": lambda: sequential(empty),
            "context": contexts,
            "entered": entries,
        }

    def seconds(self, name: str) -> float:
        """The seconds of a case."""
        watchers = int(name[-1]) if name.startswith("sequential") else 0
        with PassContext(instruments=[Watcher() for _ in range(watchers)]):
            start = time.perf_counter()
            self._cases[name]()
            return time.perf_counter() - start


def main() -> None:
    """Read the command line, measure, print the table."""
    parser = argparse.ArgumentParser(description="Compare the overhead of the pass manager with TVM's.")
    tvm_process.add_option(parser)
    parser.add_argument("--runs", type=int, default=201)
    options = parser.parse_args()
    tvm, ours = tvm_process.Tvm(options.tvm, THEIRS), Ours()
    print(f"| microseconds | Passat | TVM {tvm.version or '(none)'} | times |\n| :-- | --: | --: | --: |")
    for title, case in CASES.items():
        name, _, count = case.partition("|")
        here, there = [], []
        for _ in range(options.runs):
            here.append(1e6 * ours.seconds(name) / int(count))
            if tvm.version is not None:
                there.append(1e6 * tvm.ask(name) / int(count))
        mine = statistics.median(here)
        theirs = statistics.median(there) if there else None
        print(
            f"| {title} | {mine:.2f} | {'-' if theirs is None else f'{theirs:.2f}'} | {'-' if theirs is None else f'{theirs / mine:.1f}'} |"
        )


if __name__ == "__main__":
    main()

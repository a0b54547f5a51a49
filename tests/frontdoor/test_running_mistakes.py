"""Mistakes of users who build, run and save programs: one sentence each."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import passat
from passat import relay
from passat.contrib import graph_executor
from passat.contrib.debugger import debug_executor
from passat.ir.global_functions import remove_global_func

x, w = relay.var("x", shape=(1, 3)), relay.var("w", shape=(2, 3))
MODULE = passat.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w)))
LIB = relay.build(MODULE, "numpy", params={"w": np.ones((2, 3), np.float32)})
MADE = graph_executor.GraphModule(LIB["default"](passat.cpu()))
JSON = LIB.get_graph_json()
ENGINE = relay.backend.compile_engine.get()
DOUBLE = ENGINE.jit(relay.Function([x], x + x), "numpy")
ARRAY = passat.nd.empty((2, 3))


def wrong(value: Any) -> Any:
    """The value, which type checkers would reject."""
    return value


MISTAKES: list[tuple[Callable[[], Any], str]] = [
    (lambda: graph_executor.GraphModule(wrong(None)), "a GraphModule runs an executor, such as lib['default'](device), not a NoneType"),
    (lambda: LIB["default"]("cpu"), "a device is an object such as passat.cpu(), not 'cpu'"),
    (lambda: LIB["defaults"], "did you mean default?"),
    (lambda: MADE.set_input("xx", ARRAY), "Could not find 'xx' in graph's inputs; it has: x, p0; did you mean x?"),
    (lambda: MADE.set_input(wrong(ARRAY)), "an input is set by its name or number, set_input('x', value), not by a NDArray"),
    (lambda: MADE.get_output(wrong("x")), "there is no result 'x'; results of the graph: 1, counted from 0"),
    (lambda: MADE.load_params(wrong("p.bin")), "parameters are read from bytes, not from a str; read the file first"),
    (lambda: relay.load_param_dict(wrong(None)), "parameters are read from bytes, not from a NoneType; read the file first"),
    (lambda: relay.save_param_dict(wrong([1])), "parameters are arrays by name: save_param_dict({'weight': array})"),
    (lambda: relay.save_param_dict(wrong({1: ARRAY})), "parameters are arrays by name"),
    (lambda: relay.save_param_dict({"w": wrong(None)}), "an array has numbers or texts, not a NoneType"),
    (
        lambda: graph_executor.create(JSON, wrong(None)),
        "the functions of a graph are in a module, such as lib.get_lib(), not in a NoneType",
    ),
    (lambda: debug_executor.create(wrong(LIB), LIB), "the graph must be a text in JSON, not a ExecutorFactory"),
    (lambda: relay.vm.VirtualMachine(wrong(MODULE)), "a virtual machine runs what relay.vm.compile has built, not a IRModule"),
    (lambda: relay.vm.VirtualMachine(relay.vm.compile(MODULE)).get_outputs(), "the program has not been run: call run() first"),
    (lambda: passat.register_func(wrong(5), len), "the name of a global function must be a text, not 5"),
    (lambda: passat.get_global_func("relay.ext.ccompiles"), "did you mean relay.ext.ccompiler?"),
    (lambda: passat.runtime.Module(wrong([1])), "the functions of a module are given by name, not as a list"),
    (lambda: LIB.time_evaluator("default", number=wrong(None)), "number and repeat must be at least 1, not None and 1"),
    (lambda: DOUBLE(ARRAY, ARRAY), "the argument 0 of fused_add has the type Tensor[(1, 3), float32], not float32[2, 3]"),
    (lambda: passat.nd.array(wrong(object())), "an array has numbers or texts, not a object"),
    (lambda: passat.nd.array(1, wrong("cpu")), "a device is an object such as passat.cpu(), not 'cpu'"),
    (lambda: passat.nd.empty(wrong("2,3")), "shape must be a list of dimensions, not the text '2,3'; write shape=(2, 3,)"),
    (lambda: passat.nd.empty((2, -1)), "a dimension must not be negative, but is -1"),
    (lambda: passat.nd.empty((2,), "flot32"), "unknown element type 'flot32'"),
    (lambda: ARRAY.copyto(wrong(np.ones(2))), "an array is copied to an NDArray or a device, not to a ndarray"),
    (lambda: passat.nd.from_dlpack([1]), "a list has no DLPack protocol; make an array of it with nd.array"),
]


@pytest.mark.parametrize(("make", "message"), MISTAKES, ids=[message[:40] for _, message in MISTAKES])
def test_mistakes(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError, RuntimeError, AttributeError), match=re.escape(message)):
        make()


def test_capsules_are_arrays() -> None:
    assert passat.nd.from_dlpack(passat.nd.array([1, 2]).to_dlpack()).numpy().tolist() == [1, 2]


@pytest.mark.parametrize(
    ("generates", "note"), [(False, "in the code generator relay.ext.mine, for"), (True, "in a function of relay.ext.mine")]
)
def test_errors_of_code_generators_name_them(generates: bool, note: str) -> None:
    def fail(*_: object) -> Any:
        raise LookupError("no such thing")

    passat.register_func("relay.ext.mine", lambda function: fail) if generates else passat.register_func("relay.ext.mine", fail)
    marked = relay.annotation.compiler_end(relay.nn.relu(relay.annotation.compiler_begin(x, "mine")), "mine")
    module = relay.transform.PartitionGraph()(relay.transform.InferType()(passat.IRModule.from_expr(relay.Function([x], marked))))
    try:
        with pytest.raises(LookupError) as raised:
            graph_executor.GraphModule(relay.build(module, "numpy")["default"](passat.cpu())).run()
    finally:
        remove_global_func("relay.ext.mine")
    assert note in "".join(raised.value.__notes__)

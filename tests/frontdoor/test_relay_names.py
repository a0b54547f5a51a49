"""The facade: names that TVM's scripts import exist, and importing `passat` stays cheap."""

import importlib
import json
import subprocess
import sys

import numpy as np
import pytest

import passat as tvm
from passat import instrument, relay, transform
from passat.ir import expr as nodes
from passat.ir.op import list_ops
from passat.relay import derived, derived_nn, nn_functions, nn_windows, tensor

MODULES = ("relay", "transform", "instrument", "ir", "nd", "parser", "testing")


@pytest.mark.parametrize("name", MODULES)
def test_every_name_of_a_module_is_there_and_documented(name: str) -> None:
    module = importlib.import_module(f"passat.{name}")
    assert getattr(tvm, name) is module
    for exported in module.__all__:
        assert getattr(module, exported).__doc__, exported


@pytest.mark.parametrize("name", ["analysis", "build_module", "expr", "nn", "op", "testing", "transform", "ty"])
def test_every_name_of_a_module_of_relay_is_there_and_documented(name: str) -> None:
    module = importlib.import_module(f"passat.relay.{name}")
    assert getattr(relay, name) is module
    assert len(module.__all__) == len(set(module.__all__))
    for exported in module.__all__:
        assert getattr(module, exported).__doc__ is not None, exported


def test_every_operator_has_a_function() -> None:
    plain = {op.name for op in list_ops() if "." not in op.name}
    networks = {op.name.removeprefix("nn.") for op in list_ops() if op.name.startswith("nn.")}
    assert plain <= {*derived.__all__, *tensor.__all__}
    assert networks <= {*derived_nn.__all__, *nn_functions.__all__, *nn_windows.__all__}
    assert plain <= set(relay.__all__)
    assert networks <= set(relay.nn.__all__)


def test_the_nodes_are_those_of_the_language() -> None:
    for name in ("Var", "GlobalVar", "Constant", "Tuple", "TupleGetItem", "Call", "Function", "Let", "If", "Match", "Expr"):
        assert getattr(relay, name) is getattr(nodes, name)


def test_scripts_that_import_tvm() -> None:
    x = relay.var("x", shape=(2,))
    mod = tvm.IRModule.from_expr(relay.Function([x], x + relay.const(1.0)))
    assert isinstance(mod, tvm.ir.IRModule)
    assert tvm.transform.PassContext is transform.PassContext
    assert tvm.instrument.PassTimingInstrument is instrument.PassTimingInstrument
    tvm.ir.assert_structural_equal(tvm.parser.parse(mod.astext()), mod)
    tvm.ir.assert_structural_equal(relay.fromtext(relay.astext(mod)), mod)
    assert tvm.ir.structural_hash(mod) == relay.structural_hash(relay.parse(mod.astext()))
    assert tvm.nd.array(np.ones(2)).shape == (2,)
    assert tvm.cpu(0) == tvm.device("llvm")
    for target, device in tvm.testing.enabled_targets():
        result = relay.create_executor("debug", mod=mod, device=device, target=target).evaluate()(np.ones(2, np.float32))
        tvm.testing.assert_allclose(result, [2.0, 2.0])
        with pytest.raises(AssertionError):
            tvm.testing.assert_allclose(result, [2.0, 2.1])
        with pytest.raises(AssertionError):
            tvm.testing.assert_allclose(result, [2.0])


def test_a_module_of_several_functions() -> None:
    x = relay.var("x", shape=(2,))
    double = relay.GlobalVar("double")
    mod = tvm.IRModule.from_expr(double(x), {double: relay.Function([x], x + x)})
    assert [var.name_hint for var in mod] == ["double", "main"]
    mod.update_func(double, relay.Function([x], x))
    assert relay.create_executor(mod=mod).evaluate()(np.ones(2, np.float32)).numpy().tolist() == [1, 1]


def test_names_that_are_not_there() -> None:
    with pytest.raises(AttributeError, match="relay has no 'add_'; did you mean add"):
        relay.add_  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"passat.ir has no attribute 'IRModul'"):
        tvm.ir.IRModul  # type: ignore[attr-defined]


def imported(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; import json, sys; print(json.dumps(list(sys.modules)))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.partition(".")[0] if not name.startswith("passat.") else name for name in json.loads(done.stdout)}


def test_importing_passat_imports_nothing_of_it() -> None:
    loaded = imported("import passat")
    assert not loaded & {"numpy", "networkx", "egglog"}
    assert not [name for name in loaded if name.startswith("passat.")]


def test_importing_relay_imports_neither_rules_nor_engine_nor_onnx() -> None:
    loaded = imported("from passat import relay, transform, instrument")
    assert not loaded & {"egglog", "onnx", "onnxruntime", "typer", "rich"}
    assert not [name for name in loaded if name.startswith("passat.rules")]

"""Names where TVM's scripts expect them: modules, errors, targets, helpers of tests; and the names that completion shows."""

import importlib
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import passat as tvm
from passat import relay
from passat.passmgr import UnknownPassError

x = relay.var("x", shape=(2,))


@pytest.mark.parametrize("name", ["adt", "expr_functor", "feature", "function", "scope_builder", "type_functor"])
def test_modules_of_relay(name: str) -> None:
    module = importlib.import_module(f"passat.relay.{name}")
    assert getattr(relay, name) is module
    for exported in getattr(module, "__all__", ["ScopeBuilder"]):
        assert getattr(module, exported).__doc__
        if hasattr(relay, exported):
            assert getattr(relay, exported) is getattr(module, exported)


def test_other_names_of_expressions() -> None:
    assert relay.RelayExpr is relay.Expr is relay.expr.RelayExpr
    assert issubclass(relay.Function, relay.BaseFunc)


@pytest.mark.parametrize("module", [tvm, tvm.ir, relay, relay.nn, relay.op, relay.transform])
def test_completion_lists_operators_and_no_imports(module: object) -> None:
    shown = [name for name in dir(module) if not name.startswith("__")]
    assert shown == sorted(set(shown))
    assert set(module.__all__) - {"__version__"} <= set(shown)  # type: ignore[attr-defined]  # all of them have it
    assert not {"difflib", "importlib", "TYPE_CHECKING", "AnyValue"} & set(shown)
    for name in shown:
        assert getattr(module, name) is not None


def test_completion_of_passes_knows_those_that_are_registered() -> None:
    assert {"FoldBatchNorm", "SimplifyExpr", "InferType", "function_pass"} <= set(dir(relay.transform))


@pytest.mark.parametrize(
    ("get", "message"),
    [
        (lambda: relay.nn.relyu, "relay.nn has no 'relyu'; did you mean relu or prelu"),  # type: ignore[attr-defined]
        (lambda: relay.op.multiplyy, "relay.op has no 'multiplyy'; did you mean multiply"),  # type: ignore[attr-defined]
        (lambda: relay.nn.qqqq, "relay.nn has no 'qqqq'$"),  # type: ignore[attr-defined]
    ],
)
def test_unknown_operators(get: Callable[[], object], message: str) -> None:
    with pytest.raises(AttributeError, match=message):
        get()


def test_same_as() -> None:
    mod = tvm.IRModule.from_expr(x)
    type_ = relay.TensorType((2,))
    assert x.same_as(x)
    assert mod.same_as(mod)
    assert type_.same_as(type_)
    assert not x.same_as(relay.var("x", shape=(2,)))
    assert not mod.same_as(tvm.IRModule.from_expr(x))
    assert not type_.same_as(relay.TensorType((2,)))


def test_texts_of_types_are_those_of_programs() -> None:
    vector = relay.TensorType((2,), "int8")
    assert str(vector) == "Tensor[(2), int8]"
    assert str(relay.TupleType([vector])) == "(Tensor[(2), int8],)"
    assert str(relay.FuncType([vector], relay.TensorType(()), None)) == "fn (Tensor[(2), int8]) -> float32"
    assert str(relay.GlobalTypeVar("List")(vector)) == "List[Tensor[(2), int8]]"
    assert vector.concrete_shape == (2,)
    with pytest.raises(TypeError, match=r"the shape of Tensor\[\(n\), float32\] is not static"):
        relay.TensorType((relay.var("v", shape=("n",)).type_annotation.shape[0],)).concrete_shape  # type: ignore[union-attr]


def test_tvm_error() -> None:
    assert tvm.TVMError is tvm.error.TVMError is RuntimeError
    with pytest.raises(tvm.TVMError):
        relay.transform.InferType()(tvm.IRModule.from_expr(x + relay.var("y", shape=(3,))))
    with pytest.raises(tvm.error.DiagnosticError):
        tvm.parser.parse(tvm.parser.SEMVER + "def @main() { %x }")
    assert issubclass(UnknownPassError, tvm.TVMError)
    assert issubclass(UnknownPassError, LookupError)


def test_targets() -> None:
    assert tvm.target.Target.current() is None
    with tvm.target.Target("llvm -mcpu=core-avx2", host="llvm") as outer:
        assert tvm.target.Target.current() is outer
        with tvm.target.Target("cpu") as inner:
            assert tvm.target.Target.current(False) is inner
        seen: list[object] = []
        thread = threading.Thread(target=lambda: seen.append(tvm.target.Target.current()))
        thread.start()
        thread.join()
        assert seen == [None]
        assert relay.create_executor("vm", target=outer).evaluate(relay.const(1)).numpy() == 1
    assert (str(outer), repr(outer), outer.kind) == ("llvm -mcpu=core-avx2", "Target('llvm -mcpu=core-avx2')", "llvm")
    assert outer == tvm.target.Target(outer, host="llvm") != tvm.target.Target(outer)
    assert len({tvm.target.Target("llvm"), tvm.target.Target("llvm"), tvm.target.Target("cpu")}) == 2
    with pytest.raises(ValueError, match="Target context required"):
        tvm.target.Target.current(allow_none=False)
    with pytest.raises(ValueError, match="unsupported target 'gpu'"):
        tvm.target.Target("gpu")
    with tvm.target.Target("cuda"), pytest.raises(ValueError, match="unsupported target 'cuda'"):
        relay.build(relay.Function([], relay.const(1)))


@tvm.testing.parametrize_targets("llvm", "cuda")
def test_targets_of_tests_that_are_named(target: str, dev: object) -> None:
    assert (target, dev) == ("llvm", tvm.cpu(0))


@tvm.testing.uses_gpu
@tvm.testing.requires_llvm
@tvm.testing.requires_llvm()
@tvm.testing.parametrize_targets
def test_targets_of_tests(target: str, dev: object) -> None:
    assert (target, dev) == ("llvm", tvm.cpu(0))


def test_main_runs_the_tests_of_its_file(tmp_path: Path) -> None:
    script = tmp_path / "test_script.py"
    script.write_text(
        "import passat as tvm\n\n\ndef test_it():\n    assert False\n\n\nif __name__ == '__main__':\n    tvm.testing.main()\n"
    )
    done = subprocess.run([sys.executable, str(script)], check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert "1 failed" in done.stdout


def test_how_often_operators_are_called() -> None:
    mod = tvm.IRModule.from_expr(relay.nn.relu(x + x) + x)
    assert relay.analysis.list_op_freqs(mod) == {"add": 2, "nn.relu": 1}


def test_a_part_of_a_program_is_extracted_by_its_number() -> None:
    total = x + x
    halves = relay.split(total, 2)
    helper = relay.GlobalVar("helper")
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.Tuple([helper(halves[1]), total])), {helper: relay.Function([x], x)})
    bodies = [total, relay.split(total, 2).astuple(), halves[1], helper(halves[1]), mod["main"].body]
    for number, body in enumerate(bodies):
        found = relay.analysis.extract_intermdeiate_expr(mod, number)
        tvm.ir.assert_structural_equal(found["main"], relay.Function([x], body))
        assert "helper" in found
    with pytest.raises(
        ValueError, match=r"the main function has 5 nodes \(calls, tuples and fields\), numbered from 0, and none has the number 5"
    ):
        relay.analysis.extract_intermdeiate_expr(mod, 5)


def test_algebraic_data_types_in_a_module() -> None:
    mod, header, element = tvm.IRModule(), relay.GlobalTypeVar("List"), relay.TypeVar("A")
    nil, cons = relay.Constructor("Nil", [], header(element)), relay.Constructor("Cons", [element, header(element)], header(element))
    mod[header] = relay.TypeData(header, [element], [nil, cons])
    assert mod[header].constructors == mod.get_type("List")[1:] == (nil, cons)
    assert mod.get_global_type_var("List") == header == mod.get_global_type_vars()[0]
    assert repr(mod[header]).split() == ["type", "List[A]", "{", "Nil,", "Cons(A,", "List[A]),", "}"]
    other = tvm.IRModule()
    other.update(mod)
    assert other.get_global_type_vars() == [header]
    with pytest.raises(KeyError, match="the module has no type 'Tree'; it has: List"):
        mod.get_type("Tree")
    with pytest.raises(TypeError, match="a GlobalTypeVar names a TypeData"):
        mod[header] = relay.Function([x], x)  # type: ignore[call-overload]  # which is the point
    h, wild = relay.var("h"), relay.PatternWildcard()
    assert repr(relay.Clause(relay.PatternConstructor(cons, [relay.PatternVar(h), wild]), relay.const(1))).startswith("Cons(%h, _) => { 1")
    assert repr(relay.PatternTuple([relay.PatternConstructor(nil)])) == "(Nil,)"


def test_the_repr_of_a_module_is_its_text() -> None:
    assert repr(tvm.IRModule.from_expr(x)) == str(tvm.IRModule.from_expr(x)) == "def @main(%x: Tensor[(2), float32]) {\n  %x\n}"


def test_texts_that_refer_to_other_modules_and_constants() -> None:
    begun = tvm.parser.parse(tvm.parser.SEMVER + "type T { One, }\ndef @twice(%y: Tensor[(2), float32]) { %y + %y }")
    text = "def @main(%y: Tensor[(2), float32]) { (One, add(@twice(%y), meta[relay.Constant][0])) }"
    mod = tvm.parser.parse(text, "more", begun, {"relay.Constant": [relay.const([1.0, 2.0])]})
    assert [var.name_hint for var in mod.get_global_vars()] == ["twice", "main"]
    assert [var.name_hint for var in begun.get_global_vars()] == ["twice"]
    field = mod["main"].body.fields[1]  # type: ignore[attr-defined]  # it is a tuple
    computed = relay.create_executor(mod=mod).evaluate(relay.Function(mod["main"].params, field))(np.ones(2, np.float32))
    assert computed.numpy().tolist() == [3, 4]
    with pytest.raises(TypeError, match=r"meta\[relay.Constant\]\[0\] must be a constant, not a Var"):
        tvm.parser.parse(text, init_module=begun, init_meta_table={"relay.Constant": [x]})
    with pytest.raises(tvm.error.DiagnosticError, match="the function @twice is used but not defined"):
        tvm.parser.parse("def @main(%y: float32) { @twice(%y) }")
    with pytest.raises(tvm.error.DiagnosticError, match="@twice is defined twice"):
        tvm.parser.parse("def @twice(%y: float32) { %y }", init_module=begun)

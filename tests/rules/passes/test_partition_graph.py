"""PartitionGraph: functions for external compilers."""

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

from passat import relay
from passat.ir.analysis import well_formed
from passat.ir.annotated_regions import RegionError
from passat.ir.equality import structural_equal
from passat.ir.expr import Call, Constant, Expr, Function, GlobalVar, If, Let, Tuple, TupleGetItem
from passat.ir.global_functions import register_func, remove_global_func
from passat.ir.module import IRModule
from passat.ir.op import get_op
from passat.ir.sealed import is_sealed
from passat.ir.traverse import post_order
from passat.passmgr import FunctionPass, Pass, PassContext, Sequential, list_passes
from passat.relay.annotation import compiler_begin, compiler_end
from passat.relay.transform import AnnotateTarget, MergeCompilerRegions, PartitionGraph
from passat.runtime import create_executor

X, Y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
FLAG = relay.var("flag", shape=(), dtype="bool")


def partitioned(body: Expr, name: str = "default", bind_constants: bool = True) -> IRModule:
    return PartitionGraph(name, bind_constants)(IRModule.from_expr(Function([X, Y], body)))


def begin(expr: Expr) -> Expr:
    return compiler_begin(expr, "a")


def end(expr: Expr) -> Expr:
    return compiler_end(expr, "a")


def test_a_region_becomes_a_function() -> None:
    module = partitioned(relay.exp(end(begin(X) + begin(Y))))
    function = module["tvmgen_default_a_main_0"]
    assert dict(function.attrs) == {"global_symbol": "tvmgen_default_a_main_0", "Primitive": 1, "Compiler": "a", "Inline": 1}
    assert [param.name_hint for param in function.params] == ["a_0_i0", "a_0_i1"]
    assert function.ret_type == X.checked_type
    assert structural_equal(module["main"], Function([X, Y], relay.exp(module.get_global_var("tvmgen_default_a_main_0")(X, Y))))


def test_results_are_fields_and_inputs_are_read_once() -> None:
    added, squared = begin(X) + begin(Y), begin(X) * begin(X)
    module = partitioned(Tuple([end(added * squared), end(added), end(added)]))
    function = module["tvmgen_default_a_main_0"]
    assert len(function.params) == 2
    assert isinstance(function.body, Tuple)
    assert len(function.body.fields) == 2
    body = module["main"].body
    assert isinstance(body, Tuple)
    assert [field.index for field in body.fields if isinstance(field, TupleGetItem)] == [0, 1, 1]


def test_a_region_may_read_its_own_result() -> None:
    inner = relay.exp(begin(X))
    module = partitioned(end(inner + begin(end(inner))))
    assert len(module) == 2
    assert len(module["tvmgen_default_a_main_0"].params) == 1


def test_tuples_are_results_field_by_field() -> None:
    module = partitioned(end(Tuple([begin(X) + begin(Y), begin(Y)])))
    body = module["main"].body
    assert isinstance(body, Tuple)
    assert isinstance(body.fields[0], Call)
    assert body.fields[1] is module["main"].params[1]  # nothing is computed of it
    assert len(module["tvmgen_default_a_main_0"].params) == 2


def test_constants_move_into_the_function_unless_asked_otherwise() -> None:
    body = end(begin(X) + begin(relay.const([1.0, 2.0])))
    assert len(partitioned(body)["tvmgen_default_a_main_0"].params) == 1
    assert len(partitioned(body, bind_constants=False)["tvmgen_default_a_main_0"].params) == 2


@pytest.mark.parametrize(
    ("module", "compiler", "wanted"),
    [("", "a", "tvmgen_a_main_0"), ("my net", "a+b", "tvmgen_my_net_a_b_main_0"), ("default", "dnnl", "tvmgen_default_dnnl_main_0")],
)
def test_names_have_letters_and_digits_only(module: str, compiler: str, wanted: str) -> None:
    body = compiler_end(relay.exp(compiler_begin(X, compiler)), compiler)
    assert [var.name_hint for var in partitioned(body, module)] == ["main", wanted]


def test_taken_names_are_not_used_again() -> None:
    module = IRModule({"main": Function([X], end(relay.exp(begin(X)))), "tvmgen_default_a_main_0": Function([Y], Y)})
    assert "tvmgen_default_a_main_0_1" in PartitionGraph()(module)


def test_default_is_no_compiler() -> None:
    module = partitioned(compiler_end(relay.exp(compiler_begin(X, "default")), "default"))
    assert structural_equal(module["main"], Function([X, Y], relay.exp(X)))
    assert len(module) == 1


def test_a_module_without_annotations_is_the_same() -> None:
    module = IRModule.from_expr(Function([X], relay.exp(X)))
    assert PartitionGraph()(module) is module


def test_a_compiler_can_optimize_its_functions() -> None:
    register_func("relay.ext.a.optimize", relay.transform.FoldConstant())
    try:
        one = relay.const([1.0, 1.0])
        module = partitioned(end(begin(one) + begin(one)))
    finally:
        remove_global_func("relay.ext.a.optimize")
    function = module["tvmgen_default_a_main_0"]
    assert isinstance(function.body, Constant)
    assert function.attrs["Compiler"] == "a"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (Tuple([begin(X)]), "a region for a begins but does not end; wrap its results in compiler_end"),
        (
            Let(relay.var("v", shape=(2,)), (inner := relay.exp(begin(X))), end(relay.exp(inner))),
            "is used outside of it; wrap it in compiler_end",
        ),
        (Tuple([end(relay.exp(one := begin(X))), end(one + begin(relay.exp(end(relay.tanh(one)))))]), "need each other's results"),
    ],
)
def test_regions_that_are_no_functions_are_rejected(body: Expr, message: str) -> None:
    with pytest.raises(RegionError, match=message):
        partitioned(body)


CALLS = ("exp", "tanh", "nn.relu", "add", "multiply")


@pytest.fixture
def compilers() -> Iterator[None]:
    supported = {"exp": "a", "add": "a", "tanh": "b", "nn.relu": "b"}
    for name, target in supported.items():
        get_op(name).set_attr(f"target.{target}", lambda call: True)
    yield
    for name, target in supported.items():
        get_op(name).reset_attr(f"target.{target}")


def random_program(random: Random) -> Function:
    """Calls of all kinds, tuples, branches and a let."""
    made: list[Expr] = [X, Y]
    for _ in range(random.randrange(2, 16)):
        a, b, c = (random.choice(made[-6:]) for _ in range(3))
        kind = random.randrange(9)
        if kind < 6:
            op = get_op(random.choice(CALLS))
            made.append(op(a, b) if op.arity == 2 else op(a))
        elif kind == 6:
            made.append(TupleGetItem(Tuple([relay.exp(a), b]), random.randrange(2)))
        elif kind == 7:
            made.append(If(FLAG, relay.exp(a), b + c))
        else:
            p = relay.var("p", shape=(2,))
            made.append(Function([p], relay.add(p, relay.exp(a)))(b))
    var = relay.var("v", shape=(2,))
    return Function([X, Y, FLAG], Let(var, made[-1], Tuple([relay.nn.relu(var), *random.sample(made, 2)])))


@pytest.mark.parametrize("everything", [True, False])
@pytest.mark.parametrize("merging", [True, False])
@pytest.mark.parametrize("seed", range(25))
@pytest.mark.usefixtures("compilers")
def test_partitioned_programs_compute_the_same(seed: int, merging: bool, everything: bool) -> None:
    module = IRModule.from_expr(random_program(Random(seed)))
    passes: list[Pass] = [AnnotateTarget(["a", "b"], everything), *([MergeCompilerRegions()] if merging else []), PartitionGraph()]
    found = Sequential(passes)(module)
    assert well_formed(found)
    left = {
        node.op.name for function in found.functions.values() for node in post_order(function) if isinstance(node, Call) and node.op in OPS
    }
    assert not left
    random = np.random.default_rng(seed)
    inputs = [random.standard_normal(2).astype("float32"), random.standard_normal(2).astype("float32"), np.bool_(seed % 2)]
    wanted = create_executor(mod=module).evaluate()(*inputs)
    for a, b in zip(wanted, create_executor(mod=found).evaluate()(*inputs), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


OPS = (get_op("annotation.compiler_begin"), get_op("annotation.compiler_end"))


def test_no_function_pass_changes_a_function_for_a_compiler() -> None:
    """All registered function passes with their defaults, on a function that most of them would change."""
    zero = relay.const(np.zeros(2, "float32"))
    body = relay.nn.relu(relay.exp(relay.exp(begin(X) + zero) * relay.const(1.0)) + zero)
    module = partitioned(relay.exp(end(body)), bind_constants=False)
    ours = module["tvmgen_default_a_main_0"]
    assert is_sealed(ours)
    tried = 0
    for entry in list_passes():
        if any(option.default is option.empty for option in entry.options.values()):
            continue
        pass_ = entry.make({})
        if not isinstance(pass_, FunctionPass):
            continue
        tried += 1
        with PassContext(opt_level=4):
            found = pass_(module)
        assert found["tvmgen_default_a_main_0"] is ours, entry.name
        called = [node for node in post_order(found["main"]) if isinstance(node, GlobalVar)]
        assert [var.name_hint for var in called] == ["tvmgen_default_a_main_0"], entry.name
    assert tried > 20

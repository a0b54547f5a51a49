"""PrimFunc: functions of other back ends in modules, and how everything else treats them."""

import copy
import pickle
from typing import Any

import pytest

from passat.ir.analysis import free_vars, node_count, well_formed
from passat.ir.equality import assert_structural_equal, structural_equal
from passat.ir.expr import BaseFunc, Call, Function, GlobalVar, Var, var
from passat.ir.hashing import structural_hash
from passat.ir.infer import infer_module
from passat.ir.module import IRModule
from passat.ir.prim_func import PrimFunc
from passat.ir.text import astext, parse
from passat.ir.types import FuncType, IncompleteType, TensorType
from passat.passmgr import Sequential, ToANormalForm, ToGraphNormalForm


class Source(PrimFunc):
    """A kernel as source text."""

    __slots__ = ()


def kernel(body: object = "y = 2 * x", **attrs: object) -> Source:
    return Source([var("x", shape=(2,))], body, TensorType((2,)), {"global_symbol": "double", **attrs})


def module() -> IRModule:
    x, double = var("x", shape=(2,)), GlobalVar("double")
    return IRModule({"main": Function([x], Call(double, [x + x])), double: kernel()})


def test_its_metadata() -> None:
    made = kernel(target="cpu")
    assert isinstance(made, BaseFunc)
    assert (made.name, made.body, made.attrs["target"]) == ("double", "y = 2 * x", "cpu")
    assert made.checked_type == FuncType([TensorType((2,))], TensorType((2,)))
    assert repr(made) == 'primfn @double(%x: Tensor[(2), float32], target="cpu") -> Tensor[(2), float32]'
    bare = PrimFunc([Var("x")])
    assert (bare.name, bare.body, dict(bare.attrs)) == ("", None, {})
    assert bare.checked_type == FuncType([IncompleteType()], IncompleteType())


def test_changes_keep_the_class() -> None:
    made = kernel()
    assert made.with_body(made.body) is made
    other = made.with_body("y = x + x").with_attr("target", "gpu")
    assert type(other) is Source
    assert (other.body, other.attrs["target"], other.name, other.params) == ("y = x + x", "gpu", "double", made.params)
    assert (made.body, "target" in made.attrs) == ("y = 2 * x", False)


def test_modules_hold_them() -> None:
    mod = module()
    found: Any = mod["double"]
    assert type(found) is Source
    assert [type(function) for function in mod.functions.values()] == [Function, Source]
    assert list(mod.shallow_copy().functions.values()) == list(mod.functions.values())
    assert list(IRModule.from_expr(kernel())) != []
    mod.update({"double": kernel("other")})
    changed: Any = mod["double"]
    assert changed.body == "other"
    del mod["double"]
    assert "double" not in mod


def test_modules_print_them_by_kind() -> None:
    text = str(module())
    assert text.endswith("\n/* primfn @double(%x: Tensor[(2), float32]) -> Tensor[(2), float32]; a Source, not Relay */")
    only = IRModule({"*/ def /*": kernel()})
    assert len(parse(astext(only))) == 0


def test_inference_takes_their_types() -> None:
    mod = infer_module(module())
    assert mod["main"].checked_type == FuncType([TensorType((2,))], TensorType((2,)))
    assert mod.get_global_var("double").checked_type == kernel().checked_type


def test_analyses_treat_it_as_a_leaf() -> None:
    made = kernel()
    assert free_vars(made) == []
    assert node_count(made) == 1
    assert well_formed(module())


def test_equality_and_hashing() -> None:
    assert_structural_equal(module(), module())
    assert structural_hash(kernel()) == structural_hash(kernel("other"))
    assert structural_hash(kernel()) != structural_hash(kernel(target="gpu"))
    for other in (kernel("other"), kernel(target="gpu"), PrimFunc([var("x", shape=(2,))], "y = 2 * x", TensorType((2,)), kernel().attrs)):
        assert not structural_equal(kernel(), other)
    mod = module()
    mod["double"] = kernel("other")
    with pytest.raises(ValueError, match="primfn @double"):
        assert_structural_equal(module(), mod)


def test_copies_and_pickles() -> None:
    mod = module()
    for back in (pickle.loads(pickle.dumps(mod)), copy.deepcopy(mod)):
        assert_structural_equal(mod, back, sharing=True)
        assert type(back["double"]) is Source
    assert copy.copy(mod["double"]).params is mod["double"].params


def test_passes_over_relay_functions_leave_them_alone() -> None:
    mod = module()
    result = Sequential([ToANormalForm(), ToGraphNormalForm()])(mod)
    assert result["double"] is mod["double"]
    assert result["main"] is not mod["main"]

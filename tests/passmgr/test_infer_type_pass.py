"""InferType as a pass."""

import pytest

from passat.ir.expr import Function, const, var
from passat.ir.infer import InferError
from passat.ir.module import IRModule
from passat.ir.types import TensorType
from passat.passmgr import PassContext, Sequential, function_pass, get_pass, module_pass


def test_it_writes_types_and_returns_the_module_itself(mod: IRModule) -> None:
    assert get_pass("InferType")(mod) is mod
    assert mod["main"].body.checked_type == TensorType((2,), "float32")
    assert mod.get_global_var("main").checked_type == mod["main"].checked_type


def test_a_changed_function_is_inferred_again(mod: IRModule) -> None:
    @function_pass(opt_level=0, required=["InferType"])
    def cast(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return func.with_body(func.body.astype("float16"))

    seen: list[object] = []

    @module_pass(opt_level=0, required=["InferType"])
    def look(mod: IRModule, ctx: PassContext) -> IRModule:
        seen.append(mod["main"].body.checked_type)
        seen.append(mod.get_global_var("main").checked_type == mod["main"].checked_type)
        return mod

    Sequential([cast, look])(mod)
    assert seen == [TensorType((2,), "float16"), True]


def test_it_is_level_0_and_requires_nothing() -> None:
    info = get_pass("InferType").info
    assert (info.opt_level, info.required, set(info.provides)) == (0, (), {"types"})


def test_a_program_without_type() -> None:
    x = var("x", shape=(2,))
    wrong = IRModule({"main": Function([x], x + const([1.0, 2.0, 3.0]))})
    with pytest.raises(InferError) as caught:
        Sequential([get_pass("InferType")])(wrong)
    assert caught.value.__notes__[0] == "in the module pass InferType"

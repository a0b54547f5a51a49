"""PrimFuncPass and prim_func_pass: the pass edits its module, None removes a function."""

from dataclasses import dataclass
from typing import Any

import pytest

from passat.ir.expr import BaseFunc, Function, GlobalVar, var
from passat.ir.module import IRModule
from passat.ir.prim_func import PrimFunc
from passat.passmgr import PassContext, PassInfo, PassInstrument, PrimFuncPass, Sequential, function_pass, prim_func_pass


def module() -> IRModule:
    x = var("x", shape=(2,))
    kernels: dict[GlobalVar | str, BaseFunc] = {
        name: PrimFunc([x], name, attrs={"Compiler": "c"} if name == "b" else None) for name in "abc"
    }
    return IRModule({"main": Function([x], x + x), **kernels}, attrs={"frame": 1})


def bodies(mod: IRModule) -> dict[str, object]:
    return {var.name_hint: func.body for var, func in mod.functions.items() if isinstance(func, PrimFunc)}


@prim_func_pass(opt_level=1)
def shout(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
    """Replaces bodies by uppercase text."""
    return func.with_body(str(func.body).upper())


def test_functions_of_the_second_kind_are_replaced() -> None:
    mod = module()
    result = shout(mod)
    assert bodies(result) == {"a": "A", "b": "B", "c": "C"}  # no attribute excludes the function
    assert bodies(mod) == {"a": "a", "b": "b", "c": "c"}
    assert list(result.functions) == list(mod.functions)
    assert result["main"] is mod["main"]
    assert result.attrs == {"frame": 1}


def test_none_removes() -> None:
    mod = module()
    result = prim_func_pass(lambda func, mod, ctx: None if func.body == "b" else func, opt_level=0)(mod)
    assert [gv.name_hint for gv in result] == ["main", "a", "c"]
    assert "b" in mod


def test_later_calls_receive_earlier_results() -> None:
    seen = []

    @prim_func_pass(opt_level=0)
    def look(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc | None:
        seen.append(bodies(mod))
        return None if func.body == "b" else func.with_body(f"{func.body}!")

    result = look(module())
    assert seen == [{"a": "a", "b": "b", "c": "c"}, {"a": "a!", "b": "b", "c": "c"}, {"a": "a!", "b": "b", "c": "c"}]
    assert bodies(result) == {"a": "a!", "c": "c!"}


def test_the_same_module_if_nothing_changed() -> None:
    mod = module()
    assert prim_func_pass(lambda func, mod, ctx: func, opt_level=0)(mod) is mod
    plain = IRModule({"main": mod["main"]})
    assert shout(plain) is plain


def test_function_passes_ignore_them() -> None:
    seen = []

    @function_pass(opt_level=0)
    def look(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        seen.append(func)
        return func.with_attr("Primitive", 1)

    mod = module()
    result = look(mod)
    assert seen == [mod["main"]]
    assert bodies(result) == bodies(mod)


def test_in_a_pipeline_with_instruments() -> None:
    seen = []

    class Watch(PassInstrument):
        def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
            seen.append((info.name, bodies(mod)["a"]))

    with PassContext(opt_level=0, instruments=[Watch()]):
        Sequential([shout])(module())
    with PassContext(opt_level=1, instruments=[Watch()]):
        Sequential([shout])(module())
    assert seen == [("sequential", "a"), ("shout", "A"), ("sequential", "A")]


def test_reprs() -> None:
    assert str(shout) == repr(shout) == "PrimFuncPass(shout, opt_level=1)"
    assert shout.__doc__ == "Replaces bodies by uppercase text."


def test_on_a_class_and_derived() -> None:
    @prim_func_pass(opt_level=2, name="Put", required=["InferType"])
    class Put:
        def __init__(self, body: str) -> None:
            self.body = body

        def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
            return func.with_body(self.body)

    @dataclass(frozen=True, repr=False)
    class Derived(PrimFuncPass):
        body: str = "z"
        info = PassInfo(1, "Derived")

        def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
            return func.with_body(self.body)

    put: Any = Put("y")
    assert (put.info.name, put.info.opt_level, put.info.required, put.body) == ("Put", 2, ("InferType",), "y")
    assert bodies(put(module())) == {"a": "y", "b": "y", "c": "y"}
    assert bodies(Derived()(module())) == {"a": "z", "b": "z", "c": "z"}


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match=r"^Please provide opt_level for the function pass.$"):
        prim_func_pass(lambda func, mod, ctx: func)
    with pytest.raises(TypeError, match=r"^Required is expected to be the type of list/tuple.$"):
        prim_func_pass(opt_level=1, required="InferType")
    with pytest.raises(TypeError, match=r"^pass_func must be a callable for PrimFunc pass$"):
        prim_func_pass(3, opt_level=1)  # type: ignore[call-overload]  # the mistake
    with pytest.raises(TypeError, match=r"^the class Empty must define transform_function to be a pass$"):

        @prim_func_pass(opt_level=1)  # type: ignore[arg-type]  # the mistake
        class Empty:
            pass

    assert prim_func_pass(lambda func, mod, ctx: func, 1, "Named", ["A"], True).info.traceable


@pytest.mark.parametrize(("result", "shown"), [(3, "a int"), (Function([], var("x")), "a Function")])
def test_a_result_of_another_kind(result: Any, shown: str) -> None:
    with pytest.raises(TypeError) as caught:
        prim_func_pass(lambda func, mod, ctx: result, opt_level=0, name="P")(module())
    assert str(caught.value) == f"a PrimFunc pass must return a PrimFunc or None, but returned {shown}"
    assert caught.value.__notes__ == ["in the PrimFunc pass P, function @a"]


def test_exceptions_name_the_function_and_leave_the_module() -> None:
    @prim_func_pass(opt_level=0)
    def picky(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        if func.body == "b":
            raise ValueError("no")
        return func.with_body("changed")

    mod = module()
    with pytest.raises(ValueError, match="no") as caught:
        picky(mod)
    assert caught.value.__notes__ == ["in the PrimFunc pass picky, function @b"]
    assert bodies(mod) == {"a": "a", "b": "b", "c": "c"}


def test_undefined_names_are_reported() -> None:
    class Bare(PrimFuncPass):
        info = PassInfo(0, "Bare")

    with pytest.raises(NotImplementedError, match="Bare does not define transform_function"):
        Bare()(module())

"""ModulePass and FunctionPass: valid results, unchanged parts, and notes of exceptions."""

from dataclasses import dataclass
from typing import Any

import pytest

from passat.ir.expr import Function, GlobalVar, var
from passat.ir.module import IRModule
from passat.passmgr import FunctionPass, ModulePass, Pass, PassContext, PassInfo, function_pass, module_pass


def functions(*names: str, **attrs: dict[str, object]) -> IRModule:
    x = var("x", shape=(2,))
    return IRModule({name: Function([x], x + x, attrs=attrs.get(name)) for name in names})


@function_pass(opt_level=1)
def copied(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    return Function(func.params, func.body, attrs=func.attrs)


def test_info() -> None:
    info = PassInfo(2, "P", ["A", "B"], True)
    assert (info.opt_level, info.name, info.required, info.traceable) == (2, "P", ("A", "B"), True)
    assert PassInfo(2, "P", None).required == ()
    assert PassInfo(0, "P", provides=("types",), preserves="*").keeps("anf")
    assert PassInfo(0, "P", provides=("types",)).keeps("types")
    assert not PassInfo(0, "P", preserves=["types"]).keeps("anf")


def test_info_repr_is_that_of_tvm() -> None:
    assert repr(PassInfo(2, "P")) == "The meta data of the pass - pass name: P, opt_level: 2, required passes: []\n"
    assert repr(PassInfo(2, "P", ["A", "B"])) == "The meta data of the pass - pass name: P, opt_level: 2, required passes: [\nA, B, ]\n"


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: PassInfo("2", "P"), "the opt_level of a pass must be an integer, not '2'"),  # type: ignore[arg-type]
        (lambda: PassInfo(2, 3), "the name of a pass must be a string, not 3"),  # type: ignore[arg-type]
        (lambda: PassInfo(2, "P", "A"), "Required is expected to be the type of list/tuple."),
        (lambda: PassInfo(2, "P", [1]), "required must contain names, not 1"),  # type: ignore[list-item]
        (
            lambda: PassInfo(2, "P", provides="types"),
            "provides is expected to be the type of list/tuple/set, not the single string 'types'",
        ),
    ],
)
def test_bad_info(make: Any, text: str) -> None:
    with pytest.raises(TypeError) as caught:
        make()
    assert str(caught.value) == text


def test_derived_passes_with_options(mod: IRModule) -> None:
    @dataclass(frozen=True)
    class Rename(ModulePass):
        to: str = "start"
        info = PassInfo(1, "Rename")

        def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
            return IRModule({self.to: mod["main"]})

    assert [gv.name_hint for gv in Rename("go")(mod)] == ["go"]
    assert str(Rename()) == "Run Module pass: Rename at the optimization level 1"
    assert Rename() == Rename("start")


def test_reprs() -> None:
    class Kind(Pass):
        info = PassInfo(3, "Kind")

    assert repr(copied) == "Run Function pass: copied at the optimization level 1"
    assert repr(Kind()) == "Run pass: Kind at the optimization level 3"
    assert repr(module_pass(lambda mod, ctx: mod, opt_level=0, name="M")) == "Run Module pass: M at the optimization level 0"


def test_undefined_names_are_reported(mod: IRModule) -> None:
    class Empty(ModulePass):
        info = PassInfo(0, "Empty")

    class EmptyFunction(FunctionPass):
        info = PassInfo(0, "EmptyFunction")

    class Kind(Pass):
        pass

    with pytest.raises(NotImplementedError, match="Empty does not define transform_module"):
        Empty()(mod)
    with pytest.raises(NotImplementedError, match="EmptyFunction does not define transform_function"):
        EmptyFunction()(mod)
    with pytest.raises(NotImplementedError, match="Kind does not define run"):
        Kind()(mod)
    with pytest.raises(NotImplementedError, match=r"Kind has no info; set `info = PassInfo\(...\)` in the class"):
        Kind().info


def test_a_pass_takes_a_module(mod: IRModule) -> None:
    with pytest.raises(TypeError, match=r"a pass takes an IRModule, not Function; create one with IRModule\.from_expr\(\.\.\.\)"):
        copied(mod["main"])  # type: ignore[arg-type]  # the mistake


def test_calling_a_pass_ignores_levels_lists_and_requirements(mod: IRModule) -> None:
    ran = []

    @module_pass(opt_level=9, name="P3", required=["NoSuchPass"])
    def p3(mod: IRModule, ctx: PassContext) -> IRModule:
        ran.append(ctx)
        return mod

    with PassContext(opt_level=0, disabled_pass=["P3"]) as ctx:
        p3(mod)
    assert ran == [ctx]


@pytest.mark.parametrize(("result", "shown"), [(None, "None"), (3, "a int")])
def test_a_module_pass_must_return_a_module(mod: IRModule, result: Any, shown: str) -> None:
    with pytest.raises(TypeError) as caught:
        module_pass(lambda mod, ctx: result, opt_level=0, name="P")(mod)
    assert str(caught.value) == f"The return value of a module pass must be set. The pass P must return an IRModule, it returned {shown}"


def test_a_function_pass_must_return_a_function(mod: IRModule) -> None:
    with pytest.raises(TypeError, match=r"^a function pass must return a Function, but returned None") as caught:
        function_pass(lambda func, mod, ctx: None, opt_level=0, name="P")(mod)  # type: ignore[arg-type, return-value, call-arg]  # the mistake
    assert caught.value.__notes__ == ["in the function pass P, function @main"]


def test_exceptions_name_pass_and_function() -> None:
    @function_pass(opt_level=0)
    def picky(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        if func is mod["g"]:
            raise ValueError("not this one")
        return func

    @module_pass(opt_level=0)
    def never(mod: IRModule, ctx: PassContext) -> IRModule:
        raise ValueError("no")

    with pytest.raises(ValueError, match="not this one") as caught:
        picky(functions("f", "g", "h"))
    assert caught.value.__notes__ == ["in the function pass picky, function @g"]
    with pytest.raises(ValueError, match="no") as caught:
        never(functions("f"))
    assert caught.value.__notes__ == ["in the module pass never"]


def test_the_same_module_if_no_function_changed() -> None:
    mod = functions("f", "g")
    assert function_pass(lambda func, mod, ctx: func, opt_level=0, name="P")(mod) is mod


def test_only_changed_functions_are_replaced_in_place_and_order() -> None:
    mod = functions("f", "g", "h")
    mod.attrs["frame"] = 1
    old = dict(mod.functions)

    @function_pass(opt_level=0)
    def middle(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return func.with_attr("Primitive", 1) if func is mod["g"] else func

    new = middle(mod)
    assert new is not mod
    assert mod.functions == old
    assert list(new.functions) == list(old)
    assert [new.functions[gv] is old[gv] for gv in old] == [True, False, True]
    assert new.attrs == {"frame": 1}


def test_all_results_are_computed_against_the_module_before() -> None:
    mod = functions("f", "g")
    seen: list[Function] = []

    @function_pass(opt_level=0)
    def look(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        seen.append(mod["f"])
        return func.with_attr("Primitive", 1)

    look(mod)
    assert seen == [mod["f"], mod["f"]]


@pytest.mark.parametrize(
    ("attrs", "touched"),
    [
        ({}, True),
        ({"Primitive": 1}, True),
        ({"SkipOptimization": 0}, True),
        ({"SkipOptimization": 1}, False),
        ({"Compiler": "dnnl"}, False),
        ({"Compiler": ""}, False),
        ({"Extern": 1}, False),
        ({"Extern": 0}, True),
    ],
)
def test_functions_that_are_left_alone(attrs: dict[str, object], touched: bool) -> None:
    mod = functions("f", f=attrs)
    assert (copied(mod) is not mod) is touched


@pytest.mark.parametrize("change", ["add", "remove"])
def test_a_function_pass_neither_adds_nor_removes_functions(change: str) -> None:
    @function_pass(opt_level=0)
    def changes(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        if change == "add":
            mod.functions[GlobalVar("new")] = func
        else:
            del mod.functions[mod.get_global_vars()[-1]]
        return func

    with pytest.raises(RuntimeError, match="a function pass cannot add or remove functions; use a module pass") as caught:
        changes(functions("f", "g"))
    assert caught.value.__notes__ == ["in the function pass changes"]


def test_a_function_pass_does_not_infer_types_by_itself(mod: IRModule) -> None:
    with pytest.raises(ValueError, match="has not been inferred"):
        copied(mod)["main"].checked_type

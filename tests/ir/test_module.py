"""Modules: functions by name, in insertion order."""

import pytest

from passat.ir.equality import structural_equal
from passat.ir.expr import Expr, Function, GlobalVar, var
from passat.ir.infer import infer_module
from passat.ir.module import IRModule, TypeData
from passat.ir.text import parse
from passat.ir.types import GlobalTypeVar

x = var("x", shape=(2,))
identity, doubled = Function([x], x), Function([x], x + x)


def test_functions_are_found_by_name_and_by_variable() -> None:
    g = GlobalVar("g")
    module = IRModule({"f": identity, g: doubled})
    assert [name.name_hint for name in module] == ["f", "g"]
    assert module["f"] is identity
    assert module[g] is module["g"] is module[GlobalVar("g")] is doubled
    assert module.get_global_var("g") is g
    assert module.get_global_vars() == list(module.functions)
    assert ("f" in module, g in module, "h" in module, len(module)) == (True, True, False, 2)


def test_a_missing_function_is_an_error_that_lists_the_others() -> None:
    with pytest.raises(KeyError, match="the module has no function 'h'; it has: f, g"):
        IRModule({"f": identity, "g": doubled}).get_global_var("h")
    with pytest.raises(KeyError, match="it has: none"):
        IRModule()["main"]


def test_replacing_a_function_keeps_its_variable_and_place() -> None:
    module = IRModule({"f": identity, "g": identity})
    first = module.get_global_var("f")
    module[GlobalVar("f")] = doubled
    assert module.get_global_vars()[0] is first
    assert module["f"] is doubled
    del module["f"]
    assert "f" not in module


def test_of_equal_names_the_updates_win() -> None:
    module = IRModule({"f": identity})
    module.update(IRModule({"f": doubled, "g": identity}))
    assert module["f"] is doubled
    module.update({"g": doubled})
    assert module["g"] is doubled
    assert len(module) == 2


def test_a_shallow_copy_can_be_changed_alone() -> None:
    module = IRModule({"f": identity}, {GlobalTypeVar("T"): TypeData(GlobalTypeVar("T"), (), ())}, {"producer": "a test"})
    copy = module.shallow_copy()
    assert structural_equal(copy, module)
    assert copy.attrs == module.attrs
    copy["f"], copy["g"], copy.attrs["producer"] = doubled, doubled, "another"
    copy.type_definitions.clear()
    assert (module["f"], len(module), module.attrs, len(module.type_definitions)) == (identity, 1, {"producer": "a test"}, 1)


def test_a_module_of_an_expression() -> None:
    assert IRModule.from_expr(identity)["main"] is identity
    y = var("y", shape=(2,))
    expr: Expr = y + x
    main = IRModule.from_expr(expr)["main"]
    assert main.params == (y, x)
    assert main.body is expr


def test_text() -> None:
    module = infer_module(IRModule({"main": doubled}))
    assert module.astext() == f'#[version = "0.0.5"]\n{module}\n'
    assert str(module) == ("def @main(%x: Tensor[(2), float32]) {\n  add(%x, %x) /* ty=Tensor[(2), float32] */\n}")
    assert structural_equal(parse(module.astext()), module)
    assert "add(%x, %x) // here" in module.astext(annotate=lambda expr: "// here")


def test_constructors_are_found_by_their_tags_which_differ_between_types() -> None:
    types = "type A { A0, A1(A) }\ntype B { B0 }"
    module, again = parse(types), parse(types)
    made = [made for data in module.type_definitions.values() for made in data.constructors]
    assert [module.get_constructor(one.tag) for one in made] == made
    assert [again.get_constructor(one.tag).name_hint for one in made] == ["A0", "A1", "B0"]
    assert made[1].tag == made[0].tag + 1
    with pytest.raises(KeyError, match="the module has no constructor with the tag 0; it has the types A, B"):
        module.get_constructor(0)

"""RemoveUnusedFunctions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.expr import Expr, Function, GlobalVar, Tuple, const
from passat.ir.module import IRModule
from passat.passmgr import PassContext, RemoveUnusedFunctions, get_pass, parse_pipeline, pipeline_text


def module(calls: dict[str, list[str]]) -> IRModule:
    """Functions that call each other as said."""
    variables = {name: GlobalVar(name) for name in calls}
    parts: dict[str, list[Expr]] = {name: [variables[callee]() for callee in callees] for name, callees in calls.items()}
    return IRModule({variables[name]: Function([], Tuple([const(1), *called])) for name, called in parts.items()})


def names(mod: IRModule) -> list[str]:
    return [var.name_hint for var in mod.functions]


def test_what_nothing_reaches_goes() -> None:
    mod = module({"unused": ["main"], "main": ["a"], "b": ["b"], "a": ["c"], "c": ["a"]})
    with PassContext() as ctx:
        made = RemoveUnusedFunctions()(mod)
    assert names(made) == ["main", "a", "c"]
    assert names(mod) == ["unused", "main", "b", "a", "c"]
    assert ctx.statistics.counters == {"RemoveUnusedFunctions": {"removed": 2}}


def test_where_all_are_reached_the_module_comes_back_itself() -> None:
    mod = module({"main": ["a"], "a": []})
    assert RemoveUnusedFunctions()(mod) is mod


def test_a_function_that_is_handed_on_is_reached() -> None:
    a = GlobalVar("a")
    mod = IRModule({"main": Function([], Tuple([a])), a: Function([], const(1))})
    assert RemoveUnusedFunctions()(mod) is mod


def test_other_entries() -> None:
    mod = module({"main": [], "first": ["a"], "second": [], "a": []})
    assert names(RemoveUnusedFunctions(("first", "second"))(mod)) == ["first", "second", "a"]
    assert names(get_pass("RemoveUnusedFunctions", entry_functions=["second"])(mod)) == ["second"]


def test_an_entry_that_there_is_not() -> None:
    with pytest.raises(KeyError, match="the module has no function 'main'; it has: f"):
        RemoveUnusedFunctions()(module({"f": []}))


def test_level_requirements_and_facts() -> None:
    info = get_pass("relay._transform.RemoveUnusedFunctions").info
    assert (info.opt_level, info.required) == (1, ())
    assert info.keeps("types")
    assert info.keeps("anf")


def test_as_text() -> None:
    text = "RemoveUnusedFunctions{entry_functions=[first, second]}"
    assert pipeline_text(parse_pipeline(text)) == text


@settings(deadline=None, max_examples=100)
@given(st.dictionaries(st.sampled_from("abcdefgh"), st.lists(st.sampled_from("abcdefgh"), max_size=3), min_size=1), st.data())
def test_the_rest_is_closed_and_reached(calls: dict[str, list[str]], data: st.DataObject) -> None:
    calls = {name: [callee for callee in callees if callee in calls] for name, callees in calls.items()}
    entry = data.draw(st.sampled_from(sorted(calls)))
    kept = names(RemoveUnusedFunctions((entry,))(module(calls)))
    assert entry in kept
    assert all(callee in kept for name in kept for callee in calls[name])
    assert all(name == entry or any(name in calls[other] for other in kept) for name in kept)
    assert RemoveUnusedFunctions((entry,))(made := module({name: calls[name] for name in kept})) is made

"""Counters that passes declare: others are rejected with the most similar name; passes that declare none may use any."""

import pytest

from passat.ir.expr import Function
from passat.ir.module import IRModule
from passat.passmgr import (
    FunctionPass,
    PassContext,
    PassInfo,
    Statistics,
    UnknownCounterError,
    declared_counters,
    function_pass,
    module_pass,
)


class Counting(FunctionPass):
    info = PassInfo(0, "Counting", counters={"folded": "calls replaced by constants", "fired:*": "times that a rule fired"})

    def __init__(self, key: str) -> None:
        self.key = key

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        ctx.record(self.info.name, self.key, 2)
        return func


@pytest.mark.parametrize("key", ["folded", "fired:Arithmetic.add_zero", "fired:"])
def test_declared_counters_count(key: str, mod: IRModule) -> None:
    with PassContext() as ctx:
        Counting(key)(mod)
        Counting(key)(mod)
    assert ctx.statistics.counters == {"Counting": {key: 4}}


@pytest.mark.parametrize(
    ("key", "hint"),
    [("fodled", "did you mean folded?"), ("seconds", "it declares: folded, fired:*"), ("fired", "did you mean fired:*?")],
)
def test_others_are_rejected(key: str, hint: str, mod: IRModule) -> None:
    with PassContext() as ctx, pytest.raises(UnknownCounterError) as caught:
        Counting(key)(mod)
    assert str(caught.value) == f"the pass Counting does not declare the counter {key!r}; {hint}"
    assert ctx.statistics.counters == {}
    assert caught.value.__notes__[0] == "in the function pass Counting, function @main"


def test_passes_without_declared_counters_may_count_anything() -> None:
    statistics = Statistics()
    statistics.record("NothingDeclared", "anything")
    assert statistics.counters == {"NothingDeclared": {"anything": 1}}
    assert PassInfo(0, "NothingDeclared").counters == {}
    assert declared_counters("NothingDeclared") == {}


def test_with_decorators(mod: IRModule) -> None:
    @module_pass(opt_level=0, counters={"seen": "functions that were seen"})
    def decorated_counting(mod: IRModule, ctx: PassContext) -> IRModule:
        ctx.record("decorated_counting", "seen", len(mod))
        ctx.record("decorated_counting", "send")
        return mod

    with PassContext() as ctx, pytest.raises(UnknownCounterError, match=r"did you mean seen\?"):
        decorated_counting(mod)
    assert ctx.statistics.counters == {"decorated_counting": {"seen": 1}}
    assert decorated_counting.info.counters == {"seen": "functions that were seen"}

    @function_pass(opt_level=0, name="named_counting", counters={"n": "functions"})
    def other(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return func

    assert declared_counters("named_counting") == {"n": "functions"}
    assert other.info.counters == {"n": "functions"}


def test_passes_of_one_name_declare_together() -> None:
    for _ in range(2):
        PassInfo(0, "SharedName", counters={"a": "one"})
        PassInfo(0, "SharedName", counters={"b": "other"})
    assert declared_counters("SharedName") == {"a": "one", "b": "other"}


@pytest.mark.parametrize("counters", [["a"], {"a": 1}, {1: "a"}, "ab"])
def test_values_that_are_not_mappings_of_strings(counters: object) -> None:
    with pytest.raises(TypeError, match="counters must be a mapping of names to descriptions, not"):
        PassInfo(0, "WrongCounters", counters=counters)  # type: ignore[arg-type]  # that is the point
    assert declared_counters("WrongCounters") == {}

"""Pipelines as text: parsing, printing, round trips, errors that show the column."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.module import IRModule
from passat.passmgr import (
    InferType,
    ModulePass,
    PassContext,
    PassInfo,
    PassOptionError,
    PipelineError,
    Sequential,
    get_pass,
    parse_pipeline,
    pipeline_text,
    register_pass,
)
from tests.share import share

pytestmark = pytest.mark.usefixtures("forgotten")


@dataclass(frozen=True)
class Saturate(ModulePass):
    rounds: int = 8
    rate: float = 1.0
    mode: Literal["fast", "slow"] = "fast"
    names: tuple[str, ...] = ()
    limit: int | None = None
    flag: bool = False
    bias: float = 0.0
    table: Mapping[str, int] = field(default_factory=dict)
    info = PassInfo(2, "Saturate")

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return mod


@dataclass(frozen=True)
class Anything(ModulePass):
    value: object = None
    info = PassInfo(2, "Anything")


@pytest.fixture(autouse=True)
def registered(forgotten: None) -> None:
    register_pass("Saturate", Saturate)
    register_pass("Group", lambda n=1: Sequential([Saturate(n)], name="Group"))
    register_pass("Needs", lambda layout: Saturate(mode=layout))


def test_parse() -> None:
    pipeline = parse_pipeline(
        'InferType, Saturate{rounds=4, rate=2, names=[a, "b c"], limit=None,flag=true}\n, Sequential(Saturate,InferType)'
    )
    assert pipeline.passes[:2] == (InferType(), Saturate(4, 2.0, names=("a", "b c"), flag=True))
    inner = pipeline.passes[2]
    assert isinstance(inner, Sequential)
    assert inner.passes == (Saturate(), InferType())
    assert (pipeline.info.name, pipeline.info.opt_level, inner.info.name) == ("sequential", 0, "sequential")


def test_options_of_groups() -> None:
    pipeline = parse_pipeline("Sequential{opt_level=2,name=mine,required=[InferType]}(Saturate),InferType")
    info = pipeline.passes[0].info
    assert (info.opt_level, info.name, info.required) == (2, "mine", ("InferType",))


def test_full_names_and_factories() -> None:
    assert parse_pipeline("relay._transform.InferType,Needs{layout=slow}").passes == (InferType(), Saturate(mode="slow"))


def test_the_empty_pipeline() -> None:
    for text in ("", "  \n"):
        assert parse_pipeline(text).passes == ()
    assert pipeline_text(parse_pipeline("")) == ""
    assert pipeline_text(parse_pipeline("Sequential()")) == ""


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("InferType", "InferType"),
        ("Saturate{rounds=8}", "Saturate"),
        (" Saturate { rounds = 3 } ", "Saturate{rounds=3}"),
        ('Saturate{names=["a",b],rate=0.5}', "Saturate{rate=0.5,names=[a, b]}"),
        ("Saturate{rate=inf}", "Saturate{rate=inf}"),
        ("Saturate{bias=-0.0}", "Saturate{bias=-0.0}"),
        ("Saturate{names=[inf-2]}", "Saturate{names=[inf-2]}"),
        ('Saturate{table={"inf"=1}}', 'Saturate{table={"inf"=1}}'),
        ("Saturate{rate=-1e-7}", "Saturate{rate=-1e-07}"),
        ('Saturate{names=["true","x y"]}', 'Saturate{names=["true", "x y"]}'),
        ("Sequential{opt_level=0}(InferType)", "InferType"),
        ("Sequential(Sequential(InferType))", "Sequential(Sequential(InferType))"),
        ("Sequential(InferType),InferType", "Sequential(InferType),InferType"),
        ("Sequential{name=x}(InferType,Sequential())", "Sequential{name=x}(InferType,Sequential())"),
        ("Group", "Group"),
        ("Group{n=3},Group", "Group{n=3},Group"),
        ("Sequential(Group)", "Group"),
        ("Needs{layout=slow}", "Needs{layout=slow}"),
    ],
)
def test_print(text: str, printed: str) -> None:
    pipeline = parse_pipeline(text)
    assert pipeline_text(pipeline) == printed
    assert pipeline_text(parse_pipeline(printed)) == printed


def test_print_single_passes_and_unprintable_programs() -> None:
    assert pipeline_text(Saturate(3)) == "Saturate{rounds=3}"
    assert pipeline_text(Sequential([Saturate(), InferType()], name="x")) == "Sequential{name=x}(Saturate,InferType)"
    with pytest.raises(ValueError, match=r"a value of type bytes cannot be written in pipeline text: b''"):
        pipeline_text(Anything(b""))


def test_a_pass_checks_and_converts_the_options_that_it_is_made_with() -> None:
    """As when it is made by name."""
    assert Saturate(names=["a"], rate=1) == Saturate(names=("a",), rate=1.0)  # type: ignore[arg-type]  # a list
    assert type(Saturate(rate=2).rate) is float
    made: list[Callable[..., object]] = [Saturate, partial(get_pass, "Saturate")]
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"rounds": "x"}, "option rounds of the pass Saturate: expected int, got 'x'"),
        ({"names": 3}, "option names of the pass Saturate: expected tuple[str, ...], got 3"),
        ({"mode": "both"}, "option mode of the pass Saturate: expected one of 'fast', 'slow', got 'both'"),
    ]
    for options, message in mistakes:
        for make in made:
            with pytest.raises(PassOptionError, match=f"^{re.escape(message)}$"):
                make(**options)


def test_options_that_a_pass_itself_rejects_are_errors_of_one_sentence() -> None:
    def made(rounds: int = 1) -> Saturate:
        if rounds < 1:
            raise ValueError("rounds must be at least 1")
        return Saturate(rounds)

    register_pass("AtLeastOne", made)
    assert parse_pipeline("AtLeastOne{rounds=3}").passes == (Saturate(3),)
    with pytest.raises(PipelineError, match="the pass AtLeastOne does not take these options: rounds must be at least 1"):
        parse_pipeline("AtLeastOne{rounds=0}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("InferType,,Saturate", "expected the name of a pass here, not ',' (column 11)\n  InferType,,Saturate\n            ^"),
        ("InferType,", "expected the name of a pass here, but the text ends (column 11)\n  InferType,\n            ^"),
        ("InferType Saturate", "expected a ',' or the end here, not 'Saturate' (column 11)\n  InferType Saturate\n            ^"),
        (
            "InferType,Saturat",
            "there is no pass Saturat; did you mean Saturate? (column 11)\n  InferType,Saturat\n            ^",
        ),
        (
            "Saturate{round=1}",
            "the pass Saturate has no option 'round'; it has: rounds, rate, mode, names, limit, flag, bias, table; did you mean rounds? (column 10)\n"
            "  Saturate{round=1}\n           ^",
        ),
        (
            "Saturate{rate=1,rounds=x}",
            "option rounds of the pass Saturate: expected int, got 'x' (column 17)\n  Saturate{rate=1,rounds=x}\n                  ^",
        ),
        (
            "Saturate{mode=odd}",
            "option mode of the pass Saturate: expected one of 'fast', 'slow', got 'odd' (column 10)\n  Saturate{mode=odd}\n           ^",
        ),
        (
            "Saturate{rounds=1,rounds=2}",
            "the option rounds is given twice (column 19)\n  Saturate{rounds=1,rounds=2}\n                    ^",
        ),
        ("Saturate{rounds}", "expected '=' here, not '}' (column 16)\n  Saturate{rounds}\n                 ^"),
        ("Saturate{rounds=}", "expected a value here, not '}' (column 17)\n  Saturate{rounds=}\n                  ^"),
        ("Saturate{rounds=1;", "expected a ',' or a '}' here, not ';' (column 18)\n  Saturate{rounds=1;\n                   ^"),
        ("Saturate{names=[a b]}", "expected a ',' or a ']' here, not 'b' (column 19)\n  Saturate{names=[a b]}\n                    ^"),
        ("Saturate{", "expected the name of an option here, but the text ends (column 10)\n  Saturate{\n           ^"),
        (r'Saturate{mode="\x"}', 'a string that is not valid JSON (column 15)\n  Saturate{mode="\\x"}\n                ^'),
        ('Saturate{mode="a}', "expected a value here, not '\"' (column 15)\n  Saturate{mode=\"a}\n                ^"),
        ("Saturate{rounds=3x}", "expected a value here, not '3' (column 17)\n  Saturate{rounds=3x}\n                  ^"),
        ("Needs", "the pass Needs requires the option layout (column 1)\n  Needs\n  ^"),
        ("Sequential", "expected '(' here, but the text ends (column 11)\n  Sequential\n            ^"),
        ("Sequential(InferType", "expected ')' here, but the text ends (column 21)\n  Sequential(InferType\n                      ^"),
        ("InferType)", "expected a ',' or the end here, not ')' (column 10)\n  InferType)\n           ^"),
        (
            "Sequential{level=1}()",
            "Sequential has no option 'level'; it has: opt_level, name, required; did you mean opt_level? (column 12)\n  Sequential{level=1}()\n             ^",
        ),
        (
            "Sequential{opt_level=x}()",
            "option opt_level of Sequential: expected int, got 'x' (column 12)\n  Sequential{opt_level=x}()\n             ^",
        ),
        (
            "InferType,\n  Nope",
            "there is no pass Nope; `passat passes` shows all names, and --rules FILE.py adds those of a file (line 2, column 3)\n    Nope\n    ^",
        ),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(PipelineError) as caught:
        parse_pipeline(text)
    assert str(caught.value) == message
    lines = message.split("\n")
    assert caught.value.column == len(lines[-1]) - 2
    assert caught.value.line == (2 if "line 2" in message else 1)


def test_errors_in_long_text_show_the_neighborhood() -> None:
    with pytest.raises(PipelineError) as caught:
        parse_pipeline("InferType," * 1000 + "Nope," + "InferType," * 1000)
    shown, caret = str(caught.value).split("\n")[1:]
    assert len(shown) < 130
    assert shown[len(caret) - 1 :].startswith("Nope,InferType")
    assert caught.value.column == 10001


def test_requirements_that_cannot_be_met_point_at_the_group() -> None:
    with pytest.raises(PipelineError, match=r"the pass x requires Nope: there is no pass Nope; .* \(column 11\)"):
        parse_pipeline("InferType,Sequential(Sequential{name=x,required=[Nope]}())")


def test_depth_is_limited() -> None:
    assert parse_pipeline("Sequential(" * 99 + ")" * 99).depth == 99
    for text in ("Sequential(" * 100_000, "Saturate{names=" + "[" * 100_000):
        with pytest.raises(PipelineError, match="are nested more than 100 levels deep"):
            parse_pipeline(text)


saturates = st.builds(
    Saturate,
    st.integers(),
    st.floats(allow_nan=False),
    st.sampled_from(["fast", "slow"]),
    st.lists(st.text(), max_size=3).map(tuple),
    st.none() | st.integers(),
    st.booleans(),
    st.floats(allow_nan=False),
    st.dictionaries(st.sampled_from(["inf", "none"]) | st.text(), st.integers(), max_size=2),
)
passes = st.recursive(
    saturates | st.just(InferType()),
    lambda inner: st.builds(Sequential, st.lists(inner, max_size=3), st.integers(0, 2), st.sampled_from(["sequential", "x", "two words"])),
    max_leaves=8,
)


@settings(max_examples=share(35, 200))
@given(st.lists(passes, max_size=4))
def test_round_trip(members: list[ModulePass | Sequential]) -> None:
    pipeline = Sequential(members)
    text = pipeline_text(pipeline)
    again = parse_pipeline(text)
    assert pipeline_text(again) == text
    assert shape(again) == shape(pipeline)


def shape(pass_: object) -> object:
    if isinstance(pass_, Sequential):
        return (pass_.info.name, pass_.info.opt_level, [shape(member) for member in pass_.members])
    return pass_


@settings(max_examples=share(52, 300))
@given(st.text(alphabet='Saturate{}()[],="0.e \n', max_size=30) | st.text(max_size=20))
def test_any_text_parses_or_is_rejected_with_a_place(text: str) -> None:
    rejected = None
    try:
        parse_pipeline(text)
    except PipelineError as error:
        rejected = error
    if rejected is not None:
        lines = text.split("\n")
        assert 1 <= rejected.line <= len(lines)
        assert 1 <= rejected.column <= len(lines[rejected.line - 1]) + 1

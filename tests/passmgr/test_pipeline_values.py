"""Pipelines as text: values of every kind, quoted names, comments, limits."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.module import IRModule
from passat.passmgr import (
    InferType,
    ModulePass,
    PassContext,
    PassInfo,
    PipelineError,
    Sequential,
    module_pass,
    parse_pipeline,
    pipeline_text,
    register_pass,
)
from tests.share import share

pytestmark = pytest.mark.usefixtures("forgotten")


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2


class Layout(enum.StrEnum):
    ROWS = "rows"
    COLUMNS = "columns"


@dataclass(frozen=True)
class Loop:
    depth: int = 8
    explicit: bool = True


@dataclass(frozen=True)
class Unroll:
    step: int
    loop: Loop = field(default_factory=Loop)


@dataclass(frozen=True)
class Tune(ModulePass):
    mode: Mode = Mode.FAST
    layout: Layout = Layout.ROWS
    unroll: Unroll | None = None
    loops: tuple[Loop, ...] = ()
    skip: frozenset[str] = frozenset()
    sizes: Mapping[str, int] = field(default_factory=dict)
    pair: tuple[int, str] = (0, "")
    choice: Literal["none", "all", 3] = "all"
    either: int | str = 0
    weights: list[float] = field(default_factory=list)
    info = PassInfo(2, "Tune")

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return mod


@pytest.fixture(autouse=True)
def registered(forgotten: None) -> None:
    register_pass("Tune", Tune)


@pytest.mark.parametrize(
    ("text", "made", "printed"),
    [
        ("Tune{mode=SLOW,layout=columns}", Tune(Mode.SLOW, Layout.COLUMNS), "Tune{mode=SLOW,layout=COLUMNS}"),
        ("Tune{layout=COLUMNS}", Tune(layout=Layout.COLUMNS), "Tune{layout=COLUMNS}"),
        ("Tune{unroll={step=4}}", Tune(unroll=Unroll(4)), "Tune{unroll={step=4}}"),
        (
            "Tune{unroll={step=4,loop={depth=2,explicit=false}}}",
            Tune(unroll=Unroll(4, Loop(2, False))),
            "Tune{unroll={step=4,loop={depth=2,explicit=False}}}",
        ),
        ("Tune{loops=[{},{depth=1}]}", Tune(loops=(Loop(), Loop(1))), "Tune{loops=[{}, {depth=1}]}"),
        ("Tune{skip=[b,a,b]}", Tune(skip=frozenset("ab")), "Tune{skip=[a, b]}"),
        ('Tune{sizes={n=1,"a b"=2}}', Tune(sizes={"n": 1, "a b": 2}), 'Tune{sizes={n=1,"a b"=2}}'),
        ("Tune{pair=[3,x]}", Tune(pair=(3, "x")), "Tune{pair=[3, x]}"),
        ('Tune{choice="none"}', Tune(choice="none"), 'Tune{choice="none"}'),
        ("Tune{choice=none}", Tune(choice="none"), 'Tune{choice="none"}'),
        ("Tune{skip=[none,true]}", Tune(skip=frozenset(["none", "true"])), 'Tune{skip=["none", "true"]}'),
        ("Tune{unroll=None}", Tune(), "Tune"),
        ("Tune{either=NaN}", Tune(either="NaN"), 'Tune{either="NaN"}'),
        ("Tune{choice=3}", Tune(choice=3), "Tune{choice=3}"),
        ("Tune{either=seven}", Tune(either="seven"), "Tune{either=seven}"),
        ('Tune{either="7"}', Tune(either="7"), 'Tune{either="7"}'),
        ("Tune{weights=[1,inf,-2.5]}", Tune(weights=[1.0, float("inf"), -2.5]), "Tune{weights=[1.0, inf, -2.5]}"),
        ('"Tune"', Tune(), "Tune"),
        ('Tune{"mode"=SLOW}', Tune(Mode.SLOW), "Tune{mode=SLOW}"),
    ],
)
def test_values(text: str, made: Tune, printed: str) -> None:
    pipeline = parse_pipeline(text)
    assert pipeline.members == (made,)
    assert pipeline_text(pipeline) == printed
    assert parse_pipeline(printed).members == (made,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Tune{mode=MEDIUM}", "option mode of the pass Tune: expected one of FAST, SLOW, got 'MEDIUM' (column 6)"),
        ("Tune{unroll={}}", "option unroll of the pass Tune: expected Unroll | None, got {} (column 6)"),
        (
            "Tune{loops=[{dept=1}]}",
            "option loops of the pass Tune: Loop has no field 'dept'; it has: depth, explicit; did you mean depth? (column 6)",
        ),
        ("Tune{weights={}}", "option weights of the pass Tune: expected list[float], got {} (column 6)"),
        ("Tune{sizes=[1]}", "option sizes of the pass Tune: "),
        ("Tune{sizes={a=1,a=2}}", "the option a is given twice (column 17)"),
        ("Tune{pair=[1]}", "option pair of the pass Tune: expected tuple[int, str], got (1,) (column 6)"),
        ("Tune{choice=true}", "option choice of the pass Tune: expected one of 'none', 'all', 3, got True (column 6)"),
        ("Tune{choice=None}", "option choice of the pass Tune: expected one of 'none', 'all', 3, got None (column 6)"),
        (f"Tune{{either={'9' * 5000}}}", "an integer with too many digits (column 13)"),
        ('Tune{either="a', "expected a value here, not '\"' (column 13)"),
        (r'"\q"', "a string that is not valid JSON (column 1)"),
        ("{}", "expected the name of a pass here, not '{' (column 1)"),
        ('"Sequential"(Tune)', "there is no pass Sequential; "),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(PipelineError) as caught:
        parse_pipeline(text)
    assert str(caught.value).startswith(message)


def test_comments_and_layout() -> None:
    text = """
        # what is cheap comes first
        InferType,      # types
        Sequential{     # the costly part
            opt_level=3,
            name="# no comment"
        }(
            Tune{mode = SLOW}
        )
        # the end"""
    assert pipeline_text(parse_pipeline(text)) == 'InferType,Sequential{opt_level=3,name="# no comment"}(Tune{mode=SLOW})'
    assert parse_pipeline("# nothing").members == ()
    with pytest.raises(PipelineError, match=r"not 'Tune' \(line 2, column 1\)"):
        parse_pipeline("Tune # a comment takes the comma,\nTune")


def test_names_that_are_not_identifiers() -> None:
    def body(mod: IRModule, ctx: PassContext) -> IRModule:
        return mod

    for name in ("two words", 'with "quotes"', "Sequential", "1st", "größer"):
        register_pass(name, module_pass(body, opt_level=0, name=name))
        text = pipeline_text(Sequential([parse_pipeline(pipeline_text(Sequential([InferType()]))).members[0]]))
        assert text == "InferType"
        pipeline = parse_pipeline(f'"{name}"' if '"' not in name else r'"with \"quotes\""')
        assert pipeline.members[0].info.name == name
        assert parse_pipeline(pipeline_text(pipeline)).members == pipeline.members


def test_pipelines_that_are_registered_keep_their_name() -> None:
    class Rounds(Sequential):
        def __init__(self, rounds: int = 1) -> None:
            super().__init__([Tune()] * rounds, name="Rounds")
            self.given_options = {"rounds": rounds} if rounds != 1 else {}

    made = Sequential([Tune(), InferType()])
    register_pass("Whole", made)
    register_pass("Rounds", Rounds)
    assert pipeline_text(made) == "Whole"
    assert parse_pipeline("Whole").members == (made,)
    assert pipeline_text(parse_pipeline("Whole,Rounds{rounds=2}")) == "Whole,Rounds{rounds=2}"
    assert pipeline_text(Sequential([made, InferType()])) == "Whole,InferType"


def test_a_pass_that_is_registered_under_another_name() -> None:
    made = Tune(Mode.SLOW)
    register_pass("Slowly", made)
    assert parse_pipeline(pipeline_text(Sequential([made]))).members == (made,)
    assert pipeline_text(made) == "Slowly"


def test_length_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(parse_pipeline("InferType," * 2000 + "InferType").members) == 2001
    monkeypatch.setattr("passat.passmgr.sequential.TEXT_LIMIT", 1000)
    with pytest.raises(PipelineError, match=r"^the pipeline has 1,001 characters; the maximum is 1,000 \(column 1\)"):
        parse_pipeline(" " * 1001)


def test_nesting_of_values_is_limited() -> None:
    with pytest.raises(PipelineError, match=r"^lists and options are nested more than 100 levels deep \(column 712\)"):
        parse_pipeline("Tune{" + "sizes={" * 1000)


loops = st.builds(Loop, st.integers(), st.booleans())
tunes = st.builds(
    Tune,
    st.sampled_from(Mode),
    st.sampled_from(Layout),
    st.none() | st.builds(Unroll, st.integers(), loops),
    st.lists(loops, max_size=3).map(tuple),
    st.frozensets(st.text(), max_size=3),
    st.dictionaries(st.text(), st.integers(), max_size=3),
    st.tuples(st.integers(), st.text()),
    st.sampled_from(["none", "all", 3]),
    st.integers() | st.text(),
    st.lists(st.floats(allow_nan=False), max_size=3),
)


@settings(max_examples=share(52, 300))
@given(tunes)
def test_round_trip(made: Tune) -> None:
    text = pipeline_text(made)
    (again,) = parse_pipeline(text).members
    assert again == made
    assert pipeline_text(again) == text


@settings(max_examples=share(35, 200))
@given(tunes, st.data())
def test_space_and_comments_between_tokens_mean_nothing(made: Tune, data: st.DataObject) -> None:
    spaces = st.sampled_from(["", " ", "\n", "# {\n", "\t # ,\n\n"])
    mode, layout = made.mode.name, made.layout.name
    tokens = ["Tune", "{", "mode", "=", mode, ",", "layout", "=", layout, "}", ",", "Sequential", "(", "InferType", ")"]
    spaced = "".join(data.draw(spaces) + token for token in tokens) + data.draw(spaces)
    assert pipeline_text(parse_pipeline(spaced)) == pipeline_text(parse_pipeline("".join(tokens)))

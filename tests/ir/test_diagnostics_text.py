"""The rendering of diagnostics: golden texts, of limited size and harmless for any content."""

import textwrap
from operator import mul

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.diagnostic_text import cut, render_diagnostics
from passat.ir.diagnostics import Diagnostic, DiagnosticLevel
from passat.ir.excerpt import excerpt
from passat.ir.expr import (
    Call,
    Clause,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefWrite,
    Span,
    Tuple,
    TupleGetItem,
    Var,
    const,
    var,
)
from passat.ir.infer import InferError, infer_type
from passat.ir.op import get_op
from passat.ir.source import SourceName
from passat.ir.tensor import Tensor
from passat.ir.text import ParseError, parse_expr
from passat.ir.types import TensorType, TupleType, Type
from tests.share import share

ERROR = DiagnosticLevel.ERROR
x = var("x", shape=(2, 3))
y = var("y", shape=(4,))
TEXT = SourceName("file.relay", "def @main(%x: int8) {\n  %0 = add(%x, %y);\n\tnegative(\n    %0)\n}\n")


def lines(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


def test_a_place_in_a_text() -> None:
    found = Diagnostic(ERROR, Span(TEXT, 2, 2, 8, 19), "shapes do not broadcast", ("in the function @main",), "reshape one of them")
    assert render_diagnostics([found]) == lines(
        """
        error: shapes do not broadcast
         --> file.relay:2:8
          |
        2 |   %0 = add(%x, %y);
          |        ^^^^^^^^^^^
          = note: in the function @main
          = help: reshape one of them
        """
    )


def test_a_place_of_several_lines_is_underlined_in_the_first() -> None:
    assert render_diagnostics([Diagnostic(ERROR, Span(TEXT, 3, 4, 2, 8), "no")]) == lines(
        """
        error: no
         --> file.relay:3:2
          |
        3 |  negative(
          |  ^^^^^^^^^
          | ... to line 4
        """
    )


def test_a_place_without_an_end_is_one_character() -> None:
    assert render_diagnostics([Diagnostic(ERROR, Span(TEXT, line=2, column=3), "no")]).split("\n")[-1] == "  |   ^"
    assert render_diagnostics([Diagnostic(ERROR, Span(TEXT, line=5, column=2), "no")]).split("\n")[-2:] == ["5 | }", "  |  ^"]


def test_the_gutter_is_as_wide_as_the_number() -> None:
    name = SourceName("f", "\n" * 99 + "abc")
    assert render_diagnostics([Diagnostic(ERROR, Span(name, 100, 100, 2, 4), "no", ("why",))]) == lines(
        """
        error: no
           --> f:100:2
            |
        100 | abc
            |  ^^
            = note: why
        """
    )


def test_a_text_that_is_not_known_is_not_quoted() -> None:
    found = Diagnostic(ERROR, Span("file.relay", line=2, column=8), "no", excerpt=("add(%x, %y)",))
    assert render_diagnostics([found]) == "error: no\n --> file.relay:2:8\n  |\n  | add(%x, %y)"


def test_long_lines_are_cut_around_the_place() -> None:
    name = SourceName("f", "a" * 500 + "wrong" + "b" * 500)
    shown = render_diagnostics([Diagnostic(ERROR, Span(name, 1, 1, 501, 506), "no")]).split("\n")
    assert shown[3] == "1 | ..." + "a" * 40 + "wrong" + "b" * 75 + "..."
    assert shown[4] == "  |    " + " " * 40 + "^^^^^"


def test_a_node_of_a_model() -> None:
    data = Var("data", TensorType((2, 3)), Span("", outputs=("data",)))
    relu = get_op("nn.relu")(data, span=Span("Relu_3", outputs=("relu/out:0",)))
    wrong = get_op("add")(relu, Constant(np.ones(4, np.float32), Span("", outputs=("w",))), span=Span("Add_4", outputs=("sum",)))
    with pytest.raises(InferError) as caught:
        infer_type(wrong)
    assert caught.value.render() == lines(
        """
        error: add(Tensor[(2, 3), float32], Tensor[(4,), float32]): shapes (2, 3) and (4,) do not broadcast: 3 against 4
         --> node "Add_4", which produces "sum"
          |
          | %sum = add(%"relu/out:0", %w)
          |   %"relu/out:0": Tensor[(2, 3), float32], of nn.relu in Relu_3
          |   %w: Tensor[(4), float32], a constant
        """
    )


def test_a_node_without_a_name_is_named_by_its_output() -> None:
    found = Diagnostic(ERROR, Span("", outputs=("a", "b", "", "d")), "no")
    assert render_diagnostics([found]) == 'error: no\n --> the producer of "a", "b" ...'
    assert render_diagnostics([Diagnostic(ERROR, Span(""), "no")]) == "error: no"
    assert render_diagnostics([Diagnostic(ERROR, None, "no")]) == "error: no"


def test_several_are_set_apart_by_empty_lines() -> None:
    found = [Diagnostic(level, None, "hear") for level in DiagnosticLevel]
    assert render_diagnostics(found) == "bug: hear\n\nerror: hear\n\nwarning: hear\n\nnote: hear\n\nhelp: hear"
    assert render_diagnostics([]) == ""


def test_colors() -> None:
    found = Diagnostic(ERROR, Span(TEXT, 2, 2, 8, 11), "no", ("why",))
    assert render_diagnostics([found], color=True) == (
        "\x1b[1;31merror\x1b[0m\x1b[1m: no\x1b[0m\n \x1b[1;34m-->\x1b[0m file.relay:2:8\n  \x1b[1;34m|\x1b[0m\n"
        "\x1b[1;34m2\x1b[0m \x1b[1;34m|\x1b[0m   %0 = add(%x, %y);\n  \x1b[1;34m|\x1b[0m        \x1b[1;31m^^^\x1b[0m\n"
        "  \x1b[1;34m=\x1b[0m \x1b[1mnote\x1b[0m: why"
    )


def test_names_cannot_command_a_terminal() -> None:
    name = SourceName("evil\x1b[2J", "\x1b[2Jabc\r\x07")
    found = Diagnostic(ERROR, Span(name, line=1, column=1), "a\x1b[2J\nb", ("\x1b]0;title\x07",), "\x00", ("\x1b[31m",))
    nodes = Diagnostic(ERROR, Span("\x1b[2J", outputs=("\x1b[2J",)), "no", excerpt=("\x1b[2J",))
    text = render_diagnostics([found, nodes], trail=["\x1b[2J"])
    assert all(char.isprintable() or char == "\n" for char in text)
    assert text.startswith("error: a\\x1b[2J b\n --> evil\\x1b[2J:1:1\n")


@pytest.mark.parametrize(
    ("text", "shown"), [("abc", "abc"), ("a\nb\tc", "a b c"), ("x" * 9, "xxxxxxxx"), ("größe", "größe"), ("\x00" * 8, "\\x00\\...")]
)
def test_cutting(text: str, shown: str) -> None:
    assert cut(text, 8) == (shown if len(text) <= 8 else "xxxxx...")


c = var("c", "bool", None)
long: Expr = x
for _ in range(20_000):
    long = long + x
relu = get_op("nn.relu")(x)


@pytest.mark.parametrize(
    ("expr", "shown"),
    [
        (x + y, ("add(%x, %y)", "  %x: Tensor[(2, 3), float32]", "  %y: Tensor[(4), float32]")),
        (x + x, ("add(%x, %x)", "  %x: Tensor[(2, 3), float32]")),
        (x + 1.0, ("add(%x, 1f)", "  %x: Tensor[(2, 3), float32]")),
        (relu + relu, ("add(%0, %0)", "  %0: of unknown type, of nn.relu")),
        (get_op("nn.softmax")(x, axis=1), ("nn.softmax(%x, axis=1)", "  %x: Tensor[(2, 3), float32]")),
        (get_op("nn.softmax")(x), ("nn.softmax(%x)", "  %x: Tensor[(2, 3), float32]")),
        (GlobalVar("f")(x, Tuple([])), ("@f(%x, ())", "  %x: Tensor[(2, 3), float32]")),
        (Tuple([x]), ("(%x,)", "  %x: Tensor[(2, 3), float32]")),
        (TupleGetItem(x, 3), ("%x.3", "  %x: Tensor[(2, 3), float32]")),
        (If(c, x, y), ("if (%c) { %x } else { %y }", "  %c: bool", "  %x: Tensor[(2, 3), float32]", "  %y: Tensor[(4), float32]")),
        (Let(var("v", "int8"), x, y), ("let %v: int8 = %x; ...", "  %v: int8", "  %x: Tensor[(2, 3), float32]")),
        (Function([x], x, TensorType((), "int8")), ("fn (%x) -> int8 { %x }", "  %x: Tensor[(2, 3), float32]")),
        (Match(x, [Clause(PatternWildcard(), x)]), ("match (%x) { ... => %x }", "  %x: Tensor[(2, 3), float32]")),
        (RefWrite(RefCreate(x), RefRead(x)), ("ref_write(%0, %1)", "  %0: of unknown type", "  %1: of unknown type")),
        (RefCreate(c), ("ref(%c)", "  %c: bool")),
        (RefRead(c), ("ref_read(%c)", "  %c: bool")),
        (Tuple([Var("a"), Var("a")]), ("(%a, %0)", "  %a: of unknown type", "  %0: of unknown type")),
        (x, ("%x", "  %x: Tensor[(2, 3), float32]")),
        (const(1.5), ("1.5f",)),
    ],
)
def test_expressions_are_shown_with_their_operands(expr: Expr, shown: tuple[str, ...]) -> None:
    assert excerpt(expr) == shown


def test_long_programs_are_not_shown() -> None:
    shown = excerpt(long)
    assert shown == ("add(%0, %x)", "  %0: of unknown type, of add", "  %x: Tensor[(2, 3), float32]")
    many = excerpt(Tuple([Var(f"a{i}") for i in range(1000)]))
    assert many[0] == "(%a0, %a1, %a2, %a3, %a4, %a5, ... 994 more)"
    assert len(many) == 7


def test_long_attributes_are_not_shown() -> None:
    values = {"a": "s" * 10**6, "b": (1,) * 10**6, "c": b"\0" * 10**6, "d": ((((1,),),),), "e": None}
    (head,) = excerpt(Call(GlobalVar("f"), [], values))
    assert head.startswith('@f(a="sss')
    assert "b=[1, 1, 1, 1, 1, 1, ...]" in head
    assert "d=[[[[...]]]]" in head
    assert len(head) < 600


def test_types_that_nest_deep_are_cut_off() -> None:
    type_: Type = TensorType(())
    for _ in range(20_000):
        type_ = TupleType([type_])
    assert excerpt(Tuple([Var("a", type_)]))[1] == f"  %a: {'(' * 77}..."


def test_constants_that_cannot_be_read_have_a_name() -> None:
    def load() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        raise OSError("the file has gone")

    lost = Constant(Tensor.lazy("float32", (), load))
    assert excerpt(Tuple([lost])) == ("(%0,)", "  %0: float32, a constant")


numbers = st.integers(-3, 400)
texts = st.builds(mul, st.text(max_size=30), st.integers(0, 50))
"""Some are long. Drawing each of their characters would take much longer than the test."""
spans = st.builds(
    Span,
    st.one_of(texts, st.builds(SourceName, st.text(max_size=20), texts)),
    numbers,
    numbers,
    numbers,
    numbers,
    st.lists(st.text(max_size=20), max_size=9).map(tuple),
)
diagnostics = st.builds(
    Diagnostic,
    st.sampled_from(DiagnosticLevel),
    st.none() | spans,
    texts,
    st.lists(texts, max_size=12).map(tuple),
    texts,
    st.lists(texts, max_size=12).map(tuple),
)


@settings(max_examples=share(25, 150))
@given(st.lists(diagnostics, max_size=30), st.lists(texts, max_size=12), st.booleans())
def test_rendering_never_raises_and_is_bounded(found: list[Diagnostic], trail: list[str], color: bool) -> None:
    text = render_diagnostics(found, color, trail)
    assert len(text) < 25_000 * min(len(found), 20) + 10_000
    assert len(text.split("\n")) <= 30 * min(len(found), 20) + 10
    assert all(char.isprintable() or char in "\n\x1b" for char in text)
    assert color or "\x1b" not in text


def test_long_words_of_the_text_are_shortened() -> None:
    with pytest.raises(ParseError) as caught:
        parse_expr(f'#[version = "0.0.5"]\nmeta[relay.Constant][{"9" * 30_000}]')
    assert str(caught.value).startswith("from_string:2:1: meta[relay.Constant][999")
    assert len(str(caught.value)) < 500

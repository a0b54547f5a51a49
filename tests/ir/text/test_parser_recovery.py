"""The parser continues after errors: each error is reported once, and consequences are not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.diagnostics import DiagnosticError
from passat.ir.infer import InferError
from passat.ir.module import IRModule
from passat.ir.text import ParseError, astext, parse, parse_expr
from tests.share import share
from tests.strategies import modules


def errors_of(text: str) -> list[str]:
    """The errors of a module's text, each with its location."""
    with pytest.raises(ParseError) as caught:
        parse(text, "f")
    found = [diagnostic.sentence for diagnostic in caught.value.diagnostics]
    assert str(caught.value) == "\n".join(found)
    first = caught.value.diagnostics[0].span
    assert first is not None
    assert (caught.value.source_name, caught.value.line, caught.value.column) == (first.source_name, first.line, first.column)
    return found


def test_errors_in_several_statements_and_functions() -> None:
    text = """\
def @main(%x: int8) {
  %0 = add(%x, %q);
  %1 = nn.rellu(%0 %1);
  let %z = addd(%0, %1);
  let %a = if (True) { %zz } else { add(%z, %z, axis=3) };
  (%a, %b, %z, %0)
}
def @g() { 1 else { 2 }; %x }
def @h() { @f(@g()) }
"""
    assert errors_of(text) == [
        "f:2:16: the variable '%q' is not defined here; declare free variables with free_var",
        "f:3:8: there is no operator 'nn.rellu'; did you mean nn.relu or nn.prelu or nn.elu?",
        "f:4:12: there is no operator 'addd'; did you mean add?",
        "f:5:24: the variable '%zz' is not defined here; declare free variables with free_var",
        "f:5:37: add has no attribute 'axis'; it has: none",
        "f:6:8: the variable '%b' is not defined here; declare free variables with free_var",
        "f:8:14: expected '}' after the result of the block, found 'else'",
        "f:8:26: the variable '%x' is not defined here; declare free variables with free_var",
        "f:9:12: the function @f is used but not defined",
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # names that an invalid statement would define cause no further errors
        ("def @f() { %0 = bad(1); (%0, %0) }", ["f:1:17"]),
        ("def @f() { let %x = bad(1); (%x, %x) }", ["f:1:21"]),
        ("def @f() { let x = 1; let %y = 2; (x, %y) }", ["f:1:16"]),
        ("def @f() { add(%x, 1f); add(%x, 2f); %x }", ["f:1:16"]),
        ("def @f() { free_var x: int8; %x }", ["f:1:21", "f:1:30"]),
        ("def @f() { @g(%x); 1 } def @h() { @g(1) }", ["f:1:15", "f:1:35"]),
        # an invalid function still exists for its callers, ...
        ("def @f(%x: int7) { %%x } def @g() { @f(1) }", ["f:1:20"]),
        ("def @f(x) { 1 } def @g() { @f(%y) }", ["f:1:8", "f:1:31"]),
        ("def @f() { 1 } def @f() { %x } def @g() { %y }", ["f:1:20", "f:1:43"]),
        # ... but not without a name, nor a type without known constructors
        ("def f() { 1 } def @g() { @f() }", ["f:1:5"]),
        ("type L { Cons(1), Nil } def @f() { Cons(Nil) }", ["f:1:15"]),
        ("type L { Nil } def @f() { Nill } def @g() { Cons }", ["f:1:27", "f:1:45"]),
        # if brackets do not match, no further errors are reported for the definition
        ("def @f() { let %x = if (True) { 1 else { 2 }; %x } def @g() {%y}", ["f:1:35", "f:1:62"]),
        ("def @f() { (1, [2); %x } def @g() {%y}", ["f:1:16", "f:1:36"]),
        ("def @f() { 1 ) ; %x } def @g() {%y}", ["f:1:14", "f:1:33"]),
        ("def @f() { %x", ["f:1:12"]),
        ("def @f() { 1 } }", ["f:1:16"]),
        # blocks within an invalid statement have been read already, or are skipped
        ("def @f() { %0 = { %a; %b }; add({ %c; 1f }, %0, 1); %0 }", ["f:1:19", "f:1:23", "f:1:35"]),
        ("def @f() { bad(fn (%a) { %b; %a }); 1 }", ["f:1:12"]),
        ("def @f() { fn (%a, 3) { %a }; %a; 1 }", ["f:1:20"]),
        ("def @f() { if (True) { %a } else { %b } }", ["f:1:24", "f:1:36"]),
        ("def @f() { match (1) { _ => %a, %v => { %b; %v } } }", ["f:1:29"]),
        ("def @f() { %a; %b; }", ["f:1:12", "f:1:16"]),
        ("def @f() { 1 2; %a }", ["f:1:14", "f:1:17"]),
        ("def @f() { meta[relay.Constant][0]; 300u8 }", ["f:1:12", "f:1:37"]),
        # characters that start no token; unterminated strings and comments
        ("def @f() { $ }\ndef @g() { $$$ 1 $ }", ["f:1:12", "f:2:12", "f:2:18"]),
        ('def @f() { "abc }\ndef @g() { "\\q" }', ["f:1:12", "f:2:12"]),
        ("def @f() { $ } /* \n \n", ["f:1:12", "f:1:16"]),
    ],
)
def test_each_error_is_reported_once(text: str, found: list[str]) -> None:
    assert [":".join(sentence.split(":")[:3]) for sentence in errors_of(text)] == found


def test_reading_stops_at_20_errors() -> None:
    assert len(errors_of("def @f() { " + "".join(f"%a{i}; " for i in range(50)) + "1 }")) == 20
    assert len(errors_of("".join(f"def @f{i}() {{ %x }} " for i in range(50)))) == 20
    assert len(errors_of("$ " * 50)) == 20
    assert len(errors_of("def @f() { (" + "".join(f"@g{i}, " for i in range(50)) + ") }")) == 20


def test_expressions_are_read_on_too() -> None:
    with pytest.raises(ParseError) as caught:
        parse_expr("let %x = bad(1);\n%0 = (%x, %y);\n%0 1", "f")
    assert str(caught.value).split("\n")[1:] == [
        "f:2:11: the variable '%y' is not defined here; declare free variables with free_var",
        "f:3:4: expected the end of the text, found '1'",
    ]


@pytest.mark.parametrize(
    "text", ["type A { B }\ntype C { B }", "def @f(%x: int8) { %x }", "let %x = 1; def @f() { %x }", "{ def @f( } type T { }"]
)
def test_definitions_in_place_of_an_expression(text: str) -> None:
    with pytest.raises(ParseError, match="there is no operator"):
        parse_expr(text)


def test_the_place_of_an_error_is_its_token() -> None:
    with pytest.raises(ParseError) as caught:
        parse("def @main() {\n  let %x = nn.rellu(1f);\n  %x\n}", "file.relay")
    assert caught.value.render() == (
        "error: there is no operator 'nn.rellu'; did you mean nn.relu or nn.prelu or nn.elu?\n"
        " --> file.relay:2:12\n  |\n2 |   let %x = nn.rellu(1f);\n  |            ^^^^^^^^"
    )


def test_the_metadata_is_not_kept_for_errors() -> None:
    call = parse_expr('negative(meta[relay.Constant][0]) #[metadata] {"relay.Constant": [{"dtype": "int8", "shape": [1], "data": "AA=="}]}')
    assert call.span is not None
    assert vars(type(call.span.source_name))["text"].__get__(call.span.source_name) == "negative(meta[relay.Constant][0]) #[metadata]"


def test_nesting_that_is_wrong_inside_costs_no_stack() -> None:
    depth = share(4_000, 20_000)
    for before, after in [("(", ")"), ("{ ", "}"), ("negative(", ")"), ("fn () { ", "}"), ("if (", ") { 1 } else { 2 }")]:
        with pytest.raises(ParseError, match="the variable '%a' is not defined here"):
            parse_expr(before * depth + "%a" + after * depth)


WRONG = ["add({0}, %u{1})", "bad{1}({0})", "({0} 1)", "add({0}, axis={1})", "{0}.x", "{{ %u{1}; {0} }}", "@f{1}({0})"]


@settings(max_examples=share(10, 60))
@given(st.lists(st.none() | st.sampled_from(WRONG), min_size=1, max_size=19))
def test_every_wrong_statement_is_found_and_no_other(choices: list[str | None]) -> None:
    lines = ["def @main(%x: int8) {"]
    for i, choice in enumerate(choices):
        use = f"%v{i - 1}" if i else "%x"
        lines.append(f"  let %v{i} = {(choice or 'add({0}, %x)').format(use, i)};")
    lines += ["  %x", "}", "def @after() { %last }"]
    with pytest.raises(ParseError) as caught:
        parse("\n".join(lines))
    found = [diagnostic.span.line for diagnostic in caught.value.diagnostics if diagnostic.span is not None]
    assert found == [*(i + 2 for i, choice in enumerate(choices) if choice is not None), len(lines)]


PIECES = [
    "",
    "(",
    ")",
    "{",
    "}",
    ";",
    "%",
    "%x",
    "%0",
    '"',
    "=",
    ",",
    "let",
    "def",
    "def @q() {",
    "/*",
    "*/",
    "[",
    "]",
    "0",
    "-",
    ".",
    "$",
    "fn (",
    "type A",
    "\n",
]


@settings(max_examples=share(25, 150))
@given(modules(), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 20), st.sampled_from(PIECES)), min_size=1, max_size=3))
def test_errors_in_damaged_texts_have_locations(module: IRModule, damages: list[tuple[int, int, str]]) -> None:
    text = astext(module)
    for at, width, piece in damages:
        start = at % (len(text) + 1)
        text = text[:start] + piece + text[start + width :]
    for read in (parse, parse_expr):
        try:
            read(text)
        except (ParseError, InferError) as error:
            check_places(error, text)


def check_places(error: DiagnosticError, text: str) -> None:
    lines = text.split("\n")
    places = []
    for diagnostic in error.diagnostics:
        span = diagnostic.span
        assert span is not None
        assert 1 <= span.line <= span.end_line <= len(lines)
        assert 1 <= span.column <= len(lines[span.line - 1]) + 1
        assert 1 <= span.end_column <= len(lines[span.end_line - 1]) + 2
        assert (span.line, span.column) < (span.end_line, span.end_column)
        places.append((span.line, span.column))
    if isinstance(error, ParseError):
        assert places == sorted(places)
        assert len(places) <= 20
    shown = error.render()
    assert len(shown) < 2500 * (len(places) + 1)
    assert all(char.isprintable() or char == "\n" for char in shown)

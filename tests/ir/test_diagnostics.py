"""Diagnostics, the contexts that collect them, and the errors that carry them."""

import io
import pickle
from collections.abc import Iterator

import pytest

from passat.ir.diagnostics import (
    Diagnostic,
    DiagnosticContext,
    DiagnosticError,
    DiagnosticLevel,
    DiagnosticRenderer,
    get_renderer,
    override_renderer,
)
from passat.ir.expr import Call, Function, Span, TupleGetItem, var
from passat.ir.infer import InferError, infer_module, infer_type, type_of_call
from passat.ir.module import IRModule
from passat.ir.onnx import OnnxError
from passat.ir.op import get_op
from passat.ir.source import SourceName
from passat.ir.text import ParseError, parse, parse_expr

BUG, ERROR, WARNING, NOTE, HELP = DiagnosticLevel
x = var("x", shape=(2, 3))
y = var("y", shape=(4,))


@pytest.fixture
def overriding() -> Iterator[list[list[Diagnostic]]]:
    """The calls of the renderer that replaces the default one."""
    seen: list[list[Diagnostic]] = []
    override_renderer(lambda context: seen.append(list(context.diagnostics)))
    yield seen
    override_renderer(None)


def error_at(name: str, message: str = "this is wrong") -> Diagnostic:
    return Diagnostic(ERROR, Span(name), message)


def test_levels_have_the_numbers_of_tvm() -> None:
    assert [(level.name, int(level)) for level in DiagnosticLevel] == [
        ("BUG", 10),
        ("ERROR", 20),
        ("WARNING", 30),
        ("NOTE", 40),
        ("HELP", 50),
    ]


def test_a_diagnostic_is_made_as_in_tvm() -> None:
    made = Diagnostic(20, Span("f.relay", line=3, column=4), "wrong")  # type: ignore[arg-type]  # TVM's levels are numbers
    assert (made.level, made.span, made.message) == (ERROR, ("f.relay", 3, 0, 4, 0, ()), "wrong")
    assert made.sentence == "f.relay:3:4: wrong"
    with pytest.raises(ValueError, match="21 is not a valid DiagnosticLevel"):
        Diagnostic(21, None, "wrong")  # type: ignore[arg-type]  # there is no such level
    with pytest.raises(TypeError, match="the message of a diagnostic must be a string, not None"):
        Diagnostic(ERROR, None, None)  # type: ignore[arg-type]  # no text


@pytest.mark.parametrize(("level", "is_error"), [(BUG, True), (ERROR, True), (WARNING, False), (NOTE, False), (HELP, False)])
def test_bugs_and_errors_end_in_an_exception(level: DiagnosticLevel, is_error: bool) -> None:
    context = DiagnosticContext(IRModule(), DiagnosticRenderer(stream=io.StringIO()))
    context.emit(Diagnostic(level, None, "hear"))
    if is_error:
        with pytest.raises(DiagnosticError, match=r"^hear$"):
            context.render()
    else:
        context.render()


def test_a_message_that_names_its_node_needs_no_place() -> None:
    assert error_at("node7", "node 'node7' is wrong").sentence == "node 'node7' is wrong"
    assert error_at("node7").sentence == "node7: this is wrong"
    assert Diagnostic(ERROR, Span("", outputs=("y",)), "wrong").sentence == "wrong"


def test_several_errors_are_raised_together() -> None:
    context = DiagnosticContext.default(None)
    emitted = [error_at("a"), Diagnostic(WARNING, None, "careful"), error_at("b")]
    for diagnostic in emitted:
        context.emit(diagnostic)
    with pytest.raises(DiagnosticError) as caught:
        context.render()
    assert str(caught.value) == "a: this is wrong\nb: this is wrong"
    assert list(caught.value.diagnostics) == emitted
    assert "warning: careful" in caught.value.render()


def test_diagnostics_are_rendered_once() -> None:
    told = io.StringIO()
    context = DiagnosticContext(None, DiagnosticRenderer(stream=told))
    context.emit(Diagnostic(WARNING, None, "careful"))
    context.render()
    context.render()
    assert told.getvalue() == "warning: careful\n"
    with pytest.raises(DiagnosticError, match=r"^a: this is wrong$") as caught:
        context.emit_fatal(error_at("a"))
    assert len(caught.value.diagnostics) == 1
    context.render()
    assert len(context.diagnostics) == 2
    assert told.getvalue() == "warning: careful\n"


def test_fatal_errors_include_earlier_diagnostics() -> None:
    context = DiagnosticContext(None)
    context.emit(error_at("a"))
    with pytest.raises(DiagnosticError, match=r"^a: this is wrong\nb: this is wrong$"):
        context.emit_fatal(error_at("b"))


def test_only_diagnostics_are_emitted() -> None:
    with pytest.raises(TypeError, match="only a Diagnostic can be emitted, not 'wrong'"):
        DiagnosticContext(None).emit("wrong")  # type: ignore[arg-type]  # what is rejected


def test_a_renderer_of_ones_own_gets_the_context() -> None:
    seen: list[DiagnosticContext] = []
    mod = IRModule()
    context = DiagnosticContext(mod, DiagnosticRenderer(seen.append))
    context.emit(error_at("a"))
    with pytest.raises(DiagnosticError):
        context.render()
    assert seen == [context]
    assert context.module is mod


def test_a_renderer_that_raises_is_not_called_again() -> None:
    def broken(context: DiagnosticContext) -> None:
        raise ZeroDivisionError

    context = DiagnosticContext(None, DiagnosticRenderer(broken))
    context.emit(error_at("a"))
    with pytest.raises(ZeroDivisionError):
        context.render()
    context.render()


def test_the_default_renderer_writes_warnings_to_the_error_stream(capsys: pytest.CaptureFixture[str]) -> None:
    context = DiagnosticContext.default(None)
    context.emit(Diagnostic(WARNING, Span("node7"), "careful"))
    context.render()
    assert capsys.readouterr() == ("", 'warning: careful\n --> node "node7"\n')
    with pytest.raises(DiagnosticError):
        context.emit_fatal(error_at("a"))
    assert capsys.readouterr() == ("", "")  # available where the error is caught


def test_overriding_the_renderer(overriding: list[list[Diagnostic]]) -> None:
    context = DiagnosticContext.default(None)
    context.emit(Diagnostic(WARNING, None, "careful"))
    context.render()
    assert [diagnostic.message for diagnostic in overriding[0]] == ["careful"]
    assert get_renderer() is get_renderer()
    override_renderer(None)
    assert get_renderer() is not get_renderer()


def test_the_renderer_in_place_hears_of_the_errors_of_parsing_and_inference(overriding: list[list[Diagnostic]]) -> None:
    with pytest.raises(DiagnosticError):
        parse("def @f() { %x; %y }")
    with pytest.raises(DiagnosticError):
        parse("def @f(%x: int8) { add(%x, 1f) }")
    with pytest.raises(DiagnosticError):
        infer_module(IRModule.from_expr(Function([x, y], x + y)))
    assert [len(diagnostics) for diagnostics in overriding] == [2, 1, 1]


@pytest.mark.parametrize(
    ("kind", "also", "text"),
    [(ParseError, ValueError, "def @f() { %x }"), (InferError, TypeError, "def @f(%x: int8) { add(%x, 1f) }"), (OnnxError, ValueError, "")],
)
def test_errors_keep_their_class_as_diagnostic_errors(kind: type[DiagnosticError], also: type[Exception], text: str) -> None:
    assert issubclass(kind, DiagnosticError)
    assert issubclass(kind, also)
    if text:
        with pytest.raises(kind):
            parse(text)


def test_an_error_with_a_sentence_alone_has_a_diagnostic() -> None:
    (found,) = OnnxError("the file\n is empty").diagnostics
    assert (found.level, found.span, found.message) == (ERROR, None, "the file is empty")
    assert OnnxError("the file is empty").render() == "error: the file is empty"
    assert str(OnnxError("it is empty").about("in.onnx")) == "in.onnx: it is empty"
    (found,) = InferError("no type").diagnostics
    assert found.message == "no type"


def test_an_error_of_one_call_describes_itself() -> None:
    call = Call(get_op("add"), [x, y])
    with pytest.raises(InferError) as caught:
        type_of_call(call)
    (found,) = caught.value.diagnostics
    assert found.excerpt == ("add(%x, %y)", "  %x: Tensor[(2, 3), float32]", "  %y: Tensor[(4), float32]")


def test_long_lists_are_counted() -> None:
    context = DiagnosticContext(None)
    for i in range(50):
        context.emit(error_at(f"node{i}"))
    with pytest.raises(DiagnosticError) as caught:
        context.render()
    lines = str(caught.value).split("\n")
    assert lines[19:] == ["node19: this is wrong", "... and 30 more"]
    assert caught.value.render().endswith("\n\n... and 30 more")
    assert len(caught.value.diagnostics) == 50


def errors() -> Iterator[DiagnosticError]:
    with pytest.raises(ParseError) as parsing:
        parse_expr("(1 $", "f.relay")
    yield parsing.value
    with pytest.raises(InferError) as inference:
        parse("def @f(%x: int8) { (add(%x, 1f), %x.0) }", "f.relay")
    yield inference.value
    with pytest.raises(InferError) as call:
        type_of_call(Call(infer_type(Function([x], x)), []))
    yield call.value
    yield OnnxError("empty")
    yield DiagnosticError("a: this is wrong", [error_at("a"), error_at("b")])


def test_errors_come_back_from_other_processes() -> None:
    for error in errors():
        error.add_note("in the pass Foo")
        back = pickle.loads(pickle.dumps(error))
        assert type(back) is type(error)
        assert (str(back), back.render(), back.diagnostics) == (str(error), error.render(), error.diagnostics)
        assert back.__notes__ == ["in the pass Foo"]


def test_the_passes_that_an_error_went_through_stand_at_its_end() -> None:
    error = DiagnosticError("a: this is wrong", [error_at("a")])
    error.add_note("in the pass Foo")
    assert error.render() == 'error: this is wrong\n --> node "a"\n\nin the pass Foo'


def test_names_of_texts_are_strings_that_know_the_text() -> None:
    name = SourceName("f.relay", "one\ntwo\n\nfour")
    assert name == "f.relay"
    assert hash(name) == hash("f.relay")
    assert [name.line(number) for number in range(7)] == ["", "one", "two", "", "four", "", ""]
    assert [name.place(offset) for offset in (0, 3, 4, 8, 9, 13)] == [(1, 1), (1, 4), (2, 1), (3, 1), (4, 1), (4, 5)]
    back = pickle.loads(pickle.dumps(name))
    assert (type(back), back, back.text) == (SourceName, name, name.text)
    assert SourceName("f").line(1) == ""


def test_errors_do_not_keep_the_program() -> None:
    wrong = TupleGetItem(x, 0)
    with pytest.raises(InferError) as caught:
        infer_type(wrong)
    assert wrong not in vars(caught.value).values()

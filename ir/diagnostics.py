"""Diagnostics: what is wrong with a program, where, and how it is told. TVM's `tvm.ir.diagnostics`, with its names and numbers.

A `DiagnosticContext` collects diagnostics, so that several can be told in one go; `render` hands them to a renderer and raises
`DiagnosticError` where one of them is an error. The errors of parsing (`passat.ir.text.ParseError`), of type inference
(`passat.ir.infer.InferError`) and of reading ONNX models (`passat.ir.onnx.OnnxError`) are such errors too.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import IO, TYPE_CHECKING, Final
from typing import Any as AnyValue

from passat.ir.expr import Expr, Span
from passat.ir.passat_error import PassatError

if TYPE_CHECKING:
    from passat.ir.module import IRModule

SENTENCES: Final = 20
"""More errors than this are counted, not listed, in the text of an exception and in what is rendered."""


class DiagnosticLevel(IntEnum):
    """How bad it is. Bugs and errors end in a DiagnosticError, the others are only told."""

    BUG = 10
    ERROR = 20
    WARNING = 30
    NOTE = 40
    HELP = 50


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing to tell about a program. The first three fields are those of TVM, in its order.

    `notes` are sentences that stand below, each with the word `note` before it; `help` says what could be done. `excerpt` are the lines
    that show the expression where its span leads to no text: the expression itself, then what its operands are.

    >>> print(Diagnostic(DiagnosticLevel.ERROR, Span("model.relay", line=3, column=14), "shapes do not broadcast").sentence)
    model.relay:3:14: shapes do not broadcast
    """

    level: DiagnosticLevel
    span: Span | None
    message: str
    notes: tuple[str, ...] = ()
    help: str = ""
    excerpt: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises ValueError for a level that there is not, TypeError for a message that is no text."""
        object.__setattr__(self, "level", DiagnosticLevel(self.level))
        if not isinstance(self.message, str):
            raise TypeError(f"the message of a diagnostic is a text, not {self.message!r}")

    @staticmethod
    def at(
        expr: Expr, message: str, level: DiagnosticLevel = DiagnosticLevel.ERROR, notes: Iterable[str] = (), help: str = ""
    ) -> "Diagnostic":
        """A diagnostic about an expression, which is shown as it is now, with the types that it has now."""
        from passat.ir.excerpt import excerpt

        return Diagnostic(level, expr.span, message, tuple(notes), help, excerpt(expr))

    @property
    def is_error(self) -> bool:
        """Whether it is an error or a bug."""
        return self.level <= DiagnosticLevel.ERROR

    @property
    def sentence(self) -> str:
        """The place and the message; the message alone where it names the node itself."""
        span = self.span
        names_it = span is not None and not span.line and f"'{span.source_name}'" in self.message
        return self.message if names_it else place_of(span) + self.message

    def noting(self, *notes: str) -> "Diagnostic":
        """This diagnostic with more notes."""
        return replace(self, notes=(*self.notes, *notes))


def place_of(span: Span | None) -> str:
    """Where a span leads, as the beginning of a sentence: `file.relay:3:14: ` or `node7: `; nothing where that is not known."""
    if span is None or not span.source_name:
        return ""
    return f"{span.source_name}:{span.line}:{span.column}: " if span.line else f"{span.source_name}: "


class DiagnosticError(PassatError, RuntimeError):
    """A program is wrong, in one place or in several. As a text it is one sentence for each error, in order.

    `diagnostics` holds all of them, with what else was to be told; `render()` shows them with the expressions that they are about.
    """

    def __init__(self, message: str, diagnostics: Iterable[Diagnostic] = ()) -> None:
        super().__init__(message)
        self._diagnostics = tuple(diagnostics)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What is wrong, in order. At least one."""
        if not self._diagnostics:
            self._diagnostics = self._described()
        return self._diagnostics

    @diagnostics.setter
    def diagnostics(self, diagnostics: Iterable[Diagnostic]) -> None:
        self._diagnostics = tuple(diagnostics)

    def _described(self) -> tuple[Diagnostic, ...]:
        """The diagnostics of an error that was raised with a sentence alone."""
        return (Diagnostic(DiagnosticLevel.ERROR, None, str(self.args[0])),)

    def render(self, color: bool = False) -> str:
        """All diagnostics as text, each with the place and expression that it is about; the end names the passes it happened in."""
        from passat.ir.diagnostic_text import render_diagnostics

        return render_diagnostics(self.diagnostics, color, getattr(self, "__notes__", ()))

    def __str__(self) -> str:
        first = str(self.args[0])
        if len(self._diagnostics) < 2:
            return first
        others = [diagnostic.sentence for diagnostic in self._diagnostics if diagnostic.is_error][1:]
        more = f"\n... and {len(others) + 1 - SENTENCES} more" if len(others) >= SENTENCES else ""
        return "\n".join([first, *others[: SENTENCES - 1]]) + more

    def __reduce__(self) -> tuple[AnyValue, ...]:  # errors come back from other processes
        return _restored, (type(self), self.args, self._state())

    def _state(self) -> dict[str, AnyValue]:
        return {**self.__dict__, "_diagnostics": self.diagnostics}


def _restored(cls: type[DiagnosticError], args: tuple[AnyValue, ...], state: dict[str, AnyValue]) -> DiagnosticError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class DiagnosticRenderer:
    """Tells what a context holds: by a function of the context, where one is given, else as text on a stream.

    As a DiagnosticError carries its diagnostics, the text leaves those to whoever catches it, and tells only what is followed by no
    error: warnings, notes and help. A function of one's own is called in both cases, and finds all in `context.diagnostics`.
    """

    def __init__(
        self, render_func: "Callable[[DiagnosticContext], object] | None" = None, *, color: bool = False, stream: IO[str] | None = None
    ) -> None:
        self._render_func = render_func
        self._color = color
        self._stream = stream

    def render(self, context: "DiagnosticContext") -> None:
        """Tells what has come since the last time."""
        if self._render_func is not None:
            self._render_func(context)
        elif not any(diagnostic.is_error for diagnostic in context.pending):
            from passat.ir.diagnostic_text import render_diagnostics

            print(render_diagnostics(context.pending, self._color), file=self._stream or sys.stderr)


class DiagnosticContext:
    """Collects diagnostics about a module, and tells them together.

    What has been rendered is not rendered again: `pending` is what comes next, `diagnostics` is everything.

    >>> context = DiagnosticContext.default(None)
    >>> context.emit(Diagnostic(DiagnosticLevel.ERROR, Span("node7"), "this is wrong"))
    >>> context.emit(Diagnostic(DiagnosticLevel.ERROR, Span("node9"), "and so is this"))
    >>> context.render()
    Traceback (most recent call last):
        ...
    passat.ir.diagnostics.DiagnosticError: node7: this is wrong
    node9: and so is this
    """

    def __init__(self, module: "IRModule | None", renderer: DiagnosticRenderer | None = None) -> None:
        self.module = module
        self.renderer = renderer or get_renderer()
        self.diagnostics: list[Diagnostic] = []
        self._rendered = 0

    @staticmethod
    def default(module: "IRModule | None") -> "DiagnosticContext":
        """A context with the renderer of `get_renderer()`."""
        return DiagnosticContext(module)

    @property
    def pending(self) -> Sequence[Diagnostic]:
        """The diagnostics that have not been rendered yet."""
        return self.diagnostics[self._rendered :]

    def emit(self, diagnostic: Diagnostic) -> None:
        """Adds a diagnostic; nothing is told yet."""
        if not isinstance(diagnostic, Diagnostic):
            raise TypeError(f"a Diagnostic can be emitted, not {diagnostic!r}")
        self.diagnostics.append(diagnostic)

    def emit_fatal(self, diagnostic: Diagnostic) -> None:
        """Adds a diagnostic and renders. Raises DiagnosticError where there is an error among what is to be told."""
        self.emit(diagnostic)
        self.render()

    def render(self) -> None:
        """Has the renderer tell what is pending. Raises DiagnosticError with all of that where one of it is an error or a bug."""
        if self._rendered == len(self.diagnostics):
            return
        pending = tuple(self.pending)
        try:
            self.renderer.render(self)
        finally:
            self._rendered += len(pending)
        errors = [diagnostic.sentence for diagnostic in pending if diagnostic.is_error]
        if errors:
            raise DiagnosticError(errors[0], pending)


_overriding: DiagnosticRenderer | None = None


def get_renderer() -> DiagnosticRenderer:
    """The renderer of new contexts: the one of `override_renderer`, else plain text on the error stream."""
    return _overriding or DiagnosticRenderer()


def override_renderer(render_func: Callable[[DiagnosticContext], object] | None) -> None:
    """Has new contexts, and the errors of parsing modules and of inferring their types, rendered by a function of the context.

    None goes back to the default renderer.
    """
    global _overriding  # noqa: PLW0603  # as in TVM, there is one for the whole process
    _overriding = None if render_func is None else DiagnosticRenderer(render_func)


def announce(error: DiagnosticError, module: "IRModule | None") -> None:
    """Shows an error that is about to be raised to the renderer that has been put in place of the default one, if there is one."""
    if _overriding is not None:
        context = DiagnosticContext(module, _overriding)
        context.diagnostics.extend(error.diagnostics)
        _overriding.render(context)

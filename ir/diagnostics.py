"""Diagnostics with TVM's interface and numbers (`tvm.ir.diagnostics`).

A `DiagnosticContext` collects diagnostics, so that several are reported together. `render` passes them to a renderer and raises
`DiagnosticError` if one of them is an error. The errors of parsing (`passat.ir.text.ParseError`), type inference
(`passat.ir.infer.InferError`) and ONNX import (`passat.ir.onnx.OnnxError`) derive from `DiagnosticError`.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import IO, TYPE_CHECKING, Final
from typing import Any as AnyValue

from passat.ir.expr import Expr, Span
from passat.ir.long_words import with_short_words
from passat.ir.passat_error import PassatError

if TYPE_CHECKING:
    from passat.ir.module import IRModule

SENTENCES: Final = 20
"""Maximum number of errors listed by exceptions and rendered diagnostics; further errors are counted."""


class DiagnosticLevel(IntEnum):
    """The severity. Bugs and errors raise DiagnosticError; the others are only reported."""

    BUG = 10
    ERROR = 20
    WARNING = 30
    NOTE = 40
    HELP = 50


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A message about a program. The first three fields are TVM's, in its order.

    `notes` are additional sentences, rendered with the prefix `note`; `help` suggests a fix. `excerpt` shows the expression and its
    operands if the span does not refer to a text.

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
        """Raises ValueError for an unknown level, and TypeError for a message that is not a string."""
        object.__setattr__(self, "level", DiagnosticLevel(self.level))
        if not isinstance(self.message, str):
            raise TypeError(f"the message of a diagnostic must be a string, not {self.message!r}")

    @staticmethod
    def at(
        expr: Expr, message: str, level: DiagnosticLevel = DiagnosticLevel.ERROR, notes: Iterable[str] = (), help: str = ""
    ) -> "Diagnostic":
        """Creates a diagnostic about an expression, which is printed immediately, with its current types."""
        from passat.ir.excerpt import excerpt

        return Diagnostic(level, expr.span, message, tuple(notes), help, excerpt(expr))

    @property
    def is_error(self) -> bool:
        """Whether the level is error or bug."""
        return self.level <= DiagnosticLevel.ERROR

    @property
    def sentence(self) -> str:
        """The location and the message; only the message if that names the node itself."""
        span = self.span
        names_it = span is not None and not span.line and f"'{span.source_name}'" in self.message
        return self.message if names_it else place_of(span) + self.message

    def noting(self, *notes: str) -> "Diagnostic":
        """Returns a copy with more notes."""
        return replace(self, notes=(*self.notes, *notes))


def place_of(span: Span | None) -> str:
    """The location of a span as a prefix: `file.relay:3:14: ` or `node7: `; empty if unknown."""
    if span is None or not span.source_name:
        return ""
    return f"{span.source_name}:{span.line}:{span.column}: " if span.line else f"{span.source_name}: "


class DiagnosticError(PassatError, RuntimeError):
    """One or several errors in a program. `str` gives one sentence per error, in order.

    `diagnostics` holds all diagnostics, including those that are not errors. `render()` prints them with their expressions.
    """

    def __init__(self, message: str, diagnostics: Iterable[Diagnostic] = ()) -> None:
        super().__init__(message)
        self._diagnostics = tuple(diagnostics)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All diagnostics in order; at least one."""
        if not self._diagnostics:
            self._diagnostics = self._described()
        return self._diagnostics

    @diagnostics.setter
    def diagnostics(self, diagnostics: Iterable[Diagnostic]) -> None:
        self._diagnostics = tuple(diagnostics)

    def _described(self) -> tuple[Diagnostic, ...]:
        """The diagnostics of an error that was raised with only a message."""
        return (Diagnostic(DiagnosticLevel.ERROR, None, str(self.args[0])),)

    def render(self, color: bool = False) -> str:
        """Renders all diagnostics, each with its location and expression, followed by the passes that were running."""
        from passat.ir.diagnostic_text import render_diagnostics

        return render_diagnostics(self.diagnostics, color, getattr(self, "__notes__", ()))

    def __str__(self) -> str:
        first = str(self.args[0])
        if len(self._diagnostics) < 2:
            return with_short_words(first)
        others = [diagnostic.sentence for diagnostic in self._diagnostics if diagnostic.is_error][1:]
        more = f"\n... and {len(others) + 1 - SENTENCES} more" if len(others) >= SENTENCES else ""
        return with_short_words("\n".join([first, *others[: SENTENCES - 1]]) + more)

    def _state(self) -> dict[str, AnyValue]:
        return {**self.__dict__, "_diagnostics": self.diagnostics}


class DiagnosticRenderer:
    """Reports the diagnostics of a context: by a function of the context if given, otherwise as text on a stream.

    Without a function, diagnostics that raise a DiagnosticError are left to its handler, and only warnings, notes and help without an error
    are printed. A function is called in both cases and finds all diagnostics in `context.diagnostics`.
    """

    def __init__(
        self, render_func: "Callable[[DiagnosticContext], object] | None" = None, *, color: bool = False, stream: IO[str] | None = None
    ) -> None:
        self._render_func = render_func
        self._color = color
        self._stream = stream

    def render(self, context: "DiagnosticContext") -> None:
        """Reports the diagnostics that have not been reported yet."""
        if self._render_func is not None:
            self._render_func(context)
        elif not any(diagnostic.is_error for diagnostic in context.pending):
            from passat.ir.diagnostic_text import render_diagnostics

            print(render_diagnostics(context.pending, self._color), file=self._stream or sys.stderr)


class DiagnosticContext:
    """Collects diagnostics about a module and reports them together.

    Each diagnostic is rendered once: `pending` are those not rendered yet, `diagnostics` are all.

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
        """Creates a context with the renderer of `get_renderer()`."""
        return DiagnosticContext(module)

    @property
    def pending(self) -> Sequence[Diagnostic]:
        """The diagnostics that have not been rendered yet."""
        return self.diagnostics[self._rendered :]

    def emit(self, diagnostic: Diagnostic) -> None:
        """Adds a diagnostic without rendering it."""
        if not isinstance(diagnostic, Diagnostic):
            raise TypeError(f"only a Diagnostic can be emitted, not {diagnostic!r}")
        self.diagnostics.append(diagnostic)

    def emit_fatal(self, diagnostic: Diagnostic) -> None:
        """Adds a diagnostic and renders. Raises DiagnosticError if a pending diagnostic is an error."""
        self.emit(diagnostic)
        self.render()

    def render(self) -> None:
        """Renders the pending diagnostics. Raises DiagnosticError with all of them if one is an error or a bug."""
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
    """Returns the renderer of new contexts: the one of `override_renderer`, or plain text on stderr."""
    return _overriding or DiagnosticRenderer()


def override_renderer(render_func: Callable[[DiagnosticContext], object] | None) -> None:
    """Sets a function of the context as the renderer of new contexts, and of errors in parsing and type inference.

    None restores the default renderer.
    """
    global _overriding  # noqa: PLW0603  # one renderer per process, as in TVM
    _overriding = None if render_func is None else DiagnosticRenderer(render_func)


def announce(error: DiagnosticError, module: "IRModule | None") -> None:
    """Passes an error that is about to be raised to the overriding renderer, if there is one."""
    if _overriding is not None:
        context = DiagnosticContext(module, _overriding)
        context.diagnostics.extend(error.diagnostics)
        _overriding.render(context)

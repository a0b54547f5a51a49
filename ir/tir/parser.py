"""Reads the text of the loop IR that `passat.ir.tir.printer` prints."""

import json
import re
from collections.abc import Callable
from typing import Any as AnyValue
from typing import Final, NamedTuple, NoReturn

from passat.ir.tir.arithmetic import Not
from passat.ir.tir.buffer import Buffer
from passat.ir.tir.expr import BINARY, Broadcast, Call, Cast, FloatImm, IntImm, PrimExpr, SizeVar, StringImm, Var, const
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.intrinsics import INTRINSICS
from passat.ir.tir.printer import KEYWORDS, SUFFIXES
from passat.ir.tir.ranges import IterVar, Range
from passat.ir.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferRealize,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Prefetch,
    SeqStmt,
    Stmt,
    Store,
    While,
)
from passat.ir.tir.types import PointerType, PrimType, TirError, canonical
from passat.ir.tir.values import BufferLoad, Let, Load, Ramp, Select, Shuffle, true

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+)|(?P<load>\((?P<loaded>[a-z]+\d*(x\d+)?)\*\))|(?P<number>\d+(\.\d+)?(e[-+]?\d+)?(?P<suffix>(i|u|f|bf)\d+)?)
    |(?P<name>@?[A-Za-z_][\w.]*)|(?P<string>"([^"\\]|\\.)*")|(?P<symbol>->|&&|\|\||[=!<>]=|[-+*/%<>=!(){}\[\],:])""",
    re.VERBOSE | re.ASCII,
)
_KINDS: Final = {letters: kind for kind, letters in SUFFIXES.items()}
_DEEPEST: Final = 100
"""Maximum depth of nested expressions and blocks; sums of any length are read without nesting."""


class TirParseError(TirError):
    """Text that is not a program of loops; the message names the line and column."""


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


def parse_function(text: str) -> PrimFunc:
    """Reads a function. Raises TirParseError with line and column for other text.

    >>> print(parse_function("primfn(n: int32) { evaluate((n + 1)) }"))
    primfn(n: int32) {
      evaluate((n + 1))
    }
    """
    function: PrimFunc = _Parser(text).whole(_Parser.function)
    return function


def parse_stmt(text: str) -> Stmt:
    """Reads statements. Raises TirParseError with line and column for other text."""
    stmt: Stmt = _Parser(text).whole(lambda parser: parser.statements(""))
    return stmt


def parse_expr(text: str) -> PrimExpr:
    """Reads an expression. Raises TirParseError with line and column for other text.

    >>> from passat.ir.tir.parser import parse_expr
    >>> parse_expr("(x: int32 + )")
    Traceback (most recent call last):
        ...
    passat.ir.tir.parser.TirParseError: line 1, column 13: expected an expression, found ')'
    """
    expr: PrimExpr = _Parser(text).whole(_Parser.expr)
    return expr


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = self._depth = 0
        self._names: dict[str, Var | Buffer] = {}
        self._next: _Token | None = None

    def whole(self, read: "Callable[[_Parser], AnyValue]") -> AnyValue:
        """Reads the whole text with a method."""
        try:
            made = read(self)
        except TirParseError:
            raise
        except TirError as error:
            self.fail(str(error))
        if self.peek.kind != "end":
            self.fail(f"expected the end of the text, found {self.peek.text!r}")
        return made

    def fail(self, message: str) -> NoReturn:
        """Raises an error at the next token."""
        try:
            position = self.peek.position
        except TirParseError:
            position = self._position
        line = self._text.count("\n", 0, position) + 1
        column = position - self._text.rfind("\n", 0, position)
        raise TirParseError(f"line {line}, column {column}: {message}") from None

    @property
    def peek(self) -> _Token:
        """The next token."""
        while self._next is None:
            if self._position == len(self._text):
                self._next = _Token("end", "the end of the text", self._position)
                break
            found = _TOKEN.match(self._text, self._position)
            if found is None:
                line = self._text.count("\n", 0, self._position) + 1
                column = self._position - self._text.rfind("\n", 0, self._position)
                raise TirParseError(f"line {line}, column {column}: unexpected character {self._text[self._position]!r}")
            if found["space"] is None:
                self._next = _Token(str(found.lastgroup if found["load"] is None else "load"), found[0], self._position)
            self._position = found.end()
        return self._next

    def take(self) -> _Token:
        """Takes the next token."""
        token = self.peek
        self._next = None
        return token

    def accept(self, text: str) -> bool:
        """Takes the next token if it is `text`."""
        if self.peek.text == text and self.peek.kind != "string":
            self.take()
            return True
        return False

    def expect(self, *texts: str) -> None:
        """Takes tokens, which must be `texts`."""
        for text in texts:
            if not self.accept(text):
                self.fail(f"expected {text!r}, found {self.peek.text!r}")

    def nested(self, read: Callable[[], AnyValue]) -> AnyValue:
        """Reads one level deeper."""
        self._depth += 1
        if self._depth > _DEEPEST:
            self.fail(f"the program is nested more than {_DEEPEST} levels deep")
        made = read()
        self._depth -= 1
        return made

    def literal(self) -> AnyValue:
        """A value of an attribute, as JSON."""
        start = self.peek.position
        try:
            value, self._position = json.JSONDecoder().raw_decode(self._text, start)
        except (ValueError, RecursionError):
            self.fail(f"expected a value as JSON has it, found {self.peek.text!r}")
        self._next = None
        return value

    def string(self) -> str:
        if self.peek.kind != "string":
            self.fail(f"expected a string, found {self.peek.text!r}")
        return str(self.literal())

    def integer(self) -> int:
        negative = self.accept("-")
        if self.peek.kind != "number" or not self.peek.text.isdigit():
            self.fail(f"expected an integer, found {self.peek.text!r}")
        return int(self.take().text) * (-1 if negative else 1)

    def dtype(self) -> str:
        if self.peek.kind != "name":
            self.fail(f"expected an element type, found {self.peek.text!r}")
        name = self.peek.text
        canonical(name)
        self.take()
        return name

    def items(self, read: Callable[[], AnyValue], closing: str = "]") -> list[AnyValue]:
        """Items separated by commas, up to a closing bracket."""
        found: list[AnyValue] = []
        while not self.accept(closing):
            if found:
                self.expect(",")
            found.append(read())
        return found

    # names

    def name(self) -> Var | Buffer:
        """A variable or buffer, declared here or before."""
        token = self.peek
        if token.kind != "name" or token.text in KEYWORDS or token.text.startswith("@"):
            self.fail(f"expected a name, found {token.text!r}")
        known = self._names.get(token.text)
        self.take()
        if self.accept(":"):
            if known is not None:
                self.fail(f"{token.text} is declared twice")
            self._names[token.text] = known = self.declared(token.text)
        elif known is None:
            self._next, self._position = token, token.position + len(token.text)
            self.fail(f"{token.text} is not declared; its first use names its type, such as {token.text}: int32")
        return known

    def declared(self, name: str) -> Var | Buffer:
        if self.accept("Buffer"):
            return self.buffer(name)
        if self.accept("Pointer"):
            self.expect("(")
            scope = self.take().text
            element = self.dtype()
            self.expect(")")
            return Var(name, PointerType(PrimType(element), scope))
        return SizeVar(name, self.dtype()) if self.accept("size") else Var(name, self.dtype())

    def variable(self) -> Var:
        found = self.name()
        if not isinstance(found, Var):
            self.fail(f"expected a variable; {found.name} is a buffer")
        return found

    def buffer(self, name: str) -> Buffer:
        self.expect("(")
        data = self.variable()
        self.expect(",")
        dtype = self.dtype()
        self.expect(",", "[")
        shape = self.items(self.expr)
        strides: list[AnyValue] = []
        options: dict[str, AnyValue] = {"offset": const(0, shape[0].dtype if shape else "int32"), "align": 0, "factor": 0, "type": ""}
        readers: dict[str, Callable[[], AnyValue]] = {
            "offset": self.expr,
            "align": self.integer,
            "factor": self.integer,
            "type": self.string,
        }
        while self.accept(","):
            if self.accept("["):
                strides = self.items(self.expr)
                continue
            option = self.peek.text
            if option not in readers:
                self.fail(f"expected {', '.join(readers)}, found {option!r}")
            self.take()
            self.expect("=")
            options[option] = readers[option]()
        self.expect(")")
        return Buffer(data, dtype, shape, strides, options["offset"], name, options["align"], options["factor"], options["type"])

    def some_buffer(self) -> Buffer:
        found = self.name()
        if not isinstance(found, Buffer):
            self.fail(f"expected a buffer; {found.name} is a variable")
        return found

    # functions and statements

    def function(self) -> PrimFunc:
        self.expect("primfn", "(")
        params = self.items(self.variable, ")")
        buffers: dict[Var, Buffer] = {}
        if self.accept("buffers"):
            while True:
                param = self.variable()
                self.expect("->")
                buffers[param] = self.some_buffer()
                if not self.accept(","):
                    break
        attrs = self.literal() if self.accept("with") else {}
        return PrimFunc(params, self.block(), buffer_map=buffers, attrs=attrs)

    def block(self) -> Stmt:
        self.expect("{")
        made: Stmt = self.nested(lambda: self.statements("}"))
        self.expect("}")
        return made

    def statements(self, closing: str) -> Stmt:
        """The statement up to a bracket, or the end of the text: a sequence, if there are several."""
        body = self.listed(closing)
        return body[0] if len(body) == 1 else SeqStmt(body)

    def listed(self, closing: str) -> list[Stmt]:
        """The statements up to a bracket, or the end of the text."""
        found: list[Stmt | Callable[[Stmt], Stmt]] = []
        while self.peek.kind != "end" and self.peek.text != closing:
            found.append(self.statement())
        body: list[Stmt] = []
        for part in reversed(found):
            if isinstance(part, Stmt):
                body.append(part)
            elif not body:
                self.fail("expected a statement after the last one, which applies to the rest of its block")
            else:
                body = [part(body[0] if len(body) == 1 else SeqStmt(body[::-1]))]
        if not body:
            self.fail(f"expected a statement, found {self.peek.text!r}")
        return body[::-1]

    def statement(self) -> Stmt | Callable[[Stmt], Stmt]:
        """A statement, or a function of the rest of the block that makes one."""
        token = self.peek
        if token.text == "{":
            return self.block()
        reader = _STATEMENTS.get(token.text) if token.kind == "name" else None
        if reader is not None:
            self.take()
            return reader(self)
        target = self.name()
        self.expect("[")
        if isinstance(target, Buffer):
            indices = self.items(self.expr)
            self.expect("=")
            return BufferStore(target, self.expr(), indices)
        index = self.expr()
        predicate = self.where()
        self.expect("]", "=")
        return Store(target, self.expr(), index, predicate)

    def where(self, lanes: int | None = None) -> PrimExpr | None:
        given: PrimExpr | None = self.expr() if self.accept("where") else None if lanes is None else true(lanes)
        return given

    def sequence(self) -> Stmt:
        self.expect("{")
        if self.accept("}"):
            return SeqStmt([])
        made = SeqStmt(self.nested(lambda: self.listed("}")))
        self.expect("}")
        return made

    def let_statement(self) -> Callable[[Stmt], Stmt]:
        var = self.variable()
        self.expect("=")
        value = self.expr()
        return lambda body: LetStmt(var, value, body)

    def attribute(self) -> Callable[[Stmt], Stmt]:
        self.expect("[")
        node: AnyValue = None
        if self.accept("null"):
            pass
        elif self.peek.text == "IterVar":
            node = self.iter_var()
        else:
            node = self.expr(buffers=True)
        self.expect("]")
        key = self.string()
        self.expect("=")
        value = self.expr()
        return lambda body: AttrStmt(node, key, value, body)

    def assertion(self) -> Callable[[Stmt], Stmt]:
        self.expect("(")
        condition = self.expr()
        self.expect(",")
        message = self.expr()
        self.expect(")")
        return lambda body: AssertStmt(condition, message, body)

    def loop(self) -> Stmt:
        self.expect("(")
        var = self.variable()
        self.expect(",")
        first = self.expr()
        self.expect(",")
        extent = self.expr()
        self.expect(")")
        kind = ForKind.SERIAL
        if self.peek.kind == "string":
            named = {each.name.lower(): each for each in ForKind}
            if json.loads(self.peek.text) not in named:
                self.fail(f"loops are {', '.join(named)}, not {self.peek.text}")
            kind = named[self.string()]
        binding = self.iter_var() if self.accept("in") else None
        annotations = self.literal() if self.accept("with") else None
        return For(var, first, extent, kind, self.block(), binding, annotations)

    def while_loop(self) -> Stmt:
        self.expect("(")
        condition = self.expr()
        self.expect(")")
        return While(condition, self.block())

    def choice(self) -> Stmt:
        self.expect("(")
        condition = self.expr()
        self.expect(")")
        then_case = self.block()
        return IfThenElse(condition, then_case, self.block() if self.accept("else") else None)

    def evaluation(self) -> Stmt:
        self.expect("(")
        value = self.expr()
        self.expect(")")
        return Evaluate(value)

    def allocation(self) -> Callable[[Stmt], Stmt]:
        self.expect("(")
        var = self.variable()
        self.expect(",")
        dtype = self.dtype()
        self.expect(",", "[")
        extents = self.items(self.expr)
        self.expect(")")
        condition = self.where(1)
        annotations = self.literal() if self.accept("with") else None
        return lambda body: Allocate(var, dtype, extents, condition, body, annotations)

    def region(self) -> tuple[Buffer, list[Range]]:
        self.expect("(")
        buffer = self.some_buffer()
        self.expect(",", "[")
        bounds = self.items(self.range)
        self.expect(")")
        return buffer, bounds

    def realization(self) -> Callable[[Stmt], Stmt]:
        buffer, bounds = self.region()
        condition = self.where(1)
        return lambda body: BufferRealize(buffer, bounds, condition, body)

    def range(self) -> Range:
        self.expect("range", "(", "min", "=")
        first = self.expr()
        self.expect(",", "ext", "=")
        extent = self.expr()
        self.expect(")")
        return Range.from_min_extent(first, extent)

    def iter_var(self) -> IterVar:
        self.expect("IterVar", "(")
        var = self.variable()
        self.expect(",")
        dom = None if self.accept("null") else self.range()
        self.expect(",")
        kind = self.integer()
        self.expect(",")
        tag = self.string()
        self.expect(")")
        return IterVar(dom, var, kind, tag)

    # expressions

    def expr(self, buffers: bool = False) -> AnyValue:
        """An expression; with `buffers`, also a buffer. Open operations are on a list, not on Python's stack."""
        return self.nested(lambda: self._expr(buffers))

    def _expr(self, buffers: bool) -> AnyValue:
        open_: list[tuple[PrimExpr, str] | None] = []
        while True:
            if self.accept("("):
                if not self.accept("let"):
                    open_.append(None)
                    continue
                value = self.let()
            else:
                value = self.atom(buffers)
            while open_:
                if open_[-1] is not None:
                    left, symbol = open_.pop()  # type: ignore[misc]  # it is not None
                    self.expect(")")
                    value = BINARY[symbol](left, value)
                    continue
                if self.accept(")"):
                    open_.pop()
                    continue
                symbol = self.peek.text
                if symbol not in BINARY or self.peek.kind != "symbol":
                    self.fail(f"expected an operator, found {symbol!r}")
                self.take()
                open_[-1] = (value, symbol)
                break
            else:
                return value

    def let(self) -> PrimExpr:
        var = self.variable()
        self.expect("=")
        value = self.expr()
        self.expect("in")
        body = self.expr()
        self.expect(")")
        return Let(var, value, body)

    def atom(self, buffers: bool) -> AnyValue:
        token = self.peek
        if token.kind == "string":
            return StringImm(self.string())
        if token.kind == "number" or token.text == "-":
            return self.number()
        if token.kind == "load":
            return self.load(self.take().text[1:-2])
        if self.accept("!"):
            return Not(self.nested(self.expr))
        if token.kind != "name":
            self.fail(f"expected an expression, found {token.text!r}")
        if token.text in ("True", "False"):
            return IntImm("bool", self.take().text == "True")
        if token.text.startswith("@"):
            return self.call()
        reader = _EXPRESSIONS.get(token.text)
        if reader is not None:
            self.take()
            self.expect("(")
            made = reader(self)
            self.expect(")")
            return made
        if token.text in _NOT_FINITE:
            return self.not_finite()
        found = self.name()
        if isinstance(found, Var) or (buffers and self.peek.text != "["):
            return found
        self.expect("[")
        return BufferLoad(found, self.items(self.expr))

    def number(self) -> PrimExpr:
        sign = -1 if self.accept("-") else 1
        if self.peek.kind != "number":
            self.fail(f"expected a number, found {self.peek.text!r}")
        token = self.take()
        found = _TOKEN.fullmatch(token.text)
        suffix = found["suffix"] if found is not None else None
        digits = token.text.removesuffix(suffix or "")
        if suffix is None or suffix[0] in "iu":
            if not digits.isdigit():
                self._next, self._position = token, token.position + len(token.text)
                self.fail(f"the integer {token.text} has a fraction or an exponent; floats have a suffix such as f32")
            kind = "int32" if suffix is None else f"{_KINDS[suffix[0]]}{suffix[1:]}"
            return IntImm(kind, sign * int(digits))
        letters = suffix.rstrip("0123456789")
        return FloatImm(f"{_KINDS[letters]}{suffix.removeprefix(letters)}", sign * float(digits))

    def not_finite(self) -> PrimExpr:
        dtype = self.dtype()
        self.expect("(")
        sign = -1 if self.accept("-") else 1
        if self.peek.text not in ("inf", "nan"):
            self.fail(f"expected inf or nan, found {self.peek.text!r}")
        value = float(self.take().text)
        self.expect(")")
        return FloatImm(dtype, sign * value)

    def load(self, dtype: str) -> PrimExpr:
        var = self.variable()
        self.expect("[")
        index = self.expr()
        predicate = self.where()
        self.expect("]")
        return Load(dtype, var, index, predicate)

    def call(self) -> PrimExpr:
        name = self.peek.text[1:]
        if name not in INTRINSICS:
            self.fail(f"there is no function {name}")
        self.take()
        self.expect("(")
        args: list[PrimExpr] = []
        while not self.accept("dtype"):
            args.append(self.expr())
            self.expect(",")
        self.expect("=")
        dtype = self.dtype()
        self.expect(")")
        return Call(dtype, name, args)

    def several(self, count: int) -> list[PrimExpr]:
        """Expressions separated by commas."""
        found = [self.expr()]
        for _ in range(count - 1):
            self.expect(",")
            found.append(self.expr())
        return found

    def vector(self, kind: Callable[..., PrimExpr], count: int) -> PrimExpr:
        parts = self.several(count)
        self.expect(",")
        return kind(*parts, self.integer())

    def cast(self) -> PrimExpr:
        dtype = self.dtype()
        self.expect(",")
        return Cast(dtype, self.expr())

    def shuffle(self) -> PrimExpr:
        self.expect("[")
        vectors = self.items(self.expr)
        self.expect(",", "[")
        return Shuffle(vectors, self.items(self.expr))


_NOT_FINITE: Final = ("float16", "float32", "float64", "bfloat16")
_EXPRESSIONS: Final[dict[str, Callable[[_Parser], PrimExpr]]] = {
    **{
        symbol: lambda parser, symbol=symbol: BINARY[symbol](*parser.several(2))  # type: ignore[misc]  # the default binds it
        for symbol in ("floordiv", "floormod", "min", "max")
    },
    "cast": _Parser.cast,
    "select": lambda parser: Select(*parser.several(3)),
    "ramp": lambda parser: parser.vector(Ramp, 2),
    "broadcast": lambda parser: parser.vector(Broadcast, 1),
    "shuffle": _Parser.shuffle,
}
_STATEMENTS: Final[dict[str, Callable[[_Parser], Stmt | Callable[[Stmt], Stmt]]]] = {
    "allocate": _Parser.allocation,
    "assert": _Parser.assertion,
    "attr": _Parser.attribute,
    "evaluate": _Parser.evaluation,
    "for": _Parser.loop,
    "if": _Parser.choice,
    "let": _Parser.let_statement,
    "prefetch": lambda parser: Prefetch(*parser.region()),
    "realize": _Parser.realization,
    "seq": _Parser.sequence,
    "while": _Parser.while_loop,
}

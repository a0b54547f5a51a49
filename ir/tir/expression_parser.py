"""Reads the variables, buffers and expressions of the loop IR."""

from collections.abc import Callable
from typing import Any as AnyValue
from typing import Final

from passat.ir.tir.arithmetic import Not
from passat.ir.tir.buffer import Buffer
from passat.ir.tir.expr import BINARY, Broadcast, Call, Cast, FloatImm, IntImm, PrimExpr, SizeVar, StringImm, Var, const
from passat.ir.tir.intrinsics import INTRINSICS
from passat.ir.tir.printer import KEYWORDS, SUFFIXES
from passat.ir.tir.tokens import TOKEN, Tokens
from passat.ir.tir.types import PointerType, PrimType
from passat.ir.tir.values import BufferLoad, Let, Load, Ramp, Select, Shuffle, true


class ExpressionParser(Tokens):
    """Reads expressions. A name is declared by its first use, which has its type."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._names: dict[str, Var | Buffer] = {}

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
            self.return_to(token)
            self.fail(f"{token.text} is not declared; its first use names its type, such as {token.text}: int32")
        return known

    def declared(self, name: str) -> Var | Buffer:
        """The variable or buffer that a declaration gives a name."""
        if self.accept("Buffer"):
            return self.buffer(name)
        if self.accept("Pointer"):
            self.expect("(")
            scope = self.scope()
            element = self.dtype()
            self.expect(")")
            return Var(name, PointerType(PrimType(element), scope))
        return SizeVar(name, self.dtype()) if self.accept("size") else Var(name, self.dtype())

    def scope(self) -> str:
        """The storage scope of a pointer: a name, which may have a tag after a colon, or a text in quotes."""
        if self.peek.kind == "string":
            return self.string()
        if self.peek.kind != "name":
            self.fail(f"expected a storage scope, found {self.peek.text!r}")
        scope = self.take().text
        return f"{scope}:{self.take().text}" if self.accept(":") else scope

    def variable(self) -> Var:
        """A variable, declared here or before."""
        found = self.name()
        if not isinstance(found, Var):
            self.fail(f"expected a variable; {found.name} is a buffer")
        return found

    def buffer(self, name: str) -> Buffer:
        """A buffer, from its declaration."""
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
        """A buffer, declared here or before."""
        found = self.name()
        if not isinstance(found, Buffer):
            self.fail(f"expected a buffer; {found.name} is a variable")
        return found

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
        """A value bound in an expression."""
        var = self.variable()
        self.expect("=")
        value = self.expr()
        self.expect("in")
        body = self.expr()
        self.expect(")")
        return Let(var, value, body)

    def atom(self, buffers: bool) -> AnyValue:
        """An expression without infix operators, unless in parentheses."""
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
        """A number, whose suffix names its type; without one it is an int32."""
        sign = -1 if self.accept("-") else 1
        if self.peek.kind != "number":
            self.fail(f"expected a number, found {self.peek.text!r}")
        token = self.take()
        found = TOKEN.fullmatch(token.text)
        suffix = found["suffix"] if found is not None else None
        digits = token.text.removesuffix(suffix or "")
        if suffix is None or suffix[0] in "iu":
            if not digits.isdigit():
                self.return_to(token)
                self.fail(f"the integer {token.text} has a fraction or an exponent; floats have a suffix such as f32")
            kind = "int32" if suffix is None else f"{_KINDS[suffix[0]]}{suffix[1:]}"
            return IntImm(kind, sign * self.read_digits(token, suffix or ""))
        letters = suffix.rstrip("0123456789")
        return FloatImm(f"{_KINDS[letters]}{suffix.removeprefix(letters)}", sign * float(digits))

    def not_finite(self) -> PrimExpr:
        """An infinity or NaN."""
        dtype = self.dtype()
        self.expect("(")
        sign = -1 if self.accept("-") else 1
        if self.peek.text not in ("inf", "nan"):
            self.fail(f"expected inf or nan, found {self.peek.text!r}")
        value = float(self.take().text)
        self.expect(")")
        return FloatImm(dtype, sign * value)

    def where(self, lanes: int | None = None) -> PrimExpr | None:
        """The condition after `where`. Without one, None, or true in each of some lanes."""
        given: PrimExpr | None = self.expr() if self.accept("where") else None if lanes is None else true(lanes)
        return given

    def load(self, dtype: str) -> PrimExpr:
        """A load from memory."""
        var = self.variable()
        self.expect("[")
        index = self.expr()
        predicate = self.where()
        self.expect("]")
        return Load(dtype, var, index, predicate)

    def call(self) -> PrimExpr:
        """A call of an intrinsic."""
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
        """A vector: its parts, and the number of lanes."""
        parts = self.several(count)
        self.expect(",")
        return kind(*parts, self.integer())

    def cast(self) -> PrimExpr:
        """A cast."""
        dtype = self.dtype()
        self.expect(",")
        return Cast(dtype, self.expr())

    def shuffle(self) -> PrimExpr:
        """A shuffle of vectors."""
        self.expect("[")
        vectors = self.items(self.expr)
        self.expect(",", "[")
        return Shuffle(vectors, self.items(self.expr))


_KINDS: Final = {letters: kind for kind, letters in SUFFIXES.items()}
_NOT_FINITE: Final = ("float16", "float32", "float64", "bfloat16")
_EXPRESSIONS: Final[dict[str, Callable[[ExpressionParser], PrimExpr]]] = {
    **{
        symbol: lambda parser, symbol=symbol: BINARY[symbol](*parser.several(2))  # type: ignore[misc]  # the default binds it
        for symbol in ("floordiv", "floormod", "min", "max")
    },
    "cast": ExpressionParser.cast,
    "select": lambda parser: Select(*parser.several(3)),
    "ramp": lambda parser: parser.vector(Ramp, 2),
    "broadcast": lambda parser: parser.vector(Broadcast, 1),
    "shuffle": ExpressionParser.shuffle,
}

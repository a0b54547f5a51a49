"""Reads the text of the loop IR that `passat.ir.tir.printer` prints."""

import json
from collections.abc import Callable
from typing import Any as AnyValue
from typing import Final

from passat.ir.tir.buffer import Buffer
from passat.ir.tir.expr import PrimExpr, Var
from passat.ir.tir.expression_parser import ExpressionParser
from passat.ir.tir.function import PrimFunc
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


def parse_function(text: str) -> PrimFunc:
    """Reads a function. Raises TirParseError with line and column for other text.

    >>> print(parse_function("primfn(n: int32) { evaluate((n + 1)) }"))
    primfn(n: int32) {
      evaluate((n + 1))
    }
    """
    parser = _Parser(text)
    function: PrimFunc = parser.whole(parser.function)
    return function


def parse_stmt(text: str) -> Stmt:
    """Reads statements. Raises TirParseError with line and column for other text."""
    parser = _Parser(text)
    stmt: Stmt = parser.whole(lambda: parser.statements(""))
    return stmt


def parse_expr(text: str) -> PrimExpr:
    """Reads an expression. Raises TirParseError with line and column for other text.

    >>> from passat.ir.tir.parser import parse_expr
    >>> parse_expr("(x: int32 + )")
    Traceback (most recent call last):
        ...
    passat.ir.tir.tokens.TirParseError: line 1, column 13: expected an expression, found ')'
    """
    parser = ExpressionParser(text)
    expr: PrimExpr = parser.whole(parser.expr)
    return expr


class _Parser(ExpressionParser):
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

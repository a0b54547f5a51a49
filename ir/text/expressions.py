"""Parses expressions of Relay's text format.

The grammar is Relay's, with these additions:

* A block in braces is allowed wherever an expression is.
* Operator names that are not identifiers are quoted: `"onnx.my-domain.Op"(%x)`.
* Any callee accepts type arguments: `%f[int8](%x)`.
* `constructor(Nil)` is a constructor without fields as a function, while `Nil` is its value. `constructor("add")(%x)` calls a constructor
  whose name is an operator or a keyword.

Nesting takes no stack: grammar rules are generators that yield the rules they need, driven by `run`.
"""

from collections.abc import Callable, Generator
from typing import Any as AnyValue
from typing import Final, TypeAlias

from passat.ir.expr import (
    Call,
    Clause,
    Constructor,
    Expr,
    Function,
    If,
    Let,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefWrite,
    Span,
    Tuple,
    TupleGetItem,
    Var,
)
from passat.ir.module import IRModule
from passat.ir.op import Op, OpTypeError
from passat.ir.text.atoms import AtomReader, Hidden
from passat.ir.text.attributes import AttributeReader
from passat.ir.text.lexer import ParseError, Tokens
from passat.ir.text.literals import COMPOUND
from passat.ir.text.relay_attributes import translated
from passat.ir.types import Type

_DIGITS: Final = 9
"""Maximum number of digits of a field number."""
Rule: TypeAlias = "Generator[Rule, Expr, Expr]"

_INFIX: Final = {
    "*": (12, "multiply"),
    "/": (12, "divide"),
    "+": (10, "add"),
    "-": (10, "subtract"),
    "<": (8, "less"),
    "<=": (8, "less_equal"),
    ">": (8, "greater"),
    ">=": (8, "greater_equal"),
    "==": (7, "equal"),
    "!=": (7, "not_equal"),
}


class ExprReader(AtomReader):
    """Parses the expressions of a text."""

    def __init__(self, tokens: Tokens, module: IRModule) -> None:
        super().__init__(tokens, module)
        self._attributes = AttributeReader(tokens, self.types, self.metadata)

    def block(self, closing: str, *, whole: bool = False) -> Rule:
        """Parses statements and their result.

        Parses up to a closing brace or the end of the text and recovers from errors; without `closing`, parses as far as the block extends.
        """
        tokens = self.tokens
        opening = tokens.at - 1
        lets: list[tuple[Var, Expr, Span]] = []
        hidden: Hidden = []
        free: set[str] = set()
        while True:
            at = tokens.at
            kind, text = tokens.kinds[at], tokens.texts[at]
            try:
                if kind == "graph" and tokens.kinds[at + 1] == "=":
                    tokens.at += 2
                    self.numbered[text] = yield self._infix()
                    tokens.expect(";", f"after the definition of %{text}")
                elif kind == "name" and text == "let":
                    var, value = yield from self._let(hidden)
                    lets.append((var, value, tokens.span(at, tokens.at - 1)))
                elif kind == "name" and text == "free_var":
                    tokens.at += 1
                    if tokens.kind == "local" and tokens.text in free:
                        raise tokens.error(f"the variable {tokens.shown()} is declared twice")
                    free.add(tokens.text)
                    self.declare(self.variable("after free_var"), hidden)
                    tokens.expect(";", "after the free variable")
                else:
                    result = yield self._infix()
                    if tokens.accept(";"):
                        lets.append((Var("_"), result, tokens.span(at, tokens.at - 1)))
                        continue
                    if closing:
                        tokens.expect(closing, "after the result of the block")
                    break
            except ParseError as error:
                if error.is_counted or not (closing or whole):
                    raise
                self.recovery.note(error)
                end = self.recovery.behind_statement(at, None if whole else opening)
                if end is None:
                    raise
                self.assume(at, end, hidden)
                tokens.at = end + 1 if tokens.kinds[end] == ";" else end
                if tokens.kind in (closing or "end", "metadata"):
                    tokens.at += bool(closing)
                    result = Var("_")
                    break
        self.forget(hidden)
        for var, value, span in reversed(lets):
            result = Let(var, value, result, span)
        return result

    def _let(self, hidden: Hidden) -> Generator[Rule, Expr, tuple[Var, Expr]]:
        tokens = self.tokens
        tokens.at += 1
        var = self.variable("after let")
        tokens.expect("=", f"after let %{var.name_hint}")
        kind, text = tokens.kind, tokens.text
        if kind == "name" and text == "let":
            raise tokens.error("a let as the value of a let must be in braces")
        recursive = kind == "name" and text == "fn"
        if recursive:
            self.declare(var, hidden)
        value = yield self._infix()
        if not recursive:
            self.declare(var, hidden)
        tokens.expect(";", f"after the value of %{var.name_hint}")
        return var, value

    def _braced(self, purpose: str) -> Rule:
        self.tokens.expect("{", purpose)
        return self.block("}")

    def _infix(self) -> Rule:
        """Parses operands joined by left-associative infix operators."""
        tokens = self.tokens
        begin = tokens.at
        left = yield self._operand()
        if tokens.kinds[tokens.at] not in _INFIX:
            return left
        operands, begins, waiting = [left], [begin], list[tuple[int, str, int]]()
        while tokens.kind in _INFIX:
            level, name = _INFIX[tokens.kind]
            while waiting and waiting[-1][0] >= level:
                self._reduce(operands, begins, waiting)
            waiting.append((level, name, tokens.at))
            tokens.at += 1
            begins.append(tokens.at)
            operands.append((yield self._operand()))
        while waiting:
            self._reduce(operands, begins, waiting)
        return operands[0]

    def _reduce(self, operands: list[Expr], begins: list[int], waiting: list[tuple[int, str, int]]) -> None:
        _, name, at = waiting.pop()
        right = operands.pop()
        left = operands.pop()
        begins.pop()
        operands.append(self._call(self.op(name, at), [left, right], {}, [], begins[-1]))

    def _operand(self) -> Rule:
        """Parses an atom with its postfix applications: arguments, types, field numbers."""
        tokens = self.tokens
        at = tokens.at
        found = self.atom()
        if found is None:
            found = yield self._compound()
        elif isinstance(found, Constructor) and not found.inputs and tokens.kind != "(":
            found = Call(found, (), span=tokens.span(at))
        while True:
            kind = tokens.kinds[tokens.at]
            if kind == "(" or (kind == "[" and not isinstance(found, Op)):
                found = yield self._application(found, at)
            elif kind == ".":
                tokens.at += 1
                for index in tokens.expect("number", "of a field").split("."):  # %0.1.2 is lexed with the number 1.2
                    if not index.isdigit():
                        tokens.at -= 1
                        raise tokens.error(f"expected the number of a field, found {tokens.shown()}")
                    if len(index) > _DIGITS:
                        tokens.at -= 1
                        raise tokens.error("the number of the field is too large")
                    found = TupleGetItem(found, int(index), tokens.span(at))
            else:
                return found

    def _application(self, callee: Expr, at: int) -> Rule:
        """Parses the rest of a call, from the type arguments or arguments on."""
        tokens = self.tokens
        type_args = self.types.read_list("]", "after the types")[0] if tokens.accept("[") else []
        tokens.expect("(", "before the arguments of the call")
        args: list[Expr] = []
        attrs: dict[str, AnyValue] = {}
        while tokens.kind != ")":
            if attrs or self._attributes.begins():
                self._attributes.read(attrs)
            else:
                argument = self._argument()
                args.append((yield self.block("")) if argument is None else argument)
            if not tokens.accept(","):
                break
        tokens.expect(")", "after the arguments of the call")
        return self._call(callee, args, attrs, type_args, at)

    def _argument(self) -> Expr | None:
        """Parses an argument of a single token; None if it is longer."""
        tokens = self.tokens
        at = tokens.at
        if tokens.kinds[at + 1] not in (",", ")"):
            return None
        found = self.atom()
        if isinstance(found, Constructor):
            tokens.at = at  # the name may be the value of a constructor without fields
            return None
        return found

    def _call(self, callee: Expr, args: list[Expr], attrs: dict[str, AnyValue], type_args: list[Type], at: int) -> Call:
        tokens = self.tokens
        if isinstance(callee, Op):
            try:
                op, args, attrs = translated(callee, args, attrs)
                return Call(op, args, op.bind_attrs(attrs), span=tokens.span(at))
            except OpTypeError as error:
                raise tokens.error_at(tokens.starts[at], str(error)) from None
        attrs.pop("attrs_type_key", None)  # TVM names the class of the attributes; Passat has only one
        return Call(callee, args, attrs, type_args, tokens.span(at))

    def _compound(self) -> Rule:
        """Parses an expression of more than one token. Raises ParseError if there is none."""
        tokens = self.tokens
        at = tokens.at
        kind = tokens.kind
        if kind == "-":
            return self.negative_number()
        if kind == "{":
            tokens.at += 1
            return (yield self.block("}"))
        rule = ExprReader._brackets if kind == "(" else _COMPOUND.get(tokens.text) if kind == "name" else None
        if rule is None:
            raise tokens.error(f"expected an expression, found {tokens.shown()}")
        tokens.at += 1
        return (yield rule(self, at))

    def _brackets(self, at: int) -> Rule:
        """Parses a tuple, or an expression in parentheses."""
        tokens = self.tokens
        fields: list[Expr] = []
        comma = False
        while tokens.kind != ")":
            field = self._argument()
            fields.append((yield self.block("")) if field is None else field)
            comma = tokens.accept(",")
            if not comma:
                break
        tokens.expect(")", "after the expression in parentheses")
        return fields[0] if len(fields) == 1 and not comma else Tuple(fields, tokens.span(at))

    def function(self, at: int) -> Rule:
        """Parses a function, from its type parameters on."""
        tokens = self.tokens
        outer = dict(self.types.type_vars)
        type_params = self.types.read_params()
        hidden: Hidden = []
        params: dict[str, Var] = {}
        attrs: dict[str, AnyValue] = {}
        tokens.expect("(", "before the parameters")
        while tokens.kind != ")":
            if attrs or self._attributes.begins():
                self._attributes.read(attrs)
            else:
                if tokens.kind == "local" and tokens.text in params:
                    raise tokens.error(f"the function has two parameters called %{tokens.text}")
                var = self.variable("for a parameter")
                self.declare(var, hidden)
                params[var.name_hint] = var
            if not tokens.accept(","):
                break
        tokens.expect(")", "after the parameters")
        ret_type = self.types.read() if tokens.accept("->") else None
        body = yield self._braced("before the body of the function")
        self.forget(hidden)
        self.types.type_vars = outer
        return Function(params.values(), body, ret_type, type_params, attrs, tokens.span(at))

    def _if(self, at: int) -> Rule:
        tokens = self.tokens
        tokens.expect("(", "before the condition")
        cond = yield self.block("")
        tokens.expect(")", "after the condition")
        then = yield self._braced("before the first branch")
        if not tokens.accept_word("else"):
            raise tokens.error(f"expected else after the first branch, found {tokens.shown()}")
        other = yield self._braced("before the second branch")
        return If(cond, then, other, tokens.span(at))

    def _match(self, at: int) -> Rule:
        tokens = self.tokens
        complete = not tokens.accept("?")
        data = yield self._operand()
        tokens.expect("{", "before the arms of the match")
        clauses: list[Clause] = []
        while tokens.kind != "}":
            hidden: Hidden = []
            start = tokens.at
            pattern = self._pattern(hidden)
            names = [name for name, _ in hidden]
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise tokens.error_at(tokens.starts[start], f"the pattern has two variables called %{twice}")
            tokens.expect("=>", "after the pattern")
            clauses.append(Clause(pattern, (yield self.block(""))))
            self.forget(hidden)
            if not tokens.accept(","):
                break
        tokens.expect("}", "after the arms of the match")
        return Match(data, clauses, complete, tokens.span(at))

    def _pattern(self, hidden: Hidden) -> Pattern:
        tokens = self.tokens
        if tokens.accept_word("_"):
            return PatternWildcard()
        if tokens.kind == "local":
            var = self.variable("of a pattern")
            self.declare(var, hidden)
            return PatternVar(var)
        if tokens.accept("("):
            return PatternTuple(self._patterns(hidden))
        constructor = self.constructor("expected a pattern")
        return PatternConstructor(constructor, self._patterns(hidden) if tokens.accept("(") else ())

    def _patterns(self, hidden: Hidden) -> list[Pattern]:
        found: list[Pattern] = []
        while self.tokens.kind != ")":
            found.append(self._pattern(hidden))
            if not self.tokens.accept(","):
                break
        self.tokens.expect(")", "after the patterns")
        return found

    def _bare_constructor(self, at: int) -> Rule:
        self.tokens.expect("(", "after constructor")
        found = self.constructor("expected a constructor")
        self.tokens.expect(")", "after the name of the constructor")
        yield from ()
        return found

    def _ref(self, at: int) -> Rule:
        value = (yield from self._operands(1))[0]
        return RefCreate(value, self.tokens.span(at))

    def _ref_read(self, at: int) -> Rule:
        ref = (yield from self._operands(1))[0]
        return RefRead(ref, self.tokens.span(at))

    def _ref_write(self, at: int) -> Rule:
        ref, value = yield from self._operands(2)
        return RefWrite(ref, value, self.tokens.span(at))

    def _operands(self, count: int) -> Generator[Rule, Expr, list[Expr]]:
        tokens = self.tokens
        name = tokens.texts[tokens.at - 1]
        tokens.expect("(", f"after {name}")
        found: list[Expr] = []
        for i in range(count):
            if i:
                tokens.expect(",", f"between the operands of {name}")
            found.append((yield self.block("")))
        tokens.expect(")", f"after the operands of {name}")
        return found


_COMPOUND: Final[dict[str, Callable[[ExprReader, int], Rule]]] = {
    "fn": ExprReader.function,
    "if": ExprReader._if,
    "match": ExprReader._match,
    "ref": ExprReader._ref,
    "ref_read": ExprReader._ref_read,
    "ref_write": ExprReader._ref_write,
    "constructor": ExprReader._bare_constructor,
}
assert _COMPOUND.keys() == COMPOUND


def run(rule: Rule) -> Expr:
    """Drives a rule and the rules it needs with an explicit stack."""
    stack = [rule]
    value: Expr | None = None
    error: ParseError | None = None
    while True:
        try:
            if error is None:
                needed = stack[-1].send(value)  # type: ignore[arg-type]  # a generator is started with None
            else:
                passed, error = error, None
                needed = stack[-1].throw(passed)  # the rule that needed the failed one may recover from the error
        except ParseError as failure:
            stack.pop()
            if not stack:
                raise
            error = failure
            error.__traceback__ = None  # otherwise it grows with the depth of the text
        except StopIteration as done:
            stack.pop()
            value = done.value
            if not stack:
                assert value is not None
                return value
        else:
            stack.append(needed)
            value = None

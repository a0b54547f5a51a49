"""Reading of what one token stands for: variables, numbered expressions, operators, constructors, literals; and what is in scope."""

from typing import TypeAlias

from passat.ir.expr import Constant, Constructor, Expr, GlobalVar, Var
from passat.ir.module import IRModule
from passat.ir.op import Op, find_op, get_op
from passat.ir.tensor import Tensor
from passat.ir.text.lexer import Tokens
from passat.ir.text.literals import COMPOUND, SPECIAL, read_scalar
from passat.ir.text.metadata import MetadataReader
from passat.ir.text.recovery import Recovery
from passat.ir.text.types import TypeReader

Hidden: TypeAlias = list[tuple[str, Var | None]]
"""Names that a scope declared, with what they meant outside of it."""


class AtomReader:
    """Reads atoms, and keeps what names stand for.

    `globals` and `constructors` go by their names, `first_uses` says where globals were first named; `numbered` holds `%0`, `%1` ... of
    the definition that is being read.
    """

    def __init__(self, tokens: Tokens, module: IRModule) -> None:
        self.tokens = tokens
        self.module = module
        self.recovery = Recovery(tokens)
        self.types = TypeReader(tokens)
        self.metadata = MetadataReader(tokens)
        self.globals = {var.name_hint: var for var in module.functions}
        self.first_uses: dict[str, int] = {}
        self.constructors = {made.name_hint: made for data in module.type_definitions.values() for made in data.constructors}
        self.numbered: dict[str, Expr] = {}
        self._constants: dict[str, Constant] = {}
        self._variables: dict[str, Var] = {}
        self._ops: dict[str, Op] = {}
        self._assumed: set[str] = set()

    def global_var(self, name: str, at: int) -> GlobalVar:
        """The global variable of that name, which token number `at` uses."""
        found = self.globals.get(name)
        if found is None:
            found = self.globals[name] = GlobalVar(name)
            self.first_uses[name] = self.tokens.starts[at]
        return found

    def variable(self, purpose: str) -> Var:
        """Reads a new variable, with the type that it is annotated with. Raises ParseError."""
        at = self.tokens.at
        name = self.tokens.expect("local", purpose)
        return Var(name, self.types.read() if self.tokens.accept(":") else None, self.tokens.span(at))

    def declare(self, var: Var, hidden: Hidden) -> None:
        """Brings a variable into scope; what it hides is noted."""
        hidden.append((var.name_hint, self._variables.get(var.name_hint)))
        self._variables[var.name_hint] = var

    def forget(self, hidden: Hidden) -> None:
        """Ends a scope: names mean again what they meant outside of it."""
        for name, outer in reversed(hidden):
            if outer is None:
                del self._variables[name]
            else:
                self._variables[name] = outer

    def forget_all(self) -> None:
        """Ends all scopes that an error has left open."""
        self._variables.clear()
        self.types.type_vars.clear()
        self._assumed.clear()

    def assume(self, start: int, until: int, hidden: Hidden) -> None:
        """Brings into scope what the tokens from `start` to `until` name and nothing stands for: it is wrong, but not again."""
        tokens = self.tokens
        for kind, text in zip(tokens.kinds[start:until], tokens.texts[start:until], strict=True):
            if kind == "local" and text not in self._variables:
                self.declare(Var(text), hidden)
            elif kind == "graph":
                self.numbered.setdefault(text, Var("_"))
            elif kind == "global":
                self.first_uses.pop(text, None)  # no error of its own here, but perhaps where it is used again
                if self.globals.get(text) not in self.module.functions:
                    self.globals.pop(text, None)
            elif kind == "name" and tokens.kinds[start + 1] == "=":  # a variable without its sigil, perhaps
                self._assumed.add(text)
            start += 1

    def atom(self) -> Expr | None:
        """Reads an expression of one token; None where the next token begins a longer one. Raises ParseError."""
        tokens = self.tokens
        at = tokens.at
        kind, text = tokens.kinds[at], tokens.texts[at]
        found: Expr | None = None
        if kind == "graph":
            found = self.numbered.get(text)
            if found is None:
                raise tokens.error(f"%{text} is not defined here")
        elif kind == "local":
            found = self._variables.get(text)
            if found is None:
                raise tokens.error(f"the variable {tokens.shown()} is free; free_var declares variables that are")
        elif kind == "name" and text not in COMPOUND:
            found = self._named(text)
        elif kind == "number":
            found = self._number(negative=False)
        elif kind == "meta":
            found = self._constants.get(text)
            if found is None:
                found = self._constants[text] = Constant(self.metadata.constant(text))
        elif kind == "global":
            found = self.global_var(text, at)
        elif kind == "string":
            found = self.op(text, at)
        if found is not None:
            tokens.at = at + 1
        return found

    def _named(self, text: str) -> Expr:
        if text in ("True", "False"):
            return Constant(Tensor.dense(text == "True"), self.tokens.span(self.tokens.at, self.tokens.at + 1))
        if text in SPECIAL:
            return self._number(negative=False)
        found = self.constructors.get(text)
        if found is None and text in self._assumed:
            return Var(text)
        return found if found is not None and find_op(text) is None else self.op(text, self.tokens.at)

    def _number(self, *, negative: bool) -> Constant:
        try:
            return Constant(read_scalar(self.tokens.text, negative), self.tokens.span(self.tokens.at, self.tokens.at + 1))
        except ValueError as error:
            raise self.tokens.error(str(error)) from None

    def negative_number(self) -> Constant:
        """Reads a number behind minus signs. Raises ParseError."""
        tokens = self.tokens
        negative = False
        while tokens.accept("-"):
            negative = not negative
        if tokens.kind != "number" and not (tokens.kind == "name" and tokens.text in SPECIAL):
            raise tokens.error(f"expected a number after the minus, found {tokens.shown()}")
        found = self._number(negative=negative)
        tokens.at += 1
        return found

    def op(self, name: str, at: int) -> Op:
        """The operator of that name, which token number `at` says. Raises ParseError where there is none."""
        found = self._ops.get(name)
        if found is None:
            try:
                found = self._ops[name] = get_op(name)
            except KeyError as error:
                raise self.tokens.error_at(self.tokens.starts[at], str(error.args[0])) from None
        return found

    def constructor(self, expectation: str) -> Constructor:
        """Reads the name of a constructor. Raises ParseError."""
        tokens = self.tokens
        if tokens.kind not in ("name", "string"):
            raise tokens.error(f"{expectation}, found {tokens.shown()}")
        found = self.constructors.get(tokens.text)
        if found is None:
            raise tokens.error(f"there is no constructor {tokens.shown()}")
        tokens.at += 1
        return found

"""Parses single-token expressions (variables, numbered expressions, operators, constructors, literals) and tracks names in scope."""

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
from passat.ir.virtual_devices import NOT_SUPPORTED

Hidden: TypeAlias = list[tuple[str, Var | None]]
"""Names declared by a scope, with their meaning outside the scope."""


class AtomReader:
    """Parses atoms and resolves names.

    `globals` and `constructors` are indexed by name. `first_uses` are the first uses of globals. `numbered` holds `%0`, `%1` ... of the
    current definition.
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
        """Returns the global variable of a name, used by token number `at`."""
        found = self.globals.get(name)
        if found is None:
            found = self.globals[name] = GlobalVar(name)
            self.first_uses[name] = self.tokens.starts[at]
        return found

    def variable(self, purpose: str) -> Var:
        """Reads a new variable with its type annotation. Raises ParseError."""
        at = self.tokens.at
        name = self.tokens.expect("local", purpose)
        if self.tokens.kind == "{" and self.tokens.texts[self.tokens.at + 1] == "virtual_device":
            raise self.tokens.error(NOT_SUPPORTED)
        return Var(name, self.types.read() if self.tokens.accept(":") else None, self.tokens.span(at))

    def declare(self, var: Var, hidden: Hidden) -> None:
        """Adds a variable to the scope and records what it shadows in `hidden`."""
        hidden.append((var.name_hint, self._variables.get(var.name_hint)))
        self._variables[var.name_hint] = var

    def forget(self, hidden: Hidden) -> None:
        """Ends a scope and restores the shadowed names."""
        for name, outer in reversed(hidden):
            if outer is None:
                del self._variables[name]
            else:
                self._variables[name] = outer

    def forget_all(self) -> None:
        """Ends all scopes that an error left open."""
        self._variables.clear()
        self.types.type_vars.clear()
        self._assumed.clear()

    def assume(self, start: int, until: int, hidden: Hidden) -> None:
        """Declares the undefined names in the tokens from `start` to `until`, so that each is reported only once."""
        tokens = self.tokens
        for kind, text in zip(tokens.kinds[start:until], tokens.texts[start:until], strict=True):
            if kind == "local" and text not in self._variables:
                self.declare(Var(text), hidden)
            elif kind == "graph":
                self.numbered.setdefault(text, Var("_"))
            elif kind == "global":
                self.first_uses.pop(text, None)  # not an error here, but possibly at a later use
                if self.globals.get(text) not in self.module.functions:
                    self.globals.pop(text, None)
            elif kind == "name" and tokens.kinds[start + 1] == "=":  # possibly a variable without its sigil
                self._assumed.add(text)
            start += 1

    def atom(self) -> Expr | None:
        """Reads an expression of one token; None if the next token starts a longer one. Raises ParseError."""
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
                raise tokens.error(f"the variable {tokens.shown()} is not defined here; declare free variables with free_var")
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
        """Reads a number after minus signs. Raises ParseError."""
        tokens = self.tokens
        negative = False
        while tokens.accept("-"):
            negative = not negative
        if tokens.kind != "number" and not (tokens.kind == "name" and tokens.text in SPECIAL):
            raise tokens.error(f"expected a number after the minus sign, found {tokens.shown()}")
        found = self._number(negative=negative)
        tokens.at += 1
        return found

    def op(self, name: str, at: int) -> Op:
        """Returns the operator of a name, used by token number `at`. Raises ParseError for an unknown name."""
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

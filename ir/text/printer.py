"""Prints expressions and modules in Relay's text format 0.0.5.

Programs are printed in graph normal form, so each node is printed once and parsing restores the sharing.

* Variables, operators, constructors and scalar constants are printed at every use.
* An expression with one use, as the value of a let or the result of a body, is printed at this use.
* Other expressions get a number, `%0 = ...;`, in the order of evaluation, in the innermost body that encloses all uses.
* Calls and constants of known type are followed by the comment `/* ty=... */`; scalars only in programs whose types have been inferred.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from passat.ir.attrs import Attrs
from passat.ir.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from passat.ir.module import IRModule, TypeData
from passat.ir.op import Op, find_op
from passat.ir.prim_func import PrimFunc
from passat.ir.scopes import Scope, Scopes
from passat.ir.text.attributes import show_attrs
from passat.ir.text.literals import EXPRESSION_WORDS, KEYWORDS, show_name, show_scalar, show_string, show_variable
from passat.ir.text.metadata import Encode, Metadata
from passat.ir.text.types import RESERVED, show_type, show_type_params
from passat.ir.traverse import evaluation_parts
from passat.ir.types import SHOWN, Type

VERSION: Final = "0.0.5"
OMITTED: Final = "/* Metadata section omitted; print it with astext(show_meta_data=True). */\n"
_INLINE: Final = (Var, Constant, GlobalVar, Op, Constructor)
_DEEPEST: Final = 40
"""Maximum level of indentation. Without a limit, the text would grow with the square of the nesting depth."""

Annotate = Callable[[Expr], str]
Piece: TypeAlias = "str | Iterator[Piece]"


def astext(obj: Expr | IRModule, show_meta_data: bool = True, annotate: Annotate | None = None, *, form: Encode | None = None) -> str:
    """Prints a module or expression so that `parse` or `parse_expr` reads it back.

    * Without `show_meta_data`, non-scalar constants are referred to but not listed, and lazy ones are not read.
    * `annotate` returns the comment after an expression, in place of its type.
    * `form` encodes constants of the metadata section, in place of `passat.ir.text.metadata.encode`.
    """
    return f'#[version = "{VERSION}"]\n{_print(obj, show_meta_data, annotate, form)}'


def pretty_print(obj: Expr | IRModule) -> str:
    """Prints a module or expression for display, without version and metadata."""
    return _print(obj, False, None).rstrip("\n")


def _print(node: Expr | IRModule, show_meta_data: bool, annotate: Annotate | None, form: Encode | None = None) -> str:
    meta = Metadata(form)
    if isinstance(node, IRModule):
        parts = [show_type_data(data) for data in node.type_definitions.values()]
        for var, function in node.functions.items():
            if isinstance(function, PrimFunc):
                parts.append(f"/* {_uncommented(show_prim_func(function, var.name_hint))}; a {type(function).__name__}, not Relay */\n")
            else:
                parts.append(ExprPrinter(function, meta, annotate).definition(var))
    else:
        parts = [ExprPrinter(node, meta, annotate).expression()]
    if meta:
        parts += [] if isinstance(node, IRModule) else [""]
        parts.append(meta.astext() if show_meta_data else OMITTED)
    return "\n".join(parts)


def show_prim_func(function: PrimFunc, name: str) -> str:
    """Describes a function of another back end. It has no text form, so modules print it as a comment."""
    text = function.text()
    if text is not None:
        return f"{show_variable(name)} = {text}"
    meta = Metadata()
    params = [
        f"%{show_variable(param.name_hint)}" + (f": {show_type(param.type_annotation)}" if param.type_annotation is not None else "")
        for param in function.params
    ]
    attrs = Attrs({key: value for key, value in function.attrs.items() if key != "global_symbol"})
    returned = f" -> {show_type(function.ret_type)}" if function.ret_type is not None else ""
    return f"primfn @{show_variable(name)}({', '.join([*params, *show_attrs(None, attrs, meta)])}){returned}"


def _uncommented(text: str) -> str:
    return text.replace("*/", "* /").replace("/*", "/ *")


def show_type_data(data: TypeData) -> str:
    """Prints a type definition of a module."""
    header = f"type {show_name(data.header.name, RESERVED)}{show_type_params(data.type_vars)}"
    if not data.constructors:
        return f"extern {header}\n"
    lines = []
    for made in data.constructors:
        fields = f"({', '.join(map(show_type, made.inputs))})" if made.inputs else ""
        lines.append(f"  {_bare_name(made) or show_string(made.name_hint)}{fields},\n")
    return f"{header} {{\n{''.join(lines)}}}\n"


def _bare_name(made: Constructor) -> str:
    """The name of a constructor if it needs no quotes; empty if quotes are needed."""
    name = made.name_hint
    return name if name not in EXPRESSION_WORDS and show_name(name, KEYWORDS) == name and find_op(name) is None else ""


class ExprPrinter:
    """Prints one expression. Names are made unique by appending numbers."""

    def __init__(self, root: Expr, meta: Metadata, annotate: Annotate | None) -> None:
        self._root = root
        self._meta = meta
        self._annotate = annotate
        self._scopes = Scopes(root)
        self._names: dict[Var, str] = {}
        self._taken: dict[str, int] = {}
        self._types: dict[Type, str] = {}
        self._notes: dict[Type, str] = {}
        self._numbers: dict[Expr, str] = {}
        self._statements: dict[Scope, list[Expr]] = {}
        self._plan()

    def _plan(self) -> None:
        """Assigns numbers to expressions that are not printed inline, and collects the numbered expressions and free variables of each
        scope."""
        uses: dict[Expr, int] = {}
        tails: set[Expr] = {self._root}
        for node in self._scopes.order:
            for part in evaluation_parts(node):
                uses[part] = uses.get(part, 0) + 1
            if isinstance(node, Let):
                tails.update((node.value, node.body))
            elif isinstance(node, Function):
                tails.add(node.body)
            elif isinstance(node, If):
                tails.update((node.true_branch, node.false_branch))
            elif isinstance(node, Match):
                tails.update(clause.rhs for clause in node.clauses)
        for node in self._scopes.order:
            if isinstance(node, Var):
                if node not in self._scopes.binders:
                    self._statements.setdefault(self._scopes.root, []).append(node)
            elif not isinstance(node, _INLINE) and not (node in tails and uses.get(node, 0) <= 1):
                self._numbers[node] = f"%{len(self._numbers)}"
                self._statements.setdefault(self._scopes.place(node), []).append(node)

    def expression(self) -> str:
        """The text of the expression, without a trailing line feed."""
        return _join(self._body(self._scopes.root, self._root, 0))

    def definition(self, var: GlobalVar) -> str:
        """The text of the expression, which is a function, as the definition of a module function."""
        assert isinstance(self._root, Function)
        return _join(self._function(self._root, f"def @{show_variable(var.name_hint)}", 0)) + "\n"

    def _body(self, scope: Scope, result: Expr, depth: int) -> Iterator["Piece"]:
        """The statements of a scope and its result, without a trailing line feed."""
        yield self._listed(scope, depth)
        if isinstance(result, Let) and result not in self._numbers:
            yield self._lets(result, depth)
        else:
            yield self._indent(depth)
            yield self._inline(result, depth)

    def _listed(self, scope: Scope, depth: int) -> Iterator["Piece"]:
        """The free variables and numbered expressions of a scope."""
        for node in self._statements.get(scope, ()):
            if isinstance(node, Var):
                yield f"{self._indent(depth)}free_var {self._bound(node)};\n"
                continue
            yield f"{self._indent(depth)}{self._numbers[node]} = "
            yield self._whole(node, depth)
            yield ";\n"

    def _lets(self, first: Let, depth: int) -> Iterator["Piece"]:
        """A chain of lets and its result."""
        result: Expr = first
        while isinstance(result, Let) and (result is first or result not in self._numbers):
            value, body = self._scopes.inner[result]
            if value is not self._scopes.place(result):
                yield self._listed(value, depth)
            yield f"{self._indent(depth)}let {self._bound(result.var)} = "
            yield self._inline(result.value, depth)
            yield ";\n"
            yield self._listed(body, depth)
            result = result.body
        yield self._indent(depth)
        yield self._inline(result, depth)

    @staticmethod
    def _indent(depth: int) -> str:
        return "  " * min(depth, _DEEPEST)

    def _inline(self, node: Expr, depth: int) -> Iterator["Piece"]:
        """An expression in a position that allows any expression."""
        if node in self._numbers or isinstance(node, _INLINE):
            yield self._leaf(node)
        else:
            yield self._whole(node, depth)

    def _block(self, scope: Scope, result: Expr, depth: int) -> Iterator["Piece"]:
        yield "{\n"
        yield self._body(scope, result, depth + 1)
        yield f"\n{self._indent(depth)}}}"

    def _leaf(self, node: Expr) -> str:
        """An expression printed inline, or its number."""
        if isinstance(node, Var):
            return f"%{self._name(node)}"
        if isinstance(node, Constant):
            return (show_scalar(node.data) or self._meta.refer(node.data)) + self._note(node)
        if isinstance(node, Op):
            return show_name(node.name, KEYWORDS)
        if isinstance(node, GlobalVar):
            return f"@{show_variable(node.name_hint)}"
        if isinstance(node, Constructor):
            name = _bare_name(node)
            return name if name and node.inputs else f"constructor({name or show_string(node.name_hint)})"
        return self._numbers[node]

    def _whole(self, node: Expr, depth: int) -> Iterator["Piece"]:
        """An expression in full, with its parts printed inline or by number."""
        leaf = self._leaf
        if isinstance(node, Call):
            yield self._call(node)
        elif isinstance(node, Tuple):
            yield f"({', '.join(map(leaf, node.fields))}{',' if len(node.fields) == 1 else ''})"
        elif isinstance(node, TupleGetItem):
            yield f"{leaf(node.tuple_value)}.{node.index}"
        elif isinstance(node, Function):
            yield self._function(node, "fn ", depth)
        elif isinstance(node, Let):
            yield "{\n"
            yield self._lets(node, depth + 1)
            yield f"\n{self._indent(depth)}}}"
        elif isinstance(node, If):
            then, other = self._scopes.inner[node]
            yield f"if ({leaf(node.cond)}) "
            yield self._block(then, node.true_branch, depth)
            yield " else "
            yield self._block(other, node.false_branch, depth)
        elif isinstance(node, Match):
            yield f"match{'' if node.complete else '?'} ({leaf(node.data)}) {{\n"
            for clause, arm in zip(node.clauses, self._scopes.inner[node], strict=True):
                yield f"{self._indent(depth + 1)}{self._pattern(clause.lhs)} => "
                yield self._block(arm, clause.rhs, depth + 1)
                yield ",\n"
            yield f"{self._indent(depth)}}}"
        elif isinstance(node, RefCreate):
            yield f"ref({leaf(node.value)})"
        elif isinstance(node, RefRead):
            yield f"ref_read({leaf(node.ref)})"
        elif isinstance(node, RefWrite):
            yield f"ref_write({leaf(node.ref)}, {leaf(node.value)})"
        else:
            raise TypeError(f"{type(node).__name__} cannot be printed in the text format")
        yield self._note(node)

    def _call(self, node: Call) -> str:
        callee = node.op
        parts = [*map(self._leaf, node.args), *show_attrs(callee, node.attrs, self._meta)]
        if isinstance(callee, Constructor) and not callee.inputs and not parts and _bare_name(callee):
            return _bare_name(callee)  # a constructor without fields is printed as its only value
        types = show_type_params(node._type_args) if not isinstance(callee, Op) else ""
        return f"{self._leaf(callee)}{types}({', '.join(parts)})"

    def _function(self, node: Function, head: str, depth: int) -> Iterator["Piece"]:
        parts = [*map(self._bound, node.params), *show_attrs(None, node.attrs, self._meta)]
        returned = f" -> {self._type(node.ret_type)}" if node.ret_type is not None else ""
        yield f"{head}{show_type_params(node.type_params)}({', '.join(parts)}){returned} "
        yield self._block(self._scopes.inner[node][0], node.body, depth)

    def _pattern(self, pattern: Pattern) -> str:
        if isinstance(pattern, PatternVar):
            return self._bound(pattern.var)
        if isinstance(pattern, PatternConstructor):
            fields = ", ".join(map(self._pattern, pattern.patterns))
            return (_bare_name(pattern.constructor) or show_string(pattern.constructor.name_hint)) + (f"({fields})" if fields else "")
        if isinstance(pattern, PatternTuple):
            return f"({', '.join(map(self._pattern, pattern.patterns))}{',' if len(pattern.patterns) == 1 else ''})"
        return "_"

    def _bound(self, var: Var) -> str:
        """The binding of a variable: its name, with its type annotation."""
        return f"%{self._name(var)}" + (f": {self._type(var.type_annotation)}" if var.type_annotation is not None else "")

    def _name(self, var: Var) -> str:
        name = self._names.get(var)
        if name is None:
            hint = name = var.name_hint
            number = self._taken.get(hint, 0)
            while name in self._taken:
                number += 1
                name = f"{hint}{number}"
            self._taken[hint] = number
            self._taken.setdefault(name, 0)
            name = self._names[var] = show_variable(name)
        return name

    def _type(self, type_: Type) -> str:
        text = self._types.get(type_)
        if text is None:
            text = self._types[type_] = show_type(type_)
        return text

    def _note(self, node: Expr) -> str:
        """The comment after an expression that is printed in full."""
        if self._annotate is not None:
            text = self._annotate(node)
            return f" {text}" if text else ""
        if node._checked_type is None or not isinstance(node, (Call, Constant)):
            return ""
        if isinstance(node, Constant) and not node.data.shape and (node is self._root or self._root._checked_type is None):
            return ""  # the suffix gives the type; in an inferred program every type is printed
        note = self._notes.get(node._checked_type)
        if note is None:
            note = self._notes[node._checked_type] = f" /* ty={_uncommented(show_type(node._checked_type, SHOWN))} */"
        return note


def _join(root: Iterator["Piece"]) -> str:
    """Joins nested pieces with an explicit stack."""
    out: list[str] = []
    stack = [root]
    while stack:
        for piece in stack[-1]:
            if isinstance(piece, str):
                out.append(piece)
            else:
                stack.append(piece)
                break
        else:
            stack.pop()
    return "".join(out)

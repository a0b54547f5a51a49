"""Flat encoding of expressions and modules for pickling and copying at any depth.

An encoding is a list of nodes, operands first. Each node is a few integers: its kind, indices of its type and span, and the indices of its
parts. Variables, operators, constructors, tensors and attributes are kept in a separate list of objects. Splats and lazy tensors are not
expanded; the elements of dense tensors are out-of-band buffers in pickle protocol 5. Sharing, spans and inferred types are preserved.
"""

import copyreg
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any as AnyValue
from typing import Final, NamedTuple, TypeVar, cast

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.expr import (
    BaseFunc,
    Call,
    Clause,
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
from passat.ir.traverse import children, post_order
from passat.ir.types import Type

_KINDS: Final[tuple[type[Expr], ...]] = (
    Expr,  # a leaf, which is stored in the list of objects
    Call,
    Constant,
    Tuple,
    TupleGetItem,
    Function,
    Let,
    If,
    RefCreate,
    RefRead,
    RefWrite,
    Match,
)
_CODES: Final = {kind: code for code, kind in enumerate(_KINDS) if code}
_LEAF, _CALL, _CONSTANT, _TUPLE, _ITEM, _FUNCTION, _LET, _IF, _NEW, _READ, _WRITE, _MATCH = range(len(_KINDS))
_WILDCARD, _BINDING, _MADE, _FIELDS = range(4)
_NONE: Final = -1
_E = TypeVar("_E", bound=Expr)


class Encoded(NamedTuple):
    """Encoded expressions; `roots` are the indices of the encoded expressions."""

    codes: bytes
    objects: list[AnyValue]
    types: list[Type]
    spans: list[Span]
    roots: list[int]


def numbering(*roots: Expr) -> list[Expr]:
    """Returns all nodes in encoding order, including variables and constructors of match patterns."""
    return post_order(*roots, parts_of=_parts)


def encode(*roots: Expr) -> Encoded:
    """Encodes expressions.

    >>> from passat.ir.expr import var
    >>> x = var("x", shape=(2,))
    >>> [type(node).__name__ for node in decode(encode(x + x))]
    ['Op', 'Var', 'Call']
    """
    order = numbering(*roots)
    numbers = {id(node): number for number, node in enumerate(order)}
    writer = _Writer(numbers)
    for node in order:
        writer.write(node)
    codes = array("i", writer.codes).tobytes()
    return Encoded(codes, writer.objects, list(writer.types), writer.spans, [numbers[id(root)] for root in roots])


def decode(encoded: Encoded) -> list[Expr]:
    """Decodes all nodes, in encoding order."""
    codes = array("i")
    codes.frombytes(encoded.codes)
    order: list[Expr] = []
    reader = _Reader(iter(codes), encoded, order)
    for kind in reader.next:
        node_type, span = next(reader.next), next(reader.next)
        node = _READERS[kind](reader, None if span == _NONE else encoded.spans[span])
        if kind != _LEAF:
            node._checked_type = None if node_type == _NONE else encoded.types[node_type]
        order.append(node)
    return order


class ModuleState(NamedTuple):
    """An encoded module. The roots are its global variables, followed by its functions."""

    encoded: Encoded
    type_definitions: AnyValue
    attrs: dict[str, AnyValue]


def module_state(mod: IRModule) -> ModuleState:
    """Encodes a module."""
    return ModuleState(encode(*mod.functions, *mod.functions.values()), mod.type_definitions, mod.attrs)


def restore_module(cls: type[IRModule], state: ModuleState) -> IRModule:
    """Decodes a module from `module_state`; called by unpickling."""
    order = decode(state.encoded)
    roots = [order[root] for root in state.encoded.roots]
    half = len(roots) // 2
    mod = cls(type_definitions=state.type_definitions, attrs=state.attrs)
    mod.functions = dict(zip(cast("list[GlobalVar]", roots[:half]), cast("list[BaseFunc]", roots[half:]), strict=True))
    return mod


def reduced(expr: Expr) -> tuple[AnyValue, ...]:
    """Implements `__reduce__` of expressions, for `pickle` and `copy.deepcopy`.

    Nodes shared by two expressions become two nodes when both are copied separately (except variables and other leaves). Encode them
    together, in a module or a Tuple, to preserve sharing.
    """
    if type(expr) in _CODES:
        return (_root, (encode(expr),))
    if type(expr) is Var:
        return (_variable, (expr.name_hint, expr.type_annotation, expr._checked_type, expr.span))
    return (copyreg.__newobj__, (type(expr),), object.__getstate__(expr))  # type: ignore[attr-defined]  # typeshed lacks __newobj__


def shallow_copy(expr: _E) -> _E:
    """Returns a new node with the same content; implements `copy.copy`."""
    made = object.__new__(type(expr))
    state = object.__getstate__(expr)
    for values in state if isinstance(state, tuple) else (state,):
        for name, value in (values or {}).items():
            setattr(made, name, value)
    return made


def _root(encoded: Encoded) -> Expr:
    return decode(encoded)[encoded.roots[0]]


def _variable(name: str, annotation: Type | None, type_: Type | None, span: Span | None) -> Var:
    made = Var(name, annotation, span)
    made._checked_type = type_
    return made


def _parts(expr: Expr) -> Sequence[Expr]:
    """The direct parts of an expression; for a match, also the variables and constructors in its patterns."""
    if type(expr) is not Match:
        return children(expr)
    named: list[Expr] = []
    for clause in expr.clauses:
        stack = [clause.lhs]
        while stack:
            pattern = stack.pop()
            if isinstance(pattern, PatternVar):
                named.append(pattern.var)
            elif isinstance(pattern, PatternConstructor):
                named.append(pattern.constructor)
            if isinstance(pattern, (PatternConstructor, PatternTuple)):
                stack.extend(pattern.patterns)
    return (*children(expr), *named)


class _Writer:
    """Encodes nodes as integers. Types are deduplicated by value; spans and objects by identity, as equal spans may refer to different
    texts."""

    def __init__(self, numbers: dict[int, int]) -> None:
        self.numbers = numbers
        self.codes: list[int] = []
        self.objects: list[AnyValue] = []
        self.types: dict[Type, int] = {}
        self.spans: list[Span] = []
        self._known: dict[int, int] = {}
        self._spans: dict[int, int] = {}

    def write(self, node: Expr) -> None:
        """Appends a node whose parts have indices."""
        kind = _CODES.get(type(node), _LEAF)
        span = node.span
        self.codes += (kind, self.type(node._checked_type), _NONE if span is None else self.span(span))
        if kind == _LEAF:
            self.codes.append(self.object(node))
        elif isinstance(node, Call):
            self.codes += (self.object(node.attrs) if node.attrs else _NONE, self.object(node._type_args) if node._type_args else _NONE)
            self.parts((node.op, *node.args))
        elif isinstance(node, Constant):
            self.codes.append(self.object(node.data))
        elif isinstance(node, TupleGetItem):
            self.codes += (self.numbers[id(node.tuple_value)], node.index)
        elif isinstance(node, Function):
            type_params = self.object(node.type_params) if node.type_params else _NONE
            self.codes += (self.object(node.attrs) if node.attrs else _NONE, self.type(node.ret_type), type_params)
            self.parts((*node.params, node.body))
        elif isinstance(node, Match):
            self.codes += (self.numbers[id(node.data)], node.complete, len(node.clauses))
            for clause in node.clauses:
                self.pattern(clause.lhs)
                self.codes.append(self.numbers[id(clause.rhs)])
        else:
            self.parts(children(node))

    def parts(self, parts: Sequence[Expr]) -> None:
        """Appends the number of parts and their indices."""
        numbers = self.numbers
        self.codes.append(len(parts))
        self.codes += [numbers[id(part)] for part in parts]

    def pattern(self, root: Pattern) -> None:
        """Appends a pattern in pre-order."""
        stack = [root]
        while stack:
            pattern = stack.pop()
            if isinstance(pattern, PatternVar):
                self.codes += (_BINDING, self.numbers[id(pattern.var)])
            elif isinstance(pattern, PatternConstructor):
                self.codes += (_MADE, self.numbers[id(pattern.constructor)], len(pattern.patterns))
                stack.extend(reversed(pattern.patterns))
            elif isinstance(pattern, PatternTuple):
                self.codes += (_FIELDS, len(pattern.patterns))
                stack.extend(reversed(pattern.patterns))
            else:
                self.codes.append(_WILDCARD)

    def type(self, type_: Type | None) -> int:
        """The index of a type."""
        return _NONE if type_ is None else self.types.setdefault(type_, len(self.types))

    def object(self, value: object) -> int:
        """The index of an object."""
        number = self._known.setdefault(id(value), len(self.objects))
        if number == len(self.objects):
            self.objects.append(value)
        return number

    def span(self, span: Span) -> int:
        """The index of a span."""
        number = self._spans.setdefault(id(span), len(self.spans))
        if number == len(self.spans):
            self.spans.append(span)
        return number


class _Reader:
    """Decodes the output of `_Writer`."""

    def __init__(self, codes: Iterator[int], encoded: Encoded, order: list[Expr]) -> None:
        self.next = codes
        self.objects = encoded.objects
        self.types = encoded.types
        self.order = order

    def parts(self) -> list[Expr]:
        order, codes = self.order, self.next
        return [order[next(codes)] for _ in range(next(codes))]

    def part(self) -> Expr:
        return self.order[next(self.next)]

    def object(self) -> AnyValue:
        number = next(self.next)
        return None if number == _NONE else self.objects[number]

    def attrs(self) -> Attrs:
        return self.object() or EMPTY_ATTRS

    def type(self) -> Type | None:
        number = next(self.next)
        return None if number == _NONE else self.types[number]

    def leaf(self, span: Span | None) -> Expr:
        return self.object()  # type: ignore[no-any-return]  # the writer put a leaf there

    def call(self, span: Span | None) -> Expr:
        attrs, type_args = self.attrs(), self.object() or ()
        op, *args = self.parts()
        return Call(op, args, attrs, type_args, span)

    def constant(self, span: Span | None) -> Expr:
        return Constant(self.object(), span)

    def item(self, span: Span | None) -> Expr:
        return TupleGetItem(self.part(), next(self.next), span)

    def function(self, span: Span | None) -> Expr:
        attrs, ret_type, type_params = self.attrs(), self.type(), self.object() or ()
        *params, body = self.parts()
        return Function(cast("list[Var]", params), body, ret_type, type_params, attrs, span)

    def match(self, span: Span | None) -> Expr:
        data, complete = self.part(), bool(next(self.next))
        clauses = []
        for _ in range(next(self.next)):
            lhs = self.pattern()
            clauses.append(Clause(lhs, self.part()))
        return Match(data, clauses, complete, span)

    def pattern(self) -> Pattern:
        """Decodes a pattern from pre-order."""
        begun: list[tuple[int, Constructor | None, list[Pattern]]] = []
        while True:
            kind = next(self.next)
            done: Pattern | None = None
            if kind == _WILDCARD:
                done = PatternWildcard()
            elif kind == _BINDING:
                done = PatternVar(cast(Var, self.part()))
            else:
                constructor = cast(Constructor, self.part()) if kind == _MADE else None
                begun.append((next(self.next), constructor, []))
            while begun and (done is not None or begun[-1][0] == len(begun[-1][2])):
                count, constructor, parts = begun[-1]
                if done is not None:
                    parts.append(done)
                    done = None
                if len(parts) == count:
                    begun.pop()
                    done = PatternTuple(parts) if constructor is None else PatternConstructor(constructor, parts)
                    if not begun:
                        return done
                else:
                    break
            if done is not None:
                return done


def _of_parts(make: Callable[..., Expr]) -> Callable[[_Reader, Span | None], Expr]:
    return lambda reader, span: make(*reader.parts(), span)


_READERS: Final[tuple[Callable[[_Reader, Span | None], Expr], ...]] = (
    _Reader.leaf,
    _Reader.call,
    _Reader.constant,
    lambda reader, span: Tuple(reader.parts(), span),
    _Reader.item,
    _Reader.function,
    _of_parts(Let),
    _of_parts(If),
    _of_parts(RefCreate),
    _of_parts(RefRead),
    _of_parts(RefWrite),
    _Reader.match,
)

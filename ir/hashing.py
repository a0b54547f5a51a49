"""Structural hashing, consistent with `passat.ir.equality.structural_equal` and stable across runs."""

from functools import lru_cache
from hashlib import blake2b
from typing import Final, TypeAlias

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.expr import (
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Let,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    Tuple,
    TupleGetItem,
    Var,
)
from passat.ir.module import IRModule, TypeData
from passat.ir.op import Op
from passat.ir.prim_func import PrimFunc
from passat.ir.tensor import Tensor
from passat.ir.tir.equality import digest
from passat.ir.tir.node import Node
from passat.ir.traverse import children, evaluation_parts, pattern_vars, post_order
from passat.ir.types import (
    EnvFunc,
    GlobalTypeVar,
    IncompleteType,
    TensorType,
    Type,
    TypeVar,
    type_parts,
)
from passat.ir.walks import parts_first

Comparable: TypeAlias = Expr | IRModule | Type | Pattern | Clause | TypeData | Attrs | Node | dict[str, object] | EnvFunc
"""Values that can be compared and hashed."""
_NOTHING: Final = Tuple([])
_FREE: Final = 0x5EED
_HASHED_BYTES: Final = 1024
_BINDERS: Final = frozenset({Function, Let, Match})


def structural_hash(node: Comparable, map_free_vars: bool = False) -> int:
    """Hashes a program independently of the names of bound variables, of spans, and of the sharing of equal parts.

    Free variables hash by identity, so the hash is only valid in this process; with `map_free_vars=True` all free variables hash alike. A
    bound variable hashes by its binding: its position among the parameters, or the value of its let. This does not depend on the context in
    which a shared part occurs. Programs that differ only in which of two nested functions a parameter belongs to have the same hash.
    """
    if isinstance(node, TypeVar) and not map_free_vars:
        return hash((_type(node), _text(node.name)))
    if isinstance(node, Type):
        return _type(node)
    if isinstance(node, IRModule):
        functions = sorted((var.name_hint, structural_hash(function, map_free_vars)) for var, function in node.functions.items())
        types = sorted(map(_definition, node.type_definitions.values()))
        return _text(repr((functions, types)))
    if isinstance(node, TypeData):
        return _text(repr(_definition(node)))
    if isinstance(node, Attrs):
        return _attrs(node)
    if isinstance(node, (Node, dict, EnvFunc)):
        return digest(node, map_free_vars)
    return _expression(whole(node), map_free_vars)


def whole(node: Comparable) -> Expr:
    """Returns an expression unchanged, and wraps a clause or pattern in a match. Raises TypeError for values that cannot be compared."""
    if isinstance(node, Pattern):
        node = Clause(node, _NOTHING)
    if isinstance(node, Clause):
        return Match(_NOTHING, [node])
    if not isinstance(node, Expr):
        tensor = getattr(node, "tensor", None)  # that of an array of the runtime
        if isinstance(tensor, Tensor):
            return Constant(tensor)
        raise TypeError(f"a {type(node).__name__} cannot be compared; expressions, modules, types, patterns, clauses and attributes can")
    return node


def parameter_type(var: Var) -> Type | None:
    """The declared type of a parameter; without one, the inferred type, which Relay's InferType declares."""
    inferred = None if isinstance(var._checked_type, IncompleteType) else var._checked_type
    return var.type_annotation or inferred


def _definition(data: TypeData) -> tuple[str, list[int], list[str]]:
    return data.header.name, [int(var.kind) for var in data.type_vars], [made.name_hint for made in data.constructors]


def _expression(root: Expr, map_free_vars: bool) -> int:
    order = post_order(root, parts_of=evaluation_parts)
    known: dict[Expr, int] = {}
    lets: dict[Var, Let] = {}
    for node in [node for node in order if type(node) in _BINDERS]:
        if isinstance(node, Function):
            known.update((var, hash((_text("param"), i, _optional(parameter_type(var))))) for i, var in enumerate(node.params))
        elif isinstance(node, Let):
            lets.setdefault(node.var, node)  # copied lets bind the same variable several times; the outermost one wins
        elif isinstance(node, Match):
            for clause in node.clauses:
                bound = enumerate(pattern_vars(clause.lhs))
                known.update((var, hash((_text("pattern"), i, _optional(var.type_annotation)))) for i, var in bound)
    for node in order:
        if isinstance(node, Call):  # most nodes; one long tuple of parts would take twice the time
            value = ~known[node.op]  # a call without arguments is not its callee
            if node.attrs is not EMPTY_ATTRS or node._type_args:
                value = hash((value, content)) if (content := _content(node)) else value
            for arg in node.args:
                value = hash((value, known[arg]))
            known[node] = value
        elif not isinstance(node, Var):
            known[node] = hash((_text(type(node).__name__), _content(node), *[known[part] for part in children(node)]))
        elif node not in known:
            annotation = _optional(node.type_annotation)
            let = lets.get(node)
            if let is None:
                known[node] = hash((_FREE, annotation if map_free_vars else id(node)))
            else:  # a value not hashed yet is the recursive function that contains this use
                known[node] = hash((_text("let"), annotation, known.get(let.value, 0)))
    return known[root]


def _content(node: Expr) -> int:
    """The content of a node itself, without its parts and without the names it binds."""
    if isinstance(node, Call):
        types = () if isinstance(node.op, Op) else node._type_args
        return hash((_attrs(node.attrs), *map(_type, types))) if types else _attrs(node.attrs)
    if isinstance(node, TupleGetItem):
        return node.index
    if isinstance(node, Constant):
        data = node.data  # large constants hash by type, so that lazy ones need not be read
        return _text(repr(data.content_key() if data.nbytes <= _HASHED_BYTES else (data.dtype, data.shape)))
    if isinstance(node, Function):
        return hash((_attrs(node.attrs), len(node.type_params)))  # a declared result may equal an inferred one
    if isinstance(node, Match):
        return hash((node.complete, *(_pattern(clause.lhs) for clause in node.clauses)))
    if isinstance(node, Op):
        return _text(node.name)
    if isinstance(node, PrimFunc):
        return hash((_attrs(node.attrs), _type(node.checked_type), node.body_hash()))
    return _text(node.name_hint) if isinstance(node, (GlobalVar, Constructor)) else 0


def _pattern(pattern: Pattern) -> int:
    if isinstance(pattern, PatternConstructor):
        return hash((_text(pattern.constructor.name_hint), *map(_pattern, pattern.patterns)))
    if isinstance(pattern, PatternTuple):
        return hash((_text("tuple"), *map(_pattern, pattern.patterns)))
    return _text(type(pattern).__name__)


def _optional(type_: Type | None) -> int:
    return 0 if type_ is None else _type(type_)


@lru_cache(10_000)
def _type(type_: Type) -> int:
    """Hashes a type. All type parameters hash alike."""
    known: dict[Type, int] = {}
    for part in parts_first([type_], type_parts):
        if isinstance(part, TensorType):
            known[part] = _text(repr(part))
        else:
            name = part.name if isinstance(part, GlobalTypeVar) else ""
            kind = int(part.kind) if isinstance(part, (GlobalTypeVar, TypeVar, IncompleteType)) else 0
            known[part] = hash((_text(type(part).__name__), _text(name), kind, *[known[inner] for inner in type_parts(part)]))
    return known[type_]


@lru_cache(10_000)
def _attrs(attrs: Attrs) -> int:
    """Hashes attributes. Maps, which may hold variables and expressions, hash by their size."""
    if not any(isinstance(value, dict) for value in attrs.values()):
        return _text(repr(attrs.key)) if attrs else 0
    return _attrs(Attrs({name: len(value) if isinstance(value, dict) else value for name, value in attrs.items()}))


@lru_cache(10_000)
def _text(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())

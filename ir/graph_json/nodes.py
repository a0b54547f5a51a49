"""The kinds of nodes: their type keys, and how nodes are made from fields. Type keys are TVM's."""

from collections.abc import Callable, Mapping
from typing import Any as AnyValue
from typing import Final, TypeVar

from passat.ir.attrs import Attrs
from passat.ir.dtypes import NAMES
from passat.ir.expr import (
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
from passat.ir.module import IRModule, TypeData
from passat.ir.op import Op
from passat.ir.passat_error import PassatError
from passat.ir.shape import Any, SymDim
from passat.ir.similar_names import did_you_mean
from passat.ir.tensor import Tensor
from passat.ir.types import (
    EnvFunc,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeKind,
    TypeRelation,
)
from passat.ir.types import TypeVar as TypeParam

T = TypeVar("T")
DIMENSIONS: Final = frozenset(("Var", "SizeVar", "Any", "Add", "Sub", "Mul", "FloorDiv", "FloorMod", "Min", "Max"))
"""The TIR nodes that dimensions consist of."""


class JSONError(PassatError, ValueError, RuntimeError):
    """Text or fields do not describe a program in TVM's JSON. The message names the node."""


class Id:
    """The identity of a variable (`relay.Id`): variables with the same identity are the same variable."""

    __slots__ = ("name_hint", "var")

    def __init__(self, name_hint: str) -> None:
        self.name_hint = name_hint
        self.var: Var | None = None


class Fields:
    """The fields of a node by name, with checks of their types."""

    def __init__(self, type_key: str, values: Mapping[str, AnyValue]) -> None:
        self.type_key = type_key
        self.values = values
        self.read: set[str] = set()

    def get(self, name: str, otherwise: AnyValue = None) -> AnyValue:
        """A field, without a check."""
        self.read.add(name)
        return self.values.get(name, otherwise)

    def of(self, name: str, kind: type[T]) -> T:
        """A field that is a value of a class. Raises JSONError for anything else."""
        found = self.get(name)
        if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
            shown = "nothing" if found is None else f"a {type(found).__name__}"
            raise JSONError(f"the field {name!r} of {self.type_key} is {shown}, but must be a {kind.__name__}")
        return found

    def maybe(self, name: str, kind: type[T]) -> T | None:
        """A field that may be absent or null."""
        return None if self.get(name) is None else self.of(name, kind)

    def all(self, name: str, kind: type[T]) -> tuple[T, ...]:
        """A field that is an array, of values of a class. An absent or null one is empty."""
        found = self.get(name)
        if not isinstance(found, (tuple, list, type(None))) or not all(isinstance(part, kind) for part in found or ()):
            raise JSONError(f"the field {name!r} of {self.type_key} must be an array of {kind.__name__}")
        return tuple(found or ())

    def mapping(self, name: str) -> dict[AnyValue, AnyValue]:
        """A field that is a map. An absent or null one is empty."""
        return dict(self.maybe(name, dict) or {})


Maker = Callable[[Fields], AnyValue]


def _var(fields: Fields) -> Var:
    identity, annotation, span = fields.maybe("vid", Id), fields.maybe("type_annotation", Type), fields.maybe("span", Span)
    if identity is None:
        return Var(fields.of("name_hint", str), annotation, span)
    if identity.var is None:
        identity.var = Var(identity.name_hint, annotation, span)
    return identity.var


def _constant(fields: Fields) -> Constant:
    return Constant(fields.of("data", Tensor), fields.maybe("span", Span))


def _name(fields: Fields) -> str:
    found = fields.get("name_hint", fields.get("var"))
    if isinstance(found, SymDim):  # versions before 0.7 name a type parameter by a variable
        return str(found)
    return fields.of("name_hint", str)


def _kind(fields: Fields, usual: TypeKind) -> int:
    try:
        return TypeKind(fields.get("kind", usual))
    except ValueError:
        raise JSONError(f"{fields.values['kind']!r:.80} is not the number of a kind of types") from None


def _call(fields: Fields) -> Call:
    op, attrs = fields.of("op", Expr), fields.maybe("attrs", Attrs)
    if isinstance(op, Op):
        attrs = op.bind_attrs(attrs or {})
    return Call(op, fields.all("args", Expr), attrs, fields.all("type_args", Type), fields.maybe("span", Span))


def _function(fields: Fields) -> Function:
    return Function(
        fields.all("params", Var),
        fields.of("body", Expr),
        fields.maybe("ret_type", Type),
        fields.all("type_params", Type),
        fields.maybe("attrs", Attrs),
        fields.maybe("span", Span),
    )


def _constructor(fields: Fields) -> Constructor:
    return Constructor(fields.of("name_hint", str), fields.all("inputs", Type), fields.of("belong_to", Type), fields.of("tag", int))


def _tensor_type(fields: Fields) -> TensorType:
    shape = fields.get("shape", ())
    if not isinstance(shape, (tuple, list)) or not all(isinstance(dim, (SymDim, Any)) or (type(dim) is int and dim >= 0) for dim in shape):
        raise JSONError("the shape of a tensor type must be an array of dimensions")
    dtype = fields.of("dtype", str)
    if dtype not in NAMES:
        raise JSONError(f"there is no element type {dtype!r:.80}")
    return TensorType(shape, dtype)


def _span(fields: Fields) -> Span:
    places = (fields.get(name, 0) for name in ("line", "end_line", "column", "end_column"))
    return Span(fields.maybe("source_name", str), *places)


def _module(fields: Fields) -> IRModule:
    functions, types = fields.mapping("functions"), fields.mapping("type_definitions")
    if not all(isinstance(name, GlobalVar) and isinstance(function, Function) for name, function in functions.items()):
        raise JSONError("the functions of a module must be a map from GlobalVar to Function")
    if not all(isinstance(name, GlobalTypeVar) and isinstance(data, TypeData) for name, data in types.items()):
        raise JSONError("the type definitions of a module must be a map from GlobalTypeVar to TypeData")
    return IRModule(functions, types, fields.maybe("attrs", Attrs))


MAKERS: Final[dict[str, Maker]] = {
    "Var": _var,
    "Id": lambda f: Id(f.of("name_hint", str)),
    "GlobalVar": lambda f: GlobalVar(f.of("name_hint", str), None, f.maybe("span", Span)),
    "Constant": _constant,
    "Tuple": lambda f: Tuple(f.all("fields", Expr), f.maybe("span", Span)),
    "TupleGetItem": lambda f: TupleGetItem(f.of("tuple_value", Expr), f.of("index", int), f.maybe("span", Span)),
    "Call": _call,
    "Function": _function,
    "Let": lambda f: Let(f.of("var", Var), f.of("value", Expr), f.of("body", Expr), f.maybe("span", Span)),
    "If": lambda f: If(f.of("cond", Expr), f.of("true_branch", Expr), f.of("false_branch", Expr), f.maybe("span", Span)),
    "RefCreate": lambda f: RefCreate(f.of("value", Expr), f.maybe("span", Span)),
    "RefRead": lambda f: RefRead(f.of("ref", Expr), f.maybe("span", Span)),
    "RefWrite": lambda f: RefWrite(f.of("ref", Expr), f.of("value", Expr), f.maybe("span", Span)),
    "Match": lambda f: Match(f.of("data", Expr), f.all("clauses", Clause), bool(f.get("complete", True)), f.maybe("span", Span)),
    "Clause": lambda f: Clause(f.of("lhs", Pattern), f.of("rhs", Expr)),
    "PatternWildcard": lambda f: PatternWildcard(),
    "PatternVar": lambda f: PatternVar(f.of("var", Var)),
    "PatternConstructor": lambda f: PatternConstructor(f.of("constructor", Constructor), f.all("patterns", Pattern)),
    "PatternTuple": lambda f: PatternTuple(f.all("patterns", Pattern)),
    "Constructor": _constructor,
    "TypeData": lambda f: TypeData(f.of("header", GlobalTypeVar), f.all("type_vars", TypeParam), f.all("constructors", Constructor)),
    "TensorType": _tensor_type,
    "TupleType": lambda f: TupleType(f.all("fields", Type)),
    "FuncType": lambda f: FuncType(
        f.all("arg_types", Type), f.of("ret_type", Type), f.all("type_params", TypeParam), f.all("type_constraints", TypeRelation)
    ),
    "TypeVar": lambda f: TypeParam(_name(f), _kind(f, TypeKind.Type)),
    "GlobalTypeVar": lambda f: GlobalTypeVar(_name(f), _kind(f, TypeKind.AdtHandle)),
    "TypeCall": lambda f: TypeCall(f.of("func", Type), f.all("args", Type)),
    "IncompleteType": lambda f: IncompleteType(_kind(f, TypeKind.Type)),
    "RefType": lambda f: RefType(f.of("value", Type)),
    "TypeRelation": lambda f: TypeRelation(f.maybe("func", EnvFunc), f.all("args", Type), f.of("num_inputs", int), f.get("attrs")),
    "Span": _span,
    "IRModule": _module,
    "Module": _module,
    "Tensor": lambda f: f.of("data", Tensor),
}
"""Functions that make nodes from fields, by type key without prefix."""


def make_node(type_key: str, **fields: AnyValue) -> AnyValue:
    """Makes a node from its type key and fields, as TVM's reflection does. Attributes of any class (`DictAttrs`) are `Attrs`.

    Raises JSONError for an unknown type key, and for fields that are missing, unknown or of the wrong kind.

    >>> make_node("relay.TensorType", shape=(2, 3), dtype="int8"), make_node("DictAttrs", Primitive=1)
    (Tensor[(2, 3), int8], Attrs(Primitive=1))
    """
    if type_key.endswith("Attrs"):
        return Attrs(fields)
    return make(type_key, fields, strict=True)


IGNORED: Final = frozenset(
    ("virtual_device_", "struct_info_", "global_var_map_", "global_type_var_map_", "source_map", "global_infos", "type_annotation_")
)
"""Fields of TVM's nodes that Passat's nodes do not have."""
_COMMON: Final = {"span", "_checked_type_", "checked_type_"}
"""Fields that all nodes of programs have in TVM."""


def make(type_key: str, fields: Mapping[str, AnyValue], strict: bool = False) -> AnyValue:
    """Makes a node that is not a set of attributes. Ignores unknown fields, unless it is `strict`: versions of TVM have different ones.

    Raises JSONError.
    """
    maker = MAKERS.get(bare(type_key))
    if maker is None:
        raise JSONError(f"there is no node kind {type_key!r:.80}; known: {', '.join(MAKERS)}")
    given = Fields(type_key, fields)
    try:
        made = maker(given)
    except JSONError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise JSONError(f"{type_key} cannot be made from its fields: {error}") from error
    unknown = [name for name in fields if name not in given.read | _COMMON | IGNORED] if strict else []
    if unknown:
        raise JSONError(f"{type_key} has no field {unknown[0]!r}{did_you_mean(unknown[0], given.read, 1)}")
    type_ = fields.get("_checked_type_")
    if isinstance(made, Expr) and type_ is not None:
        made.assume_type(given.of("_checked_type_", Type))
    return made


def bare(type_key: str) -> str:
    """A type key without the prefix of its dialect, which differs between versions of TVM: `relay.TypeVar`, later `TypeVar`.

    The only TIR nodes are those of dimensions; their variables are called `Variable`, as in versions before 0.7.
    """
    dialect, _, kind = type_key.rpartition(".")
    if dialect == "tir":
        return {"Var": "Variable"}.get(kind, kind) if kind in DIMENSIONS else type_key
    return kind if dialect in ("", "relay", "runtime", "passat") else type_key

"""Writes programs as TVM's JSON."""

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any as AnyValue
from typing import Final, NamedTuple

from passat.ir.attrs import Attrs
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
from passat.ir.graph_json.arrays import encode_array
from passat.ir.graph_json.nodes import Id
from passat.ir.module import IRModule, TypeData
from passat.ir.op import Op
from passat.ir.shape import Any, Extreme, Quotient, SymDim
from passat.ir.source import SourceName
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
    TypeRelation,
    TypeVar,
)

VERSION: Final = "0.18.0"
"""The version of TVM whose nodes are written."""


class _Text(NamedTuple):
    """A field that is written verbatim: a number or an element type."""

    text: object


class _Form(NamedTuple):
    """The form of a node: its type key, and either fields, elements, keys and values, or a string."""

    type_key: str
    fields: Mapping[str, AnyValue] | None = None
    data: "list[AnyValue] | None" = None
    keys: list[str] | None = None
    text: str | None = None


def save_json(node: AnyValue) -> str:
    """Writes a program, an expression, a type, attributes or a span as JSON that `load_json` reads back; shared nodes occur once.

    Raises TypeError for values that cannot be saved: functions of other back ends, constants of element types that TVM does not have,
    and attributes that are arbitrary Python objects.
    """
    graph = _Saver().save(node)
    nodes = ",\n    ".join(map(json.dumps, graph.pop("nodes")))  # a line each, which is faster than indentation by json
    rest = ",\n  ".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in graph.items())
    return f'{{\n  "nodes": [\n    {nodes}\n  ],\n  {rest}\n}}'


class _Saver:
    def __init__(self) -> None:
        self._nodes: list[dict[str, AnyValue]] = [{"type_key": ""}]
        self._arrays: list[str] = []
        self._numbers: dict[object, int] = {}
        self._identities: dict[int, Id] = {}
        self._kept: list[AnyValue] = []  # keeps nodes alive, because they are numbered by identity
        self._pending: list[tuple[int, _Form]] = []

    def save(self, root: AnyValue) -> dict[str, AnyValue]:
        """The JSON of a value. Iterative: a node is numbered when it is first referred to, and written later."""
        number = self._number(root)
        while self._pending:
            at, form = self._pending.pop()
            self._write(at, form)
        return {"root": number, "nodes": self._nodes, "b64ndarrays": self._arrays, "attrs": {"tvm_version": VERSION}}

    def _number(self, value: AnyValue) -> int:
        """The index of a value, which is the null node for None."""
        if value is None:
            return 0
        key: object = (type(value), value) if isinstance(value, (Type, Any, SymDim)) else id(value)
        if isinstance(value, str):
            key = (type(value), str(value))
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._nodes)
            self._kept.append(value)
            self._nodes.append({})
            self._pending.append((found, self._form(value)))
        return found

    def _write(self, at: int, form: _Form) -> None:
        written: dict[str, AnyValue] = {"type_key": form.type_key}
        if form.fields is not None:
            written["attrs"] = {name: self._field(value) for name, value in form.fields.items()}
        if form.data is not None:
            written["data"] = [self._number(part) for part in form.data]
        if form.keys is not None:
            written["keys"] = form.keys
        if form.text is not None:
            written["repr_str"] = form.text
        self._nodes[at] = written

    def _field(self, value: AnyValue) -> str:
        if isinstance(value, _Text):
            return str(value.text)
        if isinstance(value, Tensor):
            self._arrays.append(encode_array(value))
            return str(len(self._arrays) - 1)
        return str(self._number(value))

    def _form(self, value: AnyValue) -> _Form:
        """The form of a value. Raises TypeError."""
        former = _FORMS.get(type(value))
        if former is not None:
            return former(value, self)
        raise TypeError(f"a {type(value).__name__} cannot be saved as JSON: {str(value)[:60]}")

    def identity(self, var: Var) -> Id:
        """The node for the identity of a variable."""
        return self._identities.setdefault(id(var), Id(var.name_hint))


_Former = Callable[[AnyValue, _Saver], _Form]


def _of(type_key: str, *names: str, plain: tuple[str, ...] = ()) -> _Former:
    """The form of a node whose fields are called as in TVM; those in `plain` are numbers or element types."""

    def form(node: AnyValue, saver: _Saver) -> _Form:
        fields: dict[str, AnyValue] = {name: getattr(node, name) for name in names}
        fields |= {name: _Text(int(found) if isinstance(found := getattr(node, name), int) else found) for name in plain}
        if isinstance(node, Expr):
            fields |= {"span": node.span, "_checked_type_": node._checked_type}
            if not isinstance(node, Constructor):
                fields["virtual_device_"] = None
        elif isinstance(node, (Type, Clause)):
            fields["span"] = None
        return _Form(type_key, fields)

    return form


def _var(var: Var, saver: _Saver) -> _Form:
    form = _of("relay.Var", "type_annotation")(var, saver)
    return form._replace(fields={"vid": saver.identity(var), **(form.fields or {})})


def _call(call: Call, saver: _Saver) -> _Form:
    form = _of("relay.Call", "op", "args", "attrs")(call, saver)
    return form._replace(fields={**(form.fields or {}), "type_args": call._type_args})  # those that follow from the types are not saved


def _map(values: Mapping[AnyValue, AnyValue], saver: _Saver | None = None) -> _Form:
    if all(isinstance(key, str) for key in values):
        return _Form("Map", data=list(values.values()), keys=list(values))
    return _Form("Map", data=[part for item in values.items() for part in item])


def _module(module: IRModule, saver: _Saver) -> _Form:
    names = {"global_var_map_": {var.name_hint: var for var in module.functions}}
    types = {"global_type_var_map_": {var.name: var for var in module.type_definitions}}
    parts = {"functions": dict(module.functions), "type_definitions": dict(module.type_definitions)}
    rest = {"attrs": Attrs(module.attrs) if module.attrs else None, "global_infos": dict[str, AnyValue](), "source_map": None}
    return _Form("IRModule", {**parts, **names, **types, **rest})


def _span(span: Span, saver: _Saver) -> _Form:
    places = {name: _Text(getattr(span, name)) for name in ("line", "end_line", "column", "end_column")}
    return _Form("Span", {"source_name": SourceName(span.source_name) if span.source_name else None, **places})


def _number_form(type_key: str, dtype: str) -> _Former:
    return lambda value, saver: _Form(
        type_key, {"dtype": _Text(dtype), "value": _Text(int(value) if dtype == "bool" else value), "span": None}
    )


def _dimension(dim: SymDim, saver: _Saver) -> _Form:
    """A sum is written as its first term and the rest, a product as its first factor and the rest."""
    (monomial, coefficient), *rest = dim.terms
    if rest:
        return _arithmetic("tir.Add", _term(monomial, coefficient), _term(*rest[0]) if len(rest) == 1 else SymDim(rest))
    if coefficient != 1:
        return _arithmetic("tir.Mul", coefficient, _term(monomial, 1))
    if len(monomial) > 1:
        return _arithmetic("tir.Mul", _term(monomial[:1], 1), _term(monomial[1:], 1))
    (atom,) = monomial
    if isinstance(atom, Quotient):
        return _arithmetic("tir.FloorDiv", atom.dividend, atom.divisor)
    if isinstance(atom, Extreme):
        return _arithmetic(f"tir.{atom.which.capitalize()}", *atom.operands)
    return _Form("tir.SizeVar", {"name": atom, "dtype": _Text("int64"), "type_annotation": None, "span": None})


def _term(monomial: tuple[str, ...], coefficient: int) -> SymDim | int:
    return SymDim([(monomial, coefficient)]) if monomial else coefficient


def _arithmetic(type_key: str, a: SymDim | int, b: SymDim | int) -> _Form:
    return _Form(type_key, {"a": a, "b": b, "dtype": _Text("int64"), "span": None})


_FORMS: Final[dict[type, _Former]] = {
    Id: lambda value, saver: _Form("relay.Id", {"name_hint": value.name_hint}),
    Var: _var,
    GlobalVar: _of("GlobalVar", "name_hint"),
    Constant: _of("relay.Constant", "data"),
    Tuple: _of("relay.Tuple", "fields"),
    TupleGetItem: _of("relay.TupleGetItem", "tuple_value", plain=("index",)),
    Call: _call,
    Function: _of("relay.Function", "params", "body", "ret_type", "type_params", "attrs"),
    Let: _of("relay.Let", "var", "value", "body"),
    If: _of("relay.If", "cond", "true_branch", "false_branch"),
    RefCreate: _of("relay.RefCreate", "value"),
    RefRead: _of("relay.RefRead", "ref"),
    RefWrite: _of("relay.RefWrite", "ref", "value"),
    Match: _of("relay.Match", "data", "clauses", plain=("complete",)),
    Clause: _of("relay.Clause", "lhs", "rhs"),
    PatternWildcard: _of("relay.PatternWildcard"),
    PatternVar: _of("relay.PatternVar", "var"),
    PatternConstructor: _of("relay.PatternConstructor", "constructor", "patterns"),
    PatternTuple: _of("relay.PatternTuple", "patterns"),
    Constructor: _of("relay.Constructor", "name_hint", "inputs", "belong_to", plain=("tag",)),
    TypeData: _of("relay.TypeData", "header", "type_vars", "constructors"),
    Op: lambda op, saver: _Form("Op", text=op.name),
    TensorType: _of("relay.TensorType", "shape", plain=("dtype",)),
    TupleType: _of("TupleType", "fields"),
    FuncType: _of("FuncType", "arg_types", "ret_type", "type_params", "type_constraints"),
    TypeVar: _of("TypeVar", "name_hint", plain=("kind",)),
    GlobalTypeVar: _of("GlobalTypeVar", "name_hint", plain=("kind",)),
    TypeCall: _of("TypeCall", "func", "args"),
    IncompleteType: _of("IncompleteType", plain=("kind",)),
    RefType: _of("relay.RefType", "value"),
    TypeRelation: _of("TypeRelation", "func", "args", "attrs", plain=("num_inputs",)),
    EnvFunc: lambda function, saver: _Form("EnvFunc", text=function.name),
    IRModule: _module,
    Span: _span,
    SourceName: lambda name, saver: _Form("SourceName", text=str(name)),
    Attrs: lambda attrs, saver: _Form("DictAttrs", {"__dict__": dict(attrs)}),
    Any: lambda dim, saver: _Form("tir.Any", {"dtype": _Text("int32"), "span": None}),
    SymDim: _dimension,
    Tensor: lambda tensor, saver: _Form("passat.Tensor", {"data": tensor}),
    dict: _map,
    tuple: lambda values, saver: _Form("Array", data=list(values)),
    list: lambda values, saver: _Form("Array", data=values),
    str: lambda text, saver: _Form("runtime.String", text=text),
    bytes: lambda data, saver: _Form("passat.Bytes", text=base64.b64encode(data).decode()),
    bool: _number_form("IntImm", "bool"),
    int: _number_form("IntImm", "int64"),
    float: _number_form("FloatImm", "float64"),
}
"""The form of each kind of value."""

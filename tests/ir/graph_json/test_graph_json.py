"""TVM's JSON of programs: round trips, sharing, texts of earlier versions, and invalid texts."""

import copy
import json
import struct
from base64 import b64decode
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from passat import relay
from passat.ir import EnvFunc, IRModule, TypeRelation, load_json, make_node, save_json, structural_equal
from passat.ir.attrs import Attrs
from passat.ir.dim_text import parse_dim
from passat.ir.equality import assert_structural_equal
from passat.ir.expr import Call, Constant, Expr, Function, Let, Span, Tuple, Var, const, var
from passat.ir.graph_json import JSONError
from passat.ir.infer import infer_type
from passat.ir.op import get_op
from passat.ir.prim_func import PrimFunc
from passat.ir.shape import ANY
from passat.ir.tensor import Tensor
from passat.ir.traverse import post_order
from passat.ir.types import FuncType, IncompleteType, RefType, TensorType, TupleType, Type, TypeKind, TypeVar
from passat.relay.prelude import Prelude
from tests.share import share
from tests.strategies import modules, programs, types

PLAIN = {
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint64",
    "float16",
    "float32",
    "float64",
    "bool",
    "bfloat16",
    "complex64",
    "complex128",
}


def again(value: Any) -> Any:
    return load_json(save_json(value))


def graph(root: int, *nodes: dict[str, Any], arrays: tuple[str, ...] = ()) -> str:
    """A graph whose node 0 is the null node."""
    return json.dumps({"root": root, "nodes": [{"type_key": ""}, *nodes], "b64ndarrays": list(arrays), "attrs": {"tvm_version": "0.6.0"}})


def exotic(expr: Expr) -> bool:
    """True if constants of an expression have an element type that TVM lacks."""
    return any(isinstance(node, Constant) and node.data.dtype not in PLAIN for node in post_order(expr))


@settings(max_examples=share(15, 300))
@given(programs(effects=True))
def test_programs_come_back_with_their_sharing_and_types(program: Function) -> None:
    if exotic(program):
        with pytest.raises(TypeError, match="cannot be saved as JSON"):
            save_json(program)
        return
    back = again(program)
    assert_structural_equal(back, program, map_free_vars=True, sharing=True)
    for left, right in zip(post_order(back), post_order(program), strict=True):
        assert left._checked_type == right._checked_type


@settings(max_examples=share(8, 150))
@given(modules())
def test_modules_come_back(module: IRModule) -> None:
    if not any(map(exotic, module.functions.values())):
        assert_structural_equal(again(module), module)


@settings(max_examples=share(15, 300))
@given(types())
def test_types_come_back(type_: Type) -> None:
    assert again(type_) == type_


def test_other_types_come_back() -> None:
    a = TypeVar("a", TypeKind.ShapeVar)
    for type_ in (
        TensorType((ANY, parse_dim("2*n + 1"), 3)),
        IncompleteType(TypeKind.ShapeVar),
        RefType(TupleType([])),
        FuncType([a], a, [a], [TypeRelation(EnvFunc.get("Identity"), [a], 1, Attrs(axis=1))]),
    ):
        assert again(type_) == type_


def test_the_standard_library_comes_back() -> None:
    mod = IRModule()
    Prelude(mod)
    back = again(mod)
    assert_structural_equal(back, mod)
    _, cons, nil = back.get_type("List")
    assert [mod.get_constructor(made.tag).name_hint for made in (cons, nil)] == ["Cons", "Nil"]
    assert [var.name for var in cons.type_vars] == ["A"]


def test_attributes_come_back() -> None:
    given_ = Attrs(
        none=None, yes=True, one=1, half=0.5, text="a", data=b"\xff", axes=(1, (2, "b")), table={"a": 1}, dim=parse_dim("n"), any=ANY
    )
    back = again(given_)
    assert back == given_
    assert again(Attrs(t=Tensor.dense(np.arange(3))))["t"] == Tensor.dense(np.arange(3))


def test_maps_in_attributes_may_hold_variables_and_expressions() -> None:
    x, y = var("x", shape=(2,)), var("y", shape=(2,))
    first, second = (Function([v], v).with_attr("known", {v: const(1.0)}) for v in (x, y))
    assert structural_equal(first, second)
    assert relay.structural_hash(first) == relay.structural_hash(second)
    assert not structural_equal(first, Function([x], x).with_attr("known", {x: const(2.0)}))
    assert not structural_equal(first, Function([x], x).with_attr("known", {y: const(1.0)}))
    back = again(first)
    assert structural_equal(back, first)
    assert list(back.attrs["known"]) == list(back.params)


def test_spans_come_back() -> None:
    x = Var("x", None, Span("model", 1, 2, 3, 4))
    assert again(x).span == x.span
    assert again(Span(None, 1)) == Span(None, 1)


def test_a_shared_node_occurs_once() -> None:
    x = var("x", shape=(2,))
    expr: Expr = x
    for _ in range(60):
        expr = expr + expr
    text = save_json(expr)
    assert text.count('"relay.Call"') == 60
    assert text.count('"relay.TensorType"') == 1


def test_a_deep_program_takes_no_stack() -> None:
    x = Var("x")
    body: Expr = x
    for _ in range(share(3_000, 10_000)):
        body = Let(Var("y"), body, Tuple([body]))
    assert isinstance(again(body), Let)


def test_constants_have_tvms_header() -> None:
    found = json.loads(save_json(const(np.array([[1, 2]], np.int8), "int8")))
    data = b64decode(found["b64ndarrays"][0])
    assert struct.unpack("<QQiiiBBHqqq", data[:-2]) == (0xDD5E40F096B4A13F, 0, 1, 0, 2, 0, 8, 1, 1, 2, 2)
    assert data[-2:] == b"\x01\x02"
    assert found["nodes"][found["root"]]["type_key"] == "relay.Constant"


@pytest.mark.parametrize("dtype", sorted(PLAIN))
def test_constants_of_all_of_tvms_element_types_come_back(dtype: str) -> None:
    for tensor in (Tensor.splat(1, (2, 0), dtype), Tensor.splat(1, (2, 3), dtype), Tensor.splat(1, (), dtype)):
        assert again(Constant(tensor)).data == tensor


@pytest.mark.parametrize("value", [object(), PrimFunc([], None), Attrs(x=object()), const(np.array("a"), "string")])
def test_calls_without_a_form_are_rejected(value: object) -> None:
    with pytest.raises(TypeError, match="cannot be saved as JSON"):
        save_json(value)


def test_texts_of_earlier_versions_are_read() -> None:
    variable = {"type_key": "Variable", "attrs": {"dtype": "int32", "name": "in0"}}
    old = load_json(graph(1, {"type_key": "relay.TypeVar", "attrs": {"kind": "0", "span": "0", "var": "2"}}, variable))
    assert old == TypeVar("in0")
    assert load_json(graph(1, {"type_key": "relay.Op", "global_key": "nn.conv2d"})) is get_op("nn.conv2d")
    fields = {"_checked_type_": "3", "span": "0", "type_annotation": "3", "vid": "2"}
    tensor = {"type_key": "relay.TensorType", "attrs": {"dtype": "float32", "shape": "4", "span": "0"}}
    sizes = [{"type_key": "IntImm", "attrs": {"dtype": "int32", "value": value}} for value in ("16", "8")]
    names = {"type_key": "relay.Id", "attrs": {"name_hint": "a3"}}
    x = load_json(graph(1, {"type_key": "relay.Var", "attrs": fields}, names, tensor, {"type_key": "Array", "data": [5, 6]}, *sizes))
    assert (x.name_hint, x.type_annotation, x.checked_type) == ("a3", TensorType((16, 8)), TensorType((16, 8)))
    sum_ = {"type_key": "tir.Add", "attrs": {"a": "2", "b": "2", "dtype": "int32", "span": "0"}}
    assert load_json(graph(1, sum_, {"type_key": "tir.Var", "attrs": {"name": "n", "dtype": "int32"}})) == parse_dim("2*n")


@pytest.mark.parametrize(
    ("kind", "value"), [("FloorDiv", "n//2"), ("FloorMod", "n - 2*(n//2)"), ("Min", "min(2, n)"), ("Max", "max(2, n)")]
)
def test_sizes_that_are_computed_are_read(kind: str, value: str) -> None:
    sizes = [
        {"type_key": "tir.SizeVar", "attrs": {"name": "n", "dtype": "int64"}},
        {"type_key": "IntImm", "attrs": {"dtype": "int64", "value": "2"}},
    ]
    found = load_json(graph(1, {"type_key": f"tir.{kind}", "attrs": {"a": "2", "b": "3", "dtype": "int64", "span": "0"}}, *sizes))
    assert found == parse_dim(value)
    if kind != "FloorMod":
        assert f'"tir.{kind}"' in save_json(TensorType((found,)))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{", "the text is not JSON"),
        ("[" * 100_000, "the text is not JSON"),
        ("[]", "it has no 'root' and 'nodes'"),
        ('{"root": 0, "nodes": 3}', "must be lists"),
        (graph(7), "'root' refers to the node '7', which does not exist among 1 node"),
        (graph(-1), "which does not exist"),
        (graph(1, {"type_key": 3}), "node 1 must be an object with a 'type_key'"),
        (graph(1, {"type_key": "os.system", "attrs": {"command": "0"}}), "node 1 is a 'os.system', which Passat does not have"),
        (graph(1, {"type_key": "tir.BufferStore"}), "node 1 is a 'tir.BufferStore', which Passat does not have"),
        (graph(1, {"type_key": "relay.attrs.Conv2DAttrs"}), "which Passat does not have"),
        (graph(1, {"type_key": "relay.Tuple", "attrs": {"fields": "2"}}, {"type_key": "Array", "data": [1]}), "node 1 refers to itself"),
        (graph(1, {"type_key": "relay.Tuple", "attrs": {"fields": "9"}}), "the field 'fields' of node 1 refers to the node '9'"),
        (graph(1, {"type_key": "relay.TupleGetItem", "attrs": {"index": "x"}}), "node 1: 'x' is not an integer"),
        (graph(1, {"type_key": "IntImm", "attrs": {"value": "9" * 5000}}), "node 1: '9*' is not an integer|out of range"),
        (graph(1, {"type_key": "relay.Let", "attrs": {}}), "node 1: the field 'var' of relay.Let is nothing, but must be a Var"),
        (graph(1, {"type_key": "relay.TensorType", "attrs": {"dtype": "int9", "shape": "0"}}), "the shape of a tensor type must"),
        (graph(1, {"type_key": "Op", "repr_str": "nn.relo"}), "there is no operator 'nn.relo'; did you mean nn.relu"),
        (graph(1, {"type_key": "relay.Constant", "attrs": {"data": "0"}}), "the array 0 cannot be read"),
        (graph(1, {"type_key": "relay.Constant", "attrs": {"data": "0"}}, arrays=("AAAA",)), "the array 0 cannot be read"),
        (graph(1, {"type_key": "Map", "data": [0]}), "a map must have as many keys as values"),
        (graph(1, {"type_key": "TypeVar", "attrs": {"kind": "9", "name_hint": "a"}}), "9 is not the number of a kind"),
    ],
)
def test_invalid_programs_are_rejected(text: str, found: str) -> None:
    with pytest.raises(JSONError, match=found):
        load_json(text)


def test_changed_texts_are_read_or_rejected() -> None:
    x = var("x", shape=(2, "n"))
    module = IRModule.from_expr(infer_type(Function([x], Tuple([relay.nn.softmax(x + const([[1.0], [2.0]])), x]), None, [TypeVar("A")])))
    whole = json.loads(save_json(module))
    random = Random(5)
    values: list[Any] = ["", "0", "3", "-1", "99", "nan", None, 7, [], {}, "relay.Var", "relay.Call", "Array", "Map", "TensorType", [1, 2]]
    for _ in range(share(400, 4000)):
        changed = copy.deepcopy(whole)
        node = random.choice(changed["nodes"])
        place = random.choice([node, node.get("attrs", node)])
        place[random.choice([*place, "data", "repr_str"])] = random.choice(values)
        with suppress(JSONError):
            load_json(json.dumps(changed))


def test_nodes_are_made_from_fields() -> None:
    x = Var("x")
    assert make_node("relay.Tuple", fields=[x]).fields == (x,)
    assert make_node("Call", op=get_op("nn.relu"), args=[x]).op.name == "nn.relu"
    assert make_node("attrs.TestAttrs", name="a", padding=[3, 4]) == Attrs(name="a", padding=(3, 4))
    assert isinstance(make_node("relay.Call", op=x, args=[x]), Call)
    with pytest.raises(JSONError, match=r"there is no node kind 'relay.Nothing'; known: Var, "):
        make_node("relay.Nothing")
    shared = make_node("relay.Id", name_hint="y")
    one, other = (make_node("relay.Var", vid=shared, type_annotation=TensorType((2,)), span=None) for _ in range(2))
    assert one is other
    assert make_node("IRModule", functions={}, global_var_map_={}, source_map=None).functions == {}
    with pytest.raises(JSONError, match=r"^relay.Tuple has no field 'fieldz'; did you mean fields\?$"):
        make_node("relay.Tuple", fieldz=[x])
    with pytest.raises(JSONError, match=r"^relay.Call has no field 'atrs'; did you mean attrs\?$"):
        make_node("relay.Call", op=x, args=[x], atrs=None)
    with pytest.raises(JSONError, match=r"the field 'index' of relay.TupleGetItem is a bool, but must be a int"):
        make_node("relay.TupleGetItem", tuple_value=x, index=True)

"""Programs as arrays: what loading merges, folds and projects, facts of e-classes, and distinct nodes."""

import numpy as np
import pytest

from passat.ir.attrs import Attrs
from passat.ir.expr import Call, Constant, Expr, Function, If, TupleGetItem, Var
from passat.ir.infer import infer_type
from passat.ir.op import OpTypeError, get_op
from passat.ir.shape import SymDim
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType
from passat.rules.engine.eager import Eager
from passat.rules.engine.graph import Graph, operands_of
from passat.rules.engine.symbols import CALL, CONST, CONST_SYMBOL, GET_SYMBOL, LEAF, LEAF_SYMBOL, REGION, TUPLE, symbol
from passat.rules.library.folding import ConstantFolding, DynamicToStatic, TupleProjection
from passat.rules.pattern import op, tensors
from tests.rules.building import const, func, numbers, ops, splat, tup, var
from tests.rules.running import rewritten
from tests.share import share

a, b = var("a"), var("b")
EXP, ADD = symbol(CALL, get_op("exp"), 1), symbol(CALL, get_op("add"), 2)


def loaded(body: Expr, eager: Eager | None = None) -> tuple[Graph, int]:
    graph = Graph(eager)
    return graph, graph.load(func(body).body)


def shown(graph: Graph) -> list[str]:
    return [str(head.op or head.kind) for head in graph.symbols]


def test_nodes_stand_parts_first() -> None:
    graph, root = loaded(ops.exp(a) + b)
    assert shown(graph) == ["leaf", "exp", "leaf", "add"]
    assert graph.operands == [(), (0,), (), (1, 2)]
    assert root == len(graph) - 1 == 3
    assert graph.leaves == [a, b]
    assert graph.types[3] == TensorType((2, 3), "float32")
    assert graph.ids[id(a)] == 0


def test_equal_parts_are_hash_consed() -> None:
    graph, _ = loaded(ops.exp(a) + ops.exp(a))
    assert shown(graph) == ["leaf", "exp", "add"]
    assert graph.merged == 1
    graph, _ = loaded(ops.sum(a, axis=(0,)) + ops.sum(a, axis=(1,), keepdims=True))
    assert shown(graph).count("sum") == 2


def test_shared_parts_do_not_count_as_merged() -> None:
    shared = ops.exp(a)
    graph, _ = loaded(shared + shared)
    assert graph.merged == 0


def test_stateful_calls_are_not_merged() -> None:
    one = ops.nn.dropout(a)
    graph, _ = loaded(tup(one[0], ops.nn.dropout(a)[0], one[1]))
    assert shown(graph).count("nn.dropout") == 2


def test_regions_are_kept_apart_and_have_operands() -> None:
    guard = var("c", (), "bool")
    choice = If(guard, ops.exp(a), a)
    other = If(guard, ops.exp(a), a)
    graph, _ = loaded(tup(choice, other))
    assert shown(graph) == ["leaf", "region", "region", "tuple"]
    assert graph.operands[1] == graph.operands[2] == (0,)
    assert graph.leaves == [guard, choice, other]
    assert operands_of(choice) == (guard,)


def test_calls_of_functions_are_regions_around_callee_and_arguments() -> None:
    x = var("x")
    inner = Function([x], ops.exp(x))
    call = Call(inner, [ops.negative(a)])
    graph, _ = loaded(call)
    assert sorted(shown(graph)) == ["leaf", "leaf", "negative", "region"]
    assert operands_of(call) == (inner, call.args[0])
    assert symbol(REGION, None, 2) in graph.symbols


def test_a_field_of_a_new_tuple_is_that_field() -> None:
    graph, root = loaded(TupleGetItem(tup(a, ops.exp(b)), 1), Eager(TupleProjection))
    assert graph.applied == 1
    assert graph.symbols[root] is EXP
    pieces = ops.split(a, indices_or_sections=2)
    graph, root = loaded(pieces[1], Eager(TupleProjection))
    assert graph.applied == 0
    assert graph.symbols[root] is GET_SYMBOL
    assert graph.payloads[root] == 1


def test_small_constants_are_equal_by_content() -> None:
    graph, _ = loaded(tup(const([1.0, 2.0]), const([1.0, 2.0]), const([1.0, 3.0]), splat(0.0), splat(-0.0)))
    assert shown(graph).count("const") == 4
    assert graph.constant_of(0) == const([1.0, 2.0]).data


def test_large_constants_are_equal_by_identity() -> None:
    data = Tensor.dense(np.arange(5000, dtype=np.float32))
    again = Tensor.dense(np.arange(5000, dtype=np.float32))
    body = func(tup(Constant(data), Constant(data), Constant(again))).body
    for compare, count in ((False, 2), (True, 1)):
        graph = Graph(compare_large=compare)
        graph.load(body)
        assert shown(graph).count("const") == count
    other = Constant(Tensor.dense(np.r_[np.arange(4999), 0].astype(np.float32)))
    graph = Graph(compare_large=True)
    graph.load(func(tup(Constant(data), other)).body)
    assert shown(graph).count("const") == 2


def test_splats_are_equal_at_any_size() -> None:
    graph, _ = loaded(tup(splat(1.0, (10**6,)), splat(1.0, (10**6,))))
    assert shown(graph).count("const") == 1


def test_loading_twice_adds_nothing() -> None:
    body = func(ops.exp(a) + b).body
    graph = Graph()
    assert graph.load(body) == graph.load(body)
    assert len(graph) == 4


def test_constants_are_folded_while_loading() -> None:
    graph, root = loaded(a + ops.exp(splat(0.0)) * splat(2.0), Eager(ConstantFolding))
    assert graph.applied == 2
    assert graph.symbols[graph.operands[root][1]].kind == CONST
    value = graph.constant_of(graph.operands[root][1])
    assert isinstance(value, Tensor)
    assert value.uniform() == 2


def test_known_shapes_fold_too() -> None:
    graph, root = loaded(ops.shape_of(var("v", (4, 5)), dtype="int64"), Eager(ConstantFolding))
    value = graph.constant_of(root)
    assert isinstance(value, Tensor)
    assert value.numpy().tolist() == [4, 5]
    graph, root = loaded(ops.shape_of(var("v", ("n", 5)), dtype="int64"), Eager(ConstantFolding))
    assert graph.constant_of(root) is None
    known = graph.known_of(root)
    assert isinstance(known, np.ndarray)
    assert known.tolist() == [SymDim.named("n"), 5]


def test_facts_of_nodes_made_by_rules() -> None:
    graph, root = loaded(ops.shape_of(var("v", ("n", 5)), dtype="int64"))
    made = graph.make(symbol(CALL, get_op("add"), 2), 0, (root, root))
    known = graph.known_of(made)
    assert isinstance(known, np.ndarray)
    assert known.tolist() == [2 * SymDim.named("n"), 10]
    pair = graph.make(symbol(TUPLE, None, 2), 0, (root, made))
    fields = graph.known_of(pair)
    assert isinstance(fields, tuple)
    assert len(fields) == 2
    assert graph.known_of(graph.make(EXP, 0, (graph.load(func(ops.exp(a)).body),))) is None


def test_making_nodes() -> None:
    graph, root = loaded(ops.exp(a), Eager(TupleProjection))
    assert graph.make(EXP, 0, (0,)) == root
    twice = graph.make(EXP, 0, (root,))
    assert graph.types[twice] == TensorType((2, 3), "float32")
    assert graph.origins[twice] is None
    pair = graph.make(symbol(TUPLE, None, 2), 0, (root, twice))
    assert graph.types[pair] == TupleType([graph.types[root]] * 2)
    assert graph.make(GET_SYMBOL, 1, (pair,)) == twice


def test_making_ill_typed_nodes() -> None:
    graph, root = loaded(tup(a, var("i", dtype="int8")))
    with pytest.raises(OpTypeError, match="element types float32 and int8"):
        graph.make(ADD, 0, (0, 1))
    with pytest.raises(OpTypeError, match=r"has no field 2"):
        graph.make(GET_SYMBOL, 2, (root,))
    with pytest.raises(OpTypeError, match=r"Tensor\[\(2, 3\), float32\] has no field 0"):
        graph.make(GET_SYMBOL, 0, (0,))


def test_classes_are_named_by_their_smallest_node() -> None:
    graph, _ = loaded(tup(a, b, ops.exp(a), ops.exp(b)))
    assert graph.unite(0, 1) == (0, 1)
    assert graph.unite(1, 0) is None
    assert graph.unite(3, 2) == (2, 3)
    assert graph.find(1) == 0
    assert graph.find(3) == 2
    assert graph.unite(2, 1) == (0, 2)
    assert graph.find(3) == 0


def test_facts_go_with_the_class() -> None:
    graph, _ = loaded(tup(a, numbers((2, 3))))
    constant = next(node for node, head in enumerate(graph.symbols) if head is CONST_SYMBOL)
    leaf = next(node for node, head in enumerate(graph.symbols) if head is LEAF_SYMBOL)
    assert graph.constant_of(leaf) is None
    graph.unite(leaf, constant)
    assert graph.constant_of(leaf) == numbers((2, 3)).data
    vector = var("vector", (2,), "int64")
    graph, _ = loaded(tup(vector, const([4, 5], "int64")))
    assert graph.known_of(0) is None
    graph.known_of(1)
    graph.unite(0, 1)
    known = graph.known_of(0)
    assert isinstance(known, np.ndarray)
    assert known.tolist() == [4, 5]


def test_equal_attributes_are_shared() -> None:
    graph = Graph()
    assert graph.attr_id(Attrs(axis=1)) == graph.attr_id(Attrs(axis=1))
    assert graph.attr_id(Attrs(axis=1)) != graph.attr_id(Attrs(axis=1.0))
    assert graph.attr_id(Attrs()) == 0


def test_deep_and_wide_programs_load() -> None:
    body: Expr = a
    count = share(5_000, 50_000)
    for _ in range(count):
        body = Call(get_op("exp"), [body])
    graph = Graph(Eager(ConstantFolding))
    graph.load(infer_type(body))
    assert len(graph) == count + 1
    doubled: Expr = a
    for _ in range(100):
        doubled = doubled + doubled
    graph = Graph()
    graph.load(infer_type(doubled))
    assert len(graph) == 101


def test_variables_of_no_known_type_load() -> None:
    unknown = Var("u")
    body = infer_type(Call(get_op("exp"), [unknown]))
    graph = Graph(Eager((*ConstantFolding, *DynamicToStatic)))
    assert graph.symbols[graph.load(body)].kind == CALL
    assert graph.symbols[0].kind == LEAF


def test_a_freed_constant_is_not_confused_with_its_successor() -> None:
    """Equal large constants are one node. The second constant is freed, and the next object gets its address."""
    graph = Graph(compare_large=True)
    graph.add_constant(Tensor.dense(np.zeros(5000, "float32")))
    for value in range(1, 200):
        graph.add_constant(Tensor.dense(np.zeros(5000, "float32")))
        node = graph.add_constant(Tensor.dense(np.full((2, 2500), value, "float32")))
        constant = graph.constants[node]
        assert isinstance(constant, Tensor)
        assert constant.shape == (2, 2500)
        assert constant.numpy()[0, 0] == value


def test_rules_match_no_product_with_wider_sums() -> None:
    x, y, z = (var(name, (2, 2), "int8") for name in "xyz")

    def difference(out_dtype: str) -> Function:
        return func(ops.nn.dense(x, y, out_dtype=out_dtype) - ops.nn.dense(x, z, out_dtype=out_dtype), x, y, z)

    p, q, r = tensors("p q r")
    rule = op.nn.dense(p, q, ...) - op.nn.dense(p, r, ...) >> op.nn.dense(p, q - r)
    assert rewritten(difference(""), rule)[0]
    assert rewritten(difference("int8"), rule)[0]
    assert not rewritten(difference("int32"), rule)[0]

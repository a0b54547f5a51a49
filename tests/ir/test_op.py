"""The registry of operators, and how declarations become relations, attributes and mappings."""

import pickle

import numpy as np
import pytest

from passat.ir import op
from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.expr import Call, const, var
from passat.ir.op import Known, Op, OpTypeError, define_op, get_op, list_ops
from passat.ir.op_attributes import _LEVELS
from passat.ir.shape import ANY, SymDim
from passat.ir.types import IncompleteType, TensorType, TupleType

x = var("x", shape=(2, 3))
f32 = TensorType((2, 3))


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restores the registry, so that operators declared by a test are removed."""
    list_ops()
    monkeypatch.setattr("passat.ir.op._OPS", dict(op._OPS))


def test_operators_are_found_by_name() -> None:
    add = get_op("add")
    assert (add.name, add.arity, add.operand_names) == ("add", 2, ("x", "y"))
    assert get_op("add") is add
    assert pickle.loads(pickle.dumps(add)) is add
    assert repr(add) == "add"


def test_operators_are_listed_by_name() -> None:
    names = [each.name for each in list_ops()]
    assert names == sorted(names)
    assert {"add", "nn.relu", "nn.conv2d"} <= set(names)


def test_every_operator_has_a_description() -> None:
    assert all(each.doc for each in list_ops())


def test_an_unknown_operator_is_named_with_its_neighbors() -> None:
    with pytest.raises(KeyError, match=r"there is no operator 'nn.rellu'; did you mean nn.relu or .*\?"):
        get_op("nn.rellu")
    with pytest.raises(KeyError, match="there is no operator 'zzzzzzzz'\""):
        get_op("zzzzzzzz")


def test_calling_an_operator_binds_its_attributes() -> None:
    call = get_op("nn.softmax")(x)
    assert isinstance(call, Call)
    assert dict(call.attrs) == {"axis": -1}
    assert list(get_op("nn.lrn")(x, beta=0.5).attrs) == ["size", "axis", "bias", "alpha", "beta"]
    assert get_op("add")(x, x).attrs is EMPTY_ATTRS


def test_wrong_attributes_are_named() -> None:
    with pytest.raises(OpTypeError, match=r"nn\.softmax has no attribute 'axes'; it has: axis"):
        get_op("nn.softmax")(x, axes=1)
    with pytest.raises(OpTypeError, match="add has no attribute 'axis'; it has: none"):
        get_op("add")(x, x, axis=1)
    with pytest.raises(OpTypeError, match="cast needs the attribute 'dtype'"):
        get_op("cast")(x)
    with pytest.raises(OpTypeError, match=r"add takes 2 operands \(x, y\), but got 1"):
        get_op("add")(x)


def test_a_relation_that_fails_names_operator_types_and_attributes() -> None:
    with pytest.raises(
        OpTypeError, match=r"^add\(Tensor\[\(2, 3\), float32\], int8\): operands have different element types float32 and int8; cast one$"
    ):
        get_op("add").infer([f32, TensorType((), "int8")], EMPTY_ATTRS)
    with pytest.raises(OpTypeError, match=r"^nn.softmax\(Tensor\[\(2, 3\), float32\]; axis=5\): .*has no axis 5$"):
        get_op("nn.softmax").infer([f32], Attrs(axis=5))
    with pytest.raises(OpTypeError, match=r"^add\(Tensor\[\(2, 3\), float32\]\): takes 2 operands, but got 1$"):
        get_op("add").infer([f32], EMPTY_ATTRS)


def test_unknown_operands_give_unknown_results() -> None:
    unknown = IncompleteType()
    assert get_op("add").infer([f32, unknown], EMPTY_ATTRS) == unknown
    assert get_op("concatenate").infer([TupleType([f32, unknown])], Attrs(axis=0)) == unknown


@pytest.mark.usefixtures("registry")
def test_declarations() -> None:
    @define_op("test.scale", kernel=lambda data, factor, *, offset: data * factor + offset, elementwise=True, commutative=True, unit=1)
    def scale(data: TensorType, factor: TensorType, *, offset: float = 0.0) -> TensorType:
        """Scales by a factor."""
        return data

    assert isinstance(scale, Op)
    assert get_op("test.scale") is scale
    assert (scale.doc, scale.pattern, scale.elementwise, scale.commutative, scale.unit, scale.zero) == (
        "Scales by a factor.",
        1,
        True,
        True,
        1,
        None,
    )
    assert scale.infer([f32, f32], Attrs(offset=0.0)) is f32
    assert scale not in list_ops()
    again = define_op("test.scale")(lambda x: x)
    assert get_op("test.scale") is again
    with pytest.raises(ValueError, match=r"the operator 'nn\.relu' is declared twice"):
        define_op("nn.relu")(lambda x: x)


@pytest.mark.usefixtures("registry")
def test_relations_receive_known_values_on_request() -> None:
    @define_op("test.filled")
    def filled(shape: Known, *values: TensorType) -> TensorType:
        """A tensor of a shape that an operand gives."""
        dims = shape.dims()
        assert dims is not None
        return TensorType(dims)

    vector = TensorType((2,), "int64")
    assert (filled.variadic, filled.arity, filled.known_operands) == (True, 1, frozenset({0}))
    assert filled.infer([vector], EMPTY_ATTRS) == TensorType((ANY, ANY))
    known = np.array([SymDim.named("n"), 4], np.object_)
    assert filled.infer([vector], EMPTY_ATTRS, [known]) == TensorType((SymDim.named("n"), 4))
    assert Known(TensorType((SymDim.named("n"),), "int64"), None).dims() is None


@pytest.mark.parametrize("mapping", ["", "Add(", "Add(a)", "Add@x", "Add B", ".Add", "com.mine.Add@2"])
@pytest.mark.usefixtures("registry")
def test_mappings_that_cannot_be_read(mapping: str) -> None:
    with pytest.raises(ValueError, match="an ONNX mapping must be Name"):
        define_op(f"test.mapping {mapping}", onnx=mapping)(lambda x: x)


def test_shape_arithmetic_uses_kernels() -> None:
    add = get_op("add")
    type_ = TensorType((2,), "int64")
    n = SymDim.named("n")
    found = add.known_value([type_, type_], [np.array([n, 2], np.object_), np.array([1, ANY], np.object_)], EMPTY_ATTRS, type_)
    assert isinstance(found, np.ndarray)
    assert found.tolist() == [n + 1, ANY]
    assert add.known_value([type_, type_], [None, found], EMPTY_ATTRS, type_) is None
    assert add.known_value([f32, f32], [None, None], EMPTY_ATTRS, f32) is None


def test_known_integers_that_would_wrap_around_are_forgotten() -> None:
    type_ = TensorType((1,), "int32")
    big = np.array([2**31 - 1], np.object_)
    found = get_op("add").known_value([type_, type_], [big, big], EMPTY_ATTRS, type_)
    assert isinstance(found, np.ndarray)
    assert found.tolist() == [ANY]


def test_constants_are_operands_like_others() -> None:
    assert get_op("add")(x, const(1.0)).args[1].checked_type == TensorType(())


def test_relays_levels_of_support() -> None:
    levels = {"exp": 1, "nn.conv2d": 2, "take": 3, "where": 4, "topk": 6, "nn.attention": 10, "qnn.add": 11}
    assert {name: get_op(name).support_level for name in levels} == levels


def test_each_operator_with_a_level_is_declared() -> None:
    assert _LEVELS.keys() <= {op.name for op in list_ops()}

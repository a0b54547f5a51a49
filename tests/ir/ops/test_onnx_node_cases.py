"""ONNX's test cases for each operator: nodes that are not read as opaque calls have the values of the cases."""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from passat.ir.attrs import Attrs
from passat.ir.evaluate import Value, evaluate_call
from passat.ir.expr import Call, Constant, Function, Tuple, TupleGetItem
from passat.ir.onnx import OnnxError, from_onnx
from passat.ir.op import Op, OpTypeError
from passat.ir.shape import ANY
from passat.ir.tensor import Array, Tensor
from passat.ir.traverse import post_order
from passat.ir.types import TensorType, TupleType, Type, compatible
from tests.fuzz.judge import examine
from tests.fuzz.kinds import settings_of
from tests.fuzz.node_cases import mutated_case
from tests.onnx_cases import collected
from tests.share import share

CONTRADICTORY = {"test_stft", "test_stft_with_window"}
"""If its operands are known, ONNX's own inference contradicts the shape that the case declares."""
TOLERANCE = {2: (1e-2, 1e-3), 4: (1e-3, 1e-5), 8: (1e-6, 1e-6)}
"""Relative and absolute tolerance, by element size in bytes: some cases give four digits."""


def array(value: object) -> Array:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def with_constants(model: onnx.ModelProto, operands: Sequence[Array]) -> onnx.ModelProto:
    """The model with all inputs but the first as initializers, so that axes, bounds and shapes are constants."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for value, operand in list(zip(model.graph.input, operands, strict=True))[1:]:
        result.graph.initializer.append(numpy_helper.from_array(operand, value.name))
    del result.graph.input[1:]
    return result


def operators(function: Function) -> list[str]:
    return [node.op.name for node in post_order(function) if isinstance(node, Call) and isinstance(node.op, Op)]


def evaluate(function: Function, operands: Iterable[Array]) -> list[Array]:
    values: dict[int, Value] = {}
    for param, operand in zip(function.params, operands, strict=False):
        values[id(param)] = Tensor.dense(operand)
    for node in post_order(function.body):
        if isinstance(node, Constant):
            values[id(node)] = node.data
        elif isinstance(node, Tuple):
            values[id(node)] = tuple(values[id(field)] for field in node.fields)
        elif isinstance(node, TupleGetItem):
            whole = values[id(node.tuple_value)]
            assert isinstance(whole, tuple)
            values[id(node)] = whole[node.index]
        elif isinstance(node, Call):
            assert isinstance(node.op, Op)
            values[id(node)] = evaluate_call(node.op, [values[id(arg)] for arg in node.args], node.attrs, node.checked_type)
    result = values[id(function.body)]
    fields = result if isinstance(result, tuple) else (result,)
    return [field.numpy() for field in fields if isinstance(field, Tensor)]


def difference(found: Sequence[Array], expected: Sequence[Array]) -> str:
    """The difference from the expected results, or nothing."""
    if len(found) != len(expected):
        return f"{len(found)} results for {len(expected)}"
    for a, b in zip(found, expected, strict=True):
        if a.shape != b.shape or a.dtype not in (b.dtype, np.object_):
            return f"{a.dtype}{a.shape} for {b.dtype}{b.shape}"
        if a.dtype.kind in "fV":
            rtol, atol = TOLERANCE.get(a.dtype.itemsize, (0, 0))
            if not np.allclose(a.astype(np.float64), b.astype(np.float64), rtol, atol, equal_nan=True):
                return f"{a} for {b}"
        elif not np.array_equal(a, b):
            return f"{a} for {b}"
    return ""


@pytest.mark.parametrize("constant", [False, True], ids=["operands-at-run-time", "operands-constant"])
def test_imported_nodes_have_the_expected_value(constant: bool) -> None:
    wrong: list[str] = []
    checked: Counter[str] = Counter()
    for case in collected()[:: share(3, 1)]:
        if case.model is None or case.data_sets is None:
            continue
        if any(not isinstance(value, (np.ndarray, np.generic, onnx.TensorProto)) for values in case.data_sets[0] for value in values):
            continue  # sequences and optional values
        operands, expected = (list(map(array, values)) for values in case.data_sets[0])
        try:
            module = from_onnx(with_constants(case.model, operands) if constant and operands else case.model)
        except OnnxError:
            assert constant
            assert case.name in CONTRADICTORY
            continue
        names = operators(module["main"])
        if any(name.startswith("onnx.") for name in names):
            continue
        try:
            problem = difference(evaluate(module["main"], operands), expected)
        except ValueError as error:
            problem = str(error)
        if problem:
            wrong.append(f"{case.name} as {names}: {problem}")
        checked.update(names)
    assert not wrong, "\n".join(wrong)
    assert len(checked) > 100  # operators that had a case


def vague(type_: Type) -> Type:
    """A type without known sizes."""
    if isinstance(type_, TupleType):
        return TupleType(map(vague, type_.fields))
    return type_.with_shape((ANY,) * type_.ndim) if isinstance(type_, TensorType) else type_


def says_less(type_: Type, other: Type) -> bool:
    """True if a type is less specific than another."""
    if isinstance(type_, TupleType) and isinstance(other, TupleType):
        return any(map(says_less, type_.fields, other.fields))
    if not isinstance(type_, TensorType) or not isinstance(other, TensorType):
        return isinstance(other, TensorType)
    return any(size is ANY and said is not ANY for size, said in zip(type_.shape, other.shape, strict=True))


def test_who_knows_the_sizes_of_operands_knows_no_less_of_results_and_nothing_else() -> None:
    """ONNX's inference knows the rank of the parts of a Split of a vector of unknown size, but not of one with seven elements; it takes
    unknown sizes of Attention for 0."""
    wrong: dict[str, str] = {}
    asked: set[str] = set()
    for case in collected():
        if case.model is None:
            continue
        for call in post_order(from_onnx(case.model)["main"]):
            if not isinstance(call, Call) or not isinstance(call.op, Op):
                continue
            operands = [arg.checked_type for arg in call.args]
            attrs = Attrs({name: value for name, value in call.attrs.items() if name != "types"})
            known = call.op.infer(operands, attrs)
            for i, operand in enumerate(operands):
                with suppress(OpTypeError):
                    found = call.op.infer([*operands[:i], vague(operand), *operands[i + 1 :]], attrs)
                    asked.add(call.op.name)
                    if says_less(known, found) or not compatible(known, found):
                        wrong[call.op.name] = f"{case.name}: {known!r}, and {found!r} without the sizes of operand {i}"
    assert not wrong
    assert len(asked) > 200


def test_changed_cases_have_the_shapes_and_values_of_the_runtime() -> None:
    """A small fixed share of what `make fuzz` tests."""
    wrong, counted = {}, 0
    for seed in range(160):
        case = mutated_case(seed)
        if case is not None:
            counted += 1
            wrong[case.name] = examine(case, settings_of(seed))
    assert {name: finding for name, finding in wrong.items() if finding is not None} == {}
    assert counted > 60

"""Which values share storage: views, lifetimes, sizes, what may be written in place; and the plan that comes of it."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings

from passat.ir.buffers import Buffer, BufferView, Origin, is_reshape, size_of
from passat.ir.evaluate import evaluate_call
from passat.ir.expr import Call, Expr, Function, Tuple, TupleGetItem, Var
from passat.ir.op import Op, get_op
from passat.ir.storage_plan import StoragePlan, storage_plan
from passat.ir.tensor import Tensor
from passat.ir.text import parse_expr
from passat.ir.types import TensorType
from passat.rules.fusion.fuse_ops import fuse_ops
from tests.rules.building import dims, func, ops, splat, tup, var
from tests.rules.program_strategies import programs


def function(text: str) -> Function:
    found = parse_expr(text)
    assert isinstance(found, Function)
    return found


def view_of(text: str) -> BufferView:
    return BufferView(function(text))


def lives(view: BufferView) -> list[tuple[int, int]]:
    return [(buffer.first, buffer.last) for buffer in view.buffers]


class TestSizes:
    """Bytes."""

    @pytest.mark.parametrize(
        ("shape", "dtype", "size"),
        [((2, 3), "float32", 24), ((), "int64", 8), ((0, 3), "int8", 0), ((3,), "int4", 2), (("n",), "int8", None), (("?",), "int8", None)],
    )
    def test_of_tensors(self, shape: tuple[int | str, ...], dtype: str, size: int | None) -> None:
        assert size_of(TensorType(dims(*shape), dtype)) == size

    def test_of_texts(self) -> None:
        assert size_of(TensorType((2,), "string")) is None


class TestViews:
    """What makes no value of its own."""

    @pytest.mark.parametrize(
        "body",
        [
            "reshape(%x, newshape=[6])",
            "squeeze(%x)",
            "expand_dims(%x, axis=0)",
            "nn.batch_flatten(%x)",
            "annotation.stop_fusion(%x)",
            "reshape_like(%x, %x)",
            "squeeze(expand_dims(reshape(%x, newshape=[6]), axis=0))",
            "%0 = (%x, %x); %0.1",
            "let %y = %x; let %z = (%y, %y); %z.0",
            "%0 = fn (%p0: Tensor[(2, 3), float32], Primitive=1) { squeeze(reshape(%p0, newshape=[1, 6])) }; %0(%x)",
            "%0 = fn (%p0: Tensor[(2, 3), float32]) { %p0 }; %0(%x)",
        ],
    )
    def test_of_the_parameter(self, body: str) -> None:
        view = view_of(f"fn (%x: Tensor[(2, 3), float32]) {{ {body} }}")
        assert view.of(view.function.body) == (0,)
        assert view.is_view(view.function.body)
        assert (len(view.buffers), view.steps) == (1, [])

    @pytest.mark.parametrize(
        "body", ["transpose(%x, axes=[0, 1])", "copy(%x)", "broadcast_to(%x, shape=[2, 3])", "exp(reshape(%x, newshape=[6]))"]
    )
    def test_what_makes_a_value(self, body: str) -> None:
        view = view_of(f"fn (%x: Tensor[(2, 3), float32]) {{ {body} }}")
        assert view.of(view.function.body) == (1,)
        assert not view.is_view(view.function.body)

    def test_every_reshape_keeps_its_elements(self) -> None:
        """What is said to be a view has the elements of its operand in their order, and the element type."""
        data = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
        x = var("x", (2, 1, 3))
        made = [
            ops.reshape(x, newshape=(3, 2)),
            ops.squeeze(x),
            ops.expand_dims(x, axis=1),
            ops.nn.batch_flatten(x),
            ops.annotation.stop_fusion(x),
        ]
        for call in made:
            assert is_reshape(call)
            function = func(call)
            assert isinstance(function.body, Call)
            assert isinstance(function.body.op, Op)
            found = evaluate_call(function.body.op, [Tensor.dense(data)], call.attrs, function.body.checked_type)
            assert isinstance(found, Tensor)
            assert np.array_equal(found.numpy().reshape(-1), data.reshape(-1))

    def test_of_several_results(self) -> None:
        view = view_of("fn (%x: Tensor[(2, 4), float32]) { %0 = split(%x, indices_or_sections=2, axis=1); (%0.1, %x, %0.0) }")
        assert view.of(view.function.body) == (2, 0, 1)
        view = view_of(
            """fn (%x: Tensor[(2, 3), float32]) {
                 %0 = fn (%p0: Tensor[(2, 3), float32]) { (exp(%p0), squeeze(%p0)) }; %1 = %0(%x); (%1.0, %1.1) }"""
        )
        assert view.of(view.function.body) == (1, 0)
        assert [buffer.origin for buffer in view.buffers] == [Origin.PARAMETER, Origin.COMPUTED]


class TestLives:
    """From the step that makes a value to the last that reads it."""

    def test_of_a_chain(self) -> None:
        view = view_of("fn (%x: Tensor[(3), int8]) { negative(abs(sign(%x))) }")
        assert lives(view) == [(0, 4), (1, 2), (2, 3), (3, 4)]
        assert view.end == 4

    def test_views_keep_what_they_view(self) -> None:
        view = view_of(
            "fn (%x: Tensor[(1, 3), int8]) { let %a = abs(%x); let %b = squeeze(%a); let %c = sign(negative(%x)); (%c, sign(%b)) }"
        )
        assert view.buffers[1].last == 4

    def test_results_live_to_the_end(self) -> None:
        view = view_of("fn (%x: Tensor[(3), int8]) { %0 = abs(%x); (%0, negative(%0)) }")
        assert lives(view) == [(0, 3), (1, 3), (2, 3)]

    def test_a_result_that_nobody_reads(self) -> None:
        view = view_of("fn (%x: Tensor[(4), int8]) { %0 = split(%x, indices_or_sections=2); negative(%0.1) }")
        assert lives(view) == [(0, 3), (1, 1), (1, 2), (2, 3)]

    def test_arguments_come_before_what_reads_them(self) -> None:
        view = view_of("fn (%x: Tensor[(3), int8]) { let %a = abs(%x); let %b = negative(%x); add(%b, %a) }")
        assert [step.op.name for step in view.steps if isinstance(step, Call) and isinstance(step.op, Op)] == ["abs", "negative", "add"]

    def test_what_a_closure_captures_lives_to_the_end(self) -> None:
        view = view_of("fn (%x: Tensor[(3), int8]) { let %a = abs(%x); let %f = fn (%y: Tensor[(3), int8]) { add(%y, %a) }; %f(%f(%x)) }")
        assert view.buffers[1].last == view.end

    def test_what_branches_give_lives_to_the_end(self) -> None:
        view = view_of("fn (%x: Tensor[(3), int8], %c: bool) { negative(if (%c) { abs(%x) } else { sign(%x) }) }")
        assert [buffer.last == view.end for buffer in view.buffers] == [True] * 6
        assert view.in_place(view.steps[-1]) == ()

    def test_what_goes_into_a_reference_lives_to_the_end(self) -> None:
        view = view_of("fn (%x: Tensor[(3), int8]) { let %r = ref(abs(%x)); negative(ref_read(%r)) }")
        assert [buffer.last == view.end for buffer in view.buffers] == [True] * 4

    def test_overlap(self) -> None:
        view = view_of("fn (%x: Tensor[(3), int8]) { negative(negative(negative(negative(%x)))) }")
        assert [view.may_share(1, other) for other in range(5)] == [False, False, False, True, True]
        assert not view.may_share(3, 4)
        assert view.overlap(1, 2)


class TestInPlace:
    """Which operands a call may write its result to."""

    @pytest.mark.parametrize(
        ("body", "places"),
        [
            ("negative(abs(%x))", (1,)),
            ("negative(%x)", ()),  # a parameter is not ours
            ("%0 = abs(%x); (negative(%0), %0)", ()),  # a result
            ("%0 = abs(%x); (sign(%0), negative(%0))", (1,)),  # the last to read it
            ("add(abs(%x), sign(%x))", (1, 2)),
            ("%0 = abs(%x); add(%0, %0)", (1,)),
            ("softmax", ()),
            ("greater(abs(%x), %x)", ()),  # bytes, not floats
            ("cast(abs(%x), dtype='int32')", (1,)),  # of the same size
            ("add(abs(%x), %b)", (1,)),
            ("add(%x, abs(%b))", ()),  # which is smaller
            ("sum(abs(%x))", ()),
            ("transpose(abs(%x), axes=[0, 1])", ()),
            ("%0 = abs(%x); add(%0, reshape(%0, newshape=[2, 3]))", (1,)),
            ("negative(reshape(abs(%x), newshape=[6]))", (1,)),
            ("elemwise_sum", ()),
        ],
    )
    def test_of_operators(self, body: str, places: tuple[int, ...]) -> None:
        text = {"softmax": "nn.softmax(abs(%x))", "elemwise_sum": "%0 = (abs(%x), %x); elemwise_sum(%0)"}.get(body, body).replace("'", '"')
        view = view_of(f"fn (%x: Tensor[(2, 3), float32], %b: Tensor[(3), float32]) {{ {text} }}")
        shift = 1 if places else 0  # there are two parameters
        assert view.in_place(view.steps[-1]) == tuple(place + shift for place in places)

    def test_not_where_another_operand_looks_at_it_in_another_shape(self) -> None:
        view = view_of("fn (%x: Tensor[(3, 1), float32]) { %0 = abs(%x); add(%0, reshape(%0, newshape=[1, 3])) }")
        assert view.in_place(view.steps[-1]) == ()
        view = view_of("fn (%x: Tensor[(3, 3), float32]) { %0 = abs(%x); add(%0, reshape(%0, newshape=[1, 3, 3])) }")
        assert view.in_place(view.steps[-1]) == ()

    @pytest.mark.parametrize(
        ("body", "fits"),
        [
            ("add(exp(%p0), %p0)", True),
            ("exp(transpose(%p0, axes=[1, 0]))", False),
            ("add(%p0, sum(%p0))", False),
            ("nn.softmax(%p0)", False),
        ],
    )
    def test_of_fused_functions(self, body: str, fits: bool) -> None:
        view = view_of(
            f"fn (%x: Tensor[(3, 3), float32]) {{ %0 = fn (%p0: Tensor[(3, 3), float32], Primitive=1) {{ {body} }}; %0(abs(%x)) }}"
        )
        assert view.in_place(view.steps[-1]) == ((1,) if fits else ())


class TestPlan:
    """GraphPlanMemory."""

    def test_two_storages_are_enough_for_a_chain(self) -> None:
        """TVM's test_plan_memory: inputs have storage of their own, and the rest alternates between two."""
        text = "fn (%x: Tensor[(10), float32], %y: Tensor[(1), float32]) { exp(exp(exp(exp(exp(add(%x, exp(%y))))))) }"
        for made in (function(text), fuse_ops(function(text), fuse=False)):
            plan = storage_plan(made)
            assert len(set(plan.storage_of)) == len(plan.sizes) == 4
            assert plan.sizes == (40, 4, 40, 40)
            assert plan.total == 124

    def test_constants_have_their_own(self) -> None:
        plan = storage_plan(func(ops.add(ops.add(var("x", (3,)), splat(1.0, (3,))), splat(1.0, (3,)))))
        assert len(set(plan.storage_of)) == 5

    def test_views_have_what_they_view(self) -> None:
        made = func(ops.exp(ops.reshape(ops.exp(var("x", (2, 3))), newshape=(6,))))
        plan = storage_plan(made)
        assert isinstance(made.body, Call)
        assert isinstance(made.body.args[0], Call)
        assert plan.of(made.body.args[0]) == plan.of(made.body.args[0].args[0])
        assert len(plan.sizes) == 3

    def test_the_smallest_that_is_large_enough(self) -> None:
        """Of free storages; a smaller one grows, but not sixteenfold."""
        chain = "fn (%x: Tensor[({0}), int8]) {{ %0 = negative(%x); {1} }}"
        first = "negative(strided_slice(%0, begin=[0], end=[1]))"
        assert storage_plan(function(chain.format(64, first))).sizes == (64, 64, 1, 1)  # a byte does not take 64
        assert storage_plan(function(chain.format(16, first))).sizes == (16, 16, 1)
        grown = storage_plan(function(chain.format(1, "negative(tile(negative(%0), reps=[16]))")))
        assert grown.sizes == (1, 16, 16)
        apart = storage_plan(function(chain.format(1, "negative(tile(negative(%0), reps=[32]))")))
        assert sorted(size for size in apart.sizes if size is not None) == [1, 1, 1, 32, 32]

    def test_results_that_nobody_reads_are_free_at_once(self) -> None:
        plan = storage_plan(function("fn (%x: Tensor[(4), int8]) { %0 = split(%x, indices_or_sections=2); negative(%0.1) }"))
        assert plan.storage_of == (0, 1, 2, 1)

    def test_unknown_sizes_share_nothing(self) -> None:
        plan = storage_plan(func(ops.exp(ops.exp(ops.exp(ops.exp(var("x", ("n",))))))))
        assert len(plan.sizes) == 5
        assert plan.total is None


def run_on_storages(view: BufferView, plan: StoragePlan) -> None:
    """Goes through the steps as if each wrote to the storages of its results. Raises AssertionError where a value is read that is not there
    any more."""
    held: dict[int, int] = {plan.storage_of[b.number]: b.number for b in view.buffers if b.origin is not Origin.COMPUTED}
    for step in view.steps:
        for buffer in (b for b in view.buffers if b.node is step):
            held[plan.storage_of[buffer.number]] = buffer.number
        assert isinstance(step, Call)
        for arg in step.args:
            for number in view.of(arg):
                assert held[plan.storage_of[number]] == number
    for number in view.of(view.function.body):
        assert held[plan.storage_of[number]] == number


@settings(deadline=None, max_examples=200)
@given(programs())
def test_laws(made: Function) -> None:
    """A plan never gives the storage of a value away that is still read; sharing storages do not overlap; views are as large as what they
    view; in-place operands die where they are overwritten."""
    for each in (made, fuse_ops(made)):
        view = BufferView(each)
        plan = StoragePlan(view)
        run_on_storages(view, plan)
        by_storage: dict[int, list[Buffer]] = {}
        for buffer in view.buffers:
            by_storage.setdefault(plan.storage_of[buffer.number], []).append(buffer)
            size = plan.sizes[plan.storage_of[buffer.number]]
            assert size is not None
            assert buffer.size is not None
            assert size >= buffer.size
        for shared in by_storage.values():
            for a, b in pairwise(shared):
                assert view.may_share(a.number, b.number)
        for node in view.steps:
            for number in view.in_place(node):
                assert view.buffers[number].size == view.buffers[view.of(node)[0]].size
                assert number not in view.of(each.body)


def test_a_long_chain() -> None:
    x = Var("x", TensorType((2,), "float32"))
    made: Expr = x
    negative = get_op("negative")
    for _ in range(30_000):
        made = negative(made)
    plan = storage_plan(Function([x], made))
    assert len(plan.sizes) == 3


def test_deep_tuples() -> None:
    made: Expr = var("x", (2,))
    for _ in range(1_000):
        made = tup(made)
    for _ in range(1_000):
        made = TupleGetItem(made, 0)
    view = BufferView(func(made))
    assert view.of(view.function.body) == (0,)
    assert not any(isinstance(step, Tuple) for step in view.steps)

"""Random typed programs of elementwise operators, data movement and products: `programs()` draws them, `build` makes one from a seed.

A seed gives equal programs each time, so that two runs on new objects can be compared.
"""

from collections.abc import Callable, Sequence

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from passat.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from passat.ir.infer import InferError, infer_type
from passat.ir.op import OpTypeError, get_op
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType
from passat.rules.checking.attributes import random_attributes
from passat.rules.checking.sampler import Sampler, draw_array
from passat.rules.library import Decompositions, rule_sets
from passat.rules.rule_set import RuleSetMeta

_MOVES = ("transpose", "reshape", "expand_dims", "squeeze", "nn.batch_flatten", "broadcast_to", "tile", "nn.pad", "strided_slice")
_TAME_UNARY = ("negative", "abs", "copy", "nn.relu", "sign", "floor")
_WILD_UNARY = (*_TAME_UNARY, "reciprocal", "sqrt", "ceil", "round")
_BINARY = ("add", "add", "subtract", "multiply", "multiply", "maximum", "minimum")
_VALUES = (0.0, 1.0, 1.0, -0.0, 2.0, 0.5, 4.0, -1.0, 3.0)
_WITHOUT_DROPOUT = Decompositions.only(*(rule.own_name for rule in Decompositions if rule is not Decompositions.dropout))
KEEPING_DROPOUT: list[RuleSetMeta] = [_WITHOUT_DROPOUT if rules is Decompositions else rules for rules in rule_sets().values()]
"""All rules of the library but the one that removes stateful calls."""


class _Builder:
    """Grows a pool of typed expressions."""

    def __init__(self, sampler: Sampler, tame: bool, stateful: bool) -> None:
        self.sampler = sampler
        self.tame = tame
        self.stateful = stateful
        dtype = sampler.pick(("float32", "float32", "float32", "float64", "int32", "int8"))
        base = sampler.pick(((2, 3), (4, 2), (3,), (2, 1, 3), (2, 2, 3), (1, 4), (0, 3), ()))
        self.params = [Var(f"x{i}", TensorType(self.cut(base), dtype)) for i in range(sampler.integer(1, 3))]
        self.pool: list[Expr] = list(self.params)

    def cut(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape, or a part of it that broadcasts to it."""
        return tuple(shape) if self.sampler.chance(0.6) else tuple(shape)[self.sampler.integer(0, len(shape)) :]

    def tensor(self, wanted: Callable[[TensorType], bool] = lambda type_: True) -> Expr | None:
        """A tensor of the pool, more often a recent one."""
        fitting = [part for part in self.pool if isinstance(part.checked_type, TensorType) and wanted(part.checked_type)]
        if not fitting:
            return None
        return fitting[-min(self.sampler.integer(1, 4), len(fitting))] if self.sampler.chance(0.7) else self.sampler.pick(fitting)

    def constant(self, shape: Sequence[int], dtype: str) -> Constant:
        """A constant of the kinds that rules match: one small value, or a few."""
        if self.sampler.chance(0.6):
            value = float(self.sampler.pick(_VALUES))
            return Constant(Tensor.splat(value if "float" in dtype else int(abs(value)), tuple(shape), dtype))
        if "float" in dtype:
            return Constant(Tensor.dense(self.sampler.generator.integers(1, 9, tuple(shape)) / 4, dtype))
        return Constant(Tensor.dense(draw_array(self.sampler.generator, shape, dtype)))

    def grow(self) -> None:
        """Adds an expression, or none if the sample is ill-typed."""
        kinds = [
            self.unary,
            self.binary,
            self.scaled,
            self.scaled,
            self.moved,
            self.moved,
            self.joined,
            self.cut_up,
            self.product,
            self.chosen,
            self.cast,
            self.shaped,
        ]
        kinds += [self.dropped] * 3 if self.stateful else []
        try:
            made = self.sampler.pick(kinds)()
            if made is not None:
                self.pool.append(infer_type(made))
        except (InferError, OpTypeError, ValueError):
            pass

    def unary(self) -> Expr | None:
        part = self.tensor()
        return part and Call(get_op(self.sampler.pick(_TAME_UNARY if self.tame else _WILD_UNARY)), [part])

    def binary(self) -> Expr | None:
        first, second = self.tensor(), self.tensor()
        if first is None or second is None:
            return None
        name = self.sampler.pick(_BINARY if self.tame else (*_BINARY, "divide"))
        return Call(get_op(name), [first, second])

    def scaled(self) -> Expr | None:
        """An operator on a tensor and a constant, in either order."""
        part = self.tensor()
        if part is None:
            return None
        type_ = part.checked_type
        assert isinstance(type_, TensorType)
        if type_.dtype == "bool":
            return Call(get_op(self.sampler.pick(("logical_and", "logical_or"))), [part, self.constant((), "bool")])
        shape = self.cut([int(dim) for dim in type_.shape if isinstance(dim, int)])
        constant = self.constant(tuple(1 if self.sampler.chance(0.3) else dim for dim in shape), type_.dtype)
        name = self.sampler.pick(("add", "subtract", "multiply", "divide"))
        if name == "divide" and "float" not in type_.dtype:
            name = "multiply"
        if name == "divide" and self.tame:
            constant = Constant(Tensor.splat(self.sampler.pick((2.0, 0.5, 3.0)), constant.data.shape, type_.dtype))
        if name == "divide" or self.sampler.chance(0.8):
            return Call(get_op(name), [part, constant])
        return Call(get_op(name), [constant, part])

    def moved(self) -> Expr | None:
        part = self.tensor()
        if part is None:
            return None
        type_ = part.checked_type
        assert isinstance(type_, TensorType)
        op = get_op(self.sampler.pick(_MOVES))
        shape = tuple(dim for dim in type_.shape if isinstance(dim, int))
        made = Call(op, [part], op.bind_attrs(random_attributes(op, shape, type_.dtype, self.sampler)))
        type_ = infer_type(made).checked_type
        return made if isinstance(type_, TensorType) and type_.ndim <= 5 and isinstance(type_.size, int) and type_.size <= 200 else None

    def joined(self) -> Expr | None:
        part = self.tensor()
        if part is None:
            return None
        parts = [part] * self.sampler.pick((1, 1, 2))
        op = get_op("concatenate")
        return Call(op, [Tuple(parts)], op.bind_attrs({"axis": self.sampler.pick((0, -1))}))

    def cut_up(self) -> Expr | None:
        wholes = [part for part in self.pool if isinstance(part.checked_type, TupleType)]
        if wholes and self.sampler.chance(0.7):
            whole = self.sampler.pick(wholes)
            return TupleGetItem(whole, self.sampler.integer(0, len(whole.checked_type.fields) - 1))
        part = self.tensor()
        if part is not None and self.sampler.chance(0.5):
            return Call(get_op("split"), [part], get_op("split").bind_attrs({"indices_or_sections": self.sampler.pick((1, 2))}))
        other = self.tensor()
        return Tuple([part, other]) if part is not None and other is not None else None

    def product(self) -> Expr | None:
        part = self.tensor(lambda type_: type_.ndim >= 2 and type_.dtype != "bool")
        if part is None:
            return None
        type_ = part.checked_type
        assert isinstance(type_, TensorType)
        columns = self.sampler.pick((1, 2, 3))
        rows = type_.shape[-1]
        assert isinstance(rows, int)
        weight = self.constant((rows, columns), type_.dtype)
        made: Expr = Call(get_op("nn.matmul"), [part, weight], get_op("nn.matmul").bind_attrs({}))
        if self.sampler.chance(0.5):
            made = Call(get_op("add"), [made, self.constant((columns,), type_.dtype)])
        if self.sampler.chance(0.3):
            made = Call(get_op("multiply"), [made, self.constant((), type_.dtype)])
        return made

    def chosen(self) -> Expr | None:
        first, second = self.tensor(), self.tensor()
        guard = self.tensor(lambda type_: type_.dtype == "bool")
        if self.sampler.chance(0.5) or guard is None:
            guard = self.constant((), "bool")
        return Call(get_op("where"), [guard, first, second]) if first is not None and second is not None else None

    def cast(self) -> Expr | None:
        part = self.tensor(lambda type_: type_.dtype != "bool")
        if part is None:
            return None
        type_ = part.checked_type
        assert isinstance(type_, TensorType)
        wider = {"float32": "float64", "int8": "int32", "int32": "int64"}.get(type_.dtype, type_.dtype)
        op = get_op("cast")
        through = Call(op, [part], op.bind_attrs({"dtype": self.sampler.pick((type_.dtype, wider))}))
        return Call(op, [through], op.bind_attrs({"dtype": type_.dtype})) if self.sampler.chance(0.7) else through

    def shaped(self) -> Expr | None:
        """A reshape to the tensor's own shape, which is computed."""
        part = self.tensor()
        if part is None:
            return None
        shape = Call(get_op("shape_of"), [part], get_op("shape_of").bind_attrs({"dtype": "int64"}))
        return Call(get_op("dyn.reshape"), [part, shape], get_op("dyn.reshape").bind_attrs({}))

    def dropped(self) -> Expr | None:
        part = self.tensor(lambda type_: "float" in type_.dtype)
        op = get_op("nn.dropout")
        return part and TupleGetItem(Call(op, [part], op.bind_attrs({})), 0)


def build(seed: int, size: int, *, tame: bool = False, stateful: bool = False) -> Function:
    """The program of a seed, with about `size` operations. In a tame program, reassociation changes values by rounding alone."""
    builder = _Builder(Sampler(np.random.default_rng(seed)), tame, stateful)
    for _ in range(size):
        builder.grow()
    late = builder.pool[-builder.sampler.integer(1, 4) :]
    body: Expr = late[-1] if len(late) == 1 else Tuple(late)
    function = Function(builder.params, body)
    infer_type(function)
    return function


def programs(*, tame: bool = False, stateful: bool = False) -> SearchStrategy[Function]:
    """Programs of up to twelve operations."""
    return st.builds(lambda seed, size: build(seed, size, tame=tame, stateful=stateful), st.integers(0, 1 << 32), st.integers(1, 12))

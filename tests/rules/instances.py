"""Random well-typed programs that a rule's left side matches: for each hole a type, for each call attributes, shapes with 0, 1, 2, 3.

Random is what a rule leaves open. What it names (a hole twice, an attribute's value) is kept, and the rule's own conditions decide whether
it applies.
"""

from collections.abc import Mapping, Sequence
from typing import Any as AnyValue
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from passat.ir.attrs import Attrs
from passat.ir.dtypes import FLOATS
from passat.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from passat.ir.infer import InferError, infer_type
from passat.ir.op import OpTypeError, get_op
from passat.ir.shape import ANY, Dim, SymDim, evaluate_dim
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType
from passat.rules.pattern import AttrHole, Pattern, PCall, PConst, PGet, PTuple, PVar, subterms
from passat.rules.rule import Rule
from tests.rules.random_attrs import ALL_TYPES, Dice, random_attributes
from tests.rules.running import draw_array

FLOAT_TYPES = ("float32", "float16", "float64", "bfloat16")
PLAIN_VALUES = (0.0, 1.0, 1.0, -0.0, 2.0, 0.5, 0.25, 3.0, -1.0, 4.0)
SPECIAL_VALUES = (
    *(0.0, 1.0, -0.0, -1.0, 2.0, 0.5, 1e-40, 3e38, 1e-30, 7e4, float("inf"), float("-inf"), float("nan")),
    *(2.0**power for power in (-149, -130, -126, -24, -20, -15, -14, 15, 16, 127)),
)


class Unfit(Exception):
    """A draw that came out ill-typed."""


class Instance(NamedTuple):
    """A program whose body is the left side of a rule; the shape of each parameter, and what symbols in their types stand for."""

    function: Function
    shapes: tuple[tuple[int, ...], ...]
    sizes: Mapping[str, int]

    def feeds(self, generator: Generator, *, special: bool = False) -> list[Tensor]:
        """Random inputs."""
        types = [param.checked_type for param in self.function.params]
        return [
            Tensor.dense(draw_array(generator, shape, type_.dtype, special=special))
            for shape, type_ in zip(self.shapes, types, strict=True)
            if isinstance(type_, TensorType)
        ]


def draw(rule: Rule, generator: Generator, *, special: bool = False, symbolic: bool = False) -> Instance | None:
    """An instance of a rule's left side, or None where the draw came out ill-typed. `special`: constants may be extreme; `symbolic`:
    sizes of variables may be named or unknown."""
    try:
        return _Drawer(rule, Dice(generator), special, symbolic).draw()
    except Unfit:
        return None


class _Drawer:
    """Draws one instance of one rule."""

    def __init__(self, rule: Rule, dice: Dice, special: bool, symbolic: bool) -> None:
        self.rule = rule
        self.dice = dice
        self.special = special
        self.symbolic = symbolic
        self.dtype: str = dice.pick(ALL_TYPES if dice.chance(0.5) else FLOAT_TYPES)
        self.terms = list(subterms(rule.lhs))
        self.calls = [node for node in self.terms if isinstance(node, PCall)]
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.attrs: dict[str, Attrs] = {}
        self.sizes: dict[str, int] = {}
        self.made: dict[tuple[AnyValue, ...], Expr] = {}
        self.convolution: dict[str, AnyValue] = {}
        self.channels = -1
        self.dynamic: dict[str, AnyValue] = {}

    def draw(self) -> Instance:
        """The instance. Raises Unfit."""
        base = self.dice.shape()
        for node in self.terms:
            if isinstance(node, (PVar, PConst)) and node.name not in self.shapes:
                self.shapes[node.name] = base if self.dice.chance(0.5) else self.weaker(base)
        for call in self.calls:
            if call.op.name in ("nn.matmul", "nn.dense"):
                self.plan_product(call)
            elif call.op.name.startswith("nn.conv"):
                self.plan_convolution(call)
            elif call.op.name == "dyn.full":
                self.shapes["x0"] = ()
        for call in self.calls:
            if call.op.name == "nn.batch_norm":
                self.plan_norm(call)
        body = self.build(self.rule.lhs)
        params = [made for made in self.made.values() if isinstance(made, Var)]
        return Instance(Function(params, body), tuple(self.shapes[param.name_hint] for param in params), self.sizes)

    # ---- shapes that have a fair chance to be well typed

    def weaker(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that broadcasts to another; now and then with an axis more."""
        kept = tuple(1 if self.dice.chance(0.4) else dim for dim in shape[self.dice.integer(0, len(shape)) :])
        return (1, *kept) if self.dice.chance(0.1) else kept

    def assign(self, pattern: Pattern, shape: tuple[int, ...]) -> None:
        """Gives the hole below views a shape of as many elements."""
        while isinstance(pattern, PCall) and len(pattern.args) == 1:
            pattern = pattern.args[0]
            if len(shape) == 2 and shape[0] in (2, 4, 6) and self.dice.chance(0.6):
                shape = (2, shape[0] // 2, shape[1])
        if isinstance(pattern, (PVar, PConst)):
            self.shapes[pattern.name] = shape

    def assign_vectors(self, channels: int, trailing: int = 0) -> None:
        """Shapes of the constants that meet something with that many channels: b is a bias; c and d are anything that broadcasts."""
        for node in self.terms:
            if isinstance(node, PConst) and node.name in ("b", "c", "d"):
                full = (channels, *(1,) * trailing)
                odd = [(), (1,), full, (channels,), (1, *full), (1,) * (trailing + 2), (1,) * (trailing + 3)]
                plain = node.name == "b" and self.dice.chance(0.8)
                self.shapes[node.name] = (channels,) if plain else self.dice.pick(odd)

    def plan_product(self, call: PCall) -> None:
        rows, inner, columns = self.dice.pick((1, 2, 4, 6, 3, 0)), self.dice.pick((1, 2, 3, 4, 0)), self.dice.dim()
        if self.dice.chance(0.3):
            rows = columns = inner
        left = self.dice.pick([(rows, inner)] * 4 + [(2, rows, inner), (inner,)])
        right = self.dice.pick([(inner, columns)] * 6 + [(2, inner, columns), (inner,)])
        self.assign(call.args[0], left)
        self.assign(call.args[1], (columns, inner) if call.op.name == "nn.dense" else right)
        self.channels = columns
        self.assign_vectors(columns)

    def plan_convolution(self, call: PCall) -> None:
        rank = int(call.op.name.removeprefix("nn.conv")[0])
        transposed = call.op.name.endswith("transpose")
        groups = self.dice.pick((1, 1, 1, 2))
        inner, outer = groups * self.dice.pick((1, 2)), groups * self.dice.pick((1, 2, 3))
        window = tuple(self.dice.pick((1, 2, 3)) for _ in range(rank))
        data = (self.dice.pick((1, 2, 0)), inner, *(self.dice.pick((3, 4)) for _ in range(rank)))
        weight = (inner, outer // groups, *window) if transposed else (outer, inner // groups, *window)
        self.convolution = {"strides": self.dice.pick((1, 2)), "padding": self.dice.pick((0, 1)), "groups": groups}
        if self.dice.chance(0.15):
            self.convolution["data_layout"] = {1: "NWC", 2: "NHWC", 3: "NDHWC"}[rank]
            data = (data[0], *data[2:], inner)
        self.assign(call.args[0], data)
        self.assign(call.args[1], weight)
        self.channels = outer
        self.assign_vectors(outer, rank)

    def plan_norm(self, call: PCall) -> None:
        if self.channels < 0:
            shape = self.dice.pick([self.dice.shape(2, 4), (self.dice.dim(),)])
            self.assign(call.args[0], shape)
            self.channels = shape[-1] if len(shape) == 1 else shape[1]
            self.assign_vectors(self.channels, max(len(shape) - 2, 0))
        for part in call.args[1:]:
            self.assign(part, (self.channels,))

    # ---- terms

    def build(self, pattern: Pattern) -> Expr:
        """The expression of a pattern, with its type."""
        found = self.made.get(pattern.key)
        if found is None:
            try:
                found = self.made[pattern.key] = infer_type(self.make(pattern))
            except (InferError, OpTypeError, ValueError) as error:
                raise Unfit(str(error)) from None
        return found

    def make(self, pattern: Pattern) -> Expr:
        if isinstance(pattern, PVar):
            return self.variable(pattern.name)
        if isinstance(pattern, PConst):
            return self.constant(pattern.name)
        if isinstance(pattern, PTuple):
            return Tuple([self.build(field) for field in pattern.fields])
        if isinstance(pattern, PGet):
            whole = self.build(pattern.of)
            if not isinstance(whole.checked_type, TupleType) or pattern.index >= len(whole.checked_type.fields):
                raise Unfit("no such field")
            return TupleGetItem(whole, pattern.index)
        assert isinstance(pattern, PCall)
        if pattern.op.name.startswith("dyn."):
            return self.dynamic_call(pattern)
        args = [self.build(arg) for arg in pattern.args]
        return Call(pattern.op, args, self.attributes(pattern, args))

    def dtype_of(self, name: str) -> str:
        """The element type of a hole: bool where it is a condition or part of logic."""
        for call in self.calls:
            for i, arg in enumerate(call.args):
                if isinstance(arg, (PVar, PConst)) and arg.name == name:
                    if call.op.name.startswith("logical") or (call.op.name == "where" and i == 0):
                        return "bool"
                    if call.op.name == "dyn.one_hot" and i == 0:
                        return "int64"
        return self.dtype

    def variable(self, name: str) -> Var:
        dims: list[Dim] = []
        for dim in self.shapes[name]:
            symbol = self.dice.pick([f"n{dim}", f"n{dim}", f"{name}{len(dims)}", "?"]) if self.symbolic and self.dice.chance(0.5) else None
            if symbol not in (None, "?"):
                self.sizes[symbol] = dim
            dims.append(dim if symbol is None else ANY if symbol == "?" else SymDim.named(symbol))
        return Var(name, TensorType(tuple(dims), self.dtype_of(name)))

    def constant(self, name: str) -> Constant:
        shape, dtype = self.shapes[name], self.dtype_of(name)
        if self.dice.chance(0.5):
            value = float(self.dice.pick(SPECIAL_VALUES if self.special else PLAIN_VALUES))
            if dtype not in FLOATS:
                value = abs(int(value)) if abs(value) < 100 else 7
            with np.errstate(all="ignore"):
                return Constant(Tensor.splat(value, shape, dtype) if self.dice.chance(0.5) else Tensor.dense(np.full(shape, value), dtype))
        array = draw_array(self.dice.generator, shape, dtype, special=self.special)
        return Constant(Tensor.dense(np.abs(array) if name == "var" else array))

    def attributes(self, call: PCall, args: Sequence[Expr]) -> Attrs:
        """The attributes of a call: as the pattern has them, else random."""
        if not call.op.attr_params:
            return Attrs()
        whole = call.attrs.get("attrs")
        if isinstance(whole, AttrHole) and whole.name in self.attrs and self.dice.chance(0.7):
            return self.attrs[whole.name]
        shape, dtype = self.known_shape(args[0]) if args else ((), self.dtype)
        drawn = dict(self.convolution) if call.op.name.startswith("nn.conv") else random_attributes(call.op.name, shape, dtype, self.dice)
        given = {name: value for name, value in call.attrs.items() if name != "attrs" and not isinstance(value, AttrHole)}
        attrs = call.op.bind_attrs({**drawn, **given})
        if isinstance(whole, AttrHole):
            self.attrs[whole.name] = attrs
        return attrs

    def known_shape(self, expr: Expr) -> tuple[tuple[int, ...], str]:
        """The shape that an operand will have, as far as its type tells, and its element type."""
        type_ = expr.checked_type
        if not isinstance(type_, TensorType):
            return (), self.dtype
        return tuple(evaluate_dim(dim, self.sizes, 2) for dim in type_.shape), type_.dtype

    # ---- operators whose shapes are operands

    def dynamic_call(self, call: PCall) -> Expr:
        """A call of a `dyn.` operator whose further operands are constants, now and then shape arithmetic or unknown."""
        data = self.build(call.args[0])
        assert isinstance(data.checked_type, TensorType)
        kind = call.op.name.removeprefix("dyn.")
        shape, dtype = self.known_shape(data)
        drawn = random_attributes("nn.pad" if kind == "pad" else kind, shape, dtype, self.dice)
        operands: list[Expr] = [data, *(self.shape_operand(name, value, data) for name, value in _vectors(kind, drawn, shape, self.dice))]
        attrs: dict[str, AnyValue] = {}
        if kind == "pad":
            attrs["pad_mode"] = drawn["pad_mode"]
            operands.append(Constant(Tensor.dense(np.asarray(self.dice.pick((0, 1))), dtype)))
        elif kind == "one_hot":
            operands += [Constant(Tensor.dense(np.asarray(value), self.dtype)) for value in (1, 0)]
            attrs["axis"] = self.dice.pick((-1, 0))
        elif kind == "topk":
            attrs["axis"], attrs["largest"] = self.dice.pick((-1, 0)), self.dice.chance(0.5)
        for pattern, operand in zip(call.args[1:], operands[1:], strict=True):
            self.made[pattern.key] = infer_type(operand)
            if isinstance(operand, Var):
                assert isinstance(pattern, PVar)
                self.shapes[operand.name_hint] = tuple(dim for dim in operand.checked_type.shape if isinstance(dim, int))  # type: ignore[attr-defined]  # a tensor's
        return Call(call.op, operands, call.op.bind_attrs(attrs))

    def shape_operand(self, name: str, value: Sequence[int], data: Expr) -> Expr:
        """An operand with these elements, known or computed from the shape of the data."""
        vector = Constant(Tensor.dense(np.asarray(value, np.int64)))
        if name in ("shape", "reps") and self.symbolic and self.dice.chance(0.4):
            whole = get_op("shape_of")(data, dtype="int64")
            first = get_op("strided_slice")(whole, begin=(0,), end=(1,))
            return self.dice.pick([whole, get_op("concatenate")(Tuple([first, Constant(Tensor.dense(np.asarray([-1])))]))])  # type: ignore[no-any-return]
        return vector


def _vectors(kind: str, drawn: Mapping[str, AnyValue], shape: tuple[int, ...], dice: Dice) -> list[tuple[str, Sequence[int]]]:
    """The vectors that a dynamic operator takes after its data, with their names."""
    if kind == "reshape":
        return [("shape", drawn["newshape"])]
    if kind == "broadcast_to":
        return [("shape", drawn["shape"])]
    if kind == "full":
        return [("shape", dice.shape(0, 3))]
    if kind == "tile":
        return [("reps", drawn["reps"][-len(shape) :] if shape else ())]
    if kind == "strided_slice":
        steps = drawn["strides"] or (1,) * len(drawn["begin"])
        return [("begin", drawn["begin"]), ("end", drawn["end"]), ("strides", steps), ("axes", drawn["axes"])]
    if kind == "pad":
        return [("pad_width", [before for before, _ in drawn["pad_width"]] + [after for _, after in drawn["pad_width"]])]
    return [("depth" if kind == "one_hot" else "k", [dice.integer(0, 3)])]

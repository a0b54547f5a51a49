"""Random well-typed programs that a rule's left side matches: for each hole a type, for each call attributes, shapes with 0, 1, 2, 3.

Random is what a rule leaves open. What it names (a hole twice, an attribute's value) is kept, and the rule's own conditions decide whether
it applies.
"""

from collections.abc import Sequence
from typing import Any as AnyValue

import numpy as np
from numpy.random import Generator

from passat.ir.attrs import Attrs
from passat.ir.dtypes import FLOATS
from passat.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from passat.ir.infer import InferError, infer_type
from passat.ir.op import Op, OpTypeError
from passat.ir.shape import ANY, Dim, SymDim
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType
from passat.rules.pattern import AttrHole, Pattern, PCall, PConst, PGet, PLiteral, PTuple, PVar, subterms
from passat.rules.rule import Rule
from tests.rules.running import draw_array

FLOAT_TYPES = ("float32", "float16", "float64", "bfloat16")
INTEGER_TYPES = ("int64", "int32", "int8", "uint8", "int16", "uint32")
ALL_TYPES = (*FLOAT_TYPES, *INTEGER_TYPES, "bool")


class Unfit(Exception):
    """A draw that came out ill-typed."""


class Instance:
    """A program whose body is the left side of a rule, and the sizes of its symbolic dimensions."""

    def __init__(self, function: Function, sizes: dict[str, int]) -> None:
        self.function = function
        self.sizes = sizes


class Drawer:
    """Draws instances of one rule."""

    def __init__(self, rule: Rule, generator: Generator, *, special: bool, symbolic: bool) -> None:
        self.rule = rule
        self.generator = generator
        self.special = special
        self.symbolic = symbolic
        self.holes: dict[str, Expr] = {}
        self.attrs: dict[str, AnyValue] = {}
        self.sizes: dict[str, int] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.made: dict[tuple[AnyValue, ...], Expr] = {}
        self.ops = {node.op.name for node in subterms(rule.lhs) if isinstance(node, PCall)}
        self.dtype = self.pick(ALL_TYPES if generator.random() < 0.5 else FLOAT_TYPES)

    def draw(self) -> Instance:
        """An instance. Raises Unfit."""
        self.plan_shapes()
        body = self.build(self.rule.lhs)
        params = [hole for hole in self.holes.values() if isinstance(hole, Var)]
        function = Function(params, body)
        infer_type(function)
        return Instance(function, self.sizes)

    def pick(self, choices: Sequence[AnyValue]) -> AnyValue:
        """One of several."""
        return choices[int(self.generator.integers(len(choices)))]

    def dim(self) -> int:
        """A size, now and then 0."""
        return int(self.pick((0, 1, 1, 2, 2, 2, 3, 3, 3, 4)))

    def shape(self, low: int = 0, high: int = 4) -> tuple[int, ...]:
        """A shape."""
        return tuple(self.dim() for _ in range(int(self.generator.integers(low, high + 1))))

    # ---- types of holes

    def plan_shapes(self) -> None:
        """Gives each hole a shape so that the left side has a fair chance to be well typed."""
        base = self.shape()
        for node in subterms(self.rule.lhs):
            if isinstance(node, (PVar, PConst)) and node.name not in self.shapes:
                self.shapes[node.name] = base if self.generator.random() < 0.5 else self.weaker(base)
        for node in subterms(self.rule.lhs):
            if isinstance(node, PCall):
                name = node.op.name
                if name in ("nn.matmul", "nn.dense"):
                    self.plan_product(node)
                elif name.startswith("nn.conv"):
                    self.plan_convolution(node)
                elif name == "nn.batch_norm":
                    self.plan_norm(node)

    def weaker(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that broadcasts to another, or now and then one that shares its size only."""
        kept = shape[int(self.generator.integers(0, len(shape) + 1)) :]
        kept = tuple(1 if self.generator.random() < 0.4 else dim for dim in kept)
        return (1, *kept) if self.generator.random() < 0.1 else kept

    def assign(self, pattern: Pattern, shape: tuple[int, ...]) -> None:
        """Gives the hole at the end of a chain of views a shape of as many elements."""
        while isinstance(pattern, PCall) and len(pattern.args) == 1:
            pattern = pattern.args[0]
            if self.generator.random() < 0.6 and len(shape) == 2 and shape[0] in (2, 4, 6):
                shape = (2, shape[0] // 2, shape[1])
        if isinstance(pattern, (PVar, PConst)):
            self.shapes[pattern.name] = shape

    def plan_product(self, node: PCall) -> None:
        rows, inner, columns = int(self.pick((1, 2, 4, 6, 3, 0))), max(self.dim(), int(self.pick((0, 1)))), self.dim()
        if self.generator.random() < 0.3:
            rows = columns = inner
        left: tuple[int, ...] = self.pick([(rows, inner)] * 4 + [(2, rows, inner), (inner,)])
        right: tuple[int, ...] = self.pick([(inner, columns)] * 5 + [(2, inner, columns), (inner,)])
        if node.op.name == "nn.dense":
            right = (columns, inner)
        self.assign(node.args[0], left)
        self.assign(node.args[1], right)
        self.plan_vectors({"b": (columns,), "c": (columns,), "d": (columns,)}, columns)

    def plan_vectors(self, wanted: dict[str, tuple[int, ...]], channels: int, trailing: int = 0) -> None:
        """Shapes of the constants that meet a product with that many channels."""
        for node in subterms(self.rule.lhs):
            if isinstance(node, PConst) and node.name in wanted:
                shape: tuple[int, ...] = (channels,)
                if node.name in ("c", "d"):
                    shape = self.pick([(), (1,), (channels, *(1,) * trailing), (channels,), (1, channels, *(1,) * trailing), (1,) * (trailing + 2)])
                elif self.generator.random() < 0.2:
                    shape = self.pick([(), (1,), (1, channels)])
                self.shapes[node.name] = shape

    def plan_convolution(self, node: PCall) -> None:
        rank = int(node.op.name.removeprefix("nn.conv")[0])
        groups = int(self.pick((1, 1, 1, 2)))
        inner, outer = groups * int(self.pick((1, 2))), groups * int(self.pick((1, 2, 3)))
        window = tuple(int(self.pick((1, 2, 3))) for _ in range(rank))
        data = (int(self.pick((1, 2, 0))), inner, *(int(self.pick((3, 4))) for _ in range(rank)))
        transposed = node.op.name.endswith("transpose")
        weight = (inner, outer // groups, *window) if transposed else (outer, inner // groups, *window)
        self.assign(node.args[0], data)
        self.assign(node.args[1], weight)
        self.convolution = {
            "strides": int(self.pick((1, 2))),
            "padding": int(self.pick((0, 1))),
            "groups": groups,
            **({"output_padding": 0} if transposed else {}),
        }
        if self.generator.random() < 0.15:
            self.convolution["data_layout"] = {1: "NWC", 2: "NHWC", 3: "NDHWC"}[rank]
            self.shapes[node.args[0].name] = (data[0], *data[2:], inner)  # type: ignore[attr-defined]  # a hole
        self.plan_vectors({"b": (outer,), "c": (outer,), "d": (outer,)}, outer, rank)
        self.channels = outer

    def plan_norm(self, node: PCall) -> None:
        channels = getattr(self, "channels", None)
        if channels is None:
            name = next(part.name for part in subterms(node.args[0]) if isinstance(part, PVar))
            products = [part for part in subterms(node.args[0]) if isinstance(part, PCall) and part.op.name in ("nn.matmul", "nn.dense")]
            if products:
                w = products[0].args[1]
                assert isinstance(w, PConst)
                channels = (*self.shapes[w.name], 1)[0 if products[0].op.name == "nn.dense" else len(self.shapes[w.name]) - 1]
            else:
                self.shapes[name] = self.shape(2, 4)
                channels = self.shapes[name][1]
                self.plan_vectors({"c": (channels,), "d": (channels,)}, channels, len(self.shapes[name]) - 2)
        for part in node.args[1:]:
            assert isinstance(part, PConst)
            self.shapes[part.name] = (int(channels),)

    # ---- terms

    def build(self, pattern: Pattern) -> Expr:
        """The expression of a pattern."""
        found = self.made.get(pattern.key)
        if found is None:
            found = self.made[pattern.key] = self.make(pattern)
            try:
                infer_type(found)
            except (InferError, OpTypeError) as error:
                raise Unfit(str(error)) from None
        return found

    def make(self, pattern: Pattern) -> Expr:
        if isinstance(pattern, PVar):
            return self.holes.setdefault(pattern.name, self.variable(pattern.name))
        if isinstance(pattern, PConst):
            return self.holes.setdefault(pattern.name, self.constant(pattern.name))
        if isinstance(pattern, PLiteral):
            return Constant(Tensor.dense(np.asarray(pattern.value), self.dtype))
        if isinstance(pattern, PTuple):
            return Tuple([self.build(field) for field in pattern.fields])
        if isinstance(pattern, PGet):
            whole = self.build(pattern.of)
            type_ = whole.checked_type
            if not isinstance(type_, TupleType) or pattern.index >= len(type_.fields):
                raise Unfit("no such field")
            return TupleGetItem(whole, pattern.index)
        assert isinstance(pattern, PCall)
        args = [self.build(arg) for arg in pattern.args]
        return Call(pattern.op, args, self.attributes(pattern, args))

    def dtype_of(self, name: str) -> str:
        """The element type of a hole, from where it stands."""
        for node in subterms(self.rule.lhs):
            if isinstance(node, PCall):
                for i, arg in enumerate(node.args):
                    if isinstance(arg, (PVar, PConst)) and arg.name == name:
                        if node.op.name == "where" and i == 0:
                            return "bool"
                        if node.op.name.startswith("logical"):
                            return "bool"
                        if node.op.name in ("dyn.reshape", "dyn.broadcast_to", "dyn.full", "dyn.tile", "dyn.topk") and i == 1:
                            return "int64"
                        if node.op.name == "dyn.pad" and i == 1:
                            return "int64"
                        if node.op.name == "dyn.strided_slice" and i > 0:
                            return "int64"
                        if node.op.name == "dyn.one_hot" and i < 2:
                            return "int64"
        return str(self.dtype)

    def variable(self, name: str) -> Var:
        shape, dims = self.shapes[name], list[Dim]()
        for dim in shape:
            chance = self.generator.random() if self.symbolic else 0.0
            if chance > 0.75:
                self.sizes[f"n{dim}"] = dim
                dims.append(SymDim.named(f"n{dim}"))
            elif chance > 0.6:
                self.sizes[f"{name}{len(dims)}"] = dim
                dims.append(SymDim.named(f"{name}{len(dims)}"))
            else:
                dims.append(dim)
        return Var(name, TensorType(tuple(dims), self.dtype_of(name)))

    def constant(self, name: str) -> Constant:
        shape, dtype = self.shapes[name], self.dtype_of(name)
        chance = self.generator.random()
        if chance < 0.5:
            value = self.pick((0.0, 1.0, 1.0, -0.0, 2.0, 0.5, 0.25, 3.0, -1.0, 4.0) if not self.special else SPECIAL)
            if dtype not in FLOATS:
                value = abs(int(value)) if abs(value) < 100 else 7
            with np.errstate(all="ignore"):
                array = np.full(shape, value)
            return Constant(Tensor.splat(value, shape, dtype) if chance < 0.25 else Tensor.dense(array, dtype))
        array = draw_array(self.generator, shape, dtype, special=self.special)
        if name == "var":
            array = np.abs(array)
        return Constant(Tensor.dense(array))

    # ---- attributes

    def attributes(self, call: PCall, args: Sequence[Expr]) -> Attrs:
        """The attributes of a call: as the pattern has them, else random."""
        op = call.op
        if not op.attr_params:
            return Attrs()
        whole = call.attrs.get("attrs")
        if isinstance(whole, AttrHole) and whole.name in self.attrs and self.generator.random() < 0.7:
            return self.attrs[whole.name]  # type: ignore[no-any-return]  # an Attrs, set below
        given = {name: value for name, value in call.attrs.items() if name != "attrs" and not isinstance(value, AttrHole)}
        values = {**self.random_attributes(op, args), **given}
        try:
            attrs = op.bind_attrs(values)
        except OpTypeError as error:
            raise Unfit(str(error)) from None
        if isinstance(whole, AttrHole):
            self.attrs[whole.name] = attrs
        return attrs

    def random_attributes(self, op: Op, args: Sequence[Expr]) -> dict[str, AnyValue]:
        """Attributes that suit the operands, mostly."""
        type_ = args[0].checked_type
        first = type_ if isinstance(type_, TensorType) else TensorType(())
        shape = tuple(self.size(dim) for dim in first.shape)
        rank = len(shape)
        axes = tuple(int(axis) for axis in self.generator.permutation(rank))
        name = op.name.removeprefix("dyn.")
        if name == "transpose":
            order = tuple(range(rank)) if self.generator.random() < 0.3 else axes
            return {"axes": self.pick([None, order, order, tuple(axis - rank for axis in order)])}
        if name == "reshape":
            return {"newshape": self.newshape(shape), "allowzero": False}
        if name == "expand_dims":
            return self.pick([
                {"axis": int(self.generator.integers(-rank - 1, rank + 1)), "num_newaxis": int(self.pick((0, 1, 1, 2)))},
                {"axis": (0, rank + 1)},
                {"axis": (int(self.generator.integers(0, rank + 1)),)},
            ])
        if name == "squeeze":
            ones = [i for i, dim in enumerate(shape) if dim == 1]
            some = tuple(axis - self.pick((0, rank)) for axis in ones if self.generator.random() < 0.7)
            return {"axis": self.pick([None, some, some])}
        if name == "nn.batch_flatten":
            return {"axis": int(self.generator.integers(-rank, rank + 1))}
        if name == "cast":
            return {"dtype": first.dtype if self.generator.random() < 0.2 else self.pick(ALL_TYPES)}
        if name == "broadcast_to":
            grown = tuple(self.pick((dim, 1)) if dim != 1 else self.dim() for dim in shape)
            return {"shape": (*self.shape(0, 1), *grown)}
        if name == "tile":
            return {"reps": tuple(int(self.pick((1, 1, 1, 2, 0))) for _ in range(rank + int(self.pick((0, 0, 0, 1)))))}
        if name == "nn.pad":
            widths = tuple((int(self.pick((0, 0, 0, 0, 1))), int(self.pick((0, 0, 0, 0, 2, -1)))) for _ in shape)
            return {"pad_width": widths, "pad_mode": self.pick(("constant", "constant", "edge", "reflect")), "pad_value": float(self.pick((0, 1)))}
        if name == "split":
            at = int(self.generator.integers(0, rank)) if rank else 0
            size = shape[at] if rank else 1
            places = tuple(sorted(int(self.generator.integers(0, size + 1)) for _ in range(int(self.pick((0, 1, 2))))))
            return {"indices_or_sections": self.pick([1, 2, places, max(size, 1)]), "axis": at}
        if name == "strided_slice":
            return self.slice(shape)
        if name == "clip":
            return {"a_min": self.pick((None, 0, -1, 2)), "a_max": self.pick((None, 1, 5, -3))}
        if name == "nn.thresholded_relu":
            return {"alpha": float(self.pick((0.5, -0.5, 0.0)))}
        if name == "nn.batch_norm":
            return {
                "axis": int(self.pick((1, 1, 1, -1, 0))),
                "epsilon": self.pick((1e-5, 1e-3, 0.1)),
                "center": bool(self.generator.random() < 0.8),
                "scale": bool(self.generator.random() < 0.8),
            }
        if name == "nn.bias_add":
            return {"axis": int(self.pick((1, -1, 0)))}
        if name == "nn.matmul":
            flags = first.ndim == 2 and self.generator.random() < 0.3
            return {"transpose_a": False, "transpose_b": False} if not flags else {"transpose_a": bool(self.pick((0, 1))), "transpose_b": bool(self.pick((0, 1)))}
        if name.startswith("nn.conv"):
            return dict(self.convolution)
        if name == "concatenate":
            return {"axis": int(self.generator.integers(-max(rank, 1), max(rank, 1)))}
        return {}

    def size(self, dim: Dim) -> int:
        """The size that a dimension will have."""
        from passat.ir.shape import evaluate_dim

        return evaluate_dim(dim, self.sizes, 2)

    def newshape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape of as many elements, with an entry of -1 or 0 now and then."""
        rest = int(np.prod(shape, dtype=int))
        target: list[int] = []
        while rest > 1 and len(target) < 3:
            factor = int(self.pick([divisor for divisor in range(1, rest + 1) if rest % divisor == 0]))
            target.append(factor)
            rest //= factor
        target.append(rest)
        if self.generator.random() < 0.3:
            target = list(shape)
        if target and self.generator.random() < 0.4:
            target[int(self.generator.integers(len(target)))] = -1
        return tuple(0 if i < len(shape) and dim == shape[i] and self.generator.random() < 0.3 else dim for i, dim in enumerate(target))

    def slice(self, shape: tuple[int, ...]) -> dict[str, AnyValue]:
        """Bounds of a slice, inside and outside of the tensor, forwards and backwards."""
        axes = [axis for axis in range(len(shape)) if self.generator.random() < 0.7]
        strides = [int(self.pick((1, 1, 1, 2, -1, -2))) for _ in axes]
        end = 2**63 - 1
        if self.generator.random() < 0.25:
            whole = {"begin": (0,) * len(axes), "end": (end,) * len(axes), "strides": (1,) * len(axes), "axes": tuple(axes)}
            return whole
        return {
            "begin": tuple(int(self.generator.integers(-5, 6)) for _ in axes),
            "end": tuple(self.pick([int(self.generator.integers(-5, 6)), end if step > 0 else -end]) for step in strides),
            "strides": tuple(strides) if any(step != 1 for step in strides) or self.generator.random() < 0.5 else None,
            "axes": tuple(axes),
        }


SPECIAL = (0.0, 1.0, -0.0, -1.0, 2.0, 0.5, 1e-40, 2.0**-126, 2.0**-130, 2.0**127, 3e38, 1e-30, 7e4, float("inf"), float("-inf"), float("nan"), 2.0**-15, 2.0**-20)


def draw(rule: Rule, generator: Generator, *, special: bool = False, symbolic: bool = False) -> Instance | None:
    """An instance of a rule's left side, or None where the draw came out ill-typed."""
    try:
        return Drawer(rule, generator, special=special, symbolic=symbolic).draw()
    except Unfit:
        return None


__all__ = ["ANY", "Instance", "draw"]

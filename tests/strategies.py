"""Hypothesis strategies for all parts of the language. Everything is small, well formed and well typed, unless stated otherwise.

* `programs(effects=False)`: functions over tensors, with operators and attributes of every kind, shared nodes, lets, ifs, closures,
  tuples and matches on them; with `effects=True` also references. Their types have not been inferred yet.
* `modules()`: modules of such functions, which call each other, with an algebraic data type.
* `types()`, `tensor_types()`, `dims()`: types of all kinds (`type_definitions()` has those they name); of tensors; dimensions that are integers, named, unknown or computed.
* `tensors(dtypes)`: constants, dense, lazy or splat.
* `attribute_values()`: what attributes may hold.
* `names()`: names of variables, words or not.
"""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from passat.ir.dtypes import NAMES, from_numpy, itemsize, to_numpy
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
    Tuple,
    TupleGetItem,
    Var,
)
from passat.ir.functor import ExprMutator
from passat.ir.infer import infer_type
from passat.ir.module import IRModule, TypeData
from passat.ir.op import get_op
from passat.ir.shape import ANY, Dim, SymDim, broadcast, divide
from passat.ir.tensor import Tensor
from passat.ir.types import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
)

_NAMES = ["x", "y", "x1", "x", "conv1/weight", "/model/Add_0", "input:0", "input.1", "0", "", 'a "quoted"\n name', "_", "let", "größe"]
_UNARY = ["negative", "exp", "nn.relu", "sigmoid", "abs", "copy"]
_BINARY = ["add", "subtract", "multiply", "divide", "maximum"]


def names() -> SearchStrategy[str]:
    """Names of variables: words, clashing names, and names that are not words."""
    return st.sampled_from(_NAMES) | st.text(max_size=4)


def dims() -> SearchStrategy[Dim]:
    """Dimensions: integers, names, `Any`, and arithmetic on them."""
    named = st.sampled_from(["n", "batch", "seq.len", "weird name", "let"]).map(SymDim.named)
    leaves: SearchStrategy[Dim] = st.integers(0, 7) | named | st.just(ANY)
    return st.recursive(leaves, _computed, max_leaves=5)


def _computed(parts: SearchStrategy[Dim]) -> SearchStrategy[Dim]:
    return st.builds(lambda a, b, which: (a + b, a * b, a - b, divide(a, b))[which], parts, parts, st.integers(0, 3))


def tensor_types() -> SearchStrategy[TensorType]:
    """Types of tensors with any element type and up to three dimensions of any kind."""
    sizes = dims().filter(lambda dim: not isinstance(dim, int) or dim >= 0)
    return st.builds(TensorType, st.lists(sizes, max_size=3), st.sampled_from(sorted(NAMES)))


def type_definitions() -> IRModule:
    """A module that defines the types which `types` uses."""
    params = {"fn": (), "List": (TypeVar("A"),), "Pair": (TypeVar("A"), TypeVar("B"))}
    return IRModule(type_definitions={GlobalTypeVar(name): TypeData(GlobalTypeVar(name), of, ()) for name, of in params.items()})


def types() -> SearchStrategy[Type]:
    """Types of all kinds. Type parameters occur only in function types that declare them; other names are those of `type_definitions`."""
    a, b = TypeVar("A"), TypeVar("two words")
    leaves: SearchStrategy[Type] = tensor_types() | st.sampled_from([IncompleteType(), GlobalTypeVar("fn")])
    return st.recursive(
        leaves,
        lambda parts: st.one_of(
            st.lists(parts, max_size=3).map(TupleType),
            st.builds(FuncType, st.lists(parts, max_size=2), parts),
            st.builds(lambda part: FuncType([part, a, b], TypeCall(GlobalTypeVar("List"), [a]), [a, b]), parts),
            parts.map(RefType),
            parts.map(lambda part: TypeCall(GlobalTypeVar("onnx.Sequence"), [part])),
            st.builds(lambda *args: TypeCall(GlobalTypeVar("Pair"), args), parts, parts),
        ),
        max_leaves=4,
    )


@st.composite
def tensors(draw: DrawFn, dtypes: Sequence[str] = tuple(sorted(NAMES)), max_dims: int = 2) -> Tensor:
    """Constants of the given element types: arbitrary bits, including infinities and NaN; stored densely, lazily or as a splat."""
    dtype = draw(st.sampled_from(dtypes))
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=max_dims)))
    size = int(np.prod(shape, dtype=int))
    count = draw(st.sampled_from([1, max(size, 1)]))  # one element is repeated
    if dtype == "string":
        elements = np.empty(count, np.object_)
        elements[:] = draw(st.lists(st.text(max_size=3) | st.binary(max_size=2), min_size=count, max_size=count))
    else:
        numpy_type = to_numpy(dtype)
        raw = draw(st.binary(min_size=count * numpy_type.itemsize, max_size=count * numpy_type.itemsize))
        elements = np.frombuffer(raw, np.uint8)
        if dtype == "bool":
            elements = elements & 1
        elif itemsize(dtype) < 1:  # unused bits are zero
            elements = (elements & 3).astype(np.int8)  # integers of 2 bits wrap around, without a warning
        elements = elements.astype(numpy_type) if elements.dtype == np.int8 else elements.view(numpy_type)
    array = np.resize(elements, shape) if size else np.empty(shape, elements.dtype)
    how = draw(st.sampled_from(["dense", "splat", "lazy", "keyed"]))
    if how == "splat":
        return Tensor.splat(elements[0], shape, dtype)
    if how in ("lazy", "keyed"):
        return Tensor.lazy(dtype, shape, lambda: array, key=("file", id(array)) if how == "keyed" else None)
    assert from_numpy(array.dtype) == dtype
    return Tensor.dense(array)


def attribute_values() -> SearchStrategy[object]:
    """Attribute values: None, booleans, integers, floats of all kinds, strings, bytes, tensors, dimensions, and tuples of these."""
    floats = st.floats() | st.floats(width=32)
    leaves = st.one_of(st.none(), st.booleans(), st.integers(), floats, st.text(), st.binary(max_size=5), tensors(), dims())
    return st.recursive(leaves, lambda parts: st.lists(parts, max_size=3).map(tuple), max_leaves=6)


class _Builder:
    """Draws expressions over a pool of typed ones; `grow` adds an operation to the pool."""

    def __init__(self, draw: DrawFn, effects: bool, pool: list[Expr], callees: Sequence[GlobalVar] = ()) -> None:
        self.draw = draw
        self.effects = effects
        self.pool = pool
        self.callees = callees

    def body(self, size: int) -> Expr:
        """An expression of about `size` operations, perhaps behind lets."""
        for left in range(size, 0, -1):
            kind = self.draw(st.integers(0, 11))
            if kind == 11:
                return self.let(self.pick(), left - 1)
            if kind == 10 and self.effects:
                return self.effect(left - 1)
            self.grow()
        results = [self.pick() for _ in range(self.draw(st.integers(1, 3)))]
        return self.add(Tuple(results)) if len(results) > 1 else results[0]

    def pick(self) -> Expr:
        """An expression of the pool, more often a recent one."""
        at = self.draw(st.integers(1, 2 * len(self.pool)))
        return self.pool[-min(at, len(self.pool))]

    def tensor(self) -> Expr:
        """A float tensor of the pool."""
        return self.draw(st.sampled_from([part for part in self.pool if _is_float(part)]))

    def let(self, value: Expr, size: int) -> Expr:
        """A let of a value around a body that may use it."""
        var = Var(self.draw(names()), value.checked_type if self.draw(st.booleans()) else None)
        var._checked_type = value.checked_type
        inner = _Builder(self.draw, self.effects, [*self.pool, var], self.callees)
        return self.add(Let(var, value, inner.body(size)))

    def effect(self, size: int) -> Expr:
        """A reference that is created, written and read, in this order, around a body."""
        ref, before, done = Var("r"), Var("before"), Var("_")
        value = self.tensor()
        ref._checked_type, before._checked_type = RefType(value.checked_type), value.checked_type
        inner = _Builder(self.draw, self.effects, [*self.pool, before], self.callees)
        write = Let(done, RefWrite(ref, Call(get_op("negative"), [before])), Tuple([RefRead(ref), inner.body(size)]))
        return self.add(Let(ref, RefCreate(value), Let(before, RefRead(ref), write)))

    def add(self, expr: Expr) -> Expr:
        """Adds a typed expression to the pool."""
        self.pool.append(infer_type(expr))
        return expr

    def grow(self) -> None:
        """Adds one operation to the pool."""
        kinds = ["unary", "binary", "same", "attributes", "constant", "tuple", "field", "if", "closure", "match", "split", "call"]
        getattr(self, "_" + self.draw(st.sampled_from(kinds)))()

    def _unary(self) -> None:
        self.add(get_op(self.draw(st.sampled_from(_UNARY)))(self.tensor()))

    def _same(self) -> None:
        part = self.tensor()
        self.add(get_op("add")(part, part))

    def _binary(self) -> None:
        a, b = self.tensor(), self.tensor()
        try:
            broadcast(_type(a).shape, _type(b).shape)
        except ValueError:
            b = a
        self.add(get_op(self.draw(st.sampled_from(_BINARY)))(a, b))

    def _attributes(self) -> None:
        part = self.tensor()
        rank = _type(part).ndim
        slope = self.draw(st.floats(-2, 2))
        choices = [lambda: get_op("nn.leaky_relu")(part, alpha=slope), lambda: get_op("clip")(part, a_min=slope, a_max=None)]
        if rank:
            axes = tuple(self.draw(st.permutations(range(rank))))
            axis = self.draw(st.integers(-rank, rank - 1))
            choices += [
                lambda: get_op("transpose")(part, axes=axes),
                lambda: get_op("sum")(part, axis=(axis,), keepdims=True),
                lambda: get_op("nn.softmax")(part, axis=axis),
                lambda: get_op("nn.pad")(part, pad_width=((0, 1),) * rank, pad_mode="edge"),
                lambda: get_op("concatenate")(Tuple([part, part]), axis=axis),
            ]
        self.add(self.draw(st.sampled_from(choices))())

    def _constant(self) -> None:
        self.add(Constant(self.draw(tensors(("float32", "float32", "int64", "bool", "bfloat16", "string")))))

    def _tuple(self) -> None:
        self.add(Tuple(self.pick() for _ in range(self.draw(st.integers(0, 3)))))

    def _field(self) -> None:
        whole = self.pick()
        if isinstance(whole.checked_type, TupleType) and whole.checked_type.fields:
            self.add(TupleGetItem(whole, self.draw(st.integers(0, len(whole.checked_type.fields) - 1))))

    def _if(self) -> None:
        cond = next(part for part in self.pool if part.checked_type == TensorType((), "bool"))
        part = self.tensor()
        self.add(If(cond, self._branch(part), self._branch(part)))

    def _branch(self, part: Expr) -> Expr:
        inner = _Builder(self.draw, False, [*self.pool, part], self.callees)
        dead = inner.body(self.draw(st.integers(0, 2)))
        return Let(Var("b"), dead, Call(get_op("negative"), [part])) if self.draw(st.booleans()) else part

    def _closure(self) -> None:
        argument = self.pick()
        param = Var(self.draw(names()), argument.checked_type)
        inner = _Builder(self.draw, False, [*self.pool, param], self.callees)
        attrs = {"Primitive": 0, "note": self.draw(st.text(max_size=3))} if self.draw(st.booleans()) else None
        function = Function([param], inner.body(self.draw(st.integers(0, 3))), attrs=attrs)
        self.add(function)
        self.add(Call(function, [argument]))

    def _match(self) -> None:
        whole = Tuple([self.pick(), self.tensor()])
        first, second = Var(self.draw(names())), Var("m")
        infer_type(whole)
        first._checked_type, second._checked_type = (field.checked_type for field in whole.fields)
        inner = _Builder(self.draw, False, [*self.pool, first, second], self.callees)
        self.add(Match(whole, [Clause(PatternTuple([PatternVar(first), PatternVar(second)]), inner.body(2))]))

    def _split(self) -> None:
        part = self.tensor()
        doubled = get_op("stack")(Tuple([part, part]), axis=0)
        pieces = self.add(get_op("split")(doubled, indices_or_sections=2, axis=0))
        self.add(TupleGetItem(pieces, 1))

    def _call(self) -> None:
        if self.callees:
            callee = self.draw(st.sampled_from(self.callees))
            assert isinstance(callee.checked_type, FuncType)
            fitting = [[part for part in self.pool if part.checked_type == wanted] for wanted in callee.checked_type.arg_types]
            if all(fitting):
                self.add(Call(callee, [self.draw(st.sampled_from(parts)) for parts in fitting]))


def _type(part: Expr) -> TensorType:
    assert isinstance(part.checked_type, TensorType)
    return part.checked_type


def _is_float(part: Expr) -> bool:
    return isinstance(part.checked_type, TensorType) and part.checked_type.dtype == "float32" and part.checked_type.ndim <= 3


@st.composite
def programs(draw: DrawFn, *, effects: bool = False, size: int = 8, callees: Sequence[GlobalVar] = ()) -> Function:
    """Functions of a few tensors and a boolean, whose bodies have up to about `size` operations. See the head of this file."""
    n = SymDim.named("n")
    shapes: list[tuple[Dim, ...]] = [(2, 3), (3,), (), (n, 3), (2, n), (ANY, 3), (2 * n, n + 1)]
    params = [Var(draw(names()), TensorType(shape, "float32")) for shape in draw(st.lists(st.sampled_from(shapes), min_size=1, max_size=3))]
    params.append(Var("c", TensorType((), "bool")))
    body = _Builder(draw, effects, list(params), callees).body(draw(st.integers(min(3, size), size)))
    result = body.checked_type if draw(st.booleans()) else None
    return _untyped(Function(params, body, result))


class _Renewal(ExprMutator):
    """Replaces every variable, and everything that depends on one, so that no type is inferred."""

    def visit_var(self, var: Var) -> Expr:
        return Var(var.name_hint, var.type_annotation)


def _untyped(function: Function) -> Function:
    copied = _Renewal().visit(function)
    assert isinstance(copied, Function)
    return copied


@st.composite
def modules(draw: DrawFn) -> IRModule:
    """Modules of one to three functions, where later functions call earlier ones, and a list type with a recursive function over it."""
    list_of, element = GlobalTypeVar("List"), TypeVar("A")
    of = TypeCall(list_of, [element])
    cons, nil = Constructor("Cons", [element, of], of, 0), Constructor("Nil", [], of, 1)
    module = IRModule(type_definitions={list_of: TypeData(list_of, (element,), (cons, nil))})
    callees: list[GlobalVar] = []
    for _ in range(draw(st.integers(1, 3))):
        function = draw(programs(size=5, callees=tuple(callees)))
        name = draw(names().filter(lambda text: text not in module and text != "length"))
        module[name] = function
        var = module.get_global_var(name)
        var._checked_type = infer_type(function).checked_type
        callees.append(var)
    recursion, items, rest = GlobalVar("length"), Var("items", of), Var("rest")
    one = get_op("add")(Constant(Tensor.dense(np.int32(1))), Call(recursion, [rest]))
    arms = [
        Clause(PatternConstructor(cons, [PatternWildcard(), PatternVar(rest)]), one),
        Clause(PatternConstructor(nil), Constant(Tensor.dense(np.int32(0)))),
    ]
    module[recursion] = Function([items], Match(items, arms), TensorType((), "int32"), [element])
    return module

"""Instances of patterns as plain data that can be built, changed and shrunk. Evaluates such programs by the operators' kernels, natively
and in float64, tracks the magnitude of intermediate values, and compares results bit for bit or within a bound."""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any as AnyValue
from typing import Final, NamedTuple

import ml_dtypes
import numpy as np

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.counting import counted
from passat.ir.dtypes import COMPLEX, FLOATS, from_numpy, to_numpy
from passat.ir.evaluate import EvaluateError, Value, as_constant, evaluate_call, tensors_in, type_of_value
from passat.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem, Var
from passat.ir.infer import InferError, infer_type
from passat.ir.op import FOLLOWED, KNOWN_LIMIT, KnownValue, Op, OpTypeError, get_op
from passat.ir.shape import ANY, Dim, SymDim, static_size
from passat.ir.tensor import Array, Tensor
from passat.ir.traverse import post_order
from passat.ir.types import TensorType, TupleType, Type, leaves
from passat.rules.pattern import Pattern, PCall, PConst, PGet, PLiteral, PTuple, PVar
from passat.rules.rule import KEPT, RESOLVED, NonFinite

Key = tuple[AnyValue, ...]


class Unfit(Exception):
    """An ill-typed instance; the text says why."""


class Case(NamedTuple):
    """An instance of a pattern.

    `types` has the static type of each hole and literal, by `name_of`; `constants` the values of constant ones; `inputs` the values of the
    others; `attrs` the attributes of each call, by its key; `unknown` the axes of inputs with unknown sizes, with their symbolic names (`?`
    for none); `computed` the lists of sizes that the program reads from its inputs, as the input and axis of each element, None for
    constant elements; `asked` the holes whose elements a guard or operator determines.
    """

    types: Mapping[str, Type]
    constants: Mapping[str, Value]
    inputs: Mapping[str, Value]
    attrs: Mapping[Key, Attrs]
    unknown: Mapping[tuple[str, int], str] = {}
    computed: Mapping[str, Sequence[tuple[str, int] | None]] = {}
    asked: frozenset[str] = frozenset()

    @property
    def values(self) -> Mapping[str, Value]:
        """The values of all holes and literals."""
        return {**self.inputs, **self.constants}

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors of these values."""
        return list(tensors_in(self.values.values()))


class Program(NamedTuple):
    """A case as a program: its variables by name, its expression, and the expressions of all terms."""

    params: Mapping[str, Var]
    body: Expr
    terms: Mapping[Key, Expr]


def name_of(leaf: Pattern) -> str | None:
    """The name of a hole or a literal; None for other patterns."""
    if isinstance(leaf, (PVar, PConst)):
        return leaf.name
    return repr(leaf.value) if isinstance(leaf, PLiteral) else None


def build(pattern: Pattern, case: Case) -> Program:
    """The program of a case. Raises Unfit."""
    params: dict[str, Var] = {}
    terms: dict[Key, Expr] = {}

    def visit(node: Pattern) -> Expr:
        found = terms.get(node.key)
        if found is not None:
            return found
        name = name_of(node)
        made: Expr
        if name is not None:
            if name in case.computed and name in case.constants:
                made = sizes(case, name, visit)
            elif name in case.constants:
                made = as_constant(case.constants[name])
            else:
                made = params[name] = Var(name, declared(case, name))
        elif isinstance(node, PTuple):
            made = Tuple([visit(field) for field in node.fields])
        elif isinstance(node, PGet):
            whole = visit(node.of)
            type_ = whole.checked_type
            if not isinstance(type_, TupleType) or node.index >= len(type_.fields):
                raise Unfit(f"{type_!r} has no field {node.index}")
            made = TupleGetItem(whole, node.index)
        else:
            assert isinstance(node, PCall)
            made = Call(node.op, [visit(arg) for arg in node.args], case.attrs.get(node.key, EMPTY_ATTRS))
        try:
            terms[node.key] = infer_type(made)
        except (InferError, OpTypeError, ValueError) as error:
            raise Unfit(str(error)) from None
        return made

    body = visit(pattern)
    return Program(params, body, terms)


def sizes(case: Case, name: str, visit: Callable[[Pattern], Expr]) -> Expr:
    """A list of sizes as the program computes it. Raises Unfit if it is no longer a list."""
    value = case.constants[name]
    if isinstance(value, tuple) or value.shape != (len(case.computed[name]),):
        raise Unfit(f"{name} is not a list of {len(case.computed[name])} sizes")
    parts: list[Expr] = []
    for element, source in zip(value.numpy(), case.computed[name], strict=True):
        if source is None:
            parts.append(Constant(Tensor.dense(np.asarray([element]))))
        else:
            shape = get_op("shape_of")(visit(PVar(source[0])), dtype="int64")
            parts.append(get_op("strided_slice")(shape, begin=(source[1],), end=(source[1] + 1,)))
    return get_op("concatenate")(Tuple(parts))


def declared(case: Case, name: str) -> Type:
    """The declared type of an input."""
    type_ = case.types[name]
    if not case.unknown or not isinstance(type_, TensorType):
        return type_
    dims: list[Dim] = list(type_.shape)
    for (hole, axis), symbol in case.unknown.items():
        if hole == name and axis < len(dims):
            dims[axis] = ANY if symbol == "?" else SymDim.named(symbol)
    return type_.with_shape(dims)


_WIDE: Final = "float64"
_MOST: Final = 1 << 22
"""Maximum number of elements of a computed value; extreme numbers may request any length."""


class TooLargeError(EvaluateError):
    """A call whose value is too large for an instance of a rule."""


class Evaluation:
    """Evaluates expressions over some inputs, each subexpression once. `wide` computes all floats in float64."""

    def __init__(self, inputs: Mapping[Var, Value], *, wide: bool = False) -> None:
        self.inputs = inputs
        self.wide = wide
        self._done: dict[int, Value] = {}
        self._kept: list[Expr] = []  # objects cached by identity must stay alive

    def __call__(self, root: Expr) -> list[Array]:
        """The value of an expression, tuples flattened. Raises EvaluateError if a kernel rejects its operands, and TooLargeError."""
        done = self._done
        for node in post_order(root):
            if id(node) in done:
                continue
            if isinstance(node, Var):
                value = self._take(self.inputs[node])
            elif isinstance(node, Constant):
                value = self._take(node.data)
            elif isinstance(node, Tuple):
                value = tuple(done[id(field)] for field in node.fields)
            elif isinstance(node, TupleGetItem):
                whole = done[id(node.tuple_value)]
                assert isinstance(whole, tuple)
                value = whole[node.index]
            elif isinstance(node, Call) and isinstance(node.op, Op):
                args = [done[id(arg)] for arg in node.args]
                value = _bounded(node.op, args, self._attrs(node.attrs), self._type(node.checked_type))
            elif isinstance(node, Op):
                continue
            else:
                raise NotImplementedError(f"{type(node).__name__} has no kernel")
            done[id(node)] = value
            self._kept.append(node)
        return [tensor.numpy() for tensor in tensors_in([done[id(root)]])]

    def magnitude(self) -> float:
        """The largest finite magnitude of the non-integer values so far."""
        largest = 0.0
        for tensor in tensors_in(self._done.values()):
            if (tensor.dtype in FLOATS or tensor.dtype in COMPLEX) and tensor.size:
                with np.errstate(all="ignore"):
                    size = np.abs(tensor.numpy().astype(np.float64 if tensor.dtype in FLOATS else np.complex128))
                largest = max(largest, float(np.max(size, initial=0.0, where=np.isfinite(size))))
        return largest

    def runtime_magnitude(self, root: Expr) -> float:
        """The largest finite magnitude of what ONNX Runtime computes within a call. Its InstanceNormalization scales the data before it
        subtracts the mean, so that nearly equal elements lose digits; 0 for other operators, whose kernels compute like Passat's."""
        if not isinstance(root, Call) or not isinstance(root.op, Op) or root.op.name != "nn.instance_norm":
            return 0.0
        data, gamma = (tensor.numpy().astype(np.float64) for tensor in tensors_in([self._done[id(arg)] for arg in root.args[:2]]))
        if not data.size:
            return 0.0
        by_channel = np.moveaxis(data, root.attrs.axis, 1)
        variance = by_channel.var(tuple(range(2, data.ndim)), keepdims=True)
        with np.errstate(all="ignore"):
            scaled = np.abs(by_channel * gamma.reshape(-1, *(1,) * (data.ndim - 2))) / np.sqrt(variance + root.attrs.epsilon)
        return float(np.max(scaled, initial=0.0, where=np.isfinite(scaled)))

    def _take(self, value: Value) -> Value:
        if not self.wide:
            return value
        if isinstance(value, tuple):
            return tuple(map(self._take, value))
        with np.errstate(all="ignore"):
            return Tensor.dense(value.numpy().astype(np.float64)) if value.dtype in FLOATS else value

    def _type(self, type_: Type) -> Type:
        if not self.wide:
            return type_
        if isinstance(type_, TupleType):
            return TupleType(map(self._type, type_.fields))
        return type_.with_dtype(_WIDE) if isinstance(type_, TensorType) and type_.dtype in FLOATS else type_

    def _attrs(self, attrs: Attrs) -> Attrs:
        if self.wide and attrs and attrs.get("dtype") in FLOATS:
            return Attrs({**attrs, "dtype": _WIDE})
        return attrs


def _bounded(op: Op, args: Sequence[Value], attrs: Attrs, type_: Type) -> Value:
    """The value of a call. Raises TooLargeError if its type is too large, and if memory runs out."""
    known = type_
    if op.known_operands:
        with contextlib.suppress(OpTypeError):  # the kernel reports the error
            known = op.infer(list(map(type_of_value, args)), attrs, [_known(arg) for arg in args])
    if any(size > _MOST for size in _sizes(known)):
        raise TooLargeError(f"{op.name}: the value has more than {_MOST} elements")
    try:
        return evaluate_call(op, args, attrs, type_)
    except MemoryError as error:
        raise TooLargeError(f"{op.name}: there is not enough memory for the value") from error


def _known(value: Value) -> KnownValue | None:
    small = isinstance(value, Tensor) and value.dtype in FOLLOWED and value.size <= KNOWN_LIMIT
    return np.asarray(value.numpy(), np.object_) if small and isinstance(value, Tensor) else None


def _sizes(type_: Type) -> Iterator[int]:
    """The known element counts of the tensors of a type."""
    return (static_size(part.shape) for part in leaves(type_) if isinstance(part, TensorType) and part.is_static)


def is_float(array: Array) -> bool:
    """True for floating-point elements, real or complex."""
    return array.dtype.kind == "c" or from_numpy(array.dtype) in FLOATS


def limit_of(dtype: str) -> float:
    """The maximum of a floating-point type."""
    return float(ml_dtypes.finfo(to_numpy(dtype)).max)  # type: ignore[no-untyped-call]  # ml_dtypes declares no types for it


_ROUNDINGS: Final = 128.0
_NARROW_ROUNDINGS: Final = 16.0
"""Allowed difference in units of rounding, relative to the magnitude of intermediate values, between sides that compute the same value in a
different order. Smaller for types of 16 bits or fewer, whose kernels compute in float32."""


def difference(
    found: Sequence[Array],
    expected: Sequence[Array],
    bounds: Sequence[float] | None = None,
    *,
    finite: bool = False,
    nonfinite: NonFinite = KEPT,
) -> str | None:
    """The difference between the results of the right side and those of the left side, or None.

    Without bounds, compares bit for bit: all NaN are equal, -0.0 differs from 0.0. With a bound per result, floats may differ by it, and
    infinities and NaN as `nonfinite` allows; integers and bools must be equal. `finite` compares only where the expected result is finite.
    """
    if len(found) != len(expected):
        return f"it has {counted(len(found), 'result')}, not {len(expected)}"
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        which = f" of result {i}" if len(found) > 1 else ""
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"the type{which} is {a.dtype}{list(a.shape)} on the right, {b.dtype}{list(b.shape)} on the left"
        differs = _differs(a, b, None if bounds is None else bounds[i], finite, nonfinite)
        if np.any(differs):
            place = tuple(int(index) for index in np.argwhere(differs)[0])
            where = f" at {place}" if place else ""
            off = "" if bounds is None else _near(a[place], b[place], bounds[i])
            return f"the element{which}{where} is {a[place]!s} on the right, {b[place]!s} on the left{off}"
    return None


def _near(a: AnyValue, b: AnyValue, bound: float) -> str:
    """A hint for small differences."""
    apart = complex(a) - complex(b)
    distance = math.hypot(apart.real, apart.imag)  # abs of a complex NaN raises OverflowError in Python 3.11 if errno says so by chance
    return f"; a difference of up to {bound:.2g} would be rounding" if bound > 0 and distance < 1000 * bound else ""


def _differs(a: Array, b: Array, bound: float | None, finite: bool, nonfinite: NonFinite) -> Array:
    if not is_float(b):
        return np.asarray(a != b, np.bool_)
    if b.dtype.kind == "c":
        parts = [_differs(x, y, bound, finite, nonfinite) for x, y in ((a.real, b.real), (a.imag, b.imag))]
        return np.asarray(parts[0] | parts[1])
    with np.errstate(all="ignore"):  # signaling NaN
        x, y = a.astype(np.float64), b.astype(np.float64)
        same = (np.isnan(x) & np.isnan(y)) | ((x == y) & ((np.signbit(x) == np.signbit(y)) if bound is None else True))
        if bound is not None:
            same |= np.isfinite(x) & np.isfinite(y) & (np.abs(x - y) <= bound)
            if nonfinite != KEPT:
                same |= ~np.isfinite(x) & (np.isnan(y) if nonfinite == RESOLVED else ~np.isfinite(y))
    return np.asarray(~same & np.isfinite(y) if finite else ~same)


def rounding(array: Array, magnitude: float) -> float:
    """The difference that rounding of numbers up to this magnitude may cause."""
    if not is_float(array):
        return 0.0
    info = ml_dtypes.finfo(array.dtype)  # type: ignore[no-untyped-call]  # ml_dtypes declares no types for it
    narrow = from_numpy(array.dtype) not in ("float32", "float64", "complex64", "complex128")
    return (_NARROW_ROUNDINGS if narrow else _ROUNDINGS) * float(info.eps) * max(magnitude, float(info.smallest_normal))

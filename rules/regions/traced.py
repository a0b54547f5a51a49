"""Constants that record queries about them, so that decisions for one set of constants can be replayed for another.

Guards and kernels may read the type of a constant freely. They query everything else, such as its elements or whether it is uniform. All
decisions follow from the answers. If other constants of the same types give the same answers, the same decisions are correct for them;
folded constants are recomputed.
"""

from collections.abc import Callable, Sequence
from typing import Any as AnyValue
from typing import NamedTuple

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.evaluate import EvaluateError, Value, tensors_in
from passat.ir.expr import Constant
from passat.ir.folding import folded_value
from passat.ir.infer import InferError, known_value
from passat.ir.op import Op, OpTypeError, is_followed
from passat.ir.tensor import Array, Tensor
from passat.ir.types import Type
from passat.rules.engine.eager import Eager
from passat.rules.engine.graph import Graph
from passat.rules.guards import Reject, Term
from passat.rules.substitution import Environment

UNIFORM, SPLAT, CONTENT = "uniform", "splat", "content"


class Question(NamedTuple):
    """A query about a tensor by number, and the answer in comparable form; for all elements, the tensor itself."""

    kind: str
    tensor: int
    answer: object


class Opinion(NamedTuple):
    """The result of a function on constants. Its arguments are plain values, and a `Slot` for each term. For a guard, which `decides`, only
    whether it holds matters."""

    function: Callable[..., AnyValue]
    args: tuple[AnyValue, ...]
    decides: bool
    answer: object


class Slot(NamedTuple):
    """A constant term: its type and the number of its tensor."""

    type_: Type
    tensor: int


class Folding(NamedTuple):
    """A folded call, in a model of an opset: operands and results are tensor numbers, in tuples like the values; results are numbered after
    the existing tensors. None if folding failed; `shape` has the types and shapes of the results."""

    op: Op
    operands: tuple[AnyValue, ...]
    attrs: Attrs
    type_: Type
    opset: int
    result: AnyValue
    shape: object


class Literal(NamedTuple):
    """A tensor that depends on answers alone: a number that a rule writes, the shape of a value."""

    tensor: Tensor


class TensorTrace:
    """The queries on tensors and the computations from them, in order. `tensors` are the constants, then the computed tensors."""

    def __init__(self, constants: Sequence[Tensor]) -> None:
        self.tensors = list(constants)
        self.given = len(self.tensors)
        self.steps: list[Question | Opinion | Folding | Literal] = []
        self.keyed: dict[int, None] = {}
        self._asked: set[tuple[str, int]] = set()
        self._same: list[int] = []
        self._wrapped: dict[int, Traced] = {}

    def wrap(self, number: int) -> "Traced":
        """The traced tensor of a number: one object each."""
        found = self._wrapped.get(number)
        if found is None:
            found = self._wrapped[number] = Traced(self, number, self.tensors[number])
        return found

    def literal(self, tensor: Tensor) -> "Traced":
        """A traced tensor for a value that comes from a decision."""
        self.steps.append(Literal(tensor))
        self.tensors.append(tensor)
        return self.wrap(len(self.tensors) - 1)

    def fold(self, op: Op, values: Sequence[Value], attrs: Attrs, type_: Type, opset: int) -> Value:
        """The traced value of a call on traced tensors. Raises EvaluateError like `folded_value`."""
        operands = tuple(map(_numbers, values))
        try:
            value = folded_value(op, [taken(part, self.tensors) for part in operands], attrs, type_, opset)
        except EvaluateError:
            self.steps.append(Folding(op, operands, attrs, type_, opset, None, None))
            raise
        first = len(self.tensors)
        self.tensors += tensors_in([value])
        result = _counted(value, iter(range(first, len(self.tensors))))
        self.steps.append(Folding(op, operands, attrs, type_, opset, result, shapes(value)))
        return self._wrap_all(result)

    def _wrap_all(self, numbers: AnyValue) -> Value:
        return tuple(map(self._wrap_all, numbers)) if isinstance(numbers, tuple) else self.wrap(numbers)

    def ask(self, kind: str, number: int) -> None:
        """Records a query."""
        if (kind, number) not in self._asked:
            self._asked.add((kind, number))
            self.steps.append(Question(kind, number, answer(kind, self.tensors[number])))

    def ask_function(self, function: Callable[..., AnyValue], args: tuple[AnyValue, ...], *, decides: bool) -> AnyValue:
        """The result of a function on plain values and constants. Propagates its exceptions."""
        said, answer = _opinion(function, args, self.tensors, decides=decides)
        self.steps.append(Opinion(function, args, decides, answer))
        if isinstance(said, Exception):
            raise said
        return said

    def same(self) -> list[int]:
        """The equality classes of the tensors that were compared by contents, as `labels` computes them."""
        if len(self._same) != len(self.keyed):
            self._same = labels([self.tensors[number] for number in self.keyed])
        return self._same

    def holds_for(self, constants: Sequence[Tensor]) -> list[Tensor] | None:
        """The tensors that result from other constants of the same types; None if an answer differs."""
        tensors = list(constants)
        for step in self.steps:
            if isinstance(step, Question):
                if not answers(step, tensors[step.tensor]):
                    return None
            elif isinstance(step, Opinion):
                if _opinion(step.function, step.args, tensors, decides=step.decides)[1] != step.answer:
                    return None
            elif isinstance(step, Literal):
                tensors.append(step.tensor)
            else:
                try:
                    value = folded_value(step.op, [taken(part, tensors) for part in step.operands], step.attrs, step.type_, step.opset)
                except EvaluateError:
                    if step.result is None:
                        continue
                    return None
                if step.result is None or shapes(value) != step.shape:
                    return None
                tensors += tensors_in([value])
        return tensors if labels([tensors[number] for number in self.keyed]) == self.same() else None


def answer(kind: str, tensor: Tensor) -> object:
    """The answer to a query about a tensor."""
    if kind == SPLAT:
        return tensor.is_splat
    if kind == CONTENT:
        return tensor
    value = tensor.uniform()
    return None if value is None else repr(value) if isinstance(value, (str, bytes)) else np.asarray(value).tobytes()


def _opinion(
    function: Callable[..., AnyValue], args: Sequence[AnyValue], tensors: Sequence[Tensor], *, decides: bool
) -> tuple[AnyValue, object]:
    """The result or exception of a function on constants, and a comparable form of it: all rejections are equal."""
    try:
        said = function(*[_term(arg, tensors) if isinstance(arg, Slot) else arg for arg in args])
    except (Reject, OpTypeError, InferError) as rejection:
        return rejection, False if decides else None
    return said, not isinstance(said, str) and bool(said) if decides else repr(comparable(said))


def comparable(value: AnyValue) -> object:
    """A value in a form that distinguishes 0.0 from -0.0, and 1 from True."""
    if isinstance(value, (tuple, list)):
        return tuple(map(comparable, value))
    if isinstance(value, Tensor):
        return value.content_key()
    if isinstance(value, (np.ndarray, np.generic)):
        return (value.dtype.str, np.shape(value), value.tobytes())
    return (type(value), value.hex() if isinstance(value, float) else value)


def _term(slot: Slot, tensors: Sequence[Tensor]) -> Term:
    tensor = tensors[slot.tensor]
    return Term(slot.type_, tensor, known_value(Constant(tensor)) if is_followed(slot.type_) else None)


def answers(question: Question, tensor: Tensor) -> bool:
    """True if a tensor gives the recorded answer."""
    if question.kind != CONTENT:
        return answer(question.kind, tensor) == question.answer
    known = question.answer
    assert isinstance(known, Tensor)
    return tensor is known or (tensor.sample() == known.sample() and tensor == known)


def labels(tensors: Sequence[Tensor]) -> list[int]:
    """For each tensor, the position of the first with its key."""
    first: dict[object, int] = {}
    return [first.setdefault(tensor.key(), i) for i, tensor in enumerate(tensors)]


class Traced(Tensor):
    """A tensor that records queries in a trace. Its type and shape may be read freely."""

    __slots__ = ("inner", "number", "trace")

    def __init__(self, trace: TensorTrace, number: int, inner: Tensor) -> None:
        super().__init__(inner.dtype, inner.shape)
        self.trace = trace
        self.number = number
        self.inner = inner

    @property
    def is_splat(self) -> bool:
        """Queries whether the tensor is a splat."""
        self.trace.ask(SPLAT, self.number)
        return self.inner.is_splat

    def uniform(self) -> AnyValue:
        """Queries the uniform value."""
        self.trace.ask(UNIFORM, self.number)
        return self.inner.uniform()

    def numpy(self) -> Array:
        """Queries all elements."""
        self.trace.ask(CONTENT, self.number)
        return self.inner.numpy()

    def largest(self) -> float:
        """Queries all elements."""
        self.trace.ask(CONTENT, self.number)
        return self.inner.largest()

    def key(self) -> tuple[object, ...]:
        """Queries all elements."""
        return self.content_key()

    def content_key(self) -> tuple[object, ...]:
        """Queries all elements."""
        self.trace.ask(CONTENT, self.number)
        return self.inner.content_key()

    def sample(self) -> object:
        """Queries all elements."""
        self.trace.ask(CONTENT, self.number)
        return self.inner.sample()

    def __hash__(self) -> int:
        return hash(self.inner)

    def __reduce__(self) -> tuple[AnyValue, ...]:
        self.trace.ask(CONTENT, self.number)
        return self.inner.__reduce__()

    def __repr__(self) -> str:
        self.trace.ask(CONTENT, self.number)
        return repr(self.inner)


class TracedGraph(Graph):
    """A graph in which every constant is traced."""

    def __init__(self, trace: TensorTrace, eager: Eager | None, environment: Environment) -> None:
        super().__init__(eager, environment)
        self._trace = trace

    def anew(self) -> "TracedGraph":
        """A graph of the same trace, without nodes."""
        return TracedGraph(self._trace, self.eager, self.environment)

    def constant(self, cls: int) -> Value | None:
        """The constant value of an e-class if it is uniform. Otherwise analyses would query all elements of weights, which differ in every
        region."""
        value = super().constant(cls)
        return None if value is None or any(tensor.uniform() is None for tensor in tensors_in([value])) else value

    def evaluate(self, op: Op, values: Sequence[Value], attrs: Attrs, type_: Type) -> Value:
        """The traced value of a call on traced constants. Raises EvaluateError."""
        return self._trace.fold(op, values, attrs, type_, self.environment.opset)

    def add_constant(self, tensor: Tensor, origin: Constant | None = None) -> int:
        """The node of a constant."""
        return super().add_constant(tensor if isinstance(tensor, Traced) else self._trace.literal(tensor), origin)

    def ask(self, function: Callable[..., AnyValue], args: Sequence[AnyValue], *, decides: bool = False) -> AnyValue:
        """The result of a guard or computed attribute. If it depends on constants and plain values only, it can be re-evaluated; otherwise
        its own queries are recorded."""
        slots: list[AnyValue] = []
        for arg in args:
            if isinstance(arg, Term):
                if not isinstance(arg.constant, Traced):
                    return function(*args)
                slots.append(Slot(arg.type_, arg.constant.number))
            elif isinstance(arg, tuple) and not all(isinstance(part, (int, float, str, type(None))) for part in arg):
                return function(*args)
            else:
                slots.append(arg)
        if not any(isinstance(slot, Slot) for slot in slots):
            return function(*args)
        return self._trace.ask_function(function, tuple(slots), decides=decides)

    def tensor_key(self, tensor: Tensor) -> object:
        """The identity of a constant. Comparing constants does not query their contents, only which are equal."""
        assert isinstance(tensor, Traced)
        if not (tensor.is_splat or self.is_small(tensor)):
            return id(tensor.inner)
        self._trace.keyed[tensor.number] = None
        return tensor.inner.key()


def _numbers(value: Value) -> AnyValue:
    if isinstance(value, tuple):
        return tuple(map(_numbers, value))
    assert isinstance(value, Traced)
    return value.number


def taken(numbers: AnyValue, tensors: Sequence[Tensor]) -> Value:
    """The value whose tensors have these numbers."""
    return tuple([taken(part, tensors) for part in numbers]) if isinstance(numbers, tuple) else tensors[numbers]


def shapes(value: Value) -> object:
    """Types and shapes of the tensors of a value."""
    return tuple(map(shapes, value)) if isinstance(value, tuple) else (value.dtype, value.shape)


def _counted(value: Value, numbers: AnyValue) -> AnyValue:
    return tuple([_counted(part, numbers) for part in value]) if isinstance(value, tuple) else next(numbers)

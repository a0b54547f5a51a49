"""Cost models: the cost of a node on a machine. Costs are positive and finite, lower is better, and node costs add up."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib import import_module
from numbers import Real
from typing import Any as AnyValue
from typing import Final, Literal, Protocol, runtime_checkable

from passat.ir.analysis import is_call_of
from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.cost import memory_bound, view
from passat.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem
from passat.ir.onnx.opaque import dequantizes
from passat.ir.op import Op, get_op
from passat.ir.op_attributes import OpPattern
from passat.ir.ops.linear import accepts_bias, product_cost
from passat.ir.passat_error import PassatError
from passat.ir.traverse import children, post_order
from passat.ir.types import IncompleteType, TensorType, TupleType, Type, leaves

_REMEMBERED: Final = 50_000
"""Number of prices that a model caches."""
EPSILON: Final = 1e-9
"""The minimum cost, also of free operators. Among equal programs the one with fewer nodes wins, and no cycle is free."""
LARGEST: Final = 1e100
"""The maximum price, which keeps sums of prices finite."""
FUSED: Final = 0.4
"""Factor on the price of a product that ONNX Runtime fuses with the DequantizeLinear of its operands. Measured with a weight of 512 x 512
on one thread, at 1, 8 and 128 rows: 0.33, 0.28 and 0.4 (QLinearMatMul); 0.36, 0.6 and 1.4 if only the weight is quantized (MatMulNBits).
"""
UNFUSED: Final = 4.0
"""Factor on the price of arithmetic on a dequantized weight, which includes its DequantizeLinear: 0.5 to 8 as measured, by the axis of the
scales, with weights of 64 x 2,048 to 768 x 3,072. Also of a product of dequantized operands that arithmetic has changed: 1.5 to 5.5 with
weights of 512 x 512 to 16 x 64, at 1 to 128 rows."""
_SHOWN: Final = 200
"""Number of characters of types shown in messages."""


class CostError(PassatError, ValueError):
    """A cost model that raises, or returns an invalid cost. The message names the model, the operator and the types."""

    exit_code = 1


@runtime_checkable
class CostModel(Protocol):
    """Prices a call of an operator on operands of given types."""

    def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        """The cost of the call, greater than zero."""
        ...


@runtime_checkable
class ConstantAware(CostModel, Protocol):
    """A cost model that distinguishes constant operands, for example because weights can be packed once."""

    def call_on(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs, constants: Sequence[bool]) -> float:
        """The cost of the call, greater than zero."""
        ...


def price(model: CostModel, op: Op, types: Sequence[Type], result: Type, attrs: Attrs, constants: Sequence[bool]) -> float:
    """The cost of a call according to the model; some operands may be constants. Raises CostError for an invalid cost."""
    aware = getattr(model, "call_on", None)
    try:
        found = model.call(op, types, result, attrs) if aware is None else aware(op, types, result, attrs, constants)
    except (CostError, MemoryError):
        raise
    except Exception as error:  # user code may raise anything
        said = " ".join(str(error).split())
        raise CostError(
            f"{_about(model)} raised {type(error).__name__}{': ' if said else ''}{said} for {_show(op, types, result)}"
        ) from error
    if type(found) is not float and (not isinstance(found, Real) or isinstance(found, bool)):
        raise CostError(f"{_about(model)} returned {found!r} for {_show(op, types, result)}; a cost must be a number")
    try:
        cost = float(found)
    except OverflowError:  # an integer beyond all floats
        cost = math.inf
    if not 0 < cost <= LARGEST:  # also false for NaN
        why = "positive and finite" if not 0 < cost < math.inf else f"at most {LARGEST:g}"
        raise CostError(f"{_about(model)} returned {cost} for {_show(op, types, result)}; a cost must be {why}")
    return cost


def price_apart(model: CostModel, types: Sequence[Type], result: Type, axis: int, constants: Sequence[bool]) -> float:
    """The cost of an `nn.bias_add` that is not fused into a product or convolution: an addition. Raises CostError."""
    data, bias = types
    if isinstance(data, TensorType) and isinstance(bias, TensorType):
        bias = TensorType((*bias.shape, *(1,) * (data.ndim - axis % data.ndim - 1)), bias.dtype)
    return price(model, get_op("add"), [data, bias], result, EMPTY_ATTRS, constants)


def price_copied(model: CostModel, result: Type) -> float:
    """The cost of a view that is a result of the program, such as a reshape: a result has memory of its own, so the view is a copy. Raises
    CostError."""
    return price(model, get_op("copy"), [result], result, EMPTY_ATTRS, [False])


def _about(model: object) -> str:
    return f"the cost model {type(model).__name__}"


def _show(op: Op, types: Sequence[Type], result: Type) -> str:
    shown = f"({', '.join(map(str, types))}) -> {result}"
    return f"{op.name}{shown if len(shown) <= _SHOWN else shown[:_SHOWN] + ' ...'}"


@dataclass(frozen=True)
class Machine:
    """Parameters of the roofline model: floating-point operations per second, bytes per second, and seconds per operator launch.

    Raises CostError for a rate that is not positive, and for a negative launch time.
    """

    flops: float = 5e10
    bandwidth: float = 1e10
    launch: float = 1e-6

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            known = isinstance(value, Real)
            if not known or not (0 < value <= LARGEST or (value == 0 and field.name == "launch")):
                raise CostError(f"the {field.name} of a machine must be a positive number up to {LARGEST:g}, not {value!r}")

    @staticmethod
    def of_this_machine() -> "Machine":
        """This machine, as ONNX Runtime performs on one thread. Measured once with a matrix product, a long copy and short operators, and
        cached. Raises CostError without ONNX Runtime."""
        machine: Machine = _made_elsewhere("this machine")
        return machine


class Roofline:
    """Seconds by the roofline model (Williams, Waterman, Patterson 2009): the larger of arithmetic and memory traffic, plus a launch.

    For values of unknown type, only the traffic of the others counts.

    >>> from passat.ir.op import get_op
    >>> from passat.ir.types import TensorType
    >>> t = TensorType((1000, 1000), "float32")
    >>> round(Roofline().call(get_op("add"), [t, t], t, Attrs()), 6)
    0.001201
    """

    def __init__(self, machine: Machine | None = None) -> None:
        self.machine = machine or Machine()
        self._known: dict[tuple[object, ...], float] = {}

    def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        """Seconds of one call."""
        key = (op, result, *types) if op.cost is memory_bound else (op, attrs, result, *types)
        found = self._known.get(key)
        if found is None:
            known = op.cost is memory_bound or all(map(_is_known, (*types, result)))
            flops, traffic = (op.cost if known else memory_bound)(types, result, attrs)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            launch = _launches(op, result) * self.machine.launch
            found = self._known[key] = max(flops / self.machine.flops, traffic / self.machine.bandwidth) + launch + EPSILON
        return found


def _is_known(type_: Type) -> bool:
    """True if the size of a value is known."""
    return not any(isinstance(part, IncompleteType) for part in leaves(type_))


def _launches(op: Op, result: Type) -> int:
    """Number of launches of a call: 0 for a bias that is fused into its product (see `price_apart`), two for not_equal, which ONNX has no
    operator for, and one per output for split, which copies each output separately. This cost offsets what merging several small products
    saves."""
    if op.name == "nn.bias_add":
        return 0
    if op.name == "not_equal":
        return 2
    return len(result.fields) if op.name == "split" and isinstance(result, TupleType) else 1


ROOFLINE: Final = Roofline()
"""The default model: a single object, so that all passes of a pipeline share its cached prices."""


class NodeCount:
    """Costs 1 per call, so that the program with the fewest nodes wins."""

    def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        """One."""
        return 1.0


NODES: Final = NodeCount()
CostName = Literal["roofline", "nodes", "measured"]
MachineName = Literal["default", "this"]


def cost_model(cost: CostName | CostModel, machine: MachineName | Machine = "default") -> CostModel:
    """The cost model that the options `rules.cost` and `rules.machine` select. Raises CostError."""
    if isinstance(cost, type):
        raise CostError(f"the cost model {cost.__name__} is a class; pass an instance: {cost.__name__}()")
    if not isinstance(cost, str):
        if not callable(getattr(cost, "call", None)):
            raise CostError(f"a cost model needs a method call(op, types, result, attrs); {cost!r} has none")
        return cost
    if cost == "nodes":
        return NODES
    if cost == "measured":
        measured: CostModel = _made_elsewhere("measured")
        return measured
    if cost != "roofline":
        raise CostError(f"unknown cost model {cost!r}; choose roofline, nodes, measured, or an object with a method call")
    return _roofline(Machine.of_this_machine() if machine == "this" else Machine() if machine == "default" else machine)


@lru_cache(maxsize=16)
def _roofline(machine: Machine) -> Roofline:
    return ROOFLINE if machine == ROOFLINE.machine else Roofline(machine)


_ELSEWHERE: Final = {"measured": ("passat.measure", "measured"), "this machine": ("passat.measure", "this_machine")}
"""Models that need ONNX Runtime live in the front end, referenced here by name and imported on demand."""


def _made_elsewhere(what: str) -> AnyValue:
    module, function = _ELSEWHERE[what]
    return getattr(import_module(module), function)()


class Dequantized:
    """The dequantized values of a program, and what calls on them cost. ONNX Runtime does not fold DequantizeLinear, but fuses it with the
    product or convolution that reads it, also past transposes and other data movement. It does not fuse past arithmetic, nor with a
    transpose flag (or as a QGemm, which takes scales along the wrong axis). A count of nodes knows nothing of this."""

    def __init__(self, model: CostModel) -> None:
        self._counts = isinstance(model, NodeCount)
        self._moved: set[int] = set()
        self._changed: set[int] = set()

    def computes(self, op: Op, operands: Sequence[int]) -> bool:
        """True for arithmetic on dequantized values. If all operands are constants, it is not folded, but computed in each run."""
        arithmetic = op.elementwise or op.pattern == OpPattern.OUT_ELEMWISE_FUSABLE
        return arithmetic and any(map(self.__contains__, operands))

    def factor(self, value: int, op: Op, attrs: Attrs, operands: Sequence[int], known: Sequence[bool]) -> float:
        """The factor on the price of a call. `known` marks constant operands. Records its value, so calls come after their operands."""
        if dequantizes(op) or (op.movement and operands and self._moved.issuperset(operands)):
            self._moved.add(value)
        elif self._moved and any(map(self.__contains__, operands)):
            if (op.elementwise or op.movement or all(known)) and all(
                given or each in self for each, given in zip(operands, known, strict=True)
            ):
                self._changed.add(value)
            if self._counts or not self.computes(op, operands):
                return 1.0
            if all(known):
                return UNFUSED
            if not op.elementwise and self._fuses(op, attrs, operands, known):
                return FUSED
            if op.cost is product_cost and not self._changed.isdisjoint(operands) and all(map(self.__contains__, operands)):
                return UNFUSED
        return 1.0

    def __contains__(self, value: int) -> bool:
        """Whether a value is dequantized, and perhaps moved or changed by arithmetic."""
        return value in self._moved or value in self._changed

    def _fuses(self, op: Op, attrs: Attrs, operands: Sequence[int], known: Sequence[bool]) -> bool:
        """True for a product or convolution of dequantized values, and a product with a dequantized weight on the right."""
        if len(operands) < 2 or operands[1] not in self._moved or known[0] or attrs.get("transpose_a") or attrs.get("transpose_b"):
            return False
        return operands[0] in self._moved or (op.cost is product_cost and known[1] and operands[0] not in self._changed)


def program_cost(root: Expr, model: CostModel) -> float:
    """The cost of a program, counting shared parts once."""
    return sum((cost for _, cost in call_costs(root, model)), 0.0)


def call_costs(root: Expr, model: CostModel) -> list[tuple[Call, float]]:
    """The calls of a program with their costs. Omits calls whose operands are all constants, since they are folded before the program runs,
    except arithmetic on dequantized weights. A bias is nearly free if the product or convolution before it has no other reader; otherwise
    it costs an addition. Views are nearly free, except results of a function, which are copied."""
    constant: set[int] = set()
    dequantized = Dequantized(model)
    found: list[tuple[Call, float]] = []
    nodes = post_order(root)
    along = _fused_biases(root, nodes)
    results = set(map(id, results_of(root))) if isinstance(root, Function) else set()
    for node in nodes:
        if isinstance(node, Constant):
            constant.add(id(node))
        elif isinstance(node, Call) and isinstance(node.op, Op):
            operands = [id(arg) for arg in node.args]
            known = [operand in constant for operand in operands]
            factor = dequantized.factor(id(node), node.op, node.attrs, operands, known)
            if operands and not node.op.stateful and all(known):
                constant.add(id(node))
                if not dequantized.computes(node.op, operands):
                    continue
            types, result = [arg.checked_type for arg in node.args], node.checked_type
            cost = price(model, node.op, types, result, node.attrs, known)
            if node.op.name == "nn.bias_add" and id(node) not in along:
                cost = max(cost, price_apart(model, types, result, node.attrs.axis, known))
            if node.op.cost is view and id(node) in results:
                cost = max(cost, price_copied(model, result))
            found.append((node, factor * cost))
        elif isinstance(node, (Tuple, TupleGetItem)):
            parts = node.fields if isinstance(node, Tuple) else (node.tuple_value,)
            if all(id(part) in constant for part in parts):
                constant.add(id(node))
    return found


def results_of(function: Function) -> Sequence[Expr]:
    """The results of a function: the fields of the tuple that it returns, or its only result."""
    return function.body.fields if isinstance(function.body, Tuple) else (function.body,)


def _fused_biases(root: Expr, nodes: Sequence[Expr]) -> set[int]:
    """The biases that fuse into the preceding product: it accepts a bias and has no other reader."""
    biases = [node for node in nodes if is_call_of(node, "nn.bias_add")]
    if not biases:
        return set()
    readers = Counter(id(part) for node in (*nodes, Tuple([root])) for part in children(node))
    return {id(node) for node in biases if readers[id(node.args[0])] == 1 and accepts_bias(node)}

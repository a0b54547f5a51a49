"""LLVM IR of the expressions of the loop IR, made with llvmlite.

Values are those of the C code (`kernels.scalars`): integers wrap around, minima and maxima keep NaN, and NaN and floats out of range of an
integer type become its least value. Nothing is regrouped but the sums of loops that allow it.
"""

import functools
import math
from collections.abc import Callable
from typing import Any as AnyValue
from typing import Final, TypeGuard

import llvmlite.ir as ll

from passat.ir.passat_error import PassatError
from passat.ir.tir.arithmetic import And, CmpOp, Div, FloorDiv, FloorMod, Max, Min, Mod, Not, Or
from passat.ir.tir.expr import BinaryOp, Broadcast, Call, Cast, FloatImm, IntImm, PrimExpr, StringImm, Var
from passat.ir.tir.node import Node
from passat.ir.tir.types import DataType
from passat.ir.tir.values import Let, Load, Ramp, Select, Shuffle
from passat.runtime.jit.kernel_calls import KERNEL_CALLS, compared

I1, I8, I32, I64, POINTER = ll.IntType(1), ll.IntType(8), ll.IntType(32), ll.IntType(64), ll.PointerType()
_FLOATS: Final = {16: ll.HalfType(), 32: ll.FloatType(), 64: ll.DoubleType()}
_LLVM: Final = {
    **{f"tir.{name}": f"llvm.{name}" for name in ("exp", "exp2", "log", "log2", "log10", "sin", "cos", "pow", "fabs", "sqrt")},
    **{f"tir.{name}": f"llvm.{name}" for name in ("floor", "ceil", "trunc", "nearbyint", "copysign")},
    "tir.round": "llvm.rint",
}
_LIBM: Final = frozenset(
    f"tir.{name}"
    for name in (
        *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cosh", "erf", "fmod", "hypot", "log1p", "nextafter", "sinh"),
        *("tan", "tanh"),
    )
)
_BITS: Final = {"tir.bitwise_and": "and_", "tir.bitwise_or": "or_", "tir.bitwise_xor": "xor", "tir.shift_left": "shl"}


class UnsupportedError(PassatError, NotImplementedError):
    """A program of loops with a part that is not compiled."""


def llvm_type(dtype: str, memory: bool = False) -> ll.Type:
    """The LLVM type of values; in memory, booleans are bytes."""
    type_ = DataType.of(dtype)
    if type_.kind == "handle":
        return POINTER
    if type_.is_integer:
        element: ll.Type = I8 if memory and type_.bits == 1 else ll.IntType(type_.bits)
    elif type_.is_float and type_.bits in _FLOATS:
        element = _FLOATS[type_.bits]
    else:
        raise UnsupportedError(f"values of type {dtype} are not compiled")
    return element if type_.lanes == 1 else ll.VectorType(element, type_.lanes)


class Expressions:
    """Emits expressions at the place of `builder`."""

    def __init__(self, module: ll.Module, builder: ll.IRBuilder) -> None:
        self.module, self.builder = module, builder
        self.values: dict[Node, AnyValue] = {}

    def expr(self, node: PrimExpr) -> AnyValue:
        """The value of an expression. Long sums do not use the Python stack."""
        spine: list[BinaryOp] = []
        while isinstance(node, BinaryOp) and not isinstance(node, (And, Or)):
            spine.append(node)
            node = node.a
        value = self._leaf(node)
        for each in reversed(spine):
            value = self._binary(each, value, self.expr(each.b))
        return value

    def _leaf(self, node: PrimExpr) -> AnyValue:
        if isinstance(node, (IntImm, FloatImm)):
            return self.constant(node.dtype, node.value)
        if isinstance(node, Var):
            if node not in self.values:
                raise UnsupportedError(f"the variable {node.name} has no value")
            return self.values[node]
        for kind in type(node).__mro__:
            form = _FORMS.get(kind)
            if form is not None:
                return form(self, node)
        raise UnsupportedError(f"expressions of the kind {type(node).__name__} are not compiled")

    def constant(self, dtype: str, value: float) -> AnyValue:
        """A constant; of a vector type, one with that value in each lane."""
        type_ = DataType.of(dtype)
        made = llvm_type(dtype)
        number = float(value) if type_.is_float else int(value)
        if type_.is_float and type_.bits == 16:  # llvmlite writes halves as doubles, which LLVM reads only if they are exact
            return self.builder.fptrunc(self.constant(str(DataType("float", 32, type_.lanes)), value), made)
        if type_.is_float and type_.bits == 32 and math.isfinite(number):
            number = _single(number)
        return ll.Constant(made, number if type_.lanes == 1 else [number] * type_.lanes)

    def _binary(self, node: BinaryOp, a: AnyValue, b: AnyValue) -> AnyValue:
        builder, type_ = self.builder, node.a.type
        is_float, signed = type_.is_float, type_.kind == "int"
        if isinstance(node, CmpOp):
            if is_float:
                return builder.fcmp_unordered("!=", a, b) if node.SYMBOL == "!=" else builder.fcmp_ordered(node.SYMBOL, a, b)
            return (builder.icmp_signed if signed else builder.icmp_unsigned)(node.SYMBOL, a, b)
        if node.SYMBOL in _ARITHMETIC:
            return getattr(builder, _ARITHMETIC[node.SYMBOL][is_float])(a, b)
        if isinstance(node, (Min, Max)):
            found = builder.select(compared(self, "<" if isinstance(node, Min) else ">", type_, a, b), a, b)
            return builder.select(builder.fcmp_unordered("uno", a, a), a, found) if is_float else found
        if isinstance(node, Div):
            return (builder.fdiv if is_float else builder.sdiv if signed else builder.udiv)(a, b)
        if isinstance(node, Mod):
            return (builder.frem if is_float else builder.srem if signed else builder.urem)(a, b)
        if isinstance(node, FloorDiv):
            return self._floor_div(node, a, b)
        assert isinstance(node, FloorMod)
        if not signed:
            return builder.frem(a, b) if is_float else builder.urem(a, b)
        rest = builder.srem(a, b)
        return builder.select(self._rounds_up(node.dtype, rest, b), builder.add(rest, b), rest)

    def _floor_div(self, node: BinaryOp, a: AnyValue, b: AnyValue) -> AnyValue:
        builder = self.builder
        if node.type.is_float:
            return self.intrinsic("llvm.floor", node.dtype, [builder.fdiv(a, b)])
        if node.type.kind == "uint":
            return builder.udiv(a, b)
        quotient = builder.sdiv(a, b)
        lower = builder.sub(quotient, self.constant(node.dtype, 1))
        return builder.select(self._rounds_up(node.dtype, builder.srem(a, b), b), lower, quotient)

    def _rounds_up(self, dtype: str, rest: AnyValue, divisor: AnyValue) -> AnyValue:
        """Whether the quotient rounded towards zero is above the one rounded down: the remainder has the other sign."""
        builder, zero = self.builder, self.constant(dtype, 0)
        differs = builder.icmp_signed("<", builder.xor(rest, divisor), zero)
        return builder.and_(builder.icmp_signed("!=", rest, zero), differs)

    def intrinsic(self, name: str, dtype: str, args: list[AnyValue]) -> AnyValue:
        """A call of an LLVM intrinsic of one type."""
        made = llvm_type(dtype)
        suffix = _suffix(dtype)
        function = self._function(f"{name}.{suffix}", ll.FunctionType(made, [arg.type for arg in args]))
        return self.builder.call(function, args)

    def _function(self, name: str, kind: ll.FunctionType) -> ll.Function:
        found = self.module.globals.get(name)
        if found is None:
            found = ll.Function(self.module, kind, name)
        elif found.function_type != kind:
            raise UnsupportedError(f"the function {name} is called with different types")
        return found

    # choices and bindings

    def choose(self, condition: AnyValue, then: Callable[[], AnyValue], otherwise: Callable[[], AnyValue]) -> AnyValue:
        """One of two values, of which only that one is computed."""
        builder = self.builder
        places = [builder.append_basic_block() for _ in range(3)]
        builder.cbranch(condition, places[0], places[1])
        found = []
        for place, make in zip(places, (then, otherwise), strict=False):
            builder.position_at_end(place)
            value = make()
            found.append((value, builder.block))
            builder.branch(places[2])
        builder.position_at_end(places[2])
        phi = builder.phi(found[0][0].type)
        for value, place in found:
            phi.add_incoming(value, place)
        return phi

    def _logic(self, node: And | Or) -> AnyValue:
        left = self.expr(node.a)
        if node.lanes > 1:
            right = self.expr(node.b)
            return self.builder.and_(left, right) if isinstance(node, And) else self.builder.or_(left, right)
        if isinstance(node, And):
            return self.choose(left, lambda: self.expr(node.b), lambda: ll.Constant(I1, 0))
        return self.choose(left, lambda: ll.Constant(I1, 1), lambda: self.expr(node.b))

    def _not(self, node: Not) -> AnyValue:
        return self.builder.xor(self.expr(node.a), self.constant(node.dtype, 1))

    def _select(self, node: Select) -> AnyValue:
        return self.builder.select(*[self.expr(part) for part in (node.condition, node.true_value, node.false_value)])

    def _let(self, node: Let) -> AnyValue:
        self.values[node.var] = self.expr(node.value)
        return self.expr(node.body)

    def _cast(self, node: Cast) -> AnyValue:
        return self.cast(self.expr(node.value), node.value.type, node.type)

    def cast(self, value: AnyValue, given: DataType, wanted: DataType) -> AnyValue:
        """A value converted to another type."""
        builder, made = self.builder, llvm_type(str(wanted))
        if given == wanted:
            return value
        if wanted.is_bool:
            zero = self.constant(str(given), 0)
            return builder.fcmp_unordered("!=", value, zero) if given.is_float else builder.icmp_unsigned("!=", value, zero)
        if given.is_float and wanted.is_float:
            if given.bits == 64 and wanted.bits == 16:
                return self._double_to_half(value, wanted)
            return builder.fpext(value, made) if given.bits < wanted.bits else builder.fptrunc(value, made)
        if wanted.is_float:
            return builder.sitofp(value, made) if given.kind == "int" else builder.uitofp(value, made)
        if given.is_float:
            return self._to_integer(value, given, wanted)
        if given.bits == wanted.bits:
            return value
        if given.bits > wanted.bits:
            return builder.trunc(value, made)
        return builder.sext(value, made) if given.kind == "int" else builder.zext(value, made)

    def _double_to_half(self, value: AnyValue, wanted: DataType) -> AnyValue:
        """A double as a half, rounded once: LLVM calls a function that no library of this process has.

        The double is cut to the precision of float32; the last bit says whether anything was cut off. Rounding the float32 is exact then.
        """
        builder, kind = self.builder, str(DataType("int", 64, wanted.lanes))
        bits = builder.bitcast(value, llvm_type(kind))
        below = builder.and_(bits, self.constant(kind, (1 << 29) - 1))
        rest = builder.and_(builder.add(below, self.constant(kind, (1 << 29) - 1)), self.constant(kind, 1 << 29))
        cut = builder.or_(builder.xor(bits, below), rest)
        single = builder.fptrunc(builder.bitcast(cut, value.type), llvm_type(str(wanted._replace(bits=32))))
        return builder.fptrunc(single, llvm_type(str(wanted)))

    def _to_integer(self, value: AnyValue, given: DataType, wanted: DataType) -> AnyValue:
        """The integer of a float: through int64, but for types that have more than its values."""
        builder, is_large = self.builder, wanted.kind == "uint" and wanted.bits == 64
        through = wanted if wanted.bits in (32, 64) and (wanted.kind == "int" or is_large) else DataType("int", 64, wanted.lanes)
        name = f"llvm.fpto{'u' if is_large else 's'}i.sat.{_suffix(str(through))}.{_suffix(str(given))}"
        found = builder.call(self._function(name, ll.FunctionType(llvm_type(str(through)), [value.type])), [value])
        if is_large:
            return found
        end = float(1 << (through.bits - 1))
        if given.bits == 16:  # whose largest number is below the bounds, which it does not have
            value, given = builder.fpext(value, llvm_type(str(given._replace(bits=32)))), given._replace(bits=32)
        low = builder.fcmp_ordered(">=", value, self.constant(str(given), -end))
        fits = builder.and_(low, builder.fcmp_ordered("<", value, self.constant(str(given), end)))
        found = builder.select(fits, found, self.constant(str(through), -(1 << (through.bits - 1))))
        return self.cast(found, through, wanted)

    # vectors

    def _broadcast(self, node: Broadcast) -> AnyValue:
        return self._splat(self.expr(node.value), node.lanes)

    def _splat(self, value: AnyValue, lanes: int) -> AnyValue:
        kind = ll.VectorType(value.type, lanes)
        one = self.builder.insert_element(ll.Constant(kind, ll.Undefined), value, ll.Constant(I32, 0))
        return self.builder.shuffle_vector(one, ll.Constant(kind, ll.Undefined), ll.Constant(ll.VectorType(I32, lanes), [0] * lanes))

    def _ramp(self, node: Ramp) -> AnyValue:
        base, stride = (self._splat(self.expr(part), node.lanes) for part in (node.base, node.stride))
        steps = ll.Constant(llvm_type(node.dtype), list(range(node.lanes)))
        if node.type.is_float:
            return self.builder.fadd(base, self.builder.fmul(stride, steps))
        return self.builder.add(base, self.builder.mul(stride, steps))

    def _shuffle(self, node: Shuffle) -> AnyValue:
        lanes = [lane for vector in node.vectors for lane in self.lanes_of(self.expr(vector), vector.lanes)]
        chosen = [lanes[index.value] for index in node.indices if isinstance(index, IntImm)]
        if len(chosen) != len(node.indices):
            raise UnsupportedError("a shuffle whose indices are not constants is not compiled")
        return self.vector(chosen)

    def lanes_of(self, value: AnyValue, lanes: int) -> list[AnyValue]:
        """The lanes of a vector, or a number as the only one."""
        if lanes == 1:
            return [value]
        return [self.builder.extract_element(value, ll.Constant(I32, lane)) for lane in range(lanes)]

    def vector(self, lanes: list[AnyValue]) -> AnyValue:
        """The vector of lanes, or the only one."""
        if len(lanes) == 1:
            return lanes[0]
        made = ll.Constant(ll.VectorType(lanes[0].type, len(lanes)), ll.Undefined)
        for place, lane in enumerate(lanes):
            made = self.builder.insert_element(made, lane, ll.Constant(I32, place))
        return made

    # memory

    def _load(self, node: Load) -> AnyValue:
        return self.read(self.pointer(node.buffer_var), node.type, node.index, node.predicate)

    def pointer(self, var: Var) -> AnyValue:
        """The address that a variable holds."""
        if var not in self.values:
            raise UnsupportedError(f"the memory of {var.name} is neither an argument nor allocated")
        return self.values[var]

    def read(self, pointer: AnyValue, type_: DataType, index: PrimExpr, predicate: PrimExpr) -> AnyValue:
        """Elements of memory."""
        builder, element = self.builder, type_.with_lanes(1)
        if type_.lanes > 1 and is_true(predicate) and is_contiguous(index):
            start = self.address(pointer, element, self.expr(index.base), index.base.type)
            value = builder.load(start, typ=llvm_type(str(type_), memory=True))
            value.align = element.itemsize
            return builder.icmp_unsigned("!=", value, ll.Constant(value.type, [0] * type_.lanes)) if type_.is_bool else value
        places = self.lanes_of(self.expr(index), type_.lanes)
        conditions = [None] * type_.lanes if is_true(predicate) else self.lanes_of(self.expr(predicate), type_.lanes)

        def one(place: AnyValue) -> AnyValue:
            value = builder.load(self.address(pointer, element, place, index.type), typ=llvm_type(str(element), memory=True))
            value.align = element.itemsize
            return builder.icmp_unsigned("!=", value, ll.Constant(I8, 0)) if element.is_bool else value

        zero = ll.Constant(llvm_type(str(element)), 0 if not element.is_float else 0.0)
        return self.vector(
            [
                one(place) if condition is None else self.choose(condition, functools.partial(one, place), lambda: zero)
                for place, condition in zip(places, conditions, strict=True)
            ]
        )

    def address(self, pointer: AnyValue, element: DataType, index: AnyValue, index_type: DataType) -> AnyValue:
        """The address of an element."""
        if index_type.bits < 64:
            index = (self.builder.sext if index_type.kind == "int" else self.builder.zext)(index, I64)
        return self.builder.gep(pointer, [index], source_etype=llvm_type(str(element), memory=True))

    # calls

    def _call(self, node: Call) -> AnyValue:
        name, builder = node.op.name, self.builder
        if name == "tir.if_then_else":
            return self.choose(self.expr(node.args[0]), lambda: self.expr(node.args[1]), lambda: self.expr(node.args[2]))
        if name == "tir.prefetch":
            return self._prefetch(node)
        if name == "tir.tvm_call_packed":
            return self.call_packed(node)
        if name in ("tir.call_extern", "tir.call_pure_extern") and isinstance(node.args[0], StringImm):
            args = [self.expr(arg) for arg in node.args[1:]]
            result = ll.VoidType() if node.dtype == "void" else llvm_type(node.dtype)
            return builder.call(self._function(node.args[0].value, ll.FunctionType(result, [arg.type for arg in args])), args)
        args = [self.expr(arg) for arg in node.args]
        if name in _BITS:
            return getattr(builder, _BITS[name])(*args)
        if name in _LLVM or name in _LIBM:
            return self._math(name, node.dtype, args)
        form = _CALLS.get(name)
        if form is None:
            raise UnsupportedError(f"calls of {name} are not compiled")
        return form(self, node, *args)

    def call_packed(self, node: Call) -> AnyValue:
        """A call of a registered Python function."""
        raise NotImplementedError

    def _math(self, name: str, dtype: str, args: list[AnyValue]) -> AnyValue:
        """A mathematical function, lane by lane, of float16 as of float32."""
        type_ = DataType.of(dtype)
        if not type_.is_float:
            raise UnsupportedError(f"{name} of {dtype} is not compiled")
        if type_.bits == 16:
            wide = type_._replace(bits=32)
            result = self._math(name, str(wide), [self.cast(arg, type_, wide) for arg in args])
            return self.cast(result, wide, type_)
        if name in _LLVM:
            return self.intrinsic(_LLVM[name], dtype, args)
        element = llvm_type(str(type_.with_lanes(1)))
        symbol = name.removeprefix("tir.") + ("f" if type_.bits == 32 else "")
        function = self._function(symbol, ll.FunctionType(element, [element] * len(args)))
        lanes = zip(*[self.lanes_of(arg, type_.lanes) for arg in args], strict=True)
        return self.vector([self.builder.call(function, list(each)) for each in lanes])

    def _shift_right(self, node: Call, a: AnyValue, b: AnyValue) -> AnyValue:
        return self.builder.ashr(a, b) if node.type.kind == "int" else self.builder.lshr(a, b)

    def _sigmoid(self, node: Call, x: AnyValue) -> AnyValue:
        one = self.constant(node.dtype, 1.0)
        return self.builder.fdiv(one, self.builder.fadd(one, self._math("tir.exp", node.dtype, [self.builder.fneg(x)])))

    def _count(self, node: Call, x: AnyValue) -> AnyValue:
        type_ = node.args[0].type
        if not type_.is_integer:
            raise UnsupportedError(f"{node.op.name} of {type_} is not compiled")
        if node.op.name == "tir.popcount":
            return self.cast(self.intrinsic("llvm.ctpop", str(type_), [x]), type_, node.type)
        function = self._function(f"llvm.ctlz.{_suffix(str(type_))}", ll.FunctionType(x.type, [x.type, I1]))
        return self.cast(self.builder.call(function, [x, ll.Constant(I1, 0)]), type_, node.type)

    def _prefetch(self, node: Call) -> AnyValue:
        """A hint that memory is read soon (0) or written (1), with the locality and the kind of cache."""
        target, *numbers = node.args
        read = target.args[0] if isinstance(target, Call) and target.op.name == "tir.address_of" else None
        if not isinstance(read, Load):
            raise UnsupportedError("a prefetch names the address of a read of memory")
        index = read.index.base if isinstance(read.index, Ramp) else read.index
        place = self.address(self.pointer(read.buffer_var), read.type.with_lanes(1), self.expr(index), index.type)
        kind = ll.FunctionType(ll.VoidType(), [POINTER, I32, I32, I32])
        return self.builder.call(self._function("llvm.prefetch.p0", kind), [place, *map(self.expr, numbers)])

    def _large(self, node: Call, *_: AnyValue) -> AnyValue:
        low, high = (part.value for part in node.args if isinstance(part, IntImm))
        return self.constant(node.dtype, low | (high << 32))


def is_contiguous(index: PrimExpr) -> TypeGuard[Ramp]:
    """Whether an index is that of elements next to each other, in order."""
    return isinstance(index, Ramp) and isinstance(index.stride, IntImm) and index.stride.value == 1


def is_true(predicate: PrimExpr) -> bool:
    """Whether a condition is the constant true, in each lane."""
    while isinstance(predicate, Broadcast):
        predicate = predicate.value
    return isinstance(predicate, IntImm) and predicate.value == 1


def _single(value: float) -> float:
    """The nearest float32."""
    return ll.types._as_float(value) if abs(value) < 3.4028235677973366e38 else math.copysign(math.inf, value)


def _suffix(dtype: str) -> str:
    """The name of a type in names of LLVM intrinsics."""
    type_ = DataType.of(dtype)
    element = f"{'f' if type_.is_float else 'i'}{type_.bits}"
    return element if type_.lanes == 1 else f"v{type_.lanes}{element}"


_ARITHMETIC: Final = {"+": ("add", "fadd"), "-": ("sub", "fsub"), "*": ("mul", "fmul")}
_FORMS: Final[dict[type, Callable[[Expressions, AnyValue], AnyValue]]] = {
    And: Expressions._logic,
    Or: Expressions._logic,
    Not: Expressions._not,
    Select: Expressions._select,
    Let: Expressions._let,
    Cast: Expressions._cast,
    Broadcast: Expressions._broadcast,
    Ramp: Expressions._ramp,
    Shuffle: Expressions._shuffle,
    Load: Expressions._load,
    Call: Expressions._call,
}
_CALLS: Final[dict[str, Callable[..., AnyValue]]] = {
    **KERNEL_CALLS,
    "tir.likely": lambda _self, _node, x: x,
    "tir.bitwise_not": lambda self, node, x: self.builder.xor(x, self.constant(node.dtype, -1)),
    "tir.shift_right": Expressions._shift_right,
    "tir.isnan": lambda self, _node, x: self.builder.fcmp_unordered("uno", x, x),
    "tir.sigmoid": Expressions._sigmoid,
    "tir.rsqrt": lambda self, node, x: self.builder.fdiv(self.constant(node.dtype, 1.0), self._math("tir.sqrt", node.dtype, [x])),
    "tir.exp10": lambda self, node, x: self._math("tir.pow", node.dtype, [self.constant(node.dtype, 10.0), x]),
    "tir.popcount": Expressions._count,
    "tir.clz": Expressions._count,
    "tir.reinterpret": lambda self, node, x: self.builder.bitcast(x, llvm_type(node.dtype)),
    "tir.large_uint_imm": Expressions._large,
    "tir.isnullptr": lambda self, _node, x: self.builder.icmp_unsigned("==", x, ll.Constant(POINTER, None)),
}

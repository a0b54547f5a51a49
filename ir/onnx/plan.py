"""Selects the calls of a function that become nodes, in an order as close to the source as possible."""

from collections.abc import Mapping, Sequence

from passat.ir.analysis import is_call_of
from passat.ir.expr import Call, Constant, Expr, Function, GlobalVar, Let, Tuple, TupleGetItem, Var
from passat.ir.infer import infer_type
from passat.ir.onnx.errors import OnnxError
from passat.ir.onnx.frame import Origin
from passat.ir.onnx.opaque import dequantizes
from passat.ir.op import Op


class Plan:
    """The calls to write, in order, and the constants that they read.

    `merged` are calls that are written as part of the node of a bias addition. `lets` are the values of let-bound variables.
    """

    __slots__ = ("calls", "constants", "lets", "merged", "origins", "read")

    def __init__(self, roots: Sequence[Expr], origins: Mapping[int, Origin], places: Mapping[str, int]) -> None:
        self.origins = origins
        self.lets: dict[int, Expr] = {}
        self.constants: list[Constant] = []
        self.read: list[Expr] = []
        """The operands of tuples, projections and lets."""
        found = self._collect(roots, places)
        self.merged = self._merged(found, roots)
        found.sort(key=lambda entry: entry[0])  # stable sort: operands are never placed after their users, and were found before them
        self.calls = [call for _, call, _ in found]

    def _collect(self, roots: Sequence[Expr], places: Mapping[str, int]) -> list[tuple[int, Call, Sequence[Expr]]]:
        """Collects calls, operands first, with their operands and positions: the position in the source, or that of the last operand."""
        found: list[tuple[int, Call, Sequence[Expr]]] = []
        place_of: dict[int, int] = {}
        pending: list[tuple[Expr, Sequence[Expr]]] = []
        stack: list[Expr | None] = list(reversed(roots))
        while stack:
            expr = stack.pop()
            if expr is None:
                made, parts = pending.pop()
                place = -1
                if type(made) is Call:
                    span = made.span
                    if span is not None and span.outputs:
                        place = places.get(span.outputs[0], -1)
                for part in parts:
                    other = place_of[id(part)]
                    place = max(place, other)
                if type(made) is Call:
                    found.append((place, made, parts))
                place_of[id(made)] = place
                continue
            key = id(expr)
            if key in place_of:
                continue
            place_of[key] = -1
            if type(expr) is Constant:
                self.constants.append(expr)
                continue
            parts = self.operands(expr)
            pending.append((expr, parts))
            if type(expr) is not Call:
                self.read += parts
            stack.append(None)
            stack += parts[::-1]
        return found

    def operands(self, expr: Expr) -> Sequence[Expr]:
        """The operands of an expression. Raises OnnxError for expressions that ONNX cannot express."""
        kind = type(expr)
        if kind is Call:
            assert isinstance(expr, Call)
            origin = self.origins.get(id(expr))
            if origin is not None:
                return origin[3]
            if not isinstance(expr.op, Op):
                raise OnnxError(f"a call of {_what(expr.op)} cannot be written to ONNX; inline it first")
            if "bodies" in expr.attrs:
                return [arg for arg in expr.args if not isinstance(self.resolve(arg), (Function, GlobalVar))]
            return expr.args
        if kind is TupleGetItem:
            assert isinstance(expr, TupleGetItem)
            whole = self.resolve(expr.tuple_value)
            return (whole.fields[expr.index],) if isinstance(whole, Tuple) else (whole,)
        if kind is Tuple:
            assert isinstance(expr, Tuple)
            return expr.fields
        if kind is Let:
            assert isinstance(expr, Let)
            self.lets[id(expr.var)] = expr.value
            return (expr.body,)
        if kind is Var:
            return (self.lets[id(expr)],) if id(expr) in self.lets else ()
        raise OnnxError(f"{_what(expr)} cannot be written to ONNX")

    def resolve(self, expr: Expr) -> Expr:
        """Resolves lets, let-bound variables, and fields of explicit tuples."""
        while True:
            if isinstance(expr, Let):
                self.lets[id(expr.var)] = expr.value
                expr = expr.body
            elif isinstance(expr, Var) and id(expr) in self.lets:
                expr = self.lets[id(expr)]
            elif isinstance(expr, TupleGetItem):
                whole = self.resolve(expr.tuple_value)
                if not isinstance(whole, Tuple):
                    return expr if whole is expr.tuple_value else infer_type(TupleGetItem(whole, expr.index, expr.span))
                expr = whole.fields[expr.index]
            else:
                return expr

    def is_read(self, result: Expr) -> bool:
        """Whether a call reads a value, directly or in a tuple."""
        place = _place(result)
        read = [self.resolve(part) for call in self.calls for part in self.operands(call)]
        return any(
            _place(part) == place for each in read for part in (map(self.resolve, each.fields) if isinstance(each, Tuple) else [each])
        )

    def _merged(self, found: Sequence[tuple[int, Call, Sequence[Expr]]], roots: Sequence[Expr]) -> set[int]:
        """The products and convolutions whose only user is a bias addition: ONNX has a single node for both. A product with a transposed
        quantized weight stays MatMul: ONNX Runtime makes a Gemm a Gemm with transB, and fuses DequantizeLinear only with the former."""
        from passat.ir.ops.linear import accepts_bias

        additions = [call for _, call, _ in found if call.op.name == "nn.bias_add" and id(call) not in self.origins]  # type: ignore[attr-defined]  # collected calls call operators
        products = {id(call.args[0]) for call in additions if accepts_bias(call) and not self._turns_weight(call.args[0])}
        if not products:
            return products
        readers = dict.fromkeys(products, 0)
        for part in (*roots, *self.read, *(part for _, _, parts in found for part in parts)):
            if id(part) in readers:
                readers[id(part)] += 1
        return {product for product, count in readers.items() if count == 1}

    def _turns_weight(self, product: Expr) -> bool:
        """Whether the right operand is the transpose of a dequantized one."""
        right = self.resolve(product.args[1]) if isinstance(product, Call) else product
        if not is_call_of(right, "transpose"):
            return False
        source = self.resolve(right.args[0])
        return isinstance(source, Call) and dequantizes(source.op)


def _place(value: Expr) -> tuple[int, int]:
    """Identifies a value: a call, or one of its results."""
    return (id(value.tuple_value), value.index) if isinstance(value, TupleGetItem) else (id(value), -1)


def _what(expr: Expr) -> str:
    return f"a value of kind {type(expr).__name__}"

"""Matches a dataflow pattern at an expression."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any as AnyValue
from typing import Final

from passat.ir.dataflow.pattern import (
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataTypePattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    FunctionPattern,
    IfPattern,
    LetPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    VarPattern,
    WildcardPattern,
)
from passat.ir.equality import structural_equal
from passat.ir.expr import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem, Var
from passat.ir.infer import infer_type
from passat.ir.infer_error import InferError
from passat.ir.op import Op
from passat.ir.traverse import children, post_order
from passat.ir.types import TensorType, Type


class Dataflow:
    """The expressions of a program with their users and the dominator tree. Raises TypeError for a module."""

    def __init__(self, root: Expr) -> None:
        if not isinstance(root, Expr):
            raise TypeError(f"dataflow patterns match expressions, such as the function mod['main'], not {type(root).__name__}")
        self.root = root
        self.order = post_order(root)
        self.readers: dict[int, list[Expr]] = {id(node): [] for node in self.order}
        for node in self.order:
            for part in children(node):
                self.readers[id(part)].append(node)

    @cached_property
    def _dominators(self) -> Mapping[int, int]:
        import networkx as nx  # only patterns with dominators take its 0.1 s

        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_node(id(self.root))
        graph.add_edges_from((id(node), id(part)) for node in self.order for part in children(node))
        return nx.immediate_dominators(graph, id(self.root))

    def dominates(self, node: Expr, inner: Expr) -> bool:
        """Whether every use of `inner` reaches the result through `node`."""
        at, root = id(inner), id(self.root)
        while at != id(node):
            if at == root:
                return False
            at = self._dominators[at]
        return True


class Matcher:
    """Matches patterns at expressions of a program. `found` maps the patterns of the last match to expressions."""

    def __init__(self, dataflow: Dataflow) -> None:
        self._dataflow = dataflow
        self.found: dict[DFPattern, list[Expr]] = {}
        self._trail: list[DFPattern] = []
        self._fixed = True
        """Whether a matched pattern is bound to its expression; not on the paths to a dominator."""
        self._regrouped: dict[CallPattern, list[CallPattern]] = {}

    def match(self, pattern: DFPattern, expr: Expr) -> bool:
        """Whether the pattern matches the expression."""
        self.found = {}
        self._trail = []
        self._fixed = True
        return self._at(pattern, expr)

    def _at(self, pattern: DFPattern, expr: Expr) -> bool:
        if self._fixed and pattern in self.found:
            return is_same(self.found[pattern][0], expr)
        mark = len(self._trail)
        if _TESTS[type(pattern)](self, pattern, expr):
            self.found.setdefault(pattern, []).append(expr)
            self._trail.append(pattern)
            return True
        self._forget(mark)
        return False

    def _forget(self, mark: int) -> None:
        while len(self._trail) > mark:
            pattern = self._trail.pop()
            self.found[pattern].pop()
            if not self.found[pattern]:
                del self.found[pattern]

    def _all(self, patterns: Sequence[DFPattern] | None, parts: Sequence[Expr]) -> bool:
        """Whether each pattern matches its expression; None matches any expressions."""
        if patterns is None:
            return True
        return len(patterns) == len(parts) and all(self._at(pattern, part) for pattern, part in zip(patterns, parts, strict=True))

    def _expr(self, pattern: ExprPattern, expr: Expr) -> bool:
        if isinstance(pattern.expr, Op) or isinstance(expr, Op):
            return pattern.expr is expr
        return structural_equal(pattern.expr, expr)

    def _var(self, pattern: VarPattern, expr: Expr) -> bool:
        return isinstance(expr, Var) and pattern.name in ("", expr.name_hint)

    def _constant(self, pattern: ConstantPattern, expr: Expr) -> bool:
        return isinstance(expr, Constant)

    def _wildcard(self, pattern: WildcardPattern, expr: Expr) -> bool:
        return all(self._at(part, expr) for part in pattern.parts)

    def _call(self, pattern: CallPattern, expr: Expr) -> bool:
        if not isinstance(expr, Call):
            return False
        mark = len(self._trail)
        if self._at(pattern.op, expr.op):
            inner = len(self._trail)
            if self._all(pattern.args, expr.args):
                return True
            self._forget(inner)
            if isinstance(expr.op, Op) and expr.op.commutative and self._all(pattern.args, expr.args[::-1]):
                return True
        self._forget(mark)
        for other in self._groupings(pattern):
            if self._at(other, expr):
                return True
            self._forget(mark)
        return False

    def _groupings(self, pattern: CallPattern) -> Sequence[CallPattern]:
        """The equivalent forms of a product over a divisor: `(a * b) / c`, `a * (b / c)` and `b * (a / c)`."""
        found = self._regrouped.get(pattern)
        if found is None:
            found = self._regrouped[pattern] = list(_groupings(pattern))
            self._regrouped.update((other, []) for other in found)
        return found

    def _function(self, pattern: FunctionPattern, expr: Expr) -> bool:
        return isinstance(expr, Function) and self._all(pattern.params, expr.params) and self._at(pattern.body, expr.body)

    def _tuple(self, pattern: TuplePattern, expr: Expr) -> bool:
        return isinstance(expr, Tuple) and self._all(pattern.fields, expr.fields)

    def _get(self, pattern: TupleGetItemPattern, expr: Expr) -> bool:
        return isinstance(expr, TupleGetItem) and pattern.index in (None, expr.index) and self._at(pattern.tuple, expr.tuple_value)

    def _if(self, pattern: IfPattern, expr: Expr) -> bool:
        return isinstance(expr, If) and self._all(pattern.parts, (expr.cond, expr.true_branch, expr.false_branch))

    def _let(self, pattern: LetPattern, expr: Expr) -> bool:
        return isinstance(expr, Let) and self._all(pattern.parts, (expr.var, expr.value, expr.body))

    def _either(self, pattern: AltPattern, expr: Expr) -> bool:
        return self._at(pattern.left, expr) or self._at(pattern.right, expr)

    def _typed(self, pattern: TypePattern, expr: Expr) -> bool:
        return self._at(pattern.pattern, expr) and _type_of(expr) == pattern.type

    def _of_dtype(self, pattern: DataTypePattern, expr: Expr) -> bool:
        if not self._at(pattern.pattern, expr):
            return False
        type_ = _type_of(expr)
        return isinstance(type_, TensorType) and type_.dtype == pattern.dtype

    def _of_shape(self, pattern: ShapePattern, expr: Expr) -> bool:
        if not self._at(pattern.pattern, expr):
            return False
        type_ = _type_of(expr)
        return isinstance(type_, TensorType) and tuple(type_.shape) == pattern.shape

    def _with_attrs(self, pattern: AttrPattern, expr: Expr) -> bool:
        if not self._at(pattern.pattern, expr):
            return False
        if isinstance(expr, Op):
            given: Mapping[str, AnyValue] = {name: expr.get_attr(name) for name in pattern.attrs if expr.has_attr(name)}
        elif isinstance(expr, (Call, Function)):
            given = dict(expr.attrs or {})
        else:
            return False
        return all(name in given and _plain(given[name]) == _plain(value) for name, value in pattern.attrs.items())

    def _dominated(self, pattern: DominatorPattern, expr: Expr) -> bool:
        if not self._at(pattern.child, expr):
            return False
        found = self._lead_here(pattern, expr)
        self._fixed = True
        return found and self._dataflow.dominates(expr, self.found[pattern.parent][0])

    def _lead_here(self, pattern: DominatorPattern, child: Expr) -> bool:
        """Whether all operands on the paths back from the child match the path pattern, up to one expression that matches the parent.

        Variables and constants may also be operands on the way, but not the only ones.
        """
        stack, seen = [child], {id(child)}
        while stack:
            node = stack.pop()
            callee = node.op if isinstance(node, Call) else None
            parts = [part for part in children(node) if part is not callee and not (callee and isinstance(part, (Var, Constant)))]
            if not parts:
                return False
            for part in reversed(parts):
                self._fixed = True
                if self._at(pattern.parent, part):
                    continue
                self._fixed = False
                if id(part) in seen:
                    continue
                if not self._at(pattern.path, part):
                    return False
                seen.add(id(part))
                stack.append(part)
        return True


_TESTS: Final[dict[type[DFPattern], Callable[[Matcher, AnyValue, Expr], bool]]] = {
    AltPattern: Matcher._either,
    AttrPattern: Matcher._with_attrs,
    CallPattern: Matcher._call,
    ConstantPattern: Matcher._constant,
    DataTypePattern: Matcher._of_dtype,
    DominatorPattern: Matcher._dominated,
    ExprPattern: Matcher._expr,
    FunctionPattern: Matcher._function,
    IfPattern: Matcher._if,
    LetPattern: Matcher._let,
    ShapePattern: Matcher._of_shape,
    TupleGetItemPattern: Matcher._get,
    TuplePattern: Matcher._tuple,
    TypePattern: Matcher._typed,
    VarPattern: Matcher._var,
    WildcardPattern: Matcher._wildcard,
}


def _groupings(pattern: CallPattern) -> Iterator[CallPattern]:
    name, args = _op_name(pattern), pattern.args
    if args is None or len(args) != 2:
        return
    if name == "divide" and isinstance(args[0], CallPattern) and _op_name(args[0]) == "multiply" and args[0].args is not None:
        a, b = args[0].args
        for first, second in ((a, b), (b, a)):
            yield CallPattern(args[0].op, (first, CallPattern(pattern.op, (second, args[1]))))
    elif name == "multiply":
        for quotient, factor in (args, args[::-1]):
            if isinstance(quotient, CallPattern) and _op_name(quotient) == "divide" and quotient.args is not None:
                top, bottom = quotient.args
                yield CallPattern(quotient.op, (CallPattern(pattern.op, (top, factor)), bottom))
                yield CallPattern(pattern.op, (top, CallPattern(quotient.op, (factor, bottom))))


def _op_name(pattern: CallPattern) -> str:
    op = pattern.op.expr if isinstance(pattern.op, ExprPattern) else None
    return op.name if isinstance(op, Op) else ""


def is_same(a: Expr, b: Expr) -> bool:
    """Whether two expressions are identical or equal constants. Two occurrences of a pattern may only match such expressions."""
    return a is b or (isinstance(a, Constant) and isinstance(b, Constant) and a.data == b.data)


def _type_of(expr: Expr) -> Type | None:
    """The type of an expression; None if it cannot be inferred yet."""
    if expr._checked_type is None:
        try:
            infer_type(expr)
        except InferError:
            return None
    return expr._checked_type


def _plain(value: AnyValue) -> AnyValue:
    """The value of an attribute, with lists converted to tuples."""
    return tuple(map(_plain, value)) if isinstance(value, (list, tuple)) else value


def match(pattern: DFPattern, expr: Expr) -> bool:
    """Whether a pattern matches an expression.

    >>> from passat.ir.dataflow.pattern import is_op, wildcard
    >>> from passat.ir.expr import var
    >>> match(is_op("add")(wildcard(), wildcard()), var("x") + var("y"))
    True
    """
    return Matcher(Dataflow(expr)).match(pattern, expr)

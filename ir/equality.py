"""Structural equality of expressions, modules and types. Ignores names of bound variables, spans and inferred types.

* Sharing is ignored by default. With `sharing=True`, as in TVM, a node that occurs twice must correspond to one node both times, in both
  directions (constants and projections are still compared by value).
* Constants are equal by value, operators and global functions by name.
* Free variables equal only themselves, or with `map_free_vars=True` correspond one to one in order of occurrence.
* The declared result type of a function equals the inferred one of a function without a declared one.
* Modules are equal if their functions and type definitions are; their order and `attrs` are ignored.

Each pair of nodes is compared once, regardless of the number of paths to it.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any as AnyValue
from typing import Final, TypeAlias

from passat.ir.attrs import Attrs
from passat.ir.collector import collector_paused
from passat.ir.counting import counted
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
    Pattern,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from passat.ir.hashing import Comparable, parameter_type, structural_hash, whole
from passat.ir.module import IRModule, TypeData
from passat.ir.op import Op
from passat.ir.prim_func import PrimFunc
from passat.ir.shape import Any, Dim, SymDim
from passat.ir.tir.equality import difference as loop_difference
from passat.ir.tir.expr import ExprOp, convert
from passat.ir.tir.node import Node
from passat.ir.traverse import evaluation_parts, pattern_vars
from passat.ir.type_comparison import Names, TypeComparison
from passat.ir.types import EnvFunc, FuncType, Type

_Pair: TypeAlias = "tuple[Expr, Expr, _Pair | None]"
"""Two nodes to compare, and the enclosing pair."""
Elements: TypeAlias = Sequence[Comparable | Dim]
Comparables: TypeAlias = Comparable | Elements
"""Comparable values. Sequences, including sequences of dimensions, are compared element by element."""
_SHOWN: Final = 12
"""Number of steps at either end of a path that an error message shows."""


def structural_equal(lhs: Comparables, rhs: Comparables, map_free_vars: bool = False, sharing: bool = False) -> bool:
    """Whether two programs, or two sequences of them, are equal up to names.

    >>> from passat.ir.text import parse_expr
    >>> structural_equal(parse_expr("fn (%x: int8) { %x }"), parse_expr("fn (%y: int8) { %y }"))
    True
    """
    with collector_paused():
        return _difference(lhs, rhs, map_free_vars, sharing) is None


def assert_structural_equal(lhs: Comparables, rhs: Comparables, map_free_vars: bool = False, sharing: bool = False) -> None:
    """Raises ValueError if two programs differ. The message names the first difference and its location."""
    with collector_paused():
        difference = _difference(lhs, rhs, map_free_vars, sharing)
    if difference is not None:
        raise ValueError(f"the left side differs from the right one {difference}")


def _as_node(value: AnyValue) -> AnyValue:
    """A number, or a comparison `a == b`, as an expression of loops, as TVM converts them."""
    return convert(value) if isinstance(value, (bool, int, float, ExprOp)) else value


def _difference(lhs: Comparables, rhs: Comparables, map_free_vars: bool, sharing: bool) -> str | None:
    if isinstance(lhs, (Node, dict, EnvFunc)) or isinstance(rhs, (Node, dict, EnvFunc)):
        found = loop_difference(_as_node(lhs), _as_node(rhs), map_free_vars)
        return None if found is None else f"in {found}"
    if isinstance(lhs, (list, tuple)) and isinstance(rhs, (list, tuple)):
        return _elements_differ(lhs, rhs, map_free_vars, sharing)
    if isinstance(lhs, Sequence) or isinstance(rhs, Sequence):
        return "in kind: one of them is a sequence"
    ours, theirs = _kind_of(lhs), _kind_of(rhs)
    if ours is not theirs:
        return f"in kind: {_article(ours)} against {_article(theirs)}"
    if isinstance(lhs, IRModule) and isinstance(rhs, IRModule):
        return _module_difference(lhs, rhs, map_free_vars, sharing)
    comparison = _Comparison(map_free_vars, sharing)
    if isinstance(lhs, Type) and isinstance(rhs, Type):
        return None if comparison.types.same((lhs,), (rhs,)) else f"as a type: {lhs!r} is not {rhs!r}"
    if isinstance(lhs, TypeData) and isinstance(rhs, TypeData):
        return comparison.types.definitions_differ(lhs, rhs)
    if isinstance(lhs, Attrs) and isinstance(rhs, Attrs):
        return None if lhs == rhs else f"as a whole: {_attrs_difference(lhs, rhs)}"
    return comparison.difference(whole(lhs), whole(rhs), "")


def _elements_differ(lhs: Elements, rhs: Elements, map_free_vars: bool, sharing: bool) -> str | None:
    if len(lhs) != len(rhs):
        return f"in length: {counted(len(lhs), 'element')} against {len(rhs)}"
    for i, (a, b) in enumerate(zip(lhs, rhs, strict=True)):
        if isinstance(a, (int, SymDim, Any)) or isinstance(b, (int, SymDim, Any)):
            found = None if a == b else f"as a whole: {a} against {b}"
        else:
            found = _difference(a, b, map_free_vars, sharing)
        if found is not None:
            return f"in element {i} {found}"
    return None


def _kind_of(node: Comparable) -> type:
    kinds = (IRModule, Type, Pattern, Clause, TypeData, Attrs)
    return next((kind for kind in kinds if isinstance(node, kind)), Expr)


def _article(kind: type) -> str:
    return {Expr: "an expression", IRModule: "a module", TypeData: "a type definition", Attrs: "attributes"}.get(
        kind, f"a {kind.__name__.lower()}"
    )


def _module_difference(lhs: IRModule, rhs: IRModule, map_free_vars: bool, sharing: bool) -> str | None:
    ours = {var.name_hint: function for var, function in lhs.functions.items()}
    theirs = {var.name_hint: function for var, function in rhs.functions.items()}
    if ours.keys() != theirs.keys():
        return f"in its functions: {', '.join(sorted(ours))} against {', '.join(sorted(theirs))}"
    comparison = _Comparison(map_free_vars, sharing)
    for header in {**lhs.type_definitions, **rhs.type_definitions}:
        a, b = lhs.type_definitions.get(header), rhs.type_definitions.get(header)
        difference = f"in the definition of the type {header!r}" if a is None or b is None else comparison.types.definitions_differ(a, b)
        if difference is not None:
            return difference
    for name, function in ours.items():
        difference = comparison.difference(function, theirs[name], f"@{name}")
        if difference is not None:
            return difference
    return None


class _Rebind:
    """The previous bindings of two variables, restored at the end of the scope that rebinds them."""

    __slots__ = ("left", "left_before", "right", "right_before")

    def __init__(self, left: Var, left_before: Var | None, right: Var, right_before: Var | None) -> None:
        self.left, self.left_before, self.right, self.right_before = left, left_before, right, right_before


class _TypeScope:
    """The previous bindings of type parameters, restored at the end of a function."""

    __slots__ = ("before",)

    def __init__(self, before: Names) -> None:
        self.before = before


_Task: TypeAlias = "_Pair | _Rebind | _TypeScope"


class _Comparison:
    """Compares pairs of nodes with an explicit stack, and stops at the first difference.

    A pair is not compared again unless a variable has been rebound in between, which never happens in well-formed programs.
    """

    def __init__(self, map_free_vars: bool, sharing: bool) -> None:
        self._map_free_vars = map_free_vars
        self._sharing = sharing
        self._to_right: dict[Expr, Var] = {}
        self._to_left: dict[Expr, Var] = {}
        self._renamed = False
        self.types = TypeComparison(map_free_vars)
        self._met: set[tuple[Expr, Expr]] = set()
        self._nodes: tuple[dict[Expr, Expr], dict[Expr, Expr]] = ({}, {})
        self._stack: list[_Task] = []

    def difference(self, lhs: Expr, rhs: Expr, name: str) -> str | None:
        """Describes the first difference of two expressions in the order of evaluation; None if they are equal."""
        stack, met = self._stack, self._met
        to_right, to_left = self._to_right.get, self._to_left.get
        stack.append((lhs, rhs, None))
        while stack:
            task = stack.pop()
            if not isinstance(task, tuple):
                self._leave(task)
                continue
            a, b, parent = task
            pair = (a, b)
            if pair in met or (a is b and not (self._renamed or self.types.in_scope or self._sharing or self._map_free_vars)):
                continue
            if (  # most nodes are calls of operators, which `_nodes_differ` would compare in twice the time
                type(a) is Call
                and type(b) is Call
                and a.op is b.op
                and type(a.op) is Op
                and a.attrs is b.attrs
                and len(a.args) == len(b.args)
                and not self._sharing
            ):
                met.add(pair)
                for ours, theirs in zip(a.args[::-1], b.args[::-1], strict=True):
                    right = to_right(ours)
                    if right is None or right is not theirs or to_left(right) is not ours:  # skips corresponding variables
                        stack.append((ours, theirs, task))
                continue
            if isinstance(a, Var) and isinstance(b, Var):
                reason = self._variables(a, b)
            else:
                met.add(pair)
                reason = self._nodes_differ(a, b, task)
            if reason is not None:
                stack.clear()
                return f"at {name}{_show_path(task)}: {reason}" if name or parent else f"as a whole: {reason}"
        return None

    def _nodes_differ(self, a: Expr, b: Expr, pair: _Pair) -> str | None:
        """Compares two nodes without their parts, and pushes the parts onto the stack."""
        if isinstance(a, Op) and isinstance(b, Op):
            return None if a.name == b.name else f"the operator {a.name} against {b.name}"
        if type(a) is not type(b):
            return f"{_kind(a)} against {_kind(b)}"
        if self._sharing and not _by_value(a):
            left, right = self._nodes
            if left.setdefault(a, b) is not b or right.setdefault(b, a) is not a:
                return f"this {_kind(a)} is shared differently"
        ours, theirs = evaluation_parts(a), evaluation_parts(b)
        if len(ours) != len(theirs):
            return f"{_kind(a)} of {len(ours)} parts against {len(theirs)}"
        reason = self._contents_differ(a, b)
        if reason is None:
            self._stack.extend((ours, theirs, pair) for ours, theirs in zip(ours[::-1], theirs[::-1], strict=True))
        return reason

    def _contents_differ(self, a: Expr, b: Expr) -> str | None:
        """Compares the contents of two nodes of the same kind, and binds their variables to each other."""
        if isinstance(a, Call) and isinstance(b, Call):
            reason = self._attributes_differ(a.attrs, b.attrs)
            if reason is not None:
                return reason
            if not isinstance(a.op, Op) and not self.types.same(a._type_args, b._type_args):
                return f"the type arguments {a._type_args} against {b._type_args}"
        elif isinstance(a, TupleGetItem) and isinstance(b, TupleGetItem):
            return None if a.index == b.index else f"field {a.index} against field {b.index}"
        elif isinstance(a, Constant) and isinstance(b, Constant):
            return None if a.data == b.data else f"the constant {a.data!r} against {b.data!r}"
        elif isinstance(a, Function) and isinstance(b, Function):
            return self._functions_differ(a, b)
        elif isinstance(a, Let) and isinstance(b, Let):
            return self._bind(a.var, b.var)
        elif isinstance(a, Match) and isinstance(b, Match):
            return self._matches_differ(a, b)
        elif isinstance(a, GlobalVar) and isinstance(b, GlobalVar):
            return None if a.name_hint == b.name_hint else f"the function @{a.name_hint} against @{b.name_hint}"
        elif isinstance(a, Constructor) and isinstance(b, Constructor):
            return None if self.types.same_constructor(a, b) else f"the constructor {a.name_hint} against {b.name_hint}"
        elif isinstance(a, PrimFunc) and isinstance(b, PrimFunc):
            if a.checked_type != b.checked_type or a.attrs != b.attrs:
                return f"{a!r} against {b!r}"
            return a.body_difference(b)
        return None

    def _attributes_differ(self, a: Attrs, b: Attrs) -> str | None:
        """Compares attributes. Maps may hold variables and expressions, which are compared as parts of the program."""
        if a is b or a == b:
            return None
        ours, theirs = ({name: value for name, value in attrs.items() if isinstance(value, dict)} for attrs in (a, b))
        plain = [Attrs({name: len(value) if isinstance(value, dict) else value for name, value in attrs.items()}) for attrs in (a, b)]
        if not ours or ours.keys() != theirs.keys() or plain[0] != plain[1]:
            return _attrs_difference(a, b)
        for name, table in ours.items():
            by_name = all(isinstance(key, str) for key in (*table, *theirs[name]))
            pairs = zip(*(sorted(part.items()) if by_name else part.items() for part in (table, theirs[name])), strict=True)
            for left, right in pairs:
                if not all(map(self._values_agree, left, right)):
                    return f"the attribute {name} is {table!r} against {theirs[name]!r}"
        return None

    def _values_agree(self, a: object, b: object) -> bool:
        """Whether two parts of a map are equal; expressions are compared later."""
        if isinstance(a, Var) and isinstance(b, Var):
            return self._variables(a, b) is None
        if isinstance(a, Expr) and isinstance(b, Expr):
            self._stack.append((a, b, None))
            return True
        return Attrs(value=a) == Attrs(value=b)

    def _functions_differ(self, a: Function, b: Function) -> str | None:
        if len(a.type_params) != len(b.type_params):
            return f"{counted(len(a.type_params), 'type parameter')} against {len(b.type_params)}"
        if a.type_params:
            self._stack.append(_TypeScope(self.types.enter(a.type_params, b.type_params)))
            self._met.clear()
        for ours, theirs in zip(a.params, b.params, strict=True):
            reason = self._bind(ours, theirs, parameter_type)
            if reason is not None:
                return reason
        if not self.types.same((a.ret_type,), (b.ret_type,)) and not self.types.same((_result(a),), (_result(b),)):
            return f"the declared result {a.ret_type!r} against {b.ret_type!r}"
        return self._attributes_differ(a.attrs, b.attrs)

    def _matches_differ(self, a: Match, b: Match) -> str | None:
        if a.complete != b.complete:
            return "a complete match against an incomplete one"
        for ours, theirs in zip(a.clauses, b.clauses, strict=True):
            if not self.types.same_pattern(ours.lhs, theirs.lhs):
                return "the patterns of two arms differ"
            for left, right in zip(pattern_vars(ours.lhs), pattern_vars(theirs.lhs), strict=True):
                reason = self._bind(left, right)
                if reason is not None:
                    return reason
        return None

    def _bind(self, left: Var, right: Var, type_of: Callable[[Var], Type | None] = attrgetter("type_annotation")) -> str | None:
        """Makes two variables that are bound at the same place correspond to each other."""
        ours, theirs = type_of(left), type_of(right)
        if not self.types.same((ours,), (theirs,)):
            return f"%{left.name_hint} is annotated {ours!r}, %{right.name_hint} {theirs!r}"
        before, after = self._to_right.get(left), self._to_left.get(right)
        if before is right and after is left:
            return None
        if before is not None or after is not None:
            self._stack.append(_Rebind(left, before, right, after))
            self._met.clear()
        self._to_right[left] = right
        self._to_left[right] = left
        self._renamed = self._renamed or left is not right
        return None

    def _leave(self, task: _Rebind | _TypeScope) -> None:
        """Restores the bindings from before a scope."""
        self._met.clear()
        if isinstance(task, _TypeScope):
            self.types.bound = task.before
            return
        for table, var, before in ((self._to_right, task.left, task.left_before), (self._to_left, task.right, task.right_before)):
            if before is None:
                table.pop(var, None)
            else:
                table[var] = before

    def _variables(self, a: Var, b: Var) -> str | None:
        mapped = self._to_right.get(a)
        if mapped is not None or b in self._to_left:
            if mapped is b and self._to_left.get(b) is a:
                return None
            return f"the variable %{a.name_hint} against %{b.name_hint}, which is bound elsewhere"
        if self._map_free_vars:
            return self._bind(a, b)
        return None if a is b else f"the free variables %{a.name_hint} and %{b.name_hint} are different"


def _result(function: Function) -> Type | None:
    """The declared result of a function, else the inferred one, which may be known for its body only."""
    if function.ret_type is not None:
        return function.ret_type
    type_ = function._checked_type
    return type_.ret_type if isinstance(type_, FuncType) else function.body._checked_type


def _by_value(node: Expr) -> bool:
    return isinstance(node, (Constant, TupleGetItem, Op, GlobalVar, Constructor)) or (isinstance(node, Tuple) and not node.fields)


def _kind(node: Expr) -> str:
    if isinstance(node, Op):
        return f"the operator {node.name}"
    if isinstance(node, Call) and isinstance(node.op, Op):
        return f"Call of {node.op.name}"
    return type(node).__name__


def _attrs_difference(a: Attrs, b: Attrs) -> str:
    for name in dict.fromkeys((*a, *b)):
        if name not in a or name not in b or Attrs(value=a[name]) != Attrs(value=b[name]):
            ours = repr(a[name]) if name in a else "absent"
            theirs = repr(b[name]) if name in b else "absent"
            return f"the attribute {name} is {ours} against {theirs}"
    return "the attributes"


def _show_path(pair: _Pair) -> str:
    """Shows the path to a pair: at each enclosing pair, the first part that is the next pair."""
    steps: list[str] = []
    while (parent := pair[2]) is not None:
        parts = zip(evaluation_parts(parent[0]), evaluation_parts(parent[1]), strict=True)
        steps.append(_step(parent[0], next(i for i, (a, b) in enumerate(parts) if a is pair[0] and b is pair[1])))
        pair = parent
    steps.reverse()
    if len(steps) > 2 * _SHOWN:
        steps[_SHOWN:-_SHOWN] = [f" ... {counted(len(steps) - 2 * _SHOWN, 'step')} ... "]
    return "".join(steps)


def _step(node: Expr, part: int) -> str:
    """Names part number `part` of a node, in the order of evaluation."""
    if isinstance(node, Call):
        return f".args[{part}]" if part < len(node.args) else ".op"
    if isinstance(node, Tuple):
        return f".fields[{part}]"
    if isinstance(node, Function):
        return f".params[{part}]" if part < len(node.params) else ".body"
    if isinstance(node, Match):
        return f".clauses[{part - 1}]" if part else ".data"
    return f".{_STEPS[type(node)][part]}"


_STEPS: Final[dict[type[Expr], tuple[str, ...]]] = {
    Let: ("value", "var", "body"),
    If: ("cond", "true_branch", "false_branch"),
    TupleGetItem: ("tuple_value",),
    RefCreate: ("value",),
    RefRead: ("ref",),
    RefWrite: ("ref", "value"),
}


__all__ = ["assert_structural_equal", "structural_equal", "structural_hash"]

"""Shared by the tests of rules: a reference evaluator, random inputs, comparison of values, one run of rule sets over a function."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.dtypes import FLOATS, from_numpy
from passat.ir.evaluate import EvaluateError, Value, evaluate_call
from passat.ir.expr import Call, Constant, Expr, Function, If, Let, Match, Pattern, PatternTuple, PatternVar, Tuple, TupleGetItem, Var
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.shape import Dim, evaluate_dim
from passat.ir.tensor import Array, Tensor
from passat.ir.traverse import post_order
from passat.ir.types import TensorType, TupleType, tensor_type
from passat.passmgr import PassContext
from passat.passmgr.pass_info import Statistics
from passat.rules.checking.case import difference as values_differ
from passat.rules.checking.sampler import EXTREME, PLAIN, draw_array
from passat.rules.engine.graph import Graph
from passat.rules.engine.matching import Matcher
from passat.rules.engine.rebuild import rebuild
from passat.rules.guards import Reject
from passat.rules.rule import Rule, without_operators
from passat.rules.rule_pass import RulePass
from passat.rules.rule_set import RuleSetMeta

Environment = Mapping[Var, AnyValue]


@dataclass
class _Closure:
    """A function with the values of the captured variables."""

    function: Function
    environment: Environment


def evaluate(expr: Expr, environment: Environment) -> AnyValue:
    """The value of an expression by the operators' kernels: a tensor, a tuple of values, or a closure. Iterative over dataflow."""
    done: dict[int, AnyValue] = {}
    scope = dict(environment)
    for node in post_order(expr, into=lambda part: not isinstance(part, (Function, If, Let, Match))):
        if isinstance(node, Let):
            done[id(node)] = _let(node, scope)
        elif isinstance(node, If):
            chosen = node.true_branch if bool(evaluate(node.cond, scope).numpy()) else node.false_branch
            done[id(node)] = evaluate(chosen, scope)
        elif isinstance(node, Match):
            value = evaluate(node.data, scope)
            for clause in node.clauses:
                bound = _matched(clause.lhs, value)
                if bound is not None:
                    done[id(node)] = evaluate(clause.rhs, {**scope, **bound})
                    break
        elif isinstance(node, Function):
            done[id(node)] = _Closure(node, scope)
        elif isinstance(node, Var):
            done[id(node)] = scope[node]
        elif isinstance(node, Constant):
            done[id(node)] = node.data
        elif isinstance(node, Tuple):
            done[id(node)] = tuple(done[id(field)] for field in node.fields)
        elif isinstance(node, TupleGetItem):
            done[id(node)] = done[id(node.tuple_value)][node.index]
        elif isinstance(node, Call):
            args = [done[id(arg)] for arg in node.args]
            if isinstance(node.op, Op):
                done[id(node)] = evaluate_call(node.op, args, node.attrs, node.checked_type)
            else:
                closure = done[id(node.op)]
                inner = {**closure.environment, **dict(zip(closure.function.params, args, strict=True))}
                done[id(node)] = evaluate(closure.function.body, inner)
        elif not isinstance(node, Op):
            raise NotImplementedError(f"the evaluator of the tests does not know {type(node).__name__}")
    return done[id(expr)]


def _matched(pattern: Pattern, value: AnyValue) -> dict[Var, AnyValue] | None:
    """The variables that a pattern of tuples and variables binds."""
    if isinstance(pattern, PatternVar):
        return {pattern.var: value}
    if isinstance(pattern, PatternTuple):
        found: dict[Var, AnyValue] = {}
        for part, field in zip(pattern.patterns, value, strict=True):
            found |= _matched(part, field) or {}
        return found
    return {}


def _let(let: Let, environment: Environment) -> AnyValue:
    scope = dict(environment)
    rest: Expr = let
    while isinstance(rest, Let):
        scope[rest.var] = evaluate(rest.value, scope)
        rest = rest.body
    return evaluate(rest, scope)


def run(function: Function, feeds: Sequence[Value]) -> list[Array]:
    """The results of a function, with tuples flattened."""
    infer_type(function)
    found = [evaluate(function.body, dict(zip(function.params, feeds, strict=True)))]
    arrays: list[Array] = []
    while found:
        value = found.pop(0)
        if isinstance(value, tuple):
            found = [*value, *found]
        elif isinstance(value, Tensor):
            arrays.append(value.numpy())
        else:
            raise NotImplementedError("a function is no result to compare")
    return arrays


def sized(type_: TensorType, sizes: Mapping[str, int], assumed: int = 2) -> tuple[int, ...]:
    """The shape of a type if its symbols have the given sizes."""
    return tuple(evaluate_dim(dim, sizes, assumed) for dim in type_.shape)


def feeds_of(
    function: Function, generator: np.random.Generator, *, special: bool = False, sizes: Mapping[str, int] | None = None
) -> list[Tensor]:
    """Random inputs of a function whose parameters are tensors."""
    types = [tensor_type(param.checked_type, param.name_hint) for param in function.params]
    odd = EXTREME if special else PLAIN
    arrays = [draw_array(generator, sized(type_, sizes or {}), type_.dtype, odd) for type_ in types]
    return [Tensor.dense(array) for array in arrays]


def difference(found: Sequence[Array], expected: Sequence[Array], *, exact: bool, tolerance: float = 0.0) -> str | None:
    """The difference of two lists of results, or None. With `exact` they are compared bit for bit, and all NaN are equal; integers and
    bools are always compared exactly. Otherwise floats may differ by rounding, or by `tolerance` if that is larger."""
    return values_differ(found, expected, None if exact else [_bound(array, tolerance) for array in expected])


def _bound(array: Array, tolerance: float) -> float:
    if from_numpy(array.dtype) not in FLOATS:
        return 0.0
    with np.errstate(all="ignore"):  # signaling nans
        values = array.astype(np.float64)
    narrow = 0.1 if from_numpy(array.dtype) == "bfloat16" else {2: 3e-2, 4: 2e-4}.get(array.dtype.itemsize, 1e-9)
    return max(narrow, tolerance) * float(np.max(np.abs(values), initial=1.0, where=np.isfinite(values)))


@dataclass
class Outcome:
    """A function after a pass, and the output of the pass."""

    function: Function
    statistics: Statistics
    name: str

    def count(self, key: str) -> float:
        """A counter of the pass."""
        return self.statistics.counters.get(self.name, {}).get(key, 0)

    def fired(self, rule: str) -> float:
        """The number of unions by a rule."""
        return self.count(f"fired:{without_operators(rule)}")

    def applied(self, rules: RuleSetMeta) -> float:
        """The number of applications of the rules of a set."""
        return sum(self.fired(rule.name) for rule in rules)

    @property
    def remarks(self) -> list[str]:
        """The remarks of the pass."""
        return list(self.statistics.remarks.get(self.name, {}))


def apply(pass_: RulePass, function: Function, **config: AnyValue) -> Outcome:
    """Runs a pass on a function in a separate context; in config keys `__` stands for the dot."""
    infer_type(function)
    module = IRModule.from_expr(function)
    with PassContext(opt_level=3, config={key.replace("__", "."): value for key, value in config.items()}) as context:
        result = pass_(module)
    return Outcome(result["main"], context.statistics, pass_.info.name)


def saturate(function: Function, *sets: RuleSetMeta, merge: bool = False, **config: AnyValue) -> Outcome:
    """Runs rule sets over a function."""
    return apply(RulePass(sets, name="Tried", merge=merge), function, **config)


_DIRECTIONS: Final[dict[tuple[AnyValue, ...], Sequence[Rule]]] = {}


def directions(rule: Rule) -> Sequence[Rule]:
    """The directions of a rule: hundreds, if it has holes for operators. They are expanded once, even for a rule that is named again."""
    parts = tuple([getattr(rule, slot) for slot in Rule.__slots__])
    if parts not in _DIRECTIONS:
        _DIRECTIONS[parts] = tuple(rule.directions())
    return _DIRECTIONS[parts]


@functools.cache
def in_case(rule: Rule) -> Sequence[Rule]:
    """The directions of a rule; for a rule named `Set.rule[dense]`, those whose names begin with that."""
    if not rule.holes():
        return directions(rule)
    every = directions(rule.named(without_operators(rule.name)))
    start = rule.name.rstrip("]")
    return [one for one in every if start == rule.name or one.name.startswith((f"{start}]", f"{start},"))]


def rewritten(function: Function, rule: Rule) -> tuple[list[Function], list[str]]:
    """The results of a rule on the whole body of a function, one for each match, regardless of cost; and the reasons of rejections."""
    infer_type(function)
    made: list[Function] = []
    reasons: list[str] = []
    for direction in in_case(rule):
        matcher = Matcher(direction)
        for variant in matcher.variants:
            graph = Graph()
            root = graph.load(function.body)
            if graph.symbols[root] is not matcher.root:
                continue
            for row in variant.search(graph, [root]):
                try:
                    _, built = matcher.decide(graph, row)
                except Reject as rejection:
                    reasons.append(str(rejection))
                else:
                    body = rebuild(graph, {node: node for node in range(len(graph))}, built)
                    made.append(Function(function.params, body))
    return made, reasons


def assert_equal_in_value(
    before: Function, after: Function, *, exact: bool, special: bool | None = None, sizes: Mapping[str, int] | None = None, rounds: int = 3
) -> None:
    """Raises AssertionError if two functions with the same parameters differ on random inputs. Ignores inputs on which the first has no
    value, such as a division of integers by zero."""
    assert before.params == after.params
    generator = np.random.default_rng(0)
    for i in range(rounds):
        feeds = feeds_of(before, generator, special=exact and bool(i % 2) if special is None else special, sizes=sizes)
        try:
            expected = run(before, feeds)
        except EvaluateError:
            continue
        wrong = difference(run(after, feeds), expected, exact=exact)
        assert wrong is None, f"{wrong}\n{before}\nbecame\n{after}\non {feeds}"


def operators(expr: Expr) -> list[str]:
    """The names of the operators called, in post-order."""
    return [node.op.name for node in post_order(expr) if isinstance(node, Call) and isinstance(node.op, Op)]


def shape_of(expr: Expr) -> tuple[Dim, ...]:
    """The shape of an expression's type."""
    return tensor_type(expr.checked_type).shape


def result_type(function: Function) -> TensorType | TupleType:
    """The type of the result of a function."""
    infer_type(function)
    type_ = function.body.checked_type
    assert isinstance(type_, (TensorType, TupleType))
    return type_

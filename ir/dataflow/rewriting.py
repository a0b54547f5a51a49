"""Replaces matches of dataflow patterns by the result of a callback, or by calls of extracted functions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any as AnyValue
from typing import Final

from passat.ir.counting import counted
from passat.ir.dataflow.groups import PARTITIONED, Group, groups
from passat.ir.dataflow.pattern import DFPattern
from passat.ir.equality import structural_equal
from passat.ir.expr import Call, Expr, Function, Var
from passat.ir.infer import infer_module, infer_type
from passat.ir.module import IRModule
from passat.ir.traverse import children, with_children
from passat.ir.traverse import rewrite as rebuild

_ROUNDS: Final = 100
_GROWTH: Final = 100
"""How many times the matches of the first round a later round may have, beyond 10,000."""


class DFPatternCallback:
    """A pattern and the replacement of its matches. Subclasses set `pattern` and override `callback`.

    With `require_type`, types are inferred before matching. With `rewrite_once`, rewriting ends after the first round that changed
    something.
    """

    pattern: DFPattern | None = None
    require_type = False
    rewrite_once = False

    def __init__(self, require_type: bool = False, rewrite_once: bool = False) -> None:
        self.require_type = require_type
        self.rewrite_once = rewrite_once

    def callback(self, pre: Expr, post: Expr, node_map: Mapping[DFPattern, Sequence[Expr]]) -> Expr:
        """Returns the replacement of a match.

        `pre` is the match before its operands were rewritten, `post` after that. `node_map` maps each pattern to its rewritten match.
        """
        raise NotImplementedError(f"{type(self).__name__} must override callback")

    def rewrite(self, expr: Expr) -> Expr:
        """Replaces all matches repeatedly until nothing changes."""
        return rewrite(self, expr)


def rewrite(callbacks: DFPatternCallback | Iterable[DFPatternCallback], expr: Expr, mod: IRModule | None = None) -> Expr:
    """Applies all callbacks in turn until none changes anything.

    `mod` holds the functions that the expression calls by name. Raises RuntimeError after 100 rounds, or where callbacks make ever more
    matches.
    """
    todo = [callbacks] if isinstance(callbacks, DFPatternCallback) else list(callbacks)
    for callback in todo:
        if not isinstance(callback.pattern, DFPattern):
            raise ValueError(f"{type(callback).__name__} has no pattern; set self.pattern in __init__")
    most: dict[int, int] = {}
    for number in range(_ROUNDS):
        before = expr
        for callback in list(todo):
            last = expr
            if callback.require_type and mod is not None:
                infer_module(mod)
            if callback.require_type:
                infer_type(expr)
            found = groups(callback.pattern, expr) if callback.pattern is not None else {}
            if len(found) > most.setdefault(id(callback), 10_000 + _GROWTH * len(found)):
                name = type(callback).__name__
                raise RuntimeError(
                    f"rewriting does not end: {name} has {counted(len(found), 'match')} after {counted(number, 'round')}, "
                    "since its callback makes what its pattern matches; with rewrite_once=True it runs once"
                )
            expr = _round(callback, found, expr)
            if callback.rewrite_once and not _same(last, expr):
                todo.remove(callback)
        if _same(before, expr):
            return expr
    raise RuntimeError(f"rewriting did not reach a fixpoint in {_ROUNDS} rounds; check whether callbacks undo each other")


def _same(a: Expr, b: Expr) -> bool:
    return a is b or structural_equal(a, b, map_free_vars=True)


def _round(callback: DFPatternCallback, found: Mapping[int, Group], expr: Expr) -> Expr:
    if not found:
        return expr

    done: dict[int, Expr] = {}

    def replaced(node: Expr, made: Expr) -> Expr:
        done[id(node)] = made
        group = found.get(id(node))
        if group is not None:
            parts = {pattern: [done[id(part)] for part in nodes] for pattern, nodes in group.found.items()}
            done[id(node)] = callback.callback(node, made, parts)
        return done[id(node)]

    return rebuild(expr, replaced)


def partition(
    pattern: DFPattern, expr: Expr, attrs: Mapping[str, AnyValue] | None = None, check: Callable[[Expr], bool] = lambda match: True
) -> Expr:
    """Replaces each match that `check` accepts by a call of a new function.

    The functions have the attributes `attrs`, and `PartitionedFromPattern`, which lists their operators.
    """
    found = groups(pattern, expr)
    return outlined({key: group for key, group in found.items() if check(group.root)}, expr, attrs)


def outlined(found: Mapping[int, Group], expr: Expr, attrs: Mapping[str, AnyValue] | None = None) -> Expr:
    """Replaces matches, by id of their roots, by calls of new functions, which have the attributes `attrs`."""
    if not found:
        return expr
    numbers = {key: number for number, key in enumerate(found)}

    done: dict[int, Expr] = {}

    def replaced(node: Expr, made: Expr) -> Expr:
        group = found.get(id(node))
        if group is not None:
            named = _extracted(group, numbers[id(node)]).with_attr({PARTITIONED: group.name, **(attrs or {})})
            made = Call(named, [done[id(part)] for part in group.inputs], span=node.span)
        done[id(node)] = made
        return made

    return rebuild(expr, replaced)


def _extracted(group: Group, number: int) -> Function:
    """A function of the inputs that computes the root, with typed parameters if the program has types."""
    typed = group.root._checked_type is not None
    params = [Var(f"FunctionVar_{number}_{i}", part._checked_type if typed else None) for i, part in enumerate(group.inputs)]
    made: dict[int, Expr] = {id(part): param for part, param in zip(group.inputs, params, strict=True)}
    for node in group.inner:
        made[id(node)] = with_children(node, [made[id(part)] for part in children(node)])
    return Function(params, made[id(group.root)])

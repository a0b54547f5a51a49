"""The pass MergeComposite: outlines subgraphs that match a table of patterns as functions.

Matches patterns of the rule language on expressions directly, without an e-graph. A table lists the fused operators of a library or device.
A walk, not rules: matches claim their calls in order, and only the root of a match may have other readers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any as AnyValue
from typing import NamedTuple, TypeAlias

from passat.ir.dataflow.groups import Group
from passat.ir.dataflow.matcher import is_same
from passat.ir.dataflow.pattern import DFPattern
from passat.ir.dataflow.rewriting import outlined, partition
from passat.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem
from passat.ir.infer import infer_module, infer_type, is_inferred
from passat.ir.known import known_value
from passat.ir.module import IRModule
from passat.ir.sealed import is_sealed, nodes_in
from passat.ir.traverse import children, post_order
from passat.passmgr import FunctionPass, PassContext, PassInfo, register_pass
from passat.rules.guards import Guard, Reject, Term
from passat.rules.pattern import Computed, Pattern, PCall, PConst, PGet, PLiteral, PTuple, PVar, RuleError
from passat.rules.substitution import Substitution, bind_attrs
from passat.rules.subterms import Key, attr_holes, distinct_terms, tensor_holes, ways


class Match(Substitution):
    """A match of a pattern: the expressions of its terms (`exprs`, by key), and the attributes that it binds.

    `inner` are the nodes matched by calls of the pattern, including the root; `leaves` the patterns of its holes and numbers, from left to
    right.
    """

    __slots__ = ("exprs", "inner", "leaves", "root")

    def __init__(self, root: Expr, pattern: Pattern, exprs: Mapping[Key, Expr], attrs: dict[str, AnyValue]) -> None:
        super().__init__()
        self.root = root
        self.exprs = exprs
        self.attrs = attrs
        terms = distinct_terms(pattern)
        self.leaves = [term for term in terms if isinstance(term, (PVar, PConst, PLiteral))]
        self.inner = {id(exprs[term.key]) for term in terms if not isinstance(term, (PVar, PConst, PLiteral))}

    def rejection(self, guards: Sequence[Guard]) -> str:
        """The rejection of the first guard that does not hold; '' if all hold."""
        for guard in guards:
            try:
                answer = self.ask(guard)
            except Reject as reject:
                return f"{guard!r}: {reject.reason}"
            if reason := guard.rejection(answer, "of a composite function"):
                return f"{guard!r}: {reason}"
        return ""

    def group(self) -> Group:
        """The match as a function is made of it: matches of constants belong to it, those of other holes are its inputs."""
        constants = {id(self.exprs[leaf.key]) for leaf in self.leaves if not isinstance(leaf, PVar)}
        leaves = {id(node): node for leaf in self.leaves if isinstance(leaf, PVar) for node in [self.exprs[leaf.key]]}
        inputs = {key: node for key, node in leaves.items() if key not in self.inner and key not in constants}
        inner = [node for node in post_order(self.root, into=lambda node: id(node) in self.inner) if id(node) not in inputs]
        return Group(self.root, {}, list(inputs.values()), inner)

    def bound(self, pattern: Pattern) -> Term | None:
        """The term bound to a part of the pattern; None for any other pattern."""
        expr = self.exprs.get(pattern.key)
        return None if expr is None else Term(expr.checked_type, expr.data if isinstance(expr, Constant) else None, known_value(expr))


def matches(pattern: Pattern, root: Expr) -> Iterator[Match]:
    """All matches of a pattern at an expression: operands of commutative operators in both orders, the written one first.

    A hole that occurs twice matches one node, or equal constants. Matching does not look through lets.
    """
    return (Match(root, pattern, bound, attrs) for bound, attrs in ways(pattern, root, _parts, is_same))


def check_pattern(pattern: object, guards: Sequence[Guard]) -> Pattern:
    """The pattern, checked together with guards on its bindings. Raises RuleError for an invalid pattern, TypeError for anything else."""
    if not isinstance(pattern, Pattern):
        raise TypeError(f"a pattern is a term of the rule language (passat.rules.pattern), not {pattern!r}")
    if not isinstance(pattern, (PCall, PTuple, PGet)):
        raise RuleError(f"the pattern {pattern!r} must apply an operator; a bare hole would match everything")
    for term in distinct_terms(pattern):
        if isinstance(term, PCall) and any(isinstance(value, Computed) for value in term.attrs.values()):
            raise RuleError(f"{term!r}: the pattern computes a value; bind it to a hole and add a guard")
    for guard in guards:
        if not isinstance(guard, Guard):
            raise TypeError(f"{guard!r} is not a guard (passat.rules.guards)")
        unbound = (tensor_holes(guard.args) - tensor_holes(pattern)) | (attr_holes(guard.args) - attr_holes(pattern))
        if unbound:
            raise RuleError(f"the guard {guard!r} uses {sorted(unbound)[0]!r}, which the pattern does not bind")
    return pattern


def _parts(term: Pattern, expr: Expr, attrs: dict[str, AnyValue]) -> Sequence[Expr] | None:
    """The operands of an expression that match those of a term; None if it does not match. Binds attributes."""
    if isinstance(term, PVar):
        return ()
    if isinstance(term, (PConst, PLiteral)):
        if not isinstance(expr, Constant):
            return None
        return () if isinstance(term, PConst) or expr.data.uniform() == term.value else None
    if isinstance(term, PCall) and isinstance(expr, Call) and expr.op is term.op and len(expr.args) == len(term.args):
        return expr.args if bind_attrs(term, expr.attrs, attrs) else None
    if isinstance(term, PTuple) and isinstance(expr, Tuple) and len(expr.fields) == len(term.fields):
        return expr.fields
    if isinstance(term, PGet) and isinstance(expr, TupleGetItem) and expr.index == term.index:
        return (expr.tuple_value,)
    return None


Check: TypeAlias = Callable[[Expr], bool]
"""Decides whether a match is used, given the matched expression."""
PatternTable: TypeAlias = Sequence[tuple[AnyValue, ...]]
"""Tuples of a name, a pattern and optionally a check: a guard, several, or a function of the matched expression."""


class TableEntry(NamedTuple):
    """A parsed row of a table."""

    name: str
    pattern: Pattern | DFPattern
    guards: tuple[Guard, ...]
    check: Check | None


_TABLES: dict[str, PatternTable | Callable[[], PatternTable]] = {}


def register_pattern_table(name: str, table: PatternTable | Callable[[], PatternTable] | None = None) -> AnyValue:
    """Registers a table, or a function that makes it, under a name; without a table, returns a decorator for such a function. Replaces an
    existing table, as in TVM.

    >>> from passat.rules.pattern import op, tensors
    >>> @register_pattern_table("example")
    ... def table():
    ...     x, w, b = tensors("x w b")
    ...     return [("example.dense", op.nn.bias_add(op.nn.dense(x, w), b))]
    >>> get_pattern_table("example")
    [('example.dense', nn.bias_add(nn.dense(x, w), b))]
    """
    if table is None:

        def register(made: Callable[[], PatternTable]) -> Callable[[], PatternTable]:
            _TABLES[name] = made
            return made

        return register
    _TABLES[name] = table
    return table


def get_pattern_table(name: str) -> PatternTable:
    """The table of that name. Raises RuleError with the existing names."""
    found = _TABLES.get(name)
    if found is None:
        raise RuleError(f"unknown pattern table {name!r}; registered: {', '.join(sorted(_TABLES)) or 'none'}")
    return found() if callable(found) else found


def read_table(table: PatternTable | str) -> tuple[TableEntry, ...]:
    """The rows of a table, or of the table of that name. Raises RuleError for an unknown name and for invalid patterns, TypeError for
    anything but a table."""
    if isinstance(table, str):
        table = get_pattern_table(table)
    return tuple(map(_read, table))


def _read(row: object) -> TableEntry:
    if not isinstance(row, (tuple, list)) or not 2 <= len(row) <= 3 or not isinstance(row[0], str):
        raise TypeError(f"a row of a pattern table is (name, pattern) or (name, pattern, check), not {row!r}")
    name, pattern, check = (*row, ()) if len(row) == 2 else row
    if isinstance(check, Guard):
        check = (check,)
    guards = () if callable(check) else tuple(check)
    if isinstance(pattern, DFPattern):
        if guards:
            raise TypeError(f"the check of a dataflow pattern is a function of the expression that it matched, not {check!r}")
        return TableEntry(name, pattern, (), check if callable(check) else None)
    return TableEntry(name, check_pattern(pattern, guards), guards, check if callable(check) else None)


@register_pass("relay._transform.MergeComposite")
@dataclass(frozen=True)
class MergeComposite(FunctionPass):
    """Replaces subgraphs that match the patterns of a table by calls of functions with the attribute `Composite`.

    The table is a list of `(name, pattern)` or `(name, pattern, check)`, or the name of a registered one
    (`passat.rules.passes.merge_composite`). Patterns are terms of the rule language. List larger ones first: earlier patterns claim their
    matches first, starting at the results of the program. Only the root of a match may be used outside of it. Matches of `constant` holes
    and numbers become part of the function, matches of `tensors` holes become arguments. `PartitionedFromPattern` names the operators.
    Other passes skip such functions (`passat.ir.sealed`).
    """

    pattern_table: str | PatternTable = ()

    info = PassInfo(
        0, "MergeComposite", provides=("types",), preserves=("types",), counters={"merged:*": "functions made by a pattern of the table"}
    )

    def __post_init__(self) -> None:
        read_table(self.pattern_table)  # its errors say what a row is
        super().__post_init__()

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Merges the matches of one function."""
        if not is_inferred(mod):
            infer_module(mod)
        for entry in read_table(self.pattern_table):
            infer_type(func)
            if isinstance(entry.pattern, DFPattern):
                func, count = _partitioned(func, entry.name, entry.pattern, entry.check)
            else:
                merger = _Merger(func, entry, entry.pattern, lambda text: ctx.remark(self.info.name, text))
                func, count = merger.run(), merger.count
            if count:
                ctx.record(self.info.name, f"merged:{entry.name}", count)
        return func


def _partitioned(function: Function, name: str, pattern: DFPattern, check: Check | None) -> tuple[Function, int]:
    """Replaces the matches of a dataflow pattern by calls. Returns the function and the number of calls."""
    taken = []

    def wanted(match: Expr) -> bool:
        taken.append(check is None or bool(check(match)))
        return taken[-1]

    made = partition(pattern, function, {"Composite": name}, wanted)
    assert isinstance(made, Function)
    infer_type(made)
    return made, sum(taken)


class _Merger:
    """Merges the matches of one pattern in one function. `count` is the number of outlined functions."""

    def __init__(self, function: Function, entry: TableEntry, pattern: Pattern, remark: Callable[[str], None]) -> None:
        self._function = function
        self._entry = entry
        self._pattern = pattern
        self._remark = remark
        self._order = nodes_in(function)
        self._readers: dict[int, list[Expr]] = {}
        self._taken: set[int] = set()
        self.count = 0

    def run(self) -> Function:
        """The function with calls in place of matches; itself if there are none."""
        found = {id(match.root): match.group() for match in self._matches()}
        self.count = len(found)
        result = infer_type(outlined(found, self._function, {"Composite": self._entry.name}))
        assert isinstance(result, Function)
        return result

    def _matches(self) -> Iterator[Match]:
        """The matches to merge; starts at the results."""
        for node in self._order:
            if not is_sealed(node) or node is self._function:
                for part in children(node):
                    self._readers.setdefault(id(part), []).append(node)
        for node in reversed(self._order):
            if id(node) in self._taken:
                continue
            for match in matches(self._pattern, node):
                if self._is_free(match) and self._is_wanted(match):
                    self._taken |= match.inner
                    yield match
                    break

    def _is_free(self, match: Match) -> bool:
        """True if no node of a match is claimed, and only the root is used outside."""
        inner = match.inner
        if not self._taken.isdisjoint(inner):
            return False
        return all(id(reader) in inner for node in inner if node != id(match.root) for reader in self._readers[node])

    def _is_wanted(self, match: Match) -> bool:
        rejection = match.rejection(self._entry.guards)
        if rejection:
            self._remark(f"{self._entry.name}: {rejection}")
            return False
        return self._entry.check is None or bool(self._entry.check(match.root))

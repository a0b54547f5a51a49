"""The pass MergeComposite: subgraphs that a table of patterns names become functions of their own, which the program calls."""

from collections.abc import Callable
from dataclasses import dataclass

from passat.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.sealed import is_sealed
from passat.ir.traverse import children, post_order, with_children
from passat.passmgr import FunctionPass, PassContext, PassInfo, register_pass
from passat.rules.fusion.pattern_tables import PatternTable, TableEntry, read_table
from passat.rules.fusion.subgraphs import Match, matches
from passat.rules.pattern import PVar


@register_pass("relay._transform.MergeComposite")
@dataclass(frozen=True)
class MergeComposite(FunctionPass):
    """Puts calls of functions with the attribute `Composite` in the place of what the patterns of a table match.

    The table is a list of `(name, pattern)` or `(name, pattern, check)`, or the name of one that is registered
    (`passat.rules.fusion.pattern_tables`). Patterns are terms of the rule language; put larger ones first: those that come first take what
    they find, from the results of the program on, and what one has taken no other gets. Nothing but the root of a match may be used
    outside of it. What a `constant` hole or a number matches goes into the function, what a `tensors` hole matches becomes an argument.
    `PartitionedFromPattern` names the operators in it. Other passes leave such functions as they are (`passat.ir.sealed`).
    """

    pattern_table: str | PatternTable = ()

    info = PassInfo(
        0, "MergeComposite", provides=("types",), preserves=("types",), counters={"merged:*": "functions made by a pattern of the table"}
    )

    def __post_init__(self) -> None:
        read_table(self.pattern_table)

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Merges in one function."""
        for entry in read_table(self.pattern_table):
            infer_type(func)
            merger = _Merger(func, entry, lambda text: ctx.remark(self.info.name, text))
            func = merger.run()
            if merger.count:
                ctx.record(self.info.name, f"merged:{entry.name}", merger.count)
        return func


class _Merger:
    """Finds one pattern in one function. `count` is how many functions that made."""

    def __init__(self, function: Function, entry: TableEntry, remark: Callable[[str], None]) -> None:
        self._function = function
        self._entry = entry
        self._remark = remark
        self._order = post_order(function, into=lambda node: node is function or not is_sealed(node))
        self._readers: dict[int, list[Expr]] = {}
        self._taken: set[int] = set()
        self.count = 0

    def run(self) -> Function:
        """The function with calls in the place of matches; itself where there are none."""
        found = self._matches()
        if not found:
            return self._function
        done: dict[int, Expr] = {}
        for node in self._order:
            match = found.get(id(node))
            if match is not None:
                done[id(node)] = self._call(match, done)
            elif node is not self._function and is_sealed(node):
                done[id(node)] = node
            else:
                made = with_children(node, [done[id(part)] for part in children(node)])
                if not isinstance(made, Function) and made._checked_type is None:
                    made.assume_type(node._checked_type)
                done[id(node)] = made
        result = done[id(self._function)]
        assert isinstance(result, Function)
        infer_type(result)
        return result

    def _matches(self) -> dict[int, Match]:
        """What is to be merged, by the identity of the roots; from the results on."""
        for node in self._order:
            if not is_sealed(node) or node is self._function:
                for part in children(node):
                    self._readers.setdefault(id(part), []).append(node)
        found: dict[int, Match] = {}
        for node in reversed(self._order):
            if id(node) in self._taken:
                continue
            for match in matches(self._entry.pattern, node):
                if self._is_free(match) and self._is_wanted(match):
                    self._taken |= match.inner
                    found[id(node)] = match
                    break
        return found

    def _is_free(self, match: Match) -> bool:
        """Whether nobody has taken a node of a match, and nothing but the root is used outside of it."""
        inner = match.inner
        if not self._taken.isdisjoint(inner):
            return False
        return all(id(reader) in inner for node in inner if node != id(match.root) for reader in self._readers[node])

    def _is_wanted(self, match: Match) -> bool:
        refusal = match.refusal(self._entry.conditions)
        if refusal:
            self._remark(f"{self._entry.name}: {refusal}")
            return False
        return self._entry.check is None or bool(self._entry.check(match.root))

    def _call(self, match: Match, done: dict[int, Expr]) -> Expr:
        """The call of the function that a match becomes."""
        constants = {id(match.bound[leaf.key]) for leaf in match.leaves if not isinstance(leaf, PVar)}
        inputs = {id(node): node for leaf in match.leaves if isinstance(leaf, PVar) for node in [match.bound[leaf.key]]}
        inputs = {key: node for key, node in inputs.items() if key not in match.inner and key not in constants}
        made: dict[int, Expr] = {
            key: Var(f"FunctionVar_{self.count}_{i}", node.checked_type) for i, (key, node) in enumerate(inputs.items())
        }
        params = [param for param in made.values() if isinstance(param, Var)]
        names: list[str] = []
        for node in post_order(match.root, into=lambda node: id(node) in match.inner):
            if id(node) in match.inner:
                copy = with_children(node, [made.get(id(part), part) for part in children(node)])
                made[id(node)] = copy.assume_type(node._checked_type)
                names.append(_name(node))
            elif isinstance(node, Constant):
                made.setdefault(id(node), node)
        self.count += 1
        attrs = {"PartitionedFromPattern": "".join(names), "Composite": self._entry.name}
        function = Function(params, made[id(match.root)], match.root.checked_type, (), attrs)
        return infer_type(Call(function, [done[key] for key in inputs], span=match.root.span))


def _name(node: Expr) -> str:
    """What a node is called in `PartitionedFromPattern`."""
    if isinstance(node, Call) and isinstance(node.op, Op):
        return f"{node.op.name}_"
    return f"TupleGetItem{node.index}_" if isinstance(node, TupleGetItem) else "Tuple_" if isinstance(node, Tuple) else ""

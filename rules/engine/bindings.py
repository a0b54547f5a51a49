"""What a match of a rule binds: the e-classes of holes and named terms, as terms that guards and computed attributes read."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any as AnyValue

from passat.ir.evaluate import Value
from passat.ir.infer import InferError
from passat.ir.op import KnownValue, OpTypeError
from passat.ir.tensor import Tensor
from passat.ir.types import Type, TypeQueryError
from passat.rules.analysis import Analysis, Fact
from passat.rules.engine.graph import Graph, NewNode
from passat.rules.guards import Guard, Reject, Term
from passat.rules.pattern import Computed, Pattern, PCall, RuleError
from passat.rules.rule import EAGER
from passat.rules.substitution import CallTerm, Substitution, rejection_by

if TYPE_CHECKING:
    from passat.rules.engine.matching import Matcher


class Bindings(Substitution):
    """The bindings of a match, given by a row of e-classes."""

    __slots__ = ("graph", "matcher", "new", "row")

    def __init__(self, matcher: "Matcher", graph: Graph, row: Sequence[int], new: NewNode | None = None) -> None:
        super().__init__()
        self.matcher = matcher
        self.graph = graph
        self.row = row
        self.new = new

    @property
    def root_type(self) -> Type:
        """The type of the left side."""
        return self.new.type_ if self.new is not None else self.graph.types[self.graph.find(self.row[0])]

    def place(self, pattern: Pattern) -> int:
        """The e-class bound to a hole, canonical."""
        return self.graph.find(self.node(pattern))

    def node(self, pattern: Pattern) -> int:
        """The e-class bound to a hole or named term."""
        return self.row[self.matcher.slot(pattern)]

    def ask(self, call: Guard | Computed, *, decides: bool = False) -> AnyValue:
        """The result of the function of a guard or computed attribute. Raises RuleError if it fails."""
        graph, row = self.graph, self.row
        columns = self.matcher.columns(call)
        values = [LazyTerm(graph, graph.find(row[column])) if column >= 0 else self.value(arg) for column, arg in columns]
        try:
            return graph.ask(call.function, values, decides=decides)
        except (Reject, TypeQueryError) as error:
            raise rejection_by(call, error) from None
        except (OpTypeError, InferError, RuleError, MemoryError):
            raise
        except Exception as error:
            raise RuleError(f"{self.where}{call!r} raises {type(error).__name__}: {error}") from error

    @property
    def where(self) -> str:
        """The rule, at the beginning of errors."""
        return f"the rule {self.matcher.rule.name} ({self.matcher.rule.source}): "

    def bound(self, pattern: Pattern) -> Term | None:
        """The term bound to a part of the left side that has a column; None for any other pattern."""
        graph = self.graph
        if self.matcher.rule.kind == EAGER and pattern.key == self.matcher.rule.lhs.key:
            return self._root(pattern)
        slot = self.matcher.slot(pattern)
        if slot < 0:
            return None
        return LazyTerm(graph, graph.find(self.row[slot]))

    def _root(self, pattern: Pattern) -> Term:
        """The left side of an eager rule, whose node may not exist yet."""
        graph, new = self.graph, self.new
        if new is None:
            cls = graph.find(self.row[0])
            new = NewNode(graph.symbols[cls], graph.payloads[cls], graph.operands[cls], graph.types[cls], graph.known_of(cls))
        op = new.head.op
        if not isinstance(pattern, PCall) or op is None:
            return Term(new.type_, None, new.known)
        values = [graph.constant_of(operand) for operand in new.operands]
        attrs = graph.attrs[new.payload]

        def evaluate() -> Value:
            return graph.evaluate(op, [value for value in values if value is not None], attrs, new.type_)

        return CallTerm(
            op, values, attrs, new.type_, new.known, graph.environment, evaluate, lambda analysis: graph.fact_of_new(analysis, new)
        )


class LazyTerm(Term):
    """A term of a match that looks up known elements and facts lazily."""

    __slots__ = ("_cls", "_graph")

    def __init__(self, graph: Graph, cls: int) -> None:
        constant = graph.constants.get(cls)
        super().__init__(graph.types[cls], constant if isinstance(constant, Tensor) else None)
        self._graph = graph
        self._cls = cls

    @property
    def known_value(self) -> KnownValue | None:
        """The known elements."""
        return self._graph.known_of(self._cls)

    def fact(self, analysis: Analysis[Fact]) -> Fact | None:
        """The fact that an analysis has for the tensor."""
        found: Fact | None = self._graph.fact(analysis, self._cls)
        return found

    @property
    def cls(self) -> int:
        """The e-class."""
        return self._graph.find(self._cls)

    def of_class(self, cls: int) -> Term:
        """The term of another e-class."""
        return LazyTerm(self._graph, self._graph.find(cls))

    def calls(self, name: str) -> list[tuple[Term, ...]]:
        """The operands of the calls of an operator in the e-class, oldest first."""
        nodes = self._graph.e_nodes(self.cls)
        return [tuple(map(self.of_class, node.operands)) for node in nodes if node.op is not None and node.op.name == name]

"""What guards of eager rules see of a call that is about to be added, and of the settings under which rules run."""

from collections.abc import Callable, Sequence
from typing import Any as AnyValue
from typing import NamedTuple

from passat.ir.attrs import Attrs
from passat.ir.evaluate import Value
from passat.ir.onnx_mapping import DEFAULT_OPSET
from passat.ir.op import KnownValue, Op
from passat.ir.types import Type
from passat.rules.analysis import Analysis, Fact
from passat.rules.conditions import Term


class Environment(NamedTuple):
    """What guards may ask for beside the match: most bytes that one folded constant may add to the file (`rules.max_growth`), the opset of
    the model, and the one that it is written in, if any."""

    max_growth: int = 1 << 20
    opset: int = DEFAULT_OPSET
    written: int | None = None


class CallTerm(Term):
    """The left side of an eager rule, as its guards see it: the operator, the attributes, and the values of the operands (None for those
    that are no constants), beside the type and what is known of the elements. `evaluate` computes the value; it raises EvaluateError."""

    __slots__ = ("_fact", "attrs", "environment", "evaluate", "op", "values")

    def __init__(
        self,
        op: Op,
        values: Sequence[Value | None],
        attrs: Attrs,
        type_: Type,
        known: KnownValue | None,
        environment: Environment,
        evaluate: Callable[[], Value],
        fact: Callable[[Analysis[AnyValue]], AnyValue],
    ) -> None:
        super().__init__(type_, known=known)
        self.op = op
        self.values = values
        self.attrs = attrs
        self.environment = environment
        self.evaluate = evaluate
        self._fact = fact

    def fact(self, analysis: Analysis[Fact]) -> Fact | None:
        """What an analysis knows of the result."""
        found: Fact | None = self._fact(analysis)
        return found

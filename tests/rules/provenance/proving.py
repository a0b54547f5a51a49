"""Shared by the tests of provenance: a recorded run of passes, its traces, its certificate, and the check of the certificate."""

import json
from collections.abc import Sequence
from typing import Any as AnyValue
from typing import NamedTuple

from passat.ir.expr import Call, Expr, Function, Span
from passat.ir.module import IRModule
from passat.ir.tensor import Tensor
from passat.ir.traverse import post_order
from passat.passmgr import Pass, PassContext, Sequential
from passat.rules.engine.trace import Trace
from passat.rules.provenance.checker import Checker
from passat.rules.provenance.node_traces import NodeTrace, NodeTraces
from passat.rules.provenance.pass_trace import PassTrace
from passat.rules.provenance.verdict import Verdict
from passat.rules.provenance.writer import Writer, rules_by_name
from passat.rules.rule_set import RuleSetMeta


class Written(NamedTuple):
    """A run: the module before and after, and everything made from its trace."""

    before: IRModule
    after: IRModule
    certificate: dict[str, AnyValue]
    constants: dict[str, Tensor]
    node_traces: NodeTraces

    @property
    def main(self) -> Function:
        function = self.after["main"]
        assert isinstance(function, Function)
        return function

    def calls(self) -> list[Call]:
        """The calls of operators in the result."""
        return [node for node in post_order(self.main) if isinstance(node, Call)]

    def node_trace(self, operator: str) -> NodeTrace:
        """The trace of the only call of an operator."""
        (call,) = [call for call in self.calls() if getattr(call.op, "name", "") == operator]
        return self.node_traces.of(call)

    def steps(self, operator: str) -> list[str]:
        """The steps to the only call of an operator."""
        return [str(step) for step in self.node_trace(operator).events]

    def check(self, *sets: RuleSetMeta) -> Verdict:
        return check(self.certificate, self.constants, sets)

    def part(self, pass_name: str) -> dict[str, AnyValue]:
        """The only part of the certificate for a pass."""
        (found,) = [part for part in self.certificate["steps"] if part["pass"] == pass_name]
        assert isinstance(found, dict)
        return found


def named(expr: Expr, name: str) -> Expr:
    """The expression as if it had been read from a node of that name."""
    expr.span = Span(name, outputs=(f"{name}:0",))
    return expr


def written(function: Function, passes: Sequence[Pass], **config: AnyValue) -> Written:
    """Runs passes over a function, each in its own e-graph unless `config` says otherwise, and records them."""
    trace = Trace()
    pass_trace = PassTrace(trace)
    before = IRModule.from_expr(function)
    with PassContext(3, config={"rules.cost": "nodes", "rules.trace": trace, "rules.joint": False, **config}, instruments=[pass_trace]):
        after = Sequential(passes)(before)
    writer = Writer()
    certificate = writer.write(before, pass_trace.events, trace.runs, after)
    node_traces = NodeTraces(trace.runs, pass_trace.events)
    return Written(before, after, json.loads(json.dumps(certificate)), writer.terms.constants, node_traces)


def check(certificate: AnyValue, constants: dict[str, Tensor], sets: Sequence[RuleSetMeta] = ()) -> Verdict:
    """Checks a certificate with the rules of the library and of additional sets."""
    return Checker(certificate, rules_by_name(sets), constants).run()


__all__ = ["Written", "check", "named", "written"]

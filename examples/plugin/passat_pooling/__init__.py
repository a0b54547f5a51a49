"""Passes of a plug-in. The entry point in `pyproject.toml` names this module; importing it registers them."""

from collections import Counter

from passat.ir.expr import Call
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.traverse import post_order
from passat.passmgr import PassContext, module_pass, register_pass
from passat.rules import rule_pass
from passat_pooling.rules import Pooling

# A pass with a place runs in every default pipeline. `register_pass` takes the pass itself, or a function that creates it from options.
register_pass("PoolFirst", rule_pass(Pooling, name="PoolFirst", opt_level=2, after=["FoldBatchNorm"], before=["DeadCodeElimination"]))


@register_pass("CountOperators")
@module_pass(opt_level=0, name="CountOperators")
def count_operators(mod: IRModule, ctx: PassContext) -> IRModule:
    """Records how often each operator occurs, and does not change the module."""
    for function in mod.functions.values():
        calls = [node.op.name for node in post_order(function) if isinstance(node, Call) and isinstance(node.op, Op)]
        for name, count in Counter(calls).items():
            ctx.record("CountOperators", name, count)
    return mod

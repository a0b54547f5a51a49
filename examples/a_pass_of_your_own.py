"""A user-defined pass among Passat's: registered by name, ordered by its requirements, timed by an instrument."""

from collections import Counter
from pathlib import Path

import passat.rules.passes  # noqa: F401  # makes Passat's own passes known by name
from passat.ir.expr import Call
from passat.ir.module import IRModule
from passat.ir.onnx import from_onnx
from passat.ir.op import Op
from passat.ir.traverse import post_order
from passat.passmgr import PassContext, PassTimingInstrument, module_pass, parse_pipeline, register_pass

MODEL = Path(__file__).parent / "models" / "resnet_tiny.onnx"


@register_pass("CountOperators")
@module_pass(opt_level=0, name="CountOperators", required=["FoldBatchNorm"])
def count_operators(mod: IRModule, ctx: PassContext) -> IRModule:
    """Records how often each operator occurs, and does not change the module."""
    for function in mod.functions.values():
        calls = [node.op.name for node in post_order(function) if isinstance(node, Call) and isinstance(node.op, Op)]
        for name, count in Counter(calls).items():
            ctx.record("CountOperators", name, count)
    return mod


def main() -> None:
    pipeline = parse_pipeline("CountOperators,SimplifyExpr")
    with PassContext(opt_level=2, instruments=[timing := PassTimingInstrument()]) as context:
        print(pipeline.plan().to_text())
        pipeline(from_onnx(MODEL))
    for run in timing.timings:
        print(f"{'  ' * run.depth}{run.name}: {run.seconds * 1e3:.1f} ms")

    counts = context.statistics.counters["CountOperators"]
    print(counts)
    assert counts["nn.conv2d"] > 10
    assert "nn.batch_norm" not in counts  # FoldBatchNorm has run before


if __name__ == "__main__":
    main()

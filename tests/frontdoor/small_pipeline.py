"""A fixed pipeline, for tests that must not depend on changes of the default one."""

from typing import Final

from passat.passmgr import PassContext
from passat.pipelines import build_pipeline

SMALL: Final = "SimplifyInference,DynamicToStatic,FoldBatchNorm,SimplifyExpr,EliminateCommonSubexpr,DeadCodeElimination"


def passes_that_run(opt_level: int = 3) -> int:
    """The number of passes of the default pipeline that run at a level, including required ones; pipelines do not count."""
    plan = build_pipeline().plan(PassContext(opt_level))
    return sum(step.runs and step.pass_.members is None for step in plan.walk())

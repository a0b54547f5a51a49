"""Adjacent passes of a plan that run as one, where they can and the context asks for it.

A pass that can be joined with others names the config option that asks for it (`Pass.joint_option`) and does the work of several
(`Pass.run_jointly`). Instruments see every pass begin and end, in order, and may veto any of them; what the passes do together happens
in the last one that runs.
"""

from collections.abc import Sequence
from functools import partial

from passat.ir.module import IRModule
from passat.passmgr.context import PassContext
from passat.passmgr.passes import Pass


def joint_runs(passes: Sequence[Pass]) -> list[tuple[int, int]]:
    """Where passes that can be joined stand side by side, two or more of one option: as (first, one after the last)."""
    runs = []
    start = 0
    for at in range(1, len(passes) + 1):
        if at == len(passes) or passes[at].joint_option != passes[start].joint_option:
            if at - start > 1 and passes[start].joint_option is not None:
                runs.append((start, at))
            start = at
    return runs


def run_together(passes: Sequence[Pass], mod: IRModule, ctx: PassContext) -> IRModule:
    """Runs passes as one, each with the instruments around it. A pass may stand among them several times."""
    agreed: list[Pass] = []

    def begin(at: int, mod: IRModule, ctx: PassContext) -> IRModule:
        agreed.append(passes[at])
        return finish(mod, ctx) if at + 1 == len(passes) else mod

    def finish(mod: IRModule, ctx: PassContext) -> IRModule:
        taken = agreed.copy()
        agreed.clear()
        return taken[0].run_jointly(taken, mod, ctx) if len(taken) > 1 else taken[0].run(mod, ctx)

    for at, pass_ in enumerate(passes):
        mod = ctx.run_pass(pass_.info, partial(begin, at), mod)
    return finish(mod, ctx) if agreed else mod  # the last one was vetoed

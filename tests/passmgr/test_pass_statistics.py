"""Counters and remarks of passes."""

from passat.ir.module import IRModule
from passat.passmgr import PassContext, Statistics, module_pass
from passat.passmgr.pass_info import REMARKS_LIMIT


@module_pass(opt_level=0)
def fold(mod: IRModule, ctx: PassContext) -> IRModule:
    ctx.record("fold", "folded", 2)
    ctx.record("fold", "seconds", 0.5)
    ctx.remark("fold", "left one alone")
    return mod


def test_a_context_collects_what_its_passes_record(mod: IRModule) -> None:
    with PassContext() as outer:
        fold(mod)
        with PassContext() as inner:
            fold(mod)
        fold(mod)
    assert outer.statistics.to_dict() == {
        "counters": {"fold": {"folded": 4, "seconds": 1.0}},
        "remarks": {"fold": {"left one alone": 2}},
    }
    assert inner.statistics.counters == {"fold": {"folded": 2, "seconds": 0.5}}


def test_plain_data_is_a_copy() -> None:
    statistics = Statistics()
    statistics.record("P", "n")
    data = statistics.to_dict()
    statistics.record("P", "n")
    assert data["counters"] == {"P": {"n": 1}}


def test_different_remarks_are_limited() -> None:
    statistics = Statistics()
    for i in range(REMARKS_LIMIT + 5):
        statistics.remark("P", str(i))
    statistics.remark("P", "0")
    remarks = statistics.remarks["P"]
    assert len(remarks) == REMARKS_LIMIT + 1
    assert (remarks["0"], remarks["(further remarks)"]) == (2, 5)

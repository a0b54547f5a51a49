"""PassContext(inherit=True): missing arguments are taken from the context that is current at construction."""

import pytest

from passat.ir.diagnostics import DiagnosticContext
from passat.ir.module import IRModule
from passat.passmgr import PassContext, PassInfo, PassInstrument, module_pass


class Watch(PassInstrument):
    """Records its calls."""

    def __init__(self, name: str = "Watch") -> None:
        self.name = name
        self.seen: list[str] = []

    def enter_pass_ctx(self) -> None:
        self.seen.append("enter")

    def exit_pass_ctx(self) -> None:
        self.seen.append("exit")

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self.seen.append(info.name)


@module_pass(opt_level=0)
def nothing(mod: IRModule, ctx: PassContext) -> IRModule:
    return mod


def test_it_is_off_by_default() -> None:
    with PassContext(4, ["A"], ["B"], [Watch()], {"passmgr.resolve": "relay"}, diag_ctx=DiagnosticContext(None)):
        ctx = PassContext()
    assert (ctx.opt_level, ctx.required_pass, ctx.disabled_pass, ctx.instruments, ctx.config) == (2, [], [], (), {})
    assert ctx.diag_ctx is None


def test_all_of_it() -> None:
    watch, diagnostics = Watch(), DiagnosticContext(None)
    outer = PassContext(4, ["A"], ["B"], [watch], {"passmgr.resolve": "relay"}, diag_ctx=diagnostics)
    with outer:
        ctx = PassContext(inherit=True)
    assert (ctx.opt_level, ctx.required_pass, ctx.disabled_pass, ctx.instruments) == (4, ["A"], ["B"], (watch,))
    assert ctx.config == {"passmgr.resolve": "relay"}
    assert ctx.diag_ctx is diagnostics
    assert ctx.statistics is not outer.statistics
    outer.required_pass.append("C")
    outer.config["rules.rounds"] = 3
    assert (ctx.required_pass, list(ctx.config)) == (["A"], ["passmgr.resolve"])


def test_given_values_win() -> None:
    with PassContext(4, ["A"], ["B"], [Watch()], {"passmgr.resolve": "relay", "rules.rounds": 3}):
        ctx = PassContext(2, [], ["C"], [], {"passmgr.resolve": "graph"}, inherit=True)
    assert (ctx.opt_level, ctx.required_pass, ctx.disabled_pass, ctx.instruments) == (2, [], ["C"], ())
    assert ctx.config == {"passmgr.resolve": "graph", "rules.rounds": 3}
    assert type(ctx.opt_level) is type(PassContext().opt_level) is int


def test_it_takes_the_context_in_which_it_is_made() -> None:
    with PassContext(3):
        made = PassContext(inherit=True)
    with PassContext(1), made:
        assert PassContext.current().opt_level == 3


def test_inherited_instruments_run_but_are_entered_once() -> None:
    watch = Watch()
    with PassContext(instruments=[watch]):
        with PassContext(inherit=True) as inner:
            nothing(IRModule())
            own = Watch("own")
            inner.override_instruments([own])
            nothing(IRModule())
        nothing(IRModule())
    assert watch.seen == ["enter", "nothing", "nothing", "exit"]
    assert own.seen == ["enter", "nothing", "exit"]


@pytest.mark.parametrize("positional", [(3, ["A"], ["B"], [], {"passmgr.resolve": "relay"})])
def test_positional_arguments_are_those_of_tvm(positional: tuple[int, list[str], list[str], list[PassInstrument], dict[str, str]]) -> None:
    ctx = PassContext(*positional)
    assert (ctx.opt_level, ctx.required_pass, ctx.disabled_pass, list(ctx.instruments), ctx.config) == positional
    with pytest.raises(TypeError, match="positional"):
        PassContext(*positional, None)  # type: ignore[call-arg]  # the mistake

"""PassContext: the stack, the default context, enabled and disabled passes, reprs, invalid arguments."""

import pytest

from passat.passmgr import PassContext, PassInfo, PassInstrument


def test_defaults() -> None:
    ctx = PassContext()
    assert (ctx.opt_level, ctx.required_pass, ctx.disabled_pass, ctx.config) == (2, [], [], {})
    assert not ctx.instruments


def test_current_is_the_default_of_the_thread_and_always_the_same() -> None:
    assert PassContext.current() is PassContext.current()
    assert PassContext.current().opt_level == 2


def test_nesting_inherits_nothing() -> None:
    outside = PassContext.current()
    with PassContext(opt_level=4, disabled_pass=["P3"]) as outer:
        assert PassContext.current() is outer
        with PassContext() as inner:
            assert PassContext.current() is inner
            assert (inner.opt_level, inner.disabled_pass) == (2, [])
        assert PassContext.current() is outer
    assert PassContext.current() is outside


def test_the_same_context_may_be_entered_twice() -> None:
    ctx = PassContext()
    with ctx, ctx:
        assert PassContext.current() is ctx
    assert PassContext.current() is not ctx


def test_any_iterable_of_names() -> None:
    ctx = PassContext(required_pass=(name for name in ("A", "B")), disabled_pass={"C"})
    assert (ctx.required_pass, ctx.disabled_pass) == (["A", "B"], ["C"])


def test_leaving_swallows_no_exception() -> None:
    before = PassContext.current()
    with pytest.raises(KeyError), PassContext():
        raise KeyError("x")
    assert PassContext.current() is before


def test_leaving_out_of_order_is_an_error() -> None:
    outer, inner = PassContext(), PassContext()
    outer.__enter__()
    with inner:
        with pytest.raises(RuntimeError, match="not the innermost one entered in this thread"):
            outer.__exit__(None, None, None)
        assert PassContext.current() is inner
    assert PassContext.entered() is None  # the error still left the outer context
    with pytest.raises(RuntimeError, match="not entered in this thread"):
        PassContext.current().__exit__(None, None, None)


@pytest.mark.parametrize(
    ("opt_level", "required", "disabled", "enabled"),
    [
        (2, [], [], True),
        (1, [], [], False),
        (3, [], [], True),
        (0, ["P"], [], True),
        (3, [], ["P"], False),
        (3, ["P"], ["P"], False),
        (0, ["P"], ["P"], False),
    ],
)
def test_disabled_beats_required_beats_level(opt_level: int, required: list[str], disabled: list[str], enabled: bool) -> None:
    ctx = PassContext(opt_level=opt_level, required_pass=required, disabled_pass=disabled)
    assert ctx.pass_enabled(PassInfo(2, "P")) is enabled


def test_repr_is_that_of_tvm() -> None:
    assert repr(PassContext()) == (
        "Pass context information: \n\topt_level: 2\n\trequired passes: []\n\tdisabled passes: []\n\tinstruments: []\n\tconfig: {}"
    )


def test_repr_of_given_settings() -> None:
    class Mine(PassInstrument):
        pass

    ctx = PassContext(3, ["A", "B"], ["C"], [Mine()], {"passmgr.resolve": "relay"})
    assert repr(ctx) == (
        'Pass context information: \n\topt_level: 3\n\trequired passes: ["A", "B"]\n\tdisabled passes: ["C"]\n'
        '\tinstruments: [Mine]\n\tconfig: {"passmgr.resolve": "relay"}'
    )


def test_bad_arguments() -> None:
    with pytest.raises(TypeError, match="opt_level must be an integer, not '3'"):
        PassContext("3")  # type: ignore[arg-type]  # the mistake
    with pytest.raises(TypeError, match="disabled_pass is expected to be the type of list/tuple/set, not the single string 'FuseOps'"):
        PassContext(disabled_pass="FuseOps")
    with pytest.raises(TypeError, match="required_pass is expected to be the type of list/tuple/set, not 5"):
        PassContext(required_pass=5)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(TypeError, match="instruments must be a list of PassInstrument objects, not 5"):
        PassContext(instruments=5)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(AttributeError, match=r"config must map options to values, not \['rules.math'\]"):
        PassContext(config=["rules.math"])  # type: ignore[arg-type]  # the mistake
    with pytest.raises(TypeError, match="required_pass must contain names, not 1"):
        PassContext(required_pass=[1])  # type: ignore[list-item]  # the mistake
    with pytest.raises(
        TypeError, match=r"instruments must be a list of PassInstrument objects; .* is not one; did you mean PassInstrument\(\)"
    ):
        PassContext(instruments=[PassInstrument])  # type: ignore[list-item]  # the mistake

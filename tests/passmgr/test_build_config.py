"""build_config, the deprecated spelling of PassContext."""

import pytest

from passat.passmgr import PassContext, build_config


def test_it_makes_a_context_and_warns() -> None:
    with pytest.warns(DeprecationWarning, match="^build_config is deprecated: use PassContext") as caught:
        ctx = build_config(3, ["A"], {"B"})
    assert caught[0].filename == __file__
    assert isinstance(ctx, PassContext)
    assert (ctx.opt_level, ctx.required_pass, ctx.disabled_pass) == (3, ["A"], ["B"])
    with pytest.warns(DeprecationWarning, match="build_config"), build_config(opt_level=1) as entered:
        assert PassContext.current() is entered
    with pytest.warns(DeprecationWarning, match="build_config"):
        assert build_config().opt_level == 2


def test_it_says_at_which_level_passes_run() -> None:
    assert build_config.__doc__ is not None
    assert "FoldScaleAxis                3" in build_config.__doc__

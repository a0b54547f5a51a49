"""Passes can be pickled and copied, however they were made."""

import copy
import pickle
from typing import Any

import pytest

from passat.ir.equality import assert_structural_equal
from passat.ir.expr import Function
from passat.ir.module import IRModule
from passat.passmgr import InferType, Pass, PassContext, Sequential, function_pass, module_pass
from tests.passmgr import sharing_passes as passes


def keep(mod: IRModule, ctx: PassContext) -> IRModule:
    """Keeps."""
    return mod


@module_pass(opt_level=1, required=["InferType"])
def decorated(mod: IRModule, ctx: PassContext) -> IRModule:
    """Keeps, too."""
    return mod


@pytest.mark.parametrize(
    "pass_",
    [
        decorated,
        module_pass(keep, opt_level=3, name="Keep"),
        passes.double_even,
        passes.Scale(3.0),
        passes.Decorated(by=5.0),
        InferType(),
        Sequential([InferType(), passes.Scale()], opt_level=1, name="both"),
    ],
)
def test_they_come_back(pass_: Pass) -> None:
    mod = passes.chains(3)
    for back in (pickle.loads(pickle.dumps(pass_)), copy.copy(pass_), copy.deepcopy(pass_)):
        assert type(back) is type(pass_)
        assert repr(back) == repr(pass_)
        assert (back.info.name, back.info.opt_level, back.info.required) == (pass_.info.name, pass_.info.opt_level, pass_.info.required)
        assert back.__doc__ == pass_.__doc__
        assert_structural_equal(back(mod), pass_(mod))


def test_a_decorated_function_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    assert copy.deepcopy(decorated) is decorated


def test_options_come_back() -> None:
    made: Any = pickle.loads(pickle.dumps(passes.Decorated(by=5.0)))
    assert (made.by, made.given_options) == (5.0, {"by": 5.0})


def test_what_is_local_cannot_be_pickled() -> None:
    @function_pass(opt_level=0)
    def local(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return func

    with pytest.raises((pickle.PicklingError, AttributeError), match="local"):
        pickle.dumps(local)

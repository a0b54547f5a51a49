"""All kinds of passes can be pickled and copied."""

import copy
import pickle
from dataclasses import dataclass
from typing import Any

import pytest

from passat.ir.equality import assert_structural_equal
from passat.ir.expr import Function, NotInferredError, const, var
from passat.ir.module import IRModule
from passat.ir.passat_error import PassatError
from passat.passmgr import (
    FunctionPass,
    ImmutableModuleCheck,
    InferType,
    Pass,
    PassContext,
    PassInfo,
    PassInstrument,
    PassMemoryInstrument,
    PassTimingInstrument,
    PipelineError,
    PrintAfterAll,
    PrintIRChanged,
    Sequential,
    VerifyEach,
    function_pass,
    module_pass,
)
from passat.passmgr.debugging.bisect import CannotTellError, PassRaisedError


def keep(mod: IRModule, ctx: PassContext) -> IRModule:
    """Returns its input."""
    return mod


@module_pass(opt_level=1, required=["InferType"])
def decorated(mod: IRModule, ctx: PassContext) -> IRModule:
    """Returns its input, too."""
    return mod


@function_pass(opt_level=0)
def double(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    """Doubles the result."""
    return func.with_body(func.body + func.body)


@dataclass(frozen=True, repr=False)
class Scale(FunctionPass):
    """A pass with an option."""

    by: float = 2.0
    info = PassInfo(1, "Scale")

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return func.with_body(func.body * const(self.by))


@function_pass(opt_level=1)
class Decorated:
    """A decorated class."""

    def __init__(self, by: float = 3.0) -> None:
        self.by = by

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return func.with_body(func.body * const(self.by))


@pytest.mark.parametrize(
    "pass_",
    [
        decorated,
        module_pass(keep, opt_level=3, name="Keep"),
        double,
        Scale(3.0),
        Decorated(by=5.0),
        InferType(),
        Sequential([InferType(), Scale()], opt_level=1, name="both"),
    ],
)
def test_they_come_back(pass_: Pass) -> None:
    x = var("x", shape=(4,))
    mod = IRModule.from_expr(Function([x], x + const(1.0)))
    for back in (pickle.loads(pickle.dumps(pass_)), copy.copy(pass_), copy.deepcopy(pass_)):
        assert type(back) is type(pass_)
        assert repr(back) == repr(pass_)
        assert (back.info.name, back.info.opt_level, back.info.required) == (pass_.info.name, pass_.info.opt_level, pass_.info.required)
        assert back.__doc__ == pass_.__doc__
        assert_structural_equal(back(mod), pass_(mod))


def test_a_decorated_function_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    assert copy.deepcopy(decorated) is decorated


@pytest.mark.parametrize(
    "instrument",
    [PassTimingInstrument, PassMemoryInstrument, ImmutableModuleCheck, PrintIRChanged, VerifyEach, PrintAfterAll],
)
def test_contexts_with_instruments_come_back(instrument: type[PassInstrument]) -> None:
    """Their measurements of this process do not."""
    context = PassContext(opt_level=1, instruments=[instrument()])
    with context:
        decorated(IRModule.from_expr(const(1.0)))
    found = pickle.loads(pickle.dumps(context))
    assert [type(each) for each in found.instruments] == [instrument]
    with found:
        decorated(IRModule.from_expr(const(1.0)))


def test_options_come_back() -> None:
    made: Any = pickle.loads(pickle.dumps(Decorated(by=5.0)))
    assert (made.by, made.given_options) == (5.0, {"by": 5.0})


def test_local_passes_cannot_be_pickled() -> None:
    @function_pass(opt_level=0)
    def local(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return func

    with pytest.raises((pickle.PicklingError, AttributeError), match="local"):
        pickle.dumps(local)


@pytest.mark.parametrize(
    "error",
    [PipelineError("no pass", "FoldConst", 0), PassRaisedError("said", "found"), CannotTellError("said", "input"), NotInferredError()],
)
def test_errors_come_back(error: PassatError) -> None:
    """One that does not would end the processes of an executor."""
    error.add_note("a note")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))

"""Passes over loops keep what a function does: on random functions, its memory and the calls that it makes."""

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from passat.ir.module import IRModule
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.functor import post_order
from passat.ir.tir.stmt import For, ForKind
from passat.passmgr import Pass, PassContext
from passat.tir.transform import RemoveNoOp, UnrollLoop, VectorizeLoop
from tests.passmgr.loops.interpreter import UndefinedBehaviorError, behavior
from tests.passmgr.loops.loop_programs import arguments, functions, vector_functions
from tests.share import share

PASSES: dict[str, tuple[Pass, dict[str, Any]]] = {
    "unroll": (UnrollLoop(), {}),
    "unroll small": (UnrollLoop(), {"tir.UnrollLoop": {"auto_max_step": 12, "auto_max_extent": 1}}),
    "no-op": (RemoveNoOp(), {}),
}


def transformed(function: PrimFunc, pass_: Pass, config: dict[str, Any]) -> PrimFunc:
    with PassContext(config=config):
        made = pass_(IRModule({"main": function}))["main"]
    assert isinstance(made, PrimFunc)
    return made


@pytest.mark.parametrize("name", PASSES)
@given(function=functions(), given_arguments=arguments())
@settings(max_examples=share(20, 400))
def test_functions_do_the_same(name: str, function: PrimFunc, given_arguments: list[Any]) -> None:
    try:
        before = behavior(function, given_arguments)
    except UndefinedBehaviorError:
        assume(False)
    assert behavior(transformed(function, *PASSES[name]), given_arguments) == before


@given(function=vector_functions(), given_arguments=arguments(), vectors=st.booleans())
@settings(max_examples=share(35, 600))
def test_vectors_compute_the_same(function: PrimFunc, given_arguments: list[Any], vectors: bool) -> None:
    before = behavior(function, given_arguments)
    made = transformed(function, VectorizeLoop(vectors), {})
    assert not any(isinstance(node, For) and node.kind == ForKind.VECTORIZED for node in post_order(made.body))
    assert behavior(made, given_arguments) == before

"""`relay.build_module`: what prepares programs for running."""

from collections.abc import Mapping
from typing import Any as AnyValue

from passat.ir.bind import bind_params_by_name as bind_constants
from passat.ir.expr import Function
from passat.passmgr import build_config
from passat.runtime.executor import create_executor
from passat.runtime.values import named

__all__ = ["bind_params_by_name", "build_config", "create_executor"]


def bind_params_by_name(func: Function, params: Mapping[str, AnyValue]) -> Function:
    """The function with constants in the place of the parameters of the given names."""
    return bind_constants(func, named(params))

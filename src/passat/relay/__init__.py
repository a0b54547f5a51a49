"""Relay's API: programs, operators and passes under the names that TVM scripts use.

    from passat import relay, transform

    x = relay.var("x", shape=(1, 16))
    f = relay.Function([x], relay.nn.relu(x) * relay.const(2.0))

The functions of operators have Relay's parameters (`relay.conv2d(data, weight, strides, ...)`). docs/tvm-differences.md lists the
differences.
"""

from typing import TYPE_CHECKING

from passat.ir.equality import assert_structural_equal, structural_equal
from passat.ir.features import Feature
from passat.ir.functor import ExprFunctor, ExprMutator, ExprVisitor
from passat.ir.hashing import structural_hash
from passat.ir.module import IRModule, TypeData
from passat.ir.op import Op
from passat.ir.text import ParseError, astext, fromtext, parse, parse_expr, pretty_print
from passat.ir.type_functor import TypeFunctor, TypeMutator, TypeVisitor
from passat.relay import (
    adt,
    analysis,
    annotation,
    backend,
    build_module,
    dataflow_pattern,
    derived,
    expr,
    expr_functor,
    feature,
    function,
    image,
    ir_pass,
    nn,
    op,
    prelude,
    qnn,
    scope_builder,
    statistics,
    tensor,
    testing,
    transform,
    ty,
    type_functor,
)
from passat.relay.backend import vm
from passat.relay.build_module import build, build_config, create_executor, optimize
from passat.relay.derived import *  # noqa: F403  # relay.add and so on
from passat.relay.expr import *  # noqa: F403
from passat.relay.names import missing_name
from passat.relay.scope_builder import ScopeBuilder
from passat.relay.statistics import *  # noqa: F403
from passat.relay.tensor import *  # noqa: F403
from passat.relay.ty import *  # noqa: F403
from passat.runtime.graph import load_param_dict, save_param_dict

Module = IRModule
"""The name of a module before TVM 0.7."""

__all__ = [
    "ExprFunctor",
    "ExprMutator",
    "ExprVisitor",
    "Feature",
    "IRModule",
    "Module",
    "Op",
    "ParseError",
    "ScopeBuilder",
    "TypeData",
    "TypeFunctor",
    "TypeMutator",
    "TypeVisitor",
    "adt",
    "analysis",
    "annotation",
    "assert_structural_equal",
    "astext",
    "backend",
    "build",
    "build_config",
    "build_module",
    "create_executor",
    "dataflow_pattern",
    "expr",
    "expr_functor",
    "feature",
    "fromtext",
    "function",
    "image",
    "ir_pass",
    "load_param_dict",
    "nn",
    "op",
    "optimize",
    "parse",
    "parse_expr",
    "prelude",
    "pretty_print",
    "qnn",
    "save_param_dict",
    "scope_builder",
    "structural_equal",
    "structural_hash",
    "testing",
    "transform",
    "ty",
    "type_functor",
    "vm",
]
__all__ += derived.__all__
__all__ += expr.__all__
__all__ += statistics.__all__
__all__ += tensor.__all__
__all__ += ty.__all__


if not TYPE_CHECKING:  # hidden from type checkers, which would accept any misspelled name as an operator
    __getattr__ = missing_name("relay", __all__)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})

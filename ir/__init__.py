"""The IR: types, expressions, operators, modules, text format, traversal, analyses, constant evaluation, and ONNX import and export.

Also exports the names that TVM scripts import from `tvm.ir`; each is imported lazily.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from passat.ir.affine_type import TensorAffineType, TupleAffineType
    from passat.ir.equality import assert_structural_equal, structural_equal
    from passat.ir.expr import GlobalVar, Span
    from passat.ir.graph_json import load_json, make_node, save_json
    from passat.ir.hashing import structural_hash
    from passat.ir.module import IRModule
    from passat.ir.op import Op, register_op_attr
    from passat.ir.types import EnvFunc, FuncType, GlobalTypeVar, TensorType, TupleType, Type, TypeCall, TypeKind, TypeRelation, TypeVar

__all__ = [
    "EnvFunc",
    "FuncType",
    "GlobalTypeVar",
    "GlobalVar",
    "IRModule",
    "Op",
    "Span",
    "TensorAffineType",
    "TensorType",
    "TupleAffineType",
    "TupleType",
    "Type",
    "TypeCall",
    "TypeKind",
    "TypeRelation",
    "TypeVar",
    "assert_structural_equal",
    "load_json",
    "make_node",
    "register_op_attr",
    "save_json",
    "structural_equal",
    "structural_hash",
]

_HOMES = {
    "GlobalVar": "expr",
    "IRModule": "module",
    "Op": "op",
    "Span": "expr",
    "TensorAffineType": "affine_type",
    "TupleAffineType": "affine_type",
    "assert_structural_equal": "equality",
    "load_json": "graph_json",
    "make_node": "graph_json",
    "register_op_attr": "op",
    "save_json": "graph_json",
    "structural_equal": "equality",
    "structural_hash": "hashing",
}


if not TYPE_CHECKING:  # a type checker that sees it accepts every misspelled name

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"passat.ir has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(f"passat.ir.{_HOMES.get(name, 'types')}"), name)
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})

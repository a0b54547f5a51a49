"""`tvm.relay.backend._backend`: the memory plan of a function."""

from collections.abc import Iterator
from dataclasses import dataclass

from passat.ir.expr import Expr, Function
from passat.runtime.devices import cpu
from passat.runtime.graph import GraphRuntimeCodegen
from passat.runtime.packed_func import IntImm

__all__ = ["GraphPlanMemory"]


@dataclass(frozen=True)
class StorageInfo:
    """The storage of an expression's results: numbers, sizes in bytes, and kinds of devices."""

    storage_ids: list[IntImm]
    storage_sizes: list[int]
    device_types: list[IntImm]

    def __getitem__(self, index: int) -> list[IntImm]:
        return (self.storage_ids, self.device_types)[index]

    def __len__(self) -> int:
        return 2


@dataclass(frozen=True)
class StaticMemoryPlan:
    """The storage of all expressions of a function. Behaves as a mapping too, as before TVM 0.8."""

    expr_to_storage_info: dict[Expr, StorageInfo]

    def items(self) -> Iterator[tuple[Expr, StorageInfo]]:
        """The expressions and their storage."""
        return iter(self.expr_to_storage_info.items())

    def __getitem__(self, expr: Expr) -> StorageInfo:
        return self.expr_to_storage_info[expr]


def GraphPlanMemory(func: Function) -> StaticMemoryPlan:  # noqa: N802  # TVM's name of a function
    """Plans the storage of a function of primitive functions. Raises GraphError as the code generator does."""
    codegen = GraphRuntimeCodegen(target="numpy")
    codegen.codegen(func)
    found = {}
    for expr in codegen.var_map:
        ids = [IntImm(each) for each in codegen.storage_ids(expr)]
        found[expr] = StorageInfo(ids, [codegen.plan.sizes[each] for each in ids], [IntImm(cpu().device_type)] * len(ids))
    return StaticMemoryPlan(found)

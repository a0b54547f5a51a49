"""`relay.annotation`: operators that mark values for passes."""

from passat.ir.expr import Call, Expr
from passat.relay.building import call

__all__ = ["checkpoint", "compiler_begin", "compiler_end", "stop_fusion"]


def checkpoint(data: Expr) -> Call:
    """`data`, a tensor or a tuple, marked as a value to keep until gradients are computed."""
    return call("annotation.checkpoint", data)


def compiler_begin(data: Expr, compiler: str) -> Call:
    """`data` as an input of a region for the external compiler of that name."""
    return call("annotation.compiler_begin", data, compiler=compiler)


def compiler_end(data: Expr, compiler: str) -> Call:
    """`data` as a result of a region for the external compiler of that name."""
    return call("annotation.compiler_end", data, compiler=compiler)


def stop_fusion(data: Expr) -> Call:
    """`data`; FuseOps does not fuse its computation with its users."""
    return call("annotation.stop_fusion", data)

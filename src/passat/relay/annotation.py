"""`relay.annotation`: what tells passes something about a value."""

from passat.ir.expr import Call, Expr
from passat.relay.building import call

__all__ = ["stop_fusion"]


def stop_fusion(data: Expr) -> Call:
    """`data`, whose computation FuseOps does not fuse with what reads it."""
    return call("annotation.stop_fusion", data)

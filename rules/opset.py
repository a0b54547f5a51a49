"""The opsets that a module was read from and will be written in."""

from passat.ir.module import IRModule
from passat.passmgr import PassContext, register_option

register_option(
    "rules.opset",
    int,
    None,
    "The ONNX opset of the target: passes make operators of it that need one. By default that of the model which was read.",
    minimum=1,
)


def read_opset(mod: IRModule | None) -> int | None:
    """The opset of the ONNX model that a module was read from; None for any other module."""
    return None if mod is None else getattr(mod.attrs.get("onnx"), "version", None)


def written_opset(mod: IRModule | None, ctx: PassContext) -> int | None:
    """The opset that a module will be written in: `rules.opset`, or that of the ONNX model it was read from; None for any other module."""
    asked: int | None = ctx.get_config("rules.opset")
    return read_opset(mod) if asked is None else asked

"""`AnnotateSpans` as a pass."""

from dataclasses import dataclass
from typing import Final

from passat.ir.expr import Function
from passat.ir.infer import infer_module
from passat.ir.module import IRModule
from passat.passmgr.context import PassContext
from passat.passmgr.pass_info import EVERYTHING, PassInfo
from passat.passmgr.passes import ModulePass
from passat.passmgr.registry import register_pass

SOURCE: Final = "GeneratedSource"
"""The source name of the spans, as in TVM."""


@register_pass("relay._transform.AnnotateSpans")
@dataclass(frozen=True, repr=False)
class AnnotateSpans(ModulePass):
    """Prints the module and reads the text again, so that every expression has a span: its line and column in that text.

    The text is that of `mod.astext()`. Spans that were there, with the names an ONNX file gave, are replaced. Attributes of the module
    are kept. A module with functions of other back ends, which have no text that can be read, is left as it is, with a remark.
    Establishes the fact "types". Raises passat.ir.infer.InferError for a program that has no type.
    """

    info = PassInfo(0, "AnnotateSpans", provides=("types",), preserves=EVERYTHING)

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module that the text stands for."""
        from passat.ir.text import astext, parse

        other = next((var for var, function in mod.functions.items() if not isinstance(function, Function)), None)
        if other is not None:
            ctx.remark(self.info.name, f"@{other.name_hint} belongs to another back end, so the module has no text that can be read")
            return infer_module(mod)
        annotated = parse(astext(mod), SOURCE)
        annotated.attrs = dict(mod.attrs)
        return annotated

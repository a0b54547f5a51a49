"""The operators that ONNX Runtime's own fusions leave in a model, counted in what it writes when it optimizes the model.

Results are made to run on ONNX Runtime, which recognizes activations, normalizations and attention by the nodes that exporters make of
them. A rewrite that is cheaper by itself may destroy such a pattern, so that more is lost than gained.
"""

import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from passat.report import histogram
from passat.runner import ModelSource, Runner

_GELU: Final = ("Gelu", "BiasGelu", "FastGelu", "QuickGelu")
_NORMALIZATION: Final = (
    *("LayerNormalization", "SkipLayerNormalization", "EmbedLayerNormalization", "SimplifiedLayerNormalization"),
    *("SkipSimplifiedLayerNormalization", "RMSNormalization"),
)
_ATTENTION: Final = ("Attention", "MultiHeadAttention", "GroupQueryAttention", "PackedAttention")
KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(_GELU, "Gelu"),
    **dict.fromkeys(_NORMALIZATION, "LayerNormalization"),
    **dict.fromkeys(_ATTENTION, "Attention"),
}
"""What one and the same fusion makes counts as one: which of them it is depends on what stands beside it, such as a bias or a sum."""
_OWN: Final = "com.microsoft."


def fused_operators(model: ModelSource, folder: str | None = None) -> Counter[str]:
    """How many operators of each kind are in a model after ONNX Runtime's fusions, subgraphs included: operators of its own, and those of
    ONNX that its fusions make. `folder` is the folder of the external data. The model is loaded in another process, which ONNX Runtime may
    end. Raises VerifyError where ONNX Runtime is not installed, and what it raises where it does not load the model.
    """
    from passat.ir.onnx.files import read_model

    with tempfile.TemporaryDirectory() as temporary:
        written = Path(temporary) / "optimized.onnx"
        # Higher levels choose layouts for the processor, and fuse nothing that this one does not.
        Runner(model, folder=folder, threads=1, optimise=True, apart=True, written=str(written))
        found = histogram(read_model(str(written)))
    counts: Counter[str] = Counter()
    for name, count in found.items():
        kind = name.removeprefix(_OWN)
        if kind != name or kind in KINDS:
            counts[KINDS.get(kind, kind)] += count
    return counts

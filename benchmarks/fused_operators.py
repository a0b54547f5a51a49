"""The operators that ONNX Runtime's own fusions leave in a model, counted in what it writes when it optimizes the model.

Results are made to run on ONNX Runtime, which recognizes activations, normalizations and attention by the nodes that exporters make of
them. A rewrite that is cheaper by itself may destroy such a pattern, so that more is lost than gained.
"""

import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import onnx

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
"""What one and the same fusion makes counts as one: which of them it is goes by what stands beside it, such as a bias or a sum."""
_DOMAINS: Final = ("com.microsoft",)


def count(path: Path) -> Counter[str]:
    """How many operators of each kind are in a model after ONNX Runtime's fusions, in branches and bodies too: operators of its own, and
    those of ONNX that its fusions make."""
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "optimized.onnx"
        options = onnxruntime.SessionOptions()
        # Higher levels choose layouts for the processor, and fuse nothing that these do not.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(written)
        options.log_severity_level = 4
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        model = onnx.load(written, load_external_data=False)
    counts: Counter[str] = Counter()
    graphs = [model.graph]
    while graphs:
        for node in graphs.pop().node:
            if node.domain in _DOMAINS or node.op_type in KINDS:
                counts[KINDS.get(node.op_type, node.op_type)] += 1
            graphs += [graph for attribute in node.attribute for graph in (attribute.g, *attribute.graphs) if graph.node]
    return counts


def fewer(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """The kinds of which there are fewer than before, with both counts."""
    return {kind: (count, after.get(kind, 0)) for kind, count in sorted(before.items()) if after.get(kind, 0) < count}


def table(counts: Mapping[str, tuple[Mapping[str, int], Mapping[str, int]]]) -> str:
    """The counts of each model's input and result as Markdown, and of which kinds there are fewer."""

    def shown(found: Mapping[str, int]) -> str:
        return ", ".join(f"{count} {kind}" for kind, count in sorted(found.items())) or "-"

    lines = ["### Fused operators", "", "| model | input | passat | fewer |", "| :-- | :-- | :-- | :-- |"]
    for model, (before, after) in counts.items():
        lost = ", ".join(f"{kind} {was} to {now}" for kind, (was, now) in fewer(before, after).items()) or "-"
        lines.append(f"| {model} | {shown(before)} | {shown(after)} | {lost} |")
    found = [fewer(before, after) for before, after in counts.values()]
    for kind in sorted({kind for lost in found for kind in lost}):
        lines += ["", f"Fewer {kind} than in the input: {sum(kind in lost for lost in found)} of {len(found)} models"]
    return "\n".join(lines)

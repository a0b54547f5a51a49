"""The operators that ONNX Runtime's own fusions leave (`passat.model_summary`), of inputs and results."""

from collections.abc import Mapping

from passat.model_summary import fused_operators as count

__all__ = ["count", "fewer", "table"]


def fewer(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """The kinds with lower counts than before, with both counts."""
    return {kind: (count, after.get(kind, 0)) for kind, count in sorted(before.items()) if after.get(kind, 0) < count}


def table(counts: Mapping[str, tuple[Mapping[str, int], Mapping[str, int]]]) -> str:
    """The counts of each model's input and result as Markdown, and the kinds with lower counts."""

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

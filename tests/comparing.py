"""Compares two models as `passat optimize` does, in one call."""

import os
from collections.abc import Mapping
from typing import Any as AnyValue

from passat.runner import ModelSource
from passat.verify import Reference, VerifyReport, comparing


def compare_models(
    original: ModelSource,
    candidate: ModelSource,
    *,
    seed: int = 0,
    trials: int = 3,
    threads: int = 0,
    folder: str | None = None,
    inputs: "Mapping[str, AnyValue] | str | os.PathLike[str] | None" = None,
    rtol: float | None = None,
    atol: float | None = None,
) -> VerifyReport:
    """Compares two models; arguments and errors are those of `comparing` and `Reference`."""
    how = comparing(seed, inputs, rtol, atol)
    return Reference(original, how, trials=trials, threads=threads, folder=folder).check(candidate)

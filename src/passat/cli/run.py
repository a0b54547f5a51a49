"""`passat run`."""

from pathlib import Path
from typing import Annotated
from typing import Any as AnyValue

import typer

from passat.cli.app import app, errors, fail
from passat.cli.arguments import CustomOpsOption, check_ending, check_outputs
from passat.cli.command import command
from passat.cli.variant import DimOption, parse_sizes


@command(app)
def run(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model to run", show_default=False)],
    inputs: Annotated[
        Path | None,
        typer.Option("--inputs", metavar="FILE.npz", help="Inputs by name, written by numpy.savez (default: random)", show_default=False),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE.npz", help="File to write the outputs to", show_default=False)
    ] = None,
    dim: DimOption = None,
    custom_ops: CustomOpsOption = None,
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed of the random inputs")] = 0,
) -> None:
    """Run a model on ONNX Runtime, with its kernel library and libraries of custom operators, in a separate process."""
    with errors():
        import numpy as np

        from passat.choose import feed_of_sizes
        from passat.kernel_library import library_of
        from passat.runner import Runner, custom_operators, sentence_of
        from passat.verify import comparing

        check_outputs({"-o": output}, {"the model": [model], "--inputs": [inputs], "--custom-ops": custom_ops or ()})
        check_ending("-o", output, ".npz")
        how, sizes = comparing(seed, inputs), parse_sizes(dim or ())
        with custom_operators(custom_ops or ()), custom_operators(library_of(model, custom_ops or ())):
            try:
                runner = Runner(model, optimize="all", apart=True)
            except Exception as error:  # ONNX Runtime's errors have no common base class
                fail(f"{model}: ONNX Runtime does not load it: {sentence_of(error)}")
            values = runner.run(feed_of_sizes(str(model), runner, how, sizes))
        names = [name for name, _ in runner.outputs]
        for (name, kind), value in zip(runner.outputs, values, strict=True):
            dtype = "string" if kind == "tensor(string)" else getattr(value, "dtype", None)
            print(f"{name}: {dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else f"{name}: {kind}")
        if output is not None:
            arrays: dict[str, AnyValue] = {name: value for name, value in zip(names, values, strict=True) if isinstance(value, np.ndarray)}
            with output.open("wb") as file:
                np.savez(file, **arrays)
            print(f"written to {output}")

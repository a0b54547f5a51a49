"""`passat inspect`, `passat diff`, `passat profile`, `passat run` and `passat extract`: what a model consists of, how two differ, which is
faster, what one computes, and the cheapest program of an e-graph in a file."""

import contextlib
import io
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final
from typing import Any as AnyValue

import typer

from passat.cli.app import USAGE, app, errors, fail, show_result
from passat.cli.arguments import (
    CustomOpsOption,
    JsonOption,
    PassOptions,
    RulesOption,
    as_option,
    check_ending,
    check_outputs,
    load,
    not_nan,
)
from passat.cli.command import command
from passat.cli.options import DimOption, ProgressOptions, parse_sizes, working
from passat.ir.counting import counted

_LONGEST_NAME: Final = 65_500
"""Bytes of a name from which on an archive cannot hold it."""


@command(app)
def inspect(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model", show_default=False)],
    *,
    rules: RulesOption = None,
    custom_ops: CustomOpsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a model consists of: inputs, outputs, operators, weights, opaque nodes with reasons, and what ONNX Runtime fuses."""
    with errors(as_json):
        from passat.model_summary import inspect as inspect_model

        load(rules)  # rule files may declare operators
        with working(f"inspecting {model}", enabled=not as_json):
            summary = inspect_model(model, custom_ops=custom_ops or ())
        show_result(summary, as_json)


@command(app)
def diff(
    before: Annotated[Path, typer.Argument(metavar="A", help="Model", show_default=False)],
    after: Annotated[Path, typer.Argument(metavar="B", help="Another model", show_default=False)],
    as_json: JsonOption = False,
) -> None:
    """Show how two models differ, by operator and by structure.

    Names and the order of nodes make no difference.
    """
    with errors(as_json):
        from passat.model_diff import diff as diff_models

        with working(f"comparing {before} with {after}", enabled=not as_json):
            found = diff_models(before, after)
        show_result(found, as_json)


@command(app)
def profile(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model", show_default=False)],
    result: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RESULT]", help="Its optimized form, from any optimizer (default: the result of Passat)", show_default=False
        ),
    ] = None,
    *,
    asked: PassOptions,
    said: ProgressOptions,
    dim: DimOption = None,
    inputs: Annotated[
        Path | None, typer.Option(metavar="FILE.npz", help="File of your own inputs by name, from numpy.savez (default: random inputs)")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the random inputs")] = 0,
    threads: Annotated[int, typer.Option(min=1, metavar="N", help="Threads of ONNX Runtime")] = 1,
    seconds: Annotated[float, typer.Option(min=0.1, callback=not_nan, metavar="S", help="Approximate duration of the measurement")] = 6.0,
    custom_ops: CustomOpsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Time a model and its optimized form on ONNX Runtime, and show whether they differ by more than noise, and in which operators.

    Both run interleaved for the comparison. The times of operators are from separate runs with the profiler of ONNX Runtime, which slows
    the models down, so they do not sum to the times of the models.
    """
    with errors(as_json):
        from passat.optimizer import optimize
        from passat.profiling import profile as profile_models
        from passat.settings import check_drawn

        check_drawn(seed, inputs, as_option)
        dims = parse_sizes(dim or ())
        other: AnyValue = result
        with contextlib.redirect_stdout(sys.stderr), said.progress(enabled=not as_json) as progress:
            if result is None:
                with asked.entered() as (text, sets):
                    # an unverified result is measured, too: if the model does not run, the measurement says so
                    other = optimize(
                        model,
                        passes=text,
                        rules=sets,
                        inputs=inputs,
                        allow_unverified=True,
                        custom_ops=custom_ops or (),
                        progress=progress,
                    ).model
            elif asked != PassOptions():
                fail("options of the passes do not apply if a RESULT is given", USAGE)
            found = profile_models(
                *(model, other),
                dims=dims,
                inputs=inputs,
                seed=seed,
                threads=threads,
                seconds=seconds,
                custom_ops=custom_ops or (),
                folders=(None, model.parent if result is None else None),
                progress=progress,
            )
        if result is None:
            found.after = "the optimized model"
        show_result(found, as_json)


@command(app)
def run(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model to run", show_default=False)],
    inputs: Annotated[
        Path | None, typer.Option(metavar="FILE.npz", help="Inputs by name, written by numpy.savez (default: random)")
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE.npz", help="File to write the outputs to")] = None,
    dim: DimOption = None,
    custom_ops: CustomOpsOption = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the random inputs")] = 0,
) -> None:
    """Run a model on ONNX Runtime, with its kernel library and libraries of custom operators, in a separate process."""
    with errors():
        import numpy as np

        from passat.choose import feed_of_sizes
        from passat.ir.long_words import listed, with_short_words
        from passat.ir.whole_file import write_whole
        from passat.kernel_library import library_of
        from passat.runner import Runner, custom_operators, sentence_of
        from passat.settings import check_drawn
        from passat.verify import comparing

        check_drawn(seed, inputs, as_option)
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
            print(with_short_words(f"{name}: {dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else f"{name}: {kind}"))
        if output is not None:
            arrays: dict[str, AnyValue] = {name: value for name, value in zip(names, values, strict=True) if isinstance(value, np.ndarray)}
            write_whole(output, _archive(arrays))
            if left := [name for name in names if name not in arrays]:
                print(f"note: {output} holds tensors only, not {listed(left)}", file=sys.stderr)
            print(f"written to {output}")


def _archive(arrays: Mapping[str, AnyValue]) -> bytes:
    """The content of a file of arrays. Ends the command for a name that the format cannot hold."""
    from passat.given_inputs import write_arrays

    for name in arrays:
        long = len(name.encode("utf-8", "surrogatepass")) >= _LONGEST_NAME
        if long or "\0" in name:  # which would end the name in the archive
            flaw = "is too long" if long else "has a null character, which is invalid"
            fail(f"the name of the output {name!r} {flaw} for a file of arrays; without -o, its type and shape are printed")
    made = io.BytesIO()
    write_arrays(arrays, made, allow_pickle=True)
    return made.getvalue()


@command(app)
def extract(
    file: Annotated[Path, typer.Argument(metavar="FILE.json", help="E-graph in the format of the extraction-gym", show_default=False)],
    time_limit: Annotated[
        float, typer.Option(min=0, callback=not_nan, metavar="S", help="Seconds for the exact search; 0 for greedy search alone")
    ] = 60.0,
    seed: Annotated[int, typer.Option(metavar="N", min=0, max=2**31 - 1, help="Seed of the exact search")] = 0,
    top: Annotated[int, typer.Option(min=1, metavar="K", help="Number of programs to extract, greedily after the first")] = 1,
    choice: Annotated[bool, typer.Option("--choice", help="Print the chosen nodes too")] = False,
    as_json: JsonOption = False,
) -> None:
    """Extract the cheapest program from an e-graph, counting each chosen node once, however often it is used.

    The exit code is 0 even without a proof; the proven bound limits the distance from the optimum.
    """
    with errors(as_json):
        from passat.rules.extraction.exact import ExactUnavailableError
        from passat.rules.extraction.ladder import NoProgramError, climb, several
        from passat.rules.extraction.space import EGraphFileError, read_egraph

        if seed and not time_limit:
            fail(f"--seed {seed} applies to the exact search, which --time-limit 0 disables; drop one of the two", USAGE)
        try:
            with working(f"extracting the cheapest program of {file}", enabled=not as_json):
                egraph = read_egraph(file)
                found = climb(egraph.space, egraph.roots, time_limit, seed=seed)
                others = several(egraph.space, egraph.roots, found, top)[1:]
        except EGraphFileError as error:
            fail(str(error))
        except NoProgramError as error:
            fail(f"{file}: {NoProgramError(error.root, repr(egraph.names[error.root]))}")
        except ExactUnavailableError as error:
            fail(f"{file}: {error}")
        chosen = [egraph.names[node] for node in found.choice.values()]
        seconds = sum(taken for _, taken in found.stages.values())
        if as_json:
            stages = {name: {"cost": cost, "seconds": taken} for name, (cost, taken) in found.stages.items()}
            shown = {
                "schema": "extract-1",
                "cost": found.cost,
                "bound": found.bound,
                "proven": found.proven,
                "seconds": seconds,
                "stages": stages,
                "choice": chosen if choice else None,
                "others": [
                    {"cost": other.cost, "choice": [egraph.names[node] for node in other.choice.values()] if choice else None}
                    for other in others
                ],
            }
            print(json.dumps(shown, indent=2))
            return
        roots = counted(len(egraph.roots), "root")
        print(f"{file}: {counted(len(egraph.names), 'e-node')}, {counted(len(set(egraph.space.classes)), 'e-class')}, {roots}")
        for name, (cost, taken) in found.stages.items():
            print(f"  {name:6} cost {cost:.10g}, in {taken:.3f} s")
        gap = "" if found.proven or not found.cost else f", {100 * (found.cost - found.bound) / found.cost:.1f} % below"
        proof = "proven optimal" if found.proven else f"proven bound {found.bound:.10g}{gap}" if found.bound else "nothing proven"
        print(f"cost {found.cost:.10g}: {proof}; {counted(len(chosen), 'node')}, in {seconds:.3f} s")
        if choice:
            print("\n".join(chosen))
        for other in others:
            print(f"also cost {other.cost:.10g}, {counted(len(other.choice), 'node')}")
            if choice:
                print("\n".join(egraph.names[node] for node in other.choice.values()))

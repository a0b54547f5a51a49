"""`passat extract`: extracts the cheapest program of an e-graph in a file."""

import json
from pathlib import Path
from typing import Annotated

import typer

from passat.cli.app import app, errors, fail
from passat.cli.arguments import JsonOption, not_nan
from passat.cli.command import command
from passat.cli.options import working


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
        from passat.rules.extraction.ladder import NoProgramError, climb
        from passat.rules.extraction.several import several
        from passat.rules.extraction.space import EGraphFileError, read_egraph

        try:
            with working(f"extracting the cheapest program of {file}", enabled=not as_json):
                egraph = read_egraph(file)
                found = climb(egraph.space, egraph.roots, time_limit, seed=seed)
                others = several(egraph.space, egraph.roots, found, top)[1:]
        except EGraphFileError as error:
            fail(str(error))
        except (NoProgramError, ExactUnavailableError) as error:
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
        roots = f"{len(egraph.roots)} root{'s' * (len(egraph.roots) != 1)}"
        print(f"{file}: {len(egraph.names)} e-nodes, {len(set(egraph.space.classes))} e-classes, {roots}")
        for name, (cost, taken) in found.stages.items():
            print(f"  {name:6} cost {cost:.10g}, in {taken:.3f} s")
        gap = "" if found.proven or not found.cost else f", {100 * (found.cost - found.bound) / found.cost:.1f} % below"
        proof = "proven optimal" if found.proven else f"proven bound {found.bound:.10g}{gap}" if found.bound else "nothing proven"
        print(f"cost {found.cost:.10g}: {proof}; {len(chosen)} nodes, in {seconds:.3f} s")
        if choice:
            print("\n".join(chosen))
        for other in others:
            print(f"also cost {other.cost:.10g}, {len(other.choice)} nodes")
            if choice:
                print("\n".join(egraph.names[node] for node in other.choice.values()))

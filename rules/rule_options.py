"""The options of rule passes (`rules.*`), and the limits that they set."""

from typing import Literal

from passat.passmgr import PassContext, register_option
from passat.rules.cost import CostModel, CostName, Machine, MachineName
from passat.rules.engine.limits import Limits
from passat.rules.engine.trace import Trace
from passat.rules.regions.regional import REGION_NODES
from passat.rules.rule import REASSOCIATE

_DEFAULTS = Limits()

register_option(
    "rules.math",
    Literal["exact", "reassociate", "finite"],
    REASSOCIATE,
    "What rules may do to floating-point values: exact = nothing; reassociate = change rounding and, where a rule says so, which "
    "infinity or NaN results; finite = also assume no NaN or Inf.",
)
register_option("rules.nodes", int, _DEFAULTS.nodes, "Maximum number of nodes that one saturation adds to the program's.", minimum=0)
register_option("rules.matches", int, _DEFAULTS.matches, "Maximum number of matches processed in one saturation.", minimum=0)
register_option("rules.rounds", int, _DEFAULTS.rounds, "Maximum number of iterations of each phase of a saturation.", minimum=0)
register_option(
    "rules.seconds", float, None, "Maximum seconds of one saturation; with this limit, results depend on the machine.", minimum=0
)
register_option("rules.memory", float, _DEFAULTS.memory, "Maximum memory in megabytes that one saturation adds to the process.", minimum=0)
register_option(
    "rules.rule_matches",
    int,
    _DEFAULTS.rule_matches,
    "Matches per iteration above which a rule is banned for a while (back-off; at least one for each node), and in all, per 200 nodes, "
    "above which it ends (at least 5,000).",
    minimum=0,
)
register_option(
    "rules.unions",
    int,
    None,
    "Maximum number of rule applications in the context, in order; used to bisect for a wrong one.",
    minimum=0,
)
register_option("rules.trace", Trace, None, "A Trace that records all events of saturations.")
register_option("rules.joint", bool, True, "Whether adjacent rule passes share one e-graph, as a stage of the pipeline.")
register_option("rules.time_limit", float, None, "Maximum seconds of all saturations in the context.", minimum=0)
register_option("rules.max_growth", int, 1 << 20, "Maximum bytes that one folded constant may add to the file.", minimum=0)
register_option(
    "rules.region_nodes",
    int,
    REGION_NODES,
    "Functions with more nodes are cut into regions at narrow places, if at least half of the regions repeat.",
    minimum=0,
)
register_option(
    "rules.cost",
    CostName | CostModel,
    "roofline",
    "The cost model: estimated seconds (roofline), the number of calls (nodes), measured seconds per operator on ONNX "
    "Runtime (measured), or an object with a method call(op, types, result, attrs).",
)
register_option(
    "rules.machine",
    MachineName | Machine,
    "default",
    'The machine profile of the roofline model: built-in, this machine ("this": measured once and cached), or a profile '
    "with flops and bandwidth per second, and seconds per operator launch.",
)
register_option(
    "rules.exact",
    float,
    0.0,
    "Seconds per saturation of exact search for a provably cheapest program (needs OR-tools: passat[exact]).",
    minimum=0,
)
register_option(
    "rules.opset",
    int,
    None,
    "The ONNX opset of the written model, to which the input is converted; passes may create its operators. Defaults to the input's.",
    minimum=1,
)
register_option(
    "rules.pick",
    dict[str, int],
    {},
    'Rank of the program that passes extract from their e-graphs: {"SimplifyExpr": 1} is the second best of SimplifyExpr, 0 the best.',
    minimum=0,
)
register_option(
    "rules.disabled",
    list[str],
    [],
    "Rules (`Arithmetic.involution_twice`), their second directions (`Set.rule.back`) and rule sets (`Arithmetic`) to disable.",
)


def limits(ctx: PassContext, rounds: int | None) -> Limits:
    """The limits of a saturation: those of the context, without what earlier passes have spent, and a maximum number of iterations."""
    given = {field: ctx.get_config(f"rules.{field}") for field in Limits._fields}
    found = Limits(**{field: value for field, value in given.items() if value is not None})
    if rounds is not None:
        found = found._replace(rounds=min(rounds, found.rounds))
    total = ctx.get_config("rules.time_limit")
    if total is not None:
        spent = sum(counters.get("seconds", 0.0) for counters in ctx.statistics.counters.values())
        found = found._replace(seconds=min(found.seconds, max(0.0, total - spent)))
    if found.unions is not None:
        found = found._replace(unions=max(0, found.unions - _applied(ctx)))
    return found


def _applied(ctx: PassContext) -> int:
    """The number of rule applications that the context has counted, excluding eager ones."""
    every = ctx.statistics.counters.values()
    fired = sum(int(count) for counters in every for key, count in counters.items() if key.startswith("fired:"))
    return fired - sum(int(counters.get("eager", 0)) for counters in every)

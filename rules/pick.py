"""Which of the programs that it finds a pass takes out of its e-graphs: the option `rules.pick`."""

import difflib
from collections.abc import Iterable, Sequence

from passat.passmgr import ConfigError, Pass, PassContext, UnknownPassError, get_entry, list_passes, register_option

register_option(
    "rules.pick",
    dict[str, int],
    {},
    'Which program passes take out of each of their e-graphs: {"SimplifyExpr": 1} is the second best of SimplifyExpr, 0 the best.',
    minimum=0,
)


def rank_of(ctx: PassContext, names: Iterable[str]) -> int:
    """The rank of the program that a pass, which may be several that share one e-graph, takes: the highest that one of its names has."""
    pick = ctx.get_config("rules.pick")
    return max((pick.get(name, 0) for name in names), default=0)


def check_pick(ctx: PassContext, passes: Sequence[Pass]) -> None:
    """Raises ConfigError for a pick on a pass that does not exist, with the nearest name; or on one of these passes, of a pipeline, that
    has no e-graph."""
    from passat.rules.rule_pass import RulePass  # which asks for ranks here

    with_egraphs = {pass_.info.name: isinstance(pass_, RulePass) for pass_ in passes}
    for name in ctx.get_config("rules.pick"):
        if with_egraphs.get(name):
            continue
        if name in with_egraphs:
            raise ConfigError(f"config rules.pick names {name}, which takes nothing out of an e-graph")
        if not _is_registered(name):
            near = difflib.get_close_matches(name, sorted(with_egraphs.keys() | {entry.name for entry in list_passes()}), 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(f"config rules.pick names {name!r}, which is no pass of this pipeline and not registered{hint}")


def _is_registered(name: str) -> bool:
    try:
        get_entry(name)
    except UnknownPassError:
        return False
    return True

"""Options of rule passes: the opset that a module will be written in (`rules.opset`), which of the programs that it finds a pass takes
out of its e-graphs (`rules.pick`), and which rules do not run (`rules.disabled`), whose names are checked: one that no rule has would
disable nothing."""

import difflib
import functools
from collections.abc import Iterable, Sequence

from passat.ir.module import IRModule
from passat.passmgr import ConfigError, Pass, PassContext, list_passes, register_option
from passat.passmgr.registry import is_registered
from passat.rules.rule import EAGER, RuleSetMeta, equation_of

register_option(
    "rules.opset",
    int,
    None,
    "The ONNX opset of the target: passes make operators of it that need one. By default that of the model which was read.",
    minimum=1,
)


def read_opset(mod: IRModule | None) -> int | None:
    """The opset of the ONNX model that a module was read from; None for any other module."""
    return None if mod is None else getattr(mod.attrs.get("onnx"), "version", None)


def written_opset(mod: IRModule | None, ctx: PassContext) -> int | None:
    """The opset that a module will be written in: `rules.opset`, or that of the ONNX model it was read from; None for any other module."""
    asked: int | None = ctx.get_config("rules.opset")
    return read_opset(mod) if asked is None else asked


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
    from passat.rules.rule_pass import RulePass  # which asks for options here

    with_egraphs = {pass_.info.name: isinstance(pass_, RulePass) for pass_ in passes}
    for name in ctx.get_config("rules.pick"):
        if with_egraphs.get(name):
            continue
        if name in with_egraphs:
            raise ConfigError(f"config rules.pick names {name}, which takes nothing out of an e-graph")
        if not is_registered(name):
            near = difflib.get_close_matches(name, sorted(with_egraphs.keys() | {entry.name for entry in list_passes()}), 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(f"config rules.pick names {name!r}, which is no pass of this pipeline and not registered{hint}")


def check_disabled(ctx: PassContext, passes: Sequence[Pass]) -> None:
    """Raises ConfigError with the nearest name where `rules.disabled` names what is neither a rule nor a rule set: of these passes, of
    the registered ones, or of the library."""
    from passat.rules import library
    from passat.rules.rule_pass import RulePass  # which asks for options here

    names = ctx.get_config("rules.disabled")
    known = _names(rules for pass_ in passes if isinstance(pass_, RulePass) for rules in pass_.sets) if names else set()
    if known.issuperset(names):
        return
    known |= _names(library.rule_sets().values())
    for entry in list_passes():
        if all(option.default is not option.empty for option in entry.options.values()) and isinstance(made := entry.make({}), RulePass):
            known |= _names(made.sets)
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), 1)
            hint = f"; did you mean {near[0]}?" if near else "; `passat rules list` shows all names"
            raise ConfigError(f"config rules.disabled names {name!r}, which is no rule and no rule set{hint}")


def _names(sets: Iterable[RuleSetMeta]) -> set[str]:
    """The names under which rules can be disabled, those of their sets among them."""
    return set().union(*map(_names_in, sets))


@functools.lru_cache(maxsize=1024)
def _names_in(rules: RuleSetMeta) -> frozenset[str]:
    """The names of a set, and under which its rules can be disabled: to write them all out takes a second for the library."""
    found = {rules.__name__}
    for rule in rules.rules:
        directions = [rule] if rule.kind == EAGER else rule.directions()
        for name in (direction.name for direction in directions):
            found |= {name, equation_of(name), name.partition(".")[0]}
    return frozenset(found)

"""Options of rule passes: the opset of the written model (`rules.opset`), which of the extracted programs a pass returns (`rules.pick`),
and which rules are disabled (`rules.disabled`). The names are checked, since a misspelled name would disable nothing."""

import difflib
import functools
from collections.abc import Iterable, Sequence, Set

from passat.ir.module import IRModule
from passat.ir.similar_names import did_you_mean, suggestion
from passat.passmgr import ConfigError, Pass, PassContext, Step, list_passes, register_option
from passat.passmgr.registry import is_registered
from passat.rules.engine.directions import expanded
from passat.rules.rule import RuleSetMeta, equation_of

register_option(
    "rules.opset",
    int,
    None,
    "The ONNX opset of the written model; passes may create its operators. Defaults to the opset of the input model.",
    minimum=1,
)


def read_opset(mod: IRModule | None) -> int | None:
    """The opset of the ONNX model that a module was read from; None for any other module."""
    return None if mod is None else getattr(mod.attrs.get("onnx"), "version", None)


def written_opset(mod: IRModule | None, ctx: PassContext) -> int | None:
    """The opset of the model to write: `rules.opset`, or that of the ONNX model that was read; None for any other module."""
    asked: int | None = ctx.get_config("rules.opset")
    return read_opset(mod) if asked is None else asked


register_option(
    "rules.pick",
    dict[str, int],
    {},
    'Rank of the program that passes extract from their e-graphs: {"SimplifyExpr": 1} is the second best of SimplifyExpr, 0 the best.',
    minimum=0,
)


def rank_of(ctx: PassContext, names: Iterable[str]) -> int:
    """The rank of the program that a pass extracts: the highest rank of its names (a joint pass has several)."""
    pick = ctx.get_config("rules.pick")
    return max((pick.get(name, 0) for name in names), default=0)


def check_pick(ctx: PassContext, steps: Sequence[Step]) -> None:
    """Raises ConfigError for a pick on an unknown pass or stage, with the nearest name, or on a pass of the pipeline without an e-graph."""
    from passat.rules.rule_pass import RulePass  # imports this module

    with_egraphs = {step.name: isinstance(step.pass_, RulePass) for step in steps} | {step.stage: True for step in steps if step.stage}
    for name in ctx.get_config("rules.pick"):
        if with_egraphs.get(name):
            continue
        if name in with_egraphs:
            raise ConfigError(f"config rules.pick names {name}, which has no e-graph")
        if not is_registered(name):
            hint = did_you_mean(name, sorted(with_egraphs.keys() | {entry.name for entry in list_passes()}), 1)
            raise ConfigError(f"config rules.pick names {name!r}, which is neither in this pipeline nor registered{hint}")


def check_disabled(ctx: PassContext, passes: Sequence[Pass]) -> None:
    """Raises ConfigError with the nearest name if `rules.disabled` names neither a rule nor a rule set of these passes, of the registered
    passes, or of the library."""
    from passat.rules import library
    from passat.rules.rule_pass import RulePass  # imports this module

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
            raise ConfigError(f"config rules.disabled names {name!r}, which is neither a rule nor a rule set{_hint(name, known)}")


def _hint(name: str, known: Set[str]) -> str:
    """The rest of the sentence about an unknown name: similar names."""
    owner, bracket, operators = name.partition("[")
    likely = sorted(known)
    if bracket and owner in known:
        likely = [one for one in likely if one.startswith((f"{owner}.", f"{owner}[")) and "[" in one]
        if not likely:
            return f"; {owner} can only be disabled for all operators, as {owner}"
        alike = [one for one in likely if one.endswith(bracket + operators)] or difflib.get_close_matches(name, likely, 1)
        if alike:
            return suggestion(alike[:3])
    return did_you_mean(name, likely, 1) or "; `passat rules list` shows all names"


def _names(sets: Iterable[RuleSetMeta]) -> set[str]:
    """The names under which rules can be disabled, including those of their sets."""
    return set().union(*map(_names_in, sets))


@functools.lru_cache(maxsize=1024)
def _names_in(rules: RuleSetMeta) -> frozenset[str]:
    """The names of a set and its rules that can be disabled. Cached: listing the library takes a second."""
    found = {rules.__name__}
    for rule in rules.rules:
        for name in (direction.name for direction in expanded(rule)):
            found |= {name, equation_of(name), name.partition(".")[0]}
    return frozenset(found)

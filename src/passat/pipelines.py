"""The pipeline of an optimization: the default one or the user's, with the user's rule sets."""

import functools
import re
from collections.abc import Sequence
from typing import Final, TypeAlias, cast

from passat.ir.argument_checks import is_sequence
from passat.ir.custom_ops import declared_op
from passat.ir.long_words import short_repr
from passat.passmgr import (
    Pass,
    PluginError,
    Sequential,
    list_passes,
    parse_pipeline,
    pipeline_text,
    register_pass,
    with_landed,
)
from passat.passmgr.planning.places import anchors
from passat.passmgr.registry import is_registered, registry_version
from passat.rules.library.folding import ConstantFolding
from passat.rules.passes import default_pipeline
from passat.rules.passes.simplify import SIMPLIFY
from passat.rules.pattern import PCall, RuleError, is_undeclared
from passat.rules.rule import Rule
from passat.rules.rule_pass import rule_pass, rule_passes
from passat.rules.rule_set import RuleSet
from passat.rules.subterms import subterms

Passes: TypeAlias = "str | Pass | Sequence[str | Pass] | None"
"""A pipeline as text, as one pass, or as a list of passes and texts; None is the default pipeline."""

EMPTY_PIPELINE: Final = "no pass runs: the pipeline is empty"


def build_pipeline(passes: Passes = None, rules: Sequence[type[RuleSet]] = ()) -> Sequential:
    """The pipeline that `optimize` runs: `passes`, or the default one, with passes for the user's rule sets.

    A text can name a rule set like a pass. Sets that are not named run before and after the default pipeline, or after the given passes, in
    one saturation with Passat's own simplifications, so that their order does not matter. Registered passes of plug-ins and rule files that
    declare `after` and `before` are inserted into pipelines that contain all passes that they name (`passat.passmgr.with_landed`). A set of
    the user that one of these passes has runs there only. Raises PipelineError, RuleError, UnknownPassError, PassDependencyError and
    PluginError.
    """
    check_rule_sets(rules)
    if passes is None:
        stated: list[Pass] = [_default()]
    else:
        listed = [passes] if isinstance(passes, (str, Pass)) else _members(passes)
        named = [rules_ for rules_ in rules for text in listed if isinstance(text, str) and _stands_in(rules_.__name__, text)]
        for rules_ in named:
            _make_known(rules_)
        rules = [rules_ for rules_ in rules if rules_ not in named]
        stated = [parse_pipeline(one) if isinstance(one, str) else one for one in listed]
        if not isinstance(passes, (str, Pass)):  # a name in a list is one pass, not a one-pass pipeline
            stated = [member for made, one in zip(stated, listed, strict=True) for member in _unwrapped(made, one)]
    whole = with_landed(stated[0] if len(stated) == 1 and isinstance(stated[0], Sequential) else Sequential(stated), _placed())
    if rules:
        held = {sets.base for pass_ in rule_passes(whole) for sets in pass_.sets}
        rules = [rules_ for rules_ in rules if rules_ not in held or not _library().keys().isdisjoint(rule.name for rule in rules_.rules)]
    if not rules:
        return whole
    name = "+".join(rules_.__name__ for rules_ in rules)
    library = cast("tuple[type[RuleSet], ...]", SIMPLIFY)  # some are made by calling the metaclass
    own = rule_pass(*rules, *library, ConstantFolding, name=name, opt_level=0)
    if passes is None:
        return Sequential([own, *whole.members, own])
    return Sequential([whole, own] if len(stated) == 1 and isinstance(stated[0], Sequential) else [*whole.members, own])


@functools.cache
def _default() -> Sequential:
    """The default pipeline, cached: its passes keep their engines, and it keeps its plans."""
    return default_pipeline()


def _placed() -> tuple[Pass, ...]:
    """The registered passes that declare their place, except Passat's own."""
    list_passes()  # loads plug-ins
    return _placed_of(registry_version())


@functools.lru_cache(maxsize=1)
def _placed_of(version: int) -> tuple[Pass, ...]:
    found: list[Pass] = []
    for entry in list_passes():
        # Of Passat's own passes, only those of the default pipeline declare a place; creating all would take 0.1 s.
        if not entry.is_own:
            try:
                made = entry.default()
            except Exception as error:
                raise PluginError(f"the registered pass {entry.name} cannot be made: {type(error).__name__}: {error}") from error
            found += [made] if made is not None and anchors(made.info) else []
    return tuple(found)


def check_rule_sets(rules: Sequence[type[RuleSet]]) -> None:
    """Raises RuleError for anything but a rule set, and for ambiguous names: of two sets, of a set and a pass, and of a rule that Passat
    also has."""
    sets: dict[str, type[RuleSet]] = {}
    if not is_sequence(rules):
        raise TypeError(f"rules must be a list of RuleSet classes, not {short_repr(rules)}")
    for rules_ in rules:
        if not isinstance(rules_, type) or not issubclass(rules_, RuleSet):
            raise RuleError(f"rules must be classes derived from passat.rules.RuleSet, not {rules_!r}")
        name = rules_.__name__
        if not rules_.rules:
            raise RuleError(f"the rule set {name} has no rules")
        if sets.setdefault(name, rules_) is not rules_:
            raise RuleError(f"two rule sets have the name {name}; rename one of them")
        if name not in _OWN and is_registered(name):
            raise RuleError(f"the rule set {name} has the name of a pass; rename it")
        for rule in rules_.rules:
            _check_declarations(rule)
            if _library().get(rule.name, rule) is not rule:
                raise RuleError(f"the rule {rule.name} has the name of a built-in rule; rename its set")


def _check_declarations(rule: Rule) -> None:
    """Raises RuleError if a rule was written before an operator in it was declared or redeclared; it would never match."""
    for node in (*subterms(rule.lhs), *subterms(rule.rhs)):
        if isinstance(node, PCall) and (is_undeclared(node) or not node.op.is_own):
            found = declared_op(node.op.name)
            if found is not None and found is not node.op:
                raise RuleError(
                    f"the rule {rule.name} was defined before the declaration of {found.name}: declare an operator once, before the "
                    "rules, and import it in other files"
                )


@functools.cache
def _library() -> dict[str, Rule]:
    """The rules of the default pipeline, by name."""
    return {rule.name: rule for pass_ in rule_passes(default_pipeline()) for sets in pass_.sets for rule in sets.rules}


def _members(passes: Sequence[str | Pass]) -> list[str | Pass]:
    if not is_sequence(passes):
        raise TypeError(f"passes must be a string, a pass or a list of passes, not {short_repr(passes)}")
    return list(passes)


def _unwrapped(made: Pass, given: str | Pass) -> Sequence[Pass]:
    return made.members if isinstance(given, str) and isinstance(made, Sequential) else [made]


_OWN: Final[dict[str, type[RuleSet]]] = {}
"""The user's rule sets that are registered as passes, by name."""


def _stands_in(name: str, pipeline: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", pipeline) is not None


def _make_known(rules: type[RuleSet]) -> None:
    """Registers a rule set as a pass of the same name."""
    name = rules.__name__
    if _OWN.get(name) is rules:
        return
    register_pass(name, rule_pass(rules, ConstantFolding, name=name, opt_level=0), override=True)
    _OWN[name] = rules


def text_of(pipeline: Sequential) -> str:
    """The text of a pipeline; the names of its passes if an option has no text form."""
    try:
        return pipeline_text(pipeline)
    except ValueError:
        return ",".join(member.info.name for member in pipeline.members)


def is_own(pass_: Pass) -> bool:
    """True if a pass is user code, not a pipeline or a rule pass."""
    return pass_.members is None and pass_.__module__.partition(".")[0] != "passat"

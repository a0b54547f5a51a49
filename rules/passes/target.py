"""Rule passes that make operators which not every target has, of a late opset or of another domain than ONNX's own."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Unpack

from passat.ir.module import IRModule
from passat.passmgr import ConfigError, Pass, PassContext, Place, list_passes, register_option
from passat.rules.opset import written_opset
from passat.rules.rule import RuleSetMeta
from passat.rules.rule_pass import RulePass
from passat.rules.schedule import Phase

register_option(
    "rules.domains",
    list[str],
    [],
    "Domains beside ONNX's own whose operators the target has, such as com.microsoft (ONNX Runtime); those that the model imports it has.",
)


def target_domains(mod: IRModule, ctx: PassContext) -> frozenset[str]:
    """The domains of operators that a target has: `rules.domains`, and those that the ONNX model itself imports."""
    asked: list[str] = ctx.get_config("rules.domains")
    return frozenset(asked) | _imported(mod)


def _imported(mod: IRModule) -> frozenset[str]:
    return frozenset(getattr(mod.attrs.get("onnx"), "versions", ()))


class TargetPass(RulePass):
    """A rule pass that does nothing where the target's opset is before `since`, or where it has not the operators of a domain. It says so
    in a remark."""

    def __init__(
        self,
        sets: Sequence[RuleSetMeta | Phase],
        *,
        name: str,
        since: int = 1,
        domain: str = "",
        opt_level: int = 2,
        doc: str = "",
        **place: Unpack[Place],
    ) -> None:
        super().__init__(sets, name=name, opt_level=opt_level, doc=doc, **place)
        self.since = since
        self.domain = domain

    def applies(self, mod: IRModule, ctx: PassContext) -> bool:
        """Whether the target has what the pass makes."""
        opset = written_opset(mod, ctx) or 1
        if opset < self.since:
            ctx.remark(self.info.name, f"the target has opset {opset}, before {self.since}: nothing was raised")
        elif self.domain and self.domain not in target_domains(mod, ctx):
            ctx.remark(self.info.name, f"the target has no operators of {self.domain} (rules.domains): none was made")
        else:
            return True
        return False


def check_domains(mod: IRModule, ctx: PassContext, passes: Iterable[Pass]) -> None:
    """Raises ConfigError with the nearest name where `rules.domains` names a domain that the model does not import, and of which neither
    one of these passes nor a registered one makes operators."""
    asked = frozenset(ctx.get_config("rules.domains")) - _imported(mod)
    if not asked:
        return
    made = [entry.make({}) for entry in list_passes() if all(option.default is not option.empty for option in entry.options.values())]
    known = sorted({pass_.domain for pass_ in (*passes, *made) if isinstance(pass_, TargetPass)} - {""})
    for domain in sorted(asked.difference(known)):
        near = difflib.get_close_matches(domain, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"passes do of {', '.join(known)}"
        raise ConfigError(f"config rules.domains names {domain!r}, of which no pass makes operators; {hint}")

"""`Sequential`: passes in a row, which is a pass again."""

from collections.abc import Iterable
from typing import Final, Unpack

from passat.ir.module import IRModule
from passat.passmgr.context import PassContext
from passat.passmgr.pass_info import PipelineInfo, Place
from passat.passmgr.passes import Pass
from passat.passmgr.planning.dependencies import DEPTH_LIMIT, Requirements
from passat.passmgr.planning.plan import Plan, make_plan
from passat.passmgr.registry import registry_version

_PLANS_KEPT: Final = 64


class Sequential(Pass):
    """Runs passes in list order, each where the context enables it (`PassContext.pass_enabled`) and after the passes that it requires.

    It is a pass itself: instruments see it, and nested in another Sequential it is gated by its own level and `required`, which do
    not count when it is called directly.

    What a member requires, and what that requires, runs before it, once until a later pass undoes it (see PassInfo), whatever
    its own level and even if disabled. With `PassContext(config={"passmgr.resolve": "relay"})` it goes as in TVM: one level, before
    every member. Members always run, in the order given. `plan()` tells what will run and why.

    Raises TypeError for what is no list of passes; UnknownPassError and PassDependencyError for requirements that cannot be met.

    >>> Sequential([], name="nothing")
    Run Sequential pass: nothing at the optimization level 0. The passes will be executed are: []
    """

    members: tuple[Pass, ...]

    def __init__(
        self,
        passes: Iterable[Pass] | None = None,
        opt_level: int = 0,
        name: str = "sequential",
        required: Iterable[str] | None = None,
        traceable: bool = False,
        **place: Unpack[Place],
    ) -> None:
        if passes is not None and not isinstance(passes, (list, tuple)):
            raise TypeError("passes must be a list of Pass objects.")
        for pass_ in passes or ():
            if not isinstance(pass_, Pass):
                hint = f"; did you mean {pass_.__name__}()?" if callable(pass_) and hasattr(pass_, "__name__") else ""
                raise TypeError(f"passes must be a list of Pass objects. {pass_!r} is none{hint}")
        self.info = PipelineInfo(opt_level, name, required, traceable, **place)
        self.members = tuple(passes or ())
        self.depth: int = 1 + max((pass_.depth for pass_ in self.members if isinstance(pass_, Sequential)), default=0)
        if self.depth > DEPTH_LIMIT:
            raise ValueError(f"pipelines nest {DEPTH_LIMIT} deep and no deeper")
        self._requirements: tuple[int, Requirements] | None = None
        self._plans: dict[tuple[object, ...], Plan] = {}
        if _resolve(PassContext.current()) == "graph":
            make_plan(name, self.members, self._require(), _EVERYTHING_ON)  # for its errors: now, not when it runs

    @property
    def passes(self) -> tuple[Pass, ...]:
        """The members, in order."""
        return self.members

    def plan(self, ctx: PassContext | None = None) -> Plan:
        """What a call in this context (the current one if None) will run, in which order, and why."""
        if ctx is None:
            ctx = PassContext.current()
        resolve = _resolve(ctx)
        joint = [ctx.get_config(option) for option in dict.fromkeys(pass_.joint_option for pass_ in self.members) if option]
        key = (ctx.opt_level, resolve, registry_version(), *joint, None, *ctx.disabled_pass, None, *ctx.required_pass)
        plan = self._plans.get(key)
        if plan is None:
            plan = make_plan(self.info.name, self.members, self._require() if resolve == "graph" else None, ctx)
            if len(self._plans) >= _PLANS_KEPT:
                self._plans.clear()
            self._plans[key] = plan
        return plan

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Executes the plan."""
        return self.plan(ctx).run(mod, ctx)

    def _require(self) -> Requirements:
        version = registry_version()
        if self._requirements is None or self._requirements[0] != version:
            requirements = Requirements(self.members)
            self._requirements = (registry_version(), requirements)  # looking names up may have registered passes
        return self._requirements[1]

    def __getstate__(self) -> dict[str, object]:
        # What has been worked out goes by the identity of the members, and copies have others.
        return {**vars(self), "_requirements": None, "_plans": {}}

    def __str__(self) -> str:
        names = "".join(f"{pass_.info.name} " for pass_ in self.members)
        head = f"Run Sequential pass: {self.info.name} at the optimization level {self.info.opt_level}"
        return f"{head}. The passes will be executed are: [{names}]"


_EVERYTHING_ON: Final = PassContext(opt_level=1 << 30)


def _resolve(ctx: PassContext) -> str:
    return ctx.config.get("passmgr.resolve", "graph")  # type: ignore[no-any-return]  # checked when the context was made

"""Layouts as a choice by cost: ConvertLayout, to the layouts that one asks for, and AlterOpLayout, to those that the target prefers.

Operators in layouts that are not wanted are dear, and transposes cost what they cost: what saturation finds, and extraction takes out, has
all operators in the wanted layouts and few transposes between them. A walk from inputs to outputs, as in TVM, decides at each operator
by what it has seen so far.
"""

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any as AnyValue
from typing import Final, TypeAlias

from passat.ir.attrs import Attrs
from passat.ir.expr import Call, Function
from passat.ir.module import IRModule
from passat.ir.op import Op, get_op
from passat.ir.traverse import post_order
from passat.ir.types import TensorType, Type
from passat.passmgr import PassContext, register_pass
from passat.rules.cost import CostModel, price
from passat.rules.engine.engine import Engine
from passat.rules.engine.grouping import Grouper
from passat.rules.engine.limits import Limits
from passat.rules.engine.matching import Matcher
from passat.rules.engine.stage import Stage
from passat.rules.library.arithmetic import Clips, Units
from passat.rules.library.batch_norm import ScaleAxis
from passat.rules.library.commuting import CommuteUnary, MoveTransposes
from passat.rules.library.folding import ConstantFolding
from passat.rules.library.layouts import (
    DEFAULT,
    POOLINGS,
    ChannelsFirst,
    ChannelsLast,
    channels_first,
    channels_last,
    check_layouts,
    conversion,
    wanted,
)
from passat.rules.library.views import ChainedViews, Transposes, Views
from passat.rules.pattern import PCall, RuleError
from passat.rules.rule import EXPLORING, Rule, RuleSet, RuleSetMeta
from passat.rules.rule_pass import RulePass

Layouts: TypeAlias = Mapping[str, Sequence[str]]
"""For the name of an operator the layout of its data, and for a convolution that of its weight; "default" is the one that goes with it."""
_PREFIX: Final = "relay._transform."
_DEAR: Final = 1000.0
"""How many times dearer an operator is in a layout that is not wanted. It is dearer by as much again, in the units of the model."""
ROUNDS: Final = 64
"""Rounds of a saturation, where `rules.rounds` does not say: a transpose that passes one operator takes one."""
_NONE: Final = "no layouts are wanted, of the pass or by the target"
_CONVERSIONS: Final = {ChannelsLast: channels_last, ChannelsFirst: channels_first}


_PASSAGES: Final = (Transposes.of_kind(EXPLORING), MoveTransposes, Views, CommuteUnary, ScaleAxis)
"""What moves transposes until they cancel. A tensor may be the transpose of several, so that those that meet are matched again."""
_WITHOUT: Final = (
    CommuteUnary.reshape.name,
    *(rule.name for rule in ScaleAxis if rule is not ScaleAxis.shifted),
    *(rule.name for rule in ScaleAxis.shifted.directions() if rule.name.startswith("ScaleAxis.shifted[biased")),
)
"""Reshapes stay where they are. Of `ScaleAxis` those rules run that make biases of constants again, which CanonicalizeOps has taken out."""


class LayoutCost:
    """A cost model to which convolutions and poolings are dear that are not laid out as is wanted; all else costs what `model` says."""

    def __init__(self, model: CostModel, layouts: Mapping[str, tuple[str, str]]) -> None:
        self.model = model
        self.layouts = layouts

    def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        """The cost of a call of whose operands nothing is known but types."""
        return self.call_on(op, types, result, attrs, [False] * len(types))

    def call_on(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs, constants: Sequence[bool]) -> float:
        """The cost of a call of whose operands some are constants."""
        cost = price(self.model, op, types, result, attrs, constants)
        return cost if is_laid_out(op, types, attrs, self.layouts) else (cost + 1) * _DEAR


def is_laid_out(op: Op, types: Sequence[Type], attrs: Attrs, layouts: Mapping[str, tuple[str, str]]) -> bool:
    """Whether a call on operands of these types is in the layouts that are wanted for its operator, if any are."""
    if op.name not in layouts:
        return True
    weight = types[1] if op.name not in POOLINGS else None
    shape = weight.shape if isinstance(weight, TensorType) else None
    return all(attrs[key] == layout for key, layout in wanted(op.name, attrs, shape, *layouts[op.name]).items())


def _is_laid_out(call: Call, op: Op, layouts: Mapping[str, tuple[str, str]]) -> bool:
    return is_laid_out(op, [arg.checked_type for arg in call.args], call.attrs, layouts)


class LayoutPass(RulePass):
    """A rule pass that lays operators out as is wanted, with few transposes. It says how many calls could not be converted."""

    def __init__(
        self, layouts: Layouts, sets: Sequence[RuleSetMeta] = (), *, name: str, required: Sequence[str] = (), doc: str = ""
    ) -> None:
        self.layouts = {op: _pair(op, given) for op, given in layouts.items()}
        self.given_sets = tuple(sets)
        chosen = [_conversion(op, *pair) for op, pair in self.layouts.items()]
        known = {rule.name for rules in _CONVERSIONS if rules not in sets for rule in _conversions(rules)}
        self._without = (*_WITHOUT, *sorted(known - {rule.name for rule in chosen}))
        own = {rule.name: rule for rule in chosen if "." not in rule.name}
        others = [RuleSetMeta("Layouts", (RuleSet,), {"__doc__": "Operators in the layouts that are wanted.", **own})] if own else []
        together = dict.fromkeys((*_CONVERSIONS, *others, *sets, *_PASSAGES))
        # equal constants must be one: else one that is transposed there and back is always a new one
        super().__init__((ConstantFolding, *together), name=name, opt_level=3, required=required, merge=True, joint=False, doc=doc)

    def __reduce__(self) -> tuple[AnyValue, ...]:
        """What travels to other processes: the conversions are made there again."""
        made_by = {key: value for key, value in vars(self).items() if key == "made_by"}
        return _remade, (self.layouts, self.given_sets, self.info.name, self.info.required, self.__doc__, made_by)

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Converts one function; where it has no operator that layouts are wanted for, it comes back as it was, and a remark says so."""
        if not self.given_sets and not any(_is_call_of(node, self.layouts) for node in post_order(func)):
            said = f"there is no call of {', '.join(self.layouts)}" if self.layouts else _NONE
            ctx.remark(self.info.name, f"{said}: nothing was changed")
            return func
        result = super().transform_function(func, mod, ctx)
        calls = (node for node in post_order(result) if isinstance(node, Call) and isinstance(node.op, Op))
        left = Counter(call.op.name for call in calls if isinstance(call.op, Op) and not _is_laid_out(call, call.op, self.layouts))
        for op, count in left.items():
            ctx.remark(self.info.name, f"calls of {op} that are not in {', '.join(self.layouts[op])}: {count}")
        return result

    def _stages(self, math: str, disabled: Sequence[str]) -> list[Stage | Matcher | Grouper]:
        return super()._stages(math, (*disabled, *self._without))

    def _engine(self, ctx: PassContext) -> Engine:
        engine = super()._engine(ctx)
        engine.model = LayoutCost(engine.model, self.layouts)
        if engine.limits.rounds == Limits().rounds:
            engine.limits = engine.limits._replace(rounds=ROUNDS)
        engine.region_nodes = None  # transposes at the borders of regions would not meet
        return engine


def _pair(op: str, given: Sequence[str]) -> tuple[str, str]:
    """The layouts of an operator. Raises RuleError where it has not these."""
    if isinstance(given, str) or not 1 <= len(given) <= 2:
        raise RuleError(f"{op}: a layout of the data, and of the weight where there is one, is wanted as a list, not {given!r}")
    pair = (given[0], given[1] if len(given) > 1 else DEFAULT)
    if op in POOLINGS and pair[1] == pair[0]:  # the layout of the result, as TVM lets one say it
        pair = (pair[0], DEFAULT)
    check_layouts(op, *pair)
    return pair


@functools.cache
def _conversions(rules: RuleSetMeta) -> list[Rule]:
    return [direction for rule in rules for direction in rule.directions()]


def _conversion(op: str, data: str, kernel: str) -> Rule:
    """The rule of the library that lays an operator out so; else one of its own."""
    for rules, layout in _CONVERSIONS.items():
        for rule in _conversions(rules) if kernel == DEFAULT else []:
            if isinstance(rule.lhs, PCall) and rule.lhs.op.name == op and layout(rule.lhs.op) == data:
                return rule
    return conversion(op, data, kernel).named(f"{op.removeprefix('nn.')}_{data}_{kernel}")


def _remade(
    layouts: Layouts, sets: tuple[RuleSetMeta, ...], name: str, required: Sequence[str], doc: str, made_by: Mapping[str, AnyValue]
) -> LayoutPass:
    found = LayoutPass(layouts, sets, name=name, required=required, doc=doc)
    vars(found).update(made_by)
    return found


def _is_call_of(node: object, names: Mapping[str, object]) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.name in names


@register_pass(_PREFIX + "ConvertLayout")
def convert_layout(desired_layouts: dict[str, list[str]]) -> LayoutPass:
    """Convolutions and poolings in the layouts that are asked for, and few transposes between them:
    `ConvertLayout{desired_layouts={nn.conv2d=[NHWC, default], nn.max_pool2d=[NHWC]}}`; "default" is the kernel layout that goes with
    that of the data. Raises RuleError for layouts that an operator does not have."""
    doc = convert_layout.__doc__ or ""
    return LayoutPass(desired_layouts, name="ConvertLayout", required=("CanonicalizeOps",), doc=doc)


_PREFERRED: dict[str, tuple[str, ...] | RuleSetMeta] = {}
"""What the target prefers, by operator."""


def register_alter_op_layout(op: str, preferred: Sequence[str] | RuleSetMeta) -> None:
    """Says what AlterOpLayout does with an operator: the layouts that the target prefers, as in ConvertLayout, or a rule set, of whose
    alternatives the cheapest is taken (`rules.cost`). Raises RuleError for layouts that the operator has not, KeyError for an operator that
    there is not, and ValueError where something is registered already."""
    get_op(op)
    if op in _PREFERRED:
        raise ValueError(f"something is registered for {op} already; forget_alter_op_layout({op!r}) takes it away")
    if isinstance(preferred, RuleSetMeta):
        _PREFERRED[op] = preferred
    else:
        _pair(op, preferred)
        _PREFERRED[op] = tuple(preferred)


def forget_alter_op_layout(op: str) -> None:
    """Takes away what was registered for an operator. Raises KeyError where nothing was."""
    del _PREFERRED[op]


@register_pass(_PREFIX + "AlterOpLayout")
def alter_op_layout() -> LayoutPass:
    """Operators in the layouts that the target prefers (`passat.rules.passes.layouts.register_alter_op_layout`), with few transposes
    between them; where it prefers none, nothing changes, and a remark says so."""
    layouts = {op: given for op, given in _PREFERRED.items() if not isinstance(given, RuleSetMeta)}
    sets = tuple(dict.fromkeys(given for given in _PREFERRED.values() if isinstance(given, RuleSetMeta)))
    return LayoutPass(layouts, sets, name="AlterOpLayout", doc=alter_op_layout.__doc__ or "")


@register_pass(_PREFIX + "SimplifyExprPostAlterOp")
def simplify_expr_post_alter_op() -> RulePass:
    """What altered layouts leave behind: identities, chains of transposes, reshapes, casts and clips."""
    doc = simplify_expr_post_alter_op.__doc__ or ""
    sets = (ConstantFolding, Units, Transposes, Views, ChainedViews, Clips)
    return RulePass(sets, name="SimplifyExprPostAlterOp", opt_level=0, doc=doc)

"""Layout selection by cost: ConvertLayout converts to requested layouts, AlterOpLayout to those that the target prefers.

Operators in other layouts are expensive, and transposes have their usual cost. Saturation and extraction then find a program with all
operators in the wanted layouts and few transposes. TVM instead walks from inputs to outputs, and decides greedily at each operator.

Functions that users register for operators (FTVMAlterOpLayout) and layouts with blocks are applied in a walk: the functions are arbitrary
Python, and users request blocks regardless of cost.
"""

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any as AnyValue
from typing import Final, TypeAlias

from passat.ir.analysis import is_call_of
from passat.ir.attrs import Attrs
from passat.ir.expr import Call, Expr, Function
from passat.ir.infer import infer_type
from passat.ir.infer_error import InferError
from passat.ir.module import IRModule
from passat.ir.op import Op, OpTypeError, get_op
from passat.ir.ops.blocked_layouts import has_blocks, in_layout, joined_shape, split_shape, without_blocks
from passat.ir.ops.blocked_windows import BLOCKED, WHOLE, fitting
from passat.ir.traverse import post_order, rewrite
from passat.ir.types import TensorType, Type, compatible, tensor_type
from passat.passmgr import PassContext, register_pass
from passat.rules.cost import CostModel, price
from passat.rules.engine.engine import Engine
from passat.rules.engine.limits import Limits
from passat.rules.engine.report import Inapplicable
from passat.rules.library.arithmetic import Arithmetic
from passat.rules.library.batch_norm import ScaleAxis, d
from passat.rules.library.blocked_layouts import SinkBlocks
from passat.rules.library.commuting import Commute, MoveTransposes
from passat.rules.library.data_movement import Copies
from passat.rules.library.folding import ConstantFolding
from passat.rules.library.layouts import (
    DEFAULT,
    POOLINGS,
    QUANTIZED,
    ChannelsFirst,
    ChannelsLast,
    channels_first,
    channels_last,
    check_layouts,
    conversion,
    has_several,
    has_weight,
    wanted,
)
from passat.rules.library.views import Transposes, Views
from passat.rules.passes.sunk_transposes import sunk
from passat.rules.pattern import PCall, RuleError
from passat.rules.rule import EXACT, EXPLORING, LOWERING, Rule
from passat.rules.rule_pass import RulePass
from passat.rules.rule_set import RuleSet, RuleSetMeta

Layouts: TypeAlias = Mapping[str, Sequence[str]]
"""For each operator name, the data layout, and for convolutions the weight layout; "default" selects the matching weight layout."""
_PREFIX: Final = "relay._transform."
_DEAR: Final = 1000.0
"""Cost factor of an operator in an unwanted layout; also added once, in units of the model."""
ROUNDS: Final = 64
"""Maximum number of iterations unless `rules.rounds` is set: a transpose passes one operator per iteration."""
_NONE: Final = "neither the pass nor the target requests layouts"
_CONVERSIONS: Final = {ChannelsLast: channels_last, ChannelsFirst: channels_first}


_BIASES: Final = ScaleAxis.only("shifted").when(has_several(d))
"""The rule of `ScaleAxis` that restores biases from sums with constants, which CanonicalizeOps writes. Sums with scalars are kept."""
_PASSAGES: Final = (Transposes.of_kind(EXPLORING), MoveTransposes, Views, Commute.only("unary", "softmax", "bias", "concat"), _BIASES)
"""Rules that move transposes until they cancel. Exploring, since a tensor may be the transpose of several tensors, so transposes that could
cancel must remain available for matching."""


class LayoutCost:
    """A cost model that makes convolutions and poolings in unwanted layouts expensive; other costs come from `model`."""

    def __init__(self, model: CostModel, layouts: Mapping[str, tuple[str, str]]) -> None:
        self.model = model
        self.layouts = layouts

    def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        """The cost of a call, given only types."""
        return self.call_on(op, types, result, attrs, [False] * len(types))

    def call_on(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs, constants: Sequence[bool]) -> float:
        """The cost of a call with some constant operands."""
        cost = price(self.model, op, types, result, attrs, constants)
        return cost if is_laid_out(op, types, attrs, self.layouts) else (cost + 1) * _DEAR


def is_laid_out(op: Op, types: Sequence[Type], attrs: Attrs, layouts: Mapping[str, tuple[str, str]]) -> bool:
    """True if a call on operands of these types is in the layouts wanted for its operator, if any."""
    if op.name not in layouts:
        return True
    weight = types[1] if has_weight(op.name) else None
    shape = weight.shape if isinstance(weight, TensorType) else None
    return all(attrs[key] == layout for key, layout in wanted(op.name, attrs, shape, *layouts[op.name]).items())


_Laid = tuple[Op, Sequence[Type], Attrs]


def _calls(function: Function) -> list[_Laid]:
    """The calls of operators: the operator, the types of the operands, and the attributes."""
    calls = [node for node in post_order(function) if isinstance(node, Call)]
    return [(call.op, [arg.checked_type for arg in call.args], call.attrs) for call in calls if isinstance(call.op, Op)]


IN_BLOCKS: Final = RulePass((ConstantFolding, SinkBlocks.of_kind(LOWERING)), name="SinkBlocks", joint=False, doc="Keeps data in blocks.")
"""Keeps data in blocks as far as operators accept it, regardless of cost: the user requested blocks, and cost models do not know what they
save."""


class LayoutPass(RulePass):
    """A rule pass that converts operators to wanted layouts with few transposes. It reports calls that could not be converted."""

    inner = (IN_BLOCKS,)

    def __init__(self, layouts: Layouts, sets: Sequence[RuleSetMeta] = (), *, name: str, required: Sequence[str] = ()) -> None:
        pairs = {op: _pair(op, given) for op, given in layouts.items()}
        self.blocked = {op: tuple(layouts[op]) for op, pair in pairs.items() if any(map(_has_blocks, pair))}
        self.layouts = {op: pair for op, pair in pairs.items() if op not in self.blocked}
        self.given_sets = tuple(sets)
        chosen = [_conversion(op, *pair) for op, pair in self.layouts.items()]
        known = {rule.name for rules in _CONVERSIONS if rules not in sets for rule in _conversions(rules)}
        without = (*_in_place(), *sorted(known - {rule.name for rule in chosen}))
        own = {rule.name: rule for rule in chosen if "." not in rule.name}
        others = [RuleSetMeta("Layouts", (RuleSet,), {"__doc__": "Converts operators to the wanted layouts.", **own})] if own else []
        together = dict.fromkeys((*_CONVERSIONS, *others, *sets, *_PASSAGES))
        # share equal constants, or transposing one back and forth would create new ones forever
        sets = (ConstantFolding, *together)
        super().__init__(sets, name=name, opt_level=3, required=required, merge=True, joint=False, without=without)

    def __reduce__(self) -> tuple[AnyValue, ...]:
        """The pickled form; the conversion rules are recreated on loading."""
        recorded = {key: value for key, value in vars(self).items() if key in ("made_by", "__doc__")}
        return _remade, ({**self.layouts, **self.blocked}, self.given_sets, self.info.name, self.info.required, recorded)

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Converts one function. If it has no operator with wanted layouts, it is unchanged, and a remark says so."""
        if self.blocked:
            func = self._in_blocks(func, mod, ctx)
            if not self.layouts:
                return func
        if not self.given_sets and not any(is_call_of(node, *self.layouts) for node in post_order(func)):
            said = f"there is no call of {', '.join(self.layouts)}" if self.layouts else _NONE
            ctx.remark(self.info.name, Inapplicable(f"{said}: nothing was changed"))
            return func
        result = super().transform_function(func, mod, ctx)
        if result is not func:
            result = sunk(result, exact=self._math(ctx) == EXACT)
        self._remark_left([call for call in _calls(result) if not is_laid_out(*call, self.layouts)], self.layouts, ctx)
        return result

    def _remark_left(self, calls: Sequence[_Laid], layouts: Mapping[str, Sequence[str]], ctx: PassContext) -> None:
        """Remarks how many calls of each operator are not in the wanted layouts."""
        for op, count in Counter(op.name for op, _, _ in calls if op.name in layouts).items():
            ctx.remark(self.info.name, f"calls of {op} that are not in {', '.join(layouts[op])}: {count}")

    def left_out(self, rule: Rule, ctx: PassContext) -> str:
        """Why the pass does not run a rule of its sets; '' if it does. Of the conversions it runs those to the wanted layouts."""
        why = super().left_out(rule, ctx)
        conversion = any(one.name == rule.name for rules in _CONVERSIONS for one in _conversions(rules))
        return f"{why}: it converts to a layout that is not wanted" if rule.name in self.without and conversion else why

    def _in_blocks(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Converts operators to layouts with blocks, and the operators that follow them where possible."""
        result = IN_BLOCKS.transform_function(converted(func, self.blocked), mod, ctx)
        self._remark_left(_calls(result), self.blocked, ctx)
        return result

    def _engine(self, mod: IRModule, ctx: PassContext) -> Engine:
        engine = super()._engine(mod, ctx)
        limits = engine.limits._replace(rounds=ROUNDS) if engine.limits.rounds == Limits().rounds else engine.limits
        # Transposes at the borders of regions would not cancel.
        return replace(engine, model=LayoutCost(engine.model, self.layouts), limits=limits, region_nodes=None)


def _pair(op: str, given: Sequence[str]) -> tuple[str, str]:
    """The layouts of an operator. Raises RuleError if it does not have these."""
    if isinstance(given, str) or not 1 <= len(given) <= 2:
        raise RuleError(f"{op}: give a list of the data layout and, if there is a weight, the weight layout, not {given!r}")
    pair = (given[0], given[1] if len(given) > 1 else DEFAULT)
    if op in POOLINGS | QUANTIZED and not has_weight(op) and pair[1] == pair[0]:  # the layout of the result, which users may state in TVM
        pair = (pair[0], DEFAULT)
    if any(map(_has_blocks, pair)):
        if op not in {whole.name for whole in BLOCKED}:
            raise RuleError(
                f"{op} has no layouts with blocks, such as {pair[0]}; those that have are {', '.join(of.name for of in BLOCKED)}"
            )
        try:
            check_layouts(op, *(layout if layout == DEFAULT else without_blocks(layout) for layout in pair))
        except OpTypeError as error:
            raise RuleError(f"{op}: {error}") from None
    else:
        check_layouts(op, *pair)
    return pair


def _has_blocks(layout: str) -> bool:
    """True if a word is a layout with blocks; other words are checked as layouts without blocks."""
    return any(letter.isdigit() for letter in layout)


@functools.cache
def _in_place() -> tuple[str, ...]:
    """The names of rules that keep reshapes in place, and of rules on calls that have biases."""
    return tuple(
        direction.name
        for rule, case in ((Commute.unary, "reshape"), (ScaleAxis.shifted, "biased"))
        for direction in rule.directions()
        if direction.name.startswith(f"{rule.name}[{case}")
    )


@functools.cache
def _conversions(rules: RuleSetMeta) -> list[Rule]:
    return [direction for rule in rules for direction in rule.directions()]


def _conversion(op: str, data: str, kernel: str) -> Rule:
    """The library's rule that converts an operator to this layout, or a new one."""
    for rules, layout in _CONVERSIONS.items():
        for rule in _conversions(rules) if kernel == DEFAULT else []:
            if isinstance(rule.lhs, PCall) and rule.lhs.op.name == op and layout(rule.lhs.op) == data:
                return rule
    return conversion(op, data, kernel).named(f"{op.removeprefix('nn.').replace('.', '_')}_{data}_{kernel}")


def _remade(
    layouts: Layouts, sets: tuple[RuleSetMeta, ...], name: str, required: Sequence[str], recorded: Mapping[str, AnyValue]
) -> LayoutPass:
    found = LayoutPass(layouts, sets, name=name, required=required)
    vars(found).update(recorded)
    return found


@register_pass(_PREFIX + "ConvertLayout")
def convert_layout(desired_layouts: dict[str, list[str]]) -> LayoutPass:
    """Converts convolutions and poolings to the requested layouts, with few transposes: `ConvertLayout{desired_layouts={nn.conv2d=[NHWC,
    default], nn.max_pool2d=[NHWC]}}`; "default" is the kernel layout that matches the data layout. Raises RuleError for layouts that an
    operator does not have."""
    return LayoutPass(desired_layouts, name="ConvertLayout", required=("CanonicalizeOps",))


_PREFERRED: dict[str, tuple[str, ...] | RuleSetMeta] = {}
"""The target's preferences, by operator."""


def register_alter_op_layout(op: str, preferred: Sequence[str] | RuleSetMeta) -> None:
    """Registers what AlterOpLayout does with an operator: the layouts that the target prefers, as in ConvertLayout, or a rule set whose
    cheapest alternative is used (`rules.cost`). Raises RuleError for layouts that the operator does not have, KeyError for an unknown
    operator, and ValueError if the operator is already registered."""
    get_op(op)
    if op in _PREFERRED:
        raise ValueError(f"{op} is already registered; forget_alter_op_layout({op!r}) removes the registration")
    if isinstance(preferred, RuleSetMeta):
        _PREFERRED[op] = preferred
    else:
        _pair(op, preferred)
        _PREFERRED[op] = tuple(preferred)


def forget_alter_op_layout(op: str) -> None:
    """Removes the registration of an operator. Raises KeyError if there is none."""
    del _PREFERRED[op]


class AlterByAttribute(LayoutPass):
    """AlterOpLayout: applies the functions that users registered (FTVMAlterOpLayout), then converts to the layouts that the target
    prefers."""

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Alters one function."""
        altered, layouts = altered_by_attribute(func)
        if altered is not func:
            altered = IN_BLOCKS.transform_function(altered, mod, ctx)
        if layouts:
            altered = LayoutPass(layouts, name=self.info.name).transform_function(altered, mod, ctx)
        return super().transform_function(altered, mod, ctx) if self.layouts or self.given_sets or altered is func else altered


@register_pass(_PREFIX + "AlterOpLayout")
def alter_op_layout() -> LayoutPass:
    """Converts operators to the layouts that the target prefers (`passat.rules.passes.layouts.register_alter_op_layout`), with few
    transposes, and calls the functions that are registered for operators as FTVMAlterOpLayout. If there are neither preferences nor
    functions, nothing changes, and a remark says so."""
    layouts = {op: given for op, given in _PREFERRED.items() if not isinstance(given, RuleSetMeta)}
    sets = tuple(dict.fromkeys(given for given in _PREFERRED.values() if isinstance(given, RuleSetMeta)))
    return AlterByAttribute(layouts, sets, name="AlterOpLayout")


@register_pass(_PREFIX + "SimplifyExprPostAlterOp")
def simplify_expr_post_alter_op() -> RulePass:
    """Cleans up after layout conversion: identities, chains of transposes, reshapes, casts and clips."""
    sets = (ConstantFolding, Arithmetic, Transposes, Views, Copies)
    return RulePass(sets, name="SimplifyExprPostAlterOp", opt_level=0)


ATTRIBUTE: Final = "FTVMAlterOpLayout"
ChosenLayouts = dict[str, tuple[str, ...]]
"""The layouts that functions chose, by operator."""


Chooser = Callable[[Call, Call], Expr | None]
"""Chooses the replacement of a call, or None to keep it. Gets the original call, and the call on altered operands."""


def altered_by_attribute(function: Function) -> tuple[Function, ChosenLayouts]:
    """The function with calls replaced by the results of registered functions, and the layouts that these chose, by operator.

    A registered function gets the attributes, the arguments, their types and the type of the call. It returns an expression, or None to
    keep the call. Raises TypeError if it returns anything else.
    """

    def choose(old: Call, made: Call) -> Expr | None:
        registered = _registered(old.op) if isinstance(old.op, Op) else None
        if registered is None:
            return None
        found: Expr | None = registered(made.attrs, list(made.args), [arg.checked_type for arg in old.args], old.checked_type)
        if found is not None and not isinstance(found, Expr):
            raise TypeError(f"{ATTRIBUTE} of {made.op!r} must return an expression or None, not a {type(found).__name__}")
        return found

    return _altered(function, choose)


def converted(function: Function, wanted: Mapping[str, Sequence[str]]) -> Function:
    """The function with calls converted to the given layouts of data and weights. Keeps calls with axes that blocks do not divide."""

    def choose(old: Call, made: Call) -> Expr | None:
        layouts = wanted.get(whole_op(old.op).name) if isinstance(old.op, Op) else None
        if layouts is None:
            return None
        names = [name for name in ("data_layout", "layout", "kernel_layout") if name in made.attrs]
        attrs = Attrs(made.attrs, **dict(zip(names, layouts, strict=False)))
        return Call(fitting(whole_op(old.op), *(attrs[name] for name in names)), made.args, attrs, span=made.span)

    return _altered(function, choose)[0]


def _altered(function: Function, choose: Chooser) -> tuple[Function, ChosenLayouts]:
    """The function with the chosen replacements of calls, and the layouts of calls without blocks, by operator.

    If the replacement is the same call in other layouts, the arguments and the result are converted between the layouts, unless blocks do
    not divide an axis. Raises TypeError for a replacement of another type.
    """
    layouts: ChosenLayouts = {}
    infer_type(function)

    def alter(old: Expr, made: Expr) -> Expr:
        found = choose(old, made) if isinstance(old, Call) and isinstance(made, Call) else None
        if found is None or not isinstance(old, Call) or not isinstance(made, Call):
            return made
        if isinstance(found, Call) and isinstance(found.op, Op) and whole_op(found.op) is whole_op(made.op):
            found = _laid_out(made, found, [arg.checked_type for arg in old.args], layouts)
        if not compatible(infer_type(found).checked_type, old.checked_type):
            raise TypeError(f"{ATTRIBUTE} of {made.op!r} returned type {found.checked_type!r} for a call of type {old.checked_type!r}")
        return found

    result = rewrite(function, alter)
    return (function if result is function else infer_type(result)), layouts


def whole_op(op: AnyValue) -> Op:
    """The operator on whole axes for an operator on blocks (they are one operator in Relay); any other operator itself."""
    found: Op = WHOLE.get(op, op)
    return found


def _registered(op: Op) -> AnyValue:
    """The registered function of an operator. A function registered for the operator on whole axes also applies to the one on blocks."""
    found = op.get_attr(ATTRIBUTE)
    return whole_op(op).get_attr(ATTRIBUTE) if found is None else found


def _laid_out(before: Call, after: Call, types: Sequence[Type], layouts: ChosenLayouts) -> Expr:
    """A call in other layouts, with operands and result converted from and to the previous layouts."""
    names = [name for name in ("data_layout", "kernel_layout") if name in before.attrs] or ["layout"]
    pairs = [(before.attrs[name], after.attrs[name]) for name in names if name in before.attrs and name in after.attrs]
    if not pairs or all(now == wanted for now, wanted in pairs):
        return after
    try:
        for type_, (now, wanted) in zip(types, pairs, strict=False):
            whole = dict(zip(without_blocks(now), joined_shape(tensor_type(type_).shape, now), strict=True))
            split_shape(tuple(whole[letter] for letter in without_blocks(wanted)), wanted)
        operands = [in_layout(arg, *pairs[i]) if i < len(pairs) else arg for i, arg in enumerate(after.args)]
        result = in_layout(Call(after.op, operands, after.attrs, span=after.span), *reversed(pairs[0]))
        infer_type(result)
    except (OpTypeError, InferError, KeyError):
        return before
    assert isinstance(after.op, Op)
    if not any(has_blocks(layout) for pair in pairs for layout in pair):
        layouts[after.op.name] = tuple(wanted for _, wanted in pairs)
    return result

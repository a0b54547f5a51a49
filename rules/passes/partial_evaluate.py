"""PartialEvaluate: evaluates the known parts of a program. A walk, not rules: the value of an expression depends on everything that runs
before it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from passat.ir.evaluate import EvaluateError, Value, as_constant
from passat.ir.expr import Call, Function
from passat.ir.folding import folded_value
from passat.ir.infer import infer_module, infer_type
from passat.ir.module import IRModule
from passat.ir.onnx_mapping import DEFAULT_OPSET
from passat.ir.op import Op
from passat.ir.partial_evaluation import PartialEvaluator
from passat.ir.sealed import is_sealed
from passat.passmgr import ModulePass, PassContext, PassInfo, register_pass
from passat.passmgr.passes import convert_functions, is_left_alone
from passat.rules.library.folding import ConstantFolding
from passat.rules.rule_pass import read_opset
from passat.rules.substitution import CallTerm, Environment


@register_pass("relay._transform.PartialEvaluate")
@dataclass(frozen=True, repr=False)
class PartialEvaluate(ModulePass):
    """Computes at compile time everything that does not depend on a function's arguments: calls of functions, branches, matches, fields,
    contents of references, and operators on constants, as FoldConstant does. The rest of the program is in A-normal form, without dead
    code.

    A function is inlined into itself while its arguments get smaller or older, up to 100,000 operations in a module. Effects keep their
    order; references that the result does not need are removed. Skips functions that passes leave alone or that stand for one operation.
    """

    info = PassInfo(1, "PartialEvaluate")

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Evaluates every function; returns the same module if nothing is computed."""
        if any(isinstance(function, Function) and function._checked_type is None for function in mod.functions.values()):
            infer_module(mod)
        evaluator = PartialEvaluator(mod, _folding(mod, ctx))
        return convert_functions(mod, lambda function: function if _stays(function) else evaluator.evaluate(function))


def _stays(function: Function) -> bool:
    return is_left_alone(function.attrs) or is_sealed(function)


def _folding(mod: IRModule, ctx: PassContext) -> Callable[[Call, Sequence[Value]], Value | None]:
    """A function that folds the calls that the rule of FoldConstant folds."""
    rule = ConstantFolding.exact if ctx.get_config("rules.math") == "exact" else ConstantFolding.call
    environment = Environment(ctx.get_config("rules.max_growth"), read_opset(mod) or DEFAULT_OPSET)

    def fold(call: Call, values: Sequence[Value]) -> Value | None:
        assert isinstance(call.op, Op)
        op, attrs, opset = call.op, call.attrs, environment.opset
        type_ = infer_type(Call(op, map(as_constant, values), attrs, call._type_args)).checked_type
        term = CallTerm(op, values, attrs, type_, None, environment, lambda: folded_value(op, values, attrs, type_, opset), lambda _: None)
        if not all(guard.function(term) is True for guard in rule.guards):
            return None
        try:
            return term.evaluate()
        except EvaluateError:
            return None

    return fold

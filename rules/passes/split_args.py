"""The pass SplitArgs. A walk, because where a concatenation is split depends on all of its operands."""

from dataclasses import dataclass

from passat.ir.expr import Call, Expr, Function, Tuple
from passat.ir.module import IRModule
from passat.ir.op import call_op, get_op
from passat.ir.sealed import is_sealed
from passat.ir.traverse import rewrite
from passat.ir.types import TensorType, Type
from passat.passmgr import FunctionPass, PassContext, PassInfo, register_pass


@register_pass("relay._transform.SplitArgs")
@dataclass(frozen=True, repr=False)
class SplitArgs(FunctionPass):
    """Splits concatenations for targets that limit the number of arguments of a function; `max_function_args=0` is no limit.

    An argument of unknown size counts its unknown dimensions and its strides, too, as in TVM. The parts are separated by
    `annotation.stop_fusion`, so that FuseOps does not merge them again. Raises ValueError if the limit is too low for two operands.
    """

    max_function_args: int = 0
    info = PassInfo(1, "SplitArgs", required=("InferType",))

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Splits the concatenations in a function; returns the same function if none is too long."""
        return func if self.max_function_args == 0 or is_sealed(func) else rewrite(func, self._split)

    def _split(self, old: Expr, new: Expr) -> Expr:
        if is_sealed(old):
            return old
        if not isinstance(old, Call) or old.op is not get_op("concatenate"):
            return new
        fields, result = old.args[0], old.checked_type
        if not isinstance(fields, Tuple) or not isinstance(new, Call) or not isinstance(new.args[0], Tuple):
            return new
        limit = self.max_function_args - 1 - (_dims(result) if _unknown(result) else 0)
        counts = [_arguments(field.checked_type) for field in fields]
        if sum(counts) < limit:
            return new
        if limit < 2 * max(counts):
            least = self.max_function_args - limit + 2 * max(counts)
            raise ValueError(
                f"a concatenation of {result!r} needs functions of {least} arguments, but only {self.max_function_args} are allowed"
            )
        part: list[Expr] = []
        taken = 0
        for field, count in zip(new.args[0], counts, strict=True):
            if taken + count > limit:
                part, taken = [_stopped(part, new)], count
            taken += count
            part.append(field)
        return _stopped(part, new)


def _stopped(fields: list[Expr], concatenation: Call) -> Call:
    return Call(concatenation.op, [call_op("annotation.stop_fusion", Tuple(fields))], concatenation.attrs, (), concatenation.span)


def _arguments(type_: Type) -> int:
    """The number of arguments that a tensor takes."""
    unknown = _unknown(type_)
    return 1 + (unknown + _dims(type_) if unknown else 0)


def _unknown(type_: Type) -> int:
    return sum(not isinstance(dim, int) for dim in type_.shape) if isinstance(type_, TensorType) else 0


def _dims(type_: Type) -> int:
    return type_.ndim if isinstance(type_, TensorType) else 0

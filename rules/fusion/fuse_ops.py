"""The pass FuseOps: calls that are computed together become a function of their own, which the program calls.

A walk: whether two calls are fused depends on all users of their results and on all paths between them, which no pattern sees.
"""

from dataclasses import dataclass
from typing import Final

from passat.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from passat.ir.infer import infer_type
from passat.ir.inline import instantiated
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.sealed import is_sealed
from passat.ir.traverse import children, with_children
from passat.ir.types import FuncType, IncompleteType
from passat.passmgr import FunctionPass, PassContext, PassInfo, register_option, register_pass
from passat.rules.fusion.dataflow import Dataflow
from passat.rules.fusion.groups import Groups
from passat.rules.fusion.patterns import takes_data

MAX_DEPTH: Final = "relay.FuseOps.max_depth"
_STOP: Final = "annotation.stop_fusion"
_RESHAPES: Final = frozenset({_STOP, "dyn.reshape", "expand_dims", "nn.batch_flatten", "reshape", "reshape_like", "squeeze"})
"""Operators whose result has the elements of the first operand, in order, in another shape."""

register_option(MAX_DEPTH, int, 256, "Most nodes that FuseOps computes together, constants and tuples counted too.", minimum=1)


@register_pass("relay._transform.FuseOps")
@dataclass(frozen=True)
class FuseOps(FunctionPass):
    """Makes functions of the calls that are computed together, by the kinds of the operators (`passat.rules.fusion.groups`).

    `fuse_opt_level` is the context's level where it is -1; at 0 each call of an operator becomes a function of its own. Functions have the
    attribute `Primitive=1`, parameters p0, p1 ... and, where nothing but reshapes is in them, `relay.reshape_only=1`, as in TVM. Scalar
    constants go into the functions that use them, other constants become arguments.
    """

    fuse_opt_level: int = -1

    info = PassInfo(0, "FuseOps", ["InferType"], provides=("types",), preserves=("types",), counters={"groups": "functions of fused calls"})

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Fuses in one function."""
        if is_sealed(func):
            return func
        level = ctx.opt_level if self.fuse_opt_level == -1 else self.fuse_opt_level
        infer_type(func)
        fuser = _Fuser(func, ctx.get_config(MAX_DEPTH) if level > 0 else None)
        made = fuser.run()
        ctx.record(self.info.name, "groups", fuser.count)
        return made


def fuse_ops(function: Function, *, fuse: bool = True, max_depth: int = 256) -> Function:
    """The function in which calls of functions marked `Primitive` stand for calls of operators; without `fuse`, one for each call.

    >>> from passat.ir.text import parse_expr
    >>> fuse_ops(parse_expr("fn (%x: Tensor[(2), float32]) { exp(add(%x, 1f)) }"))
    fn (%x: Tensor[(2), float32]) {
      %1 = fn (%p0: Tensor[(2), float32], Primitive=1) -> Tensor[(2), float32] {
        %0 = add(%p0, 1f /* ty=float32 */) /* ty=Tensor[(2), float32] */;
        exp(%0) /* ty=Tensor[(2), float32] */
      };
      %1(%x) /* ty=Tensor[(2), float32] */
    }
    """
    infer_type(function)
    return _Fuser(function, max_depth if fuse else None).run()


class _Made:
    """What a group becomes: the parameters of its function and what is given for them."""

    __slots__ = ("args", "has_calls", "only_reshapes", "params")

    def __init__(self) -> None:
        self.has_calls = False
        self.params: dict[int, Var] = {}
        self.args: list[Expr] = []
        self.only_reshapes = True

    def param(self, arg: Expr) -> Var:
        """The parameter that stands for an expression outside of the group."""
        found = self.params.get(id(arg))
        if found is None:
            found = self.params[id(arg)] = Var(f"p{len(self.args)}", arg.checked_type)
            self.args.append(arg)
        return found


class _Fuser:
    """Rebuilds one function; `count` is how many functions of fused calls that made."""

    def __init__(self, function: Function, max_depth: int | None) -> None:
        self._function = function
        self._flow = Dataflow(function)
        self._groups = Groups(self._flow, max_depth or 0)
        if max_depth is not None:
            self._groups.fuse()
        self._parts: dict[int, _Made] = {}
        self._done: list[Expr] = []
        self.count = 0

    def run(self) -> Function:
        """The function with what was fused in it; itself where that is nothing."""
        done = self._done
        for number, node in enumerate(self._flow.nodes):
            done.append(self._rebuilt(number, node))
        result = done[-1]
        assert isinstance(result, Function)
        infer_type(result)
        return result

    def _rebuilt(self, number: int, node: Expr) -> Expr:
        if isinstance(node, Call) and isinstance(node.op, Op) and takes_data(node):
            if node.op.name == _STOP:
                return self._made(node.args[0])
            return self._call(number, node, node.op)
        if isinstance(node, Tuple) and self._groups.root(number) != number:
            return self._typed(Tuple(self._operands(node.fields, number), node.span), node)
        if isinstance(node, TupleGetItem):
            return self._field(number, node)
        if node is not self._function and is_sealed(node):
            return node
        return self._typed(with_children(node, [self._made(part) for part in children(node)]), node)

    def _call(self, number: int, call: Call, op: Op) -> Expr:
        root = self._groups.root(number)
        group = self._group(root)
        group.has_calls = True
        group.only_reshapes = group.only_reshapes and op.name in _RESHAPES
        made = self._typed(Call(op, self._operands(call.args, number, op), call.attrs, call.type_args, call.span), call)
        return self._function_of(group, made) if root == number else made

    def _field(self, number: int, node: TupleGetItem) -> Expr:
        root = self._groups.root(number)
        if root == number and self._groups.root(self._flow.numbers[id(node.tuple_value)]) != root:
            # What made the tuple is computed by itself, and nothing but the field is taken of it: that is no function.
            return self._typed(with_children(node, (self._made(node.tuple_value),)), node)
        made = self._typed(TupleGetItem(self._operands((node.tuple_value,), number)[0], node.index, node.span), node)
        return self._function_of(self._parts[root], made) if root == number else made

    def _operands(self, parts: tuple[Expr, ...], number: int, op: Op | None = None) -> list[Expr]:
        """What stands for operands inside of the group of a node. What others compute becomes a parameter, and so do constants that are
        not scalars, but for those that the type of the result depends on; absent operands (empty tuples) stay what they are."""
        root = self._groups.root(number)
        group = self._group(root)
        known = op.known_operands if op is not None else ()
        found = []
        for i, part in enumerate(parts):
            made = self._made(part)
            stays = (isinstance(part, Constant) and i in known) or (isinstance(part, Tuple) and not part.fields)
            inside = stays or self._groups.root(self._flow.numbers[id(part)]) == root
            found.append(made if inside else group.param(made))
        return found

    def _function_of(self, group: _Made, body: Expr) -> Expr:
        """The call of the function that a group becomes. Fields of tuples that were just made compute nothing, and stay."""
        if not group.has_calls:
            made = instantiated(body, dict(zip(group.params.values(), group.args, strict=True)))
            return infer_type(made)
        self.count += 1
        attrs: dict[str, int] = {"Primitive": 1}
        if group.only_reshapes:
            attrs["relay.reshape_only"] = 1
        type_ = body.checked_type
        params = tuple(group.params.values())
        function = Function(params, body, None if isinstance(type_, IncompleteType) else type_, (), attrs)
        function.assume_type(FuncType([param.checked_type for param in params], type_))
        return Call(function, group.args).assume_type(type_)

    def _group(self, root: int) -> _Made:
        found = self._parts.get(root)
        if found is None:
            found = self._parts[root] = _Made()
        return found

    def _made(self, part: Expr) -> Expr:
        number = self._flow.numbers.get(id(part))
        return part if number is None else self._done[number]

    @staticmethod
    def _typed(made: Expr, node: Expr) -> Expr:
        """The expression with the type of the one in whose place it stands."""
        if made._checked_type is None and not isinstance(made, Function):
            made.assume_type(node._checked_type)
        return made

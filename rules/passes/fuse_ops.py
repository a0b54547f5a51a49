"""The pass FuseOps: groups calls along post-dominators in Relay's three phases, and outlines each group as a function. DefuseOps inlines
them again. Walks, not rules: a group depends on all paths from a call to its post-dominator, and on the groups formed before."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from passat.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from passat.ir.infer import infer_type
from passat.ir.inline import inline_calls, instantiated
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.op_attributes import OpPattern
from passat.ir.sealed import is_sealed
from passat.ir.traverse import children, with_children
from passat.ir.types import FuncType, IncompleteType
from passat.passmgr import FunctionPass, PassContext, PassInfo, register_option, register_pass
from passat.rules.passes.dataflow import NOTHING, Dataflow, PostDominators, combine, takes_data

_ELEMWISE, _BROADCAST, _INJECTIVE = OpPattern.ELEMWISE, OpPattern.BROADCAST, OpPattern.INJECTIVE
_REDUCE, _TAIL, _TUPLE, _OPAQUE = OpPattern.COMM_REDUCE, OpPattern.OUT_ELEMWISE_FUSABLE, OpPattern.TUPLE, OpPattern.OPAQUE
_SINKS: Final = frozenset({_ELEMWISE, _BROADCAST, _INJECTIVE, _REDUCE, _TAIL})
"""Kinds of groups that elementwise operators can join."""
PHASES: Final = 3


class Groups:
    """The groups of a dataflow graph: sets of nodes with one root. Nodes outside of the group read only the root.

    A group absorbs another, with all nodes on the paths between them, if the other's root post-dominates its own and the kinds allow it:

    * phase 0: elementwise consumers of a product or convolution; elementwise operators and broadcasts into their consumers, including
      reductions, also past injective operators on other paths;
    * phase 1: as phase 0, and injective operators into injective ones, with the tuples between them;
    * phase 2: operators that are at most injective into tuples that joined such groups.

    A group has at most `max_depth` nodes (`relay.FuseOps.max_depth`), counted as in TVM, including constants and tuples.
    """

    __slots__ = ("_anchored", "_flow", "_kinds", "_levels", "_limit", "_sizes", "_up")

    def __init__(self, flow: Dataflow, max_depth: int) -> None:
        count = len(flow.nodes)
        self._flow = flow
        self._limit = max_depth
        self._up = list(range(count))
        self._kinds: list[OpPattern] = list(flow.kinds)
        self._sizes = [1] * count
        self._anchored = [kind == _TAIL for kind in flow.kinds]
        self._levels = [0] * count
        """The length of the longest path from each node to a node without readers."""

    def fuse(self) -> "Groups":
        """Runs the phases; without this, each node is its own group. Returns itself."""
        tree = PostDominators(self._flow)
        levels = self._levels
        for number in range(len(levels) - 1, -1, -1):
            levels[number] = max((levels[reader] + 1 for reader, _ in self._flow.readers[number]), default=0)
        for phase in range(PHASES):
            for number, above in enumerate(tree.parents):
                if above != NOTHING and self._kinds[number] != _OPAQUE:
                    self._try(phase, number, above, tree.kinds[number])
        return self

    def root(self, number: int) -> int:
        """The number of the root of a node's group."""
        up = self._up
        top = number
        while up[top] != top:
            top = up[top]
        while up[number] != top:
            up[number], number = top, up[number]
        return top

    def members(self) -> dict[int, list[int]]:
        """The groups: node numbers in order, by the number of the root."""
        found: dict[int, list[int]] = {}
        for number in range(len(self._up)):
            found.setdefault(self.root(number), []).append(number)
        return found

    def _try(self, phase: int, number: int, above: int, edge: OpPattern) -> None:
        """Fuses a node into its post-dominator if the phase and the kinds allow it."""
        kind = self._kinds[number]
        top = self.root(above)
        sink = self._kinds[top]
        if phase == 2:
            if kind <= _INJECTIVE and self._kinds[above] == _TUPLE and sink <= _INJECTIVE:
                self._commit(number, above, lambda between: between <= _INJECTIVE)
            return
        if self.root(number) == top or self._kinds[above] == _TUPLE:
            return
        if kind == _TAIL:
            if phase == 0 and edge == _ELEMWISE and sink <= _BROADCAST:
                self._commit(number, above, lambda between: between <= _BROADCAST)
        elif kind <= _BROADCAST:
            if edge <= _REDUCE and sink in _SINKS:
                self._commit(number, above, lambda between: between <= _INJECTIVE)
        elif kind in (_INJECTIVE, _TUPLE) and phase == 1 and sink <= _INJECTIVE:
            self._commit(number, above, lambda between: between <= _INJECTIVE)

    def _commit(self, number: int, above: int, allows: Callable[[OpPattern], bool]) -> None:
        """Merges a node and all nodes on the paths to its post-dominator into the group of the latter, if their kinds are allowed and the
        group does not grow too large."""
        room = self._limit - self._sizes[self.root(above)] - self._sizes[number]
        # All paths lead through the post-dominator, so the longest has as many nodes as the levels differ. If these are too many, the paths
        # are not visited.
        fits = self._levels[number] - self._levels[above] - 1 <= room
        between = self._between(number, above, allows, room) if room >= 0 and fits else None
        if between is None:
            return
        top = self.root(above)
        for part in (number, *between):
            self._merge(self.root(part), top)

    def _between(self, number: int, above: int, allows: Callable[[OpPattern], bool], room: int) -> Sequence[int] | None:
        """The nodes on the paths from a node to its post-dominator. None if one cannot be fused, or there are too many."""
        found: dict[int, None] = {}
        stack = [number]
        while stack:
            for reader, _ in self._flow.readers[stack.pop()]:
                if reader == above or reader in found:
                    continue
                room -= self._sizes[reader]
                if room < 0 or not allows(self._kinds[self.root(reader)]):
                    return None
                found[reader] = None
                stack.append(reader)
        return list(found)

    def _merge(self, child: int, parent: int) -> None:
        """Merges one group into another; both are given by their roots."""
        if child == parent:
            return
        self._sizes[parent] += self._sizes[child]
        self._up[child] = parent
        if self._anchored[child]:
            # A group has at most one product or convolution, ensured by the kinds allowed on the paths.
            assert not self._anchored[parent]
            self._anchored[parent] = True
            self._kinds[parent] = combine(self._kinds[child], self._kinds[parent])


MAX_DEPTH: Final = "relay.FuseOps.max_depth"
_STOP: Final = "annotation.stop_fusion"
_RESHAPES: Final = frozenset({_STOP, "dyn.reshape", "expand_dims", "nn.batch_flatten", "reshape", "reshape_like", "squeeze"})
"""Operators whose result has the elements of the first operand, in order, in another shape."""

LINK_PARAMS: Final = "relay.FuseOps.link_params"

register_option(MAX_DEPTH, int, 256, "Maximum number of nodes in a group of FuseOps, including constants and tuples.", minimum=1)
register_option(LINK_PARAMS, bool, False, "Whether FuseOps moves all constants into the functions that use them, not only scalars.")


@register_pass("relay._transform.FuseOps")
@dataclass(frozen=True)
class FuseOps(FunctionPass):
    """Outlines calls that are computed together as functions, by operator kinds (`passat.rules.passes.fuse_ops`).

    `fuse_opt_level` is the context's level if it is -1; at 0 each operator call becomes a function. Functions have the attribute
    `Primitive=1`, parameters p0, p1 ... and, if they contain only reshapes, `relay.reshape_only=1`, as in TVM. Scalar constants move into
    the functions that use them; other constants become arguments, unless `relay.FuseOps.link_params` is set.
    """

    fuse_opt_level: int = -1

    info = PassInfo(0, "FuseOps", ["InferType"], provides=("types",), preserves=("types",), counters={"groups": "functions of fused calls"})

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Fuses the calls of one function."""
        if is_sealed(func):
            return func
        level = ctx.opt_level if self.fuse_opt_level == -1 else self.fuse_opt_level
        fuser = _Fuser(func, ctx.get_config(MAX_DEPTH) if level > 0 else None, link_params=ctx.get_config(LINK_PARAMS))
        made = fuser.run()
        ctx.record(self.info.name, "groups", fuser.count)
        return made


def fuse_ops(function: Function, *, fuse: bool = True, max_depth: int = 256) -> Function:
    """The function with operator calls replaced by calls of functions marked `Primitive`; without `fuse`, one function per call.

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
    """The parameters of a group's function, and their arguments."""

    __slots__ = ("args", "has_calls", "only_reshapes", "params")

    def __init__(self) -> None:
        self.has_calls = False
        self.params: dict[int, Var] = {}
        self.args: list[Expr] = []
        self.only_reshapes = True

    def param(self, arg: Expr) -> Var:
        """The parameter for an expression outside of the group."""
        found = self.params.get(id(arg))
        if found is None:
            found = self.params[id(arg)] = Var(f"p{len(self.args)}", arg.checked_type)
            self.args.append(arg)
        return found


class _Fuser:
    """Rebuilds one function; `count` is the number of outlined functions."""

    def __init__(self, function: Function, max_depth: int | None, *, link_params: bool = False) -> None:
        self._function = function
        self._link_params = link_params
        self._flow = Dataflow(function)
        self._groups = Groups(self._flow, max_depth or 0)
        if max_depth is not None:
            self._groups.fuse()
        self._parts = defaultdict[int, _Made](_Made)
        self._done: list[Expr] = []
        self.count = 0

    def run(self) -> Function:
        """The function after fusion; itself if nothing was fused."""
        done = self._done
        for number, node in enumerate(self._flow.nodes):
            done.append(self._rebuilt(number, node))
        result = done[-1]
        assert isinstance(result, Function)
        return infer_type(result)

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
        group = self._parts[root]
        group.has_calls = True
        group.only_reshapes = group.only_reshapes and op.name in _RESHAPES
        made = self._typed(Call(op, self._operands(call.args, number, op), call.attrs, call._type_args, call.span), call)
        return self._function_of(group, made) if root == number else made

    def _field(self, number: int, node: TupleGetItem) -> Expr:
        root = self._groups.root(number)
        if root == number and self._groups.root(self._flow.numbers[id(node.tuple_value)]) != root:
            # Another group computes the tuple, and this one only projects a field: it does not become a function.
            return self._typed(with_children(node, (self._made(node.tuple_value),)), node)
        made = self._typed(TupleGetItem(self._operands((node.tuple_value,), number)[0], node.index, node.span), node)
        return self._function_of(self._parts[root], made) if root == number else made

    def _operands(self, parts: tuple[Expr, ...], number: int, op: Op | None = None) -> list[Expr]:
        """The operands of a node inside its group. Values of other groups become parameters, and so do non-scalar constants, except those
        that determine the result type; absent operands (empty tuples) stay."""
        root = self._groups.root(number)
        group = self._parts[root]
        known = op.known_operands if op is not None else ()
        found = []
        for i, part in enumerate(parts):
            made = self._made(part)
            stays = (isinstance(part, Constant) and (self._link_params or i in known)) or (isinstance(part, Tuple) and not part.fields)
            inside = stays or self._groups.root(self._flow.numbers[id(part)]) == root
            found.append(made if inside else group.param(made))
        return found

    def _function_of(self, group: _Made, body: Expr) -> Expr:
        """The call of a group's function. Projections of the group's own tuples compute nothing, and stay."""
        if not group.has_calls:
            return infer_type(instantiated(body, dict(zip(group.params.values(), group.args, strict=True))))
        self.count += 1
        attrs: dict[str, int] = {"Primitive": 1}
        if group.only_reshapes:
            attrs["relay.reshape_only"] = 1
        type_ = body.checked_type
        params = tuple(group.params.values())
        function = Function(params, body, None if isinstance(type_, IncompleteType) else type_, (), attrs)
        function.assume_type(FuncType([param.checked_type for param in params], type_))
        return Call(function, group.args).assume_type(type_)

    def _made(self, part: Expr) -> Expr:
        number = self._flow.numbers.get(id(part))
        return part if number is None else self._done[number]

    @staticmethod
    def _typed(made: Expr, node: Expr) -> Expr:
        """The expression with the type of the one that it replaces."""
        if made._checked_type is None:
            made.assume_type(node._checked_type)
        return made


@register_pass("relay._transform.DefuseOps")
@dataclass(frozen=True)
class DefuseOps(FunctionPass):
    """Inlines functions with the attribute `Primitive`."""

    info = PassInfo(3, "DefuseOps", ["InferType"], provides=("types",), preserves=("types",))

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Inlines the primitive functions of one function."""
        return infer_type(inline_calls(func, lambda function: bool(function.attrs.get("Primitive"))))

"""Relay's passes that combine parallel branches, under Relay's names. A walk, not rules: a group consists of all calls on one tensor, each
followed by any number of calls. (Rules such as `Parallel.convolutions` handle common branches, if that is cheaper.)"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

from passat.ir.expr import Call, Expr, Function, If, Let, Match, Tuple, TupleGetItem
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op, call_op, get_op
from passat.ir.ops.reshaping import new_axes
from passat.ir.sealed import is_sealed
from passat.ir.traverse import children, post_order, rewrite
from passat.ir.types import TensorType
from passat.passmgr import FunctionPass, PassContext, PassInfo

Branch = Sequence[Call]
"""A product, and calls that follow it, each the only use of the one before."""
_TO_THE_END: Final = (1 << 63) - 1
_BROADCAST: Final = 1
"""The most restrictive kind of operator (`Op.pattern`) that may follow a product, as in Relay's fusion."""


class Combination(ABC):
    """Combines the branches of an operator into one."""

    def __init__(self, op: str) -> None:
        self.op = get_op(op)

    @abstractmethod
    def key(self, call: Call) -> Hashable | None:
        """A key that is equal for products that can be combined; None for a product that cannot."""

    @abstractmethod
    def product(self, calls: Branch) -> Call:
        """The combined product."""

    @abstractmethod
    def follow(self, whole: Expr, before: Branch, calls: Branch, at: int) -> Call | None:
        """The call on the combined tensor that replaces one call in each branch, or None. Operand `at` of each call is the preceding tensor
        of its branch."""

    @abstractmethod
    def parts(self, whole: Expr, calls: Branch) -> Sequence[Expr]:
        """The parts of the combined tensor that replace the last call of each branch."""


class Joined(Combination):
    """Joins weights and results along an axis, and takes slices of the result. With `spreads`, operands of one element along that axis are
    repeated."""

    def __init__(self, op: str, spreads: bool = False) -> None:
        super().__init__(op)
        self.spreads = spreads
        self._behind = 1
        self._sizes: Sequence[int] = ()

    def key(self, call: Call) -> Hashable | None:
        """The attributes except sizes, and the sizes of the weight except the number of outputs."""
        weight, attrs = _type(call.args[1]), call.attrs
        if weight is None or not isinstance(weight.shape[self._outputs(call)], int):
            return None
        if "groups" in attrs and (attrs.groups != 1 or not (attrs.data_layout + attrs.kernel_layout).isupper()):
            return None
        if "transpose_b" in attrs and (attrs.transpose_a or not attrs.transpose_b):
            return None
        kept = tuple((name, value) for name, value in attrs.items() if name not in ("channels", "kernel_size"))
        axis = self._outputs(call)
        return (kept, weight.dtype, weight.shape[:axis], weight.shape[axis + 1 :])

    def product(self, calls: Branch) -> Call:
        """The product with all weights."""
        first = calls[0]
        axis = self._outputs(first)
        self._sizes = [_size(call.args[1], axis) for call in calls]
        self._behind = len(first.attrs.data_layout) - first.attrs.data_layout.index("C") if "data_layout" in first.attrs else 1
        weights = _concatenated([call.args[1] for call in calls], axis)
        attrs = self.op.bind_attrs({**first.attrs, "channels": sum(self._sizes)}) if "channels" in first.attrs else first.attrs
        return Call(self.op, [first.args[0], weights], attrs, span=first.span)

    def follow(self, whole: Expr, before: Branch, calls: Branch, at: int) -> Call | None:
        """The same call, with its other operands joined."""
        first, rank = calls[0], _rank(before[0])
        assert isinstance(first.op, Op)
        behind = self._behind
        if first.op.name == "expand_dims":
            new = new_axes(rank, first.attrs.axis, first.attrs.num_newaxis)
            kept = [axis for axis in range(rank + len(new)) if axis not in new]
            self._behind = rank + len(new) - kept[rank - behind]
            return Call(first.op, [whole], first.attrs, span=first.span)
        if first.op.name == "nn.bias_add":
            if first.attrs.axis % rank != rank - behind:
                return None
            behind = 1
        elif not first.op.elementwise or any(_size(call, -behind) != size for call, size in zip(calls, self._sizes, strict=True)):
            return None
        args: list[Expr] = []
        for place in range(len(first.args)):
            arg = whole if place == at else self._operand([call.args[place] for call in calls], behind)
            if arg is None:
                return None
            args.append(arg)
        return Call(first.op, args, first.attrs, span=first.span)

    def _operand(self, given: Sequence[Expr], behind: int) -> Expr | None:
        """The operands joined along an axis that is counted from the end; None if they cannot be joined."""
        types = [_type(arg) for arg in given]
        first = types[0]
        if first is None or any(type_ is None or (type_.dtype, type_.ndim) != (first.dtype, first.ndim) for type_ in types):
            return None
        rank = first.ndim
        if rank == 0 and behind == 1 and self.spreads:
            vectors = [call_op("expand_dims", arg, axis=-1) for arg in given]
            return _concatenated([_repeated(arg, size, 0) for arg, size in zip(vectors, self._sizes, strict=True)], 0)
        if rank < behind or len({_without(type_, rank - behind) for type_ in types if type_ is not None}) > 1:
            return None
        found: list[Expr] = []
        for arg, size in zip(given, self._sizes, strict=True):
            own = _size(arg, -behind)
            if own != size and (own != 1 or not self.spreads):
                return None
            found.append(arg if own == size else _repeated(arg, size, rank - behind))
        return _concatenated(found, -1 if self.op.name == "nn.batch_matmul" else rank - behind)  # the axis that Relay writes

    def parts(self, whole: Expr, calls: Branch) -> Sequence[Expr]:
        """A slice for each branch."""
        rank = _rank(calls[0])
        axis = rank - self._behind
        behind = 0 if self.op.name == "nn.conv2d" else rank - axis - 1  # Relay omits the axes after the channels for conv2d only
        firsts = [0, *accumulate(self._sizes)]
        return [
            call_op(
                "strided_slice",
                whole,
                begin=(*[0] * axis, first, *[0] * behind),
                end=(*[_TO_THE_END] * axis, first + size, *[_TO_THE_END] * behind),
            )
            for first, size in zip(firsts, self._sizes, strict=False)
        ]

    def _outputs(self, call: Call) -> int:
        """The axis of the outputs in the weight."""
        if "kernel_layout" in call.attrs:
            return int(call.attrs.kernel_layout.find("O"))
        return 1 if self.op.name == "nn.batch_matmul" else 0


class Stacked(Combination):
    """Makes a batched product of dense layers with weights of one shape."""

    def __init__(self) -> None:
        super().__init__("nn.dense")

    def key(self, call: Call) -> Hashable | None:
        """The type of the weight, and the element type of the result."""
        weight = _type(call.args[1])
        return (weight, call.attrs.out_dtype) if weight is not None and weight.is_static and _rank(call) == 2 else None

    def product(self, calls: Branch) -> Call:
        """The batched product of the stacked weights and as many copies of the tensor."""
        data, weights = (_stacked([call.args[place] for call in calls]) for place in (0, 1))
        op = get_op("nn.batch_matmul")
        attrs = op.bind_attrs({"transpose_a": False, "transpose_b": True, "out_dtype": calls[0].attrs.out_dtype})
        return Call(op, [data, weights], attrs, span=calls[0].span)

    def follow(self, whole: Expr, before: Branch, calls: Branch, at: int) -> Call | None:
        """The same call, with its other operands stacked."""
        first = calls[0]
        assert isinstance(first.op, Op)
        if not first.op.elementwise or any(_type(call) is None or _rank(call) != 2 for call in calls):
            return None
        args: list[Expr] = []
        for place in range(len(first.args)):
            given = [call.args[place] for call in calls]
            types = {_type(arg) for arg in given}
            if place != at and (len(types) > 1 or None in types):
                return None
            args.append(whole if place == at else _stacked([_matrix(arg) for arg in given]))
        return Call(first.op, args, first.attrs, span=first.span)

    def parts(self, whole: Expr, calls: Branch) -> Sequence[Expr]:
        """The fields of a split, each without the axis of the stack."""
        split = call_op("split", whole, indices_or_sections=len(calls), axis=0)
        return [call_op("squeeze", TupleGetItem(split, place), axis=(0,)) for place in range(len(calls))]


class ParallelBranches(FunctionPass):
    """Combines calls on one tensor, if there are at least `min_num_branches`, and the elementwise operators and biases that follow every
    call."""

    def __init__(self, name: str, combination: Combination, min_num_branches: int) -> None:
        self.info = PassInfo(4, name, ["InferType"], provides=("types",), preserves=("types",))
        self.combination = combination
        self.min_num_branches = min_num_branches

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Combines the groups of a function, one after the other."""
        while (made := self._combine_one(func)) is not func:
            func = infer_type(made)
        return func

    def _combine_one(self, func: Function) -> Function:
        uses: dict[int, list[Expr]] = {}
        for node in post_order(func, into=lambda part: not is_sealed(part)):
            for part in children(node):
                uses.setdefault(id(part), []).append(node)
        for group in self._groups(func, uses):
            found = self._combined(group)
            if found:
                return rewrite(func, lambda old, new, found=found: found.get(id(old), new))  # type: ignore[misc]  # a lambda with a default
        return func

    def _groups(self, func: Function, uses: Mapping[int, Sequence[Expr]]) -> Iterator[Sequence[Branch]]:
        """The groups with enough branches, in program order. Excludes calls in branches of `If`, lets and inner functions."""
        dataflow = post_order(func.body, into=lambda part: not isinstance(part, (Function, If, Let, Match)))
        inside = set(map(id, dataflow))
        groups: dict[Hashable, list[Branch]] = {}
        for node in dataflow:
            if isinstance(node, Call) and node.op is self.combination.op:
                key = self.combination.key(node)
                if key is not None:
                    groups.setdefault((id(node.args[0]), key), []).append(_branch(node, uses, inside))
        return (group for group in groups.values() if len(group) >= self.min_num_branches)

    def _combined(self, group: Sequence[Branch]) -> Mapping[int, Expr]:
        """The replacement of the last combined call of each branch, by identity; empty if one branch needs the result of another."""
        products = [branch[0] for branch in group]
        if _depends(products, [arg for call in products for arg in call.args]):
            return {}
        combination = copy.copy(self.combination)  # a copy, since it stores the sizes of the group, and passes may run in several threads
        whole, depth = combination.product(products), 1
        while depth < min(map(len, group)):
            before, calls = ([branch[at] for branch in group] for at in (depth - 1, depth))
            place = _place(before, calls)
            if place is None or _depends([*products, *before], [arg for call in calls for at, arg in enumerate(call.args) if at != place]):
                break
            following = combination.follow(whole, before, calls, place)
            if following is None:
                break
            whole, depth = following, depth + 1
        last = [branch[depth - 1] for branch in group]
        return {id(call): part for call, part in zip(last, combination.parts(whole, last), strict=True)}


def _branch(call: Call, uses: Mapping[int, Sequence[Expr]], inside: set[int]) -> Branch:
    found = [call]
    while len(following := uses.get(id(found[-1]), ())) == 1:
        user = following[0]
        if not isinstance(user, Call) or not isinstance(user.op, Op) or user.op.pattern > _BROADCAST or id(user) not in inside:
            break
        found.append(user)
    return found


def _place(before: Branch, calls: Branch) -> int | None:
    """The operand position of the preceding tensor in each call; None if the calls are not alike."""
    first = calls[0]
    place = next(at for at, arg in enumerate(first.args) if arg is before[0])
    alike = all((call.op, call.attrs, len(call.args)) == (first.op, first.attrs, len(first.args)) for call in calls)
    return place if alike and all(call.args[place] is last for last, call in zip(before, calls, strict=True)) else None


def _depends(calls: Sequence[Call], operands: Sequence[Expr]) -> bool:
    """True if one of the operands needs one of the calls."""
    return not {id(call) for call in calls}.isdisjoint(map(id, post_order(*operands)))


def _type(expr: Expr) -> TensorType | None:
    found = expr.checked_type
    return found if isinstance(found, TensorType) else None


def _rank(expr: Expr) -> int:
    found = _type(expr)
    assert found is not None
    return found.ndim


def _size(expr: Expr, axis: int) -> int:
    """The size of an axis; -1 where it is unknown or there is no such axis."""
    found = _type(expr)
    size = found.shape[axis] if found is not None and -found.ndim <= axis < found.ndim else None
    return size if isinstance(size, int) else -1


def _without(type_: TensorType, axis: int) -> tuple[object, ...]:
    return (*type_.shape[:axis], *type_.shape[axis + 1 :])


def _concatenated(given: Sequence[Expr], axis: int) -> Expr:
    return call_op("concatenate", Tuple(given), axis=axis)


def _stacked(given: Sequence[Expr]) -> Expr:
    return call_op("stack", Tuple(given), axis=0)


def _repeated(arg: Expr, count: int, axis: int) -> Expr:
    return call_op("repeat", arg, repeats=count, axis=axis)


def _matrix(arg: Expr) -> Expr:
    """The operand with leading axes of size 1, so that it is a matrix."""
    missing = 2 - _rank(arg)
    return call_op("expand_dims", arg, axis=0, num_newaxis=missing) if missing else arg

"""Unification of types with holes, and relations between types that are solved once their operands are known."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from passat.ir.attrs import Attrs
from passat.ir.infer_error import InferError
from passat.ir.op import OpTypeError
from passat.ir.registered_op import RELATIONS
from passat.ir.types import (
    FuncType,
    IncompleteType,
    RefType,
    TupleType,
    Type,
    TypeCall,
    TypeRelation,
    TypeVar,
    compatible,
    map_parts,
    refine,
    substitute,
    type_parts,
)
from passat.ir.walks import preorder


class _Delayed(NamedTuple):
    """A result that is computed once the types of the operands are known."""

    operands: Sequence[Type]
    compute: Callable[[list[Type]], Type | None]
    result: Type


_Task: TypeAlias = TypeRelation | _Delayed


class TypeSolver:
    """Finds the types of incomplete types.

    Each `IncompleteType` object is a separate hole, even though all incomplete types are equal.

    >>> from passat.ir.types import TensorType
    >>> solver, hole = TypeSolver(), IncompleteType()
    >>> solver.unify(TupleType([hole, hole]), TupleType([TensorType((2,)), IncompleteType()]))
    (Tensor[(2,), float32], Tensor[(2,), float32])
    >>> solver.resolve(hole)
    Tensor[(2,), float32]
    """

    def __init__(self) -> None:
        self._bound: dict[int, Type] = {}
        """Types of holes, and of generic function types that were unified with others, by identity."""
        self._keep: list[Type] = []
        """Objects whose identity is in use."""
        self._ready: deque[_Task] = deque()
        self._waiting: dict[int, list[_Task]] = {}
        """Relations and results that need the type of a hole, by its identity."""
        self._unsolved: dict[int, _Task] = {}

    def unify(self, a: Type, b: Type) -> Type:
        """Makes two types equal by filling holes, and returns the type. Raises InferError if they differ."""
        pairs = [(a, b)]
        while pairs:
            left, right = (self._find(side) for side in pairs.pop())
            if left is right:
                continue
            if isinstance(left, IncompleteType) and isinstance(right, IncompleteType) and left.kind is not right.kind:
                raise InferError(f"an unknown type of the kind {left.kind.name} cannot be one of the kind {right.kind.name}")
            if isinstance(left, IncompleteType):
                self._fill(left, right)
            elif isinstance(right, IncompleteType):
                self._fill(right, left)
            else:
                pairs += reversed(self._parts(left, right))
        return refine(self.resolve(a), self.resolve(b))

    def resolve(self, type_: Type) -> Type:
        """Returns a type with the known types in place of its holes. Holes that are known to be equal become the same hole."""
        found = self._find(type_)
        return map_parts(found, self.resolve)

    def add_constraint(self, relation: TypeRelation) -> None:
        """Adds a relation, which `solve` solves. Raises InferError if there is no relation of its name."""
        name = "" if relation.func is None else relation.func.name.rpartition(".")[2]
        if name not in RELATIONS:
            raise InferError(f"there is no type relation {name!r}; it must be one of {', '.join(RELATIONS)}")
        self._keep.append(relation)
        self._unsolved[id(relation)] = relation
        self._ready.append(relation)

    def delay(self, operands: Sequence[Type], compute: Callable[[list[Type]], Type | None]) -> Type:
        """Returns a hole. `solve` fills it with what `compute` makes of the types of the operands, once they have no holes, unless None."""
        task = _Delayed(operands, compute, IncompleteType())
        self._unsolved[id(task)] = task
        self._ready.append(task)
        return task.result

    def solve(self) -> bool:
        """Solves the relations whose operands are known. Returns whether all are solved. Raises InferError if one does not hold."""
        while self._ready:
            task = self._ready.popleft()
            if id(task) not in self._unsolved:
                continue
            if isinstance(task, TypeRelation):
                self._solve_one(task)
                continue
            operands = self._known(task.operands, task)
            if operands is not None:
                del self._unsolved[id(task)]
                result = task.compute(operands)
                if result is not None:
                    self.unify(task.result, result)
        return not self._unsolved

    def _known(self, operands: Sequence[Type], task: _Task) -> list[Type] | None:
        """The types of operands. If one has a hole, the task waits for it, and the result is None."""
        found = [self.resolve(operand) for operand in operands]
        missing = next((hole for operand in found for hole in holes(operand)), None)
        if missing is None:
            return found
        self._waiting.setdefault(id(missing), []).append(task)
        return None

    def _solve_one(self, relation: TypeRelation) -> None:
        assert relation.func is not None
        name = relation.func.name.rpartition(".")[2]
        if name == "Identity":  # the only relation that also determines its operands
            for other in relation.args[1:]:
                self.unify(relation.args[0], other)
        else:
            operands = self._known(relation.args[: relation.num_inputs], relation)
            if operands is None:
                return
            result = _result(name, operands, relation)
            for output in relation.args[relation.num_inputs :]:
                self.unify(output, result)
        del self._unsolved[id(relation)]

    def _find(self, type_: Type) -> Type:
        """Returns the type that a hole or a generic function type was unified with."""
        path = []
        while id(type_) in self._bound:
            path.append(id(type_))
            type_ = self._bound[id(type_)]
        for passed in path[:-1]:
            self._bound[passed] = type_
        return type_

    def _fill(self, hole: IncompleteType, with_: Type) -> None:
        if any(inner is hole for inner in holes(self.resolve(with_))):
            raise InferError(f"a type would contain itself: an unknown type is equal to {with_!r}, in which it occurs")
        self._bind(hole, with_)
        self._ready += self._waiting.pop(id(hole), ())

    def _bind(self, type_: Type, to: Type) -> None:
        self._keep.append(type_)
        self._bound[id(type_)] = to

    def _parts(self, a: Type, b: Type) -> Sequence[tuple[Type, Type]]:
        """The parts of two types that must be equal in pairs. Raises InferError if the types themselves differ."""
        if isinstance(a, TupleType) and isinstance(b, TupleType) and len(a.fields) == len(b.fields):
            return list(zip(a.fields, b.fields, strict=True))
        if isinstance(a, TypeCall) and isinstance(b, TypeCall) and len(a.args) == len(b.args):
            return [(a.func, b.func), *zip(a.args, b.args, strict=True)]
        if isinstance(a, RefType) and isinstance(b, RefType):
            return [(a.value, b.value)]
        if isinstance(a, TypeRelation) and isinstance(b, TypeRelation) and a.func == b.func and len(a.args) == len(b.args):
            return list(zip(a.args, b.args, strict=True))
        if isinstance(a, FuncType) and isinstance(b, FuncType):
            counts = [(len(side.arg_types), len(side.type_constraints)) for side in (a, b)]
            if counts[0] == counts[1]:
                return self._parts_of_functions(a, b)
        if not compatible(a, b):
            raise InferError(f"the types {self.resolve(a)!r} and {self.resolve(b)!r} differ")
        return []

    def _parts_of_functions(self, a: FuncType, b: FuncType) -> Sequence[tuple[Type, Type]]:
        """Instantiates the function with more type parameters: its first ones are the other's, and the rest are holes."""
        if a.type_params or b.type_params:
            general, kept = (a, b) if len(a.type_params) >= len(b.type_params) else (b, a)
            self._bind(general, kept)
            a, b = instantiated(general, kept.type_params), kept
        mine, theirs = ((side.ret_type, *side.arg_types, *side.type_constraints) for side in (a, b))
        return list(zip(mine, theirs, strict=True))


def instantiated(general: FuncType, given: Sequence[TypeVar] = ()) -> FuncType:
    """Instantiates a generic function type: the first type parameters become those given, the others holes."""
    instance: dict[TypeVar, Type] = dict(zip(general.type_params, given, strict=False))
    instance |= {param: IncompleteType(param.kind) for param in general.type_params[len(given) :]}
    found = substitute(FuncType(general.arg_types, general.ret_type, (), general.type_constraints), instance)
    assert isinstance(found, FuncType)
    return found


def _result(name: str, operands: Sequence[Type], relation: TypeRelation) -> Type:
    attrs = relation.attrs if isinstance(relation.attrs, Attrs) else Attrs()
    try:
        return RELATIONS[name](operands, attrs)
    except (OpTypeError, TypeError, ValueError) as error:
        raise InferError(f"the relation {name} does not hold for {', '.join(map(repr, operands))}: {error}") from error


def holes(type_: Type) -> list[IncompleteType]:
    """The holes of a type."""
    return [part for part in preorder([type_], type_parts) if isinstance(part, IncompleteType)]

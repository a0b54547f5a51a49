"""Operators that are declared step by step, like TVM's `relay.op.register`; `define_op` declares them in one step."""

from collections.abc import Callable, Sequence
from typing import Any as AnyValue

from passat.ir.attrs import Attrs
from passat.ir.op import Op, OpTypeError, add_op, find_op, register_op_attr
from passat.ir.passat_error import PassatError
from passat.ir.shape import broadcast
from passat.ir.types import TensorType, Type, tensor_type

TypeRel = Callable[[Sequence[Type], Attrs], Type]
"""A type relation in TVM's form: maps the types of the operands and the attributes to the type of the result."""


class OpRegistrationError(PassatError, ValueError, RuntimeError):
    """An operator of this name exists already, or is not being registered step by step."""


class RegisteredOp(Op):
    """An operator whose number of operands, type relation and attributes are set one by one. It is opaque until then."""

    __slots__ = ("_level", "arguments")

    def __init__(self, name: str, description: str = "") -> None:
        super().__init__(name, _undeclared, doc=description)
        self.is_own = False
        self._level = 10
        self.arguments: list[tuple[str, str, str]] = []
        """Name, type and description of each operand."""

    @property
    def support_level(self) -> int:
        """The level set by `set_support_level`."""
        return self._level

    def set_num_inputs(self, n: int) -> None:
        """Sets the number of operands."""
        self.variadic, self.arity = False, n
        self.operand_names = tuple(f"data_{i}" for i in range(n))

    def add_argument(self, name: str, type: str, description: str) -> None:  # TVM's parameters
        """Describes the next operand."""
        self.arguments.append((name, type, description))

    def set_support_level(self, level: int) -> None:
        """Sets the level of support, by which TVM groups its operators."""
        self._level = level

    def set_attrs_type_key(self, key: str) -> None:
        """Accepts the class of the attributes and ignores it: attributes are `Attrs` with any names."""

    def add_type_rel(self, rel_name: str, type_rel_func: TypeRel | None = None) -> None:
        """Sets the type relation: a function, or one of `Identity` and `Broadcast` by name. Raises OpRegistrationError for an unknown
        name."""
        if type_rel_func is None and rel_name not in RELATIONS:
            raise OpRegistrationError(
                f"there is no type relation {rel_name!r}; pass a function, or one of the names {' and '.join(RELATIONS)}"
            )
        relation = type_rel_func or RELATIONS[rel_name]
        self.relation = lambda *types, **attrs: relation(types, Attrs(attrs))
        self._cache.clear()


def register(op_name: str, describe: str = "") -> RegisteredOp:
    """Declares an operator by name. `Op.get` then finds it. Raises OpRegistrationError if the name is taken."""
    if find_op(op_name) is not None:
        raise OpRegistrationError(f"Operator {op_name} is registered before; an operator has one declaration")
    made = RegisteredOp(op_name, describe)
    add_op(made)
    return made


def register_pattern(op_name: str, pattern: int, level: int = 10) -> None:
    """Sets the kind of an operator in fusion (`OpPattern`)."""
    Op.get(op_name).set_attr("TOpPattern", pattern, level)


def register_stateful(op_name: str, stateful: bool, level: int = 10) -> None:
    """Declares whether calls of an operator have side effects. Raises OpRegistrationError for an operator that was not declared by
    `register`."""
    op = Op.get(op_name)
    if not isinstance(op, RegisteredOp):
        raise OpRegistrationError(f"{op_name} declares already whether it is stateful")
    op.stateful = stateful
    op.set_attr("TOpIsStateful", stateful, level)


def register_alter_op_layout(op_name: str, alter_layout: AnyValue = None, level: int = 10) -> AnyValue:
    """Registers a function that AlterOpLayout calls for an operator; without one, returns a decorator."""
    return register_op_attr(op_name, "FTVMAlterOpLayout", alter_layout, level)


def register_legalize(op_name: str, legal_op: AnyValue = None, level: int = 10) -> AnyValue:
    """Registers a function that Legalize calls for an operator; without one, returns a decorator."""
    return register_op_attr(op_name, "FTVMLegalize", legal_op, level)


def _undeclared(*types: Type, **attrs: AnyValue) -> Type:
    raise OpTypeError("has no type relation yet; add one with add_type_rel")


def _identity(types: Sequence[Type], attrs: Attrs) -> Type:
    if len(set(types)) != 1:
        raise OpTypeError("takes operands of one type")
    return types[0]


def _broadcast(types: Sequence[Type], attrs: Attrs) -> Type:
    first, *rest = [tensor_type(type_) for type_ in types]
    for other in rest:
        if other.dtype != first.dtype:
            raise OpTypeError(f"operands have different element types {first.dtype} and {other.dtype}; cast one")
        first = TensorType(broadcast(first.shape, other.shape), first.dtype)
    return first


RELATIONS: dict[str, TypeRel] = {"Identity": _identity, "Broadcast": _broadcast}

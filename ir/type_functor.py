"""Visitors and mutators of types, with Relay's interface: a method for each kind of type, and `visit` to go on. Types are trees."""

from collections.abc import Callable, Iterable
from typing import Final, Generic, cast
from typing import TypeVar as PythonTypeVar

from passat.ir.types import FuncType, GlobalTypeVar, IncompleteType, RefType, TensorType, TupleType, Type, TypeCall, TypeVar

T = PythonTypeVar("T")


class TypeFunctor(Generic[T]):
    """The base of visitors of types. Each method raises NotImplementedError until a subclass says what to do with its kind of type."""

    def visit(self, typ: Type) -> T:
        """The result for a type. Raises TypeError for what is none."""
        for kind in type(typ).__mro__:
            method = _METHODS.get(kind)
            if method is not None:
                return cast("Callable[[Type], T]", getattr(self, method))(typ)
        raise TypeError(f"{type(typ).__name__} is no kind of type that can be visited")

    def visit_type_var(self, var: TypeVar) -> T:
        """A type parameter."""
        raise NotImplementedError

    def visit_incomplete_type(self, typ: IncompleteType) -> T:
        """A type that nobody knows."""
        raise NotImplementedError

    def visit_tensor_type(self, typ: TensorType) -> T:
        """The type of a tensor."""
        raise NotImplementedError

    def visit_func_type(self, typ: FuncType) -> T:
        """The type of a function."""
        raise NotImplementedError

    def visit_tuple_type(self, typ: TupleType) -> T:
        """The type of a tuple."""
        raise NotImplementedError

    def visit_ref_type(self, typ: RefType) -> T:
        """The type of a reference."""
        raise NotImplementedError

    def visit_global_type_var(self, var: GlobalTypeVar) -> T:
        """The name of an algebraic data type."""
        raise NotImplementedError

    def visit_type_call(self, typ: TypeCall) -> T:
        """A type constructor applied to types."""
        raise NotImplementedError


class TypeVisitor(TypeFunctor[None]):
    """Visits a type and all that it consists of. Subclasses override what they want to see and call `super()`."""

    def _visit_all(self, types: Iterable[Type]) -> None:
        for typ in types:
            self.visit(typ)

    def visit_type_var(self, var: TypeVar) -> None:
        """Has no parts."""

    def visit_incomplete_type(self, typ: IncompleteType) -> None:
        """Has no parts."""

    def visit_tensor_type(self, typ: TensorType) -> None:
        """Has no parts."""

    def visit_func_type(self, typ: FuncType) -> None:
        """Visits types of arguments, of the result, and type parameters."""
        self._visit_all((*typ.arg_types, typ.ret_type, *typ.type_params))

    def visit_tuple_type(self, typ: TupleType) -> None:
        """Visits the fields."""
        self._visit_all(typ.fields)

    def visit_ref_type(self, typ: RefType) -> None:
        """Visits the type of the value."""
        self.visit(typ.value)

    def visit_global_type_var(self, var: GlobalTypeVar) -> None:
        """Has no parts."""

    def visit_type_call(self, typ: TypeCall) -> None:
        """Visits the constructor and what it is applied to."""
        self._visit_all((typ.func, *typ.args))


class TypeMutator(TypeFunctor[Type]):
    """Rebuilds a type from its visited parts."""

    def visit_type_var(self, var: TypeVar) -> Type:
        """The type parameter."""
        return var

    def visit_incomplete_type(self, typ: IncompleteType) -> Type:
        """The type."""
        return typ

    def visit_tensor_type(self, typ: TensorType) -> Type:
        """The type."""
        return typ

    def visit_func_type(self, typ: FuncType) -> Type:
        """The function type of its visited parts. Raises TypeError where a type parameter becomes anything else."""
        params = []
        for param in map(self.visit, typ.type_params):
            if not isinstance(param, TypeVar):
                raise TypeError(f"a type parameter of {typ} became {param}, which is none")
            params.append(param)
        return FuncType(map(self.visit, typ.arg_types), self.visit(typ.ret_type), params)

    def visit_tuple_type(self, typ: TupleType) -> Type:
        """The tuple type of its visited fields."""
        return TupleType(map(self.visit, typ.fields))

    def visit_ref_type(self, typ: RefType) -> Type:
        """The reference to the visited type."""
        return RefType(self.visit(typ.value))

    def visit_global_type_var(self, var: GlobalTypeVar) -> Type:
        """The name."""
        return var

    def visit_type_call(self, typ: TypeCall) -> Type:
        """The visited constructor applied to visited types."""
        return TypeCall(self.visit(typ.func), map(self.visit, typ.args))


_METHODS: Final[dict[type, str]] = {
    TypeVar: "visit_type_var",
    IncompleteType: "visit_incomplete_type",
    TensorType: "visit_tensor_type",
    FuncType: "visit_func_type",
    TupleType: "visit_tuple_type",
    RefType: "visit_ref_type",
    GlobalTypeVar: "visit_global_type_var",
    TypeCall: "visit_type_call",
}

"""Visitors and mutators of types with Relay's interface: one method per kind of type, and `visit` to recurse. Types are trees."""

from collections.abc import Callable, Iterable
from typing import Any as AnyValue
from typing import Final, Generic, cast
from typing import TypeVar as PythonTypeVar

from passat.ir.module import TypeData
from passat.ir.types import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeRelation,
    TypeVar,
)

T = PythonTypeVar("T")


class TypeFunctor(Generic[T]):
    """Base class of type visitors. Each method raises NotImplementedError unless a subclass overrides it."""

    def visit(self, typ: Type | TypeData) -> T:
        """Returns the result for a type or the definition of one. Raises TypeError for other values."""
        for kind in type(typ).__mro__:
            method = _METHODS.get(kind)
            if method is not None:
                return cast("Callable[[Type | TypeData], T]", getattr(self, method))(typ)
        raise TypeError(f"{type(typ).__name__} is not a kind of type that can be visited")

    def visit_type_var(self, var: TypeVar, /) -> T:
        """A type parameter."""
        raise NotImplementedError

    def visit_incomplete_type(self, typ: IncompleteType, /) -> T:
        """An unknown type."""
        raise NotImplementedError

    def visit_tensor_type(self, typ: TensorType, /) -> T:
        """The type of a tensor."""
        raise NotImplementedError

    def visit_func_type(self, typ: FuncType, /) -> T:
        """The type of a function."""
        raise NotImplementedError

    def visit_tuple_type(self, typ: TupleType, /) -> T:
        """The type of a tuple."""
        raise NotImplementedError

    def visit_ref_type(self, typ: RefType, /) -> T:
        """The type of a reference."""
        raise NotImplementedError

    def visit_global_type_var(self, var: GlobalTypeVar, /) -> T:
        """The name of an algebraic data type."""
        raise NotImplementedError

    def visit_type_call(self, typ: TypeCall, /) -> T:
        """A type constructor applied to types."""
        raise NotImplementedError

    def visit_type_relation(self, rel: TypeRelation, /) -> T:
        """A constraint on types."""
        raise NotImplementedError

    def visit_type_data(self, data: TypeData, /) -> T:
        """The definition of an algebraic data type."""
        raise NotImplementedError


class TypeVisitor(TypeFunctor[None]):
    """Visits a type and its parts. Subclasses override the methods they need and call `super()`."""

    def _visit_all(self, types: Iterable[Type]) -> None:
        for typ in types:
            self.visit(typ)

    def visit_type_var(self, var: TypeVar, /) -> None:
        """Has no parts."""

    def visit_incomplete_type(self, typ: IncompleteType, /) -> None:
        """Has no parts."""

    def visit_tensor_type(self, typ: TensorType, /) -> None:
        """Has no parts."""

    def visit_func_type(self, typ: FuncType, /) -> None:
        """Visits the argument types, the result type, the type parameters and the constraints."""
        self._visit_all((*typ.arg_types, typ.ret_type, *typ.type_params, *typ.type_constraints))

    def visit_tuple_type(self, typ: TupleType, /) -> None:
        """Visits the fields."""
        self._visit_all(typ.fields)

    def visit_ref_type(self, typ: RefType, /) -> None:
        """Visits the type of the value."""
        self.visit(typ.value)

    def visit_global_type_var(self, var: GlobalTypeVar, /) -> None:
        """Has no parts."""

    def visit_type_call(self, typ: TypeCall, /) -> None:
        """Visits the constructor and its arguments."""
        self._visit_all((typ.func, *typ.args))

    def visit_type_relation(self, rel: TypeRelation, /) -> None:
        """Visits the arguments."""
        self._visit_all(rel.args)

    def visit_type_data(self, data: TypeData, /) -> None:
        """Visits the name, the type parameters, and the types of the constructors' fields."""
        self._visit_all((data.header, *data.type_vars, *(part for made in data.constructors for part in made.inputs)))


class TypeMutator(TypeFunctor[AnyValue]):
    """Rebuilds a type from its visited parts. Definitions of types are returned unchanged."""

    def visit_type_var(self, var: TypeVar, /) -> Type:
        """Returns the type parameter."""
        return var

    def visit_incomplete_type(self, typ: IncompleteType, /) -> Type:
        """Returns the type."""
        return typ

    def visit_tensor_type(self, typ: TensorType, /) -> Type:
        """Returns the type."""
        return typ

    def visit_func_type(self, typ: FuncType, /) -> Type:
        """Rebuilds a function type. Raises TypeError if a type parameter becomes a different kind of type."""
        params = []
        for param in map(self.visit, typ.type_params):
            if not isinstance(param, TypeVar):
                raise TypeError(f"a type parameter of {typ} became {param}, which is not a type parameter")
            params.append(param)
        return FuncType(map(self.visit, typ.arg_types), self.visit(typ.ret_type), params, map(self.visit, typ.type_constraints))

    def visit_tuple_type(self, typ: TupleType, /) -> Type:
        """Rebuilds a tuple type from its visited fields."""
        return TupleType(map(self.visit, typ.fields))

    def visit_ref_type(self, typ: RefType, /) -> Type:
        """Rebuilds a reference type from the visited type."""
        return RefType(self.visit(typ.value))

    def visit_global_type_var(self, var: GlobalTypeVar, /) -> Type:
        """Returns the name."""
        return var

    def visit_type_call(self, typ: TypeCall, /) -> Type:
        """Rebuilds an applied type from the visited constructor and arguments."""
        return TypeCall(self.visit(typ.func), map(self.visit, typ.args))

    def visit_type_relation(self, rel: TypeRelation, /) -> Type:
        """Rebuilds a constraint from the visited arguments."""
        return TypeRelation(rel.func, map(self.visit, rel.args), rel.num_inputs, rel.attrs)

    def visit_type_data(self, data: TypeData, /) -> TypeData:
        """Returns the definition."""
        return data


_METHODS: Final[dict[type, str]] = {
    TypeVar: "visit_type_var",
    IncompleteType: "visit_incomplete_type",
    TensorType: "visit_tensor_type",
    FuncType: "visit_func_type",
    TupleType: "visit_tuple_type",
    RefType: "visit_ref_type",
    GlobalTypeVar: "visit_global_type_var",
    TypeCall: "visit_type_call",
    TypeRelation: "visit_type_relation",
    TypeData: "visit_type_data",
}

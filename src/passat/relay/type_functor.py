"""`relay.type_functor`: visitors and mutators of types."""

from passat.ir.type_functor import TypeFunctor, TypeMutator, TypeVisitor

__all__ = ["TypeFunctor", "TypeMutator", "TypeVisitor"]

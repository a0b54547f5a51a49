"""Functions as values: eta expansion of constructors and global functions, and lambda lifting of nested functions."""

from collections.abc import Mapping

from passat.ir.analysis import free_vars
from passat.ir.equality import structural_equal
from passat.ir.expr import Call, Constructor, Expr, Function, GlobalVar, Let, Var
from passat.ir.hashing import structural_hash
from passat.ir.inline import instantiated
from passat.ir.module import IRModule
from passat.ir.sealed import is_sealed
from passat.ir.traverse import children, post_order, with_children
from passat.ir.type_functor import TypeVisitor
from passat.ir.type_variables import free_type_vars
from passat.ir.types import FuncType, IncompleteType, Type


def eta_expand(expr: Expr, *, constructors: bool, functions: Mapping[str, Type]) -> Expr:
    """Wraps constructors, and global functions of the given types, that are used as values in functions that call them.

    >>> from passat.ir.text import parse_expr
    >>> from passat.ir.types import TensorType
    >>> scalar = TensorType((), "int8")
    >>> eta_expand(parse_expr("fn () { @f }"), constructors=False, functions={"f": FuncType([scalar], scalar)})
    fn () {
      fn (%x: int8) -> int8 {
        @f(%x)
      }
    }
    """
    done: dict[Expr, Expr] = {}
    order = post_order(expr)
    for node in order:
        callee = node.op if isinstance(node, Call) else None
        parts = children(node)
        made = []
        for part in parts:
            type_: Type | None = None
            if part is not callee and isinstance(part, Constructor) and constructors:
                type_ = FuncType(part.inputs, part.made, part.type_vars)
            elif part is not callee and isinstance(part, GlobalVar):
                type_ = functions.get(part.name_hint)
            made.append(_calling(part, type_) if isinstance(type_, FuncType) else done[part])
        done[node] = with_children(node, made)
    return done[expr]


def _calling(callee: Expr, type_: FuncType) -> Function:
    """A function that calls another with its own parameters."""
    params = [Var("x", param) for param in type_.arg_types]
    return Function(params, Call(callee, params), type_.ret_type, type_.type_params)


def lambda_lift(module: IRModule) -> IRModule:
    """Makes each nested function a global function.

    If it captures variables, it gets the attribute `Closure`, and a global function that takes the variables returns it. Equal functions
    are merged. Sealed functions (`passat.ir.sealed`) stay, and so do lifted ones. Returns the same module if there are no nested functions.
    """
    lifter = _Lifter(module)
    for var, function in module.functions.items():
        if isinstance(function, Function) and "Compiler" not in function.attrs:
            lifter.lift(var, function)
    return lifter.result()


class _Lifter:
    def __init__(self, module: IRModule) -> None:
        self._module = module
        self._changed: dict[GlobalVar, Function] = {}
        self._lifted: dict[int, list[tuple[GlobalVar, Function]]] = {}
        self._added: dict[GlobalVar, Function] = {}

    def result(self) -> IRModule:
        """The module with the lifted functions."""
        if not self._changed:
            return self._module
        made = self._module.shallow_copy()
        made.functions.update(self._changed)
        made.functions.update(self._added)
        return made

    def lift(self, var: GlobalVar, root: Function) -> None:
        """Lifts the functions in one function of the module."""
        order = post_order(root)
        named = {node.value: node.var for node in order if isinstance(node, Let) and isinstance(node.value, Function)}
        done: dict[Expr, Expr] = {}
        for node in order:
            made = with_children(node, [done[part] for part in children(node)])
            if (
                isinstance(made, Function)
                and node is not root
                and not is_sealed(made)
                and not (node is root.body and "Closure" in made.attrs)
            ):
                assert isinstance(node, Function)  # rebuilt from a function
                made = self._lift(made, named.get(node), node._checked_type)
            done[node] = made
        made = done[root]
        assert isinstance(made, Function)  # rebuilt from a function
        if made is not root:
            self._changed[var] = made

    def _lift(self, function: Function, own: Var | None, type_: Type | None) -> Expr:
        """Adds a function to the module, and returns the expression that replaces it. `own` is the variable that it calls itself by."""
        captured = [var for var in free_vars(function) if var is not own]
        copies = {var: Var(var.name_hint, var.type_annotation or var._checked_type) for var in captured}
        result = type_ if isinstance(type_, FuncType) and _is_known(type_) else None
        ret_type = function.ret_type or (None if result is None else result.ret_type)
        name = GlobalVar(self._name())
        again: Expr = Call(name, copies.values()) if captured else name
        body = instantiated(function.body, {**copies, **({} if own is None else {own: again})})
        attrs = dict(function.attrs) | ({"Closure": 1} if captured else {})
        made = Function(function.params, body, ret_type, function.type_params, attrs, function.span)
        if captured:
            made = Function(copies.values(), made, result)
        unbound = free_type_vars(made)
        if unbound:
            made = Function(made.params, made.body, made.ret_type, [*made.type_params, *unbound], made.attrs, made.span)
        known = self._known(made)
        if known is None:
            self._added[name] = made
            self._lifted.setdefault(structural_hash(made), []).append((name, made))
            known = name
        return Call(known, captured) if captured else known

    def _known(self, function: Function) -> GlobalVar | None:
        """The global function that an equal function was lifted to."""
        found = self._lifted.get(structural_hash(function), [])
        return next((name for name, other in found if structural_equal(function, other)), None)

    def _name(self) -> str:
        number = len(self._added)
        while (name := f"lifted_name{number}") in self._module or any(other.name_hint == name for other in self._added):
            number += 1
        return name


class _Unknown(TypeVisitor):
    """Whether a type has an unknown part."""

    def __init__(self) -> None:
        self.found = False

    def visit_incomplete_type(self, typ: IncompleteType) -> None:
        self.found = True


def _is_known(type_: Type) -> bool:
    unknown = _Unknown()
    unknown.visit(type_)
    return not unknown.found

"""Defunctionalization: functions as values become values of data types, which functions of the module apply.

After "Definitional Interpreters for Higher-Order Programming Languages", Reynolds, 1972. Functions with type parameters get one copy for
each choice of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from passat.ir.analysis import free_vars
from passat.ir.anf import to_anf
from passat.ir.expr import BaseFunc, Call, Clause, Constructor, Expr, Function, GlobalVar, Let, Match, PatternConstructor, PatternVar, Var
from passat.ir.functor import ExprMutator
from passat.ir.infer import infer_module, infer_type
from passat.ir.infer_error import InferError
from passat.ir.inline import instantiated
from passat.ir.module import IRModule, TypeData
from passat.ir.op import Op
from passat.ir.passat_error import PassatError
from passat.ir.sealed import is_sealed
from passat.ir.traverse import children, evaluation_parts, post_order, with_children, with_pattern_vars
from passat.ir.type_functor import TypeMutator, TypeVisitor
from passat.ir.type_solver import TypeSolver, holes
from passat.ir.type_solver import instantiated as instance_of
from passat.ir.types import FuncType, GlobalTypeVar, IncompleteType, Type, TypeVar, occurring, substitute


class DefunctionalizationError(PassatError, ValueError, RuntimeError):
    """A program uses functions in a way that has no first-order form."""


def defunctionalized(function: Function, module: IRModule) -> Function:
    """The first-order form of a function, whose types are known.

    Adds to the module a data type for each type of functions, with a constructor for each function of this type that is a value, and a
    function that applies its values; and first-order copies of the functions that are called. Raises DefunctionalizationError for a
    function that takes or returns functions itself, and for operators that take functions.
    """
    return _Defunctionalizer(module).run(function)


@dataclass(eq=False)
class _Encoding:
    """The data type for functions of one type, and what applies them."""

    header: GlobalTypeVar
    apply: GlobalVar
    params: list[Var]
    result: Type
    clauses: list[Clause] = field(default_factory=list)
    constructors: list[Constructor] = field(default_factory=list)
    known: dict[GlobalVar, Constructor] = field(default_factory=dict)

    def add(self, types: Sequence[Type]) -> Constructor:
        """A new constructor with fields of the given types."""
        made = Constructor(f"{self.header.name}{len(self.constructors)}", types, self.header)
        self.constructors.append(made)
        return made


class _Substituted(ExprMutator):
    """Substitutes types for type parameters in all annotations."""

    def __init__(self, types: Mapping[TypeVar, Type]) -> None:
        super().__init__()
        self._types = types

    def visit_type(self, typ: Type) -> Type:
        """The type for the given type parameters."""
        return substitute(typ, self._types)

    def visit_var(self, var: Var) -> Expr:
        """A variable whose type is inferred anew."""
        return Var(var.name_hint, None if var.type_annotation is None else self.visit_type(var.type_annotation), var.span)

    def visit_call(self, call: Call) -> Expr:
        """A call whose type is inferred anew."""
        type_args = map(self.visit_type, call._type_args)
        return Call(self.visit(call.op), map(self.visit, call.args), call.attrs, type_args, call.span)


class _HasFunctions(TypeVisitor):
    def __init__(self) -> None:
        self.found = False

    def visit_func_type(self, typ: FuncType) -> None:
        self.found = True


class _Defunctionalizer(TypeMutator):
    """Converts the functions that are reached, one after the other. As a mutator of types, it encodes types of functions."""

    def __init__(self, module: IRModule) -> None:
        super().__init__()
        self._module = infer_module(module)
        self._functions: dict[str, BaseFunc] = {var.name_hint: made for var, made in module.functions.items()}
        self._instances: dict[tuple[str, tuple[Type, ...]], GlobalVar] = {}
        self._pending: list[tuple[GlobalVar, Function, Mapping[TypeVar, Type]]] = []
        self._encodings: dict[Type, _Encoding] = {}
        self._vars: dict[Var, Var] = {}
        self._lifted: dict[Var, str] = {}
        """Generic function literals, which are converted like functions of the module, by their variables."""

    def run(self, function: Function) -> Function:
        """Converts a function, and what it calls."""
        type_ = infer_type(function).checked_type
        if not isinstance(type_, FuncType) or type_.type_params:
            raise DefunctionalizationError("a function with type parameters has no first-order form; call it with arguments of known types")
        if any(map(_has_functions, (*type_.arg_types, type_.ret_type))):
            raise DefunctionalizationError(f"a function of type {type_!r} takes or returns functions; only the functions that it calls may")
        made = self._converted(function, {})
        while self._pending:
            var, other, types = self._pending.pop()
            self._module[var] = self._converted(other, types)
        for encoding in self._encodings.values():
            self._module[encoding.header] = TypeData(encoding.header, (), encoding.constructors)
            body = Match(encoding.params[0], encoding.clauses)
            self._module[encoding.apply] = Function(encoding.params, body, encoding.result)
        return made

    def visit_func_type(self, typ: FuncType) -> Type:
        """The data type for functions of a type."""
        return self._encoding(typ).header

    def _encoding(self, type_: FuncType) -> _Encoding:
        if occurring(type_) or holes(type_):
            raise DefunctionalizationError(f"a value of type {type_!r} has no first-order form, as its type is not known entirely")
        if type_ not in self._encodings:
            number = len(self._encodings)
            header = GlobalTypeVar(self._free(f"Function{number}_"))
            made = self._encodings[type_] = _Encoding(header, GlobalVar(self._free(f"apply{number}")), [Var("f", header)], type_.ret_type)
            made.params += [Var("x", self.visit(arg)) for arg in type_.arg_types]
            made.result = self.visit(type_.ret_type)
        return self._encodings[type_]

    def _free(self, name: str) -> str:
        taken = {var.name_hint for var in self._module.functions} | {var.name for var in self._module.type_definitions}
        taken |= {var.name_hint for var in self._instances.values()} | set(self._functions)
        while name in taken:
            name += "_"
        return name

    def _converted(self, function: Function, types: Mapping[TypeVar, Type]) -> Function:
        """A function for given type parameters, in first-order form. Its nodes are visited parts first."""
        if types:
            made = _Substituted(types).visit(Function(function.params, function.body, function.ret_type, (), function.attrs))
            assert isinstance(made, Function)  # made from one
            function = made
        normal = infer_type(to_anf(infer_type(function)))
        order = post_order(normal.body, parts_of=evaluation_parts)
        owners: dict[Expr, Var] = {node.value: node.var for node in order if isinstance(node, Let) and isinstance(node.value, Function)}
        for literal, var in owners.items():
            if isinstance(literal, Function) and literal.type_params and not is_sealed(literal):
                if free_vars(literal):
                    raise DefunctionalizationError(
                        f"the function %{var.name_hint} has type parameters and uses variables around it; make it a global function"
                    )
                self._lifted[var] = self._free(f"lifted_{var.name_hint}{len(self._lifted)}")
                self._functions[self._lifted[var]] = literal
        done: dict[Expr, Expr] = {}
        for node in order:
            done[node] = self._node(node, done, owners)
        params = [self._var(param) for param in normal.params]
        result = None if normal.ret_type is None else self.visit(normal.ret_type)
        return Function(params, self._part(normal.body, done), result, (), normal.attrs, normal.span)

    def _node(self, node: Expr, done: Mapping[Expr, Expr], owners: Mapping[Expr, Var]) -> Expr:
        if isinstance(node, Var):
            return self._var(node)
        if isinstance(node, Call):
            return self._call(node, done)
        if isinstance(node, Function):
            return node if is_sealed(node) or node.type_params else self._literal(node, owners.get(node), done)
        if isinstance(node, Let):
            body = self._part(node.body, done)
            return body if node.var in self._lifted else Let(self._var(node.var), self._part(node.value, done), body, node.span)
        made = with_children(node, [self._part(part, done) for part in children(node)])
        if isinstance(made, Match):
            clauses = [Clause(with_pattern_vars(clause.lhs, self._var), clause.rhs) for clause in made.clauses]
            made = Match(made.data, clauses, made.complete, made.span)
        return made

    def _var(self, var: Var) -> Var:
        """The variable of the encoded type."""
        if var not in self._vars:
            type_ = var._checked_type
            encoded = None if type_ is None or holes(type_) or var in self._lifted else self.visit(type_)
            self._vars[var] = Var(var.name_hint, encoded, var.span)
        return self._vars[var]

    def _part(self, part: Expr, done: Mapping[Expr, Expr]) -> Expr:
        """The value of a part, wherever it is used."""
        is_function = isinstance(part, GlobalVar) or (isinstance(part, Var) and part in self._lifted)
        return self._value(part, part.checked_type, done) if is_function else done[part]

    def _value(self, atom: Expr, wanted: Type, done: Mapping[Expr, Expr]) -> Expr:
        """The value of an atom where one of a type is wanted."""
        name = self._name(atom)
        if name is None:
            return done[atom]
        if not isinstance(wanted, FuncType) or wanted.type_params:
            raise DefunctionalizationError(f"@{name} is used as a value of the type {wanted!r}; give it a type without parameters")
        called = self._instance(name, _type_args(atom, wanted))
        encoding = self._encoding(wanted)
        if called not in encoding.known:
            encoding.known[called] = made = encoding.add(())
            encoding.clauses.append(Clause(PatternConstructor(made), Call(called, encoding.params[1:])))
        return Call(encoding.known[called], ())

    def _name(self, atom: Expr) -> str | None:
        """The name of a function that is not a value at run time."""
        return atom.name_hint if isinstance(atom, GlobalVar) else self._lifted.get(atom) if isinstance(atom, Var) else None

    def _instance(self, name: str, types: tuple[Type, ...]) -> GlobalVar:
        """The first-order form of a function for given type parameters."""
        key = (name, types)
        if key not in self._instances:
            function = self._functions[name]
            var = next((var for var in self._module.functions if var.name_hint == name), GlobalVar(name))
            if isinstance(function, Function) and not is_sealed(function):
                type_ = function.checked_type
                assert isinstance(type_, FuncType)  # inferred
                if types or any(map(_has_functions, (*type_.arg_types, type_.ret_type))):
                    var = GlobalVar(self._free(f"{name}_{len(self._instances)}"))
                self._pending.append((var, function, dict(zip(type_.type_params, types, strict=True))))
            self._instances[key] = var
        return self._instances[key]

    def _call(self, call: Call, done: Mapping[Expr, Expr]) -> Expr:
        callee = call.op
        if isinstance(callee, Op) or is_sealed(callee):
            if any(_has_functions(arg.checked_type) for arg in call.args):
                raise DefunctionalizationError(f"{callee!r} takes a function, which only a function can do in first-order form")
            return with_children(call, [done[part] for part in children(call)])
        wanted = _instantiated(call)
        args = [self._value(arg, type_, done) for arg, type_ in zip(call.args, wanted.arg_types, strict=True)]
        if isinstance(callee, Constructor):
            return Call(callee, args, call.attrs, (), call.span)
        name = self._name(callee)
        if name is not None:
            return Call(self._instance(name, _type_args(callee, wanted)), args, call.attrs, (), call.span)
        return Call(self._encoding(wanted).apply, [done[callee], *args], None, (), call.span)

    def _literal(self, function: Function, own: Var | None, done: Mapping[Expr, Expr]) -> Expr:
        """A function literal, as a value that holds the variables that it captures."""
        type_ = function.checked_type
        assert isinstance(type_, FuncType)  # inferred
        encoding = self._encoding(type_)
        captured = [self._var(var) for var in free_vars(function) if var is not own and var not in self._lifted]
        fields = [Var(var.name_hint, var.type_annotation) for var in captured]
        made = encoding.add([self._known(var) for var in captured])
        values: dict[Var, Expr] = dict(zip(captured, fields, strict=True))
        values.update(zip(map(self._var, function.params), encoding.params[1:], strict=True))
        if own is not None:
            values[self._var(own)] = encoding.params[0]
        body = instantiated(self._part(function.body, done), values)
        encoding.clauses.append(Clause(PatternConstructor(made, map(PatternVar, fields)), body))
        return Call(made, captured)

    @staticmethod
    def _known(var: Var) -> Type:
        if var.type_annotation is None:
            raise DefunctionalizationError(f"the type of %{var.name_hint}, which a function uses, is not known; annotate it")
        return var.type_annotation


def _has_functions(type_: Type) -> bool:
    visitor = _HasFunctions()
    visitor.visit(type_)
    return visitor.found


def _general(callee: Expr) -> FuncType:
    type_ = FuncType(callee.inputs, callee.made, callee.type_vars) if isinstance(callee, Constructor) else callee.checked_type
    if not isinstance(type_, FuncType):
        raise DefunctionalizationError(f"{callee!r} is called, but its type {type_!r} is not known as that of a function")
    return type_


def _instantiated(call: Call) -> FuncType:
    """The type of a callee in a call, without type parameters."""
    solver, type_ = TypeSolver(), instance_of(_general(call.op))
    given = FuncType([arg.checked_type for arg in call.args], call.checked_type)
    try:
        for wanted, arg in zip((*type_.arg_types, type_.ret_type), (*given.arg_types, given.ret_type), strict=True):
            if not (isinstance(arg, FuncType) and arg.type_params):
                solver.unify(wanted, arg)
        for wanted, arg in zip(type_.arg_types, given.arg_types, strict=True):
            if isinstance(arg, FuncType) and arg.type_params:
                solver.unify(wanted, instance_of(arg))
    except InferError as error:
        raise DefunctionalizationError(f"the types in a call of {call.op!r} do not fit: {error}") from error
    found = solver.resolve(type_)
    assert isinstance(found, FuncType)  # of one
    return found


def _type_args(callee: Expr, wanted: FuncType) -> tuple[Type, ...]:
    """The type parameters for which a callee has a type."""
    general, solver = _general(callee), TypeSolver()
    found = [IncompleteType(param.kind) for param in general.type_params]
    plain = substitute(FuncType(general.arg_types, general.ret_type), dict(zip(general.type_params, found, strict=True)))
    solver.unify(plain, FuncType(wanted.arg_types, wanted.ret_type))
    return tuple(map(solver.resolve, found))

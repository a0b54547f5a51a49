"""Function inlining."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from passat.ir.expr import (
    BaseFunc,
    Call,
    Clause,
    Expr,
    Function,
    GlobalVar,
    Let,
    Match,
    Var,
)
from passat.ir.module import IRModule
from passat.ir.recursion import recursive_groups
from passat.ir.traverse import AnyExpr, children, evaluation_parts, pattern_vars, post_order, with_children, with_pattern_vars


def inline_calls(expr: AnyExpr, wanted: Callable[[Function], bool]) -> AnyExpr:
    """Inlines calls of wanted functions. Returns the same object if there are none.

    Inlines functions that are called directly or through the variable of a let. New nodes keep types that are known for certain; other
    types are not inferred. Each copy of a body binds fresh variables. Recursive functions are not inlined.

    >>> from passat.ir.text import parse_expr
    >>> inline_calls(parse_expr("fn (%x: int8) { %0 = fn (%p0: int8, Primitive=1) { negative(%p0) }; %0(%0(%x)) }"), lambda function: True)
    fn (%x: int8) {
      %0 = negative(%x);
      negative(%0)
    }
    """
    return _Inliner(expr, wanted).run()  # type: ignore[return-value]  # a function for a function


class _Inliner:
    def __init__(self, root: Expr, wanted: Callable[[Function], bool]) -> None:
        self._root = root
        self._order = post_order(root, parts_of=evaluation_parts)
        self._named: dict[Var, Function] = {
            node.var: node.value
            for node in self._order
            if isinstance(node, Let) and isinstance(node.value, Function) and wanted(node.value) and not _mentions(node.value, node.var)
        }
        self._functions: dict[int, Function] = {}
        """The function to inline, by identity of the call."""
        for node in self._order:
            if isinstance(node, Call):
                callee = self._named.get(node.op) if isinstance(node.op, Var) else node.op
                if isinstance(callee, Function) and wanted(callee) and len(callee.params) == len(node.args):
                    self._functions[id(node)] = callee
        self._done: dict[int, Expr] = {}

    def run(self) -> Expr:
        if not self._functions:
            return self._root
        done = self._done
        for node in self._order:
            function = self._functions.get(id(node))
            if function is not None:
                assert isinstance(node, Call)
                made = done[id(function)]
                assert isinstance(made, Function)
                args = [done[id(arg)] for arg in node.args]
                done[id(node)] = instantiated(made.body, dict(zip(made.params, args, strict=True)))
            elif isinstance(node, Let) and node.var in self._named and not self._reads(node.var):
                done[id(node)] = done[id(node.body)]
            else:
                done[id(node)] = _rebuilt(node, [done[id(part)] for part in children(node)])
        return done[id(self._root)]

    def _reads(self, var: Var) -> bool:
        """Whether a variable is still used after the calls of its function have been inlined."""
        if not hasattr(self, "_used"):
            self._used = {
                part
                for node in self._order
                for part in (node.args if id(node) in self._functions and isinstance(node, Call) else _read(node))
                if isinstance(part, Var)
            }
        return var in self._used


def _read(node: Expr) -> tuple[Expr, ...]:
    """The parts of a node, except the variables it binds."""
    if isinstance(node, Function):
        return (node.body,)
    return (node.value, node.body) if isinstance(node, Let) else tuple(children(node))


def _mentions(function: Function, var: Var) -> bool:
    return any(node is var for node in post_order(function.body))


def instantiated(body: Expr, values: Mapping[Var, Expr]) -> Expr:
    """Copies the nodes that depend on the variables, with values substituted. Lets, functions and matches inside bind fresh variables."""
    done: dict[int, Expr] = {}
    order = post_order(body, parts_of=evaluation_parts)
    new: dict[Var, Expr] = dict(values)
    for node in order:
        for var in _bound(node):
            new[var] = copy = Var(var.name_hint, var.type_annotation, var.span)
            copy._checked_type = var._checked_type
    for node in order:
        if isinstance(node, Var):
            done[id(node)] = new.get(node, node)
        else:
            made = _rebuilt(node, [done[id(part)] for part in children(node)])
            if isinstance(made, Match) and _bound(made):
                clauses = [Clause(with_pattern_vars(clause.lhs, lambda var: _copy(var, new)), clause.rhs) for clause in made.clauses]
                made = Match(made.data, clauses, made.complete, made.span).assume_type(made._checked_type)
            done[id(node)] = made
    return done[id(body)]


def _bound(node: Expr) -> Sequence[Var]:
    """The variables that a node binds."""
    if isinstance(node, Function):
        return node.params
    if isinstance(node, Match):
        return [var for clause in node.clauses for var in pattern_vars(clause.lhs)]
    return (node.var,) if isinstance(node, Let) else ()


def _copy(var: Var, new: Mapping[Var, Expr]) -> Var:
    """Creates a copy of a bound variable."""
    found = new[var]
    assert isinstance(found, Var)
    return found


def inline_globals(module: IRModule) -> IRModule:
    """Replaces calls of the module's functions with the attribute `Inline` by their bodies, callees first. Other uses become the function
    literals.

    Recursive functions are not inlined. Bodies of functions with the attribute `Compiler` do not change; a call of such a function becomes
    a call of the literal. Inlined functions without remaining uses are removed. Returns the same module if nothing is inlined.
    """
    by_name = {var.name_hint: var for var in module.functions}
    functions: dict[str, BaseFunc] = {var.name_hint: function for var, function in module.functions.items()}
    marked = {name for name, function in functions.items() if isinstance(function, Function) and function.attrs.get("Inline")}
    if not marked:
        return module
    used = {
        var.name_hint: {node.name_hint for node in post_order(function) if isinstance(node, GlobalVar)}
        for var, function in module.functions.items()
    }
    callees = {name: sorted(other for other in names if other in functions) for name, names in used.items()}
    groups = recursive_groups(callees)
    wanted = marked.difference(name for group in groups for name in group if len(group) > 1 or name in callees[name])
    done: dict[str, BaseFunc] = {}
    for name in chain.from_iterable(groups):
        function = functions[name]
        known = {other: done[other] for other in used[name] & wanted}
        enters = known and isinstance(function, Function) and "Compiler" not in function.attrs
        done[name] = _with_callees(function, known) if enters else function
    inlined = wanted & {other for name, function in functions.items() if done[name] is not function for other in used[name]}
    # Uses in removed functions do not count: their bodies are inlined into their callers.
    removed = inlined.difference(*[_names_in(done[other]) for other in done if other not in inlined])
    if not inlined:
        return module
    made = module.shallow_copy()
    made.functions = {by_name[name]: done[name] for name in functions if name not in removed}
    return made


def _names_in(function: Expr) -> set[str]:
    return {node.name_hint for node in post_order(function) if isinstance(node, GlobalVar)}


def _with_callees(function: Expr, known: Mapping[str, BaseFunc]) -> Function:
    """A function with its calls of other functions inlined."""
    done: dict[int, Expr] = {}
    for node in post_order(function):
        callee = known.get(node.op.name_hint) if isinstance(node, Call) and isinstance(node.op, GlobalVar) else None
        if isinstance(node, GlobalVar):
            done[id(node)] = known.get(node.name_hint, node)
        elif (
            isinstance(node, Call)
            and isinstance(callee, Function)
            and "Compiler" not in callee.attrs
            and len(callee.params) == len(node.args)
        ):
            args = [done[id(arg)] for arg in node.args]
            done[id(node)] = instantiated(callee.body, dict(zip(callee.params, args, strict=True)))
        else:
            done[id(node)] = _rebuilt(node, [done[id(part)] for part in children(node)])
    made = done[id(function)]
    assert isinstance(made, Function)  # rebuilt from a function
    return made


def _rebuilt(node: Expr, parts: list[Expr]) -> Expr:
    """Rebuilds a node with other parts. Keeps its type if the new parts have the same types as the old ones."""
    made = with_children(node, parts)
    if made is not node and not isinstance(node, Function):
        same = all(new is old or new._checked_type == old._checked_type for new, old in zip(parts, children(node), strict=True))
        made._checked_type = node._checked_type if same else None
    return made

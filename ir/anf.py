"""Conversion to A-normal form and to graph normal form."""

from collections.abc import Sequence

from passat.ir.effects import effectful_nodes
from passat.ir.expr import Constant, Constructor, Expr, Function, GlobalVar, If, Let, Match, Var
from passat.ir.op import Op
from passat.ir.scopes import Scope, Scopes
from passat.ir.sealed import is_sealed
from passat.ir.traverse import AnyExpr, children, evaluation_parts, post_order, with_children

_ATOMS = (Var, Constant, GlobalVar, Op, Constructor)
_Bindings = Sequence[tuple[Var, Expr]]


def to_anf(expr: AnyExpr, bind_constants: bool = False) -> AnyExpr:
    """Converts to A-normal form: lets in the order of evaluation, each binding one operation on atoms; the result is an atom.

    Atoms are variables, operators, constructors, global functions, and constants, unless `bind_constants`. A node with several uses is
    bound once, in the innermost scope that encloses all uses, so sharing becomes lets. Existing lets keep their variables, and sealed
    functions (`passat.ir.sealed`) are not entered. Returns the same object if it is in A-normal form already.

    >>> from passat.ir.text import parse_expr
    >>> to_anf(parse_expr("fn (%x: int8) { (%x, (%x, 1i8)) }"))
    fn (%x: int8) {
      let %x1 = (%x, 1i8);
      let %x2 = (%x, %x1);
      %x2
    }
    """
    return _Normalizer(expr, bind_constants).run()  # type: ignore[return-value]  # a function for a function


class _Normalizer:
    def __init__(self, expr: Expr, bind_constants: bool) -> None:
        self._root = expr
        self._atomic = tuple(kind for kind in _ATOMS if kind is not Constant or not bind_constants)
        self._scopes = Scopes(expr, lets=False)
        self._bindings: dict[Scope, list[tuple[Var, Expr]]] = {}
        self._atoms: dict[Expr, Expr] = {}
        self._lets: dict[Var, Let] = {}
        self._names: dict[Expr, Var] = {}
        lets = [node for node in self._scopes.order if isinstance(node, Let)]
        results: dict[Expr, Expr] = {}  # the results of chains of lets
        for let in lets:
            results[let] = results.get(let.body, let.body)
        for let in reversed(lets):  # outer lets first
            value = results.get(let.value, let.value)
            if isinstance(value, self._atomic) or value in self._names:
                self._lets[let.var] = let
            else:
                self._names[value] = let.var

    def run(self) -> Expr:
        """Returns the normal form."""
        for node in self._scopes.order:
            if isinstance(node, self._atomic):
                self._atoms[node] = node
                if isinstance(node, Var) and node in self._lets:  # a let of an atom is placed here, after its value
                    let = self._lets[node]
                    self._bind(self._scopes.place(let), node, self._atoms[let.value])
            elif isinstance(node, Let):
                self._atoms[node] = self._atoms[node.body]
            else:
                made = self._rebuilt(node)
                if node is self._root and isinstance(node, Function):
                    return made
                var = self._names.get(node)
                if var is None:
                    var = Var("x")
                    var._checked_type = node._checked_type
                self._bind(self._scopes.place(node), var, made)
                self._atoms[node] = var
        return self._body(self._scopes.root, self._root)

    def _bind(self, scope: Scope, var: Var, value: Expr) -> None:
        self._bindings.setdefault(scope, []).append((var, value))

    def _rebuilt(self, node: Expr) -> Expr:
        """Rebuilds an operation on atoms. Its bodies are already done, since their nodes come first."""
        atoms = self._atoms
        if isinstance(node, Function):
            if is_sealed(node):
                return node
            return node.with_body(self._body(self._scopes.inner[node][0], node.body))
        if isinstance(node, If):
            then, other = self._scopes.inner[node]
            return with_children(node, (atoms[node.cond], self._body(then, node.true_branch), self._body(other, node.false_branch)))
        if isinstance(node, Match):
            arms = [self._body(arm, clause.rhs) for clause, arm in zip(node.clauses, self._scopes.inner[node], strict=True)]
            return with_children(node, (atoms[node.data], *arms))
        return with_children(node, [atoms[part] for part in children(node)])

    def _body(self, scope: Scope, body: Expr) -> Expr:
        """Wraps the result of a scope in the scope's lets. Returns `body` itself if it is unchanged."""
        bindings = self._bindings.get(scope, [])
        result = self._atoms[body]
        rest = body
        for var, value in bindings:
            if not isinstance(rest, Let) or rest.var is not var or rest.value is not value:
                break
            rest = rest.body
        else:
            if rest is result:
                return body
        for var, value in reversed(bindings):
            result = Let(var, value, result, value.span)
        return result


def to_graph(expr: AnyExpr) -> AnyExpr:
    """Converts to graph normal form: removes lets, so that all uses of a variable share the node of its value.

    Lets whose values have side effects (`passat.ir.effects`) stay, in order, and so do recursive functions. Returns the same object if
    there are no other lets.

    >>> from passat.ir.text import parse_expr
    >>> to_graph(parse_expr("fn (%x: int8) { let %y = (%x, %x); (%y, %y) }"))
    fn (%x: int8) {
      %0 = (%x, %x);
      (%0, %0)
    }
    """
    effectful = effectful_nodes(expr)
    order = post_order(expr, parts_of=evaluation_parts)
    values = {node.var: node.value for node in order if isinstance(node, Let) and node.value not in effectful}
    done: dict[Expr, Expr] = {}
    for node in order:
        if isinstance(node, Var):
            value = values.get(node)
            # The value of a variable is visited first, except for recursive functions, which contain the variable.
            done[node] = node if value is None else done.get(value, node)
        elif isinstance(node, Let):
            var, value = done[node.var], done[node.value]
            done[node] = with_children(node, (var, value, done[node.body])) if var is node.var else done[node.body]
        else:
            done[node] = with_children(node, [done[part] for part in children(node)])
    return done[expr]  # type: ignore[return-value]  # a function for a function

"""Function inlining."""

from collections.abc import Callable, Mapping

from passat.ir.expr import Call, Expr, Function, Let, Match, Var
from passat.ir.traverse import children, evaluation_parts, post_order, with_children


def inline_calls(expr: Expr, wanted: Callable[[Function], bool]) -> Expr:
    """Inlines calls of wanted functions. Returns the same object where there are none.

    Inlines functions that are called directly or through the variable of a let. New nodes keep types that are known for certain; other
    types are not inferred. Each copy of a body binds fresh variables. Recursive functions, and functions with a `match` that are called
    more than once, are not inlined.

    >>> from passat.ir.text import parse_expr
    >>> inline_calls(parse_expr("fn (%x: int8) { %0 = fn (%p0: int8, Primitive=1) { negative(%p0) }; %0(%0(%x)) }"), lambda function: True)
    fn (%x: int8) {
      %0 = negative(%x);
      negative(%0)
    }
    """
    return _Inliner(expr, wanted).run()


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
        times: dict[int, int] = {}
        for node in self._order:
            if isinstance(node, Call):
                callee = self._named.get(node.op) if isinstance(node.op, Var) else node.op
                if isinstance(callee, Function) and wanted(callee) and len(callee.params) == len(node.args):
                    self._functions[id(node)] = callee
                    times[id(callee)] = times.get(id(callee), 0) + 1
        stays = {key for key, count in times.items() if count > 1} & {
            id(function) for function in self._functions.values() if any(isinstance(part, Match) for part in post_order(function.body))
        }
        self._functions = {key: function for key, function in self._functions.items() if id(function) not in stays}
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
    """Copies the nodes that depend on the variables, with values substituted. Lets and functions inside bind fresh variables."""
    done: dict[int, Expr] = {}
    order = post_order(body, parts_of=evaluation_parts)
    new: dict[Var, Expr] = dict(values)
    for node in order:
        for var in node.params if isinstance(node, Function) else (node.var,) if isinstance(node, Let) else ():
            new[var] = copy = Var(var.name_hint, var.type_annotation, var.span)
            copy._checked_type = var._checked_type
    for node in order:
        if isinstance(node, Var):
            done[id(node)] = new.get(node, node)
        else:
            done[id(node)] = _rebuilt(node, [done[id(part)] for part in children(node)])
    return done[id(body)]


def _rebuilt(node: Expr, parts: list[Expr]) -> Expr:
    """Rebuilds a node with other parts. Keeps its type where the new parts have the same types as the old ones."""
    made = with_children(node, parts)
    if made is not node and not isinstance(node, Function):
        same = all(new is old or new._checked_type == old._checked_type for new, old in zip(parts, children(node), strict=True))
        made._checked_type = node._checked_type if same else None
    return made

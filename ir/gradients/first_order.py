"""First-order reverse-mode differentiation of a function without control flow. The result has no closures and no references."""

from collections.abc import Sequence

from passat.ir.anf import to_graph
from passat.ir.expr import Call, Constant, Expr, Function, Let, Tuple, TupleGetItem, Var
from passat.ir.gradients.adjoints import field_of, filled, is_differentiable, per_tensor, tensors_of
from passat.ir.gradients.registry import GradientError, operand_gradients
from passat.ir.infer import infer_type
from passat.ir.inline import inline_calls
from passat.ir.op import Op, call_op
from passat.ir.traverse import children, post_order, with_children
from passat.ir.types import TensorType, TupleType, Type

_Path = tuple[int, ...]


def first_order_gradient(function: Function) -> Function:
    """Returns a function with the same parameters that returns a pair: the result, and a tuple of the gradients of the parameters.

    Differentiates the sum of all elements of the result. Parameters are tensors and tuples of tensors. Raises GradientError for
    programs with control flow, references, data types or calls of other functions.
    """
    if function.type_params:
        raise GradientError("the gradient of a function with type parameters cannot be taken; call it with arguments of known types")
    return _Reverse(infer_type(to_graph(inline_calls(infer_type(function), lambda callee: True)))).run()


class _Reverse:
    def __init__(self, function: Function) -> None:
        self._function = function
        self._bound: list[tuple[Var, Expr]] = []
        self._values: dict[Expr, Expr] = {}
        self._gradients: dict[Expr, dict[_Path, Expr]] = {}
        """The gradient of each tensor in the value of a node, by node and field indices; missing ones are zero."""

    def run(self) -> Function:
        """Builds the function: the program, then the gradients from the result to the parameters."""
        function = self._function
        params = [Var(param.name_hint, param.checked_type) for param in function.params]
        for new, old in zip(params, function.params, strict=True):
            new._checked_type = old.checked_type
            self._values[old] = new
        order = post_order(function.body)
        for node in order:
            _check(node)
        for node in order:
            self._forward(node)
        result_type = function.body.checked_type
        result = self._values[function.body]
        self._add(function.body, filled("ones", result, result_type))
        for node in reversed(order):
            self._backward(node)
        gradients = Tuple([self._gradient(param) for param in function.params])
        body: Expr = Tuple([result, gradients])
        for var, value in reversed(self._bound):
            body = Let(var, value, body)
        return Function(params, body, TupleType([result_type, TupleType([param.checked_type for param in function.params])]))

    def _push(self, value: Expr, type_: Type) -> Var:
        var = Var("x")
        var._checked_type = type_
        self._bound.append((var, value))
        return var

    def _forward(self, node: Expr) -> None:
        if isinstance(node, Constant):
            self._values[node] = node
        elif isinstance(node, Var):
            if node not in self._values:
                raise GradientError(f"%{node.name_hint} is not bound here; a function with free variables cannot be differentiated")
        elif isinstance(node, (Tuple, TupleGetItem)) or (isinstance(node, Call) and isinstance(node.op, Op)):
            parts = [part if isinstance(part, Op) else self._values[part] for part in children(node)]
            made = with_children(node, parts)
            made._checked_type = node.checked_type
            self._values[node] = self._push(made, node.checked_type)

    def _backward(self, node: Expr) -> None:
        """Adds the gradient of a node to those of its parts."""
        found = self._gradients.get(node)
        if not found:
            return
        if isinstance(node, TupleGetItem):
            for path, value in found.items():
                self._add_at(node.tuple_value, (node.index, *path), value)
        elif isinstance(node, Tuple):
            for path, value in found.items():
                self._add_at(node.fields[path[0]], path[1:], value)
        elif isinstance(node, Call):
            result = self._values[node]
            assert isinstance(result, Var)  # pushed on the way forward
            type_ = node.checked_type
            call = Call(node.op, [self._values[arg] for arg in node.args], node.attrs, node._type_args, node.span)
            call._checked_type = type_
            gradient = self._push(self._gradient(node), type_)
            for arg, part in zip(node.args, operand_gradients(call, result, gradient), strict=True):
                if part is not None and is_differentiable(arg, arg.checked_type):
                    self._add(arg, self._push(part, arg.checked_type))

    def _add(self, node: Expr, gradient: Expr) -> None:
        per_tensor(gradient, node.checked_type, lambda path, value, type_: self._add_at(node, path, value))

    def _add_at(self, node: Expr, path: _Path, value: Expr) -> None:
        if isinstance(node, Constant):
            return
        found = self._gradients.setdefault(node, {})
        type_ = _field_type(node.checked_type, path)
        if is_differentiable(value, type_):
            found[path] = self._push(call_op("add", found[path], value) if path in found else value, type_)

    def _gradient(self, node: Expr) -> Expr:
        """The gradient of a node, with zeros for missing parts."""
        return self._whole(self._gradients.get(node, {}), (), self._values[node], node.checked_type)

    def _whole(self, found: dict[_Path, Expr], path: _Path, value: Expr, type_: Type) -> Expr:
        if isinstance(type_, TensorType):
            return found[path] if path in found else self._push(filled("zeros", value, type_), type_)
        return Tuple([self._whole(found, (*path, i), field_of(value, i), field) for i, field in enumerate(tensors_of(type_))])


def _check(node: Expr) -> None:
    """Raises GradientError for anything but dataflow."""
    called = isinstance(node, Call) and not isinstance(node.op, Op)
    if called or not isinstance(node, (Call, Constant, Op, Tuple, TupleGetItem, Var)):
        what = "call of a function" if called else type(node).__name__
        raise GradientError(f"mode='first_order' supports only dataflow, but the function has a {what}; use mode='higher_order'")


def _field_type(type_: Type, path: Sequence[int]) -> Type:
    for index in path:
        type_ = tensors_of(type_)[index]
    return type_

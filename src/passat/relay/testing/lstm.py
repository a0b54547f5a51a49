"""A long short-term memory, unrolled: calls of one cell as a function within a function (Hochreiter and Schmidhuber, 1997)."""

from passat.ir.expr import Call, Expr, Function, Tuple, TupleGetItem, Var, var
from passat.ir.types import TensorType, TupleType
from passat.relay import nn
from passat.relay.derived import sigmoid, split, tanh
from passat.relay.scope_builder import ScopeBuilder
from passat.relay.tensor import zeros
from passat.relay.testing.init import Workload, create_workload
from passat.relay.testing.layers import dense_add_bias


def lstm_cell(num_hidden: int, batch_size: int = 1, dtype: str = "float32", name: str = "") -> Function:
    """One step: maps the input, states, weights and biases to the output and the next states."""
    state = TensorType((batch_size, num_hidden), dtype)
    weight, bias = TensorType((4 * num_hidden, num_hidden), dtype), TensorType((4 * num_hidden,), dtype)
    inputs, states = Var("inputs", state), Var("states", TupleType([state, state]))
    params = [
        Var(f"{name}{part}", type_)
        for part, type_ in (("i2h_weight", weight), ("i2h_bias", bias), ("h2h_weight", weight), ("h2h_bias", bias))
    ]
    sb = ScopeBuilder()
    i2h = sb.let("i2h", dense_add_bias(inputs, params[0], params[1], units=4 * num_hidden, name=f"{name}i2h"))
    h2h = sb.let("h2h", dense_add_bias(TupleGetItem(states, 0), params[2], params[3], units=4 * num_hidden, name=f"{name}h2h"))
    gates = sb.let("gates", split(i2h + h2h, 4, 1))
    entry, forget, change, out = (TupleGetItem(gates, i) for i in range(4))
    next_c = sb.let("next_c", sigmoid(forget) * TupleGetItem(states, 1) + sigmoid(entry) * tanh(change))
    next_h = sb.let("next_h", sigmoid(out) * tanh(next_c))
    sb.ret(Tuple([next_h, Tuple([next_h, next_c])]))
    return Function([inputs, states, *params], sb.get(), TupleType([state, TupleType([state, state])]))


def get_net(iterations: int, num_hidden: int, batch_size: int = 1, dtype: str = "float32") -> Function:
    """The output after some steps, each with its own input and weights."""
    data = var("data", shape=(batch_size, num_hidden), dtype=dtype)
    sb = ScopeBuilder()
    params: list[Var] = [data]
    states: Expr = Tuple([zeros((batch_size, num_hidden), dtype), zeros((batch_size, num_hidden), dtype)])
    out: Expr = data
    for step in range(iterations):
        cell = sb.let(f"cell_{step}", lstm_cell(num_hidden, batch_size, dtype))
        shapes = {"i2h_weight": (4 * num_hidden, num_hidden), "i2h_bias": (4 * num_hidden,)}
        shapes |= {"h2h_weight": (4 * num_hidden, num_hidden), "h2h_bias": (4 * num_hidden,)}
        own = [var(f"{part}" if iterations == 1 else f"t{step}_{part}", shape=shape, dtype=dtype) for part, shape in shapes.items()]
        params += own
        result = sb.let(f"step_{step}", Call(cell, [out, states, *own]))
        out, states = TupleGetItem(result, 0), TupleGetItem(result, 1)
    sb.ret(nn.relu(out))
    return Function(params, sb.get())


def get_workload(iterations: int, num_hidden: int, batch_size: int = 1, dtype: str = "float32") -> Workload:
    """The network as a module, and its parameters."""
    return create_workload(get_net(iterations, num_hidden, batch_size, dtype))

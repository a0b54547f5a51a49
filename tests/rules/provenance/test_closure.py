"""The congruence closure of the checker: facts about equal terms."""

import numpy as np
import pytest

from passat.ir.expr import Expr, Var
from passat.ir.known import known_value
from passat.ir.op import get_op
from passat.ir.shape import ANY, Dim
from passat.ir.types import TensorType
from passat.rules.provenance.checker import Closure


def leaf(closure: Closure, name: str, shape: tuple[Dim, ...]) -> int:
    return closure.add(name, [], lambda _: Var(name, TensorType(shape, "float32")))[0]


def call(closure: Closure, name: str, operand: int, **attrs: str) -> int:
    def make(operands: object) -> Expr:
        return get_op(name)(closure.best(operand), span=None, **attrs)

    return closure.add(name, [operand], make)[0]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("shapes", [((ANY, 4), (3, 4)), ((ANY, 4), (3, ANY)), ((ANY, ANY), (3, 4))])
def test_users_learn_facts_of_their_operands(shapes: tuple[tuple[Dim, ...], tuple[Dim, ...]], order: int) -> None:
    """A guard may ask for the type of a call whose operand is proved equal to one of known shape."""
    closure = Closure(lambda label: False)
    first, second = (leaf(closure, name, shape) for name, shape in zip("ab", shapes[::order], strict=True))
    rectified = call(closure, "nn.relu", first)
    size = call(closure, "shape_of", call(closure, "tanh", rectified), dtype="int64")
    others = call(closure, "nn.relu", second)
    closure.unite(first, second)
    assert closure.find(rectified) == closure.find(others)
    assert closure.best(rectified).checked_type == TensorType((3, 4), "float32")
    known = known_value(closure.best(size))
    assert isinstance(known, np.ndarray)
    assert known.tolist() == [3, 4]

"""The solver of types under the names that TVM's tests of it use: a function that returns a method by its name."""

from collections.abc import Callable
from typing import Any, Final

from passat.ir.type_solver import TypeSolver

_NAMES: Final = {"Solve": "solve", "Unify": "unify", "Resolve": "resolve", "AddConstraint": "add_constraint"}


def _test_type_solver() -> Callable[[str], Any]:
    solver = TypeSolver()
    return lambda name: getattr(solver, _NAMES[name])

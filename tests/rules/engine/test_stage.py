"""Only those rules of a pass are loaded that can match in a program."""

import subprocess
import sys

from passat.ir.op import get_op
from passat.rules.engine.directions import Directions, Stage, reachable
from passat.rules.engine.eager import Eager
from passat.rules.engine.symbols import CALL, Symbol, symbol
from passat.rules.library.folding import DynamicToStatic
from passat.rules.pattern import op, tensors
from passat.rules.rule import Rule

(x,) = tensors("x")
FIRST = op.negative(op.abs(x)) >> op.sqrt(x)
SECOND = op.sqrt(x) >> op.exp(x)
OTHER = op.sin(x) >> op.cos(x)
VIEW = op.reshape(op.exp(x), ...) >> op.exp(x)


def calls(*names: str) -> set[Symbol]:
    return {symbol(CALL, get_op(name), get_op(name).arity) for name in names}


def found(present: set[Symbol], *rules: Rule, eager: Eager | None = None) -> list[Rule]:
    makes = () if eager is None else eager.makes
    matchers = reachable(present, [Stage(tuple(map(Directions, rules)))], makes)
    return [matcher.rule for each in matchers.values() for matcher in each]


def test_rules_match_results_of_other_rules() -> None:
    assert found(calls("negative", "abs"), SECOND, OTHER, FIRST) == [SECOND, FIRST]
    assert found(calls("negative"), SECOND, OTHER, FIRST) == []


def test_dynamic_operators_may_become_static_ones() -> None:
    present = calls("exp", "dyn.reshape")
    assert found(present, VIEW) == []
    assert found(present, VIEW, eager=Eager(DynamicToStatic)) == [VIEW]


def test_egglog_is_imported_without_its_language() -> None:
    script = (
        "import sys; from passat.rules.engine.egraph import EGraph; EGraph().wipe(); "
        "assert 'egglog' not in sys.modules and 'black' not in sys.modules; "
        "import egglog, egglog.bindings as bindings; assert bindings.EGraph and egglog.EGraph().run(1)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)

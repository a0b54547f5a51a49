"""Every rule of the library on random well-typed programs: both sides have one value and one type.

Exact rules must agree bit for bit, also at infinities, nan and zeros of both signs; the others up to rounding, on ordinary numbers.
With PASSAT_SOAK=1 in the environment, the same a hundred times over.
"""

import os
import zlib
from collections.abc import Sequence

import numpy as np
import pytest

from passat.ir.evaluate import EvaluateError
from passat.ir.expr import Constant
from passat.ir.infer import infer_type
from passat.ir.tensor import Array
from passat.ir.traverse import post_order
from passat.ir.types import compatible
from passat.rules import library
from passat.rules.rule import EXACT, Rule, RuleSetMeta
from tests.rules.instances import Instance, draw
from tests.rules.running import difference, rewritten, run

SOAK = os.environ.get("PASSAT_SOAK") == "1"
WANTED, TRIES = (1000, 20_000) if SOAK else (20, 500)
RULES: list[Rule] = [rule for name in library.__all__ for rule in getattr(library, name)]
RESERVATION = "-1 cannot be worked out next to a size of 0"
"""What a reshape may say of an empty tensor where the shape before was computed in the run (`passat.ir.ops.newshape`)."""


def values(instance: Instance, generator: np.random.Generator, *, special: bool) -> tuple[Sequence[Array], object] | None:
    """The value of a left side on random inputs, and these; None where ONNX leaves it undefined and the kernel refuses."""
    feeds = instance.feeds(generator, special=special)
    try:
        return run(instance.function, feeds), feeds
    except EvaluateError:
        return None


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_both_sides_have_one_value(rule: Rule) -> None:
    exact = rule.math == EXACT
    generator = np.random.default_rng(zlib.crc32(rule.name.encode()))
    applied = compared = 0
    for turn in range(TRIES):
        if applied >= WANTED:
            break
        instance = draw(rule, generator, special=exact and turn % 2 == 1, symbolic=turn % 3 == 2)
        if instance is None:
            continue
        results, _ = rewritten(instance.function, rule)
        applied += bool(results)
        for special in (False, exact):
            expected = values(instance, generator, special=special) if results else None
            if expected is None:
                continue
            for result in results:
                assert compatible(infer_type(result.body).checked_type, instance.function.body.checked_type)
                try:
                    found = run(result, expected[1])  # type: ignore[arg-type]  # the feeds that the left side was given
                except EvaluateError as error:
                    if RESERVATION not in str(error) or "reshape" not in rule.name:
                        raise
                    continue
                compared += 1
                wrong = difference(found, expected[0], exact=exact)
                assert wrong is None, describe(instance, results, expected[1], wrong)
    assert applied >= min(WANTED, 3), f"the draw never fits {rule!r}"
    assert compared


def describe(instance: Instance, results: Sequence[object], feeds: object, wrong: str) -> str:
    constants = [node.data.numpy().tolist() for node in post_order(instance.function) if isinstance(node, Constant)]
    return f"{wrong}\n{instance.function}\nwith {constants}\nbecame {results}\non {feeds}"


def test_every_rule_set_of_the_library_is_public() -> None:
    modules = {name: value for name, value in vars(library).items() if isinstance(value, RuleSetMeta)}
    assert sorted(modules) == sorted(library.__all__)
    assert all(len(rules) for rules in modules.values())
    assert len({rule.name for rule in RULES}) == len(RULES)

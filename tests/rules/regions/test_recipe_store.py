"""The cache of solved functions and regions: what is in it is taken only where it is right, and nothing in the file can do harm."""

import json
import sqlite3
from pathlib import Path
from typing import Any as AnyValue

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from passat.ir.equality import structural_equal
from passat.ir.expr import Constant, Expr, Function
from passat.ir.op import get_op
from passat.passmgr import PassContext
from passat.rules import library
from passat.rules.cache_folder import cache_folder
from passat.rules.conditions import Term, condition
from passat.rules.cost import NodeCount
from passat.rules.library import Arithmetic, Inference, Units
from passat.rules.pattern import constant, op, tensor
from passat.rules.regions.recipe_store import FILE
from passat.rules.rule import RuleSet, RuleSetMeta
from tests.rules.building import const, func, numbers, ops, splat, var
from tests.rules.program_strategies import build
from tests.rules.running import Outcome, assert_equal_in_value, operators, optimise

SETS: list[RuleSetMeta] = [each for each in library.rule_sets().values() if each is not Inference]
a = var("a", (2, 4))
x, c = tensor("x"), constant("c")


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PASSAT_CACHE", str(tmp_path))
    return tmp_path


def cached(function: Function, *sets: RuleSetMeta, **config: AnyValue) -> Outcome:
    return optimise(function, *sets, fold=True, static=True, rules__cache=True, **config)


def program(weight: Constant) -> Function:
    return func(ops.nn.relu(ops.multiply(ops.add(a, splat(0.0)), weight)))


def ones_but(place: int | None) -> Constant:
    elements = np.ones((2, 4), np.float32)
    if place is not None:
        elements.reshape(-1)[place] = 2
    return const(elements)


def rows(folder: Path) -> list[str]:
    with sqlite3.connect(folder / FILE) as database:
        return [text for (text,) in database.execute("SELECT text FROM recipes")]


def test_a_function_is_solved_once_whatever_its_weights() -> None:
    first = cached(program(numbers((2, 4), seed=1)), Units, Arithmetic)
    again = cached(program(numbers((2, 4), seed=2)), Units, Arithmetic)
    assert (first.count("remembered"), again.count("remembered")) == (0, 1)
    assert operators(again.function.body) == ["multiply", "nn.relu"]
    assert_equal_in_value(program(numbers((2, 4), seed=2)), again.function, exact=True)
    assert again.fired("Units.add_zero") == first.fired("Units.add_zero")


@pytest.mark.parametrize("place", range(8))
def test_one_element_that_a_rule_looks_at_is_seen(place: int) -> None:
    assert operators(cached(program(ones_but(None)), Units).function.body) == ["nn.relu"]
    outcome = cached(program(ones_but(place)), Units)
    assert outcome.count("remembered") == 0
    assert operators(outcome.function.body) == ["multiply", "nn.relu"]
    assert cached(program(ones_but(place)), Units).count("remembered") == 1


def test_constants_are_folded_anew() -> None:
    def scaled(seed: int) -> Function:
        return func(ops.multiply(ops.multiply(a, numbers((2, 4), seed=seed)), numbers((4,), seed=seed + 1)))

    cached(scaled(1), *SETS)
    outcome = cached(scaled(5), *SETS)
    assert outcome.count("remembered") == 1
    assert operators(outcome.function.body) == ["multiply"]
    assert_equal_in_value(scaled(5), outcome.function, exact=False)


@settings(deadline=None, max_examples=15, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 1 << 30), st.integers(2, 12))
def test_the_cache_changes_nothing(seed: int, size: int) -> None:
    function = build(seed, size)
    plain = optimise(function, *SETS, fold=True, static=True)
    for _ in range(2):
        assert structural_equal(cached(Function(function.params, function.body), *SETS).function, plain.function, map_free_vars=True)


def test_random_programs_are_found_again() -> None:
    outcomes = [cached(build(seed, 10), *SETS) for seed in (*range(8), *range(8))]
    assert sum(outcome.count("remembered") for outcome in outcomes[8:]) >= 6


# ---- keys


def test_other_rules_settings_and_types_have_other_keys() -> None:
    cached(program(numbers((2, 4))), Units)
    assert cached(program(numbers((2, 4))), Units, Arithmetic).count("remembered") == 0
    assert cached(program(numbers((2, 4))), Units, rules__rounds=3).count("remembered") == 0
    assert cached(program(numbers((2, 4))), Units, rules__cost="nodes").count("remembered") == 0
    assert cached(program(numbers((1, 4))), Units).count("remembered") == 0
    assert cached(program(numbers((2, 4))), Units).count("remembered") == 1


class OwnCost(NodeCount):
    """Somebody's own prices."""


def test_what_has_no_identity_is_not_cached(folder: Path) -> None:
    cached(program(numbers((2, 4))), Units, rules__cost=OwnCost())

    @condition
    def local(term: Term) -> bool:
        """A function that cannot be named."""
        return term.value().uniform() is None

    class Own(RuleSet):
        """A rule with it."""

        gone = (op.multiply(x, c) >> op.multiply(c, x)).when(local(c)).exploring()

    cached(program(numbers((2, 4))), Own)
    assert not (folder / FILE).exists()


def test_what_the_clock_has_stopped_is_not_kept(folder: Path) -> None:
    cached(program(numbers((2, 4))), Units, rules__seconds=0.0)
    assert not (folder / FILE).exists() or not rows(folder)


def test_a_limit_that_every_run_reaches_is_kept() -> None:
    class Swaps(RuleSet):
        """Rules that go on for a while."""

        swap = (x + tensor("y") >> tensor("y") + x).exploring()
        turn = ((x + tensor("y")) + tensor("z") >> x + (tensor("y") + tensor("z"))).inexact("order").exploring()

    value: Expr = a
    for name in "bcdefgh":
        value = ops.add(value, var(name, (2, 4)))
    outcomes = [cached(func(value), Swaps, rules__nodes=20) for _ in range(2)]
    assert [outcome.count("remembered") for outcome in outcomes] == [0, 1]
    assert all(any("limit of nodes" in remark for remark in outcome.remarks) for outcome in outcomes)


# ---- files that are not what they should be


def notices(outcome: Outcome) -> list[str]:
    return [remark for remark in outcome.remarks if "was rebuilt" in remark]


def spoil(folder: Path, how: str) -> None:
    path = folder / FILE
    if how == "cut short":
        path.write_bytes(path.read_bytes()[:5000])
    elif how == "no SQLite file":
        path.write_bytes(b"x" * 10_000)
    else:
        with sqlite3.connect(path) as database:
            database.execute("PRAGMA user_version = 99" if how == "another version" else "PRAGMA application_id = 1")


@pytest.mark.parametrize("how", ["cut short", "no SQLite file", "another version", "another program"])
def test_a_wrong_file_is_made_anew_with_one_line(folder: Path, how: str) -> None:
    for seed in range(8):
        cached(build(seed, 12), *SETS)
    cached(program(numbers((2, 4))), Units)
    spoil(folder, how)
    outcome = cached(program(numbers((2, 4))), Units)
    assert len(notices(outcome)) == 1
    assert outcome.count("remembered") == 0
    again = cached(program(numbers((2, 4))), Units)
    assert not notices(again)
    assert again.count("remembered") == 1


def test_a_folder_that_cannot_be_is_done_without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PASSAT_CACHE", str(tmp_path / "file"))
    outcome = cached(program(numbers((2, 4))), Units)
    assert operators(outcome.function.body) == ["multiply", "nn.relu"]


def test_the_folder_is_what_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_folder() == tmp_path
    monkeypatch.delenv("PASSAT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
    assert cache_folder() == tmp_path / "shared" / "passat"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "passat"


def replace_rows(folder: Path, text: str) -> None:
    with sqlite3.connect(folder / FILE) as database:
        (key,) = database.execute("SELECT key FROM recipes").fetchone()
        database.execute("DELETE FROM recipes")
        database.execute("INSERT INTO recipes VALUES (?, ?)", (key, text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{",
        '{"given": 2}',
        '{"given": 999999999999, "steps": []}',
        "[" * 100_000,
        "\ud800".encode("utf-8", "replace").decode(),
    ],
)
def test_texts_that_are_no_recipes_are_passed_over(folder: Path, text: str) -> None:
    cached(program(numbers((2, 4))), Units)
    replace_rows(folder, text)
    outcome = cached(program(numbers((2, 4))), Units)
    assert outcome.count("remembered") == 0
    assert operators(outcome.function.body) == ["multiply", "nn.relu"]


def paths(data: AnyValue) -> list[tuple[AnyValue, ...]]:
    """Where the numbers, texts and nothings in a text stand."""
    inside = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [(key, *rest) for key, part in inside for rest in paths(part)] if isinstance(data, (dict, list)) else [()]


def test_whatever_one_entry_is_changed_to_the_function_stays_one_of_its_type(folder: Path) -> None:
    function = program(numbers((2, 4)))
    cached(function, Units)
    (text,) = rows(folder)
    for place in paths(json.loads(text)):
        values: tuple[AnyValue, ...] = (-1, 10**9, "subtract", None)
        for value in values:
            data = json.loads(text)
            inner = data
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = value
            replace_rows(folder, json.dumps(data))
            made = cached(program(numbers((2, 4))), Units).function
            assert made.body.checked_type == function.body.checked_type
            for call in operators(made.body):
                get_op(call)


def test_a_function_is_looked_up_among_the_rules_and_nowhere_else(folder: Path) -> None:
    cached(program(numbers((2, 4))), Units)
    (text,) = rows(folder)
    assert "passat.rules.conditions" in text or "uniform" in text
    replace_rows(folder, text.replace("passat.rules.conditions.", "os."))
    assert operators(cached(program(numbers((2, 4))), Units).function.body) == ["multiply", "nn.relu"]


def test_without_the_option_there_is_no_file(folder: Path) -> None:
    optimise(program(numbers((2, 4))), Units)
    assert not (folder / FILE).exists()
    with PassContext() as context:
        assert context.get_config("rules.cache") is False

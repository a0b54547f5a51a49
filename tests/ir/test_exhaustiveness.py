"""Values that no arm of a match accepts."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat import relay
from passat.ir.exhaustiveness import unmatched_cases
from passat.ir.expr import (
    Clause,
    Constructor,
    Function,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    Var,
)
from passat.ir.infer import InferError, infer_module
from passat.ir.module import IRModule
from passat.ir.text import parse
from tests.share import share

MODULE = parse("type T { A, B(T), C(T, T) }")
CONSTRUCTORS = {part.name_hint: part for part in MODULE.get_type("T") if isinstance(part, Constructor)}
A, B, C = (CONSTRUCTORS[name] for name in "ABC")
V = Var("v")

patterns: st.SearchStrategy[Pattern] = st.recursive(
    st.sampled_from([PatternWildcard(), PatternVar(Var("x")), PatternConstructor(A)]),
    lambda inner: st.one_of(
        st.builds(lambda part: PatternConstructor(B, [part]), inner),
        st.builds(lambda first, second: PatternConstructor(C, [first, second]), inner, inner),
    ),
    max_leaves=5,
)


def values(depth: int) -> list[PatternConstructor]:
    """All values of T up to a depth, as patterns without variables."""
    if depth == 0:
        return []
    inner = values(depth - 1)
    found = [PatternConstructor(A), *(PatternConstructor(B, [part]) for part in inner)]
    return found + [PatternConstructor(C, parts) for parts in product(inner, inner)]


def takes(pattern: Pattern, value: PatternConstructor) -> bool:
    if not isinstance(pattern, PatternConstructor):
        return True
    if pattern.constructor is not value.constructor:
        return False
    parts = [part for part in value.patterns if isinstance(part, PatternConstructor)]
    return all(takes(inner, part) for inner, part in zip(pattern.patterns, parts, strict=True))


@settings(max_examples=share(25, 500))
@given(st.lists(patterns, max_size=4))
def test_each_value_is_taken_by_an_arm_or_by_one_missing_case(arms: list[Pattern]) -> None:
    missing = unmatched_cases(Match(V, [Clause(arm, V) for arm in arms]), MODULE)
    for value in values(3):
        by_arms = any(takes(arm, value) for arm in arms)
        assert sum(takes(case, value) for case in missing) == (not by_arms)


def test_tuples_are_split_by_their_fields() -> None:
    arms = [PatternTuple([PatternConstructor(A), PatternWildcard()]), PatternTuple([PatternWildcard(), PatternConstructor(A)])]
    missing = unmatched_cases(Match(V, [Clause(arm, V) for arm in arms]), MODULE)
    shown = {tuple(part.constructor.name_hint for part in case.patterns) for case in missing if isinstance(case, PatternTuple)}  # type: ignore[attr-defined]  # constructors
    assert shown == {("B", "B"), ("B", "C"), ("C", "B"), ("C", "C")}


def test_the_definitions_have_to_be_there_and_cases_are_limited() -> None:
    with pytest.raises(KeyError, match="the given module does not define the type T"):
        unmatched_cases(Match(V, [Clause(PatternConstructor(A), V)]))
    wide = PatternTuple([PatternConstructor(A)] * 12)
    with pytest.raises(ValueError, match="more than 10000 cases"):
        unmatched_cases(Match(V, [Clause(wide, V)]), MODULE)


TYPES = "type T { A, B(T), C(T, T) }\n"


@pytest.mark.parametrize(
    ("arms", "missing"),
    [
        ("A => 0", r"B\(_\), C\(_, _\)"),
        ("A => 0, B(B(_)) => 1, C(_, _) => 2", r"B\(A\), B\(C\(_, _\)\)"),
        ("C(A, A) => 0", "A, B.* and 7 more"),
    ],
)
def test_inference_rejects_a_match_without_all_arms(arms: str, missing: str) -> None:
    with pytest.raises(InferError, match=f"the match does not handle {missing}; add arms, or write match[?]"):
        parse(f"{TYPES}def @f(%t: T) -> int32 {{ match (%t) {{ {arms} }} }}")


def test_a_module_that_was_rejected_is_rejected_again() -> None:
    t = Var("t", MODULE.get_global_type_var("T"))
    module = IRModule({"f": Function([t], Match(t, [Clause(PatternConstructor(A), t)]))}, MODULE.type_definitions)
    for run in (infer_module, infer_module, relay.transform.InferType(), relay.transform.FoldScaleAxis()):  # the last one requires types
        with pytest.raises(InferError, match="the match does not handle"):
            run(module)


def test_inference_accepts_other_matches() -> None:
    infer_module(parse(f"{TYPES}def @f(%t: T) -> int32 {{ match? (%t) {{ A => 0 }} }}"))
    infer_module(parse(f"{TYPES}def @f(%t: T) -> int32 {{ match (%t) {{ A => 0, _ => 1 }} }}"))


def test_a_pattern_that_does_not_fit_is_the_error() -> None:
    with pytest.raises(InferError, match="the constructor B has 1 field"):
        infer_module(parse(f"{TYPES}def @f(%t: T) -> int32 {{ match (%t) {{ B(_, _) => 0 }} }}"))

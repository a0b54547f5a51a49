"""The kinds of fuzzing: each turns a seed into a case, and the settings of its optimization."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # protobuf ships no types
from onnx import ModelProto

from passat.ir.onnx import OnnxError
from passat.ir.onnx_mapping import READERS
from tests.fuzz.forms import in_another_form
from tests.fuzz.graphs import NEWEST, OLDEST, Case, constant_case, counted, is_as_declared, neighbor_case, random_case
from tests.fuzz.judge import LEVELS, MATHS, Settings
from tests.fuzz.mutation import is_text, mutated, mutated_bytes
from tests.fuzz.node_cases import mutated_case
from tests.fuzz.operators import operators
from tests.fuzz.rule_models import exported, feed_of, instance, rules, sums_nothing

INSTANCES: Final = 6
"""Maximum number of instances of a rule until ONNX Runtime runs one."""

Kind = Callable[[int], tuple[Case | None, Settings]]


def settings_of(seed: int) -> Settings:
    """The level and the math mode of a seed: all pairs in turn."""
    return Settings(LEVELS[seed // len(MATHS) % len(LEVELS)], MATHS[seed % len(MATHS)])


def graphs(seed: int) -> tuple[Case | None, Settings]:
    """Random graphs of 3 to 40 nodes."""
    settings = settings_of(seed)
    if seed // 6 % 2:
        settings = replace(settings, prices=seed)
    return random_case(seed, tame=True if settings.math == "finite" else None), settings


def rule_instances(seed: int) -> tuple[Case | None, Settings]:
    """Instances of the left side of each rule in turn, optimized with that rule alone, and compared with the right side. Not every left
    side still matches after it was written to ONNX and read again.
    """
    names = list(rules())
    name = names[seed % len(names)]
    rule = rules()[name]
    settings = Settings(0, rule.math, rule=name, prices=seed)
    sides = seed // len(names) % 2 == 1
    random = np.random.default_rng(seed)
    for _ in range(INSTANCES):
        trial = instance(rule, random)
        if trial is None:
            break
        try:
            opset = int(random.integers(23, NEWEST + 1))  # which has all operators that rules produce
            model = exported(trial, opset)
            other = exported(trial, opset, right=True) if sides else None
        except (OnnxError, ValueError):  # some operators and drawn attributes have no form in ONNX
            continue
        feed = feed_of(model, trial.case)
        if feed is None or any(
            sums_nothing(side, feed) for side in (trial.program and trial.program.body, trial.right) if side is not None
        ):
            continue
        case = counted(f"instance {seed} of {name}", model, (feed,))
        if case is not None:
            return replace(case, other=other), settings
    return None, settings


def constants(seed: int) -> tuple[Case | None, Settings]:
    """A node on constants, of each operator in turn: it must be folded to the value of ONNX Runtime."""
    ops = sorted({op for opset in range(OLDEST, NEWEST + 1) for op in operators(opset)})
    return constant_case(seed, ops[seed % len(ops)]), Settings(3, MATHS[(seed + seed // len(ops)) % 2])


def conversions(seed: int) -> tuple[Case | None, Settings]:
    """Random graphs to be converted to a later opset."""
    random = np.random.default_rng(seed)
    case = random_case(seed, newest=NEWEST - 1, most=8)
    opset = max((entry.version for entry in case.model.opset_import if not entry.domain), default=0) if case is not None else 0
    return case, Settings(3, MATHS[seed % 2], opset=int(random.integers(opset + 1, NEWEST + 1)))


def mutations(seed: int) -> tuple[Case | None, Settings]:
    """Files with some bytes changed, and models with some fields changed: they must be rejected with a sentence, or optimized correctly."""
    random = np.random.default_rng(seed)
    original = random_case(seed, most=8)
    settings = settings_of(seed)
    if original is None:
        return None, settings
    name = f"mutation {seed}"
    if seed % 2:
        data = mutated_bytes(original.model.SerializeToString(), random)
        try:
            model = ModelProto.FromString(data)
        except DecodeError:
            return Case(name, ModelProto(), (), data), settings
    else:
        model = mutated(original.model, random)
    case = counted(name, model, original.feeds)
    if case is not None and is_text(model):
        return case, settings
    return Case(name, model, (), model.SerializeToString()), settings


def forms(seed: int) -> tuple[Case | None, Settings]:
    """Random graphs in another form, compared with ONNX Runtime running the same form."""
    original = random_case(seed, most=12)
    if original is None:
        return None, settings_of(seed)
    model = in_another_form(original.model, np.random.default_rng(seed))
    case = counted(f"form {seed}", model, original.feeds)
    kept = tuple(feed for feed in case.feeds if is_as_declared(model, feed)) if case is not None else ()
    return replace(case, feeds=kept) if case is not None and kept else None, settings_of(seed)


def neighbors(seed: int) -> tuple[Case | None, Settings]:
    """Operators that Passat leaves opaque, each in turn, between operators that rules rewrite."""
    settings = settings_of(seed)
    if seed // 6 % 3 == 0:
        settings = replace(settings, prices=seed)
    ops = sorted({op for opset in range(OLDEST, NEWEST + 1) for op in operators(opset)} - set(READERS))
    return neighbor_case(seed, ops[seed % len(ops)], tame=True if settings.math == "finite" else None), settings


def nodes(seed: int) -> tuple[Case | None, Settings]:
    """The test cases of the onnx package, randomly changed, with the shapes of their results."""
    return mutated_case(seed), settings_of(seed)


KINDS: Final[Mapping[str, Kind]] = {
    "graphs": graphs,
    "rules": rule_instances,
    "constants": constants,
    "nodes": nodes,
    "neighbors": neighbors,
    "conversions": conversions,
    "mutations": mutations,
    "forms": forms,
}

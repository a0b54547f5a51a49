"""What is tried: each kind makes of a seed a case, and the settings to optimize it with."""

from collections.abc import Callable, Mapping
from typing import Final

from tests.fuzz.graphs import Case, random_case
from tests.fuzz.judge import LEVELS, MATHS, Settings

Kind = Callable[[int], tuple[Case | None, Settings]]


def settings_of(seed: int) -> Settings:
    """The level and the math mode of a seed: all pairs in turn."""
    return Settings(LEVELS[seed // len(MATHS) % len(LEVELS)], MATHS[seed % len(MATHS)])


def graphs(seed: int) -> tuple[Case | None, Settings]:
    """Random graphs of 3 to 40 nodes."""
    settings = settings_of(seed)
    return random_case(seed, tame=True if settings.math == "finite" else None), settings


KINDS: Final[Mapping[str, Kind]] = {"graphs": graphs}

"""What is the same in all tests: a command line made once, and the share of random examples that CI takes."""

import functools
from collections.abc import Iterator

import pytest
from hypothesis import settings
from typer.main import get_command

from tests.share import share

settings.register_profile("share", settings(), max_examples=share(40, 100))
settings.load_profile("share")
"""For laws that say no number of their own."""


@pytest.fixture(autouse=True, scope="session")
def _commands_are_made_once() -> Iterator[None]:
    """Typer's runner makes all commands anew each time it is called, which takes longer than many of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", functools.cache(get_command))
        yield

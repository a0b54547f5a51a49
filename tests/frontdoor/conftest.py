"""What the tests of the front door share: registries that forget the passes of rule files."""

from collections.abc import Iterator

import pytest

from tests.registries import sandbox


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    with sandbox():
        yield

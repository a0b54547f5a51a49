"""Relay's text format, version 0.0.5."""

from typing import Any as AnyValue


def astext(node: AnyValue, show_meta_data: bool = True) -> str:
    """The text."""
    return object.__repr__(node)

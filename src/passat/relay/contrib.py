"""`relay.op.contrib`: tables of patterns, for MergeComposite."""

from typing import Any as AnyValue

__all__ = ["get_pattern_table", "register_pattern_table"]


def register_pattern_table(compiler: str, table: AnyValue = None) -> AnyValue:
    """Registers a table of patterns, or a function that creates it, under a name. Without a table, returns a decorator for such a
    function."""
    from passat.rules.passes.merge_composite import register_pattern_table as register  # loads the rules

    return register(compiler, table)


def get_pattern_table(compiler: str) -> AnyValue:
    """The table of patterns with a name. Raises ValueError that lists the known names."""
    from passat.rules.passes.merge_composite import get_pattern_table as get  # loads the rules

    return get(compiler)

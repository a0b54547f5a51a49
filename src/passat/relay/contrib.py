"""`relay.op.contrib`: tables of patterns, for MergeComposite."""

from typing import Any as AnyValue

__all__ = ["get_pattern_table", "register_pattern_table"]


def register_pattern_table(compiler: str, table: AnyValue = None) -> AnyValue:
    """Registers a table of patterns, or a function that makes it, under a name; without a table, the decorator of such a function."""
    from passat.rules.passes.merge_composite import register_pattern_table as register  # which loads the rules

    return register(compiler, table)


def get_pattern_table(compiler: str) -> AnyValue:
    """The table of patterns of that name. Raises ValueError that names those there are."""
    from passat.rules.passes.merge_composite import get_pattern_table as get  # which loads the rules

    return get(compiler)

"""What shells complete: names of passes, rule sets, rules and options, looked up when the word that is completed is one."""

from collections.abc import Iterable


def passes(incomplete: str) -> list[str]:
    """The names of passes."""
    from passat.passmgr import list_passes

    return _starting(incomplete, (entry.name for entry in list_passes()))


def several_passes(incomplete: str) -> list[str]:
    """The names of passes, behind others and a comma."""
    before, comma, last = incomplete.rpartition(",")
    space = last[: len(last) - len(last.lstrip())]
    return [f"{before}{comma}{space}{name}" for name in passes(last.lstrip())]


def rule_sets(incomplete: str) -> list[str]:
    """The names of rule sets."""
    from passat.rules import library

    return _starting(incomplete, library.rule_sets())


def rules(incomplete: str) -> list[str]:
    """The names of rule sets; behind the name of one and a dot, those of its rules."""
    from passat.rules import library

    known = library.rule_sets()
    found = known.get(incomplete.partition(".")[0]) if "." in incomplete else None
    return rule_sets(incomplete) if found is None else _starting(incomplete, (rule.name for rule in found.rules))


def passes_and_rules(incomplete: str) -> list[str]:
    """The names of passes, rule sets and rules."""
    return sorted({*passes(incomplete), *rules(incomplete)})


def options(incomplete: str) -> list[str]:
    """The options of passes."""
    import passat.rules.passes  # noqa: F401  # importing registers them
    from passat.passmgr import PassContext

    return _starting(incomplete, PassContext.list_configs())


def settings(incomplete: str) -> list[str]:
    """The options of passes, to be followed by a value."""
    return [f"{key}=" for key in options(incomplete)]


def _starting(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]

"""Shell completion for names of passes, rule sets, rules and options. Names are looked up only when such a word is completed."""

import re
from collections.abc import Iterable, MutableMapping
from typing import Final


def passes(incomplete: str) -> list[str]:
    """The names of passes."""
    from passat.passmgr import list_passes

    return _starting(incomplete, (entry.name for entry in list_passes()))


def several_passes(incomplete: str) -> list[str]:
    """The names of passes, after others and a comma."""
    before, comma, last = incomplete.rpartition(",")
    space = last[: len(last) - len(last.lstrip())]
    return [f"{before}{comma}{space}{name}" for name in passes(last.lstrip())]


def rule_sets(incomplete: str) -> list[str]:
    """The names of rule sets."""
    from passat.rules import library

    return _starting(incomplete, library.rule_sets())


def rules(incomplete: str) -> list[str]:
    """The names of rule sets; after the name of a set and a dot, the names of its rules."""
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
    """The options of passes, followed by an equals sign; after that, the values that an option lists."""
    key, equals, value = incomplete.partition("=")
    if not equals:
        return [f"{key}=" for key in options(incomplete)]
    if key not in options(key):
        return []
    from passat.passmgr.options import option_values

    return [f"{key}={value}" for value in _starting(value, option_values(key))]


_SPLIT: Final = re.compile(r"(?<=--config)(\s+)([\w.]+)\s+=(?:\s+(?=[^\s-])|(?=\s|$))")


def join_words(environment: MutableMapping[str, str]) -> str:
    """Joins `--config KEY=VALUE` in the words of bash, which splits words at equals signs. Returns `KEY=` if the word to be completed was
    joined: bash completes only the part after it."""
    words, at = environment.get("COMP_WORDS", ""), int(environment.get("COMP_CWORD") or 0)
    joined = _SPLIT.sub(r"\1\2=", words)
    last = at - len(words.split()) + len(joined.split())
    environment.update(COMP_WORDS=joined, COMP_CWORD=str(last))
    key, equals, _ = (*joined.split(), "")[last].partition("=")
    return key + equals if joined != words else ""


def _starting(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]

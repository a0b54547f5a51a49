"""The options of the passes."""

import json

from generators.markdown import code, prose, table
from passat.passmgr import list_configs


def configuration() -> str:
    """Returns a section for each group of options, from the output of `passat config list`."""
    groups: dict[str, list[str]] = {}
    options = list_configs()
    for key in options:
        groups.setdefault(key.partition(".")[0], []).append(key)
    parts = []
    for group, keys in groups.items():
        rows = [(code(key), code(options[key]["type"]), code(_shown(options[key]["default"])), prose(options[key]["doc"])) for key in keys]
        parts += [f"## {group}", table(("key", "type", "default", "meaning"), rows)]
    return "\n\n".join(parts)


def _shown(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, default=str)

"""The registered passes, and a drawing of the default pipeline with the requirements of its passes."""

import base64
import re

from generators.markdown import code, prose, table
from passat.catalog import PassDetails, pass_details
from passat.passmgr import EVERYTHING, PassContext, list_passes
from passat.rules.passes import default_pipeline


def passes() -> str:
    """Returns an overview in a table, then a section for each pass."""
    all_details = [pass_details(entry.name) for entry in list_passes()]
    return "\n\n".join(
        ["## All passes", table(("pass", "level", "requires", "provides"), map(_row, all_details)), *map(_section, all_details)]
    )


def pipeline_drawing() -> str:
    """Returns the default pipeline at level 4 as a picture."""
    svg = default_pipeline().plan(PassContext(opt_level=4)).to_svg()
    data = base64.b64encode(svg.encode()).decode()
    return f'<img alt="The passes of the default pipeline and what they require" src="data:image/svg+xml;base64,{data}">'


def _row(details: PassDetails) -> tuple[str, str, str, str]:
    return _link(details["name"]), _level(details), ", ".join(map(_link, details["required"])), ", ".join(map(code, details["provides"]))


def _level(details: PassDetails) -> str:
    return "depends on its options" if details["level"] is None else str(details["level"])


def _link(name: str) -> str:
    short = name.rpartition("transform.")[2]
    return f"[{short}](#{re.sub(r'[^a-z0-9_-]', '', short.lower())})"


def _section(details: PassDetails) -> str:
    preserves = ["everything"] if EVERYTHING in details["preserves"] else list(map(code, details["preserves"]))
    options = [
        f"{code(row['name'])}: {code(row['type'])}, " + ("required" if row["needed"] else f"default {code(row['default'])}")
        for row in details["options"]
    ]
    facts = {
        "Registered as": code(details["key"]),
        "Kind": details["kind"],
        "Level": _level(details),
        "Options": "; ".join(options),
        "Requires": ", ".join(map(_link, details["required"])),
        "Required by": ", ".join(map(_link, details["required_by"])),
        "After": ", ".join(map(code, details["after"])),
        "Before": ", ".join(map(code, details["before"])),
        "Provides": ", ".join(map(code, details["provides"])),
        "Preserves": ", ".join(preserves),
        "Members": ", ".join(map(code, details["members"])),
        "Counts": "; ".join(f"{code(name)}: {prose(doc)}" for name, doc in details["counters"].items()),
    }
    listed = "\n".join(f"* {label}: {text}" for label, text in facts.items() if text)
    return f"### {details['name']}\n\n{prose(details['doc'].partition('>>> ')[0])}\n\n{listed}"

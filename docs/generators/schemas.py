"""The schemas of JSON outputs, as tables."""

import json
from pathlib import Path
from typing import Any as AnyValue
from typing import Final

from generators.markdown import code, prose, table

_FOLDER: Final = Path(__file__).resolve().parents[1] / "extra" / "schemas"


def schemas() -> str:
    """Returns a section for each schema, in the order of their names."""
    return "\n\n".join(_section(path) for path in sorted(_FOLDER.glob("*.json")))


def _section(path: Path) -> str:
    schema = json.loads(path.read_text())
    link = f'<a href="../schemas/{path.name}">{path.name}</a>'
    listed = f"An array of {_type(schema['items'])}." if "items" in schema else _properties(schema)
    parts = [f"## {schema['title']}", f"{schema['description']} Schema: {link}", listed]
    for name, each in schema.get("$defs", {}).items():
        text = f"**{name}**: {prose(each.get('description', ''))}"
        parts += [text, _properties(each)] if "properties" in each else [text, _variants(each)]
    return "\n\n".join(part for part in parts if part)


def _properties(schema: AnyValue) -> str:
    rows = [(code(key), _type(value), prose(value.get("description", ""))) for key, value in schema["properties"].items()]
    return table(("key", "type", "meaning"), rows)


def _variants(schema: AnyValue) -> str:
    return "\n".join(f"* {_type(each)}" for each in schema.get("anyOf", ()))


def _type(schema: AnyValue) -> str:
    """Returns a type in words: `array of string`, `string or null`."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema:
        return code(json.dumps(schema["const"]))
    if "enum" in schema:
        return ", ".join(code(json.dumps(value)) for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "prefixItems" in schema:
        return f"array: {', '.join(each.get('description', '') or _type(each) for each in schema['prefixItems'])}"
    if schema.get("type") == "array":
        return f"array of {_type(schema['items'])}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    return str(schema.get("type", "any"))

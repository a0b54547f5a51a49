"""`passat rules`."""

import json

from passat.cli.app import rules_app
from passat.cli.arguments import JsonOption, RulesOption, load
from passat.cli.errors import errors


@rules_app.command("list")
def list_rules(rules: RulesOption = None, as_json: JsonOption = False) -> None:
    """List the rules: those that Passat has, or those of your own files."""
    with errors(as_json):
        from passat.listing import rule_rows, rules_text

        rows = rule_rows(load(rules) if rules else None)
        print(json.dumps(rows, indent=2) if as_json else rules_text(rows))

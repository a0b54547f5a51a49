"""The rules of the library in full."""

from passat.rule_pages import library_page


def every_rule() -> str:
    """Returns a section for each file of rules."""
    return library_page()

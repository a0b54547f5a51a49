"""The prefixes under which TVM registers passes, and the order in which they are tried."""

import pytest

from passat.passmgr import UnknownPassError, get_entry, get_pass, module_pass, register_pass

pytestmark = pytest.mark.usefixtures("forgotten")
PREFIXES = ["transform.", "relay._transform.", "relax.transform.", "tir.transform."]


def register(prefix: str, name: str) -> None:
    register_pass(prefix + name, lambda: module_pass(lambda mod, ctx: mod, opt_level=0, name=prefix))


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_name_is_found_under_each(prefix: str) -> None:
    register(prefix, "Somewhere")
    assert get_pass("Somewhere").info.name == get_pass(f"{prefix}Somewhere").info.name == prefix
    assert (get_entry("Somewhere").key, get_entry("Somewhere").name) == (f"{prefix}Somewhere", "Somewhere")
    for other in PREFIXES:
        if other != prefix:
            with pytest.raises(UnknownPassError, match=f"^there is no pass {other}Somewhere; did you mean Somewhere"):
                get_pass(f"{other}Somewhere")


def test_they_are_tried_in_this_order() -> None:
    for prefix in reversed(PREFIXES):
        register(prefix, "Everywhere")
        assert get_pass("Everywhere").info.name == prefix

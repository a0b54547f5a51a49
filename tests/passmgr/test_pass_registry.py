"""The registry: prefixes, nearest names, options, sources, listing."""

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from passat.ir.module import IRModule
from passat.passmgr import (
    InferType,
    ModulePass,
    PassContext,
    PassInfo,
    PassOptionError,
    UnknownPassError,
    add_pass_source,
    get_entry,
    get_pass,
    list_passes,
    module_pass,
    register_pass,
)
from passat.passmgr.registry import name_and_options

pytestmark = pytest.mark.usefixtures("forgotten")


@dataclass(frozen=True)
class Saturate(ModulePass):
    """Saturates.

    At length.
    """

    rounds: int = 8
    mode: str = "fast"
    info = PassInfo(2, "Saturate")

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return mod


def test_names_and_prefixes() -> None:
    register_pass("Saturate", Saturate)
    register_pass("relay._transform.Other", Saturate)
    for name in ("Saturate", "transform.Saturate", "Other", "relay._transform.Other"):
        assert isinstance(get_pass(name), Saturate)
    for name in ("transform.Other", "relay._transform.Saturate", "x.transform.Saturate"):
        with pytest.raises(UnknownPassError):
            get_pass(name)
    assert (get_entry("Other").key, get_entry("Other").name) == ("relay._transform.Other", "Other")


def test_transform_comes_before_relay() -> None:
    register_pass("relay._transform.Both", lambda: Saturate(1))
    register_pass("transform.Both", lambda: Saturate(2))
    assert get_pass("Both") == Saturate(2)


def test_as_decorator_and_override() -> None:
    assert register_pass("Saturate")(Saturate) is Saturate
    said = "^a pass is already registered under the name 'transform.Saturate'; choose another name, or pass override=True to replace it$"
    with pytest.raises(ValueError, match=said):
        register_pass("Saturate", Saturate)
    register_pass("Saturate", lambda: Saturate(1), override=True)
    assert get_pass("Saturate") == Saturate(1)


def test_a_name_without_a_prefix_is_not_that_of_a_pass_with_one() -> None:
    register_pass("relay._transform.Both", lambda: Saturate(1))
    with pytest.raises(ValueError, match=r"^a pass is already registered under the name 'relay\._transform\.Both'; choose another name"):
        register_pass("Both", lambda: Saturate(2))
    assert get_pass("Both") == Saturate(1)
    register_pass("Both", lambda: Saturate(2), override=True)
    assert get_pass("Both") == Saturate(2)


def test_a_name_that_a_pass_takes_which_is_imported_later() -> None:
    program = (
        "from passat.passmgr import get_pass, module_pass, register_pass\n"
        "register_pass('FoldConstant', module_pass(lambda mod, ctx: mod, opt_level=0, name='FoldConstant'))\n"
        "get_pass('SimplifyExpr')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "ValueError: a pass is already registered under the name 'relay._transform.FoldConstant'; choose another name" in done.stderr


def test_a_decorator_without_a_name_registers_nothing() -> None:
    before = list_passes()
    with pytest.raises(TypeError, match=r"register_pass takes the name of the pass first, not .*: write @register_pass\(NAME\)"):
        register_pass(InferType())  # type: ignore[call-overload]  # as `@register_pass` without parentheses
    assert list_passes() == before


def test_a_pass_itself_may_be_registered(mod: IRModule) -> None:
    @register_pass("Keep")
    @module_pass(opt_level=1)
    def keep(mod: IRModule, ctx: PassContext) -> IRModule:
        """Keeps."""
        return mod

    assert get_pass("Keep") is keep
    assert get_entry("Keep").doc == "Keeps."
    with pytest.raises(PassOptionError, match="the pass Keep has no option 'a'; it has: none"):
        get_pass("Keep", a=1)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Saturat", "did you mean Saturate?"),
        ("saturate", "did you mean Saturate?"),
        ("transform.Saturat", "did you mean Saturate?"),
        ("Satu", "did you mean Saturate?"),
        ("xyz", "`passat passes` shows all names, and --rules FILE.py adds those of a file"),
    ],
)
def test_unknown_names(name: str, text: str) -> None:
    register_pass("Saturate", Saturate)
    with pytest.raises(UnknownPassError) as caught:
        get_pass(name)
    assert str(caught.value) == f"there is no pass {name}; {text}"


def test_options() -> None:
    register_pass("Saturate", Saturate)
    register_pass("Needs", lambda layout: Saturate(mode=layout))
    assert get_pass("Saturate", rounds=3) == Saturate(3)
    assert get_pass("Needs", layout="x") == Saturate(mode="x")
    for name, options, text, option in (
        ("Saturate", {"round": 1}, "the pass Saturate has no option 'round'; it has: rounds, mode; did you mean rounds?", "round"),
        ("Saturate", {"zzz": 1}, "the pass Saturate has no option 'zzz'; it has: rounds, mode", "zzz"),
        ("Saturate", {"rounds": "x"}, "option rounds of the pass Saturate: expected int, got 'x'", "rounds"),
        ("Needs", {}, "the pass Needs requires the option layout", None),
    ):
        given: dict[str, Any] = options
        with pytest.raises(PassOptionError) as caught:
            get_pass(name, **given)
        assert str(caught.value) == text
        assert caught.value.option == option


def test_a_factory_must_make_a_pass() -> None:
    register_pass("MakesNoPass", lambda: 3)  # type: ignore[type-var]  # the mistake
    with pytest.raises(TypeError, match=r"^the factory of the pass MakesNoPass must return a Pass, but returned 3$"):
        get_pass("MakesNoPass")


def test_listing() -> None:
    register_pass("Saturate", Saturate)
    register_pass("Needs", lambda layout: Saturate(mode=layout))
    register_pass("Alias", Saturate)
    entries = {entry.name: entry for entry in list_passes()}
    assert list(entries) == sorted(entries)
    assert {"Alias", "InferType", "Needs", "Saturate"} <= set(entries)
    assert entries["Saturate"].doc == "Saturates.\n\nAt length."
    assert {name: option.default for name, option in entries["Saturate"].options.items()} == {"rounds": 8, "mode": "fast"}
    info = entries["Saturate"].info
    assert info is not None
    assert info.opt_level == 2
    assert entries["Needs"].info is None


def test_sources_are_loaded_when_a_name_is_missing() -> None:
    loaded = []

    def load(name: str) -> None:
        loaded.append(name)
        register_pass(name, Saturate)

    add_pass_source(lambda: load("First"))
    add_pass_source(lambda: load("Second"))
    assert isinstance(get_pass("InferType"), InferType)
    assert loaded == []
    get_pass("First")
    assert loaded == ["First"]
    assert "Second" in [entry.name for entry in list_passes()]
    get_pass("Second")
    assert loaded == ["First", "Second"]


def test_how_a_pass_was_made() -> None:
    register_pass("Saturate", Saturate)

    @register_pass("Twice")
    def twice(rounds: int = 1, *, label: str = "") -> Saturate:
        return Saturate(2 * rounds, label)

    @register_pass("Wrapped")
    @module_pass(opt_level=1, name="OtherName")
    class _Wrapped:
        def __init__(self, depth: int = 1) -> None:
            self.depth = depth

        def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
            return mod

    wrapped: Any = _Wrapped
    assert name_and_options(Saturate()) == ("Saturate", {})
    assert name_and_options(Saturate(8, "slow")) == ("Saturate", {"mode": "slow"})
    assert name_and_options(twice(3)) == ("Twice", {"rounds": 3})
    assert name_and_options(twice()) == ("Twice", {})
    assert name_and_options(wrapped(2)) == ("Wrapped", {"depth": 2})
    assert name_and_options(module_pass(lambda mod, ctx: mod, opt_level=1, name="Unknown")) == ("Unknown", {})

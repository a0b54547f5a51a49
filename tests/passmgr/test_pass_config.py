"""Config options: registration, validation in the constructor, defaults, struct options."""

import math
from dataclasses import dataclass

import pytest

from passat.passmgr import PassContext, list_configs, register_option

pytestmark = pytest.mark.usefixtures("forgotten")


@dataclass
class Unroll:
    auto_max_step: int = 0
    explicit_unroll: bool = True


def test_given_values_and_defaults() -> None:
    register_option("test.depth", int, 256, "How deep.")
    ctx = PassContext(config={"test.depth": 4})
    assert ctx.config["test.depth"] == 4
    assert ctx.get_config("test.depth") == 4
    assert PassContext().get_config("test.depth") == 256
    assert PassContext().get_config("test.depth", 7) == 7
    assert "test.depth" not in PassContext().config


def test_an_option_is_registered_once() -> None:
    register_option("test.once", bool)
    with pytest.raises(ValueError, match=r"the config option 'test.once' is registered already"):
        register_option("test.once", bool)


def test_a_default_fits_its_type() -> None:
    with pytest.raises(TypeError, match="int is wanted, 'x' is given"):
        register_option("test.default", int, "x")
    assert "test.default" not in list_configs()


def test_list_configs() -> None:
    register_option("test.mode", str, "fast", "The mode.")
    assert PassContext.list_configs()["test.mode"] == {"type": "str", "default": "fast", "doc": "The mode."}
    assert list_configs()["passmgr.resolve"]["type"] == "one of 'graph', 'relay'"
    assert list(list_configs()) == sorted(list_configs())


def test_unknown_key() -> None:
    with pytest.raises(AttributeError) as caught:
        PassContext(config={"zzz": 1})
    keys = " ,".join(list_configs())
    assert str(caught.value) == f"Invalid config option 'zzz' candidates are: {keys}"
    assert "passmgr.failed_enter ,passmgr.resolve" in keys
    with pytest.raises(AttributeError, match=r"Invalid config option 'passmgr.resolv' .*; did you mean 'passmgr.resolve'\?"):
        PassContext(config={"passmgr.resolv": "relay"})
    with pytest.raises(AttributeError, match="Invalid config option 'zzz'"):
        PassContext().get_config("zzz", 1)


def test_none() -> None:
    with pytest.raises(AttributeError, match=r"^passmgr.resolve is None; where it is left out, it has its default$"):
        PassContext(config={"passmgr.resolve": None})


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (int, "x", "expect config test.k to have type int but get 'x'"),
        (int, 1.5, "expect config test.k to have type int but get float"),
        (int, True, "expect config test.k to have type int but get bool"),
        (bool, 2, "expect config test.k to have type bool but get int"),
        (tuple[str, ...], "abc", "expect config test.k to have type tuple[str, ...] but get 'abc'"),
        (Unroll, 3, "expect config test.k to have type Unroll but get int"),
        (Unroll, {"auto_max_step": "x"}, "expect config test.k to have type Unroll but get dict"),
    ],
)
def test_wrong_type(kind: object, value: object, text: str) -> None:
    register_option("test.k", kind)
    with pytest.raises(AttributeError) as caught:
        PassContext(config={"test.k": value})
    assert str(caught.value) == text


def test_wrong_choice() -> None:
    with pytest.raises(AttributeError) as caught:
        PassContext(config={"passmgr.resolve": "tvm"})
    assert str(caught.value) == "expect config passmgr.resolve to have type one of 'graph', 'relay' but get 'tvm'"


def test_values_take_the_type_of_the_option() -> None:
    register_option("test.flag", bool)
    register_option("test.rate", float)
    register_option("test.names", tuple[str, ...])
    config = PassContext(config={"test.flag": 1, "test.rate": 2, "test.names": ["a", "b"]}).config
    assert config == {"test.flag": True, "test.rate": 2.0, "test.names": ("a", "b")}
    assert [type(value) for value in config.values()] == [bool, float, tuple]


def test_struct_option_from_a_dict() -> None:
    register_option("test.unroll", Unroll)
    assert PassContext(config={"test.unroll": {"auto_max_step": 4}}).config["test.unroll"] == Unroll(4, True)
    assert PassContext(config={"test.unroll": Unroll(2)}).config["test.unroll"] == Unroll(2)
    with pytest.raises(AttributeError, match="Unroll has no field 'depth'; it has: auto_max_step, explicit_unroll"):
        PassContext(config={"test.unroll": {"depth": 4}})


@pytest.mark.parametrize("value", [-1, -1e-9, math.nan, -math.inf])
def test_a_number_below_the_minimum_of_its_option_is_refused(value: float) -> None:
    register_option("test.at_least_zero", float, 1.0, "A number.", minimum=0)
    assert PassContext(config={"test.at_least_zero": 0}).get_config("test.at_least_zero") == 0
    with pytest.raises(AttributeError, match=r"expect config test.at_least_zero to be at least 0 but get"):
        PassContext(config={"test.at_least_zero": value})

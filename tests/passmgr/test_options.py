"""Options: accepted values, and config options."""

import enum
import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from passat.passmgr import PassContext, list_configs, register_option
from passat.passmgr.options import Word, convert, given_options, parameters, show_annotation, show_value


@dataclass
class Needs:
    layout: str


class Color(enum.Enum):
    RED = "red"
    BLUE = "RED"


@dataclass(frozen=True)
class Unroll:
    step: int = 0
    inner: "Unroll | None" = None


@pytest.mark.parametrize(
    ("value", "annotation", "result"),
    [
        (3, int, 3),
        (3, float, 3.0),
        (0, bool, False),
        ("a", str, "a"),
        (None, int | None, None),
        (3, int | None, 3),
        (3, float | int, 3),
        ("a", Literal["a", "b"], "a"),
        ([1, 2], tuple[int, ...], (1, 2)),
        ((1, "a"), tuple[int, str], (1, "a")),
        ((1, 2), list[int], [1, 2]),
        ([1, 1], frozenset[int], frozenset({1})),
        ((1, 2), Sequence[int], (1, 2)),
        ([1], tuple, (1,)),
        (None, None, None),
        ([1], Any, [1]),
        ("x", "a string annotation", "x"),
        ({"a": 1}, dict, {"a": 1}),
        ({"a": 1}, dict[str, float], {"a": 1.0}),
        (Color.RED, Color, Color.RED),
        ("RED", Color, Color.RED),
        ("red", Color, Color.RED),
        ({"step": 4}, Unroll, Unroll(4)),
        ({"inner": {"step": 4}}, Unroll, Unroll(0, Unroll(4))),
        (None, Unroll | None, None),
        ({}, Unroll | None, Unroll()),
    ],
)
def test_accepted_values(value: object, annotation: object, result: object) -> None:
    converted = convert(value, annotation)
    assert converted == result
    assert type(converted) is type(result)


class Switch(enum.Enum):
    none = 0
    all = 1


@pytest.mark.parametrize(
    ("text", "annotation", "result"),
    [
        ("none", str, "none"),
        ("None", str, "None"),
        ("none", str | None, None),
        ("none", int | None, None),
        ("none", Literal["none", "all"], "none"),
        ("true", Literal["true"], "true"),
        ("true", bool, True),
        ("true", bool | str, True),
        ("inf", float, float("inf")),
        ("inf", str, "inf"),
        ("none", Switch, Switch.none),
        ("none", Any, None),
        ("none", inspect.Parameter.empty, None),
        ("false", "a string annotation", False),
    ],
)
def test_a_word_is_a_string_for_string_options(text: str, annotation: object, result: object) -> None:
    for value, wanted, expected in [
        (Word(text), annotation, result),
        ((Word(text), "a"), tuple[annotation, str], (result, "a")),  # type: ignore[valid-type]  # a type for each case
        ({"a": Word(text)}, dict[str, annotation], {"a": result}),  # type: ignore[valid-type]  # likewise
    ]:
        converted = convert(value, wanted)
        assert converted == expected
        assert type(converted) is type(expected)


@pytest.mark.parametrize("annotation", [object, Any, inspect.Parameter.empty, tuple, list, tuple | int, list[dict]])  # type: ignore[type-arg]  # as users write
def test_no_word_is_let_through(annotation: object) -> None:
    assert list(convert(({"a": (Word("none"), "b")},), annotation)) == [{"a": (None, "b")}]


def test_the_error_for_a_word_names_its_value() -> None:
    with pytest.raises(TypeError, match=r"expected int, got None"):
        convert(Word("none"), int)
    with pytest.raises(TypeError, match=r"expected tuple\[int, ...\], got \(True, 1\)"):
        convert((Word("true"), 1), tuple[int, ...])


@pytest.mark.parametrize(
    ("value", "annotation", "text"),
    [
        (1.0, int, "expected int, got 1.0"),
        (True, int, "expected int, got True"),
        (True, float, "expected float, got True"),
        pytest.param(10**400, float, "expected float, got an int of 401 digits", id="beyond all floats"),
        ("1", int | None, "expected int | None, got '1'"),
        ("c", Literal["a", "b"], "expected one of 'a', 'b', got 'c'"),
        (True, Literal[1], "expected one of 1, got True"),
        ("ab", tuple[str, ...], "expected tuple[str, ...], got 'ab'"),
        ((1, 2, 3), tuple[int, int], "expected tuple[int, int], got (1, 2, 3)"),
        (("a",), tuple[int, ...], "expected tuple[int, ...], got ('a',)"),
        (3, None, "expected None, got 3"),
        (3, str, "expected str, got 3"),
        ("green", Color, "expected one of RED, BLUE, got 'green'"),
        ({"step": "x"}, Unroll, "step of Unroll: expected int, got 'x'"),
        ({"a": 1, "b": "x"}, dict[str, int], "the value of 'b': expected int, got 'x'"),
        ({3: 1}, dict[str, int], "a key: expected str, got 3"),
        ({"a": {"b": "x"}}, dict[str, dict[str, int]], "the value of 'a': the value of 'b': expected int, got 'x'"),
        ({3: 1}, Unroll, "the name of a field of Unroll must be a string, not 3"),
        pytest.param(10**5000, int, "expected int, got an int of 5001 digits", id="beyond what Python writes"),
        ({}, Needs, "Needs requires the field layout"),
    ],
)
def test_rejected_values(value: object, annotation: object, text: str) -> None:
    with pytest.raises(TypeError) as caught:
        convert(value, annotation)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (8, "8"),
        (0.5, "0.5"),
        (True, "True"),
        (None, "None"),
        ("fast", "fast"),
        ("relay.x-1", "relay.x-1"),
        ("two words", '"two words"'),
        ("", '""'),
        ("true", '"true"'),
        ("Inf", '"Inf"'),
        ('"', r'"\""'),
        ((1, ("a", 2.5)), "[1, [a, 2.5]]"),
        ([], "[]"),
        (frozenset({"b", "a"}), "[a, b]"),
        (Color.RED, "RED"),
        ({"a": 1, "two words": [True]}, '{a=1,"two words"=[True]}'),
        ({}, "{}"),
        (Unroll(4), "{step=4}"),
        (Unroll(), "{}"),
    ],
)
def test_text(value: object, text: str) -> None:
    assert show_value(value) == text


def test_passes_without_text() -> None:
    with pytest.raises(ValueError, match=r"a value of type dict cannot be written in pipeline text: {1: 2}"):
        show_value({1: 2})
    with pytest.raises(ValueError, match=r"a value of type bytes cannot be written in pipeline text: b'x'"):
        show_value([b"x"])


def test_show_annotation() -> None:
    assert show_annotation(None) == "None"
    assert show_annotation(tuple[int, ...]) == "tuple[int, ...]"


def test_parameters_with_annotations_that_are_text() -> None:
    def known(a: "int", *, b: "str | None" = None, **rest: object) -> None:
        pass

    def unknown(a: "Nowhere") -> None:  # type: ignore[name-defined]  # noqa: F821  # like a name that only type checkers import
        pass

    assert {name: parameter.annotation for name, parameter in parameters(known).items()} == {"a": int, "b": str | None}
    assert parameters(unknown)["a"].annotation == "Nowhere"


def test_given_options_of_a_dataclass_differ_from_defaults() -> None:
    @dataclass
    class Options:
        rounds: int = 8
        rate: float = 1.0
        flag: bool = True

    assert given_options(Options(8, 1, False)) == {"rate": 1, "flag": False}
    assert given_options(Options()) == {}


pytestmark = pytest.mark.usefixtures("forgotten")


@dataclass
class UnrollMode:
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
    with pytest.raises(ValueError, match=r"the config option 'test.once' is already registered"):
        register_option("test.once", bool)


def test_a_default_fits_its_type() -> None:
    with pytest.raises(TypeError, match="expected int, got 'x'"):
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
    assert "passmgr.resolve" in keys
    with pytest.raises(AttributeError, match=r"Invalid config option 'passmgr.resolv'; did you mean passmgr.resolve\? `passat config"):
        PassContext(config={"passmgr.resolv": "relay"})
    with pytest.raises(AttributeError, match=r"Invalid config option 'resolve'; did you mean passmgr.resolve\?"):
        PassContext(config={"resolve": "relay"})
    with pytest.raises(AttributeError, match="Invalid config option 'zzz'"):
        PassContext().get_config("zzz", 1)


def test_none() -> None:
    with pytest.raises(AttributeError, match=r"^passmgr.resolve must not be None; omit it to use the default$"):
        PassContext(config={"passmgr.resolve": None})


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (int, "x", "expect config test.k to have type int but get 'x'"),
        (int, 1.5, "expect config test.k to have type int but get float"),
        (int, True, "expect config test.k to have type int but get bool"),
        (bool, 2, "expect config test.k to have type bool but get int"),
        (tuple[str, ...], "abc", "expect config test.k to have type tuple[str, ...] but get 'abc'"),
        (UnrollMode, 3, "expect config test.k to have type UnrollMode but get int"),
        (
            UnrollMode,
            {"auto_max_step": "x"},
            "expect config test.k to have type UnrollMode: auto_max_step of UnrollMode: expected int, got 'x'",
        ),
        (dict[str, int], {"a": "x"}, "expect config test.k to have type dict[str, int]: the value of 'a': expected int, got 'x'"),
        pytest.param(int, 10**5000, "expect config test.k to have type int but get an int of 5001 digits", id="digits"),
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
    register_option("test.unroll", UnrollMode)
    assert PassContext(config={"test.unroll": {"auto_max_step": 4}}).config["test.unroll"] == UnrollMode(4, True)
    assert PassContext(config={"test.unroll": UnrollMode(2)}).config["test.unroll"] == UnrollMode(2)
    with pytest.raises(AttributeError, match="UnrollMode has no field 'depth'; it has: auto_max_step, explicit_unroll"):
        PassContext(config={"test.unroll": {"depth": 4}})


@pytest.mark.parametrize("value", [-1, -1e-9, math.nan, -math.inf])
def test_a_number_below_the_minimum_of_its_option_is_rejected(value: float) -> None:
    register_option("test.at_least_zero", float, 1.0, "A number.", minimum=0)
    assert PassContext(config={"test.at_least_zero": 0}).get_config("test.at_least_zero") == 0
    with pytest.raises(AttributeError, match=r"expect config test.at_least_zero to be at least 0 but get"):
        PassContext(config={"test.at_least_zero": value})
    register_option("test.all_at_least_zero", dict[str, float], {}, "Numbers.", minimum=0)
    with pytest.raises(AttributeError, match=f"expect config test.all_at_least_zero to be at least 0 but get {value}.* of 'b'$"):
        PassContext(config={"test.all_at_least_zero": {"a": 1, "b": value}})

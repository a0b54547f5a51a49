"""Programs over data types and references in the interpreter."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from passat import relay
from passat.ir.expr import Call, Constructor, Expr, var
from passat.ir.module import IRModule
from passat.ir.text import parse
from passat.relay.prelude import Prelude
from passat.relay.testing import count, make_nat_expr, make_nat_value
from passat.runtime import ConstructorValue, ExecutorError, RefValue, create_executor
from tests.share import share

PRELUDE = Prelude(IRModule())
PRELUDE.mod.import_from_std("nat.rly")
X, Y = (var(name, shape=(), dtype="int32") for name in "xy")


def constructors(name: str) -> list[Constructor]:
    return [part for part in PRELUDE.get_type(name) if isinstance(part, Constructor)]


CONS, NIL = constructors("List")


def a_list(numbers: Iterable[int]) -> Expr:
    made: Expr = NIL()
    for number in reversed(list(numbers)):
        made = CONS(relay.const(number), made)
    return made


def elements(value: ConstructorValue) -> list[int]:
    found = []
    while value.fields:
        found.append(int(value.fields[0].numpy()))
        value = value.fields[1]
    return found


def run(expr: Expr) -> Any:
    return create_executor(mod=PRELUDE.mod).evaluate(expr)


def add_one(expr: Expr) -> Expr:
    return expr + relay.const(1)


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (PRELUDE.map(relay.Function([X], add_one(X)), a_list([3, 4])), [4, 5]),
        (PRELUDE.filter(relay.Function([X], relay.const(3) < X), a_list([3, 4, 5])), [4, 5]),
        (PRELUDE.concat(a_list([1]), a_list([2, 3])), [1, 2, 3]),
        (PRELUDE.rev(a_list([1, 2, 3])), [3, 2, 1]),
        (PRELUDE.tl(a_list([1, 2, 3])), [2, 3]),
        (PRELUDE.update(a_list([1, 2, 3]), relay.const(1), relay.const(7)), [1, 7, 3]),
        (PRELUDE.map_accuml(relay.Function([X, Y], relay.Tuple([X + Y, X])), relay.const(0), a_list([1, 2, 3])), [3, 1, 0]),
    ],
)
def test_functions_of_lists(call: Call, found: list[int]) -> None:
    value = run(call)
    assert elements(value if isinstance(value, ConstructorValue) else value[1]) == found


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (PRELUDE.length(a_list([3, 4, 5])), 3),
        (PRELUDE.sum(a_list([3, 4, 5])), 12),
        (PRELUDE.foldl(relay.Function([X, Y], X - Y), relay.const(9), a_list([1, 2])), 6),
        (PRELUDE.foldr1(relay.Function([X, Y], X - Y), a_list([5, 2, 1])), 4),
        (PRELUDE.nth(a_list([3, 4, 5]), relay.const(2)), 5),
        (PRELUDE.iterate(relay.Function([X], add_one(X)), relay.const(50))(relay.const(0)), 50),
        (PRELUDE.compose(relay.Function([X], X * X), relay.Function([X], add_one(X)))(relay.const(4)), 25),
    ],
)
def test_functions_to_numbers(call: Call, found: int) -> None:
    assert run(call).numpy() == found


def test_a_long_list_takes_no_stack() -> None:
    length = share(2_000, 5_000)
    value = run(PRELUDE.rev(a_list(range(length))))
    assert elements(value) == list(range(length))[::-1]
    assert run(PRELUDE.length)(value).numpy() == length
    assert value == run(PRELUDE.rev(a_list(range(length))))
    assert value != run(a_list(range(length)))


def test_natural_numbers() -> None:
    assert count(PRELUDE, run(PRELUDE.nat_add(make_nat_expr(PRELUDE, 2), PRELUDE.nat_double(make_nat_expr(PRELUDE, 3))))) == 8
    assert count(PRELUDE, make_nat_value(PRELUDE, 4)) == 4
    assert count(PRELUDE, run(PRELUDE.nat_double)(make_nat_value(PRELUDE, 4))) == 8


def test_constructors_are_functions() -> None:
    option = constructors("Option")[0]
    value = run(PRELUDE.map(option, a_list([1])))
    assert (value.fields[0].constructor, value.fields[0].fields[0].numpy()) == (option, 1)
    assert repr(value.fields[0]) == "Some(NDArray(int32[], 1))"


def test_a_match_without_an_arm() -> None:
    with pytest.raises(ExecutorError, match="no arm of the match accepts Nil of 0 fields"):
        run(PRELUDE.hd(NIL()))


def test_nested_patterns_take_the_first_arm_that_fits() -> None:
    module = parse(
        """type T { Leaf(int32), Pair(T, T) }
        def @f(%t: T) -> int32 {
          match (%t) { Pair(Leaf(%a), Pair(_, Leaf(%b))) => %a - %b, Pair(%l, _) => @f(%l), Leaf(%x) => %x }
        }"""
    )
    leaf, pair = (part for part in module.get_type("T") if isinstance(part, Constructor))

    def leaves(*numbers: int) -> list[Call]:
        return [leaf(relay.const(number)) for number in numbers]

    a, b, c = leaves(7, 5, 2)
    function, executor = module.get_global_var("f"), create_executor(mod=module)
    assert executor.evaluate(function(pair(a, pair(b, c)))).numpy() == 5
    assert executor.evaluate(function(pair(pair(c, a), b))).numpy() == 2


def test_references() -> None:
    text = "fn (%x: int32) { let %r = ref(%x); let %y = ref_read(%r); let %u = ref_write(%r, add(%y, 1)); (ref_read(%r), %y) }"
    result = create_executor().evaluate(relay.parse_expr(text))(4)
    assert [part.numpy() for part in result] == [5, 4]
    given = RefValue(np.int32(3))
    write = create_executor().evaluate(relay.parse_expr("fn (%r: ref(int32)) { ref_write(%r, 9) }"))
    assert len(write(given)) == 0
    assert given.value.numpy() == 9

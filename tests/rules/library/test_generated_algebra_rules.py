"""Rules with holes for operators: each on a program that it rewrites, and, if it has guards, on one that it rejects."""

import pytest

from passat.ir.expr import Expr
from passat.rules.library import Commute, Concatenations, Factoring, MatmulAlgebra, Reductions
from passat.rules.rule import Rule
from tests.rules.building import func, numbers, ops, splat, tup, var
from tests.rules.library.cases import Case, case, pairs
from tests.rules.running import assert_equal_in_value, rewritten

x, y = var("x", (4, 3)), var("y", (4, 3))
row = var("row", (8, 4))
unknown = var("unknown", ("n", 3))


def reduced(name: str, of: Expr, *axes: int, keepdims: bool = False) -> Expr:
    made: Expr = getattr(ops, name)(of, axis=axes or None, keepdims=keepdims)
    return made


def cube(name: str) -> Expr:
    return var("cube", (2, 3, 4), "bool" if name in ("all", "any") else "float32")


def turn(of: Expr, *axes: int) -> Expr:
    made: Expr = ops.transpose(of, axes=axes)
    return made


def join(*parts: Expr, axis: int = 0) -> Expr:
    made: Expr = ops.concatenate(tup(*parts), axis=axis)
    return made


def cut(of: Expr, begin: int, end: int, axis: int = 0) -> Expr:
    made: Expr = ops.strided_slice(of, begin=(begin,), end=(end,), strides=(1,), axes=(axis,))
    return made


CASES: dict[str, Case] = {}
for _kind, _name in (("quantifiers", "all"), ("totals", "max"), ("totals", "prod"), ("floats", "mean")):
    _cube = cube(_name)
    CASES[f"Reductions.repeated_{_kind}[{_name}]"] = case(
        reduced(_name, reduced(_name, _cube, 1, keepdims=True), 0, 1),
        reduced(_name, reduced(_name, _cube, 1, keepdims=True), 2),
        "keepdims is",
    )
for _name in ("sum", "mean", "max", "min"):
    CASES[f"Reductions.repeated_partly_kept[{_name}]"] = case(
        reduced(_name, reduced(_name, cube(_name), 1, keepdims=True), 2), reduced(_name, reduced(_name, cube(_name), 1), 1), "keepdims is"
    )
_total, _mean = reduced("sum", cube("sum"), 1, 2), reduced("mean", cube("mean"), 1, 2, keepdims=True)
CASES["Reductions.counted[quotient]"] = case(_total / splat(12.0), _total / splat(4.0), "4.0 is not the number of elements, 12")
CASES["Reductions.counted[product]"] = case(_total * splat(1 / 12), _total * splat(0.25), "0.25 is not the reciprocal of the number")
CASES["Reductions.counted[mean]"] = case(
    _mean * splat(12.0), reduced("mean", unknown, 0) * splat(12.0), "the size of axis 0 of Tensor[(n, 3), float32] is unknown"
)
for _first, _last in (("sum", "mean"), ("mean", "sum")):
    CASES[f"Reductions.sum_and_mean[{_last}_of_{_first}]"] = case(
        reduced(_last, reduced(_first, cube("sum"), 1), 1), reduced(_last, reduced(_first, cube("sum"), 1, keepdims=True), 2), "keepdims is"
    )
for _kind, _name in (("quantifier", "any"), ("total", "min"), ("total", "reduce_l1")):
    _cube = cube(_name)
    CASES[f"Reductions.{_kind}_of_transpose[{_name}]"] = case(
        reduced(_name, turn(_cube, 0, 2, 1), 1), reduced(_name, turn(_cube, 1, 0, 2), 2), "axes are reordered"
    )
    CASES[f"Reductions.{_kind}_before_transpose[{_name}]"] = case(
        reduced(_name, turn(_cube, 1, 0, 2), 2, keepdims=True), reduced(_name, turn(_cube, 1, 0, 2), 2), "keepdims is False"
    )
    CASES[f"Reductions.{_kind}_of_reshape[{_name}]"] = case(
        reduced(_name, ops.reshape(_cube, newshape=(6, 4))),
        reduced(_name, ops.reshape(_cube, newshape=(6, 4)), 1),
        "does not give a scalar",
    )
for _kind, _name in (("extremum", "max"), ("mean", "mean"), ("sum", "sum")):
    _wide = ops.broadcast_to(var("v", (4, 1)), shape=(4, 3))
    CASES[f"Reductions.{_kind}_of_copies"] = case(
        reduced(_name, _wide, 1, keepdims=True), reduced(_name, _wide, 0, keepdims=True), "does not consist of copies"
    )
for _kind, _name in (("selected", "max"), ("selected", "all"), ("sum", "sum"), ("sum", "mean")):
    _dtype = "bool" if _name == "all" else "float32"
    _single, _open = var("single", (4, 1, 3, 1), _dtype), var("open", (4, "n", 3, 1), _dtype)
    CASES[f"Reductions.{_kind}_of_single[kept, {_name}]"] = case(
        reduced(_name, _single, 1, 3, keepdims=True), reduced(_name, _single, 2, 3, keepdims=True), "axis 2 of"
    )
    CASES[f"Reductions.{_kind}_of_single[dropped, {_name}]"] = case(
        reduced(_name, _single, 1, 3), reduced(_name, _open, 1, 3), "is not known to have size 1"
    )
for _name in ("sum", "max", "min"):
    CASES[f"Factoring.along_concat[{_name}]"] = case(
        reduced(_name, join(x, y), 0), reduced(_name, join(x, y), 1), "the reduction is not over axis 0"
    )
for _name in ("sum", "min"):
    CASES[f"Factoring.across_concat[{_name}]"] = case(
        reduced(_name, join(x, y), 1), reduced(_name, join(x, y), 0), "the reduction is over axis 0"
    )
for _kind, _name in (("linear", "sum"), ("extremum, min", "min")):
    CASES[f"Factoring.of_scaled[{_kind}, multiply]"] = case(
        reduced(_name, x * splat(2.5), 1), reduced(_name, x * numbers((3,)), 1), "is not a single number"
    )
    CASES[f"Factoring.of_scaled[{_kind}, divide]"] = case(reduced(_name, x / splat(2.5), 1), reduced(_name, x / splat(0.0), 1), "is zero")
CASES["Factoring.of_shifted[max]"] = case(reduced("max", x + splat(2.5), 1), reduced("max", x + numbers((3,)), 1), "is not a single number")
CASES["Factoring.of_shifted[mean]"] = case(
    reduced("mean", x + splat(2.5), 1), reduced("mean", var("none", (4, 0)) + splat(2.5), 1), "may be empty"
)
for _name in ("sum", "max", "min"):
    _whole = ops.negative(var("i", (4, 3), "int64"))
    CASES[f"Factoring.of_negative[{_name}]"] = case(
        reduced(_name, ops.negative(x), 1), reduced(_name, _whole, 1), "not floating-point numbers"
    )
_tiles = [var(f"t{i}", (2 + i, 3)) for i in range(4)]
for _count, _many in ((2, "two"), (3, "three"), (4, "four")):
    _parts, _thirds = _tiles[:_count], ops.split(var("s", (12, 3)), indices_or_sections=_count, axis=0)
    _places = tuple(sum(2 + i for i in range(j)) for j in range(1, _count))
    _again = ops.split(join(*_parts), indices_or_sections=_places, axis=0)
    _off = ops.split(join(*_parts), indices_or_sections=tuple(place - 1 for place in _places), axis=0)
    _more = ops.split(var("s", (20, 3)), indices_or_sections=5, axis=0)
    CASES[f"Concatenations.concat_of_split[{_many}]"] = case(
        join(*(_thirds[i] for i in range(_count))), join(*(_more[i] for i in range(_count))), "the split has 5 parts"
    )
    for _i, _place in enumerate(("first", "second", "third", "fourth")[:_count]):
        CASES[f"Concatenations.split_of_concat[{_many}, {_place}]"] = case(_again[_i], _off[_i], "are split into")
CASES["Concatenations.slice_of_part"] = case(cut(join(*_tiles[:3]), 2, 4), cut(join(*_tiles[:3]), 0, 99), "the slice selects range")
_halves, _gap = (cut(row, 0, 3), cut(row, 3, 8)), (cut(row, 0, 3), cut(row, 3, 3))
_other = var("other", (2, 4))
CASES["Concatenations.of_adjacent_slices"] = case(join(_other, *_halves), join(_other, *_gap), "the slices select")
for _inner, _outer in ((2, 2), (2, 3), (3, 2)):
    for _before in range(_outer):
        _holes = _tiles[: _inner + _outer - 1]
        _middle = join(*_holes[_before : _before + _inner])
        _around = [*_holes[:_before], _middle, *_holes[_before + _inner :]]
        _across = [var(f"c{i}", (2, 3)) for i in range(_inner + _outer - 1)]
        _wide_middle = join(*_across[_before : _before + _inner], axis=1)
        _wide_rest = [var(f"w{i}", (2, 3 * _inner)) for i in range(_outer - 1)]
        _label = f"later, {_outer - 1 - _before}, {_before}, {_inner}" if _before else f"first, {_inner}, {_outer - 1}"
        CASES[f"Concatenations.of_concat[{_label}]"] = case(
            join(*_around), join(*_wide_rest[:_before], _wide_middle, *_wide_rest[_before:]), "has two values"
        )


def weighed(kind: str, of: Expr, inputs: int, outputs: int, seed: int = 0) -> Expr:
    shape = (outputs, inputs) if kind == "dense" else (inputs, outputs)
    made: Expr = (ops.nn.dense if kind == "dense" else ops.nn.matmul)(of, numbers(shape, seed=seed))
    return made


def last_biased(of: Expr, size: int, seed: int = 0) -> Expr:
    made: Expr = ops.nn.bias_add(of, numbers((size,), seed=seed), axis=-1)
    return made


for _first in ("matmul", "dense"):
    for _second in ("matmul", "dense"):
        _one = weighed(_first, row, 4, 5)
        _unlike = weighed(_first, row, 4, 1)
        for _rule, _size, _unfit in (("meet", 5, 3), ("meet_larger", 3, 5)):
            _linear, _beside = weighed(_first, row, 4, _size), weighed(_first, row, 4, _unfit)
            CASES[f"MatmulAlgebra.{_rule}[{_second}, none, {_first}]"] = case(
                weighed(_second, _linear, _size, 4), weighed(_second, _beside, _unfit, 4), "the smallest"
            )
            CASES[f"MatmulAlgebra.{_rule}[{_second}, added, {_first}]"] = case(
                weighed(_second, _linear + numbers((_size,)), _size, 4),
                weighed(_second, _linear + numbers((8, 1)), _size, 4),
                "is not a bias",
            )
            CASES[f"MatmulAlgebra.{_rule}[{_second}, biased, {_first}]"] = case(
                weighed(_second, last_biased(_linear, _size), _size, 4),
                weighed(_second, ops.nn.bias_add(_linear, numbers((8,)), axis=0), _size, 4),
                "is not axis -1",
            )
        _plus = weighed(_second, row, 4, 5, seed=1)
        CASES[f"MatmulAlgebra.sum_of_products[none, {_first}, {_second}]"] = case(_one + _plus, _unlike + _plus, "the shapes differ")
        CASES[f"MatmulAlgebra.sum_of_products[both, {_first}, {_second}]"] = case(
            last_biased(_one, 5) + last_biased(_plus, 5, 1), last_biased(_unlike, 1) + last_biased(_plus, 5, 1), "the shapes differ"
        )
        CASES[f"MatmulAlgebra.sum_of_products[shifted, {_first}, {_second}]"] = case(
            (_one + numbers((5,))) + _plus, (_unlike + numbers((5,))) + _plus, "the shapes differ"
        )
        CASES[f"MatmulAlgebra.sum_of_products[left, {_first}, {_second}]"] = case(
            last_biased(_one, 5) + _plus, last_biased(_unlike, 1) + _plus, "the shapes differ"
        )
        CASES[f"MatmulAlgebra.difference_of_products[{_first}, {_second}]"] = case(_one - _plus, _unlike - _plus, "the shapes differ")


def viewed(of: Expr, *shape: int) -> Expr:
    return weighed("matmul", ops.reshape(of, newshape=shape), shape[-1], 3)


_plain = weighed("matmul", row, 4, 5)
CASES["MatmulAlgebra.meet_reshaped[none]"] = case(viewed(_plain, 2, 4, 5), viewed(_plain, 4, 10), "does not have the rows of")
CASES["MatmulAlgebra.meet_reshaped[added]"] = case(
    viewed(_plain + numbers((5,)), 2, 4, 5), viewed(_plain + numbers((8, 1)), 2, 4, 5), "is not a bias"
)
CASES["MatmulAlgebra.meet_reshaped[biased]"] = case(
    viewed(last_biased(_plain, 5), 2, 4, 5), viewed(ops.nn.bias_add(_plain, numbers((8,)), axis=0), 2, 4, 5), "is not axis -1"
)


def both(name: str, a: Expr, b: Expr) -> Expr:
    made: Expr = getattr(ops, name)(a, b)
    return made


_a, _b, _low = var("a", (4, 3)), var("b", (4, 3)), var("low", (4,))
_number, _column, _single = splat(1, ()), numbers((3, 4)), var("single", (4, 1, 3))
for _kind, _name in (("", "power"), ("_extremum", "minimum")):
    CASES[f"Commute.binary{_kind}[transpose]"] = case(
        both(_name, turn(_a, 1, 0), turn(_b, 1, 0)), both(_name, turn(_a, 1, 0), turn(_low, 0)), "two values"
    )
    CASES[f"Commute.binary{_kind}[reshape]"] = case(
        both(_name, ops.reshape(_a, newshape=(12,)), ops.reshape(_b, newshape=(12,))),
        both(_name, ops.reshape(_a, newshape=(12,)), ops.reshape(var("r", (2, 6)), newshape=(12,))),
        "the shapes differ",
    )
    CASES[f"Commute.binary{_kind}[squeeze]"] = case(
        both(_name, ops.squeeze(_single, axis=(1,)), ops.squeeze(var("t", (4, 1, 3)), axis=(1,))),
        both(_name, ops.squeeze(_single, axis=(1,)), ops.squeeze(var("t", (4, 3, 1)), axis=(2,))),
        "the shapes differ",
    )
    CASES[f"Commute.view_and_number{_kind}[squeeze]"] = case(
        both(_name, ops.squeeze(_single, axis=(1,)), _number),
        both(_name, ops.squeeze(_single, axis=(1,)), numbers((3,))),
        "is not a single number",
    )
    CASES[f"Commute.view_and_number{_kind}[transpose]"] = case(
        both(_name, turn(_a, 1, 0), _number), both(_name, turn(_a, 1, 0), _column), "is not a single number"
    )
    CASES[f"Commute.view_and_number{_kind}[reshape]"] = case(
        both(_name, ops.reshape(_a, newshape=(3, 4)), _number),
        both(_name, ops.reshape(_a, newshape=(3, 4)), _column),
        "is not a single number",
    )
    CASES[f"Commute.transpose_and_constant{_kind}"] = case(
        both(_name, turn(_a, 1, 0), _column), both(_name, turn(_a, 1, 0), _number), "is a single number"
    )
TABLE = pairs(
    CASES,
    *(Reductions, Factoring, Concatenations, MatmulAlgebra, Commute),
)


@pytest.mark.parametrize(("rule", "example"), [row[1:] for row in TABLE], ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_fires(rule: Rule, example: Case) -> None:
    made, reasons = rewritten(example.positive, rule)
    assert made, reasons
    for function in made:
        assert_equal_in_value(example.positive, func(function.body, *function.params), exact=False, special=False)


@pytest.mark.parametrize(("rule", "example"), [row[1:] for row in TABLE], ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_rejects(rule: Rule, example: Case) -> None:
    made, reasons = rewritten(example.negative, rule)
    assert not made
    if example.reason:
        assert any(example.reason in reason for reason in reasons), reasons

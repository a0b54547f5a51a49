"""What is printed is parsed back as the same program, and prints as the same text."""

from hypothesis import given, settings

from passat.ir.equality import assert_structural_equal
from passat.ir.expr import Function
from passat.ir.infer import infer_module
from passat.ir.module import IRModule
from passat.ir.text import astext, parse, parse_expr
from tests.strategies import modules, programs


@settings(deadline=None, max_examples=150)
@given(programs(effects=True))
def test_a_program_that_is_printed_and_parsed_is_the_same(program: Function) -> None:
    module = infer_module(IRModule({"main": program}))
    text = astext(module)
    again = parse(text)
    assert_structural_equal(again, module, sharing=True)
    assert astext(again) == text


@settings(deadline=None, max_examples=60)
@given(modules())
def test_a_module_that_is_printed_and_parsed_is_the_same(module: IRModule) -> None:
    text = astext(infer_module(module))
    again = parse(text)
    assert_structural_equal(again, module, sharing=True)
    assert astext(again) == text


@settings(deadline=None, max_examples=100)
@given(programs(effects=True))
def test_an_expression_with_free_variables_comes_back(program: Function) -> None:
    text = astext(program.body)
    again = parse_expr(text)
    assert_structural_equal(again, program.body, map_free_vars=True, sharing=True)

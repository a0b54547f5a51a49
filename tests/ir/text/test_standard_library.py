"""The standard library of Relay programs."""

import pytest

from passat import relay
from passat.ir.equality import structural_equal
from passat.ir.module import IRModule
from passat.ir.text import ParseError, astext, parse
from passat.relay.prelude import Prelude

# with TVM v0.18's types
TYPES = {
    "id": "fn [A](A) -> A",
    "compose": "fn [A, B, C](fn (B) -> C, fn (A) -> B) -> fn (A) -> C",
    "nth": "fn [A](List[A], int32) -> A",
    "foldl": "fn [A, B](fn (A, B) -> A, A, List[B]) -> A",
    "foldr": "fn [A, B](fn (A, B) -> B, B, List[A]) -> B",
    "zip": "fn [A, B](List[A], List[B]) -> List[(A, B)]",
    "map_accuml": "fn [A, B, C](fn (A, B) -> (A, C), A, List[B]) -> (A, List[C])",
    "unfoldr": "fn [A, B](fn (A) -> Option[(A, B)], A) -> List[B]",
    "tmap": "fn [A, B](fn (A) -> B, Tree[A]) -> Tree[B]",
    "nat_iterate": "fn [A](fn (A) -> A, nat) -> fn (A) -> A",
}


def test_types_of_its_functions() -> None:
    prelude = Prelude()
    prelude.mod.import_from_std("nat.rly")
    assert {name: repr(prelude.mod[name].checked_type) for name in TYPES} == TYPES
    assert [getattr(part, "name_hint", "") for part in prelude.get_type("nat")] == ["nat", "zero", "succ"]
    with pytest.raises(AttributeError, match="has no function 'maap'"):
        prelude.maap  # it raises this


def test_it_is_written_and_read() -> None:
    module = Prelude().mod
    assert structural_equal(parse(astext(module)), module)


def test_a_file_is_imported_once_into_an_existing_module() -> None:
    module = parse("def @main(%x: int8) -> int8 { %x }")
    main = module["main"]
    for _ in range(2):
        module.import_from_std("prelude.rly")
        module.import_from_std("nat.rly")
    assert module["main"] is main
    assert len(module.functions) == 30
    with pytest.raises(ParseError, match="the function @id is defined twice"):
        parse("def @id(%x: int8) -> int8 { %x }").import_from_std("prelude.rly")
    with pytest.raises(ValueError, match=r"has no 'std\.rly'; it has: core\.rly, gradient\.rly, nat\.rly, prelude\.rly"):
        IRModule().import_from_std("std.rly")


def test_programs_use_it() -> None:
    prelude = Prelude(IRModule())
    _, cons, nil = prelude.get_type("List")
    assert isinstance(cons, relay.Constructor)
    assert isinstance(nil, relay.Constructor)
    prelude.mod["main"] = relay.Function([], prelude.length(cons(relay.const(1), cons(relay.const(2), nil()))))
    assert repr(relay.transform.InferType()(prelude.mod)["main"].checked_type) == "fn () -> int32"


def test_storage_is_a_type_without_constructors() -> None:
    module = IRModule()
    for _ in range(2):
        module.import_from_std("core.rly")
    assert [repr(variable) for variable in module.get_global_type_vars()] == ["Storage"]
    assert len(module.get_type("Storage")) == 1

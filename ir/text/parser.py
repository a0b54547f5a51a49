"""Parses Relay's text format 0.0.5: modules (`parse`) and expressions (`parse_expr`)."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from passat.ir.collector import collector_paused
from passat.ir.diagnostics import announce
from passat.ir.expr import Constructor, Expr, Function
from passat.ir.infer import infer_module
from passat.ir.module import IRModule, TypeData
from passat.ir.op import find_op
from passat.ir.text.expressions import ExprReader, run
from passat.ir.text.lexer import ParseError, Tokens
from passat.ir.text.literals import EXPRESSION_WORDS
from passat.ir.text.printer import VERSION
from passat.ir.text.types import ONNX_TYPES
from passat.ir.types import GlobalTypeVar, Type, TypeCall

_FORMER_VERSION: Final = re.compile(r"\s*v([0-9]+\.[0-9]+\.[0-9]+)\b")
"""How texts began before version 0.0.5."""
_TOO_DEEP = "types, patterns or lists are nested too deeply here"


def parse(
    source: str,
    source_name: str = "from_string",
    init_module: IRModule | None = None,
    init_meta_table: Mapping[str, Sequence[Expr]] | None = None,
) -> IRModule:
    """Parses a module and infers its types.

    Functions and types of `init_module` are added to the module and can be referred to. `init_meta_table` has the constants of
    `meta[relay.Constant][i]`, by index.

    Raises ParseError with line and column for syntax errors, and `passat.ir.infer.InferError` for ill-typed programs. Both list all errors
    in `diagnostics`; at most 20 syntax errors.

    >>> parse("def @main(%x: Tensor[(2, n), float32]) { %x }")["main"].checked_type
    fn (Tensor[(2, n), float32]) -> Tensor[(2, n), float32]
    """
    with collector_paused():
        try:
            start = IRModule() if init_module is None else init_module.shallow_copy()
            module = _module(_reader(source, source_name, start, init_meta_table))
        except ParseError as error:
            announce(error, None)
            raise
        return infer_module(module)


def parse_expr(source: str, source_name: str = "from_string", module: IRModule | None = None) -> Expr:
    """Parses an expression without inferring types. Global functions and constructors are resolved in `module`, if given.

    Raises ParseError with line and column; `diagnostics` lists all errors.

    >>> parse_expr("free_var %x: int8; (%x, 1u8)")
    free_var %x: int8;
    (%x, 1u8)
    """
    with collector_paused():
        reader = _reader(source, source_name, IRModule() if module is None else module)
        recovery = reader.recovery
        recovery.definition = reader.tokens.at
        try:
            found = run(reader.block("", whole=True))
            if not _at_end(reader.tokens):
                recovery.note(reader.tokens.error(f"expected the end of the text, found {reader.tokens.shown()}"))
            _note_undefined_types(reader)
        except ParseError as error:
            recovery.note(error)
        except RecursionError:
            recovery.note(reader.tokens.error(_TOO_DEEP))
        if recovery.errors:
            raise ParseError.of(recovery.errors)
    return found


fromtext = parse
"""Alias of `parse`, under Relay's name."""


def _reader(text: str, source_name: str, module: IRModule, table: Mapping[str, Sequence[Expr]] | None = None) -> ExprReader:
    if not isinstance(text, str):
        hint = "; decode it first" if isinstance(text, (bytes, bytearray)) else ""
        raise TypeError(f"a program is parsed from a text, not from a {type(text).__name__}{hint}")
    tokens = Tokens(text, source_name)
    former = _FORMER_VERSION.match(text)
    version = tokens.text if tokens.kind == "version" else former and former[1]
    if version not in (None, VERSION):
        raise tokens.error(f"the text has version {version}; only version {VERSION} is supported")
    if tokens.kind == "version":
        tokens.at += 1
    reader = ExprReader(tokens, module)
    reader.metadata.refer_to(table or {})
    return reader


def _at_end(tokens: Tokens) -> bool:
    return tokens.kind in ("end", "metadata")


def _module(reader: ExprReader) -> IRModule:
    tokens, recovery = reader.tokens, reader.recovery
    defined = {var.name_hint for var in reader.module.functions}
    unclear = False  # whether a definition with errors may have defined more functions
    while not _at_end(tokens):
        start = recovery.definition = tokens.at
        failed = True
        try:
            if tokens.accept_word("def"):
                if tokens.kind == "global":
                    defined.add(tokens.text)
                _definition(reader)
            else:
                external = tokens.accept_word("extern")
                if not tokens.accept_word("type"):
                    raise tokens.error(f"expected def, type or extern type, found {tokens.shown()}")
                _type_definition(reader, external)
            failed = False
        except ParseError as error:
            recovery.note(error)
        except RecursionError:
            recovery.note(tokens.error(_TOO_DEEP))
        if failed:
            is_function = tokens.kinds[start + 1] == "global"
            unclear |= not is_function
            if not is_function or recovery.is_full:
                break  # without the missing type or function, the rest would report spurious errors
            tokens.at = recovery.next_definition(start + 1)
            reader.forget_all()
    if not unclear and not recovery.is_full:
        for name, at in reader.first_uses.items():
            if name not in defined and not recovery.is_full:
                recovery.note(tokens.error_at(at, f"the function @{name} is used but not defined"))
        _note_undefined_types(reader)
    if recovery.errors:
        raise ParseError.of(recovery.errors)
    return reader.module


def _definition(reader: ExprReader) -> None:
    tokens = reader.tokens
    at = tokens.at
    name = tokens.expect("global", "after def")
    var = reader.global_var(name, at)
    if var in reader.module.functions:
        raise tokens.error_at(tokens.starts[at], f"the function @{name} is defined twice")
    reader.numbered.clear()
    function = run(reader.function(at))
    assert isinstance(function, Function)
    reader.module.functions[var] = function


def _note_undefined_types(reader: ExprReader) -> None:
    defined = {header.name: len(data.type_vars) for header, data in reader.module.type_definitions.items()}
    for error in reader.types.undefined(defined):
        if not reader.recovery.is_full:
            reader.recovery.note(error)


def _type_definition(reader: ExprReader, external: bool) -> None:
    tokens, types = reader.tokens, reader.types
    at = tokens.at
    header = GlobalTypeVar(types.new_name("of the type"))
    if header in reader.module.type_definitions:
        raise tokens.error_at(tokens.starts[at], f"the type {header.name} is defined twice")
    if header.name in ONNX_TYPES:
        raise tokens.error_at(tokens.starts[at], f"{header.name} is a built-in type of ONNX and cannot be defined")
    outer = dict(types.type_vars)
    params = types.read_params()
    made = TypeCall(header, params) if params else header
    constructors: list[Constructor] = []
    if not external and tokens.accept("{"):
        while tokens.kind != "}":
            name = _constructor_name(reader)
            fields: list[Type] = []
            if tokens.accept("("):
                fields = types.read_list(")", "after the fields of the constructor")[0]
            constructors.append(Constructor(name, fields, made))
            reader.constructors[name] = constructors[-1]
            if not tokens.accept(","):
                break
        tokens.expect("}", "after the constructors")
    types.type_vars = outer
    reader.module.type_definitions[header] = TypeData(header, tuple(params), tuple(constructors))


def _constructor_name(reader: ExprReader) -> str:
    tokens = reader.tokens
    at, bare = tokens.at, tokens.kind == "name"
    name = tokens.expect_name("of a constructor")
    reason = ""
    if name in reader.constructors:
        reason = f"the constructor {name} is defined twice"
    elif bare and name in EXPRESSION_WORDS:
        reason = f"{name} is a keyword; quote it to use it as the name of a constructor"
    elif bare and find_op(name) is not None:
        reason = f"{name} is an operator; quote it to use it as the name of a constructor"
    if reason:
        raise tokens.error_at(tokens.starts[at], reason)
    return name


__all__ = ["ParseError", "fromtext", "parse", "parse_expr"]

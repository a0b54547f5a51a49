"""Shared by the tests of passes: programs before and after, in Relay's text format."""

from typing import Any as AnyValue

from passat.ir.equality import structural_equal
from passat.ir.module import IRModule
from passat.ir.text import parse
from passat.passmgr import Pass, PassContext


def program(signature: str, body: str) -> IRModule:
    """A module with one function; `%x: (2, 3), %n: (3) int32` are its parameters (float32 by default)."""
    params = []
    for param in filter(None, map(str.strip, signature.split("%"))):
        name, _, type_ = param.rstrip(",").partition(":")
        shape, _, dtype = type_.strip().rpartition(")")
        params.append(f"%{name}: Tensor[{shape}), {dtype.strip() or 'float32'}]")
    return parse(f'#[version = "0.0.5"]\ndef @main({", ".join(params)}) {{\n{body}\n}}')


def run(pass_: Pass, module: IRModule, opt_level: int = 4, **config: AnyValue) -> IRModule:
    """Runs a pass on a module; in config keys `__` stands for the dot."""
    with PassContext(opt_level=opt_level, config={key.replace("__", "."): value for key, value in config.items()}):
        return pass_(module)


def becomes(pass_: Pass, signature: str, before: str, after: str, *, sharing: bool = False, **config: AnyValue) -> None:
    """Asserts that a pass turns one program into another; with `sharing`, also that it shares neither more nor less."""
    found = run(pass_, program(signature, before), **config)
    wanted = program(signature, after)
    assert structural_equal(found["main"], wanted["main"], sharing=sharing), f"{found}\nis not\n{wanted}"


def stays(pass_: Pass, signature: str, body: str, **config: AnyValue) -> None:
    """Asserts that a pass leaves a program unchanged."""
    module = program(signature, body)
    assert run(pass_, module, **config)["main"] is module["main"]


def folds(pass_: Pass, signature: str, before: str, after: str, **config: AnyValue) -> None:
    """Asserts that a pass turns one program into another that is written with calls on constants, such as `full(2f, shape=[3])`, because
    constants of several elements have no text form."""
    from passat.rules.passes.simplify import fold_constant

    found, wanted = run(pass_, program(signature, before), **config), run(fold_constant(), program(signature, after))
    assert structural_equal(found["main"], wanted["main"]), f"{found}\nis not\n{wanted}"

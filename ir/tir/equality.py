"""Structural equality and hashing of the loop IR, with TVM v0.8's treatment of variables.

Bound variables correspond to each other. Free variables equal themselves, or with `map_free_vars` correspond one to one in the order in
which they occur.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any as AnyValue

from passat.ir.counting import counted
from passat.ir.tir.expr import Var
from passat.ir.tir.node import Node


def difference(lhs: AnyValue, rhs: AnyValue, map_free_vars: bool = False) -> str | None:
    """Describes the first difference of two programs; None if they are equal.

    >>> from passat.ir.tir.expr import Var
    >>> x, y = Var("x"), Var("y")
    >>> difference(x + 1, y + 1), difference(x + 1, y + 1, map_free_vars=True)
    ('the free variables x and y are different', None)
    """
    to_right: dict[Var, Var] = {}
    to_left: dict[Var, Var] = {}
    compared: set[tuple[int, int, bool]] = set()
    stack: list[tuple[AnyValue, AnyValue, bool]] = [(lhs, rhs, map_free_vars)]
    while stack:
        a, b, mapping = stack.pop()
        if isinstance(a, Var) and isinstance(b, Var):
            mapped = to_right.get(a)
            if mapped is not None or b in to_left:
                if mapped is not b:
                    return f"the variable {a.name} against {b.name}, which corresponds to another one"
            elif mapping:
                if type(a) is not type(b) or a.type_annotation != b.type_annotation:
                    return f"{a.name} of type {a.dtype} against {b.name} of type {b.dtype}"
                to_right[a], to_left[b] = b, a
            elif a is not b:
                return f"the free variables {a.name} and {b.name} are different"
            continue
        if type(a) is not type(b):
            return f"{_kind(a)} against {_kind(b)}"
        if isinstance(a, Node):
            pair = (id(a), id(b), mapping)
            if pair not in compared:
                compared.add(pair)
                parts = [(getattr(a, name), getattr(b, name), mapping or name in a.DEFINES) for name in in_order(a)]
                stack.extend(reversed(parts))
        elif isinstance(a, tuple):
            if len(a) != len(b):
                return f"{counted(len(a), 'part')} against {len(b)}"
            stack.extend([(x, y, mapping) for x, y in zip(a, b, strict=True)][::-1])
        elif isinstance(a, Mapping):
            if a.keys() != b.keys():
                return f"the names {', '.join(map(str, a))} against {', '.join(map(str, b))}"
            stack.extend((a[name], b[name], mapping) for name in a)
        elif _plain(a) != _plain(b):
            return f"{a!r} against {b!r}"
    return None


def in_order(node: Node) -> list[str]:
    """The fields that are compared, those that bind variables first. The names of buffers are not."""
    names = [name for name in node.FIELDS if name != "name"]
    return sorted(names, key=lambda name: name not in node.DEFINES)


def _kind(value: AnyValue) -> str:
    return type(value).__name__ if isinstance(value, Node) else repr(value)


def _plain(value: AnyValue) -> AnyValue:
    return ("float", value.hex()) if isinstance(value, float) else value


def digest(node: AnyValue, map_free_vars: bool = False) -> int:
    """Hashes a program, consistently with `difference`. Without `map_free_vars`, the hash of free variables is valid in this process."""
    numbers: dict[Var, int] = {}
    done: dict[tuple[int, bool], bytes] = {}
    below: dict[tuple[int, bool], list[tuple[AnyValue, bool]]] = {}
    kept: list[AnyValue] = []  # identities of values that are dropped would be reused
    stack: list[tuple[AnyValue, bool]] = [(node, map_free_vars)]
    while stack:
        part, mapping = stack.pop()
        key = (id(part), mapping)
        if isinstance(part, Var):
            done[key] = _var_digest(part, mapping, numbers)
        elif key in below and key not in done:
            done[key] = _hashed(type(part).__name__.encode(), *[done[(id(value), mode)] for value, mode in below[key]])
        elif key not in done:
            kept.append(part)
            inner = _below(part, mapping)
            if inner is None:
                done[key] = _hashed(repr(_plain(part)).encode("utf-8", "surrogatepass"))
            else:
                below[key] = inner
                stack.append((part, mapping))
                stack.extend(reversed(inner))
    return int.from_bytes(done[(id(node), map_free_vars)], "big")


def _below(part: AnyValue, mapping: bool) -> list[tuple[AnyValue, bool]] | None:
    """The values that determine the hash of a value, and whether free variables in them are numbered; None for a plain value."""
    if isinstance(part, Node):
        return [(getattr(part, name), mapping or name in part.DEFINES) for name in in_order(part)]
    if isinstance(part, tuple):
        return [(value, mapping) for value in part]
    if isinstance(part, Mapping):
        return [(value, mapping) for name in sorted(part, key=str) for value in (name, part[name])]
    return None


def _var_digest(var: Var, mapping: bool, numbers: dict[Var, int]) -> bytes:
    if var in numbers or mapping:
        number = numbers.setdefault(var, len(numbers))
        return _hashed(f"{type(var).__name__} {number} {var.type_annotation}".encode())
    return _hashed(f"free {id(var)}".encode())


def _hashed(*parts: bytes) -> bytes:
    state = blake2b(digest_size=8)
    for part in parts:
        state.update(len(part).to_bytes(4, "big"))
        state.update(part)
    return state.digest()

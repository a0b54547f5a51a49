"""The symbols of nodes: interned, and named for egglog."""

from typing import Final

from passat.ir.op import Op

CALL: Final = "call"
CONST: Final = "const"
LEAF: Final = "leaf"
TUPLE: Final = "tuple"
GET: Final = "get"
REGION: Final = "region"
"""A branch, a match, or a call of a non-operator: opaque except for its operands in the surrounding dataflow."""


class Symbol:
    """The head of a node: an operator at an arity, a tuple of a given length, a projection, a constant, or a leaf. Interned by `symbol`;
    `name` is a valid egglog name. Calls with an `out_dtype` that operators do not have by default have a symbol of their own (`widens`), so
    that no law of products matches them: such laws of integers hold modulo the size of one type."""

    __slots__ = ("arity", "has_payload", "kind", "name", "op")

    def __init__(self, kind: str, op: Op | None, arity: int, *, widens: bool = False) -> None:
        self.kind = kind
        self.op = op
        self.arity = arity
        text = op.name if op is not None else kind
        self.name = "s_" + "".join(c if c.isalnum() else f"_{ord(c):x}_" for c in text) + f"_{arity}" + "_wide" * widens
        # Calls carry an integer if the operator has attributes, or if each call is unique.
        self.has_payload = kind in (CONST, LEAF, GET, REGION) or (op is not None and bool(op.attr_params or op.variadic or op.stateful))

    def __repr__(self) -> str:
        return self.name


SYMBOLS: Final[dict[tuple[str, Op | None, int, bool], Symbol]] = {}
"""All symbols, by kind, operator, arity, and whether they widen."""


def symbol(kind: str, op: Op | None, arity: int, *, widens: bool = False) -> Symbol:
    """The interned symbol of a kind, operator and arity."""
    found = SYMBOLS.get((kind, op, arity, widens))
    if found is None:
        found = SYMBOLS[kind, op, arity, widens] = Symbol(kind, op, arity, widens=widens)
    return found


CONST_SYMBOL: Final = symbol(CONST, None, 0)
LEAF_SYMBOL: Final = symbol(LEAF, None, 0)
GET_SYMBOL: Final = symbol(GET, None, 1)

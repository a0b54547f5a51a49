"""Whether a statement may write its result where its operand is."""

from collections.abc import Sequence

from passat.ir.shape import Dim
from passat.ir.tir.expr import Call, PrimExpr, Var
from passat.ir.tir.functor import children, post_order
from passat.ir.tir.linear import Polynomial, Polynomials
from passat.ir.tir.node import Node
from passat.ir.tir.stmt import AttrStmt, For, LetStmt, Stmt, Store, While
from passat.ir.tir.values import Let, Load, Ramp
from passat.passmgr.loops.effects import is_total, mentions
from passat.passmgr.loops.storage_regions import THREADS


def is_in_place(node: Node, written: Var, read: Var) -> bool:
    """Whether two pointers may be one while a statement runs: nothing reads an element after its place is written.

    That holds if the statement has one write through `written`, all reads through `read` are in its value and of the same place, and that
    place differs each time. Neither pointer has other uses.

    >>> from passat.ir.tir.parser import parse_function
    >>> def check(index, pointers="p: Pointer(global int32), q: Pointer(global int32)"):
    ...     function = parse_function(f"primfn({pointers}) {{ for (i: int32, 0, 4) {{ p[{index}] = ((int32*)q[{index}] + 1) }} }}")
    ...     return is_in_place(function.body, *function.params)
    >>> check("(i*2)"), check("floordiv(i, 2)")
    (True, False)
    """
    found: list[tuple[Store, tuple[For, ...]]] = []
    defined: set[Var] = set()
    stack: list[tuple[Node, tuple[For, ...]]] = [(node, ())]
    while stack:
        part, loops = stack.pop()
        if isinstance(part, While) or (isinstance(part, AttrStmt) and part.attr_key in THREADS):
            return False
        if isinstance(part, (For, LetStmt)):
            defined.add(part.loop_var if isinstance(part, For) else part.var)
        if isinstance(part, Store) and part.buffer_var is written:
            found.append((part, loops))
        elif isinstance(part, Stmt):
            if isinstance(part, Store) and part.buffer_var is read:
                return False
            stack.extend((child, (*loops, part) if isinstance(part, For) and child is part.body else loops) for child in children(part))
        elif _uses(part, (written, read)):
            return False
    if len(found) != 1:
        return False
    [(store, loops)] = found
    return _reads_same_place(store, read) and _differs_each_time(store.index, loops, defined)


def _uses(node: Node, pointers: Sequence[Var]) -> bool:
    used = (part.buffer_var if isinstance(part, Load) else part for part in post_order(node))
    return any(isinstance(part, Var) and part in pointers for part in used)


def _reads_same_place(store: Store, read: Var) -> bool:
    """Whether what a write reads through a pointer is what it replaces."""
    if _uses(store.index, (store.buffer_var, read)):
        return False
    polynomials = Polynomials()
    places = _parts(store.index)
    if not all(place.type.is_index for place in places):
        return False
    for part in (*post_order(store.value), *post_order(store.predicate)):
        if isinstance(part, Var) and part in (read, store.buffer_var):
            return False
        if isinstance(part, Call) and part.op.name == "tir.address_of" and _uses(part, (read,)):
            return False
        if isinstance(part, Load) and part.buffer_var is store.buffer_var:
            return False
        if isinstance(part, Load) and part.buffer_var is read:
            others = _parts(part.index)
            if part.dtype != store.value.dtype or [place.dtype for place in others] != [place.dtype for place in places]:
                return False
            if any(polynomials.of(a) != polynomials.of(b) for a, b in zip(places, others, strict=True)):
                return False
    return True


def _parts(index: PrimExpr) -> list[PrimExpr]:
    """The numbers that determine an index: it, or the base and the stride of a ramp."""
    return [index.base, index.stride] if isinstance(index, Ramp) else [index]


def _differs_each_time(index: PrimExpr, loops: Sequence[For], defined: set[Var]) -> bool:
    """Whether an index has another value in each iteration of loops, and in each lane.

    That is proved for sums of a constant and multiples of the loops' variables, as in positional numeral systems: each factor is larger
    than the largest sum of the terms with smaller factors.
    """
    variables = {loop.loop_var for loop in loops}
    if not is_total(index) or any(isinstance(part, Let) for part in post_order(index)) or mentions(index, defined - variables):
        return False
    polynomials = Polynomials()
    for loop in loops:
        if isinstance(loop.extent, Var):
            polynomials.limit(loop.extent, 1, None)  # the body runs
    terms: list[tuple[Polynomial, Polynomial]] = []
    if isinstance(index, Ramp):
        terms.append((polynomials.of(index.stride), index.lanes))
        index = index.base
    elif index.lanes > 1:
        return False
    rest = polynomials.of(index)
    for loop in loops:
        factor, rest = polynomials.factor(rest, loop.loop_var)
        if factor is None:
            return False
        terms.append((factor, polynomials.of(loop.extent)))
    if any(mentions(polynomials.expr(part, index.dtype), variables) for part in (rest, *(factor for factor, _ in terms))):
        return False
    return _is_positional(polynomials, [term for term in terms if term[1] != 1])


def _is_positional(polynomials: Polynomials, terms: list[tuple[Polynomial, Polynomial]]) -> bool:
    """Whether sums of multiples of factors, each below its count, have different values."""
    left: list[tuple[Dim, Dim]] = []
    for factor, count in terms:
        size = next((each for each in (factor, factor * -1) if polynomials.is_at_least(each, 1)), None)
        if size is None:
            return False
        left.append((size, count))
    largest: Dim = 0
    while left:
        smallest = next((term for term in left if all(polynomials.is_at_least(size, term[0]) for size, _ in left)), None)
        if smallest is None or not polynomials.is_at_least(smallest[0], largest + 1):
            return False
        largest = largest + smallest[0] * (smallest[1] - 1)
        left.remove(smallest)
    return True

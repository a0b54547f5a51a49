"""Basic block normal form: a value that several blocks use is bound by a let in an enclosing block."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from passat.ir.expr import Constant, Constructor, Expr, Function, GlobalVar, If, Let, Match, Var
from passat.ir.op import Op
from passat.ir.passat_error import PassatError
from passat.ir.scopes import Scope, Scopes
from passat.ir.sealed import is_sealed
from passat.ir.traverse import children, evaluation_parts, with_children

_Body = Callable[[Scope, Expr], Expr]
_ATOMS: Final = (Var, Constant, GlobalVar, Op, Constructor)


class BasicBlockError(PassatError, ValueError, RuntimeError):
    """A program is not in basic block normal form."""


def to_basic_blocks(expr: Expr) -> Expr:
    """Converts to basic block normal form.

    A block is the body of a function, a branch of an if, or an arm of a match. A node that is used outside the block that evaluates it is
    bound by a let in that block. Other nodes and existing lets stay in place. Sealed functions (`passat.ir.sealed`) are not entered.
    Returns the same object if it is in this form.

    >>> from passat.ir.text import parse_expr
    >>> to_basic_blocks(parse_expr("fn (%c: bool, %x: int8) { %0 = (%x, %x); if (%c) { (%0, 1) } else { (%0, 2) } }"))
    fn (%c: bool, %x: int8) {
      let %x1 = (%x, %x);
      if (%c) {
        (%x1, 1)
      } else {
        (%x1, 2)
      }
    }
    """
    blocks = _Blocks(expr)
    shared = blocks.shared()
    return blocks.bound(shared) if shared else expr


def check_basic_block_normal_form(expr: Expr) -> None:
    """Raises BasicBlockError if a node is used by a block other than its own. A free variable is ambiguous, and raises it too, if several
    blocks use it but their enclosing block does not."""
    blocks = _Blocks(expr)
    found = [*blocks.shared(), *blocks.ambiguous()]
    if found:
        shown = " ".join(str(found[0]).split())
        raise BasicBlockError(
            f"{shown[:100]}{'...' if len(shown) > 100 else ''} is used by several blocks; bind it by a let (ToBasicBlockNormalForm)"
        )


class _Blocks:
    """The blocks of an expression, and the nodes that are used across blocks."""

    def __init__(self, expr: Expr) -> None:
        self._root = expr
        self._scopes = Scopes(expr)
        self._blocks: dict[Scope, Scope] = {self._scopes.root: self._scopes.root}
        for node in reversed(self._scopes.order):  # outer nodes first
            here = self._scopes.place(node) if node in self._scopes.inner else None
            for scope in self._scopes.inner.get(node, ()):
                if here is not None and scope not in self._blocks:
                    self._blocks[scope] = self._blocks[scope.parent] if isinstance(node, Let) else scope

    def _uses(self, node: Expr) -> Iterator[tuple[Expr, Scope]]:
        """The parts of a node, each with the scope in which it is used."""
        here = self._scopes.place(node)
        inner = self._scopes.inner.get(node, ())
        if isinstance(node, Function):
            yield node.body, inner[0]
        elif isinstance(node, Let):
            yield node.value, inner[0]
            yield node.body, inner[1]
        elif isinstance(node, (If, Match)):
            condition, *bodies = children(node)
            yield condition, here
            yield from zip(bodies, inner, strict=True)
        else:
            for part in evaluation_parts(node):
                yield part, here

    def shared(self) -> list[Expr]:
        """The nodes that a block other than their own uses, in the order of evaluation."""
        blocks, found = self._blocks, set()
        for node in self._scopes.order:
            if isinstance(node, Function) and is_sealed(node):
                continue
            for part, scope in self._uses(node):
                if not isinstance(part, _ATOMS) and blocks[scope] is not blocks[self._scopes.place(part)]:
                    found.add(part)
        return [node for node in self._scopes.order if node in found]

    def ambiguous(self) -> list[Var]:
        """The free variables that several blocks use, but not their enclosing block."""
        used: dict[Var, set[Scope]] = {}
        for node in self._scopes.order:
            for part, scope in self._uses(node):
                if isinstance(part, Var) and part not in self._scopes.binders:
                    used.setdefault(part, set()).add(self._blocks[scope])
        return [var for var, blocks in used.items() if self._blocks[self._scopes.place(var)] not in blocks]

    def bound(self, shared: Sequence[Expr]) -> Expr:
        """The expression with nodes bound by lets."""
        bindings: dict[Scope, list[tuple[Var, Expr]]] = {}
        done: dict[Expr, Expr] = {}

        def body(scope: Scope, result: Expr) -> Expr:
            made = done[result]
            for var, value in reversed(bindings.get(scope, ())):
                made = Let(var, value, made, value.span)
            return made

        lifted = set(shared)
        for node in self._scopes.order:
            made = node if isinstance(node, Function) and is_sealed(node) else self._rebuilt(node, done, body)
            if node in lifted:
                var = Var("x")
                var._checked_type = node._checked_type
                bindings.setdefault(self._scopes.place(node), []).append((var, made))
                made = var
            done[node] = made
        return body(self._scopes.root, self._root)

    def _rebuilt(self, node: Expr, done: dict[Expr, Expr], body: _Body) -> Expr:
        here, inner = self._scopes.place(node), self._scopes.inner.get(node, ())
        if isinstance(node, Function):
            return node.with_body(body(inner[0], node.body))
        if isinstance(node, Let):
            value = done[node.value] if inner[0] is here else body(inner[0], node.value)
            return with_children(node, (node.var, value, body(inner[1], node.body)))
        if isinstance(node, (If, Match)):
            condition, *bodies = children(node)
            return with_children(node, (done[condition], *map(body, inner, bodies)))
        return with_children(node, [done[part] for part in children(node)])

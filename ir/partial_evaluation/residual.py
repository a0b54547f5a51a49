"""The residual program: blocks of bindings. Only bindings that the result or an effect needs are built."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from passat.ir.expr import Clause, Expr, Function, If, Let, Match, Pattern, Var
from passat.ir.partial_evaluation.values import Closure, Fuel


@dataclass(eq=False, slots=True)
class Binding:
    """One operation on atoms, or a function, and the variable for its result."""

    var: Var
    block: "Block"
    node: Expr
    """The operation. For a branching operation or a function, it is the source, whose parts are replaced by the `inner` blocks."""
    operands: tuple[Expr, ...] = ()
    inner: "tuple[Block, ...]" = ()
    patterns: tuple[Pattern, ...] = ()
    is_cell: bool = False
    is_live: bool = False
    writes: "list[Binding]" = field(default_factory=list)
    """The writes to a reference that this binding creates; they are needed if the reference is."""
    closure: Closure | None = None
    """For a function that is evaluated on demand: the values that it captures, and the fuel at its creation."""
    fuel: Mapping[Function, Fuel] = field(default_factory=dict)
    made: Function | None = None
    """The evaluated function, with new parameters. Its body is `inner`."""


@dataclass(eq=False, slots=True)
class Block:
    """A sequence of bindings and its result: the body of a function or of a branch."""

    owner: Binding | None
    bindings: list[Binding] = field(default_factory=list)
    result: Expr | None = None
    body: Expr | None = None


class Residual:
    """The blocks of a function. `enter` evaluates the body of a function that is needed, into a block, and returns its parameters."""

    def __init__(self, enter: "Callable[[Binding], Function]") -> None:
        self._enter = enter
        self._blocks: list[Block] = []
        self._bindings: dict[Expr, Binding] = {}
        self._needed: list[Binding] = []

    def block(self, owner: Binding | None) -> Block:
        """A new block. It comes after the one that contains it."""
        made = Block(owner)
        self._blocks.append(made)
        return made

    def add(self, binding: Binding, *, effect: bool = False) -> Binding:
        """Adds a binding to its block. One with an effect is needed in any case."""
        binding.block.bindings.append(binding)
        self._bindings[binding.var] = binding
        if effect:
            self._need(binding)
        return binding

    def write(self, binding: Binding, ref: Expr) -> None:
        """Adds a write, which is needed if the reference is, and in any case if it was not made here."""
        made = self._bindings.get(ref)
        local = made is not None and made.is_cell
        self.add(binding, effect=not local or (made is not None and made.is_live))
        if local and made is not None:
            made.writes.append(binding)

    def body(self, root: Block) -> Expr:
        """Builds the body of the function, whose block has its result."""
        self._need_atoms([root.result])
        while self._needed:
            self._follow(self._needed.pop())
        for block in reversed(self._blocks):  # inner ones first
            if block.owner is None or block.owner.is_live:
                assert block.result is not None  # evaluated
                block.body = block.result
                for binding in reversed(block.bindings):
                    if binding.is_live:
                        block.body = Let(binding.var, _built(binding), block.body, binding.node.span)
        assert root.body is not None
        return root.body

    def _need(self, binding: Binding | None) -> None:
        if binding is not None and not binding.is_live:
            binding.is_live = True
            self._needed.append(binding)

    def _need_atoms(self, atoms: Iterable[Expr | None]) -> None:
        for atom in atoms:
            if isinstance(atom, Var):
                self._need(self._bindings.get(atom))

    def _follow(self, binding: Binding) -> None:
        """Marks the bindings that a needed binding needs."""
        if binding.closure is not None:
            binding.made = self._enter(binding)
        self._need(binding.block.owner)
        self._need_atoms(binding.operands)
        self._need_atoms(block.result for block in binding.inner)
        for write in binding.writes:
            self._need(write)


def _built(binding: Binding) -> Expr:
    node, parts = binding.node, [block.body for block in binding.inner]
    bodies = [part for part in parts if part is not None]
    if binding.made is not None:
        return binding.made.with_body(bodies[0])
    if not bodies:
        return node
    if isinstance(node, If):
        return If(binding.operands[0], bodies[0], bodies[1], node.span)
    assert isinstance(node, Match)
    clauses = [Clause(pattern, body) for pattern, body in zip(binding.patterns, bodies, strict=True)]
    return Match(binding.operands[0], clauses, node.complete, node.span)

"""The input of the partial evaluator: functions in A-normal form, with captured variables, sizes, and the effects of calls."""

from passat.ir.analysis import free_vars
from passat.ir.anf import to_anf
from passat.ir.effects import effectful_nodes, pure_functions
from passat.ir.expr import Call, Expr, Function, Let, Match, Var
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.sealed import is_sealed
from passat.ir.traverse import children, pattern_vars


class Sources:
    """The properties of all functions of a module that were read so far, and of the functions inside them."""

    def __init__(self, module: IRModule) -> None:
        self._pure = pure_functions(module, *module.functions.values())
        self.captured: dict[Function, tuple[Var, ...]] = {}
        """The variables that each nested function captures."""
        self.sizes: dict[Function, int] = {}
        """The number of operations of each function, without those of the functions inside it."""
        self._effectful: set[Expr] = set()
        self._read: dict[Function, Function] = {}

    def read(self, function: Function) -> Function:
        """A function of a module in A-normal form. Raises InferError for an ill-typed one."""
        if function not in self._read:
            made = to_anf(infer_type(function))
            self._read[function] = self._read[made] = made
            self._effectful |= effectful_nodes(made.body, self._pure)
            self._analyze(made)
        return self._read[function]

    def has_effects(self, call: Call) -> bool:
        """Whether a call may have or observe effects, or might not return."""
        return call in self._effectful

    def _analyze(self, root: Function) -> None:
        """Finds captured variables and sizes. In A-normal form each function is in one place."""
        homes: dict[Var, Function] = {}
        outer: dict[Function, Function | None] = {}
        captured: dict[Function, dict[Var, None]] = {}
        uses: list[tuple[Var, Function]] = []
        stack: list[tuple[Expr, Function | None]] = [(root, None)]
        while stack:
            node, home = stack.pop()
            if isinstance(node, Function) and (home is None or not is_sealed(node)):
                outer[node], captured[node], self.sizes[node] = home, {}, 0
                homes.update((param, node) for param in node.params)
                stack.append((node.body, node))
                continue
            assert home is not None  # everything else is in a function
            if isinstance(node, Function):
                captured[node] = dict.fromkeys(free_vars(node))
                uses += ((var, home) for var in captured[node])
            elif isinstance(node, Var):
                uses.append((node, home))
            elif isinstance(node, Let):
                homes[node.var] = home
                self.sizes[home] += 1
                stack += [(node.body, home), (node.value, home)]
            else:
                if isinstance(node, Match):
                    homes.update((var, home) for clause in node.clauses for var in pattern_vars(clause.lhs))
                stack += ((part, home) for part in children(node))
        for var, user in uses:
            place: Function | None = user
            while place is not None and homes.get(var) is not place and var not in captured[place]:
                captured[place][var] = None
                place = outer[place]
        self.captured.update((function, tuple(found)) for function, found in captured.items())

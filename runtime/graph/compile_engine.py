"""The compile engine: names and compiles primitive functions, each once for every target."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from passat.ir.counting import counted
from passat.ir.equality import structural_equal
from passat.ir.expr import Call, Function
from passat.ir.hashing import structural_hash
from passat.ir.infer import infer_type
from passat.ir.op import Op
from passat.ir.tensor import Tensor
from passat.ir.traverse import post_order
from passat.ir.types import TensorType, compatible
from passat.runtime.devices import Target
from passat.runtime.graph.graph_error import GraphError
from passat.runtime.graph.primitive import KernelPrimitive, Primitive, compile_primitives, flat_function, flat_types
from passat.runtime.packed_func import PackedFunc
from passat.runtime.values import NDArray

_LONGEST: Final = 80
"""Maximum length of a name without its number."""


class CCacheKey:
    """A function and a target. Equal keys have structurally equal functions and the same target."""

    def __init__(self, source_func: Function, target: Target | str) -> None:
        self.source_func = source_func
        self.target = (Target(target) if isinstance(target, str) else target).for_building()
        self._hash = hash((structural_hash(infer_type(source_func)), str(self.target)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CCacheKey):
            return NotImplemented
        same = self is other or (self._hash == other._hash and str(self.target) == str(other.target))
        return same and structural_equal(self.source_func, other.source_func)

    def __hash__(self) -> int:
        return self._hash


class CachedFunc:
    """A compiled function: its target, its name, the types of its tensors, and its source, with a parameter for each (`flat_function`).

    `primitive` computes it; without one, the function is compiled for the target on first use. `outputs` are the types of its results if
    they are not those of the function.
    """

    def __init__(
        self,
        flat: Function,
        func_name: str,
        target: Target,
        primitive: Primitive | None = None,
        outputs: Sequence[TensorType] | None = None,
    ) -> None:
        self.target, self.func_name, self.funcs = target, func_name, [flat]
        self.inputs = [type_ for param in flat.params for type_ in flat_types(param.checked_type)]
        self.outputs = flat_types(flat.body.checked_type) if outputs is None else outputs
        self.together: Sequence[CachedFunc] = (self,)
        """The functions that are compiled with this one, on the first use of any of them."""
        if primitive is not None:
            self.primitive = primitive

    def same_as(self, other: object) -> bool:
        """Whether `other` is the same object."""
        return self is other

    @cached_property
    def primitive(self) -> Primitive:
        """What computes the function, compiled on first use."""
        new = [func for func in self.together if "primitive" not in func.__dict__]
        made = compile_primitives([func.funcs[0] for func in new], self.target)
        for func, primitive in zip(new, made, strict=True):
            if func is not self:
                func.__dict__["primitive"] = primitive
        return made[new.index(self)]

    def run(self, args: Sequence[Tensor]) -> Sequence[Tensor]:
        """Computes the results. Raises GraphError that names the function."""
        if len(args) != len(self.inputs):
            raise GraphError(f"{self.func_name} takes {counted(len(self.inputs), 'tensor')}, not {len(args)}")
        try:
            return self.primitive(args)
        except (ValueError, ArithmeticError, MemoryError) as error:
            raise GraphError(f"{self.func_name}: {error}") from error

    @cached_property
    def packed_func(self) -> PackedFunc:
        """The function on arrays: the inputs, then the arrays that the results are written to."""
        return PackedFunc(self._into, self.func_name)

    def _into(self, *args: NDArray) -> None:
        wanted = len(self.inputs) + len(self.outputs)
        if len(args) != wanted or not all(isinstance(arg, NDArray) for arg in args):
            raise TypeError(
                f"{self.func_name} takes {counted(wanted, 'array')}: {counted(len(self.inputs), 'input')}, then "
                f"{counted(len(self.outputs), 'result')}"
            )
        for place, (arg, type_) in enumerate(zip(args, self.inputs, strict=False)):
            if not compatible(type_, TensorType(arg.shape, arg.dtype)):
                raise TypeError(f"the argument {place} of {self.func_name} has the type {type_!r}, not {arg.dtype}{list(arg.shape)}")
        results = self.run([arg.tensor for arg in args[: len(self.inputs)]])
        for out, result in zip(args[len(self.inputs) :], results, strict=True):
            out.copyfrom(NDArray(result))


def compile_together(functions: Sequence[CachedFunc]) -> None:
    """Lets functions of one target be compiled with each other, on the first use of any of them."""
    for func in functions:
        func.together = functions


@dataclass(eq=False)
class CCacheValue:
    """An entry of the cache: the function, and its number of reuses."""

    cached_func: CachedFunc
    use_count: int = 0

    @property
    def packed_func(self) -> PackedFunc:
        """The function on arrays."""
        return self.cached_func.packed_func


@dataclass
class CompileEngine:
    """A cache of compiled functions. `get()` returns the one that scripts share; `build` uses one for each module.

    >>> from passat.ir.text import parse_expr
    >>> engine = CompileEngine()
    >>> double = parse_expr("fn (%x: Tensor[(2), float32]) { add(%x, %x) }")
    >>> engine.lower(double, "numpy").func_name, engine.lower(double, "numpy") is engine.lower(double, "numpy")
    ('fused_add', True)
    """

    prefix: str = "fused"
    _cache: dict[CCacheKey, CCacheValue] = field(default_factory=dict)
    _shapes: dict[CCacheKey, CCacheValue] = field(default_factory=dict)
    _names: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def get() -> "CompileEngine":
        """The shared engine."""
        return _SHARED

    def lower(self, source_func: Function | CCacheKey, target: Target | str | None = None) -> CachedFunc:
        """The compiled form of a function; the same for equal functions and targets.

        Raises ValueError for a function without a target, TypeError for other values, and GraphError for functions that cannot be compiled.
        """
        return self._entry(source_func, target).cached_func

    def jit(self, source_func: Function | CCacheKey, target: Target | str | None = None) -> PackedFunc:
        """The compiled function as a callable on arrays: the inputs, then the arrays for the results."""
        return self._entry(source_func, target).packed_func

    def lower_shape_func(self, source_func: Function | CCacheKey, target: Target | str | None = None) -> CachedFunc:
        """The function that computes the sizes of the results from the inputs, as int64 tensors.

        They follow from the types, unless they depend on elements; then the function itself is computed.
        """
        key = _key(source_func, target)
        found = self._shapes.get(key)
        if found is None:
            function = flat_function(key.source_func)
            results = flat_types(function.body.checked_type)
            outputs = [TensorType((type_.ndim,), "int64") for type_ in results]
            name = self.unique_name(f"shape_func_{_described(function)}")
            found = self._shapes[key] = CCacheValue(CachedFunc(function, name, key.target, _ShapePrimitive(function), outputs))
        else:
            found.use_count += 1
        return found.cached_func

    def items(self) -> list[tuple[CCacheKey, CCacheValue]]:
        """The entries of the cache, in order."""
        return list(self._cache.items())

    def clear(self) -> None:
        """Empties the cache; names start over."""
        self._cache.clear()
        self._shapes.clear()
        self._names.clear()

    def dump(self) -> str:
        """The contents of the cache as text, with the number of uses of each entry."""
        line = "-" * 36
        parts = [f"{'=' * 36}\nCompilerEngine dump, {len(self._cache)} items cached\n"]
        for key, value in self._cache.items():
            func = value.cached_func
            parts.append(f"{line}\ntarget={key.target}\nuse_count={value.use_count}\nfunc_name={func.func_name}\n{key.source_func}\n")
        return "".join([*parts, "=" * 35, "\n"])

    def unique_name(self, name: str) -> str:
        """The name, with a number if it is taken."""
        count = self._names.get(name)
        self._names[name] = 1 if count is None else count + 1
        return name if count is None else self.unique_name(f"{name}_{count}")

    def _entry(self, source_func: Function | CCacheKey, target: Target | str | None) -> CCacheValue:
        key = _key(source_func, target)
        found = self._cache.get(key)
        if found is not None:
            found.use_count += 1
            return found
        function = flat_function(key.source_func)
        name = self.unique_name(f"{self.prefix}_{_described(function)}")
        return self._cache.setdefault(key, CCacheValue(CachedFunc(function, name, key.target)))


_SHARED: Final = CompileEngine()


class _ShapePrimitive:
    """Computes sizes of results."""

    implementation = "kernels"

    def __init__(self, function: Function) -> None:
        self._function = function
        self._results = flat_types(function.body.checked_type)

    def __call__(self, args: Sequence[Tensor]) -> Sequence[Tensor]:
        types = self._results
        if any(not isinstance(dim, int) for type_ in types for dim in type_.shape):
            types = [TensorType(result.shape, result.dtype) for result in KernelPrimitive(self._function)(args)]
        return [Tensor.dense(np.array(type_.shape, np.int64)) for type_ in types]


def _key(source_func: Function | CCacheKey, target: Target | str | None) -> CCacheKey:
    if isinstance(source_func, CCacheKey):
        return source_func
    if not isinstance(source_func, Function):
        raise TypeError(f"Expect source_func to be CCacheKey or a function, not a {type(source_func).__name__}")
    if target is None:
        raise ValueError("Need target when source_func is a Function")
    return CCacheKey(source_func, target)


def _described(function: Function) -> str:
    """The names of the operators, in order."""
    names = [node.op.name for node in post_order(function.body) if isinstance(node, Call) and isinstance(node.op, Op)]
    return "_".join(names).replace(".", "_")[:_LONGEST] or "identity"

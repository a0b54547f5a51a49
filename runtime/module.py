"""Modules of functions (TVM's runtime modules), and the measurement of their times."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any as AnyValue
from typing import Final

from passat.ir.counting import counted
from passat.ir.similar_names import did_you_mean
from passat.ir.walks import reachable
from passat.runtime.devices import Device
from passat.runtime.packed_func import PackedFunc

ENTRY: Final = "__tvm_main__"
"""The name of the entry function of a module with several functions."""


class Module:
    """Functions by name, and imported modules. Calling a module calls its entry function: its only one, or `__tvm_main__`.

    >>> double = Module({"double": lambda x: 2 * x})
    >>> whole = Module({"add": lambda x, y: x + y})
    >>> whole.import_module(double)
    >>> whole["add"](1, 2), whole.get_function("double", query_imports=True)(4), double(3)
    (3, 8, 6)
    """

    entry_name: Final = ENTRY
    """The name by which `get_function` and `time_evaluator` find the entry function."""

    def __init__(self, functions: Mapping[str, Callable[..., AnyValue]] | None = None, type_key: str = "python") -> None:
        if functions is not None and not isinstance(functions, Mapping):
            raise TypeError(f"the functions of a module are given by name, not as a {type(functions).__name__}")
        self.functions: dict[str, Callable[..., AnyValue]] = dict(functions or {})
        self.type_key = type_key
        self.imported_modules: list[Module] = []

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunc:
        """The function of that name, also of imported modules with `query_imports`. Raises AttributeError with the known names."""
        found = self._find(name, query_imports=query_imports)
        if found is None:
            known = sorted(self.functions)
            raise AttributeError(f"Module has no function '{name}'; it has: {', '.join(known) or 'none'}{did_you_mean(name, known)}")
        return found

    def implements_function(self, name: str, query_imports: bool = False) -> bool:
        """Whether the module has a function of that name."""
        return self._find(name, query_imports=query_imports) is not None

    def _find(self, name: str, *, query_imports: bool) -> PackedFunc | None:
        for module in self.with_imports() if query_imports else [self]:
            own = next(iter(module.functions)) if name == ENTRY and len(module.functions) == 1 else name
            if own in module.functions:
                return PackedFunc(module.functions[own], own)
        return None

    def with_imports(self) -> "Iterator[Module]":
        """The module, and all that it imports, each once."""
        return reachable([self], lambda module: module.imported_modules, id)

    def import_module(self, module: "Module") -> None:
        """Adds a module whose functions this one uses. Raises TypeError for other values."""
        if not isinstance(module, Module):
            raise TypeError(f"a module can import modules, not a {type(module).__name__}")
        self.imported_modules.append(module)

    @property
    def entry_func(self) -> PackedFunc:
        """The entry function of the module. Raises AttributeError if it is ambiguous."""
        return self.get_function(ENTRY)

    def __getitem__(self, name: str) -> PackedFunc:
        if not isinstance(name, str):
            raise ValueError(f"a function of a module is named by a string, not by a {type(name).__name__}")
        return self.get_function(name, query_imports=True)

    def __setitem__(self, name: str, function: Callable[..., AnyValue]) -> None:
        if not callable(function):
            raise TypeError(f"the function {name!r} of a module must be callable, not a {type(function).__name__}")
        self.functions[name] = function

    def __call__(self, *args: AnyValue) -> AnyValue:
        """Calls the entry function."""
        return self.entry_func(*args)

    def time_evaluator(
        self, func_name: str, dev: Device | None = None, number: int = 10, repeat: int = 1, min_repeat_ms: float = 0
    ) -> "Callable[..., BenchmarkResult]":
        """Returns a function that measures another one: it calls it once, then `number` times for each of `repeat` times.

        `number` grows until a measurement takes `min_repeat_ms`. Raises ValueError for counts below one.
        """
        function = self.get_function(func_name, query_imports=True)
        check_counts(number, repeat)

        def measure(*args: AnyValue) -> BenchmarkResult:
            function(*args)
            count, times = number, list[float]()
            while len(times) < repeat:
                begin = time.perf_counter()
                for _ in range(count):
                    function(*args)
                spent = time.perf_counter() - begin
                if spent * 1000 < min_repeat_ms:
                    count = max(count + 1, min(int(count * min_repeat_ms / max(spent * 1000, 1e-3)), count * 10))
                else:
                    times.append(spent / count)
            return BenchmarkResult(times)

        return measure

    def same_as(self, other: object) -> bool:
        """Whether `other` is the same object."""
        return self is other

    def __repr__(self) -> str:
        return f"Module({self.type_key}, {counted(len(self.functions), 'function')})"


def check_counts(number: int, repeat: int) -> None:
    """Raises ValueError for numbers of measurements below one."""
    if not isinstance(number, int) or not isinstance(repeat, int) or number < 1 or repeat < 1:
        raise ValueError(f"number and repeat must be at least 1, not {number!r} and {repeat!r}")


class BenchmarkResult:
    """Measured times in seconds.

    >>> found = BenchmarkResult([1, 2, 2, 5])
    >>> found.mean, found.median, found.max, found.min, found.std
    (2.5, 2.0, 5, 1, 1.5)
    """

    def __init__(self, results: "list[float] | tuple[float, ...]") -> None:
        self.results = tuple(results)
        self.mean = statistics.fmean(self.results)
        self.median = float(statistics.median(self.results))
        self.max = max(self.results)
        self.min = min(self.results)
        self.std = statistics.pstdev(self.results)

    def __repr__(self) -> str:
        return f"BenchmarkResult(min={self.min}, mean={self.mean}, median={self.median}, max={self.max}, std={self.std})"

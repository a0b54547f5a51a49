"""A `tvm` package whose names are Passat's, for running TVM's own tests: a table of modules without features of its own.

Python finds `tvm.relay.testing` here. The module forwards to the modules of Passat in the table. `tvm.topi.testing` is the checkout's own
(`topi_references`). Unknown names can be imported, because one
missing name would keep all tests of a file from running; using one raises AttributeError.
"""

import importlib
import sys
from collections.abc import MutableSequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType
from typing import Any, Final, NoReturn

from tests.conformance.topi_references import PACKAGE, find_reference, reference_file

TABLE: Final[dict[str, tuple[str, ...]]] = {
    "tvm": (
        "passat",
        "tests.conformance.older_names",  # before passat.driver, which imports another Function
        "passat.driver",
        "passat.ir",
        "passat.runtime",
        "passat.relay",
        "passat.container",
        "passat.nd",
        "passat.te",
        "passat.tir",
    ),
    "tvm._ffi": (),
    "tvm._ffi.base": ("passat.error",),
    "tvm.arith": ("passat.arith",),
    "tvm.container": ("passat.container",),
    "tvm.contrib": ("passat.contrib",),
    "tvm.contrib.cudnn": ("tests.conformance.absent_libraries",),
    "tvm.contrib.debugger.debug_runtime": ("passat.contrib.debugger.debug_executor",),
    "tvm.contrib.util": ("passat.contrib.utils",),
    "tvm.contrib.graph_runtime": ("passat.contrib.graph_executor",),
    "tvm.driver": ("passat.driver",),
    "tvm.driver.build_module": ("passat.driver",),
    "tvm.error": ("passat.error",),
    "tvm.expr": ("passat.tir",),
    "tvm.ir": ("passat.ir", "passat.relay", "passat.tir"),
    "tvm.ir.container": ("passat.container",),
    "tvm.ir.instrument": ("passat.instrument",),
    "tvm.ir.transform": ("passat.transform",),
    "tvm.module": ("passat.runtime", "tests.conformance.older_names"),
    "tvm.nd": ("passat.nd",),
    "tvm.ndarray": ("passat.nd",),
    "tvm.parser": ("passat.parser",),
    "tvm.relay": ("passat.relay",),
    "tvm.relay.analysis": ("passat.relay.analysis",),
    "tvm.relay.analysis._ffi_api": ("tests.conformance.solver_names",),
    "tvm.relay.backend.graph_runtime_codegen": ("passat.relay.backend.graph_executor_codegen",),
    "tvm.relay.module": ("passat.relay",),
    "tvm.relay.param_dict": ("passat.runtime",),
    "tvm.relay.testing.config": ("passat.testing",),
    "tvm.relay.op": ("passat.relay.op",),
    "tvm.relay.op.annotation": ("passat.relay.annotation",),
    "tvm.relay.op.contrib": ("passat.relay.contrib",),
    "tvm.relay.op.nn": ("passat.relay.nn",),
    "tvm.relay.op.op": ("passat.relay.op",),
    "tvm.rpc": ("passat.rpc", "tests.conformance.rpc_functions"),
    "tvm.runtime": ("passat.runtime", "passat.nd", "passat.container"),
    "tvm.runtime.module": ("passat.runtime",),
    "tvm.runtime.vm": ("passat.relay.backend.vm",),
    "tvm.runtime.container": ("passat.container",),
    "tvm.relay.frontend.common": ("passat.ir.infer",),
    "tvm.support": ("passat.support",),
    "tvm.script.tir": ("passat.tir",),
    "tvm.target": ("passat.target",),
    "tvm.te": ("passat.te",),
    "tvm.testing": ("passat.testing",),
    "tvm.tir": ("passat.tir",),
    "tvm.tir.op": ("passat.ir.tir.ops",),
    "tvm.tir.transform": ("passat.tir.transform",),
    "tvm.topi": (),
    "tvm.topi.testing": (),
    "tvm.topi.utils": ("passat.tir",),
    "tvm.transform": ("passat.transform",),
}
"""Modules of TVM and the modules of Passat with their names. `tvm.relay.X` is `passat.relay.X` if that exists, otherwise what `tvm.relay`
maps to; the same holds for `tvm.ir.X` and `tvm.ir`."""


def targets(name: str) -> tuple[str, ...]:
    """The modules of Passat that represent a module of TVM."""
    if name in TABLE:
        return TABLE[name]
    own = "passat" + name.removeprefix("tvm")
    try:
        importlib.import_module(own)
    except ImportError:
        return targets(name.rpartition(".")[0])
    return (own,)


class Missing:
    """A name that Passat does not have. During collection it may be used as a decorator or a constant of the file, and compared, which is
    false; later, any use raises AttributeError."""

    collecting = True

    def __init__(self, name: str) -> None:
        self.name = name

    def _reject(self, *_: Any, **__: Any) -> NoReturn:
        raise AttributeError(f"Passat has no {self.name}")

    def __call__(self, *args: Any, **_: Any) -> Any:
        if not Missing.collecting:
            self._reject()
        decorated = len(args) == 1 and isinstance(args[0], (FunctionType, type))
        return args[0] if decorated else Missing(f"{self.name}()")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (object,)

    def _compare(self, other: Any) -> bool:
        if not Missing.collecting:
            self._reject()
        return False

    __lt__ = __le__ = __gt__ = __ge__ = _compare

    __getitem__ = __enter__ = __iter__ = __instancecheck__ = _reject

    def __getattr__(self, name: str) -> "Missing":
        if name.startswith("__"):
            raise AttributeError(name)
        if not Missing.collecting:
            self._reject()
        return Missing(f"{self.name}.{name}")


class Names(ModuleType):
    """A module with TVM's name that forwards to modules of Passat."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: MutableSequence[str] = []
        self.sides = [importlib.import_module(target) for target in targets(name)]
        listed = [getattr(side, "__all__", ()) for side in self.sides]
        self.__all__ = sorted(set().union(*listed))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self.__name__ == PACKAGE:
            return find_reference(name)
        inner = f"{self.__name__}.{name}"
        if inner in sys.modules or inner in TABLE:
            return importlib.import_module(inner)
        for side in self.sides:
            found = getattr(side, name, self)
            if found is not self:
                return found
        return Missing(inner)


class Finder(MetaPathFinder, Loader):
    """Finds `tvm` and every module inside it."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        own = reference_file(name)
        if own is not None:
            return own
        return ModuleSpec(name, self, is_package=True) if name.split(".", maxsplit=1)[0] == "tvm" else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Names(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def install() -> None:
    """Installs the finder in this process."""
    sys.meta_path.insert(0, Finder())

"""Compiles functions of the loop IR in this process with LLVM."""

import ctypes
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any as AnyValue

from passat.ir.passat_error import PassatError
from passat.ir.tir.function import PrimFunc
from passat.runtime.jit.callbacks import Callbacks
from passat.runtime.jit.signature import Signature, explicit


class NoLlvmError(PassatError, RuntimeError):
    """llvmlite is not installed."""

    exit_code = 1


def compile_functions(functions: Mapping[str, PrimFunc]) -> dict[str, Callable[..., None]]:
    """Python functions that run functions of loops on arrays, by name. Raises NoLlvmError, and UnsupportedError for what is not compiled.

    The compiled code lives as long as the functions.
    """
    try:
        import llvmlite.binding as llvm
        import llvmlite.ir as ll
    except ImportError:
        raise NoLlvmError("compiling in this process needs llvmlite: pip install 'passat[jit]'") from None
    from passat.runtime.jit.expressions import UnsupportedError
    from passat.runtime.jit.statements import emit

    module = ll.Module()
    callbacks = Callbacks()
    signatures: dict[str, Signature] = {}
    for name, function in functions.items():
        signature, plain = explicit(function.with_attr("global_symbol", name))
        signatures[name] = replace(signature, assertions=tuple(emit(plain, module, callbacks)), callbacks=callbacks)
    machine = _machine(llvm)
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(parsed, builder)
    for symbol, address in callbacks.symbols.items():
        llvm.add_symbol(symbol, address)
    if os.name == "posix":
        process = ctypes.CDLL(None)
        for called in module.functions:
            known = not called.is_declaration or called.name.startswith("llvm.") or llvm.address_of_symbol(called.name) is not None
            if not known and not hasattr(process, called.name):  # its address would be 0
                raise UnsupportedError(f"no library of this process has the C function {called.name}, which is called")
    engine = llvm.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    return {
        name: signature.caller(ctypes.CFUNCTYPE(ctypes.c_int32, *signature.c_types)(engine.get_function_address(name)), engine)
        for name, signature in signatures.items()
    }


def _machine(llvm: AnyValue) -> AnyValue:
    """The processor of this machine; a new object each time, since an engine owns the one that it gets."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=3)

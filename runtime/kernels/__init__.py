"""Native kernels for nodes that ONNX Runtime does not fuse, as a library of custom operators next to the model."""

from passat.runtime.kernels.fusing import Kernels, fuse
from passat.runtime.kernels.library import library_source
from passat.runtime.kernels.toolchain import CompilerError, NoCompilerError, build_library, compiler

__all__ = ["CompilerError", "Kernels", "NoCompilerError", "build_library", "compiler", "fuse", "library_source"]
